// Elements are made by hand, never of strings of HTML: no text of a document or a model can become a script.

/** An element: properties by their DOM names, `on…` listeners, `aria-…`, `data-…` and other attributes; then children. */
export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name in made && !name.includes("-") && name !== "role" && name !== "list") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

const SHAPES = {
  send: "M12 19V5m-6 6 6-6 6 6",
  stop: "M7 7h10v10H7z",
  close: "M6 6l12 12M18 6 6 18",
  plus: "M12 5v14M5 12h14",
  file: "M14 3H7a1 1 0 0 0-1 1v16a1 1 0 0 0 1 1h10a1 1 0 0 0 1-1V7zm0 0v4h4",
  files: "M4 7a2 2 0 0 1 2-2h3l2 2h7a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2z",
  upload: "M12 16V5m-4.500 4.500L12 5l4.500 4.500M5 16v2a2 2 0 0 0 2 2h10a2 2 0 0 0 2-2v-2",
  copy: "M9 9h10v11H9zM15 9V4H5v11h4",
  check: "M5 12.500 10 17.500 19 7",
  again: "M5 12a7 7 0 1 1 2 5m-2 3v-4h4",
  bin: "M5 7h14M10 7V4h4v3m-7 0 1 13h8l1-13",
  search: "M11 17a6 6 0 1 0 0-12 6 6 0 0 0 0 12zm4.500-1.500L20 20",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zm0-13v2m0 14v2m9-9h-2M5 12H3m15.400-6.400L17 7M7 17l-1.400 1.400m12.800 0L17 17M7 7 5.600 5.600",
  moon: "M20 14.500A8.500 8.500 0 0 1 9.500 4 8.500 8.500 0 1 0 20 14.500z",
  left: "M14.500 6l-6 6 6 6",
  right: "M9.500 6l6 6-6 6",
  warn: "M12 4 2.800 20h18.400zm0 6v4.500m0 2.500v.5",
  link: "M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1m2 4a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1",
  none: "M11 17a6 6 0 1 0 0-12 6 6 0 0 0 0 12zm4.500-1.500L20 20M9 9l4 4m0-4-4 4",
};

/** A drawing for the eye only; what it stands for is said beside it or in a label. */
export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const drawing = document.createElementNS(space, "svg");
  const line = document.createElementNS(space, "path");
  line.setAttribute("d", SHAPES[name]);
  drawing.append(line);
  drawing.setAttribute("viewBox", "0 0 24 24");
  drawing.setAttribute("class", "icon");
  drawing.setAttribute("aria-hidden", "true");
  return drawing;
}

/** A button: a drawing with a label that is read out, and shown beside it where `shown`. */
export function button(label, name, click, { shown = true, ...more } = {}) {
  const text = shown ? el("span", { class: "label" }, label) : null;
  return el(
    "button",
    { type: "button", onclick: click, ...(shown ? {} : { "aria-label": label, title: label }), ...more },
    name ? icon(name) : null,
    text,
  );
}

/** Say something to who listens to the page rather than seeing it. */
export function announce(text) {
  const region = document.getElementById("said");
  region.textContent = "";
  requestAnimationFrame(() => (region.textContent = text));
}

/** Of a text the language by its script: Japanese has kana, Chinese none; undefined for all others. */
export function languageOf(text) {
  if (/[\u3041-\u30ff]/.test(text)) return "ja";
  return /[\u4e00-\u9fff]/.test(text) ? "zh-CN" : undefined;
}

/** Where something stands, in parts: file, folders before it, and page or heading behind. */
export function placeOf({ source, page, heading }, t) {
  const cut = source.lastIndexOf("/") + 1;
  const within = page ? t("page", { n: page }) : heading || "";
  return { file: source.slice(cut), folder: source.slice(0, cut), within, whole: within ? `${source} › ${within}` : source };
}
