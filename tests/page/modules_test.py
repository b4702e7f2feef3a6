#!/usr/bin/env python3
# tests/page/modules_test.py: the decisions of the page, each module alone, in the browser that runs them.
import unittest

from page_case import PageCase


class ModulesTest(PageCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser.ready(cls.daemon.url)

    def module(self, name, script):
        return self.browser.module(f"/page/{name}.js", script)

    def test_a_stream_of_events_reads_the_same_wherever_it_is_cut(self):
        text = r": hello\n\nevent: resized\nid: 1\ndata: {\"a\":1}\n\ndata: one\r\ndata: two\r\n\r\nretry: 5\n\ndata:\n\ndata: open"
        expected = [{"event": "resized", "data": '{"a":1}'}, {"event": "message", "data": "one\ntwo"}, {"event": "message", "data": ""}]
        for size in (1, 2, 3, 7, 1000):
            read = self.module("sse", f'const parser = new it.event_parser(); const text = "{text}"; const all = [];'
                                      f"for (let at = 0; at < text.length; at += {size}) all.push(...parser.push(text.slice(at, at + {size}))); return all;")
            self.assertEqual(read, expected, size)

    def test_a_counter_gives_its_rate_and_begins_anew_with_another_daemon(self):
        self.assertEqual(self.module("rates", "const rate = new it.counter_rate();"
                                              "return [[10, 1], [30, 2], [30, 3], [5, 4], [15, 9]].map((each) => rate.push(...each));"),
                         [None, 20, 0, None, 2])

    def test_the_hit_rate_is_that_of_what_was_asked_for_since(self):
        self.assertEqual(self.module("rates", "const share = new it.hit_share();"
                                              "return [[90, 10], [93, 11], [93, 11], [0, 0], [1, 1]].map((each) => share.push(...each));"),
                         [None, 0.75, None, None, 0.5])

    def test_the_longest_gap_is_the_highest_class_that_grew_lately(self):
        script = """
            const gap = new it.longest_gap([10, 50], 60);
            const readings = [[[5, 1, 1], 0], [[9, 1, 1], 1], [[9, 2, 1], 2], [[9, 2, 2], 30], [[12, 2, 2], 63], [[12, 2, 2], 91], [[12, 2, 2], 200],
                              [[0, 1, 0], 201], [[0, 2, 0], 202]];
            return readings.map((each) => gap.push(...each));
        """
        self.assertEqual(self.module("rates", script),
                         [None, {"at_most_ms": 10}, {"at_most_ms": 50}, {"above_ms": 50}, {"above_ms": 50}, {"at_most_ms": 10}, None, None, {"at_most_ms": 50}])

    def divide(self, card, cards="[]", leases="[]"):
        return self.module("memory", f"const card = {card}; return it.divide(card, [card, ...{cards}], {leases});")

    CARD = "{device: 0, kind: 'cuda', uuid: 'GPU-1', expert_cache_mib: 4000, held_mib: 5000, vram_free_mib: 3700, reserve_mib: 700, memory_mib: 12000}"

    def parts(self, divided):
        return {part["name"]: part["mib"] for part in divided["parts"]}

    def test_a_lease_that_is_not_taken_yet_is_part_of_what_is_free(self):
        divided = self.divide(self.CARD, leases="[{device: 0, mib: 3000}, {device: 1, mib: 9}]")
        self.assertEqual(self.parts(divided), {"cache": 4000, "rest": 1000, "lent": 3000, "others": 3300, "free": 700})
        self.assertEqual(divided["total_mib"], 12000)

    def test_a_lease_that_is_taken_is_part_of_what_others_use(self):
        divided = self.divide(self.CARD.replace("3700", "700"), leases="[{device: 0, mib: 3000}]")
        self.assertEqual(self.parts(divided), {"cache": 4000, "rest": 1000, "lent": 3000, "others": 3300, "free": 700})

    def test_without_the_size_of_a_gpu_nothing_is_said_of_others(self):
        divided = self.divide(self.CARD.replace(", memory_mib: 12000", ""), leases="[{device: 0, mib: 3000}]")
        self.assertEqual(self.parts(divided), {"cache": 4000, "rest": 1000, "lent": 3000, "free": 700})
        self.assertFalse(divided["total_known"])

    def test_cards_that_share_a_gpu_are_not_strangers(self):
        divided = self.divide(self.CARD, cards="[{device: 1, kind: 'cuda', uuid: 'GPU-1', held_mib: 2000}, {device: 2, kind: 'cuda', uuid: 'GPU-2', held_mib: 999}]")
        self.assertEqual(self.parts(divided), {"cache": 4000, "rest": 1000, "beside": 2000, "lent": 0, "others": 1300, "free": 3700})

    def test_a_host_card_is_its_cache_and_what_is_free(self):
        divided = self.divide("{device: 0, kind: 'host', expert_cache_mib: 8, rss_mib: 8, vram_free_mib: 4, reserve_mib: 0}", leases="[{device: 0, mib: 3}]")
        self.assertEqual(self.parts(divided), {"cache": 8, "lent": 3, "free": 1})

    def test_a_map_of_experts_reads_bits_from_the_least_significant_and_layers_one_after_the_other(self):
        script = """
            const map = new it.expert_map({device: 1, layer_begin: 4, layer_end: 6, experts: 5, resident: "2102", heat: "ff000000330000000001"});
            const bits = [0, 1].map((row) => [0, 1, 2, 3, 4].map((expert) => map.is_resident(row, expert)));
            return {bits, heat: [map.heat(0, 0), map.heat(0, 4), map.heat(1, 0)], layers: [map.layer(0), map.layer(1)]};
        """
        self.assertEqual(self.module("expert_map", script), {
            "bits": [[True, False, False, False, False], [True, False, False, False, True]],
            "heat": [1, 0.2, 0],
            "layers": [{"layer": 4, "resident": 1, "used": 2, "missing": 1}, {"layer": 5, "resident": 2, "used": 1, "missing": 0}]})

    def test_the_map_agrees_with_the_daemon(self):
        [first, second] = self.daemon.ask("GET", "/v1/experts")["cards"]
        resident = sum(bin(byte).count("1") for byte in bytes.fromhex(first["resident"]))
        all_of_it = (first["layer_end"] - first["layer_begin"]) * first["experts"]
        self.assertEqual(self.browser.text("#experts .caption"), f"Card 0: {resident} of {all_of_it} experts in slots")
        rows = self.browser.texts("#experts tbody th")
        self.assertEqual(rows, [str(layer) for each in (first, second) for layer in range(each["layer_begin"], each["layer_end"])])

    def test_numbers_are_written_for_people(self):
        script = """
            return [it.whole(1234567), it.mib(0.25), it.mib(402.5), it.rate(41.234), it.rate(0), it.percent(0.9996), it.percent(1), it.percent(0.5),
                    it.clock(247), it.clock(3753), it.clock(183600), it.count(1, "token")];
        """
        self.assertEqual(self.module("format", script),
                         ["1\u202f234\u202f567", "0.3", "403", "41.2", "0", "99.9\u202f%", "100\u202f%", "50\u202f%", "4:07", "1:02:33", "2 d 03:00", "1 token"])

    def test_the_page_says_what_a_daemon_does_that_is_not_ready(self):
        for state, word, sentence in (("loading", "Loading", "loading"), ("stopping", "Stopping", "stopping"), ("failed", "Failed", "could not be loaded")):
            shown = self.module("notice", f"new it.notice(() => 0).show_status('{state}');"
                                          "return ['state', 'notice-text'].map((id) => document.getElementById(id).textContent);")
            self.assertEqual(shown[0], word)
            self.assertIn(sentence, shown[1])


if __name__ == "__main__":
    unittest.main()
