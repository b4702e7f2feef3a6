# tests/comfy/stall_test.py: a ComfyUI that takes connections and answers nothing for a while is neither dead nor done: what it was sent may still run,
# and what it holds it still holds. The tools' patience is shortened here; that of the daemons is not.
import asyncio
import sys
import time
import unittest
from pathlib import Path
from unittest import mock

import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parent))
from support import graphs  # noqa: E402
from support.cases import Case  # noqa: E402
from support.programs import until  # noqa: E402
from support.simulated_gpu import SimulatedGpu  # noqa: E402

from ebb_sidecar import borrower, comfyui, giving_back, handoff, job, outcome, report, settings, sidecar, watcher  # noqa: E402
from ebb_sidecar.listener import Listener  # noqa: E402
from ebb_sidecar.progress import Progress  # noqa: E402

NEED_MIB = 6


class Stalls(Case):
    async def asyncSetUp(self):
        for where, name, value in ((comfyui, "PATIENCE_S", 0.4), (job, "GONE_S", 0.5), (handoff, "SETTLE_S", 1.0)):
            patch = mock.patch.object(where, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.server = await self.comfyui()
        self.session = aiohttp.ClientSession()
        self.addAsyncCleanup(self.session.close)
        self.client = comfyui.ComfyUI(self.server.url, self.session)

    async def goes_on_after(self, seconds):
        await asyncio.sleep(seconds)
        self.server.stalled = False

    def handoff(self, ebb, graph, **options):
        self.said = []
        options = report.Options(str(self.file_of(graph)), NEED_MIB, "0", self.server.url, **options)
        return handoff.Handoff(options, ebb.client, self.said.append, Progress(quiet=True))

    async def with_ebb(self):
        self.ebb = await self.ebbd()
        original = handoff.Handoff._submit

        async def submit(this, flow, listener):
            self.server.stalled = True
            await original(this, flow, listener)

        patch = mock.patch.object(handoff.Handoff, "_submit", submit)
        patch.start()
        self.addCleanup(patch.stop)

    async def test_a_comfyui_that_stalls_in_the_middle_of_a_job_is_waited_for_and_the_job_is_done(self):
        listener = Listener(self.server.url, self.session)
        self.addAsyncCleanup(listener.close)
        await self.client.submit(graphs.work(0.5), "job", listener.client_id)
        self.server.stalled = True
        going_on = asyncio.ensure_future(self.goes_on_after(3))
        verdict = await job.wait_for_end(self.client, "job", listener, time.monotonic() + 30)
        self.assertEqual((verdict.end, verdict.pictures), (job.End.SUCCESS, ["work_00001_.png"]))
        await going_on

    async def test_a_comfyui_whose_port_is_closed_is_gone(self):
        listener = Listener(self.server.url, self.session)
        self.addAsyncCleanup(listener.close)
        await self.client.submit(graphs.work(5), "job", listener.client_id)
        await self.server.die()
        verdict = await job.wait_for_end(self.client, "job", listener, time.monotonic() + 30)
        self.assertEqual(verdict.end, job.End.GONE)
        await self.server.start()

    async def test_a_comfyui_that_stalls_until_the_time_is_over_is_not_known_to_have_ended(self):
        listener = Listener(self.server.url, self.session)
        self.addAsyncCleanup(listener.close)
        self.server.stalled = True
        verdict = await job.wait_for_end(self.client, "job", listener, time.monotonic() + 1.5)
        self.assertEqual(verdict.end, job.End.STILL_RUNNING)
        self.assertIn("gives no answer within", verdict.text)

    async def test_a_comfyui_that_stalls_has_not_let_go_and_one_that_goes_on_is_asked_to(self):
        async def free():
            return 100.0

        self.server.stalled = True
        returned = await giving_back.give_back(self.client, free, 100.0, 1.0, 1.0)
        self.assertEqual((returned.gone, returned.silent, returned.posts), (False, True, 0))
        going_on = asyncio.ensure_future(self.goes_on_after(1.5))
        returned = await giving_back.give_back(self.client, free, 100.0, 10.0, 1.0)
        self.assertEqual((returned.back, returned.gone, returned.posts, len(self.server.frees)), (True, False, 1, 1))
        await going_on

    async def test_a_workflow_that_was_sent_to_a_comfyui_that_stalls_keeps_its_lease_and_is_done_when_it_goes_on(self):
        await self.with_ebb()
        self.server.slow_to_queue_s = 0.5  # after it has answered other questions
        running = asyncio.ensure_future(self.handoff(self.ebb, graphs.work(0.5)).run())
        await until(lambda: self.server.stalled)
        await asyncio.sleep(2)
        self.assertEqual(len(await self.ebb.leases()), 1)
        leases_at_start = []
        self.server.on_begin = lambda: leases_at_start.append(running.done())
        self.server.stalled = False
        came = await running
        self.assertEqual((came.exit, came.verdict, came.pictures), (0, "success", ["work_00001_.png"]))
        self.assertEqual(leases_at_start, [False])
        self.assertTrue(any("whether the workflow was queued is asked until it does" in text for text in self.said), self.said)
        self.assertEqual(await self.ebb.leases(), [])

    async def test_a_workflow_that_did_not_reach_a_comfyui_that_stalls_is_told_as_not_queued_once_that_is_known(self):
        await self.with_ebb()
        self.server.slow_to_queue_s = 1000
        running = asyncio.ensure_future(self.handoff(self.ebb, graphs.work(0.5)).run())
        await until(lambda: self.server.stalled)
        await asyncio.sleep(1)
        self.server.stalled = False
        came = await running
        self.assertEqual((came.exit, came.verdict), (outcome.Exit.NO_COMFYUI, "lost"))
        self.assertIn("does not know it now that it does: nothing was queued", came.text)

    async def test_a_comfyui_that_stalls_beyond_the_time_of_the_job_is_told_as_unknown_and_keeps_the_lease_until_then(self):
        await self.with_ebb()
        running = asyncio.ensure_future(self.handoff(self.ebb, graphs.work(0.5), timeout_s=1.0, cancel_s=2.0).run())
        await until(lambda: self.server.stalled)
        await asyncio.sleep(2)
        self.assertEqual(len(await self.ebb.leases()), 1)
        came = await running
        self.assertEqual((came.exit, came.verdict), (outcome.Exit.TIMED_OUT, "still running"))
        self.assertIn("whether the job still runs is not known: ComfyUI at", came.text)
        self.server.stalled = False

    async def test_the_sidecar_keeps_what_it_lent_to_a_comfyui_that_stalls_and_ends_it_when_its_port_is_closed(self):
        for where, name, value in ((borrower, "FREE_S", 0.5), (watcher, "AWAY_LOOK_S", 0.2), (watcher, "IDLE_LOOK_S", 0.2)):
            patch = mock.patch.object(where, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        gpu = SimulatedGpu(24000)
        server = await self.comfyui(gpu=gpu)
        ebb = await self.ebb_on((gpu, 22000))
        said = []
        running = asyncio.ensure_future(sidecar.Sidecar(settings.of_one(settings.Server(server.url, device="0", linger_s=0.3), ebb.endpoint, "", "off"), said.append).run())
        async with self.session.post(server.url + "/prompt", json={"prompt": graphs.work(2, mib=5000)}) as answer:
            self.assertEqual(answer.status, 200)
        await until(lambda: ebb.leases)
        await asyncio.sleep(0.5)
        server.stalled = True
        await asyncio.sleep(5)
        self.assertIn("ended", [what for what, _ in server.events])
        self.assertEqual((len(ebb.leases), running.done()), (1, False), said)
        server.stalled = False
        await until(lambda: not ebb.leases, 10)
        await until(lambda: any("given back after" in text for text in said))
        async with self.session.post(server.url + "/prompt", json={"prompt": graphs.work(5, mib=5000, color=2)}) as answer:
            self.assertEqual(answer.status, 200)
        await until(lambda: ebb.leases)
        await server.die()
        await until(lambda: not ebb.leases, 10)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await server.start()


if __name__ == "__main__":
    unittest.main()
