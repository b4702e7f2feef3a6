# tests/comfy/real_comfyui_test.py: the real ComfyUI on the CPU beside a real Ebb on host cards: ten handoffs in a row without a restart of either,
# and what the stand-in is compared with. Skipped where EBB_COMFYUI does not name a ComfyUI.
import asyncio
import os
import signal
import sys
import unittest
from pathlib import Path

import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parent))
import record  # noqa: E402
from stand_in_test import shape, without_repeats  # noqa: E402
from support import graphs, real_comfyui  # noqa: E402
from support.cases import Case  # noqa: E402
from support.comfyui_stand_in import recorded  # noqa: E402
from support.programs import until  # noqa: E402

NEED_MIB = 6


@unittest.skipIf(real_comfyui.why_not(), real_comfyui.why_not())
class RealComfyUITest(Case):
    async def asyncSetUp(self):
        self.server = real_comfyui.RealComfyUI(self.folder())
        await asyncio.to_thread(self.server.start)
        self.addCleanup(self.server.stop)

    async def nothing_is_lent(self):
        return await self.ebb.leases() == []

    async def cache_is_full(self):
        return await self.ebb.cache_mib() == self.full_mib

    async def with_ebb(self):
        self.ebb = await self.ebbd()
        self.full_mib = await self.ebb.cache_mib()

    async def runs(self, graph, *more):
        return await self.handoff(graph, NEED_MIB, self.server, self.ebb, *more)

    async def test_ten_handoffs_in_a_row_without_a_restart_of_either(self):
        await self.with_ebb()
        names = set()
        for i in range(10):
            outcome = await self.runs(graphs.work(0.3, color=i))
            self.assertEqual((outcome.code, outcome.report["verdict"]), (0, "success"), outcome.err)
            names.update(outcome.report["pictures"])
            for name in outcome.report["pictures"]:
                self.assertTrue((self.server.folder / "output" / name).exists(), name)
            self.assertTrue(await self.nothing_is_lent())
            await until(self.cache_is_full)
            print(f"{i + 1}: {outcome.report['seconds']}", flush=True)
        self.assertEqual(len(names), 10)

    async def test_every_way_to_end_is_told_apart(self):
        await self.with_ebb()
        for graph, more, code, verdict in (
                (graphs.quick(), (), 0, "success"), (graphs.quick(), (), 0, "success"), (graphs.work(0.1, ends="in an error"), (), 1, "error"),
                (graphs.work(0.1, ends="out of memory"), (), 8, "out of memory"), (graphs.too_small(), (), 4, ""), (graphs.of_unknown_class(), (), 4, ""),
                (graphs.in_a_circle(), (), 4, ""), (graphs.partly_broken(), ("--allow-partial",), 0, "success"), (graphs.work(30), ("--timeout", "1.5"), 6, "interrupted"),
                (graphs.work(3, deaf=True, color=3), ("--timeout", "1"), 6, "interrupted")):
            outcome = await self.runs(graph, *more)
            self.assertEqual((outcome.code, outcome.report["verdict"]), (code, verdict), outcome.err)
            self.assertTrue(await self.nothing_is_lent())
        await until(self.cache_is_full)

    async def test_a_server_that_is_killed_and_started_again_in_the_middle_has_lost_the_job(self):
        await self.with_ebb()
        program = await self.start_handoff(graphs.work(60), NEED_MIB, self.server, self.ebb)
        await program.shows("node 3: ")
        self.server.stop()
        outcome = await program.end()
        self.assertEqual((outcome.code, outcome.report["verdict"]), (5, "gone"), outcome.err)
        await asyncio.to_thread(self.server.start)
        program = await self.start_handoff(graphs.work(60), NEED_MIB, self.server, self.ebb)
        await program.shows("node 3: ")
        status, _ = await asyncio.to_thread(self.server.post, "/interrupt", {})
        self.assertEqual((status, (await program.end()).code), (200, 1))
        self.assertTrue(await self.nothing_is_lent())

    async def test_one_that_is_stopped_when_the_workflow_is_sent_runs_it_under_its_lease_when_it_goes_on(self):
        await self.with_ebb()
        program = await self.start_handoff(graphs.work(3, color=11), NEED_MIB, self.server, self.ebb)
        await program.shows("ComfyUI is on card 0")
        os.kill(self.server.pid, signal.SIGSTOP)
        try:
            asked = "whether the workflow was queued is asked until it does"
            await until(lambda: asked in program.out + program.err, 120)  # each question before it takes its time-out
            self.assertEqual(len(await self.ebb.leases()), 1)
        finally:
            os.kill(self.server.pid, signal.SIGCONT)
        outcome = await program.end()
        self.assertEqual((outcome.code, outcome.report["verdict"]), (0, "success"), outcome.err)
        self.assertTrue(await self.nothing_is_lent())

    async def test_what_it_answers_is_still_what_was_recorded(self):
        files = await record.record(self.server.url)
        for name, got in files.items():
            want = recorded(name)
            with self.subTest(name):
                if name.startswith("run_"):
                    self.assertEqual(without_repeats(got["messages"]), without_repeats(want["messages"]))
                    self.assertEqual(shape(got["history"]), shape(want["history"]))
                elif name == "refusals":
                    self.assertEqual(got, want)
                else:
                    self.assertEqual(set(got["system"]), set(want["system"]))

    async def test_the_sidecar_lends_for_jobs_that_come_through_its_port(self):
        await self.with_ebb()
        port = real_comfyui.free_port()
        program = await self.start_tool("comfy_sidecar.py", "--comfyui", self.server.url, "--connect", self.ebb.endpoint, "--device", "0", "--peaks-file", "off",
                                        "--max", NEED_MIB, "--listen", f"127.0.0.1:{port}", "--linger", "0.5")
        await program.shows("open http")
        gate = f"http://127.0.0.1:{port}"
        async with aiohttp.ClientSession() as session:
            async with session.get(gate + "/") as page:
                self.assertEqual((page.status, "ComfyUI" in await page.text()), (200, True))
            async with session.get(gate + "/object_info") as nodes:
                self.assertIn("EbbTestWork", await nodes.json())
            async with session.get(gate + "/prompt", headers={"Origin": "http://evil.example"}) as foreign:
                self.assertEqual(foreign.status, 403)
            async with session.get(gate + "/prompt", headers={"Origin": gate}) as own:
                self.assertEqual(own.status, 200)
            run = await record.record_run(gate, session, "work", graphs.work(1.0, color=9))
        self.assertEqual(run["history"]["status"]["status_str"], "success")
        self.assertIn(f"lent {NEED_MIB} MiB of card 0", program.err)
        await until(self.nothing_is_lent)
        await program.shows("given back after")


if __name__ == "__main__":
    if real_comfyui.why_not():
        print("skipped: " + real_comfyui.why_not())
    unittest.main()
