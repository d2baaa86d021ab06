// Questions and answers in order, and what a follow-up sends of them.
import { AnswerView } from "./answer.js";
import { Fault, events, posted } from "./api.js";
import { el } from "./dom.js";
import { t } from "./strings.js";

const MOST_TURNS = 20; // that the server takes

export class Conversation {
  /** `open` shows a source, `working` is told when an answer begins and ends. */
  constructor({ open, working, collection }) {
    this.open = open;
    this.working = working;
    this.collection = collection;
    this.history = [];
    this.running = null;
    this.turns = el("div", { class: "turns" });
  }

  get empty() {
    return this.turns.childElementCount === 0;
  }

  async ask(question) {
    const stopping = new AbortController();
    this.running = stopping;
    const view = new AnswerView(question, {
      open: this.open,
      retry: () => {
        if (this.running) return;
        view.root.remove();
        this.ask(question);
      },
    });
    this.turns.append(view.root);
    this.working(true, this.history.length > 0);
    view.root.scrollIntoView({ block: "start" });
    try {
      await this.read(question, view, stopping.signal);
    } catch (error) {
      if (error.name === "AbortError") view.stop();
      else view.fail(error instanceof Fault ? error : new Fault("internal", String(error)));
    } finally {
      if (this.running === stopping) {
        this.running = null;
        this.working(false, this.history.length > 0);
      }
    }
  }

  async read(question, view, signal) {
    const history = this.history;
    let done = false;
    const body = { question, collection: this.collection(), history: history.slice(-MOST_TURNS) };
    for await (const [name, data] of events("/ask/stream", posted(body, signal))) {
      if (name === "error") throw new Fault(data.error, data.message, data.status);
      view.take(name, data);
      if (name === "done") history.push(data.turn);
      done = name === "done";
    }
    if (!done) throw new Fault("broken", "");
  }

  /** Whether there was something to stop. */
  stop() {
    const running = this.running;
    running?.abort();
    return running !== null;
  }

  /** Begin anew. */
  clear() {
    this.stop();
    this.running = null;
    this.history = [];
    this.turns.replaceChildren();
    this.working(false, false);
  }
}
