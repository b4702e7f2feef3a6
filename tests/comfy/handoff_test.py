# tests/comfy/handoff_test.py: tools/comfy_vram_handoff.py with a real Ebb on host cards and a ComfyUI that goes wrong: every way it can end
# gives the memory back and says so by its exit code.
import asyncio
import signal
import sys
import time
import unittest
from pathlib import Path
from unittest import mock

import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parent))
from support import graphs  # noqa: E402
from support.cases import Case  # noqa: E402
from support.programs import RunningEbbd, until  # noqa: E402

NEED_MIB = 6


class HandoffEnds(Case):
    async def asyncSetUp(self):
        self.ebb = await self.ebbd()
        self.full_mib = await self.ebb.cache_mib()
        self.server = await self.comfyui()

    async def starts(self, graph, *more, need=NEED_MIB, **how):
        return await self.start_handoff(graph, need, self.server, self.ebb, *more, **how)

    async def runs(self, graph, *more, **how):
        return await (await self.starts(graph, *more, **how)).end()

    async def assert_all_is_back(self):
        self.assertEqual(await self.ebb.leases(), [])
        await until(self.cache_is_full)

    async def cache_is_full(self):
        return await self.ebb.cache_mib() == self.full_mib

    async def queue_elsewhere(self, graph):
        async with aiohttp.ClientSession() as session, session.post(self.server.url + "/prompt", json={"prompt": graph}) as answer:
            return (await answer.json())["prompt_id"]

    async def post(self, path, body):
        async with aiohttp.ClientSession() as session, session.post(self.server.url + path, json=body) as answer:
            self.assertEqual(answer.status, 200)

    async def history(self, id):
        async with aiohttp.ClientSession() as session, session.get(f"{self.server.url}/history/{id}") as answer:
            return (await answer.json()).get(id)

    # --- well

    async def test_a_workflow_runs_while_the_memory_is_lent_and_its_pictures_are_named(self):
        program = await self.starts(graphs.work(1.5))
        await until(lambda: self.server.events)
        held = await self.ebb.leases()
        self.assertEqual([(lease["device"], lease["mib"], lease["pid"]) for lease in held], [(0, NEED_MIB, program.pid)])
        self.assertGreaterEqual((await self.ebb.client.card(0))["vram_free_mib"], NEED_MIB)
        outcome = await program.end()
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assertEqual(outcome.report["pictures"], ["work_00001_.png"])
        self.assertEqual(outcome.report["verdict"], "success")
        self.assertEqual(set(outcome.report["seconds"]), {"lease", "job", "give back", "release"})
        self.assertRegex(outcome.err, r"node 3: \d+/15")
        self.assertEqual(self.server.frees[0], {"unload_models": True, "free_memory": True})
        await self.assert_all_is_back()

    async def test_without_json_stdout_has_the_names_of_the_pictures_alone(self):
        program = await self.start_tool("comfy_vram_handoff.py", self.file_of(graphs.quick()), "--need", "1", "--device", "0", "--comfyui", self.server.url,
                                        "--connect", self.ebb.endpoint)
        self.assertEqual((await program.end()).out, "quick_00001_.png\n")

    async def test_a_card_that_cannot_be_checked_is_said_so(self):
        outcome = await self.runs(graphs.quick())
        self.assertIn("cannot check that ComfyUI is on card 0 (host): ComfyUI computes on the CPU", outcome.err)

    async def test_other_clients_of_comfyui_keep_the_lease_until_their_jobs_are_done_and_none_of_them_starts_cold(self):
        program = await self.starts(graphs.work(0.3))
        await until(lambda: self.server.events)
        other = await self.queue_elsewhere(graphs.work(1.5, color=2))
        await until(lambda: ("began", other) in self.server.events)
        await asyncio.sleep(0.7)
        self.assertEqual(self.server.frees, [])
        self.assertEqual(len(await self.ebb.leases()), 1)
        outcome = await program.end()
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assertIn("ComfyUI has 1 more job(s)", outcome.err)
        self.assertEqual((await self.history(other))["status"]["status_str"], "success")
        self.assertEqual(self.server.frees_while_busy, 0)
        await self.assert_all_is_back()

    async def test_jobs_of_others_that_go_on_for_too_long_end_the_lease_but_keep_their_models(self):
        program = await self.starts(graphs.work(0.3), "--busy-timeout", "1")
        await until(lambda: self.server.events)
        await self.queue_elsewhere(graphs.work(30, color=2))
        outcome = await program.end()
        self.assertEqual((outcome.code, self.server.frees), (0, []))
        self.assertIn("others' jobs went on for 1 s: ComfyUI was not asked to let go", outcome.err)
        self.assertEqual(await self.ebb.leases(), [])

    async def test_a_websocket_that_falls_silent_keeps_nobody_waiting_since_the_history_is_asked_too(self):
        self.server.silent = True
        outcome = await self.runs(graphs.work(0.5))
        self.assertEqual((outcome.code, outcome.report["pictures"]), (0, ["work_00001_.png"]))
        await self.assert_all_is_back()

    async def test_a_comfyui_that_looks_and_acts_under_one_lock_is_asked_to_cancel_in_that_way(self):
        server = await self.comfyui()
        await server.die()
        server.new_api = True
        await server.start()
        outcome = await self.handoff(graphs.work(20), NEED_MIB, server, self.ebb, "--timeout", "0.5")
        self.assertEqual(outcome.code, 6, outcome.err)
        self.assertNotIn("interrupted", [what for what, _ in server.events])
        await self.assert_all_is_back()

    # --- refused

    async def test_a_workflow_that_comfyui_does_not_take_is_explained_by_node(self):
        outcome = await self.runs(graphs.too_small())
        self.assertEqual(outcome.code, 4)
        self.assertIn("node 1 (EmptyImage): Value 0 smaller than min of 1 (width)", outcome.err)
        self.assertIn("now:  nothing was queued, and the lease has ended", outcome.err)
        await self.assert_all_is_back()

    async def test_every_refusal_that_was_recorded_is_explained(self):
        for name, words in {"without_input": "Required input is missing (images)", "of_unknown_class": "node NoSuchNode does not exist", "without_outputs": "Prompt has no outputs",
                            "in_a_circle": "Prompt outputs failed validation"}.items():
            outcome = await self.runs(getattr(graphs, name)())
            self.assertEqual((outcome.code, words in outcome.err), (4, True), name + outcome.err)

    async def test_a_workflow_of_which_comfyui_leaves_out_a_part_is_cancelled_unless_that_is_allowed(self):
        outcome = await self.runs(graphs.partly_broken())
        self.assertEqual(outcome.code, 4, outcome.err)
        self.assertIn("would leave out a part of the workflow: node 4 (SaveImage): Required input is missing (images)", outcome.err)
        outcome = await self.runs(graphs.partly_broken(), "--allow-partial")
        self.assertEqual((outcome.code, len(outcome.report["pictures"])), (0, 1), outcome.err)
        await self.assert_all_is_back()

    async def test_files_that_are_no_workflow_are_told_apart_before_anything_is_lent(self):
        for content, words in {"{": "is not JSON", '{"nodes": [], "links": []}': "as the web page saves it", "[]": "no workflow in API format", "{}": "no workflow in API format"}.items():
            path = self.folder() / "file.json"
            path.write_text(content)
            outcome = await (await self.start_tool("comfy_vram_handoff.py", path, "--need", "1", "--comfyui", self.server.url, "--connect", self.ebb.endpoint)).end()
            self.assertEqual((outcome.code, words in outcome.err, "Export (API)" in outcome.err), (2, True, True), outcome.err)
        outcome = await (await self.start_tool("comfy_vram_handoff.py", "/nowhere/w.json", "--need", "1")).end()
        self.assertEqual((outcome.code, "cannot be read" in outcome.err), (2, True))

    async def test_a_card_that_ebb_does_not_have_is_refused_by_name(self):
        outcome = await self.runs(graphs.quick(), device="7")
        self.assertEqual(outcome.code, 2)
        self.assertIn("Ebb has no card '7'; it has card 0 (host), card 1 (host)", outcome.err)
        outcome = await self.runs(graphs.quick(), device="auto")
        self.assertEqual(outcome.code, 2)
        self.assertIn("cannot tell which of Ebb's cards ComfyUI is on: ComfyUI computes on the CPU", outcome.err)
        self.assertIn("--device", outcome.err)

    # --- not enough

    async def test_a_grant_that_falls_short_says_by_how_much_and_changes_nothing(self):
        outcome = await self.runs(graphs.quick(), need=500)
        self.assertEqual(outcome.code, 3)
        self.assertRegex(outcome.err, r"Ebb cannot lend 500 MiB: .*\d+ MiB")
        self.assertIn("nothing was queued, and Ebb has what it had", outcome.err)
        self.assertEqual(self.server.events, [])
        await self.assert_all_is_back()

    async def test_a_smaller_grant_is_taken_if_it_is_of_use(self):
        outcome = await self.runs(graphs.quick(), "--at-least", "5", need=500)
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assertGreaterEqual(outcome.report["lease_mib"], 5)
        self.assertLess(outcome.report["lease_mib"], 500)
        await self.assert_all_is_back()

    async def test_memory_that_another_program_holds_is_waited_for_and_named_when_the_time_is_over(self):
        other = (await self.ebb.client.ask("lease", action="acquire", owner="a game", device=0, mib=NEED_MIB, ttl_s=100))["leases"][0]
        outcome = await self.runs(graphs.quick(), "--wait", "1", need=8)
        self.assertEqual(outcome.code, 3, outcome.err)
        self.assertIn(f"lease {other['lease_id']} of {NEED_MIB} MiB is held for a game", outcome.err)
        program = await self.starts(graphs.quick(), "--wait", "30", need=8)
        await asyncio.sleep(1)
        await self.ebb.client.ask("lease", action="release", lease_id=other["lease_id"])
        self.assertEqual((await program.end()).code, 0)

    # --- failed

    async def test_a_job_that_fails_is_told_with_its_node_and_its_exception(self):
        outcome = await self.runs(graphs.work(0.1, ends="in an error"))
        self.assertEqual((outcome.code, outcome.report["verdict"]), (1, "error"))
        self.assertIn("the job failed: node 3 (EbbTestWork): ValueError: told to fail", outcome.err)
        await self.assert_all_is_back()

    async def test_a_job_that_runs_out_of_memory_has_an_exit_code_of_its_own_and_the_advice_to_ask_for_more(self):
        outcome = await self.runs(graphs.work(0.1, ends="out of memory"), need=8)
        self.assertEqual(outcome.code, 8)
        self.assertIn("ran out of memory with 8 MiB lent", outcome.err)
        self.assertIn("--need 10 or more", outcome.err)
        await self.assert_all_is_back()

    async def test_without_a_comfyui_nothing_is_lent(self):
        await self.server.die()
        outcome = await self.runs(graphs.quick())
        self.assertEqual(outcome.code, 5)
        self.assertIn(f"ComfyUI does not answer at {self.server.url}", outcome.err)
        self.assertIn("start ComfyUI", outcome.err)
        await self.assert_all_is_back()
        await self.server.start()

    async def test_without_an_ebb_nothing_is_queued(self):
        await self.ebb.kill()
        began = time.monotonic()
        outcome = await self.runs(graphs.quick())
        self.assertEqual(outcome.code, 7)
        self.assertLess(time.monotonic() - began, 15)
        self.assertIn("no Ebb answers at " + self.ebb.endpoint, outcome.err)
        self.assertEqual(self.server.events, [])

    async def test_a_comfyui_that_is_killed_in_the_middle_ends_the_lease(self):
        program = await self.starts(graphs.work(60))
        await until(lambda: self.server.events)
        await self.server.die()
        outcome = await program.end()
        self.assertEqual((outcome.code, outcome.report["verdict"]), (5, "gone"))
        self.assertIn("ComfyUI ended in the middle of the job", outcome.err)
        await self.assert_all_is_back()
        await self.server.start()

    async def test_a_comfyui_that_is_started_again_in_the_middle_has_lost_the_job_and_that_is_no_success(self):
        program = await self.starts(graphs.work(60))
        await until(lambda: self.server.events)
        await self.server.die()
        await self.server.start()
        outcome = await program.end()
        self.assertEqual((outcome.code, outcome.report["verdict"], outcome.report["pictures"]), (5, "lost", []))
        await self.assert_all_is_back()

    async def test_a_job_that_somebody_clears_from_the_queue_is_lost_and_does_not_wait_for_ever(self):
        await self.queue_elsewhere(graphs.work(3, color=2))
        program = await self.starts(graphs.work(60))
        await program.shows("next in ComfyUI's queue")
        await self.post("/queue", {"clear": True})
        outcome = await program.end()
        self.assertEqual((outcome.code, outcome.report["verdict"]), (5, "lost"))
        self.assertIn("the queue was cleared", outcome.err)
        await self.assert_all_is_back()

    async def test_a_job_that_somebody_interrupts_in_comfyui_is_no_success(self):
        program = await self.starts(graphs.work(60))
        await program.shows("node 3: ")
        await self.post("/interrupt", {})
        outcome = await program.end()
        self.assertEqual((outcome.code, outcome.report["verdict"]), (1, "interrupted"))
        self.assertIn("somebody interrupted the job in ComfyUI", outcome.err)
        await self.assert_all_is_back()

    # --- too late

    async def test_a_job_that_takes_too_long_is_interrupted(self):
        outcome = await self.runs(graphs.work(60), "--timeout", "1")
        self.assertEqual((outcome.code, outcome.report["verdict"]), (6, "interrupted"))
        self.assertIn("the job was not done within 1 s", outcome.err)
        self.assertIn("the job was cancelled", outcome.err)
        await self.assert_all_is_back()

    async def test_a_job_that_still_waits_when_its_time_is_over_leaves_the_queue_and_the_one_that_runs_is_left_alone(self):
        other = await self.queue_elsewhere(graphs.work(8, color=2))
        outcome = await self.runs(graphs.work(60), "--timeout", "1")
        self.assertEqual(outcome.code, 6, outcome.err)
        self.assertEqual((await self.history(other))["status"]["status_str"], "success")
        self.assertEqual([id for what, id in self.server.events if what == "began"], [other])
        self.assertNotIn("interrupted", [what for what, _ in self.server.events])
        await self.assert_all_is_back()

    async def test_a_node_that_is_deaf_to_interrupts_keeps_the_lease_until_the_job_has_really_ended(self):
        program = await self.starts(graphs.work(5, deaf=True), "--timeout", "1")
        await program.shows("cancelling the job")
        await asyncio.sleep(2)
        self.assertNotIn("ended", [what for what, _ in self.server.events])
        self.assertEqual(len(await self.ebb.leases()), 1)
        outcome = await program.end()
        self.assertEqual(outcome.code, 6)
        self.assertIn("ended", [what for what, _ in self.server.events])
        self.assertEqual(self.server.frees_while_busy, 0)
        await self.assert_all_is_back()

    async def test_a_node_that_keeps_interrupts_to_itself_is_told_apart_from_a_job_that_was_done_in_time(self):
        self.server.swallows = True
        outcome = await self.runs(graphs.work(6), "--timeout", "1")
        self.assertEqual((outcome.code, outcome.report["verdict"], outcome.report["pictures"]), (6, "success", ["work_00001_.png"]))
        self.assertRegex(outcome.err, r"the job went on to its end although it was told to stop [23] times: a node in it keeps interrupts to itself")
        self.assertNotIn("before it could be cancelled", outcome.err)
        await self.assert_all_is_back()

    async def test_a_worker_that_is_dead_ends_the_lease_at_last_and_a_restart_is_advised(self):
        self.server.worker_dead = True
        outcome = await self.runs(graphs.work(1), "--timeout", "1", "--cancel-timeout", "2")
        self.assertEqual((outcome.code, outcome.report["verdict"]), (6, "still running"))
        self.assertIn("only a restart of ComfyUI ends it", outcome.err)
        self.assertEqual(self.server.frees, [])
        await self.assert_all_is_back()

    # --- ended from outside

    async def test_ctrl_c_cancels_the_job_and_gives_everything_back(self):
        program = await self.starts(graphs.work(60))
        await program.shows("node 3: ")
        program.send(signal.SIGINT)
        outcome = await program.end()
        self.assertEqual((outcome.code, outcome.report["verdict"]), (130, "interrupted"))
        self.assertEqual(len(self.server.frees), 1)
        await self.assert_all_is_back()

    async def test_ctrl_c_while_it_waits_for_room_leaves_no_lease(self):
        await self.ebb.client.ask("lease", action="acquire", owner="a game", device=0, mib=NEED_MIB, ttl_s=100)
        program = await self.starts(graphs.quick(), "--wait", "100", need=8)
        await program.shows("ComfyUI is on card 0")
        await asyncio.sleep(0.5)
        program.send(signal.SIGINT)
        self.assertEqual((await program.end()).code, 130)
        self.assertEqual([lease["owner"] for lease in await self.ebb.leases()], ["a game"])

    async def test_a_second_ctrl_c_leaves_at_once_and_the_lease_ends_with_the_process(self):
        program = await self.starts(graphs.work(60, deaf=True))
        await until(lambda: self.server.events)
        program.send(signal.SIGINT)
        await program.shows("once more to leave at once")
        program.send(signal.SIGINT)
        self.assertEqual((await program.end(5)).code, 130)
        await until(self.nothing_is_lent, 5)

    async def test_after_sigkill_the_lease_ends_with_the_process(self):
        program = await self.starts(graphs.work(60))
        await until(lambda: self.server.events)
        self.assertEqual(len(await self.ebb.leases()), 1)
        await program.kill()
        await until(self.nothing_is_lent, 5)
        await self.assert_all_is_back()

    async def nothing_is_lent(self):
        return await self.ebb.leases() == []

    async def test_an_ebb_that_is_killed_and_started_again_in_the_middle_still_holds_the_lease(self):
        program = await self.starts(graphs.work(4))
        await until(lambda: self.server.events)
        await self.ebb.kill()
        await self.ebb.start()
        self.assertEqual([lease["mib"] for lease in await self.ebb.leases()], [NEED_MIB])
        outcome = await program.end()
        self.assertEqual(outcome.code, 0, outcome.err)
        await self.assert_all_is_back()

    async def test_an_ebb_that_ends_in_the_middle_and_stays_away_keeps_no_job_from_its_end(self):
        program = await self.starts(graphs.work(2))
        await until(lambda: self.server.events)
        await self.ebb.kill()
        outcome = await program.end()
        self.assertEqual((outcome.code, outcome.report["pictures"]), (0, ["work_00001_.png"]), outcome.err)
        self.assertIn("Ebb does not answer; lease 1 ends with this process", outcome.err)


class LeaseIsKept(Case):
    async def test_a_lease_is_renewed_for_as_long_as_it_is_held_and_an_ebb_that_forgot_it_is_asked_again(self):
        from ebb_sidecar.lease import Lease
        daemon = await self.ebbd()
        said = []
        lease = await Lease.acquire(daemon.client, "a test", 0, 5, said.append, ttl_s=2)
        await asyncio.sleep(3.5)
        self.assertEqual(len(await daemon.leases()), 1)
        await daemon.kill()
        (daemon.state / "leases").unlink(missing_ok=True)
        for file in daemon.state.iterdir():
            file.unlink()
        await daemon.start()
        await until(lambda: any("it holds again" in text for text in said))
        self.assertEqual([each["lease_id"] for each in await daemon.leases()], [lease.id])
        self.assertTrue(await lease.end())
        self.assertEqual(await daemon.leases(), [])

    async def test_an_ebb_that_does_not_see_this_process_lends_all_the_same_for_a_time(self):
        from ebb_sidecar.lease import Lease
        daemon = await self.ebbd()
        said = []
        with mock.patch("os.getpid", return_value=4_000_001):
            lease = await Lease.acquire(daemon.client, "a test", 0, 5, said.append, ttl_s=2)
        self.assertEqual([(each["mib"], each["pid"]) for each in await daemon.leases()], [(5, 0)])
        self.assertEqual(said, ["Ebb does not see this process (field `pid`: there is no process 4000001); if it is killed, its lease ends within 2 s"])
        await asyncio.sleep(3)
        self.assertEqual(len(await daemon.leases()), 1)
        lease._renewal.cancel()
        await until(lambda: self.nothing_is_lent(daemon), 5)

    async def nothing_is_lent(self, daemon):
        return await daemon.leases() == []

    async def test_an_acquire_whose_daemon_is_killed_is_told_at_once(self):
        from ebb_sidecar.bus import NoDaemon
        daemon = RunningEbbd(self.folder())
        await daemon.start()
        await daemon.client.ask("lease", action="acquire", owner="first", device=0, mib=8, ttl_s=100)
        waiting = asyncio.ensure_future(daemon.client.ask("lease", action="acquire", owner="second", device=0, mib=8, wait_s=100, patience_s=100))
        await asyncio.sleep(0.5)
        began = time.monotonic()
        await daemon.kill()
        with self.assertRaisesRegex(NoDaemon, "ended before it answered"):
            await waiting
        self.assertLess(time.monotonic() - began, 2)


if __name__ == "__main__":
    unittest.main()
