// Everything that is asked of the server. The token is sent in a header, kept in this tab, and never in an address.

const KEPT = "kb-token";
let askToken = async () => null;

/** What asks the person for a token: gives a promise of it, or of null. */
export function onUnauthorized(ask) {
  askToken = ask;
}

/** What went wrong: `kind` as the server names it, or `network`, `broken`. */
export class Fault extends Error {
  constructor(kind, message, status = 0, wait = 0) {
    super(message);
    this.kind = kind;
    this.status = status;
    this.wait = wait;
  }
}

function token() {
  try {
    return sessionStorage.getItem(KEPT);
  } catch {
    return token.kept || null;
  }
}

/** Keep a token for this tab. */
export function keepToken(value) {
  token.kept = value;
  try {
    sessionStorage.setItem(KEPT, value);
  } catch {
    // Kept until the page is left.
  }
}

function headers() {
  const held = token();
  return held ? { Authorization: `Bearer ${held}` } : {};
}

function faultOf(status, text, retryAfter) {
  let body = {};
  try {
    body = JSON.parse(text);
  } catch {
    // Something between here and the server answered.
  }
  return new Fault(body.error || "internal", body.message || "", status, Number(retryAfter) || 0);
}

let asking = null;

/** Ask for the token once, however many requests want it. */
function tokenAgain(fault) {
  asking ??= askToken(fault).finally(() => (asking = null));
  return asking;
}

/** A response that is fine; whoever has no token is asked for it. */
export async function request(path, options = {}) {
  for (let wrong = false; ; wrong = true) {
    const sent = token();
    let response;
    try {
      response = await fetch(path, { ...options, headers: { ...options.headers, ...headers() }, credentials: "omit" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Fault("network", String(error.message));
    }
    if (response.ok) return response;
    const fault = faultOf(response.status, await response.text(), response.headers.get("Retry-After"));
    if (response.status !== 401) throw fault;
    if (token() === sent && !(await tokenAgain({ wrong: wrong || sent !== null }))) throw fault;
  }
}

export async function json(path, options) {
  return (await request(path, options)).json();
}

export function posted(body, signal) {
  return { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, signal };
}

/** `/documents?find=…` of the parts that are set. */
export function address(path, query = {}) {
  const set = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return set.length ? `${path}?${new URLSearchParams(set)}` : path;
}

/** The events of a stream as they come: pairs of a name and its data. Raises Fault where it breaks off. */
export async function* events(path, options) {
  const response = await request(path, options);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + value.replaceAll("\r\n", "\n")).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const found = eventOf(block);
        if (found) yield found;
      }
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Fault("broken", String(error.message));
  } finally {
    reader.cancel().catch(() => {});
  }
}

function eventOf(block) {
  let name = "message";
  const data = [];
  for (const line of block.split("\n")) {
    const [, field, value] = /^(\w*):? ?(.*)$/s.exec(line) || [];
    if (field === "event") name = value;
    else if (field === "data") data.push(value);
  }
  return data.length ? [name, JSON.parse(data.join("\n"))] : null;
}

/** Send a file; `progress` is told what share has gone. A request that can be aborted by `signal`. */
export async function upload(path, file, progress, signal) {
  for (let wrong = false; ; wrong = true) {
    const sent = token();
    const request = await sendForm(path, file, progress, signal);
    if (request.status >= 200 && request.status < 300) return JSON.parse(request.responseText);
    const fault = faultOf(request.status, request.responseText, request.getResponseHeader("Retry-After"));
    if (request.status !== 401) throw fault;
    if (token() === sent && !(await tokenAgain({ wrong: wrong || sent !== null }))) throw fault;
  }
}

function sendForm(path, file, progress, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest(); // fetch does not tell how much of a file has gone
    const form = new FormData();
    form.append("file", file, file.name);
    request.open("POST", path);
    for (const [name, value] of Object.entries(headers())) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => event.lengthComputable && progress(event.loaded / event.total);
    request.onload = () => resolve(request);
    request.onerror = () => reject(new Fault("network", ""));
    request.onabort = () => reject(new DOMException("stopped", "AbortError"));
    signal?.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}
