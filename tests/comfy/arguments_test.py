# tests/comfy/arguments_test.py: arguments and settings that cannot be are refused by name before anything is asked, and so are a port that leads to
# itself and one that would open ComfyUI to the network.
import asyncio
import socket
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from support import graphs  # noqa: E402
from support.cases import Case  # noqa: E402
from support.real_comfyui import free_port  # noqa: E402


class Refused(Case):
    async def refused(self, *words, tool="comfy_sidecar.py"):
        outcome = await (await self.start_tool(tool, *words)).end(20)
        self.assertEqual(outcome.code, 2, outcome.err)
        self.assertNotIn("Traceback", outcome.err)
        return outcome.err

    async def refused_settings(self, text):
        file = self.folder() / "sidecar.toml"
        file.write_text(text)
        return await self.refused("--config", file)

    async def test_a_number_that_ebb_would_never_take_is_refused_before_ebb_is_asked(self):
        workflow = self.file_of(graphs.quick())
        for words, said in ((("--need", "99999999999"), "'99999999999' is no whole number from 1 to 1048576"),
                            (("--need", "9" * 5000), "is no whole number from 1 to 1048576"),
                            (("--need", "\u0663"), "is no whole number from 1 to 1048576"),
                            (("--need", "5", "--at-least", "0"), "'0' is no whole number from 1"),
                            (("--need", "5", "--wait", "99999"), "'99999' is no whole number from 0 to 3600"),
                            (("--need", "5", "--timeout", "nan"), "'nan' is no number of seconds")):
            self.assertIn(said, await self.refused(workflow, *words, tool="comfy_vram_handoff.py"))

    async def test_a_sidecars_number_that_cannot_be_is_refused(self):
        for words, said in ((("--linger", "nan"), "linger_s = nan: allowed is a number from 0 to 1000000"),
                            (("--linger", "inf"), "linger_s = inf: allowed is"),
                            (("--max", "99999999999"), "max_mib = 99999999999: allowed is a number from 1 to 1048576"),
                            (("--first-guess", "-1"), "first_guess_mib = -1: allowed is a number from 0"),
                            (("--wait", "99999"), "wait_s = 99999: allowed is a number from 0 to 3600"),
                            (("--comfyui", "http://127.0.0.1:80800"), "url = 'http://127.0.0.1:80800': allowed is an address")):
            self.assertIn(said, await self.refused(*words, "--peaks-file", "off"))
        self.assertIn("linger_s = nan: allowed is", await self.refused_settings("[[comfyui]]\nlinger_s = nan"))
        self.assertIn("allow_network = 1: allowed is true or false", await self.refused_settings("[[comfyui]]\nallow_network = 1"))
        self.assertIn("wait_s = True: allowed is a number", await self.refused_settings("[[comfyui]]\nwait_s = true"))

    async def test_an_address_of_comfyui_with_a_port_that_cannot_be_is_refused(self):
        for url in ("http://127.0.0.1:80800", "http://[::1", "127.0.0.1:8188", "http://"):
            said = await self.refused(self.file_of(graphs.quick()), "--need", "5", "--comfyui", url, tool="comfy_vram_handoff.py")
            self.assertIn(f"--comfyui {url!r} is no address such as http://127.0.0.1:8188", said)

    async def test_a_port_that_leads_to_itself_is_refused_whatever_it_is_called(self):
        port = free_port()
        for listen, url in ((f"127.0.0.1:{port}", f"http://127.0.0.1:{port}"), (f"127.0.0.1:{port}", f"http://localhost:{port}/"), (f"localhost:{port}", f"http://127.0.0.1:{port}"),
                            (f"[::1]:{port}", f"http://[0:0:0:0:0:0:0:1]:{port}"), ("127.0.0.1:80", "http://127.0.0.1")):
            self.assertIn("is the port of listen", await self.refused("--comfyui", url, "--listen", listen, "--peaks-file", "off"))
        self.assertIn("is the port of listen", await self.refused("--comfyui", f"http://127.0.0.1:{port}", "--listen", f"0.0.0.0:{port}", "--allow-network", "--peaks-file", "off"))
        self.assertIn("is the port of listen", await self.refused_settings(
            f'[[comfyui]]\nurl = "http://127.0.0.1:{port}"\nlisten = "127.0.0.1:{port + 1}"\n[[comfyui]]\nurl = "http://localhost:{port + 1}"\nlisten = "127.0.0.1:{port}"'))

    async def test_a_port_that_other_machines_reach_is_opened_only_where_that_is_said(self):
        server, port = await self.comfyui(), free_port()
        for host in ("0.0.0.0", "[::]", "192.0.2.7"):
            said = await self.refused("--comfyui", server.url, "--listen", f"{host}:{port}", "--peaks-file", "off")
            self.assertIn("ComfyUI has no login, and whoever reaches the port could use it. allow_network = true (--allow-network) opens it all the same", said)
        program = await self.start_tool("comfy_sidecar.py", "--comfyui", server.url, "--listen", f"0.0.0.0:{port}", "--allow-network", "--peaks-file", "off")
        await program.shows(f"open http://0.0.0.0:{port}")
        self.assertIn("whoever reaches", program.err)
        await asyncio.to_thread(lambda: socket.create_connection(("127.0.0.1", port)).close())


if __name__ == "__main__":
    unittest.main()
