// bus/http/page/rates.js: what counters say when they are read again and again.

// How fast a counter of the daemon grows. A counter that fell is that of a new daemon, and begins anew.
export class counter_rate {
  #value = null;
  #time_s = 0;

  // Per second since the last reading; null if there is none to compare with.
  push(value, time_s) {
    const before = this.#value, since_s = time_s - this.#time_s;
    if (before !== null && since_s <= 0) return null;
    this.#value = value;
    this.#time_s = time_s;
    return before === null || value < before ? null : (value - before) / since_s;
  }

  forget() {
    this.#value = null;
  }
}

// The share of hits among what hits and misses have grown by, over all cards.
export class hit_share {
  #before = null;

  // Null: nothing was asked for since the last reading, or there is none.
  push(hits, misses) {
    const before = this.#before;
    this.#before = { hits, misses };
    if (before === null || hits < before.hits || misses < before.misses) return null;
    const asked = hits - before.hits + misses - before.misses;
    return asked > 0 ? (hits - before.hits) / asked : null;
  }

  forget() {
    this.#before = null;
  }
}

// The longest gap between two tokens lately, as far as a histogram tells: the bound of the highest class that grew.
export class longest_gap {
  #bounds_ms;
  #kept_s;
  #readings = []; // {time_s, counts}, oldest first

  constructor(bounds_ms, kept_s) {
    this.#bounds_ms = bounds_ms;
    this.#kept_s = kept_s;
  }

  // {at_most_ms} or {above_ms}; null if no token came.
  push(counts, time_s) {
    const newest = this.#readings.at(-1);
    if (newest && counts.some((count, at) => count < newest.counts[at])) this.#readings = [];
    this.#readings.push({ time_s, counts });
    while (this.#readings.length > 2 && this.#readings[1].time_s <= time_s - this.#kept_s) this.#readings.shift();
    const oldest = this.#readings[0].counts;
    for (let at = counts.length - 1; at >= 0; --at) {
      if (counts[at] === oldest[at]) continue;
      return at < this.#bounds_ms.length ? { at_most_ms: this.#bounds_ms[at] } : { above_ms: this.#bounds_ms.at(-1) };
    }
    return null;
  }

  forget() {
    this.#readings = [];
  }
}
