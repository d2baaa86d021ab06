// The picture of a page, with boxes where a quote stands.
import { address, json, request } from "./api.js";
import { button, el } from "./dom.js";
import { number, t } from "./strings.js";

export class PagePicture {
  /** Draws into `content`; `fails` is told why a page cannot be shown. */
  constructor(content, collection, fails) {
    this.content = content;
    this.collection = collection;
    this.fails = fails;
    this.address = null;
    this.wanted = 0;
  }

  clear() {
    this.wanted++;
    if (this.address) URL.revokeObjectURL(this.address);
    this.address = null;
  }

  async show(one, page, document) {
    this.clear();
    const mine = ++this.wanted;
    const total = document.pages.length;
    const path = `/documents/${encodeURIComponent(one.document_id)}/pages/${page}`;
    const collection = this.collection();
    const width = Math.min(2000, Math.max(600, Math.ceil((this.content.clientWidth * devicePixelRatio) / 200) * 200));
    try {
      const spot = one.end > one.start ? { start: one.start, end: one.end } : {};
      const [facts, blob] = await Promise.all([
        json(address(path, { ...spot, collection })),
        request(address(`${path}/image`, { width, collection })).then((response) => response.blob()),
      ]);
      if (mine !== this.wanted) return;
      this.address = URL.createObjectURL(blob);
      const sheet = el("div", { class: "sheet" });
      sheet.style.aspectRatio = `${facts.width} / ${facts.height}`;
      const place = `${document.path}, ${t("page", { n: page })}`;
      sheet.append(el("img", { src: this.address, alt: t("pageAlt", { place }) }), ...facts.quotes.map(boxOf));
      this.content.replaceChildren(this.turner(one, page, total, document), sheet);
      sheet.querySelector(".box")?.scrollIntoView({ block: "center" });
    } catch (fault) {
      if (mine === this.wanted) this.fails(fault);
    }
  }

  turner(one, page, total, document) {
    const to = (next) => () => this.show(one, next, document);
    return el(
      "div",
      { class: "turner" },
      button(t("previous"), "left", to(page - 1), { shown: false, class: "quiet", disabled: page <= 1 }),
      el("span", {}, t("pageOf", { n: page, total: number(total) })),
      button(t("next"), "right", to(page + 1), { shown: false, class: "quiet", disabled: page >= total }),
    );
  }
}

function boxOf({ x, y, width, height }) {
  const box = el("div", { class: "box" });
  const percent = (share) => `${share * 100}%`;
  Object.assign(box.style, { left: percent(x), top: percent(y), width: percent(width), height: percent(height) });
  return box;
}
