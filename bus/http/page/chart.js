// bus/http/page/chart.js: one quantity over the last five minutes: a line, its newest value, and a table for those who cannot see it.
import { make, make_svg, set_attribute, set_text } from "./dom.js";
import { time_of_day } from "./format.js";

const span_ms = 300_000;
const gap_ms = 6000; // without a sample for longer than this the line is broken
const table_rows = 10;
const width = 600, height = 110; // of the drawing, which is stretched to its place

export class time_chart {
  #samples = []; // {time, value}; a value may be null: there was nothing to measure
  #marks = []; // times of resizes
  #title;
  #format;
  #top; // of the axis; null: by the samples
  #parts;
  #drawn_table = 0;

  // `format` writes a value with its unit.
  constructor(parent, { title, format, top = null }) {
    this.#title = title;
    this.#format = format;
    this.#top = top;
    const line = make_svg("path", { class: "line" });
    const area = make_svg("path", { class: "area" });
    const marks = make_svg("path", { class: "marks" });
    const picture = make_svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img",
      "aria-label": `${title}: nothing measured yet` }, area, marks, line);
    const newest = make("span", { class: "newest" }, "–");
    const when = make("span", { class: "when" });
    const most = make("span", { class: "axis most", "aria-hidden": "true" });
    const rows = make("tbody");
    const table = make("table", { class: "visually-hidden" }, make("caption", {}, title),
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Time"), make("th", { scope: "col" }, title))), rows);
    const plot = make("div", { class: "plot" }, picture, most, make("span", { class: "axis from", "aria-hidden": "true" }, "5 min ago"),
      make("span", { class: "axis to", "aria-hidden": "true" }, "now"));
    parent.classList.add("chart");
    parent.append(make("h3", {}, title), make("p", { class: "reading" }, newest, when), plot, table);
    plot.addEventListener("pointermove", (moved) => this.#point_at((moved.clientX - plot.getBoundingClientRect().left) / plot.clientWidth));
    plot.addEventListener("pointerleave", () => this.#point_at(null));
    this.#parts = { line, area, marks, picture, newest, when, most, rows };
  }

  push(time, value) {
    this.#samples.push({ time, value });
    this.#draw(time);
  }

  mark(time) {
    this.#marks.push(time);
  }

  #pointed = null;

  #point_at(share) {
    this.#pointed = share;
    this.#read_out(Date.now());
  }

  // The newest value, or that under the pointer.
  #read_out(now) {
    const { newest, when } = this.#parts;
    const wanted = this.#pointed === null ? null : now - span_ms * (1 - this.#pointed);
    const measured = this.#samples.filter((sample) => sample.value !== null);
    let shown = measured.at(-1);
    if (wanted !== null && measured.length) {
      shown = measured.reduce((best, sample) => (Math.abs(sample.time - wanted) < Math.abs(best.time - wanted) ? sample : best));
    }
    set_text(newest, shown ? this.#format(shown.value) : "–");
    set_text(when, wanted !== null && shown ? time_of_day(shown.time) : "");
  }

  #draw(now) {
    while (this.#samples.length && this.#samples[0].time < now - span_ms - gap_ms) this.#samples.shift();
    this.#marks = this.#marks.filter((time) => time >= now - span_ms);
    const measured = this.#samples.filter((sample) => sample.value !== null);
    const most = measured.reduce((best, sample) => Math.max(best, sample.value), 0);
    const top = this.#top ?? nice_above(most);
    const x = (time) => ((1 - (now - time) / span_ms) * width).toFixed(1);
    const y = (value) => (height - 2 - (Math.min(value, top) / top) * (height - 6)).toFixed(1);
    let line = "", area = "", before = null, first = null;
    for (const sample of measured) {
      const goes_on = before !== null && sample.time - before.time <= gap_ms;
      if (!goes_on && first !== null) area += `L${x(before.time)},${height}L${x(first.time)},${height}Z`;
      if (!goes_on) first = sample;
      line += `${goes_on ? "L" : "M"}${x(sample.time)},${y(sample.value)}`;
      area += `${goes_on ? "L" : "M"}${x(sample.time)},${y(sample.value)}`;
      before = sample;
    }
    if (first !== null) area += `L${x(before.time)},${height}L${x(first.time)},${height}Z`;
    const { picture, marks, most: axis } = this.#parts;
    this.#parts.line.setAttribute("d", line);
    this.#parts.area.setAttribute("d", area);
    marks.setAttribute("d", this.#marks.map((time) => `M${x(time)},0V${height}`).join(""));
    set_text(axis, this.#format(top));
    this.#read_out(now);
    if (now - this.#drawn_table < span_ms / table_rows / 6 && this.#drawn_table) return;
    this.#drawn_table = now;
    const least = measured.reduce((best, sample) => Math.min(best, sample.value), Infinity);
    set_attribute(picture, "aria-label", measured.length
      ? `${this.#title} over the last five minutes: now ${this.#format(measured.at(-1).value)}, least ${this.#format(least)}, most ${this.#format(most)}`
      : `${this.#title}: nothing measured yet`);
    this.#write_table(now, measured);
  }

  // The mean of each half minute, newest first.
  #write_table(now, measured) {
    const step = span_ms / table_rows;
    const rows = [];
    for (let row = 0; row < table_rows; ++row) {
      const inside = measured.filter((sample) => sample.time > now - (row + 1) * step && sample.time <= now - row * step);
      if (!inside.length) continue;
      const mean = inside.reduce((sum, sample) => sum + sample.value, 0) / inside.length;
      rows.push(make("tr", {}, make("th", { scope: "row" }, time_of_day(inside.at(-1).time)), make("td", {}, this.#format(mean))));
    }
    this.#parts.rows.replaceChildren(...rows);
  }
}

// A round number that is not below `value`.
export function nice_above(value) {
  if (value <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((step) => step * power >= value);
}
