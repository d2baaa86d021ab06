// Light or dark: as the system has it, until the reader says otherwise.
import { button, icon } from "./dom.js";
import { t } from "./strings.js";

const system = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;

const isDark = () => (root.dataset.scheme ? root.dataset.scheme === "dark" : system.matches);

/** The button that changes between the two. */
export function schemeButton() {
  const made = button("", "moon", change, { shown: false, class: "quiet" });
  function show() {
    const label = t(isDark() ? "toLight" : "toDark");
    made.setAttribute("aria-label", label);
    made.title = label;
    made.replaceChildren(icon(isDark() ? "sun" : "moon"));
  }
  function change() {
    const wanted = isDark() ? "light" : "dark";
    root.dataset.scheme = wanted;
    try {
      localStorage.setItem("kb-scheme", wanted);
    } catch {
      // It holds until the page is left.
    }
    show();
  }
  system.addEventListener("change", show);
  show();
  return made;
}
