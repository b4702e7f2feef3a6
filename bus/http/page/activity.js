// bus/http/page/activity.js: the daemon's events as sentences, the newest first.
import { by_id, make } from "./dom.js";
import { mib, time_of_day, whole } from "./format.js";

const kept = 30;

const causes = {
  command: "by command",
  lease: "for a lease",
  lease_ended: "after a lease",
  pressure: "to give way",
  released: "taken back",
  expired: "its time is over",
  holder_ended: "its holder has ended",
  client_left: "its client has left",
};

const sentences = {
  model_loaded: () => "The model is loaded",
  resized: (e) =>
    `Card ${e.device}: ${whole(e.expert_slots)} of ${whole(e.expert_slots_full)} slots ${causes[e.cause] ?? e.cause}, in ${e.took_ms.toFixed(1)} ms`,
  residency_flipped: (e) =>
    `Card ${e.device}: ${e.resident ? "all experts are in slots" : `${whole(e.experts_resident)} of ${whole(e.experts)} experts are in slots`}`,
  lease_granted: (e) => `Card ${e.device}: ${whole(e.mib)} MiB lent to ${e.owner}`,
  lease_ended: (e) => `Card ${e.device}: ${whole(e.mib)} MiB are back from ${e.owner}, ${causes[e.cause] ?? e.cause}`,
  short: (e) => `Card ${e.device} is ${mib(e.short_mib)} MiB short`,
  pressure: (e) =>
    `Card ${e.device}: ${e.begins ? "another program needs memory, the cache gives way" : "no other program needs memory any more"}`,
  card_lost: (e) => `Card ${e.device} is lost: ${e.text}`,
};

export function sentence_of(event) {
  return sentences[event.event]?.(event) ?? event.event;
}

export class activity_panel {
  #list = by_id("activity");

  constructor() {
    this.#list.append(make("li", { class: "empty" }, "Nothing has happened since this page was opened."));
  }

  add(event) {
    this.#list.querySelector(".empty")?.remove();
    const time = event.unix_ms ?? Date.now();
    this.#list.prepend(make("li", {}, make("time", { datetime: new Date(time).toISOString() }, time_of_day(time)),
      make("bdi", {}, sentence_of(event))));
    while (this.#list.children.length > kept) this.#list.lastElementChild.remove();
  }
}
