// bus/http/page/fleet.js: what the page knows of cards, leases and experts. It reads anew what somebody says may have changed.
import { ask, refusal } from "./api.js";

const readers = {
  cards: async () => (await ask("GET", "/v1/cards")).cards,
  leases: async () => {
    const { leases } = await ask("GET", "/v1/vram/leases");
    const now = performance.now();
    return leases.map((lease) => ({ ...lease, ends_at: now + lease.ends_in_s * 1000 }));
  },
  experts: async () => (await ask("GET", "/v1/experts")).cards,
};

export class fleet {
  cards = [];
  leases = []; // ends_at: by performance.now()
  experts = [];
  #watchers = [];
  #reading = new Map(); // topic -> whether it is to be read once more when this reading has ended

  // `changed(topic)` after each reading.
  watch(changed) {
    this.#watchers.push(changed);
  }

  // One reading of a topic at a time, and one more after it if it was asked for meanwhile: however many events come, the daemon is
  // asked no faster than it answers.
  refresh(...topics) {
    for (const topic of topics) {
      if (this.#reading.has(topic)) this.#reading.set(topic, true);
      else this.#read(topic);
    }
  }

  async #read(topic) {
    do {
      this.#reading.set(topic, false);
      try {
        this[topic] = await readers[topic]();
      } catch (why) {
        // Loading, or gone: the heartbeat tells which, and what is shown stays until more is known.
        if (why instanceof refusal && why.status === 503) this[topic] = [];
      }
      for (const changed of this.#watchers) changed(topic);
    } while (this.#reading.get(topic));
    this.#reading.delete(topic);
  }
}
