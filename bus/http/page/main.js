// bus/http/page/main.js: wires the parts of the page together: what the daemon says goes to those who show it.
import { refusal } from "./api.js";
import { activity_panel, sentence_of } from "./activity.js";
import { cards_panel } from "./cards.js";
import { chat_panel } from "./chat.js";
import { announce, by_id, set_text } from "./dom.js";
import { experts_panel } from "./experts.js";
import { fleet } from "./fleet.js";
import { heartbeat } from "./heartbeat.js";
import { key_dialog } from "./key.js";
import { leases_panel } from "./leases.js";
import { lend_dialog } from "./lend.js";
import { news } from "./news.js";
import { notice } from "./notice.js";
import { rates_panel } from "./rates_panel.js";

const at_rest_ms = 5000; // between two looks at cards while no token is made
const experts_ms = 2000; // between two looks at experts, which are many
const leases_ms = 15_000; // events tell of leases; this is for those that were missed
const unseen_ms = 3000; // a browser has six connections to a daemon for all its tabs: one that is not seen gives its own back

const known = new fleet();
const rates = new rates_panel();
const activity = new activity_panel();
const told = new notice(() => pulse.beat());
const lend = new lend_dialog(known, (warning) => {
  known.refresh("cards", "leases");
  told.show_warning(warning);
});
const cards = new cards_panel((device) => lend.open(device));
const leases = new leases_panel(() => known.refresh("cards", "leases"));
const experts = new experts_panel();
const keys = new key_dialog(() => pulse.beat());
const chat = new chat_panel((why) => {
  if (!(why instanceof refusal) || why.status === 401) pulse.beat();
});
const stream = new news({
  on_open: () => known.refresh("cards", "leases", "experts"),
  on_event: take_event,
  on_end: () => pulse.beat(),
});
const pulse = new heartbeat({ on_status: take_status, on_state: take_state });

let status = null;
const read_at = { cards: 0, experts: 0, leases: 0 };
let windows_seen = -1;
let experts_seen = true;

known.watch((topic) => {
  if (topic === "cards") rates.take_cards(known.cards);
  if (topic !== "experts") cards.show(known.cards, known.leases);
  if (topic === "leases") leases.show(known.leases);
  if (topic === "experts") experts.show(known.experts);
});
new IntersectionObserver(([entry]) => (experts_seen = entry.isIntersecting)).observe(by_id("experts"));

function take_status(now) {
  const before = status;
  status = now;
  if (before && now.uptime_s < before.uptime_s) rates.begin_anew();
  rates.take_status(now);
  chat.model = now.model;
  const name = now.model.split("/").at(-1);
  set_text(by_id("model"), [name, now.architecture, `Ebb ${now.version}`].filter(Boolean).join(" · "));
  document.title = name ? `Ebb: ${name}` : "Ebb";
  told.show_status(now.state);
  if (now.state !== "ready") return;
  if (before?.state !== "ready") known.refresh("cards", "leases", "experts");
  else look_again(now);
}

function look_again(now) {
  const time = performance.now();
  const works = now.windows !== windows_seen;
  windows_seen = now.windows;
  const due = (topic, after_ms) => time - read_at[topic] >= after_ms && (read_at[topic] = time);
  if (due("cards", works ? 0 : at_rest_ms)) known.refresh("cards");
  if (due("leases", leases_ms)) known.refresh("leases");
  if (experts_seen && works && due("experts", experts_ms)) known.refresh("experts");
}

function take_state(state, about) {
  told.show_connection(state, about);
  if (state === "locked") {
    stream.stop();
    keys.ask(about.why.message);
  } else if (state === "live") {
    keys.close();
    if (!document.hidden) stream.start();
  } else {
    stream.stop();
    rates.begin_anew();
  }
}

function take_event(event) {
  activity.add(event);
  if (event.event === "resized") rates.mark();
  if (["lease_granted", "lease_ended", "card_lost", "pressure", "short"].includes(event.event)) announce(sentence_of(event));
  if (event.event === "model_loaded") pulse.beat();
  known.refresh("cards", "leases", "experts");
}

let unseen_timer = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(unseen_timer);
  if (document.hidden) unseen_timer = setTimeout(() => stream.stop(), unseen_ms);
  else if (pulse.state === "live") stream.start();
});

pulse.beat();
