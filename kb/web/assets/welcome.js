// What stands there before the first question: how much there is to ask, or how to add something.
import { address, json } from "./api.js";
import { button, el, icon } from "./dom.js";
import { t } from "./strings.js";
import { faultText } from "./uploads.js";

export class Welcome {
  constructor({ collection, choose }) {
    this.collection = collection;
    this.choose = choose;
    this.root = el("section", { class: "welcome" }, el("h2", {}, t("welcome")), el("p", { class: "lead" }, t("welcomeMore")));
    this.state = el("div", { class: "holds", role: "status" });
    this.root.append(this.state);
  }

  /** Tell how many documents there are now. */
  async refresh() {
    try {
      const { total } = await json(address("/documents", { limit: 1, collection: this.collection() }));
      const reading = total ? false : await this.reads();
      if (total) this.state.replaceChildren(el("p", {}, t("holds", { n: total })));
      else if (reading) this.state.replaceChildren(el("p", {}, t("ingesting")));
      else this.state.replaceChildren(this.empty());
      if (reading && !this.waiting) this.waiting = setTimeout(() => ((this.waiting = 0), this.refresh()), 1500);
    } catch (fault) {
      this.fail(fault);
    }
  }

  async reads() {
    return (await json(address("/status", { collection: this.collection() }))).ingesting;
  }

  fail(fault) {
    const again = button(t("retry"), "again", () => location.reload());
    this.state.replaceChildren(el("p", { class: "fault" }, icon("warn"), faultText(fault)), again);
  }

  empty() {
    return el("div", { class: "drop" }, icon("upload"), el("p", { class: "drop-title" }, t("emptyTitle")), el("p", {}, t("emptyMore")), button(t("upload"), "upload", this.choose, { class: "main" }));
  }
}
