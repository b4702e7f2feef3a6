// bus/http/page/notice.js: whether the daemon is there and ready: a word at the top, and a sentence below it when it is not.
import { announce, by_id, set_text } from "./dom.js";

const of_status = {
  loading: "The model is loading. Memory that is asked for now is lent when it is there.",
  stopping: "The daemon is stopping.",
  failed: "The model could not be loaded; the daemon's log says why.",
};

const words = { connecting: "Connecting", locked: "Key needed", lost: "No answer", loading: "Loading", ready: "Ready", stopping: "Stopping", failed: "Failed" };

export class notice {
  #timer = 0;
  #word = "connecting";
  #warning = "";

  // on_retry: somebody does not want to wait.
  constructor(on_retry) {
    by_id("notice-retry").addEventListener("click", on_retry);
  }

  show_status(state) {
    clearInterval(this.#timer);
    this.#say(state, of_status[state] ?? this.#warning, false);
  }

  show_connection(state, { why, retry_ms } = {}) {
    clearInterval(this.#timer);
    if (state === "locked") this.#say("locked", "", false);
    if (state !== "lost") return;
    const due = performance.now() + retry_ms;
    const text = () => {
      const left_s = Math.ceil((due - performance.now()) / 1000);
      const next = left_s > 0 ? `Trying again in ${left_s} s.` : "Trying again.";
      return `${why.message[0].toUpperCase()}${why.message.slice(1)}. What is shown is how it was. ${next}`;
    };
    this.#say("lost", text(), true);
    this.#timer = setInterval(() => set_text(by_id("notice-text"), text()), 500);
  }

  // What the newest lease came with; stays until the next one.
  show_warning(text) {
    this.#warning = text;
    this.show_status("ready");
  }

  #say(word, text, retry) {
    set_text(by_id("state"), words[word] ?? word);
    by_id("state").dataset.state = word;
    by_id("notice").hidden = text === "";
    set_text(by_id("notice-text"), text);
    by_id("notice-retry").hidden = !retry;
    if (word !== this.#word && !(this.#word === "connecting" && word === "ready")) announce(word === "lost" ? "The daemon does not answer" : words[word] ?? word);
    this.#word = word;
  }
}
