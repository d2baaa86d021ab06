// What a citation says, shown while it is pointed at, tapped or focused; using it opens the source.
import { el, icon, placeOf } from "./dom.js";
import { t } from "./strings.js";

const LONGEST = 420; // characters of a quote
const PAUSE = 120; // milliseconds, so that nothing flickers when the pointer only passes

const box = el("div", { id: "peek", class: "peek", role: "tooltip", hidden: true });
let shownFor = null;
let waiting = 0;
let use = null;

export function mountPeek(parent) {
  parent.append(box);
  box.addEventListener("pointerenter", () => clearTimeout(waiting));
  box.addEventListener("pointerleave", hideSoon);
  box.addEventListener("click", () => use?.());
  addEventListener("scroll", hidePeek, { capture: true, passive: true });
  addEventListener("resize", hidePeek);
  addEventListener("pointerdown", (event) => shownFor?.contains(event.target) || box.contains(event.target) || hidePeek());
}

/** Hide it; whether there was something to hide. */
export function hidePeek() {
  clearTimeout(waiting);
  const was = shownFor !== null;
  shownFor?.removeAttribute("aria-describedby");
  shownFor = null;
  box.hidden = true;
  return was;
}

function hideSoon() {
  clearTimeout(waiting);
  waiting = setTimeout(hidePeek, PAUSE * 2);
}

function show(anchor, content, activate) {
  clearTimeout(waiting);
  if (!anchor.isConnected) return;
  if (shownFor !== anchor) hidePeek();
  shownFor = anchor;
  use = activate;
  box.replaceChildren(...content());
  box.hidden = false;
  anchor.setAttribute("aria-describedby", box.id);
  const at = anchor.getBoundingClientRect();
  const room = document.documentElement.clientWidth;
  const { width, height } = box.getBoundingClientRect();
  box.style.left = `${Math.max(8, Math.min(at.left - 20, room - width - 8))}px`;
  box.style.top = `${at.bottom + height + 16 < innerHeight ? at.bottom + 8 : Math.max(8, at.top - height - 8)}px`;
}

/** Let an element show something; `activate` is what using it does, or nothing more than showing. */
function lets(anchor, content, activate) {
  let touched = false;
  let wasShown = false;
  const now = () => show(anchor, content, activate);
  anchor.addEventListener("pointerdown", (event) => {
    touched = event.pointerType === "touch";
    wasShown = shownFor === anchor;
  });
  anchor.addEventListener("pointerenter", (event) => {
    if (event.pointerType === "touch") return;
    clearTimeout(waiting);
    waiting = setTimeout(now, PAUSE);
  });
  anchor.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && hideSoon());
  anchor.addEventListener("focus", () => anchor.matches(":focus-visible") && now());
  anchor.addEventListener("blur", hideSoon);
  anchor.addEventListener("click", () => {
    // A finger cannot point without tapping: its first tap shows, its second one opens.
    if (!activate || (touched && !wasShown)) now();
    else {
      hidePeek();
      activate();
    }
    touched = false;
  });
  return anchor;
}

const clipped = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);

/** A citation: `quotes` are the passages of its number, the nearest first. */
export function citeButton(number, quotes, claim, open) {
  const place = placeOf(quotes[0], t);
  const anchor = el("button", { type: "button", class: "cite", "aria-label": t("sourceNumber", { n: number, place: place.whole }) }, String(number));
  const content = () => [
    el("p", { class: "peek-place" }, el("b", {}, place.file), place.within ? ` › ${place.within}` : ""),
    ...quotes.slice(0, 2).map((one) => el("blockquote", {}, clipped(one.quote))),
    el("p", { class: "peek-foot" }, claim ? verdictOf(claim.verdict) : "", el("span", { class: "hint" }, t("openSource"))),
  ];
  return lets(anchor, content, () => open(quotes[0], quotes, anchor));
}

/** A verdict in words, with a sign beside it. */
export function verdictOf(verdict) {
  return el("span", { class: `verdict ${verdict}` }, icon(verdict === "supported" ? "check" : "warn"), t(verdict));
}

/** Behind a claim that its sources don't bear out. */
export function doubtButton(claim) {
  const anchor = el("button", { type: "button", class: `doubt ${claim.verdict}` }, t(claim.verdict));
  const said = claim.reasons.length ? claim.reasons : [t(claim.verdict)];
  return lets(anchor, () => said.map((reason) => el("p", {}, reason)), null);
}
