// The page: puts its parts together.
import { json, keepToken, onUnauthorized } from "./api.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { askToken } from "./dialogs.js";
import { DocumentsPanel } from "./documents.js";
import { button, el, icon } from "./dom.js";
import { hidePeek, mountPeek } from "./peek.js";
import { schemeButton } from "./scheme.js";
import { SourcePanel } from "./source.js";
import { chooseLanguage, t } from "./strings.js";
import { Uploads, takeDrops } from "./uploads.js";
import { Welcome } from "./welcome.js";

await chooseLanguage();

let about = null;
let starting = false;
let collection; // undefined: the configured one
const here = () => collection;

onUnauthorized(async (fault) => {
  const given = await askToken(fault);
  if (given) keepToken(given);
  if (given && !about && !starting) start();
  return given;
});

const source = new SourcePanel(here);
const openSource = (...wanted) => source.open(...wanted);
const conversation = new Conversation({ open: openSource, working, collection: here });
const composer = new Composer({ ask, stop: () => conversation.stop() });
const uploads = new Uploads({ about: () => about, collection: here, changed });
const documents = new DocumentsPanel({ uploads, collection: here, open: openSource, changed, about: () => about });
const welcome = new Welcome({ collection: here, choose: () => uploads.choose() });

const picker = el("select", { "aria-label": t("collection"), class: "collection", hidden: true, onchange: chosen });
const anew = button(t("newConversation"), "plus", startAnew, { disabled: true });
const veil = el("div", { class: "veil", hidden: true }, icon("upload"), el("p", {}, t("dropHere")));
const dock = el("div", { class: "dock" }, uploads.root, composer.root);
const scroller = el("div", { class: "scroll" }, welcome.root, conversation.turns);

function build() {
  document.querySelector("noscript")?.remove();
  document.body.append(
    el("a", { class: "skip", href: "#question" }, t("skip")),
    el(
      "header",
      { class: "top" },
      el("h1", {}, el("img", { src: "/assets/icon.svg", alt: "", width: 24, height: 24 }), "kb"),
      picker,
      el("nav", { "aria-label": "kb" }, anew, button(t("documents"), "files", showDocuments), schemeButton()),
    ),
    el("main", { "aria-label": t("conversation") }, scroller, dock),
    source.root,
    documents.root,
    uploads.picker,
    veil,
    el("div", { id: "said", class: "unseen", role: "status", "aria-live": "polite" }),
  );
  mountPeek(document.body);
  takeDrops((files) => uploads.add(files), veil);
  documents.root.addEventListener("close", () => dock.prepend(uploads.root));
  addEventListener("keydown", escape);
}

function ask(question) {
  welcome.root.hidden = true;
  anew.disabled = false;
  return conversation.ask(question);
}

function working(busy, followUp) {
  composer.working(busy, followUp);
}

function startAnew() {
  source.close();
  conversation.clear();
  welcome.root.hidden = false;
  anew.disabled = true;
  welcome.refresh();
  composer.field.focus();
}

function showDocuments() {
  documents.tray.append(uploads.root);
  documents.show();
}

function changed() {
  welcome.refresh();
  if (documents.shown) documents.load();
}

function chosen() {
  collection = picker.value === about.collection ? undefined : picker.value;
  startAnew();
}

/** Escape closes what is open, the uppermost first, and then stops an answer. Dialogs do it of themselves. */
function escape(event) {
  if (event.key !== "Escape" || event.isComposing || document.querySelector("dialog[open]")) return;
  if (hidePeek() || source.close() || conversation.stop()) event.preventDefault();
}

async function learn() {
  about = await json("/about");
  composer.limit = about.question_characters;
  picker.replaceChildren(...about.collections.map((name) => el("option", { value: name }, name)));
  picker.value = about.collection;
  picker.hidden = about.collections.length < 2;
  document.title = `kb · ${about.collection}`;
}

/** `/?document=ID&start=&end=&number=&collection=` opens that source. */
function follow() {
  const query = new URLSearchParams(location.search);
  const wanted = query.get("document");
  if (!wanted) return;
  const place = (name) => (/^\d{1,12}$/.test(query.get(name) ?? "") ? Number(query.get(name)) : undefined);
  history.replaceState(null, "", "/");
  if (about?.collections.includes(query.get("collection"))) {
    picker.value = query.get("collection");
    chosen();
  }
  openSource({ document_id: wanted, start: place("start"), end: place("end"), number: place("number") }, [], composer.field);
}

async function start() {
  starting = true;
  try {
    await learn();
    await welcome.refresh();
  } catch (fault) {
    welcome.fail(fault);
  }
  starting = false;
}

build();
composer.field.focus();
await start();
follow();
