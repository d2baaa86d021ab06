// One question and its answer: drawn while it streams, and whole at its end.
import { announce, button, el, icon, languageOf, placeOf } from "./dom.js";
import { marked } from "./marks.js";
import { citeButton, doubtButton, hidePeek, verdictOf } from "./peek.js";
import { number, known, t } from "./strings.js";

const NEAREST = 3;

export class AnswerView {
  /** `open` shows a source, `retry` asks the question again. */
  constructor(question, { open, retry }) {
    this.open = open;
    this.retry = retry;
    this.answer = { text: "", citations: [], claims: [] };
    this.drawn = [];
    this.planned = 0;
    this.text = el("div", { class: "text", role: "group", "aria-label": t("answer") });
    this.status = el("p", { class: "progress" }, el("span", { class: "dots", "aria-hidden": "true" }), el("span", {}, t("searching")));
    this.below = el("div", { class: "below" });
    this.body = el("div", { class: "body", "aria-busy": "true" }, this.text, this.status, this.below);
    this.sources = el("section", { class: "sources", hidden: true, "aria-label": t("sources") });
    this.root = el(
      "article",
      { class: "turn" },
      el("h2", { class: "question", lang: languageOf(question) }, el("span", { class: "unseen" }, `${t("you")}: `), question),
      el("div", { class: "reply" }, this.body, this.sources),
    );
    import("./markdown.js").then((module) => {
      this.markdown = module;
      this.plan(true);
    }, () => {}); // shown as plain text then
  }

  /** One event of the stream. */
  take(name, data) {
    if (name === "hits") this.status.lastChild.textContent = data.hits.length ? t("writing", { n: data.hits.length }) : t("searching");
    else if (name === "text") this.answer.text += data.text;
    else if (name === "citation") this.answer.citations.push(data);
    else if (name === "done") this.finish(data);
    if (name === "text" || name === "citation") this.plan();
  }

  plan(again = false) {
    if (again) this.drawn = [];
    this.planned ||= requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.planned);
    this.planned = 0;
    const { text } = this.answer;
    if (!this.markdown) {
      this.text.replaceChildren(el("p", { class: "plain" }, text));
      return;
    }
    this.text.lang = languageOf(text) ?? "";
    const prepared = marked(this.answer);
    const blocks = this.markdown.blocksOf(prepared.text, prepared.marks, (mark) => this.mark(mark));
    let same = 0; // blocks that stay: a selection within them does too
    while (same < blocks.length && same < this.drawn.length && blocks[same].raw === this.drawn[same].raw) same++;
    if (same === 0) this.text.replaceChildren();
    for (const { nodes } of this.drawn.splice(same)) for (const node of nodes) node.remove?.();
    for (const { raw, make } of blocks.slice(same)) {
      const nodes = make().map((node) => (node instanceof Node ? node : document.createTextNode(node)));
      this.text.append(...nodes);
      this.drawn.push({ raw, nodes });
    }
  }

  mark({ number: cited, claim, verdict }) {
    if (verdict) return doubtButton(verdict);
    const all = this.answer.citations.filter((one) => one.number === cited);
    const near = claim?.evidence.filter((one) => one.number === cited) ?? [];
    const quotes = near.length ? near : all;
    return citeButton(cited, quotes, claim, (one, _, anchor) => this.open(one, [...quotes, ...all], anchor));
  }

  finish(answer) {
    hidePeek();
    this.answer = answer;
    this.ended();
    this.plan(true);
    this.draw();
    if (answer.answered) {
      this.showSources(answer.citations);
      this.below.append(...this.checked(answer.claims), ...this.notes(answer.notes), this.actions());
      announce(t("answerReady", { n: new Set(answer.citations.map((one) => one.number)).size }));
    } else {
      this.root.classList.add("unanswered");
      this.body.prepend(el("p", { class: "badge" }, icon("none"), t("notThere")));
      this.below.append(...this.nearest(answer.hits), ...this.notes(answer.notes));
      announce(t("notReady"));
    }
  }

  ended() {
    this.body.removeAttribute("aria-busy");
    this.status.remove();
  }

  stop() {
    this.ended();
    this.below.append(el("p", { class: "stopped" }, t("stopped")), el("div", { class: "actions" }, button(t("retry"), "again", this.retry)));
    announce(t("stopped"));
  }

  fail(fault) {
    this.ended();
    const plain = known(`e_${fault.kind}`) ? t(`e_${fault.kind}`) : t("error");
    const detail = fault.message && fault.kind !== "network" ? el("p", { class: "detail" }, fault.message) : null;
    const box = el("div", { class: "fault", role: "alert" }, icon("warn"), el("div", {}, el("p", {}, plain), detail));
    this.below.append(box, el("div", { class: "actions" }, button(t("retry"), "again", this.retry)));
  }

  showSources(citations) {
    const places = new Map();
    for (const one of citations) {
      const key = `${one.number} ${placeOf(one, t).whole}`;
      places.set(key, [...(places.get(key) ?? []), one]);
    }
    const items = [...places.values()].map((quotes) => el("li", {}, this.card(quotes[0], quotes, quotes[0].quote, quotes[0].number)));
    this.sources.append(el("h3", {}, t("sources")), el("ol", {}, items));
    this.sources.hidden = items.length === 0;
  }

  card(one, quotes, text, label) {
    const { file, folder, within, whole } = placeOf(one, t);
    return el(
      "button",
      { type: "button", class: "card", "aria-label": label ? t("sourceNumber", { n: label, place: whole }) : whole, onclick: (event) => this.open(one, quotes, event.currentTarget) },
      label ? el("span", { class: "cite" }, String(label)) : null,
      el(
        "span",
        { class: "card-text" },
        el("span", { class: "card-file", lang: languageOf(file) }, el("span", { class: "folder" }, folder), file),
        within ? el("span", { class: "card-within" }, within) : null,
        el("span", { class: "card-quote", lang: languageOf(text) }, text),
      ),
    );
  }

  checked(claims) {
    if (!claims.length) return [];
    const doubts = claims.filter((claim) => claim.verdict !== "supported");
    if (!doubts.length) return [el("p", { class: "checked" }, icon("check"), t("checkedAll", { n: claims.length }))];
    const summary = t("checkedSome", { n: claims.length, good: claims.length - doubts.length });
    const items = doubts.map((claim) =>
      el("li", {}, verdictOf(claim.verdict), el("span", { lang: languageOf(claim.text) }, claim.text.replace(/^[-*+#>\s]+/, "")), claim.reasons.length ? el("small", {}, claim.reasons.join("; ")) : null),
    );
    return [el("details", { class: "checked" }, el("summary", {}, summary), el("ul", {}, items))];
  }

  notes(notes) {
    if (!notes.length) return [];
    return [el("details", { class: "notes" }, el("summary", {}, t("notes", { n: notes.length })), el("ul", {}, notes.map((note) => el("li", {}, note))))];
  }

  nearest(hits) {
    const shown = [...hits].sort((a, b) => b.similarity - a.similarity).slice(0, NEAREST);
    if (!shown.length) return [];
    const card = (hit) => el("li", {}, this.card({ ...hit, quote: hit.text }, [hit], hit.text));
    return [el("section", { class: "nearest", "aria-label": t("nearest") }, el("h3", {}, t("nearest")), el("ul", {}, shown.map(card)))];
  }

  actions() {
    const copy = button(t("copy"), "copy", async () => {
      await copyText(this.asText());
      copy.replaceChildren(icon("check"), el("span", { class: "label" }, t("copied")));
      announce(t("copied"));
    });
    return el("div", { class: "actions" }, copy);
  }

  /** The answer and its sources, to be pasted elsewhere. */
  asText() {
    const lines = new Set(this.answer.citations.map((one) => `[${number(one.number, { useGrouping: false })}] ${placeOf(one, t).whole}`));
    return lines.size ? `${this.answer.text}\n\n${t("sources")}:\n${[...lines].join("\n")}\n` : `${this.answer.text}\n`;
  }
}

/** Put a text into the clipboard; browsers lend theirs to pages with TLS only, and let others copy what is selected. */
export async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = el("textarea", { value: text, class: "unseen" });
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}
