// bus/http/page/rates_panel.js: tokens a second and hit rate over time, and the few figures beside them.
import { by_id, keep_children, make, set_text } from "./dom.js";
import { time_chart } from "./chart.js";
import { clock, count, percent, rate, whole } from "./format.js";
import { gap_bounds_ms } from "./limits.js";
import { counter_rate, hit_share, longest_gap } from "./rates.js";

const gap_kept_s = 60;

export class rates_panel {
  #tokens = new time_chart(by_id("tokens-chart"), { title: "Tokens a second", format: rate });
  #hits = new time_chart(by_id("hits-chart"), { title: "Hit rate", format: percent, top: 1 });
  #token_rate = new counter_rate();
  #share = new hit_share();
  #gap = new longest_gap(gap_bounds_ms, gap_kept_s);

  take_status(status) {
    const now_s = performance.now() / 1000;
    const per_s = this.#token_rate.push(status.tokens_generated, now_s);
    if (per_s !== null) this.#tokens.push(Date.now(), per_s);
    this.#show_facts(status, status.gap_counts ? this.#gap.push(status.gap_counts, now_s) : null);
  }

  take_cards(cards) {
    const sum = (field) => cards.reduce((all, card) => all + card[field], 0);
    this.#hits.push(Date.now(), this.#share.push(sum("hits"), sum("misses")));
  }

  // A cache has another size.
  mark() {
    this.#tokens.mark(Date.now());
    this.#hits.mark(Date.now());
  }

  // The figures are those of another daemon from now on.
  begin_anew() {
    for (const each of [this.#token_rate, this.#share, this.#gap]) each.forget();
  }

  #show_facts(status, gap) {
    const gap_text = gap === null ? "–" : "at_most_ms" in gap ? `≤ ${whole(gap.at_most_ms)} ms` : `> ${whole(gap.above_ms)} ms`;
    const waiting = status.waiting > 0 ? `, ${whole(status.waiting)} waiting` : "";
    const facts = [
      ["Longest gap, last minute", gap_text],
      ["Sessions", `${whole(status.sessions)} of ${whole(status.sessions_max)}${waiting}`],
      ["Tokens since the start", whole(status.tokens_generated)],
      ["Context", count(status.context, "token")],
      ["Up", clock(status.uptime_s)],
    ];
    keep_children(by_id("facts"), facts, ([name]) => name,
      ([name]) => make("div", {}, make("dt", {}, name), make("dd")),
      (row, [, value]) => set_text(row.lastElementChild, value));
  }
}
