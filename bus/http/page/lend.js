// bus/http/page/lend.js: the dialog in which memory is lent; it shows what that would cost before it is done.
import { ask } from "./api.js";
import { announce, by_id, keep_children, make, show_error } from "./dom.js";
import { clock, mib, percent, rate, whole } from "./format.js";
import { name_of_card } from "./cards.js";
import { lent_mib } from "./memory.js";

const pause_ms = 150; // after the last key, before the daemon is asked what it would cost
const share_offered = 0.25; // of the cache, when the dialog opens

export class lend_dialog {
  #fleet;
  #on_change;
  #dialog = by_id("lend-dialog");
  #asking = null;
  #lending = false;
  #timer = 0;

  constructor(fleet, on_change) {
    this.#fleet = fleet;
    this.#on_change = on_change;
    const form = by_id("lend-form");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#lend();
    });
    form.addEventListener("input", () => this.#foresee_soon());
    by_id("lend-cancel").addEventListener("click", () => this.#dialog.close());
    this.#dialog.addEventListener("close", () => this.#asking?.abort());
  }

  open(device) {
    const { cards } = this.#fleet;
    const chosen = cards.find((card) => card.device === device);
    keep_children(by_id("lend-card"), cards, (card) => card.device, (card) => make("option", { value: card.device }, name_of_card(card)), () => {});
    by_id("lend-card").value = chosen.device;
    if (!by_id("lend-mib").value) by_id("lend-mib").value = Math.max(1, Math.round(chosen.expert_cache_mib * share_offered));
    if (!by_id("lend-owner").value) by_id("lend-owner").value = "page";
    show_error(by_id("lend-error"), "");
    this.#dialog.showModal();
    by_id("lend-mib").select();
    this.#foresee_soon();
  }

  // What the form says; throws what is wrong with it, at the field.
  #read() {
    for (const id of ["lend-mib", "lend-owner", "lend-minutes"]) {
      const field = by_id(id);
      if (field.checkValidity() && field.value.trim() !== "") continue;
      const label = this.#dialog.querySelector(`label[for=${id}]`).textContent;
      field.focus();
      throw new Error(`${label}: ${field.validationMessage || "Please fill out this field."}`);
    }
    return {
      owner: by_id("lend-owner").value.trim(),
      gpu: Number(by_id("lend-card").value),
      mib: Number(by_id("lend-mib").value),
      ttl_s: Math.max(1, Math.round(Number(by_id("lend-minutes").value) * 60)),
    };
  }

  async #lend() {
    if (this.#lending) return;
    this.#lending = true;
    try {
      const wanted = this.#read();
      const granted = await ask("POST", "/v1/vram/leases", wanted);
      show_error(by_id("lend-error"), "");
      announce(`${whole(wanted.mib)} MiB of card ${wanted.gpu} lent to ${wanted.owner} for ${clock(wanted.ttl_s)}. ${granted.warning ?? ""}`);
      this.#dialog.close();
      this.#on_change(granted.warning ?? "");
    } catch (why) {
      show_error(by_id("lend-error"), why.message);
    } finally {
      this.#lending = false;
    }
  }

  #foresee_soon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#foresee(), pause_ms);
  }

  // A lease comes on top of the reserve; what is lent already counts in a plan, so it is short when the lease would be refused.
  async #foresee() {
    this.#asking?.abort();
    const asking = (this.#asking = new AbortController());
    const card = this.#fleet.cards.find((each) => each.device === Number(by_id("lend-card").value));
    const wanted_mib = Number(by_id("lend-mib").value);
    const box = by_id("lend-foreseen");
    if (!card || !by_id("lend-mib").checkValidity() || !this.#dialog.open) return box.replaceChildren();
    try {
      const plan = await ask("POST", "/v1/vram/plan", { reserve_mib: card.reserve_mib + wanted_mib, gpu: card.device }, asking.signal);
      this.#show(plan, card);
    } catch (why) {
      if (why.name === "AbortError") return;
      box.replaceChildren(make("p", { class: "error" }, why.message));
    }
  }

  #show(plan, card) {
    const planned = plan.cards.find((each) => each.device === card.device);
    const rows = [["Slots of this card", whole(card.expert_slots), whole(planned.expert_slots)],
      ["Hit rate", percent(plan.hit_rate_now), percent(plan.hit_rate)]];
    if (plan.tokens_per_s_now > 0) rows.push(["Tokens a second", rate(plan.tokens_per_s_now), rate(plan.tokens_per_s)]);
    const lent = lent_mib(card, this.#fleet.leases);
    const notes = [];
    if (planned.short_mib > 0) notes.push(`The card is ${mib(planned.short_mib)} MiB short of this: it will be refused.`);
    if (lent > 0) notes.push(`${whole(lent)} MiB of it are lent already.`);
    if (!(plan.tokens_per_s_now > 0)) notes.push("How fast it would be is known once an answer has been written.");
    by_id("lend-foreseen").replaceChildren(
      make("table", {}, make("caption", {}, "What it would cost"),
        make("thead", {}, make("tr", {}, make("td"), make("th", { scope: "col" }, "now"), make("th", { scope: "col" }, "then"))),
        make("tbody", {}, ...rows.map(([name, now, then]) =>
          make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, now), make("td", {}, then))))),
      ...notes.map((note) => make("p", { class: "note" }, note)));
  }
}
