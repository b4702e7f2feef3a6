# tests/comfy/neighbours_test.py: what ComfyUI takes is told from what its neighbours on the GPU take, and from what earlier jobs left there.
import asyncio
import os
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from support import graphs  # noqa: E402
from support.programs import Program, until  # noqa: E402
from support.real_comfyui import free_port  # noqa: E402
from support.sidecar_case import SidecarCase  # noqa: E402
from support.simulated_gpu import follow_by_nvidia_smi  # noqa: E402

FRONT = Path(__file__).resolve().parent / "support" / "front.py"


class OneRun(SidecarCase):
    async def runs_beside_a_game(self, seconds=2.0, **how):
        program = await self.start_handoff(graphs.work(seconds, mib=9000), 10000, self.server, self.ebb, "--free-timeout", "3",
                                           environment={"PATH": f"{self.state}:{os.environ['PATH']}"}, **how)
        await until(lambda: self.gpu.taken[self.server.who] == 9400)
        self.gpu.take("a game", 1500)
        return await program.end()

    async def test_what_another_program_takes_meanwhile_is_not_comfyuis(self):
        follow_by_nvidia_smi(self.state, self.gpu, {os.getpid(): self.server.who})
        outcome = await self.runs_beside_a_game()
        self.assertEqual((outcome.code, outcome.report["taken_mib"], outcome.report["missing_mib"]), (0, 9000, 0), outcome.err)

    async def test_where_the_driver_shows_no_processes_that_it_may_be_another_programs_is_said(self):
        outcome = await self.runs_beside_a_game()
        self.assertEqual(outcome.code, 9)
        self.assertRegex(outcome.err, r"1244 MiB have not come back from ComfyUI \(pid \d+\), unless another program has taken them")

    async def test_a_take_of_a_moment_is_seen(self):
        self.server.spike_mib = 7000
        for shows in (False, True):
            if shows:
                follow_by_nvidia_smi(self.state, self.gpu, {os.getpid(): self.server.who})
            outcome = await self.handoff(graphs.work(1, mib=1000, color=shows + 1), 10000, self.server, self.ebb, environment={"PATH": f"{self.state}:{os.environ['PATH']}"})
            self.assertEqual((outcome.code, outcome.report["taken_mib"]), (0, 7000), outcome.err)

    async def test_what_earlier_jobs_left_in_comfyui_is_noted_since_from_cold_it_takes_more(self):
        await self.runs(graphs.work(0.1, mib=1500), self.server.url)
        outcome = await self.handoff(graphs.work(0.5, mib=100, color=2), 10000, self.server, self.ebb)
        self.assertEqual((outcome.code, outcome.report["taken_mib"]), (0, 100), outcome.err)
        self.assertIn("ComfyUI held 1500 MiB of earlier jobs already when this one was lent memory: from cold it may take up to 1600", outcome.err)


class TwoComfyUIs(SidecarCase):
    async def asyncSetUp(self):
        await super().asyncSetUp()
        self.servers = [self.server, await self.comfyui(gpu=self.gpu)]
        self.urls, self.processes = [], {}
        for server in self.servers:
            front = await Program.start(sys.executable, FRONT, server.port)
            self.addAsyncCleanup(front.kill)
            await front.shows(".\n")
            self.urls.append("http://127.0.0.1:" + re.search(r"\d+", front.out)[0])
            self.processes[front.pid] = server.who

    async def run_both(self):
        file, ports = self.folder() / "sidecar.toml", (free_port(), free_port())
        file.write_text(f'connect = "{self.ebb.endpoint}"\npeaks_file = "off"\n' + "".join(
            f'[[comfyui]]\nurl = "{url}"\nmax_mib = 9000\nlinger_s = 1\ndevice = "0"\nlisten = "127.0.0.1:{port}"\n'
            for url, port in zip(self.urls, ports)))
        program = await self.start_tool("comfy_sidecar.py", "--config", file, environment={"PATH": f"{self.state}:{os.environ['PATH']}"})
        await program.shows(f"open http://127.0.0.1:{ports[1]}")
        await asyncio.gather(*(self.post_to(f"http://127.0.0.1:{port}", graphs.work(2.5, mib=mib, color=mib)) for port, mib in zip(ports, (6000, 4000))))
        await until(lambda: self.ebb.leases)
        await until(self.nothing_is_lent)
        return program.err

    async def test_on_one_card_each_learns_what_it_took_itself_and_gives_back_by_itself(self):
        follow_by_nvidia_smi(self.state, self.gpu, self.processes)
        said = await self.run_both()
        for words in ("took 6000 MiB of 9000 lent", "took 4000 MiB of 9000 lent"):
            self.assertIn(words, said)
        self.assertNotIn("keeps", said)
        self.assertEqual([len(server.frees) for server in self.servers], [1, 1], said)

    async def test_where_the_driver_shows_no_processes_nothing_wrong_is_learned_and_nobody_is_blamed(self):
        said = await self.run_both()
        self.assertNotIn("took", said)
        self.assertNotIn("keeps", said)
        self.assertEqual([self.gpu.taken[server.who] for server in self.servers], [400, 400])
        self.assertLessEqual(max(len(server.frees) for server in self.servers), 2, said)


class Learning(SidecarCase):
    async def test_a_small_workflow_after_a_large_one_within_the_linger_time_is_not_learned_as_large(self):
        program = await self.sidecar("--linger", "1")
        await self.runs(graphs.work(0.8, mib=9000))
        await program.shows("took 9000 MiB")
        await self.runs(graphs.work(0.8, mib=100, color=2))
        await until(self.nothing_is_lent)
        self.assertNotIn("took 9100", program.err)
        await self.runs(graphs.work(0.8, mib=100, color=2))
        await program.shows("took 100 MiB of 16384 lent; next time 356")

    async def test_a_model_that_was_warm_before_the_sidecar_started_is_not_learned_as_nothing(self):
        await self.runs(graphs.work(0.1, mib=1500), self.server.url)
        program = await self.sidecar("--linger", "1")
        await self.runs(graphs.work(0.8, mib=0))
        await until(self.nothing_is_lent)
        self.assertNotIn("took", program.err)
        self.assertEqual(self.gpu.taken[self.server.who], 400)
        await self.runs(graphs.work(0.8, mib=9000, color=2))
        await program.shows("took 9000 MiB of 16384 lent")

    async def test_which_workflows_are_the_same_says_what_comfyui_tells_of_its_nodes(self):
        number = ["INT", {"control_after_generate": True}]
        self.server.classes = {"EbbTestWork": {"input": {"required": {"mib": number, "seconds": ["FLOAT", {}], "ends": [["well"], {}]}}, "output": ["IMAGE"]}}
        program = await self.sidecar("--linger", "0.3")
        await self.runs(graphs.work(0.8, mib=9000))
        await program.shows("took 9000 MiB of 16384 lent")
        await until(self.nothing_is_lent)
        await self.runs(graphs.work(0.8, mib=9001))
        self.assertEqual([lease["mib"] for lease in self.ebb.given], [16384, 9450])

    async def test_a_take_of_a_moment_is_learned(self):
        self.server.spike_mib = 7000
        program = await self.sidecar("--linger", "1")
        await self.runs(graphs.work(0.8, mib=100))
        await program.shows("took 7000 MiB of 16384 lent")


if __name__ == "__main__":
    unittest.main()
