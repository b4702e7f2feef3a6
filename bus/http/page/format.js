// bus/http/page/format.js: numbers as people read them, with the units of the bus.

const narrow_space = "\u202f";

// 12288 is "12 288".
export function whole(number) {
  return String(Math.round(number)).replace(/\B(?=(\d{3})+(?!\d))/g, narrow_space);
}

// Small memories have fractions: a segment of a host card may be smaller than a MiB.
export function mib(number) {
  return number < 100 && !Number.isInteger(number) ? number.toFixed(1) : whole(number);
}

// Three digits that say something.
export function rate(number) {
  if (number >= 100) return whole(number);
  return number >= 10 || number === 0 ? number.toFixed(number === 0 ? 0 : 1) : number.toFixed(2);
}

export function percent(share) {
  const value = share * 100;
  return `${value > 0 && value < 100 && (value < 10 || value > 99) ? Math.min(value, 99.9).toFixed(1) : Math.round(value)}${narrow_space}%`;
}

// "4:07", "1:02:33", "2 d 03:00"
export function clock(seconds) {
  const all = Math.max(0, Math.ceil(seconds));
  const two = (number) => String(number).padStart(2, "0");
  const days = Math.floor(all / 86400), hours = Math.floor(all / 3600) % 24, minutes = Math.floor(all / 60) % 60;
  if (days > 0) return `${days} d ${two(hours)}:${two(minutes)}`;
  return hours > 0 ? `${hours}:${two(minutes)}:${two(all % 60)}` : `${minutes}:${two(all % 60)}`;
}

export function count(number, one, many = `${one}s`) {
  return `${whole(number)} ${number === 1 ? one : many}`;
}

export function time_of_day(milliseconds) {
  return new Date(milliseconds).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}
