// bus/http/page/chat.js: a conversation with the model, with a Stop that works in mid-answer.
import { announce, by_id, make, set_text, show_error } from "./dom.js";
import { complete } from "./completion.js";
import { count, percent, rate } from "./format.js";

const finishes = { stop: "", length: "cut off at the longest answer", cancelled: "stopped" };

// What the daemon measured of a whole answer; of one that was stopped only what came is known.
function describe({ measured, usage }, pieces) {
  if (!measured) return count(usage?.completion_tokens ?? pieces, "token");
  const tokens = count(usage?.completion_tokens ?? pieces, "token");
  return `${tokens}, ${rate(measured.tokens_per_s)} a second, longest gap ${rate(measured.gap_ms_max)} ms, ${percent(measured.hit_rate)} of the experts in a cache`;
}

export class chat_panel {
  #said = []; // {role, content}
  #answering = null; // what stops the answer under way
  #on_refused;
  model = "";

  // on_refused(why): a request failed; the connection may be the reason.
  constructor(on_refused) {
    this.#on_refused = on_refused;
    by_id("compose").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    by_id("prompt").addEventListener("keydown", (pressed) => {
      if (pressed.key !== "Enter" || pressed.shiftKey || pressed.isComposing) return;
      pressed.preventDefault();
      this.#send();
    });
    by_id("chat").addEventListener("keydown", (pressed) => pressed.key === "Escape" && this.#answering?.abort());
    by_id("stop").addEventListener("click", () => this.#answering?.abort());
    by_id("chat-new").addEventListener("click", () => this.#begin_anew());
    by_id("chat-overfull").addEventListener("click", () => {
      this.#begin_anew();
      by_id("prompt").focus();
    });
    this.#begin_anew();
  }

  // `overfull`: what was said is too long to go on from, and a question alone may not be.
  #show_error(text, overfull = false) {
    show_error(by_id("chat-error"), text);
    by_id("chat-overfull").hidden = !overfull;
  }

  #begin_anew() {
    this.#answering?.abort();
    this.#said = [];
    this.#show_error("");
    by_id("transcript").replaceChildren(make("p", { class: "empty" }, "Ask something. Memory can be lent while the answer is written; it stays the same."));
    if (document.activeElement === by_id("chat-new")) by_id("prompt").focus();
  }

  // Numbers that were filled in; throws what is wrong with one.
  #options() {
    const options = {};
    for (const [id, name] of [["temperature", "temperature"], ["max-tokens", "max_tokens"], ["seed", "seed"]]) {
      const field = by_id(id);
      if (!field.checkValidity()) {
        field.closest("details").open = true;
        field.focus();
        throw new Error(`${document.querySelector(`label[for=${id}]`).textContent}: ${field.validationMessage}`);
      }
      if (field.value !== "") options[name] = Number(field.value);
    }
    return options;
  }

  #add(role, text) {
    const body = make("p", { class: "body" }, text);
    const note = make("p", { class: "note" });
    const article = make("article", { class: `turn ${role}`, "aria-label": role === "user" ? "You" : "Answer" }, body, note);
    by_id("transcript").append(article);
    return { article, body, note };
  }

  async #send() {
    const prompt = by_id("prompt");
    const text = prompt.value.trim();
    if (this.#answering || text === "") return;
    let options;
    try {
      options = this.#options();
    } catch (why) {
      return this.#show_error(why.message);
    }
    this.#show_error("");
    by_id("transcript").querySelector(".empty")?.remove();
    const asked = this.#add("user", text);
    const conversation = this.#said;
    conversation.push({ role: "user", content: text });
    prompt.value = "";
    const came = await this.#answer(conversation, options);
    if (came || this.#said !== conversation) return;
    // Nothing came: the question goes back to where it can be asked again.
    conversation.pop();
    asked.article.remove();
    if (prompt.value === "") prompt.value = text;
  }

  // Whether any of it came.
  async #answer(conversation, options) {
    const stop = (this.#answering = new AbortController());
    this.#show_buttons();
    const { article, body, note } = this.#add("assistant", "");
    const into = body.appendChild(document.createTextNode(""));
    article.setAttribute("aria-busy", "true");
    article.classList.add("writing");
    this.#follow(true);
    let pieces = 0;
    let end = { finish: "stop", usage: null, measured: null };
    try {
      for await (const piece of complete({ model: this.model, messages: conversation, ...options }, stop.signal)) {
        if (piece.text === undefined) {
          end = piece;
          break;
        }
        const follows = this.#at_end();
        ++pieces;
        into.appendData(piece.text);
        this.#follow(follows);
      }
    } catch (why) {
      end.finish = "cancelled";
      if (!stop.signal.aborted) {
        this.#show_error(pieces > 0 ? `The answer broke off: ${why.message}` : why.message,
          why.code === "context_length_exceeded" && conversation.length > 1);
        end.finish = "broken";
        this.#on_refused(why);
      }
    }
    article.removeAttribute("aria-busy");
    article.classList.remove("writing");
    if (this.#answering === stop) this.#answering = null;
    this.#show_buttons();
    if (into.data === "" && end.finish !== "stop" && end.finish !== "length") {
      article.remove();
      return false;
    }
    conversation.push({ role: "assistant", content: into.data });
    const how = finishes[end.finish] ?? (end.finish === "broken" ? "broken off" : end.finish);
    const follows = this.#at_end();
    set_text(note, [describe(end, pieces), how].filter(Boolean).join(", "));
    this.#follow(follows);
    if (article.isConnected) announce(`Answer${how ? `, ${how}` : ""}: ${into.data}`);
    return true;
  }

  #at_end() {
    const box = by_id("transcript");
    return box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  }

  #follow(follows) {
    const box = by_id("transcript");
    if (follows) box.scrollTop = box.scrollHeight;
  }

  #show_buttons() {
    const answering = this.#answering !== null;
    const focused = document.activeElement;
    by_id("send").hidden = answering;
    by_id("stop").hidden = !answering;
    if (focused === by_id("send") && answering) by_id("stop").focus();
    if (focused === by_id("stop") && !answering) by_id("prompt").focus();
  }
}
