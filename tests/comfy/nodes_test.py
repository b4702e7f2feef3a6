# tests/comfy/nodes_test.py: what the pack of ComfyUI nodes does without a ComfyUI: its questions to Ebb, the leases of jobs, which card is meant.
import asyncio
import os
import sys
import threading
import time
import traceback
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
from support.cases import Case  # noqa: E402
from support.ebb_http import ebbd_with_http  # noqa: E402
from support.programs import ROOT  # noqa: E402
from support.real_comfyui import free_port  # noqa: E402

sys.path.insert(0, str(ROOT / "tools"))
from comfyui_nodes import NODE_CLASS_MAPPINGS, at_work, client, lending_nodes, own_card  # noqa: E402
from comfyui_nodes.ask_node import without_thinking  # noqa: E402
from comfyui_nodes.held_leases import TTL_S, HeldLeases  # noqa: E402


class Interrupted(Exception):
    pass


class NodesCase(Case):
    async def asyncSetUp(self):
        self.ebb, url = await ebbd_with_http(self)
        self.set_environment(EBB_URL=url)

    def set_environment(self, **values):
        patch = mock.patch.dict(os.environ, values)
        patch.start()
        self.addCleanup(patch.stop)


class Leases(NodesCase):
    def setUp(self):
        self.running, self.time = ["job"], 0.0
        self.leases = HeldLeases(lambda: self.running, now=lambda: self.time)
        self.leases._thread = threading.current_thread()  # the test looks itself

    async def borrow(self, job="job", mib=5, **how):
        answer = await asyncio.to_thread(client.ask, "POST", "/v1/vram/leases", self.leases.wanted(0, mib, 0, 0) | how)
        return self.leases.hold(job, answer)

    async def look(self):
        await asyncio.to_thread(self.leases.look)

    async def held(self):
        return [(lease["mib"], lease["pid"]) for lease in await self.ebb.leases()]

    async def test_a_lease_is_held_for_its_job_with_comfyuis_process_and_given_back_by_return(self):
        lease, mib = await self.borrow()
        self.assertEqual((mib, await self.held()), (5, [(5, os.getpid())]))
        self.assertEqual((self.leases.of("job"), self.leases.of("another")), ([lease], []))
        await asyncio.to_thread(self.leases.give_back, [lease])
        self.assertEqual((await self.held(), self.leases.of("job")), ([], []))

    async def test_a_job_that_ended_without_return_loses_its_leases_and_another_one_keeps_its_own(self):
        await self.borrow("job", 4)
        await self.borrow("another", 3)
        self.running = ["another"]
        await self.look()
        self.assertEqual(await self.held(), [(3, os.getpid())])

    async def test_a_lease_is_renewed_in_thirds_of_its_time(self):
        await self.borrow()
        for self.time, is_renewed in ((TTL_S / 3 - 1, False), (TTL_S / 3 + 1, True), (TTL_S / 3 + 2, False), (TTL_S * 2 / 3 + 2, True)):
            await asyncio.sleep(0.5)
            before = (await self.ebb.leases())[0]["ends_in_s"]
            await self.look()
            self.assertEqual((await self.ebb.leases())[0]["ends_in_s"] > before, is_renewed)

    async def test_a_lease_that_ebb_forgot_is_forgotten_and_without_an_ebb_it_is_kept_and_asked_for_again(self):
        lease, _ = await self.borrow()
        await self.ebb.client.ask("lease", action="release", lease_id=lease)
        self.time = TTL_S
        await self.look()
        self.assertEqual(self.leases.of("job"), [])
        lease, _ = await self.borrow()
        self.time += TTL_S
        with mock.patch.dict(os.environ, {"EBB_URL": f"http://127.0.0.1:{free_port()}"}):
            await self.look()
        self.assertEqual(self.leases.of("job"), [lease])

    async def test_less_than_was_asked_for_is_taken_only_if_it_is_of_use(self):
        with self.assertRaises(client.EbbError) as short:
            await self.borrow(mib=500)
        self.assertEqual(short.exception.code, "short_of")
        self.assertRegex(str(short.exception), r"\d+ MiB")
        self.assertGreaterEqual((await self.borrow(mib=500, min_mib=5))[1], 5)

    async def test_an_ebb_that_does_not_see_comfyuis_process_lends_all_the_same_for_a_time(self):
        with mock.patch("os.getpid", return_value=4_000_001):
            wanted = self.leases.wanted(0, 5, 0, 0)
        answer = await asyncio.to_thread(self.leases.ask_for, wanted, lambda body: client.ask("POST", "/v1/vram/leases", body))
        self.leases.hold("job", answer)
        (lease,) = await self.ebb.leases()
        self.assertEqual((lease["mib"], lease["pid"]), (5, 0))
        self.assertLessEqual(lease["ends_in_s"], TTL_S)
        with self.assertRaisesRegex(client.EbbError, "mib"):
            await asyncio.to_thread(self.leases.ask_for, wanted | {"mib": 0}, lambda body: client.ask("POST", "/v1/vram/leases", body))

    async def test_on_another_machine_a_process_number_is_not_sent_since_it_means_nothing_there(self):
        with mock.patch.dict(os.environ, {"EBB_URL": "http://192.0.2.7:8080"}):
            self.assertNotIn("pid", self.leases.wanted(0, 5, 0, 0))

    async def test_in_a_container_where_ebb_does_not_see_our_process_memory_is_lent_by_its_time_alone(self):
        with mock.patch("os.getpid", return_value=4194303), mock.patch.object(lending_nodes, "leases", self.leases), \
                mock.patch.object(at_work, "waiting_for", lambda call, late: call.answer()):
            self.assertEqual(await asyncio.to_thread(lending_nodes.BorrowVram()._acquire, "job", 0, 5, 0, 0), 5)
        self.assertEqual(await self.held(), [(5, 0)])
        self.assertEqual(len(self.leases.of("job")), 1)

    async def test_with_less_of_use_all_of_it_is_waited_for_first(self):
        other = (await self.ebb.client.ask("lease", action="acquire", owner="a game", device=0, mib=6, ttl_s=100))["leases"][0]["lease_id"]
        with mock.patch.object(lending_nodes, "leases", self.leases), mock.patch.object(at_work, "waiting_for", lambda call, late: call.answer()):
            def lent(wait_s):
                return asyncio.ensure_future(asyncio.to_thread(lending_nodes.BorrowVram()._acquire_last, "job", 0, 8, 1, wait_s))

            self.assertLess(await lent(1), 8)
            self.leases.give_back(self.leases.of("job"))
            waiting = lent(30)
            await asyncio.sleep(1)
            await self.ebb.client.ask("lease", action="release", lease_id=other)
            self.assertEqual(await waiting, 8)

    async def test_the_thread_that_watches_ends_when_nothing_is_held(self):
        leases = HeldLeases(lambda: [])
        leases.hold("job", {"lease_id": 99, "mib": 1})
        thread = leases._thread
        await asyncio.to_thread(thread.join, 5)
        self.assertFalse(thread.is_alive())


class Waiting(NodesCase):
    async def acquire(self, mib, wait_s, stop, late):
        body = {"owner": "a test", "gpu": 0, "mib": mib, "wait_s": wait_s}
        return await asyncio.to_thread(at_work.waiting_for, client.Call("POST", "/v1/vram/leases", body, wait_s), late.append, stop)

    async def test_an_interrupt_while_memory_is_waited_for_leaves_no_lease_behind(self):
        await self.ebb.client.ask("lease", action="acquire", owner="a game", device=0, mib=8, ttl_s=100)
        began, late = time.monotonic(), []

        def stop():
            if time.monotonic() > began + 0.5:
                raise Interrupted

        with self.assertRaises(Interrupted):
            await self.acquire(8, 100, stop, late)
        self.assertLess(time.monotonic() - began, 3)
        await asyncio.sleep(0.5)
        for lease in await self.ebb.leases():
            await self.ebb.client.ask("lease", action="release", lease_id=lease["lease_id"])
        await asyncio.sleep(0.5)
        self.assertEqual((await self.ebb.leases(), late), ([], []))

    async def test_an_answer_that_comes_after_the_interrupt_is_not_lost(self):
        call = SimpleNamespace(answer=lambda: time.sleep(0.5) or {"lease_id": 1}, close=lambda: None)
        late = []

        def stop():
            raise Interrupted

        with self.assertRaises(Interrupted):
            await asyncio.to_thread(at_work.waiting_for, call, late.append, stop)
        await asyncio.sleep(0.8)
        self.assertEqual(late, [{"lease_id": 1}])

    async def test_an_answer_of_the_model_comes_in_pieces_and_an_interrupt_ends_it_in_ebb(self):
        def ask(n_tokens, stop):
            call = client.Call("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "In the beginning"}], "max_tokens": n_tokens, "temperature": 0,
                                                                "seed": 1, "stream": True})
            pieces = [choice["delta"].get("content") for event in at_work.events_of(call, stop) for choice in event["choices"]]
            return [piece for piece in pieces if piece]

        pieces = await asyncio.to_thread(ask, 8, lambda: None)
        self.assertGreater(len(pieces), 2)
        began = time.monotonic()

        def stop():
            if time.monotonic() > began + 0.2:
                raise Interrupted

        with self.assertRaises(Interrupted):
            await asyncio.to_thread(ask, 1500, stop)
        for _ in range(100):
            if (await self.ebb.client.ask("status"))["sessions"] == 0:
                return
            await asyncio.sleep(0.05)
        self.fail("the answer goes on")


class Errors(NodesCase):
    async def failure(self, *what):
        with self.assertRaises(client.EbbError) as raised:
            await asyncio.to_thread(client.ask, *what)
        return raised.exception

    async def test_what_does_not_answer_or_is_no_ebb_is_told_with_the_way_out(self):
        with mock.patch.dict(os.environ, {"EBB_URL": f"http://127.0.0.1:{free_port()}"}):
            self.assertRegex(str(await self.failure("GET", "/v1/cards")), "start ebbd with http.listen set, or set EBB_URL before ComfyUI starts")
        with mock.patch.dict(os.environ, {"EBB_URL": "127.0.0.1:8080"}):
            self.assertIn("is no address such as", str(await self.failure("GET", "/v1/cards")))
        other = await self.comfyui()
        with mock.patch.dict(os.environ, {"EBB_URL": other.url}):
            self.assertIn("is no Ebb (HTTP 404)", str(await self.failure("GET", "/v1/cards")))

    async def test_a_key_is_sent_from_its_file_and_a_wrong_one_is_told(self):
        _, url = await ebbd_with_http(self, key="secret-of-sixteen-or-more")
        self.set_environment(EBB_URL=url)
        self.assertEqual((await self.failure("GET", "/v1/cards")).code, "missing_api_key")
        file = self.folder() / "key"
        file.write_text("secret-of-sixteen-or-more\n")
        self.set_environment(EBB_API_KEY_FILE=str(file))
        self.assertEqual([card["device"] for card in await asyncio.to_thread(client.cards)], [0, 1])
        self.set_environment(EBB_API_KEY_FILE="/nowhere")
        self.assertIn("EBB_API_KEY_FILE=/nowhere cannot be read", str(await self.failure("GET", "/v1/cards")))

    async def test_what_is_no_key_is_refused_before_it_is_sent_and_shown_nowhere(self):
        files = {"two lines": b"sk-very-secret\nsk-very-secret\n", "a blank": b"sk-very secret", "no ascii": "sk-very-secr\u00e9t".encode(), "no utf-8": b"sk-very-secret\xff",
                 "too short": b"sk-very", "a null": b"sk-very-\0secret", "nothing": b""}
        for name, content in files.items():
            file = self.folder() / "key"
            file.write_bytes(content)
            self.set_environment(EBB_API_KEY_FILE=str(file))
            self.assert_is_no_key(f"EBB_API_KEY_FILE={file} is no key: one line of 8 to 4096 ASCII characters without blanks", name)
        self.set_environment(EBB_API_KEY_FILE="")
        for value in ("sk-very\rsecret", "sk-very\r\nsecret: 1", "sk-very-secr\u00e9t"):
            self.set_environment(EBB_API_KEY=value)
            self.assert_is_no_key("EBB_API_KEY is no key: one line", value)

    def assert_is_no_key(self, words, name):
        for what in (lambda call: call.answer(), lambda call: list(call.events())):
            with self.assertRaises(client.EbbError) as raised:
                what(client.Call("POST", "/v1/vram/leases", {}))
            told = "".join(traceback.format_exception(raised.exception))
            self.assertIn(words, told, name)
            self.assertNotIn("sk-", told, name)

    async def test_a_key_with_the_line_end_of_another_system_is_a_key(self):
        _, url = await ebbd_with_http(self, key="secret-of-sixteen-or-more")
        self.set_environment(EBB_URL=url, EBB_API_KEY="secret-of-sixteen-or-more\r")
        self.assertEqual(len(await asyncio.to_thread(client.cards)), 2)

    async def test_an_address_with_a_port_that_cannot_be_is_told_as_one(self):
        for address in ("http://127.0.0.1:80800", "http://127.0.0.1:x", "http://[::1"):
            with mock.patch.dict(os.environ, {"EBB_URL": address}):
                self.assertIn(f"EBB_URL={address} is no address such as http://127.0.0.1:8080", str(await self.failure("GET", "/v1/cards")))

    async def test_no_workflow_can_say_where_ebb_is_so_that_none_can_have_the_key_sent_elsewhere(self):
        for kind in NODE_CLASS_MAPPINGS.values():
            inputs = kind.INPUT_TYPES()
            names = [name for part in ("required", "optional") for name in inputs.get(part, {})]
            self.assertFalse([name for name in names if "url" in name or "key" in name or "address" in name], kind)


class OwnCard(unittest.TestCase):
    cards = [{"device": 0, "gpu_name": "A", "uuid": "GPU-AAAA-1", "pci_address": "0000:41:00.0"},
             {"device": 1, "gpu_name": "B", "uuid": "GPU-bbbb-2", "pci_address": "0000:01:00.0"},
             {"device": 2, "gpu_name": "A", "uuid": "GPU-AAAA-1", "pci_address": "0000:41:00.0"}]

    def test_a_card_is_found_by_uuid_or_pci_address_whatever_its_number(self):
        self.assertEqual(own_card.find(self.cards, True, SimpleNamespace(name="B", uuid="bbbb-2")), [1])
        self.assertEqual(own_card.find(self.cards, True, SimpleNamespace(name="A", uuid="aaaa-1")), [0, 2])
        self.assertEqual(own_card.find(self.cards, True, SimpleNamespace(name="B", pci_domain_id=0, pci_bus_id=1, pci_device_id=0)), [1])

    def test_what_cannot_be_told_is_said_with_the_cards_there_are(self):
        for is_cuda, properties in ((False, None), (True, SimpleNamespace(name="C", uuid="cccc-3"))):
            with self.assertRaisesRegex(client.EbbError, r"set `gpu` of the node to the number of a card in `ebb status`: 0 \(A\), 1 \(B\), 2 \(A\)"):
                own_card.find(self.cards, is_cuda, properties)


class Thinking(unittest.TestCase):
    def test_what_a_model_thought_first_is_left_out_and_nothing_else(self):
        self.assertEqual(without_thinking("<think>\nhm\n</think>\n\nA cat."), "A cat.")
        for text in ("A <think>cat</think>.", "<think>no end", "A cat."):
            self.assertEqual(without_thinking(text), text)


if __name__ == "__main__":
    unittest.main()
