# tests/comfy/sampling_test.py: the most that a job takes is looked at until it is told to end, and then it has ended.
import asyncio
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from ebb_sidecar.sampling import Most  # noqa: E402


class Sampling(unittest.IsolatedAsyncioTestCase):
    async def test_the_most_of_what_was_known_counts(self):
        figures = iter([None, 3.0, 7.0, None, 5.0])

        async def take():
            return next(figures, 1.0)

        most = Most(take)
        await asyncio.sleep(0.8)
        await most.end()
        self.assertEqual(most.mib, 7.0)

    async def test_it_ends_even_if_a_look_drops_its_cancellation(self):
        async def take():
            try:
                await asyncio.sleep(0.3)
            except asyncio.CancelledError:
                pass
            return 1.0

        most = Most(take)
        await asyncio.sleep(0.1)
        await asyncio.wait_for(most.end(), 5)
        self.assertEqual(most.mib, 1.0)


if __name__ == "__main__":
    unittest.main()
