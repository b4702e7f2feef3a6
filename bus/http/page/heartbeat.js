// bus/http/page/heartbeat.js: asks for the daemon's status again and again: the one place that knows whether it is there.
//
//   connecting   nothing is known yet
//   live         it answered last time; asked each second while the page is seen
//   lost         it did not; asked again after a while that doubles up to a bound
//   locked       it wants a key; asked again when there is one
import { ask, refusal } from "./api.js";

const interval_ms = 1000;
const patience_ms = 5000; // a busy machine may be late; a dead connection looks the same
const back_off_ms = { first: 500, most: 10_000 };

export class heartbeat {
  state = "connecting";
  #failures = 0;
  #timer = 0;
  #under_way = false;
  #again = false;
  #on_status;
  #on_state;

  // on_status(status) after each answer; on_state(state, {why, retry_ms}) when the state changes, and after each failure.
  constructor({ on_status, on_state }) {
    this.#on_status = on_status;
    this.#on_state = on_state;
    document.addEventListener("visibilitychange", () => document.hidden || this.beat());
  }

  // Now, whatever is due later.
  async beat() {
    if (this.#under_way) {
      this.#again = true;
      return;
    }
    clearTimeout(this.#timer);
    this.#under_way = true;
    const wait_ms = await this.#ask();
    this.#under_way = false;
    if (this.#again) {
      this.#again = false;
      this.beat();
    } else if (wait_ms !== null && !(document.hidden && this.state === "live")) {
      this.#timer = setTimeout(() => this.beat(), wait_ms);
    }
  }

  // How long to wait until the next time; null until somebody says so.
  async #ask() {
    try {
      const status = await ask("GET", "/v1/status", undefined, AbortSignal.timeout(patience_ms));
      this.#failures = 0;
      this.#enter("live");
      this.#on_status(status);
      return interval_ms;
    } catch (why) {
      if (why instanceof refusal && why.status === 401) {
        this.#enter("locked", { why });
        return null;
      }
      const retry_ms = Math.min(back_off_ms.most, back_off_ms.first * 2 ** this.#failures++);
      this.#enter("lost", { why, retry_ms });
      return retry_ms;
    }
  }

  #enter(state, about = {}) {
    const changed = this.state !== state;
    this.state = state;
    if (changed || state === "lost" || state === "locked") this.#on_state(state, about);
  }
}
