// bus/http/page/news.js: keeps the stream of the daemon's events open while the daemon is there.
import { open } from "./api.js";
import { read_events } from "./sse.js";

const pause_ms = 1000; // between two attempts; whether the daemon is there at all is the heartbeat's to find out

export class news {
  #wanted = false;
  #running = false;
  #stop = null;
  #on_open;
  #on_event;
  #on_end;

  // on_open: from now on no event is missed; on_event({event, ...fields}); on_end: the stream broke off.
  constructor({ on_open, on_event, on_end }) {
    this.#on_open = on_open;
    this.#on_event = on_event;
    this.#on_end = on_end;
  }

  start() {
    this.#wanted = true;
    if (!this.#running) this.#run();
  }

  stop() {
    this.#wanted = false;
    this.#stop?.abort();
  }

  async #run() {
    this.#running = true;
    while (this.#wanted) {
      this.#stop = new AbortController();
      try {
        const stream = await open("GET", "/v1/events", undefined, this.#stop.signal);
        this.#on_open();
        for await (const { event, data } of read_events(stream)) this.#take(event, data);
      } catch {
        // Why it broke off makes no difference here: the heartbeat asks by a way of its own.
      }
      if (!this.#wanted) break;
      this.#on_end();
      await new Promise((resume) => setTimeout(resume, pause_ms));
    }
    this.#running = false;
  }

  #take(event, data) {
    let fields;
    try {
      fields = JSON.parse(data);
    } catch {
      return; // of a newer daemon
    }
    this.#on_event({ ...fields, event });
  }
}
