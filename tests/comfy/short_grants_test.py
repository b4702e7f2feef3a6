# tests/comfy/short_grants_test.py: less is lent than was asked for: all of it is waited for first, as long as that was allowed, and what was
# granted grows when there is room.
import asyncio
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from support import graphs  # noqa: E402
from support.cases import Case  # noqa: E402
from support.programs import Ebb, until  # noqa: E402
from support.sidecar_case import SidecarCase  # noqa: E402
from support.simulated_gpu import SimulatedGpu  # noqa: E402


class ASidecar(SidecarCase):
    async def give_back_elsewhere(self, lease):
        await Ebb(self.ebb.endpoint).ask("lease", action="release", lease_id=lease)

    async def test_a_job_at_the_port_waits_for_all_of_its_memory_before_it_goes_on_with_less(self):
        other = await self.lent_elsewhere(self.ebb, 12000)
        await self.sidecar("--wait", "30", "--linger", "0.3")
        job = asyncio.ensure_future(self.runs(graphs.work(0.2, mib=15000)))
        await asyncio.sleep(1.5)
        self.assertEqual((self.server.events, len(self.ebb.given)), ([], 1))
        await self.give_back_elsewhere(other)
        await job
        self.assertEqual([lease["mib"] for lease in self.ebb.given[1:]], [16384])

    async def test_when_that_time_is_over_it_goes_on_with_less_and_jobs_that_came_meanwhile_do_not_wait_anew(self):
        await self.lent_elsewhere(self.ebb, 12000)
        program = await self.sidecar("--wait", "2")
        began = time.monotonic()
        await asyncio.gather(*(self.post_to(self.gate, graphs.quick(color)) for color in range(3)))
        self.assertGreater(time.monotonic() - began, 1.5)
        self.assertLess(time.monotonic() - began, 4)
        self.assertEqual([lease["mib"] for lease in self.ebb.given[1:]], [10900])
        self.assertIn("lent 10900 MiB of card 0, 5484 too few", program.err)

    async def test_a_short_grant_is_enlarged_for_the_next_job_once_there_is_room(self):
        other = await self.lent_elsewhere(self.ebb, 12000)
        program = await self.sidecar()
        await self.runs(graphs.quick())
        await self.give_back_elsewhere(other)
        await self.runs(graphs.quick(2))
        self.assertEqual([lease["mib"] for lease in self.ebb.given[1:]], [10900, 5484])
        self.assertIn("lent 16384 MiB of card 0 in", program.err)

    async def test_a_short_grant_is_enlarged_for_the_job_that_runs_too(self):
        other = await self.lent_elsewhere(self.ebb, 12000)
        await self.sidecar()
        await self.post_to(self.gate, graphs.work(30))
        await self.give_back_elsewhere(other)
        await until(lambda: sum(lease["mib"] for lease in self.ebb.leases.values()) == 16384, 20)

    async def test_while_nothing_more_is_to_be_had_that_is_said_once_and_seldom_asked(self):
        asked = []
        acquire = self.ebb._acquire
        self.ebb._acquire = lambda request: asked.append(request["mib"]) or acquire(request)
        await self.lent_elsewhere(self.ebb, 12000)
        program = await self.sidecar()
        await self.post_to(self.gate, graphs.work(9))
        await asyncio.sleep(8)
        self.assertEqual(program.err.count("too few"), 1)
        self.assertNotIn("lends nothing", program.err)
        self.assertIn(len(asked), (3, 4))  # the game's, the job's, and after 2 and 6 seconds


class AHandoff(Case):
    async def asyncSetUp(self):
        self.gpu = SimulatedGpu(24000)
        self.server = await self.comfyui(gpu=self.gpu)
        self.ebb = await self.ebb_on((self.gpu, 22000))

    async def test_with_a_smaller_grant_allowed_all_of_it_is_waited_for_first(self):
        other = await self.lent_elsewhere(self.ebb, 12000)
        program = await self.start_handoff(graphs.quick(), 15000, self.server, self.ebb, "--at-least", "5000", "--wait", "30")
        await asyncio.sleep(2)
        self.assertEqual((self.server.events, len(self.ebb.given)), ([], 1))
        await Ebb(self.ebb.endpoint).ask("lease", action="release", lease_id=other)
        outcome = await program.end()
        self.assertEqual((outcome.code, outcome.report["lease_mib"]), (0, 15000), outcome.err)

    async def test_when_the_time_is_over_the_smaller_grant_is_taken(self):
        await self.lent_elsewhere(self.ebb, 12000)
        outcome = await self.handoff(graphs.quick(), 15000, self.server, self.ebb, "--at-least", "5000", "--wait", "1")
        self.assertEqual((outcome.code, outcome.report["lease_mib"]), (0, 10900), outcome.err)
        self.assertGreater(outcome.report["seconds"]["lease"], 1)


class OnAGpuWithTwoCards(SidecarCase):
    async def asyncSetUp(self):
        await super().asyncSetUp()
        self.shared = SimulatedGpu(24000)
        self.server = await self.comfyui(gpu=self.shared)
        self.ebb = await self.ebb_on((self.shared, 11000), (self.shared, 11000))

    async def test_what_is_lent_is_what_is_free_on_the_gpu_and_a_larger_job_is_lent_the_difference(self):
        program = await self.sidecar("--first-guess", "15000", "--max", "20000", "--linger", "1.5")
        await self.runs(graphs.work(0.6, mib=14900, ends="out of memory"))
        await program.shows("ran out of memory of 15000 lent; next time 20000")
        self.assertIn("lent 15000 MiB of card 0 in", program.err)
        self.assertEqual([(lease["device"], lease["mib"]) for lease in self.ebb.given], [(0, 11900), (1, 15000)])
        await self.runs(graphs.work(0.6, mib=14900, ends="out of memory"))
        self.assertIn("lent 20000 MiB of card 0 in", program.err)
        self.assertEqual([(lease["device"], lease["mib"]) for lease in self.ebb.given[2:]], [(1, 5000)])
        await until(self.nothing_is_lent)
        await until(lambda: [card.cache_mib for card in self.ebb.cards] == [11000, 11000])


if __name__ == "__main__":
    unittest.main()
