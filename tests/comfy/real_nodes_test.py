# tests/comfy/real_nodes_test.py: the nodes in the graphs of the real ComfyUI, beside a real Ebb. Skipped where EBB_COMFYUI does not name a ComfyUI.
import asyncio
import json
import sys
import unittest
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from support import graphs, real_comfyui  # noqa: E402
from support.cases import Case  # noqa: E402
from support.ebb_http import ebbd_with_http  # noqa: E402
from support.programs import until  # noqa: E402

CARD_MIB = 300
NEED_MIB = 295  # more than is free beside a full cache of 11.7 MiB


def with_borrow(graph, mib=NEED_MIB, at_least=0, wait=0, if_not_lent="stop the workflow", gpu=0):
    graph["10"] = {"class_type": "EbbBorrowVRAM", "inputs": {"mib": mib, "gpu": gpu, "at_least_mib": at_least, "wait_s": wait, "if_not_lent": if_not_lent}}
    return graph


def with_return(graph):
    graph["11"] = {"class_type": "EbbReturnVRAM", "inputs": {"after": ["3", 0], "unload_models": True}}
    return graph


@unittest.skipIf(real_comfyui.why_not(), real_comfyui.why_not())
class RealNodesTest(Case):
    async def asyncSetUp(self):
        self.ebb, url = await ebbd_with_http(self, "--set", f"host_card_mib={CARD_MIB}")
        self.full_mib = await self.ebb.cache_mib()
        self.server = real_comfyui.RealComfyUI(self.folder(), environment={"EBB_URL": url})
        await asyncio.to_thread(self.server.start)
        self.addCleanup(self.server.stop)

    async def queue(self, graph):
        id = str(uuid.uuid4())
        status, answer = await asyncio.to_thread(self.server.post, "/prompt", {"prompt": graph, "prompt_id": id})
        self.assertEqual((status, answer.get("node_errors")), (200, {}), answer)
        return id

    async def entry(self, id):
        return (await asyncio.to_thread(self.server.get, f"/history/{id}")).get(id)

    async def runs(self, graph):
        id = await self.queue(graph)
        await until(lambda: self.entry(id))
        return await self.entry(id)

    async def assert_success(self, entry):
        self.assertEqual(entry["status"]["status_str"], "success", json.dumps(entry["status"]["messages"][-1])[:2000])

    async def nothing_is_lent(self):
        return await self.ebb.leases() == []

    async def one_is_lent(self):
        return len(await self.ebb.leases()) == 1

    async def cache_is_full(self):
        return await self.ebb.cache_mib() == self.full_mib

    # One server for all of them: its start takes longest.
    async def test_the_nodes_in_the_graphs_of_a_real_comfyui(self):
        for case in (self.borrow_and_return, self.borrow_alone, self.borrow_with_something_passed_through, self.an_error_behind_borrow, self.an_interrupt_behind_borrow,
                     self.an_interrupt_while_borrow_waits, self.no_room, self.the_card_cannot_be_told, self.ask, self.the_end_of_comfyui):
            with self.subTest(case.__name__):
                await case()
                await until(self.nothing_is_lent)
                await until(self.cache_is_full)

    async def borrow_and_return(self):
        """A lease from before the first other node to Return, in every run; what comes before Return is not run anew."""
        for run in range(2):
            id = await self.queue(with_return(with_borrow(graphs.work(1.5))))
            if run == 0:
                await until(self.one_is_lent)
                lease = (await self.ebb.leases())[0]
                self.assertEqual((lease["mib"], lease["pid"]), (NEED_MIB, self.server.pid))
                self.assertLess(await self.ebb.cache_mib(), self.full_mib)
            await until(lambda: self.entry(id))
            entry = await self.entry(id)
            await self.assert_success(entry)
            self.assertTrue(await self.nothing_is_lent())
            self.assertEqual((entry["outputs"]["10"]["text"], entry["outputs"]["11"]["text"]), ([f"{NEED_MIB} MiB lent"], ["1 lease(s) returned"]))
            cached = dict(entry["status"]["messages"])["execution_cached"]["nodes"]
            self.assertEqual(set(cached), {"1", "2", "3"} if run else set())

    async def borrow_alone(self):
        """Without Return the lease ends with the job."""
        await self.assert_success(await self.runs(with_borrow(graphs.work(0.2, color=2))))
        await until(self.nothing_is_lent, 3)

    async def borrow_with_something_passed_through(self):
        graph = with_return(with_borrow(graphs.work(0.2, color=3)))
        graph["10"]["inputs"]["through"] = ["1", 0]
        graph["3"]["inputs"]["image"] = ["10", 0]
        graph["2"]["inputs"]["images"] = ["11", 0]
        entry = await self.runs(graph)
        await self.assert_success(entry)
        self.assertTrue((self.server.folder / "output" / entry["outputs"]["2"]["images"][0]["filename"]).exists())

    async def an_error_behind_borrow(self):
        entry = await self.runs(with_return(with_borrow(graphs.work(0.5, ends="in an error", color=4))))
        self.assertEqual(entry["status"]["messages"][-1][1]["exception_message"], "told to fail\n")
        await until(self.nothing_is_lent, 3)

    async def an_interrupt_behind_borrow(self):
        id = await self.queue(with_return(with_borrow(graphs.work(60, color=5))))
        await until(self.one_is_lent)
        await asyncio.to_thread(self.server.post, "/interrupt", {})
        await until(lambda: self.entry(id))
        await until(self.nothing_is_lent, 3)

    async def an_interrupt_while_borrow_waits(self):
        other = (await self.ebb.client.ask("lease", action="acquire", owner="a game", device=0, mib=NEED_MIB, ttl_s=100))["leases"][0]["lease_id"]
        id = await self.queue(with_borrow(graphs.work(0.1, color=6), wait=600))
        await asyncio.sleep(1)
        self.assertIsNone(await self.entry(id))
        await asyncio.to_thread(self.server.post, "/interrupt", {})
        await until(lambda: self.entry(id), 5)
        self.assertEqual((await self.entry(id))["status"]["messages"][-1][0], "execution_interrupted")
        await asyncio.sleep(0.5)
        await self.ebb.client.ask("lease", action="release", lease_id=other)
        await asyncio.sleep(0.5)
        self.assertTrue(await self.nothing_is_lent())

    async def no_room(self):
        entry = await self.runs(with_borrow(graphs.work(0.1, color=7), mib=5000))
        event, data = entry["status"]["messages"][-1]
        self.assertEqual((event, data["node_type"]), ("execution_error", "EbbBorrowVRAM"))
        self.assertRegex(data["exception_message"], r"\d+ MiB")
        entry = await self.runs(with_borrow(graphs.work(0.1, color=8), mib=5000, if_not_lent="go on"))
        await self.assert_success(entry)
        self.assertTrue(entry["outputs"]["10"]["text"][0].startswith("not lent: "))
        entry = await self.runs(with_borrow(graphs.work(0.1, color=9), mib=5000, at_least=100))
        await self.assert_success(entry)
        self.assertRegex(entry["outputs"]["10"]["text"][0], r"^\d+ MiB lent$")

    async def the_card_cannot_be_told(self):
        entry = await self.runs(with_borrow(graphs.work(0.1, color=10), gpu=-1))
        self.assertIn("ComfyUI computes on the CPU, so which card is meant cannot be told; set `gpu` of the node", entry["status"]["messages"][-1][1]["exception_message"])

    async def ask(self):
        """A text of Ebb's model in the same graph, asked once for the same question."""
        graph = {"1": {"class_type": "EbbAsk", "inputs": {"prompt": "In the beginning", "system": "", "max_tokens": 8, "temperature": 0.0, "seed": 1, "drop_thinking": True}},
                 "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}}}
        first = await self.runs(graph)
        await self.assert_success(first)
        self.assertGreater(len(first["outputs"]["2"]["text"][0]), 8)
        again = await self.runs(graph)
        self.assertEqual(set(dict(again["status"]["messages"])["execution_cached"]["nodes"]), {"1", "2"})
        self.assertEqual(again["outputs"], first["outputs"])

    async def the_end_of_comfyui(self):
        await self.queue(with_borrow(graphs.work(60, color=11)))
        await until(self.one_is_lent)
        self.server.stop()
        await until(self.nothing_is_lent, 3)


if __name__ == "__main__":
    if real_comfyui.why_not():
        print("skipped: " + real_comfyui.why_not())
    unittest.main()
