// The documents: found, opened, added, deleted, and read again.
import { address, json, posted } from "./api.js";
import { confirmed } from "./dialogs.js";
import { announce, button, el, icon, languageOf } from "./dom.js";
import { bytes, date, t } from "./strings.js";
import { faultText, follow, progressOf } from "./uploads.js";

const AT_ONCE = 50;

export class DocumentsPanel {
  /** `open` shows a document, `changed` is told when answers may be other ones. */
  constructor({ uploads, collection, open, changed, about }) {
    Object.assign(this, { uploads, collection, open, changed, about });
    this.next = null;
    this.asked = 0;
    this.find = el("input", { type: "search", placeholder: t("find"), "aria-label": t("find"), oninput: () => this.soon() });
    this.count = el("p", { class: "count", role: "status" });
    this.list = el("ul", { class: "documents" });
    this.more = button(t("more"), null, () => this.load(true), { class: "more", hidden: true });
    this.said = el("p", { class: "said", role: "status" });
    this.reread = button(t("reread"), "again", () => this.ingest());
    this.tray = el("div");
    const close = button(t("close"), "close", () => this.root.close(), { shown: false, class: "quiet" });
    this.root = el(
      "dialog",
      { class: "drawer", "aria-labelledby": "documents-title" },
      el("header", {}, el("h2", { id: "documents-title" }, t("documents")), close),
      el("div", { class: "tools" }, el("label", { class: "find" }, icon("search"), this.find), button(t("upload"), "upload", () => uploads.choose(), { class: "main" }), this.reread),
      this.said,
      this.tray,
      this.count,
      el("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": t("documents") }, this.list, this.more),
    );
    this.root.addEventListener("click", (event) => event.target === this.root && this.root.close());
  }

  show() {
    this.find.value = "";
    this.root.showModal();
    this.find.focus();
    return this.load();
  }

  get shown() {
    return this.root.open;
  }

  soon() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.load(), 150);
  }

  async load(further = false) {
    const mine = ++this.asked;
    const query = { find: this.find.value.trim(), after: further ? this.next : null, limit: AT_ONCE, collection: this.collection() };
    try {
      const { documents, total, next } = await json(address("/documents", query));
      if (mine !== this.asked) return;
      const rows = documents.map((one) => this.row(one));
      if (further) this.list.append(...rows);
      else this.list.replaceChildren(...rows);
      if (further) rows[0]?.querySelector("button")?.focus();
      this.next = next;
      this.more.hidden = !next;
      this.count.textContent = total || !query.find ? t("listed", { n: total }) : t("noneFound");
    } catch (error) {
      if (mine === this.asked) this.count.textContent = faultText(error, this.about());
    }
  }

  row(one) {
    const cut = one.path.lastIndexOf("/") + 1;
    const name = one.path.slice(cut);
    const folder = one.path.slice(0, cut);
    const facts = [
      one.kind,
      bytes(one.size),
      one.modified && date(one.modified),
      one.pages && t("pages", { n: one.pages }),
      one.status === "indexed" && t("passages", { n: one.chunks }),
    ].filter(Boolean);
    const title = el("span", { class: "doc-name", lang: languageOf(one.path) }, el("span", { class: "folder" }, folder), name);
    const readable = one.status === "indexed";
    const opens = readable ? el("button", { type: "button", class: "doc-open", "aria-label": t("open", { name: one.path }), onclick: () => this.view(one) }, title) : title;
    const remove = one.deletable && button(t("deleteNamed", { name: one.path }), "bin", () => this.remove(one, item), { shown: false, class: "quiet" });
    const state = readable ? null : el("p", { class: `state ${one.status}` }, icon(one.status === "failed" ? "warn" : "again"), t(one.status), one.reason ? `: ${one.reason}` : "");
    const notes = one.warnings?.length
      ? el("details", { class: "notes" }, el("summary", {}, t("notes", { n: one.warnings.length })), el("ul", {}, one.warnings.map((warning) => el("li", {}, warning))))
      : null;
    const item = el(
      "li",
      {},
      icon("file"),
      el("div", { class: "doc" }, opens, one.title && one.title !== name ? el("p", { class: "doc-title", lang: languageOf(one.title) }, one.title) : null, el("p", { class: "facts" }, facts.join(" · ")), state, notes),
      remove,
    );
    return item;
  }

  view(one) {
    this.root.close();
    this.open({ document_id: one.id, source: one.path });
  }

  async remove(one, item) {
    if (!(await confirmed(t("deleteAsk"), t("deleteMore", { name: one.path }), t("delete")))) return;
    this.said.textContent = t("deleting");
    item.inert = true;
    try {
      const path = address(`/documents/${encodeURIComponent(one.id)}`, { collection: this.collection() });
      const { job } = await json(path, { method: "DELETE" });
      const neighbour = (item.nextElementSibling ?? item.previousElementSibling)?.querySelector("button");
      item.remove();
      this.said.textContent = t("deleted", { name: one.path });
      (neighbour ?? this.find).focus();
      if (job) await follow(job, () => {}).catch(() => {});
      await this.load();
      this.changed();
    } catch (error) {
      item.inert = false;
      this.said.textContent = faultText(error, this.about());
    }
  }

  async ingest() {
    this.reread.disabled = true;
    this.said.textContent = t("rereading");
    try {
      const started = await json("/ingest", posted({ collection: this.collection() }));
      const last = await follow(started.id, (job) => (this.said.textContent = progressOf(job)[0]));
      this.said.textContent = last?.message || (last?.state === "failed" ? t("error") : "");
    } catch (error) {
      this.said.textContent = faultText(error, this.about());
    }
    this.reread.disabled = false;
    announce(this.said.textContent);
    await this.load();
    this.changed();
  }
}
