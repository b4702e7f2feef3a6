// bus/http/page/sse.js: reads a stream of server-sent events. EventSource would do it too, but sends no key.

// Takes the text as it arrives, cut anywhere, and gives the events that are complete.
export class event_parser {
  #rest = "";
  #event = "";
  #data = [];

  push(text) {
    this.#rest += text;
    const complete = [];
    for (;;) {
      const end = this.#rest.search(/\r\n|\n|\r(?=[^\n])/);
      if (end < 0) return complete;
      const line = this.#rest.slice(0, end);
      this.#rest = this.#rest.slice(end + (this.#rest.startsWith("\r\n", end) ? 2 : 1));
      this.#take(line, complete);
    }
  }

  #take(line, complete) {
    if (line === "") {
      if (this.#data.length) complete.push({ event: this.#event || "message", data: this.#data.join("\n") });
      this.#event = "";
      this.#data = [];
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return; // a comment, which keeps the connection open
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#event = value;
    if (field === "data") this.#data.push(value);
  }
}

export async function* read_events(response) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const parser = new event_parser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    reader.cancel().catch(() => {}); // whoever stops reading leaves: the daemon is not to go on for nobody
  }
}
