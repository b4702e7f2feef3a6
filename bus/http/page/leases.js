// bus/http/page/leases.js: who was lent how much of which card, and for how long still; and the button that takes it back.
import { ask } from "./api.js";
import { announce, by_id, keep_children, make, on_press, set_text, show_error } from "./dom.js";
import { clock, whole } from "./format.js";

function make_row(lease, on_taken_back) {
  const button = make("button", { type: "button", "aria-label": `Take back ${whole(lease.mib)} MiB of card ${lease.device} from ${lease.owner}` }, "Take back");
  const row = make("tr", {},
    make("th", { scope: "row", class: "owner" }, make("bdi", {}, lease.owner), lease.pid ? make("span", { class: "pid" }, ` process ${lease.pid}`) : null),
    make("td", {}, String(lease.device)),
    make("td", { class: "number" }, whole(lease.mib)),
    make("td", { class: "number left" }),
    make("td", { class: "action" }, button));
  on_press(button, () => on_taken_back(lease));
  return row;
}

export class leases_panel {
  #leases = [];
  #table = make("table", { class: "leases", "aria-labelledby": "leases-heading" },
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Owner"), make("th", { scope: "col" }, "Card"),
      make("th", { scope: "col", class: "number" }, "MiB"), make("th", { scope: "col", class: "number" }, "Time left"),
      make("th", { scope: "col" }, make("span", { class: "visually-hidden" }, "Action")))),
    make("tbody"));
  #empty = make("p", { class: "empty" }, "Nothing is lent.");
  #error = make("p", { class: "error", role: "alert", hidden: true });
  #on_change;

  // on_change: the daemon was asked for something that changes cards and leases.
  constructor(on_change) {
    this.#on_change = on_change;
    by_id("leases").append(this.#empty, this.#table, this.#error);
    this.show([]);
    setInterval(() => this.#count_down(), 500);
  }

  show(leases) {
    this.#leases = leases;
    this.#table.hidden = leases.length === 0;
    this.#empty.hidden = leases.length > 0;
    const had_focus = this.#table.contains(document.activeElement);
    keep_children(this.#table.tBodies[0], leases, (lease) => lease.lease_id, (lease) => make_row(lease, (of) => this.#take_back(of)), () => {});
    this.#count_down();
    // The button that was pressed may have gone with its row: the next one is where a keyboard goes on.
    if (had_focus && !this.#table.contains(document.activeElement)) (this.#table.querySelector("button") ?? document.querySelector("#cards button"))?.focus();
  }

  #count_down() {
    const now = performance.now();
    [...this.#table.tBodies[0].rows].forEach((row, at) => {
      const lease = this.#leases[at];
      if (lease) set_text(row.querySelector(".left"), clock((lease.ends_at - now) / 1000));
    });
  }

  async #take_back(lease) {
    try {
      await ask("DELETE", `/v1/vram/leases/${lease.lease_id}`);
      show_error(this.#error, "");
      announce(`${whole(lease.mib)} MiB of card ${lease.device} taken back`);
    } catch (why) {
      show_error(this.#error, why.message);
    }
    this.#on_change();
  }
}
