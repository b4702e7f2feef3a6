# tests/comfy/gate_test.py: what goes wrong at the sidecar's port: answers that break off, clients that leave, requests that are none, a sidecar that stops.
# Nothing becomes whole that was not, no job is lost, and the log has a line for it at most.
import asyncio
import os
import pty
import signal
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from sidecar_test import SidecarCase  # noqa: E402
from support import graphs  # noqa: E402
from support.programs import Program, tool, until  # noqa: E402
from support.real_comfyui import free_port  # noqa: E402


class BrokenOff(SidecarCase):
    async def upstream(self, answer: bytes, then_s: float = 0.2):
        """A ComfyUI whose every answer is this, and then the end of the connection."""
        async def serve(reader, writer):
            try:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(answer)
                await writer.drain()
                await asyncio.sleep(then_s)
            except (ConnectionError, asyncio.IncompleteReadError):
                pass
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self.addCleanup(server.close)
        server.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return server

    async def raw(self, request: bytes, n_bytes: int = -1) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request)
        try:
            return await asyncio.wait_for(reader.read(n_bytes), 20)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    async def test_a_download_that_breaks_off_in_comfyui_breaks_off_at_the_port_and_is_no_whole_file(self):
        for head, body in ((b"Content-Length: 600", b"P" * 300), (b"Transfer-Encoding: chunked", b"12c\r\n" + b"P" * 300 + b"\r\n")):
            program = await self.sidecar(server=await self.upstream(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n" + head + b"\r\n\r\n" + body))
            got = bytearray()
            with self.assertRaises(Exception) as raised:
                async with self.session.get(self.gate + "/view") as answer:
                    self.assertEqual(answer.status, 200)
                    async for part in answer.content.iter_any():
                        got += part
            self.assertIn(type(raised.exception).__name__, ("ClientPayloadError", "ClientOSError", "ServerDisconnectedError", "ConnectionResetError"))
            self.assertLessEqual(len(got), 300)
            self.assertNotIn(b"no_comfyui", bytes(got))
            await program.shows("ComfyUI broke off its answer to GET /view")
            self.assertNotIn("Traceback", program.err)
            await program.kill()

    async def test_a_browser_that_leaves_during_a_download_leaves_no_traceback(self):
        program = await self.sidecar(server=await self.upstream(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n" + b"P" * (20 << 20), 1))
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(b"GET /view HTTP/1.1\r\nHost: h\r\n\r\n")
            await reader.read(1000)
            writer.transport.abort()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)
        await asyncio.sleep(1.5)
        self.assertNotIn("Traceback", program.err)
        self.assertNotIn("ComfyUI broke off", program.err.replace("broke off its answer to GET /prompt", ""))

    async def test_a_client_that_leaves_during_an_upload_leaves_no_traceback(self):
        program = await self.sidecar()
        for path in (b"/prompt", b"/upload/image"):
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(b"POST " + path + b" HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1000)
            await writer.drain()
            await asyncio.sleep(0.3)
            writer.transport.abort()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)
        await asyncio.sleep(0.5)
        self.assertNotIn("Traceback", program.err)

    async def test_a_websocket_that_is_none_leaves_no_traceback(self):
        program = await self.sidecar()
        answer = await self.raw(b"GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", 1000)
        self.assertRegex(answer, rb"^HTTP/1.1 4\d\d")
        self.assertNotIn("Traceback", program.err)

    async def test_a_body_that_nests_too_deep_is_comfyuis_to_refuse(self):
        program = await self.sidecar()
        for body in (b"[" * 200_000, b'{"prompt": ' + b"[" * 900 + b"]" * 900 + b"}"):
            async with self.session.post(self.gate + "/prompt", data=body, headers={"Content-Type": "application/json"}) as answer:
                self.assertEqual(answer.status, 500)  # the stand-in's own
        self.assertNotIn("Traceback", program.err)
        self.assertEqual(self.ebb.given, [])

    async def test_a_request_that_names_the_whole_address_is_answered_as_one_that_names_the_path(self):
        program = await self.sidecar()
        host = f"127.0.0.1:{self.port}".encode()
        answer = await self.raw(b"GET http://" + host + b"/prompt?x=1 HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 200") and b"queue_remaining" in answer, answer)
        answer = await self.raw(b"OPTIONS * HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n")
        self.assertRegex(answer, rb"^HTTP/1.1 4\d\d")
        self.assertNotIn("Traceback", program.err)


class Stopping(SidecarCase):
    async def holds_jobs(self, n):
        """A sidecar at whose port so many jobs wait for an Ebb that gives no answer."""
        self.ebb._serving.cancel()
        program = await self.sidecar("--linger", "60")
        posts = [asyncio.ensure_future(self.post_to(self.gate, graphs.work(0.1, color=color))) for color in range(n)]
        await asyncio.sleep(1)
        self.assertEqual([post.done() for post in posts], [False] * n)
        self.assertEqual(self.server.events, [])
        return program, posts

    async def test_told_to_stop_it_hands_the_jobs_that_wait_to_comfyui_and_loses_none(self):
        program, posts = await self.holds_jobs(3)
        program.send(signal.SIGTERM)
        for status, answer in await asyncio.gather(*posts):
            self.assertEqual(status, 200)
            await until(lambda: self.is_done(answer["prompt_id"]))
        outcome = await program.end(20)
        self.assertEqual(outcome.code, 0)
        self.assertIn("3 job(s) that waited for memory go to ComfyUI without it", outcome.err)
        self.assertNotIn("Traceback", outcome.err)

    async def test_a_terminal_that_is_closed_ends_it_in_good_order(self):
        program = await self.sidecar()
        await self.runs(graphs.work(0.2))
        program.send(signal.SIGHUP)
        self.assertEqual(((await program.end(60)).code, self.ebb.leases), (0, {}))


    async def test_one_that_was_started_to_outlive_its_terminal_does(self):
        self.port = free_port()
        program = await Program.start("nohup", *tool("comfy_sidecar.py"), "--comfyui", self.server.url, "--connect", self.ebb.endpoint, "--device", "0", "--peaks-file", "off",
                                      "--listen", f"127.0.0.1:{self.port}")
        self.addAsyncCleanup(program.kill)
        await program.shows("open http")
        program.send(signal.SIGHUP)
        await self.runs(graphs.work(0.2))
        self.assertEqual(len(self.ebb.leases), 1)


class AnEbbThatGivesNoAnswer(SidecarCase):
    async def test_an_ebb_that_is_stopped_costs_one_job_its_time_and_not_each(self):
        ebb = await self.ebbd()
        program = await self.sidecar(ebb=ebb)
        os.kill(ebb.program.pid, signal.SIGSTOP)
        try:
            took = []
            for color in range(4):
                began = time.monotonic()
                await self.runs(graphs.work(0.05, color=color))
                took.append(time.monotonic() - began)
        finally:
            os.kill(ebb.program.pid, signal.SIGCONT)
        self.assertLess(sum(took[1:]), 3, took)
        self.assertEqual(program.err.count("jobs run in what is free"), 1)


class ATerminalThatIsClosed(SidecarCase):
    async def test_a_handoff_whose_terminal_is_closed_cancels_its_job_and_gives_back(self):
        ebb = await self.ebbd()
        words = [sys.executable, str(Path(__file__).resolve().parents[2] / "tools" / "comfy_vram_handoff.py"), str(self.file_of(graphs.work(60))), "--need", "6",
                 "--device", "0", "--comfyui", self.server.url, "--connect", ebb.endpoint, "--free-timeout", "3"]
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(words[0], words)
        try:
            await until(lambda: self.server.events)
            self.assertEqual(len(await ebb.leases()), 1)
            os.close(terminal)  # the kernel sends SIGHUP, and what is printed from now on fails

            async def nothing_is_lent():
                return await ebb.leases() == []

            await until(nothing_is_lent, 20)
            self.assertIn("interrupted", [what for what, _ in self.server.events])
            self.assertEqual(len(self.server.frees) > 0, True)
        finally:
            ended, status = await asyncio.wait_for(asyncio.to_thread(os.waitpid, pid, 0), 20)
        self.assertEqual(os.waitstatus_to_exitcode(status), 130)


if __name__ == "__main__":
    unittest.main()
