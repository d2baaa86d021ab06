// An answer's citations and verdicts are put into its Markdown as characters that no text holds, and come out as
// elements. So `[1]` stays a citation, whatever Markdown would make of it, and offsets need no mapping afterwards.

const OPEN = "\ufdd0"; // noncharacters, which Unicode leaves to the inside of programs
const CLOSE = "\ufdd1";
const DIGIT = 0xfdd2;
const OURS = /[\ufdd0-\ufdef]/g;
const MARK = /\ufdd0([\ufdd2-\ufddb]+)\ufdd1/g;
// As the server writes markers; behind a name it is a subscript, and before ( a link.
const CITED = /(?<![\w$)\]])\[(\d{1,7})\](?!\()/g;
const CITED_ANYWHERE = /\[(\d{1,7})\](?!\()/g;

/** The place in a JavaScript string of each place in Python's, which counts a character beyond U+FFFF once. */
export function unitsOf(text) {
  if (!/[\ud800-\udfff]/.test(text)) return (at) => Math.min(at, text.length);
  const units = [0];
  for (const character of text) units.push(units.at(-1) + character.length);
  return (at) => units[Math.min(at, units.length - 1)];
}

/** The text with a mark in place of each citation, and behind each claim in doubt; and what each mark stands for. */
export function marked({ text, citations, claims }) {
  const unit = unitsOf(text);
  const spans = claims.map((claim) => ({ claim, start: unit(claim.start), end: unit(claim.end) }));
  const numbers = new Set(citations.map((one) => one.number));
  for (const claim of claims) for (const one of claim.evidence) numbers.add(one.number);
  const marks = [];
  const places = []; // [start, end, mark]
  for (const { start, end, claim } of spans) {
    for (const found of text.slice(start, end).matchAll(CITED_ANYWHERE)) {
      const at = start + found.index;
      if (claim.numbers.includes(+found[1])) places.push([at, at + found[0].length, { number: +found[1], claim }]);
    }
    if (claim.verdict !== "supported") places.push([end, end, { verdict: claim }]);
  }
  const inside = (at) => spans.some(({ start, end }) => start <= at && at < end);
  for (const found of text.matchAll(CITED)) {
    if (inside(found.index) || !numbers.has(+found[1])) continue;
    places.push([found.index, found.index + found[0].length, { number: +found[1] }]);
  }
  places.sort(([a, , one], [b]) => a - b || (one.verdict ? 1 : -1));
  let written = "";
  let at = 0;
  for (const [start, end, mark] of places) {
    if (start < at) continue;
    written += cleaned(text.slice(at, start)) + coded(marks.push({ ...mark, raw: text.slice(start, end) }) - 1);
    at = end;
  }
  return { text: written + cleaned(text.slice(at)), marks };
}

const cleaned = (text) => text.replace(OURS, "\ufffd");
const coded = (index) => OPEN + [...String(index)].map((digit) => String.fromCharCode(DIGIT + +digit)).join("") + CLOSE;
const indexOf = (digits) => +[...digits].map((one) => one.charCodeAt(0) - DIGIT).join("");

/** A text's pieces: strings, and what `make` gives for the marks between them. */
export function pieces(text, marks, make) {
  const found = [];
  let at = 0;
  for (const match of text.matchAll(MARK)) {
    if (match.index > at) found.push(text.slice(at, match.index));
    found.push(make(marks[indexOf(match[1])]));
    at = match.index + match[0].length;
  }
  if (at < text.length) found.push(text.slice(at));
  return found;
}

/** A text as it was before it was marked. */
export const unmarked = (text, marks) => pieces(text, marks, (mark) => mark.raw).join("");
