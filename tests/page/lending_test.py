#!/usr/bin/env python3
# tests/page/lending_test.py: what the page shows of memory, and how it is lent, taken back and restored.
import json
import re
import unittest
import urllib.error

from page_case import PageCase
from running_daemon import until

HOSTILE = "<img src=x onerror=\"document.title='owned'\">\u202e<script>document.title='owned'</script>"


def number_in(text):
    return float(re.sub(r"[^\d.]", "", text))


class LendingTest(PageCase):
    def setUp(self):
        self.daemon.release_all()
        self.browser.ready(self.daemon.url)

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])

    def parts(self, device):
        """What the bar of a card says in words, in MiB."""
        keys = self.browser.all(f"#cards article:nth-of-type({device + 1}) .key")
        return {key.find_element("css selector", "dt").text: number_in(key.find_element("css selector", "dd").text) for key in keys}

    def rows(self):
        return self.browser.texts("#leases tbody .owner")

    def test_a_card_shows_the_figures_of_the_daemon_and_its_bar_their_shares(self):
        for device in (0, 1):
            card = self.daemon.card(device)
            parts = self.parts(device)
            self.assertAlmostEqual(parts["Cache"], card["expert_cache_mib"], delta=0.5)
            self.assertAlmostEqual(parts["Free"], card["vram_free_mib"], delta=max(0.5, card["vram_free_mib"] * 0.2))
            widths = self.browser.run(
                "return [...arguments[0].children].map((each) => each.hidden ? 0 : each.getBoundingClientRect().width)",
                self.browser.all(".memory")[device])
            total = sum(parts.values())
            for width, part in zip(widths, parts.values()):
                self.assertAlmostEqual(width / sum(widths), part / total, delta=0.02)

    def test_lending_shrinks_the_cache_and_taking_back_regrows_it(self):
        before = self.daemon.card(0)
        mib = int(before["expert_cache_mib"] // 2)
        self.browser.lend(0, mib, "comfyui", minutes=5)
        until("the lease is shown", lambda: self.rows() == ["comfyui"])
        [lease] = self.daemon.leases()
        self.assertEqual((lease["owner"], lease["device"], lease["mib"]), ("comfyui", 0, mib))
        self.assertAlmostEqual(lease["ends_in_s"], 300, delta=30)
        smaller = self.daemon.card(0)
        self.assertLess(smaller["expert_slots"], before["expert_slots"])
        until("the bar shows it", lambda: self.parts(0)["Lent"] == mib)
        self.assertAlmostEqual(self.parts(0)["Cache"], smaller["expert_cache_mib"], delta=0.5)
        self.assertEqual(self.parts(1)["Lent"], 0)
        until("the map shows it", 
              lambda: f"Card 0: {smaller['expert_slots']} of" in self.browser.text("#experts figure:nth-of-type(1) .caption"))
        self.browser.click("#leases button")
        until("the lease is gone", lambda: self.rows() == [] and self.browser.seen("#leases .empty"))
        until("the cache is back", lambda: self.daemon.card(0)["expert_slots"] == before["expert_slots"])
        until("the bar shows it", lambda: self.parts(0) == {**self.parts(0), "Lent": 0} and abs(self.parts(0)["Cache"] - before["expert_cache_mib"]) < 0.5)

    def test_the_dialog_shows_what_it_would_cost_before_it_is_done(self):
        self.daemon.answer_to("Call me", max_tokens=20)
        card = self.daemon.card(0)
        mib = int(card["expert_cache_mib"] // 2)
        self.browser.click("#cards article:nth-of-type(1) [data-do=lend]")
        self.browser.write("#lend-mib", str(mib))
        plan = self.daemon.ask("POST", "/v1/vram/plan", {"reserve_mib": card["reserve_mib"] + mib, "gpu": 0})
        slots = str(plan["cards"][0]["expert_slots"])
        until("the plan is shown", lambda: [slots] == self.browser.texts("#lend-foreseen tbody tr:first-child td:last-child"))
        self.assertLess(int(slots), card["expert_slots"])
        self.assertEqual(self.daemon.leases(), [])
        self.browser.click("#lend-cancel")
        self.assertEqual(self.daemon.card(0)["expert_slots"], card["expert_slots"])

    def test_a_refusal_is_shown_in_the_daemons_words_and_the_dialog_stays(self):
        self.browser.lend(1, 4000000, "greedy")
        until("the error is shown", lambda: self.browser.seen("#lend-error"))
        try:
            self.daemon.ask("POST", "/v1/vram/leases", {"owner": "greedy", "gpu": 1, "mib": 4000000, "ttl_s": 60})
            self.fail("the daemon lent it")
        except urllib.error.HTTPError as refused:
            said = json.load(refused)["error"]["message"]
        self.assertEqual(re.sub(r"\d+(\.\d+)?", "N", self.browser.text("#lend-error")), re.sub(r"\d+(\.\d+)?", "N", said))
        self.assertTrue(self.browser.seen("#lend-dialog"))
        self.assertEqual(self.daemon.leases(), [])

    def test_a_field_that_is_missing_is_named_and_nothing_is_asked(self):
        self.browser.lend(0, 1, "  ")
        until("the error is shown", lambda: self.browser.text("#lend-error").startswith("To whom"))
        self.browser.write("#lend-owner", "somebody")
        self.browser.write("#lend-mib", "1.5")
        self.browser.click("#lend-submit")
        until("the error is shown", lambda: self.browser.text("#lend-error").startswith("MiB"))
        self.assertEqual(self.browser.focused(), "lend-mib")
        self.assertEqual(self.daemon.leases(), [])

    def test_a_lease_counts_down_and_vanishes_by_itself(self):
        self.browser.lend(0, 1, "brief", minutes=0.1)
        until("the lease is shown", lambda: self.rows() == ["brief"])
        first = self.browser.text("#leases .left")
        self.assertRegex(first, r"^0:0[3-6]$")
        until("it has counted on", lambda: self.rows() and self.browser.text("#leases .left") < first, patience_s=4)
        until("the lease is gone", lambda: self.rows() == [], patience_s=20)
        until("the activity says why", lambda: any("brief" in each and "its time is over" in each for each in self.browser.texts("#activity li")))

    def test_what_others_lend_is_shown_without_asking(self):
        self.daemon.ask("POST", "/v1/vram/leases", {"owner": "ebb", "gpu": 1, "mib": 1, "ttl_s": 60})
        until("the lease is shown", lambda: self.rows() == ["ebb"], patience_s=5)
        self.daemon.release_all()
        until("it is gone", lambda: self.rows() == [], patience_s=5)

    def test_restore_sets_the_reserve_of_the_start_on_that_card_alone(self):
        start = self.daemon.card(0)["reserve_mib"]
        self.daemon.ask("POST", "/v1/vram", {"reserve_mib": start + 2})
        until("the reserve is shown", lambda: all(f"reserve {start + 2} MiB" in each for each in self.browser.texts("#cards .filled")))
        self.browser.click("#cards article:nth-of-type(1) [data-do=restore]")
        until("the reserve is back", lambda: f"reserve {start} MiB" in self.browser.texts("#cards .filled")[0])
        self.assertEqual([self.daemon.card(device)["reserve_mib"] for device in (0, 1)], [start, start + 2])

    def test_an_owner_with_markup_in_his_name_stays_text(self):
        self.daemon.ask("POST", "/v1/vram/leases", {"owner": HOSTILE, "gpu": 0, "mib": 1, "ttl_s": 60})
        until("the lease is shown", lambda: self.rows() == [HOSTILE])
        until("the activity tells of it", lambda: any(HOSTILE in each for each in self.browser.texts("#activity li")))
        self.assertEqual(self.browser.all("#leases img, #leases script, #activity img, #activity script"), [])
        self.assertNotIn("owned", self.browser.driver.title)

    def test_an_answer_is_the_same_while_memory_is_lent_and_taken_back(self):
        options = {"max_tokens": 1500, "temperature": 0.9, "seed": 11}
        undisturbed = self.daemon.answer_to("Of the whale", **options)
        before = self.daemon.card(0)["expert_slots"]
        self.browser.set_options(**options)
        with self.daemon.slowed():
            self.browser.ask("Of the whale")
            until("some of the answer is there", lambda: len(self.browser.text(".turn.assistant .body")) > 10)
            self.browser.lend(0, int(self.daemon.card(0)["expert_cache_mib"]) - 1, "comfyui")
            until("the lease is shown", lambda: self.rows() == ["comfyui"])
            self.assertTrue(self.browser.all(".turn.writing"), "the answer had ended before the memory was lent")
            self.assertLess(self.daemon.card(0)["expert_slots"], before)
            while_lent = len(self.browser.text(".turn.assistant .body"))
            until("more of it came while lent", lambda: len(self.browser.text(".turn.assistant .body")) > while_lent)
            self.browser.click("#leases button")
            until("the lease is gone", lambda: self.rows() == [])
            self.assertTrue(self.browser.all(".turn.writing"), "the answer had ended before the memory was taken back")
        until("the answer has ended", lambda: not self.browser.all(".turn.writing"))
        self.assertEqual(self.browser.text(".turn.assistant .body"), undisturbed)
        self.browser.save("lending")


if __name__ == "__main__":
    unittest.main()
