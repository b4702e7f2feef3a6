// bus/http/page/expert_map.js: which experts of a card are in a slot and how hot each is, out of the daemon's hex digits.

function bytes_of(hex) {
  const bytes = new Uint8Array(hex.length >> 1);
  for (let at = 0; at < bytes.length; ++at) bytes[at] = parseInt(hex.slice(2 * at, 2 * at + 2), 16);
  return bytes;
}

export class expert_map {
  #resident;
  #heat;

  // `said`: a card of /v1/experts. Expert e of layer l has the number (l - layer_begin) * experts + e.
  constructor(said) {
    this.device = said.device;
    this.layer_begin = said.layer_begin;
    this.layers = said.layer_end - said.layer_begin;
    this.experts = said.experts;
    this.#resident = bytes_of(said.resident);
    this.#heat = bytes_of(said.heat ?? "");
  }

  is_resident(row, expert) {
    const number = row * this.experts + expert;
    return ((this.#resident[number >> 3] >> (number & 7)) & 1) === 1;
  }

  // Of the hottest of the card, 0 to 1.
  heat(row, expert) {
    return (this.#heat[row * this.experts + expert] ?? 0) / 255;
  }

  // {layer, resident, used, missing}: missing are those that were used lately and are in no slot.
  layer(row) {
    const said = { layer: this.layer_begin + row, resident: 0, used: 0, missing: 0 };
    for (let expert = 0; expert < this.experts; ++expert) {
      const resident = this.is_resident(row, expert), used = this.heat(row, expert) > 0;
      said.resident += resident;
      said.used += used;
      said.missing += used && !resident;
    }
    return said;
  }
}
