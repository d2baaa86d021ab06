// An answer's Markdown as elements, by an allow list. HTML stays text, images are named and never loaded, and a link
// shows where it leads: what a model writes may have been dictated by a document.
import { Lexer, Tokenizer } from "./marked.js";
import { el } from "./dom.js";
import { pieces, unmarked } from "./marks.js";
import { t } from "./strings.js";

const DEEPEST = 40; // of lists in quotes in lists …

class Careful extends Tokenizer {
  /** No definition makes a link of `[1]` elsewhere. */
  def() {
    return undefined;
  }
}

/** The blocks of a marked text: their source, by which a block that has not changed is known, and their elements. */
export function blocksOf(text, marks, makeMark) {
  const lexer = new Lexer({ gfm: true, breaks: true, tokenizer: new Careful() });
  let tokens;
  try {
    tokens = lexer.lex(text);
  } catch {
    return [{ raw: text, make: () => [el("p", { class: "plain" }, pieces(text, marks, makeMark))] }]; // nested too deep
  }
  const writer = new Writer(marks, makeMark);
  return tokens.map((token) => ({ raw: token.raw, make: () => writer.block(token, 0) }));
}

class Writer {
  constructor(marks, makeMark) {
    this.marks = marks;
    this.makeMark = makeMark;
  }

  blocks(tokens, depth) {
    if (depth > DEEPEST) return [this.text(tokens.map((token) => token.raw).join(""))];
    return tokens.flatMap((token) => this.block(token, depth));
  }

  block(token, depth) {
    switch (token.type) {
      case "space":
      case "checkbox":
        return [];
      case "paragraph":
        return [el("p", {}, this.inline(token.tokens, depth))];
      case "text": // of a list item without paragraphs
        return token.tokens ? this.inline(token.tokens, depth) : this.text(token.text);
      case "heading": // below the page's own
        return [el(`h${Math.min(6, token.depth + 3)}`, {}, this.inline(token.tokens, depth))];
      case "code":
        return [el("pre", { tabIndex: 0 }, el("code", {}, unmarked(token.text, this.marks)))];
      case "blockquote":
        return [el("blockquote", {}, this.blocks(token.tokens, depth + 1))];
      case "list":
        return [this.list(token, depth)];
      case "table":
        return [this.table(token, depth)];
      case "hr":
        return [el("hr")];
      default: // html and whatever else there may be
        return [el("p", { class: "plain" }, this.text(token.raw.trimEnd()))];
    }
  }

  list(token, depth) {
    const items = token.items.map((item) => el("li", {}, item.task ? (item.checked ? "☑ " : "☐ ") : "", this.blocks(item.tokens, depth + 1)));
    return token.ordered ? el("ol", { start: token.start === "" ? 1 : token.start }, items) : el("ul", {}, items);
  }

  table(token, depth) {
    const cell = (tag) => (one) => el(tag, { class: one.align ? `to-${one.align}` : "" }, this.inline(one.tokens, depth));
    const rows = token.rows.map((row) => el("tr", {}, row.map(cell("td"))));
    const table = el("table", {}, el("thead", {}, el("tr", {}, token.header.map(cell("th")))), el("tbody", {}, rows));
    return el("div", { class: "wide", tabIndex: 0 }, table);
  }

  inline(tokens, depth) {
    if (depth > DEEPEST) return this.text(tokens.map((token) => token.raw).join(""));
    return tokens.flatMap((token) => this.span(token, depth + 1));
  }

  span(token, depth) {
    switch (token.type) {
      case "strong":
      case "em":
      case "del":
        return [el(token.type, {}, this.inline(token.tokens, depth))];
      case "codespan":
        return [el("code", {}, unmarked(token.text, this.marks))];
      case "br":
        return [el("br")];
      case "link":
        return this.link(token, depth);
      case "image":
        return [el("span", { class: "no-image" }, t("image", { text: unmarked(token.text, this.marks) || "…" }))];
      case "escape":
        return this.text(token.text);
      case "text":
        return token.tokens ? this.inline(token.tokens, depth) : this.text(token.text);
      default: // html
        return this.text(token.raw);
    }
  }

  link(token, depth) {
    const inside = this.inline(token.tokens, depth);
    const address = safeAddress(unmarked(token.href, this.marks));
    if (!address) return this.text(token.raw);
    const link = el("a", { href: address.href, target: "_blank", rel: "noopener noreferrer nofollow" }, inside);
    const shown = unmarked(token.text, this.marks);
    const host = address.host || address.pathname;
    return shown.includes(host) ? [link] : [link, el("span", { class: "host" }, ` (${host})`)];
  }

  text(text) {
    return pieces(read(text), this.marks, this.makeMark);
  }
}

const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', nbsp: "\u00a0" };
/** Text as it is meant. */
function read(text) {
  return text.replace(/&(amp|lt|gt|quot|nbsp);/g, (_, name) => ENTITIES[name]);
}

function safeAddress(written) {
  try {
    const address = new URL(written); // relative ones are none: nothing of ours is meant
    return ["http:", "https:", "mailto:"].includes(address.protocol) ? address : null;
  } catch {
    return null;
  }
}
