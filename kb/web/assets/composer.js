// The field that questions are written in.
import { button, el, icon } from "./dom.js";
import { t } from "./strings.js";

export class Composer {
  /** `ask` is given a question, `stop` ends the answer that is being written. */
  constructor({ ask, stop }) {
    this.ask = ask;
    this.limit = Infinity;
    this.busy = false;
    this.field = el("textarea", { id: "question", rows: 1, placeholder: t("askHint"), "aria-label": t("askLabel"), enterKeyHint: "send", autocomplete: "off" });
    this.over = el("p", { class: "over", role: "status" });
    this.send = el("button", { type: "submit", class: "send", "aria-label": t("send"), title: t("send") }, icon("send"));
    this.stop = button(t("stop"), "stop", stop, { class: "stop", hidden: true });
    this.root = el("form", { class: "composer", "aria-label": t("ask"), onsubmit: (event) => this.submit(event) }, el("div", { class: "field" }, this.field, this.stop, this.send), this.over);
    this.field.addEventListener("input", () => this.fit());
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.fit();
  }

  key(event) {
    // While an IME composes, Enter takes a candidate; Safari tells only by the key code that it did so.
    const composing = event.isComposing || event.keyCode === 229;
    if (event.key === "Enter" && !event.shiftKey && !composing) this.submit(event);
  }

  submit(event) {
    event.preventDefault();
    const question = this.field.value.trim();
    if (!question || this.busy || this.excess() > 0) return;
    this.field.value = "";
    this.fit();
    this.ask(question);
  }

  /** Characters beyond the limit, as the server counts them. */
  excess() {
    return this.field.value.length > this.limit ? [...this.field.value].length - this.limit : 0;
  }

  fit() {
    if (!CSS.supports("field-sizing", "content")) {
      this.field.style.height = "auto";
      this.field.style.height = `${this.field.scrollHeight}px`;
    }
    const excess = this.excess();
    this.over.textContent = excess > 0 ? t("tooLong", { n: excess }) : "";
    this.send.disabled = !this.field.value.trim() || excess > 0;
  }

  working(busy, followUp) {
    this.busy = busy;
    this.stop.hidden = !busy;
    this.send.hidden = busy;
    if (busy && document.activeElement === this.send) this.field.focus();
    this.field.placeholder = followUp ? t("askMore") : t("askHint");
  }
}
