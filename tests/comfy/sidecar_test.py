# tests/comfy/sidecar_test.py: tools/comfy_sidecar.py: memory is lent before a job that comes through its port starts, as much as its workflow took
# before, and given back when no job has come for a while.
import asyncio
import json
import os
import sys
import time
import unittest
from pathlib import Path

import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parent))
from support import graphs  # noqa: E402
from support.cases import Case  # noqa: E402
from support.programs import until  # noqa: E402
from support.real_comfyui import free_port  # noqa: E402
from support.sidecar_case import SidecarCase  # noqa: E402
from support.simulated_gpu import SimulatedGpu  # noqa: E402


class Lending(SidecarCase):
    async def test_a_job_that_comes_through_the_port_starts_with_its_memory_already_free(self):
        await self.sidecar("--linger", "0.5")
        free_at_start = []
        self.server.on_begin = lambda: free_at_start.append(self.gpu.free_mib)
        await self.runs(graphs.work(0.3, mib=15000))
        self.assertGreaterEqual(free_at_start[0], 16384)
        await until(self.nothing_is_lent)
        await until(lambda: self.ebb.cards[0].cache_mib == 22000)
        self.assertEqual(self.gpu.taken[self.server.who], 400)

    async def test_a_workflow_is_lent_what_it_took_last_time_whatever_its_seed_and_text(self):
        program = await self.sidecar("--linger", "0.3")
        graph = graphs.work(1.2, mib=9000)
        await self.runs(graph)
        await program.shows("took 9000 MiB of 16384 lent; next time 9450")
        await until(self.nothing_is_lent)
        graph["2"]["inputs"]["filename_prefix"] = "another"
        graph["1"]["inputs"]["noise_seed"] = 7
        await self.runs(graph)
        self.assertEqual([lease["mib"] for lease in self.ebb.given], [16384, 9450])
        await until(self.nothing_is_lent)
        await program.kill()
        await self.sidecar("--linger", "0.3")
        await self.runs(graph | {"9": graph["1"]})
        await self.runs(graph)
        self.assertEqual([lease["mib"] for lease in self.ebb.given][2:], [16384])  # another workflow; within it there is room for the known one
        self.assertEqual([each["mib"] for each in json.loads(self.peaks.read_text())["workflows"].values()][0], 9450)

    async def test_a_larger_job_enlarges_what_is_held_and_a_smaller_one_leaves_it(self):
        program = await self.sidecar("--linger", "20", "--first-guess", "4000")
        await self.runs(graphs.work(0.2, mib=100))
        await self.runs(graphs.work(0.2, mib=100, color=2))
        self.assertEqual([lease["mib"] for lease in self.ebb.given], [4000])
        self.peaks_know(program)

    def peaks_know(self, program):
        self.assertIn("lent 4000 MiB of card 0 in", program.err)

    async def test_a_workflow_that_ran_out_of_memory_is_lent_half_as_much_again(self):
        program = await self.sidecar("--linger", "0.3", "--first-guess", "6000")
        await self.runs(graphs.work(1.2, mib=6000, ends="out of memory"))
        await program.shows("ran out of memory of 6000 lent; next time 9000")
        await until(self.nothing_is_lent)
        await self.runs(graphs.work(1.2, mib=6000, ends="out of memory"))
        self.assertEqual([lease["mib"] for lease in self.ebb.given], [6000, 9000])

    async def test_a_job_that_is_queued_behind_the_ports_back_is_lent_memory_too_if_late(self):
        program = await self.sidecar("--linger", "0.5", listen=False)
        status, answer = await self.post_to(self.server.url, graphs.work(1.5))
        await until(lambda: self.ebb.leases, 2)
        self.assertEqual([lease["mib"] for lease in self.ebb.given], [16384])
        await until(lambda: self.is_done(answer["prompt_id"]))
        await until(self.nothing_is_lent)
        self.assertIn("jobs do not wait for memory", program.err)

    async def test_jobs_that_follow_one_another_within_the_linger_time_keep_the_lease_and_the_models(self):
        await self.sidecar("--linger", "2")
        for color in range(4):
            await self.runs(graphs.work(0.1, mib=5000, color=color))
            await asyncio.sleep(0.5)
        self.assertEqual((len(self.ebb.given), self.server.frees), (1, []))
        await until(self.nothing_is_lent)
        self.assertEqual(self.server.frees_while_busy, 0)

    async def test_a_job_that_comes_while_memory_is_given_back_takes_it_over(self):
        await self.sidecar("--linger", "0.2")
        await self.runs(graphs.work(0.2, mib=5000))
        self.server.wakeups_lost = 10**6
        await until(lambda: self.server.frees)
        began = time.monotonic()
        await self.runs(graphs.work(0.2, mib=100, color=2))
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(len(self.ebb.given), 1)

    async def test_less_than_was_asked_for_is_told_and_the_job_goes_on(self):
        self.gpu.take("a game", 800)
        self.ebb.cards[0].resize(15000)
        self.gpu.take("a game", 7000)
        program = await self.sidecar("--linger", "0.3")
        await self.runs(graphs.work(0.3, mib=1000))
        self.assertRegex(program.err, r"lent 15100 MiB of card 0, 1284 too few")

    async def test_an_ebb_that_is_not_there_keeps_no_job_waiting(self):
        await self.ebb.stop()
        program = await self.sidecar()
        await self.runs(graphs.work(1.0, mib=100))
        self.assertEqual(program.err.count("no Ebb answers at"), 1)
        await self.ebb.start()

    async def test_a_card_that_cannot_be_told_keeps_no_job_waiting_and_says_what_to_do(self):
        unnamed = await self.comfyui(gpu=self.gpu, device_name="cuda:0 something : native")
        program = await self.sidecar(server=unnamed, device="auto")
        status, _ = await self.post_to(self.gate, graphs.quick())
        self.assertEqual(status, 200)
        await program.shows("say which card with --device")
        self.assertEqual(self.ebb.given, [])

    async def test_two_comfyuis_borrow_at_the_same_time_each_from_its_card(self):
        other_gpu = SimulatedGpu(24000, "GPU-2", "0000:02:00.0", "NVIDIA Test 48")
        other = await self.comfyui(gpu=other_gpu)
        ebb = await self.ebb_on((self.gpu, 1000), (other_gpu, 22000))
        ports = free_port(), free_port()
        file = self.folder() / "sidecar.toml"
        file.write_text(f'connect = "{ebb.endpoint}"\npeaks_file = "off"\n' + "".join(
            f'[[comfyui]]\nurl = "{server.url}"\nlisten = "127.0.0.1:{port}"\nmax_mib = {mib}\nlinger_s = 0.3\ndevice = "auto"\n'
            for server, port, mib in ((self.server, ports[0], 1500), (other, ports[1], 9000))))
        program = await self.start_tool("comfy_sidecar.py", "--config", file, environment={"PATH": f"{self.state}:{os.environ['PATH']}"})
        for port in ports:
            await program.shows(f":{port}")
        await asyncio.gather(*(self.post_to(f"http://127.0.0.1:{port}", graphs.work(0.5)) for port in ports))
        self.assertEqual(sorted((lease["device"], lease["mib"]) for lease in ebb.given), [(0, 1500), (1, 9000)])
        await until(lambda: not ebb.leases)

    async def test_a_comfyui_that_comes_later_or_is_started_again_is_served(self):
        await self.server.die()
        program = await self.sidecar("--linger", "0.3")
        await program.shows("waiting for it")
        status, answer = await self.post_to(self.gate, graphs.quick())
        self.assertEqual((status, answer["error"]["type"]), (502, "no_comfyui"))
        await self.server.start()
        await program.shows("ComfyUI answers again")
        await self.runs(graphs.work(0.2, mib=5000))
        await self.server.die()
        await until(self.nothing_is_lent)
        await self.server.start()
        await self.runs(graphs.work(0.2, mib=5000))


class OnARealEbb(Case):
    async def test_the_lease_of_a_sidecar_that_is_killed_ends_with_it(self):
        ebb, server, port = await self.ebbd(), await self.comfyui(), free_port()
        program = await self.start_tool("comfy_sidecar.py", "--comfyui", server.url, "--connect", ebb.endpoint, "--device", "0", "--peaks-file", "off", "--max", "7",
                                        "--listen", f"127.0.0.1:{port}")
        await program.shows("open http")
        async with aiohttp.ClientSession() as session, session.post(f"http://127.0.0.1:{port}/prompt", json={"prompt": graphs.work(0.2)}) as answer:
            self.assertEqual(answer.status, 200)
        self.assertEqual([(lease["mib"], lease["pid"]) for lease in await ebb.leases()], [(7, program.pid)])
        await program.kill()
        for _ in range(60):
            if not await ebb.leases():
                break
            await asyncio.sleep(0.05)
        self.assertEqual(await ebb.leases(), [])


class ThroughTheGate(SidecarCase):
    async def asyncSetUp(self):
        await super().asyncSetUp()
        await self.sidecar("--linger", "0.3")

    async def test_websocket_and_http_pass_as_they_are(self):
        async with self.session.ws_connect(self.gate + "/ws?clientId=me") as socket:
            self.assertEqual((await socket.receive_json())["data"]["sid"], "me")
            async with self.session.post(self.gate + "/api/prompt", json={"prompt": graphs.work(0.2), "client_id": "me"}) as answer:
                id = (await answer.json())["prompt_id"]
            types = []
            while not types or types[-1] != "execution_success":
                types.append((await socket.receive_json(timeout=10))["type"])
        self.assertIn("progress", types)
        async with self.session.get(f"{self.gate}/history/{id}") as through, self.session.get(f"{self.server.url}/history/{id}") as direct:
            self.assertEqual(await through.read(), await direct.read())
            self.assertEqual(through.headers["Content-Type"], direct.headers["Content-Type"])

    async def test_a_refusal_is_comfyuis_own(self):
        for graph in (graphs.too_small(), graphs.of_unknown_class()):
            self.assertEqual(await self.post_to(self.gate, graph), await self.post_to(self.server.url, graph))

    async def test_a_body_that_is_no_workflow_is_passed_on_without_a_lease(self):
        async with self.session.post(self.gate + "/prompt", data=b"no json", headers={"Content-Type": "application/json"}) as answer:
            self.assertEqual(answer.status, 500)
        self.assertEqual(self.ebb.given, [])

    async def test_host_and_origin_reach_comfyui_unchanged_so_that_it_can_refuse_other_origins(self):
        async with self.session.get(self.gate + "/prompt", headers={"Origin": "http://evil.example"}) as answer:
            self.assertEqual(answer.status, 200)
        self.assertEqual(self.server.last_headers["Host"], f"127.0.0.1:{self.port}")
        self.assertEqual(self.server.last_headers["Origin"], "http://evil.example")

    async def test_a_large_upload_and_a_large_answer_pass_in_pieces(self):
        graph = graphs.quick() | {"5": {"class_type": "Note", "inputs": {"value": "x" * (8 << 20)}}}
        status, answer = await self.post_to(self.gate, graph)
        self.assertEqual(status, 200)
        await until(lambda: self.is_done(answer["prompt_id"]))
        async with self.session.get(f"{self.gate}/history/{answer['prompt_id']}") as through:
            self.assertGreater(len(await through.read()), 8 << 20)


class ASidecarIsRefused(Case):
    async def refused(self, *words):
        outcome = await (await self.start_tool("comfy_sidecar.py", *words)).end()
        self.assertEqual(outcome.code, 2, outcome.err)
        return outcome.err

    async def test_what_a_setting_does_not_allow_is_named(self):
        cases = {'max_mb = 1\n[[comfyui]]\nurl = "http://h:1"': "max_mb is no setting",
                 '[[comfyui]]\nurl = "http://h:1"\nmax_mb = 1': "[[comfyui]] 1: max_mb is no setting; meant is max_mib",
                 '[[comfyui]]\nurl = "h:1"': "url = 'h:1': allowed is an address",
                 '[[comfyui]]\nlisten = "8189"': "listen = '8189': allowed is address:port",
                 '[[comfyui]]\nlinger_s = true': "linger_s = True: allowed is a number",
                 '[[comfyui]]\nlinger_s = -1': "allowed is a number from 0",
                 '[[comfyui]]\nfirst_guess_mib = 9\nmax_mib = 8': "up to max_mib, 8",
                 '[[comfyui]]\n[[comfyui]]': "two [[comfyui]] have the same url",
                 'connect = ""': "names no ComfyUI",
                 'connect = ': "is not TOML"}
        for content, words in cases.items():
            file = self.folder() / "sidecar.toml"
            file.write_text(content)
            self.assertIn(words, await self.refused("--config", file))
        self.assertIn("cannot be read", await self.refused("--config", "/nowhere"))
        self.assertIn("leave the other options out", await self.refused("--config", file, "--max", "1"))

    async def test_a_port_that_is_taken_and_a_peaks_file_that_is_none_are_told(self):
        server = await self.comfyui()
        self.assertIn(f"cannot listen on 127.0.0.1:{server.port}", await self.refused("--listen", f"127.0.0.1:{server.port}", "--peaks-file", "off"))
        file = self.folder() / "peaks.json"
        file.write_text("[]")
        self.assertIn("is no file of learned peaks", await self.refused("--peaks-file", file))

    async def test_the_file_of_settings_in_the_tree_shows_every_key_with_its_default(self):
        from ebb_sidecar import settings
        from support.programs import ROOT
        shown = settings.read(ROOT / "tools" / "comfy_sidecar.toml")
        self.assertEqual(shown.servers[0], settings.Server(listen="127.0.0.1:8189"))
        text = (ROOT / "tools" / "comfy_sidecar.toml").read_text()
        for each in (*settings.fields(settings.Server), *settings.fields(settings.Settings)):
            if each.name != "servers":
                self.assertIn(f"\n{each.name} = ", text)


if __name__ == "__main__":
    unittest.main()
