// bus/http/page/experts.js: a map of layers by experts for each card. An expert in a slot is a square, another one a dot; the stronger,
// the more it was used lately. A table says the same of each layer in numbers.
import { by_id, keep_children, make, set_attribute, set_text } from "./dom.js";
import { count, percent, whole } from "./format.js";
import { expert_map } from "./expert_map.js";

const cell_px = { least: 5, most: 18 };
const gutter_px = 30; // for the numbers of the layers
const label_px = 11; // a number needs so much height

function make_figure(device) {
  const canvas = make("canvas", { role: "img" });
  const readout = make("span", { class: "readout" });
  const name = `Layers of card ${device}`;
  const heads = ["Layer", "In slots", "Used lately", "Used, in no slot"].map((text) => make("th", { scope: "col" }, text));
  const table = make("table", { "aria-label": name }, make("thead", {}, make("tr", {}, ...heads)), make("tbody"));
  return make("figure", { class: "map" },
    make("figcaption", {}, make("span", { class: "caption" }), readout),
    canvas,
    make("details", {}, make("summary", {}, "Each layer in numbers"),
      make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": name }, table)));
}

// Layers are broken into several lines where one would be too fine to see.
function geometry_of(map, width_px) {
  const room = Math.max(cell_px.least, width_px - gutter_px);
  const lines = Math.ceil(map.experts / Math.floor(room / cell_px.least));
  const columns = Math.ceil(map.experts / lines);
  const cell = Math.min(cell_px.most, Math.floor((room / columns) * 2) / 2);
  const gap = lines > 1 ? 3 : 0; // between two layers
  const pitch = lines * cell + gap;
  return { lines, columns, cell, pitch, height: map.layers * pitch };
}

export class experts_panel {
  #maps = new Map(); // device -> {map, figure, geometry}
  #parent = by_id("experts");

  constructor() {
    new ResizeObserver(() => this.#draw_all()).observe(this.#parent);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw_all());
    this.#parent.append(make("p", { class: "legend" },
      make("span", { class: "sample in", "aria-hidden": "true" }), "in a slot ",
      make("span", { class: "sample out", "aria-hidden": "true" }), "in no slot: the CPU computes it. The stronger, the more it was used lately."));
  }

  show(said) {
    this.#parent.querySelector(".empty")?.toggleAttribute("hidden", said.length > 0);
    this.#parent.querySelector(".legend").hidden = said.length === 0;
    const kept = new Map();
    keep_children(this.#parent, said, (each) => each.device, (each) => this.#make(each.device), (figure, each) => {
      kept.set(String(each.device), { map: new expert_map(each), figure, geometry: null });
    });
    this.#maps = kept;
    this.#draw_all();
    for (const each of kept.values()) this.#describe(each);
  }

  #make(device) {
    const figure = make_figure(device);
    const canvas = figure.querySelector("canvas"), readout = figure.querySelector(".readout");
    canvas.addEventListener("pointermove", (moved) => set_text(readout, this.#at(String(device), moved.offsetX, moved.offsetY)));
    canvas.addEventListener("pointerleave", () => set_text(readout, ""));
    return figure;
  }

  #at(device, x, y) {
    const { map, geometry } = this.#maps.get(device) ?? {};
    if (!geometry) return "";
    const row = Math.floor(y / geometry.pitch), line = Math.floor((y - row * geometry.pitch) / geometry.cell);
    const column = Math.floor((x - gutter_px) / geometry.cell), expert = line * geometry.columns + column;
    if (row >= map.layers || column < 0 || column >= geometry.columns || line >= geometry.lines || expert >= map.experts) return "";
    return `Layer ${map.layer_begin + row}, expert ${expert}: ${map.is_resident(row, expert) ? "in a slot" : "in no slot"}, heat ${percent(map.heat(row, expert))}`;
  }

  #draw_all() {
    for (const each of this.#maps.values()) this.#draw(each);
  }

  #draw(each) {
    const { map, figure } = each;
    const canvas = figure.querySelector("canvas");
    const width = figure.clientWidth;
    if (width === 0) return;
    const geometry = (each.geometry = geometry_of(map, width));
    const scale = devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(geometry.height * scale);
    canvas.style.height = `${geometry.height}px`;
    const style = getComputedStyle(figure);
    const inside = style.getPropertyValue("--cache"), outside = style.getPropertyValue("--ink-soft");
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    context.font = `${label_px - 1}px ${style.fontFamily}`;
    context.textAlign = "right";
    context.textBaseline = "middle";
    const { cell, columns, pitch } = geometry;
    const space = cell >= 8 ? 1.5 : 1;
    const dot = Math.max(1.5, cell * 0.3);
    const every = Math.ceil(label_px / pitch);
    for (let row = 0; row < map.layers; ++row) {
      context.globalAlpha = 1;
      context.fillStyle = outside;
      if (row % every === 0) context.fillText(String(map.layer_begin + row), gutter_px - 8, Math.max(label_px / 2, row * pitch + cell / 2) + 0.5);
      for (let expert = 0; expert < map.experts; ++expert) {
        const x = gutter_px + (expert % columns) * cell, y = row * pitch + Math.floor(expert / columns) * cell;
        const heat = Math.sqrt(map.heat(row, expert));
        if (map.is_resident(row, expert)) {
          context.fillStyle = inside;
          context.globalAlpha = 0.4 + 0.6 * heat;
          context.fillRect(x, y, cell - space, cell - space);
        } else {
          context.fillStyle = outside;
          context.globalAlpha = 0.35 + 0.65 * heat;
          const middle = (cell - space) / 2;
          context.fillRect(x + middle - dot / 2, y + middle - dot / 2, dot, dot);
        }
      }
    }
  }

  #describe({ map, figure }) {
    const layers = Array.from({ length: map.layers }, (_, row) => map.layer(row));
    const sum = (field) => layers.reduce((all, layer) => all + layer[field], 0);
    const all = map.layers * map.experts;
    set_text(figure.querySelector(".caption"), `Card ${map.device}: ${whole(sum("resident"))} of ${count(all, "expert")} in slots`);
    set_attribute(figure.querySelector("canvas"), "aria-label",
      `${count(map.layers, "layer")} by ${count(map.experts, "expert")} on card ${map.device}: ${whole(sum("resident"))} in slots, ` +
      `${whole(sum("missing"))} used lately and in no slot. Each layer in numbers follows.`);
    keep_children(figure.querySelector("tbody"), layers, (layer) => layer.layer,
      (layer) => make("tr", {}, make("th", { scope: "row" }, String(layer.layer)), make("td"), make("td"), make("td")),
      (row, layer) => {
        set_text(row.cells[1], `${whole(layer.resident)} of ${whole(map.experts)}`);
        set_text(row.cells[2], whole(layer.used));
        set_text(row.cells[3], whole(layer.missing));
      });
  }
}
