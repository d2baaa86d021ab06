// The panel that shows a source: the document's text around a quote, or the picture of its page.
import { Fault, address, json } from "./api.js";
import { copyText } from "./answer.js";
import { announce, button, el, icon, languageOf, placeOf } from "./dom.js";
import { PagePicture } from "./picture.js";
import { unitsOf } from "./marks.js";
import { t } from "./strings.js";

const AROUND = 3000; // characters on each side of a quote

export class SourcePanel {
  constructor(collection) {
    this.collection = collection;
    this.title = el("h2", { id: "source-title", tabIndex: -1 });
    this.within = el("p", { class: "within" });
    this.tabs = el("div", { class: "tabs", role: "group", "aria-label": t("source"), hidden: true });
    this.byPage = button(t("picture"), null, () => this.showPage(), { "aria-pressed": "false" });
    this.byText = button(t("text"), null, () => this.showText(), { "aria-pressed": "true" });
    this.tabs.append(this.byPage, this.byText);
    this.link = button(t("copyLink"), "link", () => this.copyLink(), { shown: false, class: "quiet" });
    const close = button(t("close"), "close", () => this.close(), { shown: false, class: "quiet" });
    this.content = el("div", { class: "source-body", tabIndex: 0, role: "region", "aria-labelledby": "source-title" });
    this.root = el(
      "aside",
      { class: "source", hidden: true, "aria-label": t("source") },
      el("header", {}, el("div", { class: "source-head" }, this.title, this.within), this.link, close),
      this.tabs,
      this.content,
    );
    this.picture = new PagePicture(this.content, collection, (fault) => this.pictureFails(fault));
  }

  get shown() {
    return !this.root.hidden;
  }

  /** Show a citation, or any `{document_id, start, end}`; `quotes` are others that are highlighted too. */
  async open(one, quotes = [], opener = document.activeElement) {
    if (!this.root.contains(opener)) this.opener = opener;
    this.one = one;
    this.quotes = quotes.filter((other) => other.document_id === one.document_id && other.quote !== undefined && other.end > other.start);
    this.from = Math.max(0, (one.start ?? 0) - AROUND);
    this.to = (one.end ?? 0) + AROUND;
    this.document = null;
    this.entitle(one);
    this.tabs.hidden = true;
    this.root.hidden = false;
    this.content.replaceChildren(el("p", { class: "quiet-text" }, t("loading")));
    this.opener?.scrollIntoView?.({ block: "nearest" }); // it may have been covered
    this.title.focus({ preventScroll: true });
    try {
      await this.load(one);
      if (this.one !== one) return;
      this.tabs.hidden = !this.hasPages;
      if (this.hasPages) await this.showPage();
      else this.showText();
    } catch (error) {
      if (this.one === one) this.fail(error);
    }
  }

  close() {
    if (!this.shown) return false;
    this.root.hidden = true;
    this.one = null;
    this.picture.clear();
    this.content.replaceChildren();
    const back = this.opener?.isConnected ? this.opener : document.getElementById("question");
    back.focus({ preventScroll: true });
    return true;
  }

  entitle(one) {
    if (!one.source) return;
    const { file, within } = placeOf(one, t);
    this.title.textContent = file;
    this.title.lang = languageOf(file) ?? "";
    this.within.textContent = [one.number ? `[${one.number}]` : "", within].filter(Boolean).join(" ");
  }

  async load(one) {
    const path = `/documents/${encodeURIComponent(one.document_id)}/content`;
    const found = await json(address(path, { start: this.from, end: this.to, collection: this.collection() }));
    if (this.one !== one) return;
    this.document = found;
    this.from = found.start;
    this.to = found.end;
    const page = one.page ?? found.pages.find((each) => each.start <= (one.start ?? 0) && (one.start ?? 0) < each.end)?.number;
    this.page = page ?? found.pages[0]?.number;
    this.hasPages = found.kind === "pdf" && found.pages.length > 0;
    this.entitle({ ...one, source: found.path, page, heading: one.heading });
  }

  press(chosen) {
    this.byPage.setAttribute("aria-pressed", String(chosen === this.byPage));
    this.byText.setAttribute("aria-pressed", String(chosen === this.byText));
  }

  async showPage() {
    this.press(this.byPage);
    await this.picture.show(this.one, this.page, this.document);
  }

  pictureFails(fault) {
    this.showText(t(fault.kind === "changed" ? "changed" : "noPicture"));
  }

  showText(remark = "") {
    this.press(this.byText);
    this.picture.clear();
    const { start, end, length } = this.document;
    const body = el("div", { class: "source-text", lang: languageOf(this.document.text) }, this.segments());
    const above = start > 0 && button(t("above"), null, () => this.extend(true), { class: "more" });
    const below = end < length && button(t("below"), null, () => this.extend(false), { class: "more" });
    this.content.replaceChildren(...[remark && el("p", { class: "quiet-text" }, remark), above, body, below].filter(Boolean));
    this.content.querySelector("mark.now")?.scrollIntoView({ block: "center" });
  }

  /** The text cut where something begins or ends: quotes are marked, headings are bold, pages are parted. */
  segments() {
    const { text, start, headings, pages } = this.document;
    const unit = unitsOf(text);
    const here = (at) => unit(Math.max(0, at - start));
    const spans = (list) => list.map((span) => [here(span.start), here(span.end)]).filter(([from, to]) => from < to);
    const now = this.one.end > this.one.start ? spans([this.one]) : [];
    const also = spans(this.quotes);
    const bold = spans(headings);
    const breaks = new Map(pages.filter((page) => page.start > start).map((page) => [here(page.start), page.number]));
    const cuts = new Set([0, text.length, ...[...now, ...also, ...bold].flat(), ...breaks.keys()]);
    const sorted = [...cuts].sort((a, b) => a - b);
    const within = (list, at) => list.some(([from, to]) => from <= at && at < to);
    return sorted.slice(0, -1).flatMap((at, index) => {
      const piece = text.slice(at, sorted[index + 1]);
      const isNow = within(now, at);
      const made = isNow || within(also, at) ? el("mark", { class: isNow ? "now" : "" }, piece) : piece;
      const shown = within(bold, at) ? el("b", {}, made) : made;
      return breaks.has(at) ? [el("span", { class: "page-break" }, t("page", { n: breaks.get(at) })), shown] : [shown];
    });
  }

  async extend(above) {
    const before = this.content.scrollHeight - this.content.scrollTop;
    const at = this.content.scrollTop;
    if (above) this.from = Math.max(0, this.from - 4 * AROUND);
    else this.to += 4 * AROUND;
    try {
      await this.load(this.one);
      this.showText();
      this.content.scrollTop = above ? this.content.scrollHeight - before : at;
      this.content.focus({ preventScroll: true });
    } catch (error) {
      this.fail(error);
    }
  }

  fail(error) {
    if (error.name === "AbortError") return;
    const gone = error instanceof Fault && error.status === 404;
    const again = gone ? null : button(t("retry"), "again", () => this.open(this.one, this.quotes, this.opener));
    const quote = this.one.quote && el("blockquote", { class: "kept" }, this.one.quote);
    const text = gone ? t("gone") : error.message || t("error");
    this.content.replaceChildren(...[el("p", { class: "fault", role: "alert" }, icon("warn"), text), quote, again].filter(Boolean));
  }

  async copyLink() {
    const { document_id, start, end, number } = this.one;
    const query = { document: document_id, start, end, number, collection: this.collection() };
    await copyText(new URL(address("/", query), location.href).href);
    announce(t("copied"));
    this.link.replaceChildren(icon("check"));
    setTimeout(() => this.link.replaceChildren(icon("link")), 1500);
  }
}
