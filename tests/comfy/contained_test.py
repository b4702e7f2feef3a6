# tests/comfy/contained_test.py: an odd answer, graph or file costs tools/comfy_sidecar.py what was to be learned there and nothing else.
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from support import graphs  # noqa: E402
from support.programs import until  # noqa: E402
from support.sidecar_case import SidecarCase  # noqa: E402


class OddHistory(dict):
    def __getitem__(self, id):
        return [1]


class Contained(SidecarCase):
    async def still_lends(self, program):
        given = len(self.ebb.given)
        await until(self.nothing_is_lent)
        await self.runs(graphs.work(0.2, color=given))
        self.assertEqual(len(self.ebb.given), given + 1, program.err)
        self.assertNotIn("Traceback", program.err)

    async def test_a_file_of_peaks_that_cannot_be_written_is_said_once_and_what_was_learned_holds_until_the_end(self):
        self.peaks = Path("/proc/nowhere/peaks.json")
        program = await self.sidecar("--linger", "0.3")
        for _ in range(2):
            await self.runs(graphs.work(0.9, mib=9000))
            await until(self.nothing_is_lent)
        await self.still_lends(program)
        self.assertEqual(program.err.count("what workflows take cannot be kept: /proc/nowhere"), 1)
        self.assertEqual([lease["mib"] for lease in self.ebb.given[:2]], [16384, 9450])

    async def test_an_answer_without_what_every_comfyui_says_is_told_and_the_port_goes_on(self):
        info = self.server._info
        self.server._info = lambda: {"hello": 1}
        program = await self.sidecar("--linger", "0.3")
        await program.shows("is no ComfyUI: its answer lacks exec_info.queue_remaining; waiting for it")
        self.server._info = info
        await program.shows("ComfyUI answers again")
        await self.still_lends(program)

    async def test_a_graph_whose_dead_nodes_are_odd_runs_as_any_other(self):
        program = await self.sidecar("--linger", "0.3")
        await self.runs(graphs.work(0.7) | {"9": {"class_type": "Dead", "inputs": ["x"]}})
        await self.still_lends(program)

    async def test_a_look_that_fails_of_something_nobody_thought_of_is_said_once_and_repeated(self):
        self.server._history = OddHistory()
        program = await self.sidecar("--linger", "0.3")
        await self.runs(graphs.work(0.9))
        await program.shows("a look at its queue failed (AttributeError")
        self.server._history = {}
        await self.still_lends(program)


if __name__ == "__main__":
    unittest.main()
