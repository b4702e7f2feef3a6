// bus/http/page/cards.js: each card: whose its memory is, what is in its cache, and the way back to the reserve of the start.
import { ask } from "./api.js";
import { announce, by_id, keep_children, make, on_press, set_attribute, set_text, show_error } from "./dom.js";
import { count, mib, whole } from "./format.js";
import { divide } from "./memory.js";

const part_names = {
  cache: "Cache",
  rest: "Rest of Ebb",
  beside: "Other cards here",
  lent: "Lent",
  others: "Others",
  free: "Free",
};

export function name_of_card(card) {
  return card.gpu_name ? `Card ${card.device}, ${card.gpu_name}` : `Card ${card.device}, host memory`;
}

function layers_of(card) {
  const last = card.layer_end - 1;
  return card.layer_begin === last ? `layer ${last}` : `layers ${card.layer_begin} to ${last}`;
}

function make_card(card, on_lend) {
  const where = card.gpu !== undefined ? `GPU ${card.gpu}, ${card.pci_address}, ` : "";
  const name = name_of_card(card);
  const lend = make("button", { type: "button", "data-do": "lend", "aria-label": `Lend memory of card ${card.device}` }, "Lend…");
  const restore = make("button", { type: "button", "data-do": "restore", "aria-label": `Restore the reserve of card ${card.device}`,
    title: "Back to the reserve of the settings" }, "Restore");
  const element = make("article", { class: "card", "aria-label": name },
    make("div", { class: "heading" }, make("h3", {}, name), make("span", { class: "where" }, `${where}${layers_of(card)}`),
      make("span", { class: "actions" }, lend, restore)),
    make("div", { class: "memory", role: "img" }),
    make("dl", { class: "parts" }),
    make("p", { class: "filled" }),
    make("p", { class: "error", role: "alert", hidden: true }));
  lend.addEventListener("click", () => on_lend(card.device));
  on_press(restore, () => restore_card(card.device, element));
  return element;
}

async function restore_card(device, element) {
  const error = element.querySelector(".error");
  try {
    const { gpus } = await ask("POST", "/v1/vram", { reserve_mib: null, gpu: device });
    const now = gpus.find((each) => each.device === device);
    show_error(error, now.short_mib > 0 ? `At its floor: ${mib(now.short_mib)} MiB of the reserve could not be freed.` : "");
    announce(`Card ${device}: the reserve is ${whole(now.reserve_mib)} MiB again`);
  } catch (why) {
    show_error(error, why.message);
  }
}

function describe_cache(card) {
  const stage = card.fast_path ? "resident, on the fast path" : card.resident ? "resident" : "not resident";
  const filling = card.slots_to_fill > 0 ? `, ${whole(card.slots_to_fill)} still to fill` : "";
  const short = card.short_mib > 0 ? `, ${mib(card.short_mib)} MiB short of it` : "";
  return `${whole(card.expert_slots)} of ${count(card.expert_slots_full, "slot")}${filling}; ${stage}; reserve ${whole(card.reserve_mib)} MiB${short}`;
}

function update_card(element, card, cards, leases) {
  const { parts, total_mib, total_known } = divide(card, cards, leases);
  const bar = element.querySelector(".memory");
  keep_children(bar, parts, (part) => part.name,
    (part) => make("span", { class: `part ${part.name}` }),
    (piece, part) => {
      piece.style.flexGrow = total_mib > 0 ? part.mib / total_mib : 0;
      piece.hidden = part.mib <= 0;
    });
  const shown = parts.filter((part) => part.mib > 0).map((part) => `${part_names[part.name]} ${mib(part.mib)}`);
  set_attribute(bar, "aria-label", `Of ${mib(total_mib)} MiB: ${shown.join(", ")}`);
  keep_children(element.querySelector(".parts"), parts, (part) => part.name,
    (part) => make("div", { class: "key" }, make("dt", {}, make("span", { class: `swatch ${part.name}`, "aria-hidden": "true" }), part_names[part.name]),
      make("dd")),
    (row, part) => set_text(row.lastElementChild, `${mib(part.mib)} MiB`));
  const unknown = total_known || card.kind === "host" ? "" : " What others use is not told.";
  set_text(element.querySelector(".filled"), `${describe_cache(card)}.${unknown}`);
}

export class cards_panel {
  #on_lend;

  constructor(on_lend) {
    this.#on_lend = on_lend;
  }

  show(cards, leases) {
    const parent = by_id("cards");
    parent.querySelector(".empty")?.toggleAttribute("hidden", cards.length > 0);
    keep_children(parent, cards, (card) => card.device, (card) => make_card(card, this.#on_lend),
      (element, card) => update_card(element, card, cards, leases));
  }
}
