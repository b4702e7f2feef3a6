# tests/comfy/stopping_test.py: tools/comfy_sidecar.py is told to stop: an idle ComfyUI lets go first, and what is said then is so.
import os
import signal
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from support import graphs  # noqa: E402
from support.programs import until  # noqa: E402
from support.sidecar_case import SidecarCase  # noqa: E402
from support.simulated_gpu import follow_by_nvidia_smi  # noqa: E402


class Stopping(SidecarCase):
    async def stop(self, program):
        program.send(signal.SIGTERM)
        outcome = await program.end(20)
        self.assertEqual((outcome.code, self.ebb.leases), (0, {}), outcome.err)
        return outcome.err

    async def test_told_to_stop_it_has_an_idle_comfyui_let_go_before_the_lease_ends(self):
        program = await self.sidecar()
        await self.runs(graphs.work(0.2, mib=9000))
        self.assertEqual(len(self.ebb.leases), 1)
        self.assertIn("stopped; what was lent is given back", await self.stop(program))
        self.assertEqual(self.gpu.taken[self.server.who], 400)
        await until(lambda: self.ebb.cards[0].cache_mib == 22000)

    async def test_a_job_that_runs_then_goes_on_in_what_it_has_and_that_is_said(self):
        program = await self.sidecar()
        await self.post_to(self.gate, graphs.work(5, mib=9000))
        await until(lambda: self.gpu.taken[self.server.who] == 9400)
        said = await self.stop(program)
        self.assertIn("the lease has ended, but a job runs in ComfyUI and keeps 8744 MiB and more", said)
        self.assertNotIn("given back", said)
        self.assertEqual(self.server.frees, [])

    async def test_a_comfyui_that_does_not_let_go_is_not_waited_for_for_ever(self):
        self.server.kept_mib = 5000
        for who in ("ComfyUI, or another program that came meanwhile,", "ComfyUI"):
            program = await self.sidecar()
            await self.runs(graphs.work(0.2, mib=9000))
            said = await self.stop(program)
            self.assertIn(f"the lease has ended, but {who} keeps 4744 MiB after 10 s", said)
            self.assertNotIn("given back", said)
            await self.server.die()
            await self.server.start()
            follow_by_nvidia_smi(self.state, self.gpu, {os.getpid(): self.server.who})  # and where the driver shows whose it is

    async def test_with_nothing_lent_it_ends_at_once(self):
        program = await self.sidecar()
        program.send(signal.SIGTERM)
        self.assertTrue((await program.end(5)).err.endswith("comfy_sidecar: stopped\n"))
        self.assertEqual(self.server.frees, [])


if __name__ == "__main__":
    unittest.main()
