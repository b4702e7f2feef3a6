# tests/comfy/stand_in_test.py: ComfyUI's stand-in says what the real one was recorded to say: the same answers, the same messages in the same
# order, the same fields in each.
import asyncio
import sys
import unittest
from pathlib import Path

import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parent))
import record  # noqa: E402
from support.cases import Case  # noqa: E402
from support.comfyui_stand_in import recorded  # noqa: E402


def shape(value):
    """Names and types, not what they are."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value]
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


def without_repeats(messages):
    """Type and shape of each message; how often progress is told depends on time."""
    kept = []
    for message in messages:
        each = (message["type"], shape(message["data"]))
        if not (message["type"].startswith("progress") and each in kept):
            kept.append(each)
    return kept


class StandIn(Case):
    async def test_each_run_is_told_as_it_was_recorded(self):
        server = await self.comfyui()
        async with aiohttp.ClientSession() as session:
            for name, graph in record.RUNS.items():
                with self.subTest(name):
                    want, got = recorded("run_" + name), await record.record_run(server.url, session, name, graph)
                    self.assertEqual(shape(got["answer"]), shape(want["answer"]))
                    self.assertEqual(got["answer"]["body"]["node_errors"], want["answer"]["body"]["node_errors"])
                    self.assertEqual(without_repeats(got["messages"]), without_repeats(want["messages"]))
                    self.assertEqual(got["messages"][-1], want["messages"][-1])
                    self.assertEqual(got["history"]["status"], want["history"]["status"])
                    self.assertEqual(shape(got["history"]), shape(want["history"]))

    async def test_every_refusal_is_the_recorded_one(self):
        server = await self.comfyui()
        async with aiohttp.ClientSession() as session:
            for name, refusal in recorded("refusals").items():
                with self.subTest(name):
                    async with session.post(server.url + "/prompt", json={"prompt": refusal["graph"]}) as answer:
                        self.assertEqual((answer.status, await answer.json()), (refusal["status"], refusal["body"]))
                self.assertEqual(record.REFUSALS[name], refusal["graph"])

    async def test_its_statistics_have_the_recorded_fields(self):
        server = await self.comfyui()
        async with aiohttp.ClientSession() as session, session.get(server.url + "/system_stats") as answer:
            got = await answer.json()
        want = recorded("system_stats")
        self.assertEqual({part: list(got[part]) for part in got if part == "system"}, {"system": list(want["system"])})
        self.assertEqual(list(got["devices"][0]), list(want["devices"][0]))

    async def test_a_second_client_of_the_same_name_is_struck_off_when_the_first_one_leaves(self):
        server = await self.comfyui()
        async with aiohttp.ClientSession() as session:
            first = await session.ws_connect(server.url + "/ws?clientId=x")
            second = await session.ws_connect(server.url + "/ws?clientId=x")
            await second.receive()
            await first.close()
            await asyncio.sleep(0.1)
            await session.post(server.url + "/queue", json={"clear": True})
            with self.assertRaises(asyncio.TimeoutError):
                await second.receive(timeout=0.3)


if __name__ == "__main__":
    unittest.main()
