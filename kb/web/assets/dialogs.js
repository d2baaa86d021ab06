// Dialogs: the browser keeps the focus within them, and Escape closes them.
import { button, el, icon } from "./dom.js";
import { t } from "./strings.js";

/** Show a dialog until it is closed; gives the value it was closed with. */
function ask(dialog) {
  document.body.append(dialog);
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue);
    });
    dialog.showModal();
  });
}

/** Ask for the token; null when none is given. */
export async function askToken({ wrong }) {
  const field = el("input", { id: "token", type: "password", autocomplete: "current-password", required: true, spellcheck: false });
  if (wrong) field.setAttribute("aria-describedby", "token-wrong");
  const form = el(
    "form",
    { method: "dialog", onsubmit: () => (dialog.returnValue = "given") },
    el("h2", { id: "token-title" }, t("token")),
    el("p", {}, t("tokenMore")),
    el("label", { htmlFor: "token" }, t("token")),
    field,
    wrong ? el("p", { id: "token-wrong", class: "fault", role: "alert" }, icon("warn"), t("tokenWrong")) : null,
    el("div", { class: "choices" }, el("button", { type: "submit", class: "main", value: "given" }, t("enter"))),
  );
  const dialog = el("dialog", { class: "small", "aria-labelledby": "token-title" }, form);
  const answer = await ask(dialog);
  return answer === "given" ? field.value.trim() : null;
}

/** Whether something that cannot be undone is meant. */
export async function confirmed(title, text, yes) {
  const dialog = el("dialog", { class: "small", role: "alertdialog", "aria-labelledby": "confirm-title", "aria-describedby": "confirm-text" });
  const choose = (value) => () => dialog.close(value);
  const no = button(t("cancel"), null, choose("no"), { autofocus: true });
  dialog.append(
    el("h2", { id: "confirm-title" }, title),
    el("p", { id: "confirm-text" }, text),
    el("div", { class: "choices" }, no, button(yes, "bin", choose("yes"), { class: "danger" })),
  );
  return (await ask(dialog)) === "yes";
}
