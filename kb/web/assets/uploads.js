// Files on their way: sent, then read by the server, each with a line that says how far it is.
import { address, events, json, upload } from "./api.js";
import { announce, button, el } from "./dom.js";
import { bytes, known, share, t } from "./strings.js";

/** What a job is doing, in a few words, and its share of the whole where that is known. */
export function progressOf(job) {
  if (job.state === "waiting") return [t("queued"), null];
  if (!job.total) return [t("reading"), null];
  return [t("readingOf", { done: job.done, total: job.total }), job.done / job.total];
}

/** Follow a job to its end; `tell` gets each of its states. Gives the last. */
export async function follow(id, tell) {
  let last = null;
  for await (const [name, job] of events(`/ingest/${encodeURIComponent(id)}/events`)) {
    last = job;
    if (name === "progress") tell(job);
  }
  return last;
}

export class Uploads {
  /** `about` gives the limits, `changed` is told when there is more to ask about. */
  constructor({ about, collection, changed }) {
    this.about = about;
    this.collection = collection;
    this.changed = changed;
    this.sending = Promise.resolve();
    this.list = el("ul", {});
    this.root = el("section", { class: "uploads", "aria-label": t("uploads"), hidden: true }, this.list);
    this.picker = el("input", { type: "file", multiple: true, hidden: true, onchange: () => this.picked() });
  }

  choose() {
    this.picker.accept = this.about()?.suffixes.join(",") ?? "";
    this.picker.click();
  }

  picked() {
    this.add(this.picker.files);
    this.picker.value = "";
  }

  /** Send files one after the other. */
  add(files) {
    for (const file of files) {
      const line = this.line(file.name);
      const refused = this.refused(file);
      if (refused) line.end(refused, "failed");
      else this.sending = this.sending.then(() => this.send(file, line));
    }
  }

  /** Why a file need not be sent. */
  refused(file) {
    const { suffixes = [], max_upload_bytes: most = Infinity } = this.about() ?? {};
    const name = file.name.toLowerCase();
    if (suffixes.length && !suffixes.some((suffix) => name.endsWith(suffix))) return t("e_unsupported");
    if (file.size > most) return t("e_too_large", { size: bytes(most) });
    return file.size === 0 ? t("e_empty") : null;
  }

  async send(file, line) {
    const collection = this.collection();
    try {
      const path = address("/documents", { collection });
      const sent = await upload(path, file, (gone) => line.tell(t("uploading", { share: share(gone) }), gone), line.signal);
      line.sent();
      if (sent.known) line.end(t("known"), "done");
      else this.read(sent, line, collection); // the next file goes meanwhile
      this.changed();
    } catch (error) {
      if (error.name === "AbortError") line.end(t("stopped").split(/[.。，]/)[0], "failed");
      else line.end(faultText(error, this.about()), "failed");
    }
  }

  async read({ document, job }, line, collection) {
    try {
      line.tell(t("queued"), null);
      const last = await follow(job, (now) => line.tell(...progressOf(now)));
      const now = await json(address(`/documents/${encodeURIComponent(document.id)}`, { collection }));
      if (now.status === "indexed") line.end(t("ready"), "done", now.warnings);
      else line.end(now.reason || last?.message || t("failed"), "failed");
    } catch (error) {
      line.end(faultText(error, this.about()), "failed");
    }
    this.changed();
  }

  line(name) {
    this.root.hidden = false;
    const stopping = new AbortController();
    const said = el("p", { class: "said" }, t("queued"));
    const bar = el("progress", { max: 1, "aria-label": name });
    const away = button(t("dismiss"), "close", () => {
      stopping.abort();
      item.remove();
      this.root.hidden = !this.list.childElementCount;
    }, { shown: false, class: "quiet" });
    const item = el("li", {}, el("div", { class: "line" }, el("div", {}, el("p", { class: "name" }, name), said), away), bar);
    this.list.append(item);
    let aborts = true;
    return {
      signal: { addEventListener: (_, abort) => stopping.signal.addEventListener("abort", () => aborts && abort()) },
      sent: () => (aborts = false),
      tell(text, part) {
        said.textContent = text;
        if (part === null) bar.removeAttribute("value");
        else bar.value = part;
      },
      end(text, how, warnings = []) {
        said.textContent = text;
        item.className = how;
        bar.remove();
        if (warnings.length) item.append(el("p", { class: "warnings" }, warnings.join("; ")));
        announce(`${name}: ${text}`);
      },
    };
  }
}

/** A fault in plain words. */
export function faultText(fault, about) {
  const name = `e_${fault.kind}`;
  if (fault.kind === "internal" || !known(name)) return fault.message || t("error");
  return t(name, { size: bytes(about?.max_upload_bytes ?? 0) });
}

/** Let files be dropped anywhere on the page. */
export function takeDrops(add, veil) {
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  let depth = 0;
  const shown = (now) => {
    (document.querySelector("dialog[open]") ?? document.body).append(veil); // above a dialog, which lies above all else
    veil.hidden = !now;
  };
  addEventListener("dragenter", (event) => hasFiles(event) && (event.preventDefault(), shown(++depth > 0)));
  addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
  addEventListener("dragleave", (event) => hasFiles(event) && shown(--depth > 0));
  addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    shown((depth = 0) > 0);
    add(event.dataTransfer.files);
  });
}
