#!/usr/bin/env python3
# tests/page/access_test.py: the page for those who have no mouse, no screen, no daylight, or no desk.
import unittest

from selenium.webdriver.common.keys import Keys

from browser import DESK, PHONE
from page_case import PageCase
from running_daemon import until

NAMED_ROLES = {"button", "textbox", "searchbox", "spinbutton", "combobox", "checkbox", "link", "dialog", "img", "image", "region", "log", "table",
               "DisclosureTriangle"}

# The contrast of every text that is seen with what lies behind it, by the formula of WCAG 2. Gives those that have too little.
CONTRAST = """
const channels = (color) => (color.match(/[\\d.]+/g) ?? []).map(Number);
const linear = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
const over = (top, below) => [0, 1, 2].map((at) => top[at] * (top[3] ?? 1) + below[at] * (1 - (top[3] ?? 1)));
function behind(element) {
  const layers = [];
  for (let each = element; each; each = each.parentElement) layers.push(channels(getComputedStyle(each).backgroundColor));
  return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
}
const ratio = (a, b) => { const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y); return (light + 0.05) / (dark + 0.05); };
const poor = [];
let looked_at = 0;
const judge = (element, color, what, least) => {
  const ground = behind(element), found = ratio(over(channels(color), ground), ground);
  ++looked_at;
  if (found < least) poor.push(`${what}: ${found.toFixed(2)}, not ${least}`);
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  const text = walker.currentNode.data.trim();
  if (!text || !element.checkVisibility() || element.closest(".visually-hidden, noscript, [disabled], .skip, option")) continue;
  const style = getComputedStyle(element);
  const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
  judge(element, style.color, text.slice(0, 40), large ? 3 : 4.5);
}
for (const field of document.querySelectorAll("input, textarea, select")) {
  if (!field.checkVisibility()) continue;
  judge(field.parentElement, getComputedStyle(field).borderTopColor, `border of ${field.id}`, 3);
  if (field.placeholder) judge(field, getComputedStyle(field, "::placeholder").color, `placeholder of ${field.id}`, 4.5);
}
for (const swatch of document.querySelectorAll(".swatch")) {
  const style = getComputedStyle(swatch);
  const color = swatch.matches(".free") ? style.boxShadow : swatch.matches(".lent") ? style.backgroundImage : style.backgroundColor;
  judge(swatch.parentElement, color.match(/rgba?\\([^)]*\\)/)[0], swatch.className, 3);
}
return {poor, looked_at};
"""

WIDER_THAN_THE_PAGE = """
const width = document.documentElement.clientWidth;
const parents = (element) => (element.parentElement ? [element.parentElement, ...parents(element.parentElement)] : []);
const scrolls = (element) => parents(element).some((each) => getComputedStyle(each).overflowX !== 'visible');
return [...document.body.querySelectorAll('*')]
  .filter((each) => each.checkVisibility() && !each.closest('.visually-hidden') && each.getBoundingClientRect().right > width + 1 && !scrolls(each))
  .map((each) => each.outerHTML.slice(0, 120));
"""


class AccessTest(PageCase):
    def setUp(self):
        self.daemon.release_all()
        self.browser.resize(*DESK)
        self.browser.prefer(color_scheme="light")
        self.browser.ready(self.daemon.url)

    def show_everything(self):
        """A lease, an answer, an error, the options and the numbers of the layers."""
        self.browser.lend(0, 1, "comfyui")
        until("the lease is shown", lambda: self.browser.all("#leases tbody tr"))
        self.browser.set_options(max_tokens=5, temperature=0)
        self.browser.ask("Call me")
        until("it has answered", lambda: self.browser.text(".turn.assistant .note") != "")
        self.browser.write("#temperature", "-1")
        self.browser.ask("Call me")
        until("the error is shown", lambda: self.browser.seen("#chat-error"))
        self.browser.run("document.querySelectorAll('details').forEach((each) => each.open = true)")

    def test_everything_can_be_done_by_keyboard_and_the_focus_is_always_seen(self):
        press = self.browser.press
        press(Keys.TAB)
        self.assertEqual(self.browser.focused(), "skip")
        self.browser.tab_to("Lend memory of card 1")
        press(Keys.ENTER)
        until("the dialog is open", lambda: self.browser.seen("#lend-dialog"))
        self.assertEqual(self.browser.focused(), "lend-mib")
        press("1")
        self.browser.tab_to("lend-owner")
        press(Keys.BACKSPACE * 10 + "keys")
        self.assertEqual(self.browser.one("#lend-card").get_attribute("value"), "1")
        press(Keys.ENTER)
        until("the lease is shown", lambda: self.browser.texts("#leases .owner") == ["keys"])
        self.assertEqual(self.browser.focused(), "Lend memory of card 1")
        self.browser.tab_to("Take back 1 MiB of card 1 from keys")
        press(Keys.ENTER)
        until("it is taken back", lambda: self.browser.all("#leases tbody tr") == [])
        until("the focus is on a button that is left", lambda: self.browser.focused() == "Lend memory of card 0")
        self.browser.tab_to("Restore the reserve of card 0")
        press(Keys.SPACE)
        until("a screen reader is told", lambda: "reserve" in self.browser.text("#announcer"))
        self.browser.set_options(max_tokens=1800, temperature=1, seed=3)
        self.browser.tab_to("prompt", back=True)
        with self.daemon.slowed():
            press("Call me", Keys.ENTER)
            until("the answer is under way", lambda: len(self.browser.text(".turn.assistant .body")) > 5)
            press(Keys.ESCAPE)
            until("it has stopped", lambda: "stopped" in self.browser.text(".turn.assistant .note"))
            self.assertEqual(self.browser.focused(), "prompt")
            press("Once more")
            self.browser.tab_to("send")
            press(Keys.ENTER)
            until("Stop has the focus", lambda: self.browser.focused() == "stop")
            press(Keys.ENTER)
            until("it has stopped", lambda: self.browser.seen("#send"))
        self.browser.tab_to("Lend memory of card 0", back=True)
        press(Keys.ENTER)
        until("the dialog is open", lambda: self.browser.seen("#lend-dialog"))
        press(Keys.ESCAPE)
        until("Escape closes it", lambda: not self.browser.seen("#lend-dialog"))
        self.assertEqual(self.browser.focused(), "Lend memory of card 0")

    def test_the_focus_is_seen_wherever_tab_leads(self):
        self.show_everything()
        self.browser.run("document.activeElement.blur()")
        seen = set()
        for _ in range(60):
            self.browser.press(Keys.TAB)
            at, outline = self.browser.run("const at = document.activeElement, style = getComputedStyle(at);"
                                           "return [at.outerHTML.slice(0, 80), style.outlineStyle + ' ' + parseFloat(style.outlineWidth)]")
            if at.startswith("<body"):  # between the last and the first
                continue
            seen.add(at)
            self.assertEqual(outline, "solid 2", at)
        self.assertGreater(len(seen), 14)

    def test_every_control_and_picture_has_a_name(self):
        self.show_everything()
        for open_dialog in (False, True):
            if open_dialog:
                self.browser.click("#cards article:nth-of-type(1) [data-do=lend]")
            nodes = self.browser.cdp("Accessibility.getFullAXTree")["nodes"]
            named = [node for node in nodes if not node["ignored"] and node.get("role", {}).get("value") in NAMED_ROLES]
            nameless = [node for node in named if not node.get("name", {}).get("value", "").strip()]
            self.assertEqual([(node["role"]["value"], node.get("backendDOMNodeId")) for node in nameless], [])
            self.assertGreater(len(named), 6 if open_dialog else 20)

    def test_it_has_landmarks_one_first_heading_and_no_level_left_out(self):
        landmarks = self.browser.run("return ['header', 'main', 'main section[aria-labelledby]'].map((each) => document.querySelectorAll(each).length)")
        self.assertEqual(landmarks, [1, 1, 6])
        levels = self.browser.run("return [...document.querySelectorAll('h1, h2, h3, h4')].filter((each) => !each.closest('dialog'))"
                                  ".map((each) => Number(each.tagName[1]))")
        self.assertEqual(levels[0], 1)
        self.assertEqual(levels.count(1), 1)
        self.assertTrue(all(after - before <= 1 for before, after in zip(levels, levels[1:])), levels)
        self.assertEqual(self.browser.run("return document.documentElement.lang"), "en")

    def test_charts_and_maps_say_in_words_what_they_show(self):
        self.daemon.answer_to("Call me", max_tokens=40)
        label = lambda: self.browser.run("return document.querySelector('#tokens-chart svg').getAttribute('aria-label')")
        until("the chart tells figures", lambda: "now" in label() and "most" in label(), patience_s=15)
        self.assertTrue(self.browser.texts("#tokens-chart tbody td"))
        self.assertRegex(self.browser.run("return document.querySelector('#experts canvas').getAttribute('aria-label')"),
                         r"^3 layers by 32 experts on card 0: \d+ in slots")
        self.assertRegex(self.browser.run("return document.querySelector('.memory').getAttribute('aria-label')"), r"^Of [\d.]+ MiB: Cache [\d.]+")

    def test_text_controls_and_parts_stand_out_enough_in_both_schemes(self):
        self.show_everything()
        for scheme in ("light", "dark"):
            self.browser.prefer(color_scheme=scheme)
            for dialog in (False, True):
                if dialog:
                    self.browser.click("#cards article:nth-of-type(1) [data-do=lend]")
                    until("the plan is shown", lambda: self.browser.all("#lend-foreseen tbody tr"))
                found = self.browser.run(CONTRAST)
                self.assertEqual(found["poor"], [], scheme)
                self.assertGreater(found["looked_at"], 40)
                if dialog:
                    self.browser.click("#lend-cancel")
        grounds = set()
        for scheme in ("light", "dark"):
            self.browser.prefer(color_scheme=scheme)
            grounds.add(self.browser.run("return getComputedStyle(document.documentElement).backgroundColor"))
        self.assertEqual(len(grounds), 2)

    def test_on_a_phone_nothing_is_wider_than_the_screen(self):
        self.browser.resize(*PHONE, mobile=True)
        self.daemon.ask("POST", "/v1/vram/leases", {"owner": "W" * 100, "gpu": 0, "mib": 1, "ttl_s": 600})
        self.show_everything()
        self.browser.ask("x" * 300)
        for dialog in (False, True):
            if dialog:
                self.browser.click("#cards article:nth-of-type(1) [data-do=lend]")
            self.assertEqual(self.browser.run(WIDER_THAN_THE_PAGE), [])
            self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), PHONE[0])
        small = self.browser.run("return [...document.querySelectorAll('button')].filter((each) => each.checkVisibility())"
                                 ".filter((each) => each.getBoundingClientRect().height < 36).map((each) => each.textContent)")
        self.assertEqual(small, [])

    def test_who_wants_less_motion_gets_none(self):
        moving = ("return [['.part', null], ['.turn.writing .body', '::after']].map(([of, pseudo]) => getComputedStyle(document.querySelector(of), pseudo))"
                  ".map((style) => [style.transitionDuration, style.animationName])")
        self.browser.set_options(max_tokens=1800, temperature=1, seed=3)
        with self.daemon.slowed():
            self.browser.ask("Call me")
            until("the answer is under way", lambda: self.browser.all(".turn.writing"))
            self.assertEqual(self.browser.run(moving), [["0.35s", "none"], ["0s", "blink"]])
            self.browser.prefer(color_scheme="light", reduced_motion="reduce")
            self.assertEqual(self.browser.run(moving), [["0s", "none"], ["0s", "none"]])
            self.browser.click("#stop")

    def test_the_text_can_be_twice_as_large(self):
        self.browser.resize(DESK[0] // 2, DESK[1] // 2, scale=2)  # what a browser's zoom of 200 % is
        self.show_everything()
        self.assertEqual(self.browser.run(WIDER_THAN_THE_PAGE), [])


if __name__ == "__main__":
    unittest.main()
