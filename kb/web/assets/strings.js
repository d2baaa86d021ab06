// The page's own words in the reader's language; documents and answers stay in theirs.
import en from "./strings.en.js";

const OTHERS = { zh: ["zh-CN", "./strings.zh.js"], ja: ["ja", "./strings.ja.js"] };

let words = en;
let language = "en";
let plural = new Intl.PluralRules("en");

/** Take the first language of the reader that the page speaks, or English. */
export async function chooseLanguage(wanted = navigator.languages) {
  const first = wanted.map((tag) => tag.toLowerCase().split("-")[0]).find((short) => short === "en" || short in OTHERS);
  if (first in OTHERS) {
    const [tag, file] = OTHERS[first];
    words = { ...en, ...(await import(file)).default };
    language = tag;
  }
  // What the reader's region writes differently, such as 1 December, counts where it is the same language.
  const own = wanted.find((tag) => tag.toLowerCase().startsWith(language.slice(0, 2)));
  document.documentElement.lang = language;
  plural = new Intl.PluralRules(own || language);
  formats.region = own || language;
}

/** A text by its name; `{n}` and others are filled in, numbers as the reader writes them. "a|b" is one and many. */
export function t(name, values = {}) {
  const [one, many = one] = (words[name] ?? name).split("|");
  const text = plural.select(values.n ?? 0) === "one" ? one : many;
  return text.replace(/\{(\w+)\}/g, (_, key) => (typeof values[key] === "number" ? number(values[key]) : values[key]));
}

/** Whether there is a text of this name. */
export const known = (name) => name in words;

const formats = { region: "en" };

export const number = (value, options) => new Intl.NumberFormat(formats.region, options).format(value);
export const share = (value) => number(value, { style: "percent", maximumFractionDigits: 0 });
export const date = (iso) => new Intl.DateTimeFormat(formats.region, { dateStyle: "medium" }).format(new Date(iso));

/** A size as people say it: 1.2 MB. */
export function bytes(count) {
  const unit = ["byte", "kilobyte", "megabyte", "gigabyte"];
  const power = count < 1000 ? 0 : Math.min(3, Math.floor(Math.log10(count) / 3));
  const value = count / 1000 ** power;
  const digits = power && value < 9.95 ? 1 : 0;
  return number(value, { style: "unit", unit: unit[power], unitDisplay: power ? "short" : "long", maximumFractionDigits: digits });
}
