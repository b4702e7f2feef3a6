// bus/http/page/memory.js: whose a card's memory is, as far as the daemon's figures tell.
//
// The driver tells what is free, a card tells what it holds, a lease tells what was promised; nobody tells how much of a lease its
// holder has taken. What is free beyond the reserve is counted as promised and not taken yet, and so no MiB is counted twice.

const positive = (number) => Math.max(0, number);

// Cards of the same GPU see one free figure.
const share_a_gpu = (one, other) => one.device !== other.device && Boolean(one.uuid) && one.uuid === other.uuid;

export const lent_mib = (card, leases) => leases.filter((lease) => lease.device === card.device).reduce((sum, lease) => sum + lease.mib, 0);

// {parts: [{name, mib}], total_mib, total_known}. The parts add up to the total; "others" is there only if the total is known.
export function divide(card, cards, leases) {
  const neighbours = cards.filter((other) => share_a_gpu(card, other));
  const held_mib = (each) => each.held_mib ?? positive(each.rss_mib);
  const cache_mib = card.expert_cache_mib;
  const rest_mib = card.kind === "host" ? 0 : positive(held_mib(card) - cache_mib);
  const beside_mib = neighbours.reduce((sum, each) => sum + held_mib(each), 0);
  const free_mib = card.vram_free_mib;
  const promised_mib = lent_mib(card, leases);
  let taken_mib = positive(promised_mib - positive(free_mib - card.reserve_mib));
  const total_known = Number.isFinite(card.memory_mib) && card.memory_mib > 0;
  const accounted_mib = cache_mib + rest_mib + beside_mib + free_mib;
  let others_mib = 0;
  if (total_known) {
    const elsewhere_mib = positive(card.memory_mib - accounted_mib);
    taken_mib = Math.min(taken_mib, elsewhere_mib);
    others_mib = elsewhere_mib - taken_mib;
  }
  const waiting_mib = Math.min(free_mib, promised_mib - taken_mib);
  const parts = [{ name: "cache", mib: cache_mib }];
  if (card.kind !== "host") parts.push({ name: "rest", mib: rest_mib });
  if (neighbours.length) parts.push({ name: "beside", mib: beside_mib });
  parts.push({ name: "lent", mib: waiting_mib + taken_mib });
  if (total_known) parts.push({ name: "others", mib: others_mib });
  parts.push({ name: "free", mib: free_mib - waiting_mib });
  return { parts, total_mib: parts.reduce((sum, part) => sum + part.mib, 0), total_known };
}
