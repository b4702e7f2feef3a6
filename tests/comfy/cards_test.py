# tests/comfy/cards_test.py: which of Ebb's cards a ComfyUI is on: told by UUID and PCI address, never by comparing the numbers of different programs.
import os
import socket
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
from support.cases import Case  # noqa: E402
from support.simulated_gpu import SimulatedGpu, write_nvidia_smi  # noqa: E402

from ebb_sidecar import cards, gpus  # noqa: E402
from ebb_sidecar.outcome import Exit, Failure  # noqa: E402

FAST = SimulatedGpu(24000, "GPU-aaaaaaaa-0000-0000-0000-000000000000", "0000:41:00.0", "NVIDIA GeForce RTX 4090")
SLOW = SimulatedGpu(12000, "GPU-bbbbbbbb-0000-0000-0000-000000000000", "0000:01:00.0", "NVIDIA GeForce RTX 3060")
TWIN = SimulatedGpu(24000, "GPU-cccccccc-0000-0000-0000-000000000000", "0000:42:00.0", "NVIDIA GeForce RTX 4090")


def card(device, gpu):
    return {"device": device, "kind": "cuda", "gpu": device, "gpu_name": gpu.name, "pci_address": gpu.pci_address, "uuid": gpu.uuid}


def stats(name="cuda:0 NVIDIA GeForce RTX 4090 : cudaMallocAsync", argv=(), type="cuda"):
    return {"system": {"argv": ["main.py", *argv]}, "devices": [{"name": name, "type": type, "index": 0}]}


class Choosing(Case):
    def setUp(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.programs = self.folder()
        patch = mock.patch.dict(os.environ, {"PATH": f"{self.programs}:{os.environ['PATH']}"})
        patch.start()
        self.addCleanup(patch.stop)
        self.driver_lists([FAST, SLOW], {})

    def driver_lists(self, there, processes):
        write_nvidia_smi(self.programs, there, processes)

    async def choice(self, there, wanted="auto", **of_comfyui):
        return await cards.choose(self.url, stats(**of_comfyui), there, wanted)

    async def fails(self, there, wanted="auto", **of_comfyui):
        with self.assertRaises(Failure) as raised:
            await self.choice(there, wanted, **of_comfyui)
        self.assertEqual(raised.exception.code, Exit.BAD_INPUT)
        self.assertIn("nothing was lent and nothing was queued", raised.exception.text())
        return raised.exception.text()

    async def test_the_process_behind_the_port_tells_whichever_order_the_programs_count_in(self):
        # CUDA counts the faster one first, nvidia-smi by address, Ebb as its settings say: ComfyUI's cuda:0 is nvidia-smi's GPU 1.
        self.driver_lists([SLOW, FAST], {os.getpid(): FAST.uuid, 1: SLOW.uuid})
        for order in ([SLOW, FAST], [FAST, SLOW]):
            there = [card(i, gpu) for i, gpu in enumerate(order)]
            choice = await self.choice(there)
            self.assertEqual((choice.devices, choice.uuid, choice.pid), ([order.index(FAST)], FAST.uuid, os.getpid()))
            self.assertEqual(choice.notes, [])

    async def test_a_number_is_ebbs_own_and_a_card_that_comfyui_is_not_on_is_refused(self):
        self.driver_lists([FAST, SLOW], {os.getpid(): FAST.uuid})
        there = [card(0, SLOW), card(1, FAST)]
        self.assertEqual((await self.choice(there, "1")).devices, [1])
        text = await self.fails(there, "0")
        self.assertIn("ComfyUI is on card 1 (NVIDIA GeForce RTX 4090, 0000:41:00.0)", text)
        self.assertIn("not on card 0 (NVIDIA GeForce RTX 3060, 0000:01:00.0)", text)
        self.assertIn("--device 1", text)

    async def test_uuids_and_pci_addresses_name_a_card_however_they_are_written(self):
        there = [card(0, SLOW), card(1, FAST)]
        for text in (FAST.uuid, FAST.uuid.upper(), FAST.uuid.removeprefix("GPU-"), "0000:41:00.0", "00000000:41:00.0", "41:00.0"):
            self.assertEqual((await self.choice(there, text)).devices, [1], text)
        for text in ("GPU-0", "0000:43:00.0", "2", "cuda:0", ""):
            self.assertIn("Ebb has no card", await self.fails(there, text))

    async def test_a_gpu_that_ebb_has_no_card_on_is_told(self):
        self.driver_lists([FAST, SLOW], {os.getpid(): SLOW.uuid})
        self.assertIn(f"on {SLOW.uuid}, of which Ebb has no card", await self.fails([card(0, FAST)]))

    async def test_where_the_driver_hides_processes_a_uuid_given_to_comfyui_tells(self):
        there = [card(0, FAST), card(1, TWIN)]
        self.driver_lists([FAST, TWIN], {})
        self.assertEqual((await self.choice(there, argv=["--cuda-device", TWIN.uuid])).devices, [1])
        with mock.patch.object(gpus, "environment_of", lambda pid: {"CUDA_VISIBLE_DEVICES": TWIN.uuid}):
            self.assertEqual((await self.choice(there)).devices, [1])

    async def test_a_name_tells_only_if_one_gpu_alone_has_it(self):
        choice = await self.choice([card(0, SLOW), card(1, FAST)])
        self.assertEqual((choice.devices, choice.how), ([1], "no other GPU is a NVIDIA GeForce RTX 4090"))
        self.driver_lists([FAST, TWIN], {})
        text = await self.fails([card(0, FAST), card(1, TWIN)])
        self.assertIn("cannot tell which of Ebb's cards ComfyUI is on", text)
        self.assertIn("say which card with --device", text)
        # Ebb has one of the two: that ComfyUI is on that one is a guess.
        self.assertIn("cannot tell", await self.fails([card(0, FAST)]))

    async def test_a_number_of_comfyuis_is_never_taken_for_one_of_ebbs(self):
        self.driver_lists([FAST, TWIN], {})
        self.assertIn("cannot tell", await self.fails([card(0, FAST), card(1, TWIN)], argv=["--cuda-device", "1"]))

    async def test_what_cannot_be_checked_is_said(self):
        self.driver_lists([FAST, TWIN], {})
        choice = await self.choice([card(0, FAST), card(1, TWIN)], "1")
        self.assertEqual(choice.devices, [1])
        self.assertRegex(choice.notes[0], r"cannot check that ComfyUI is on card 1 .*fits no GPU, or several")

    async def test_cards_that_share_the_gpu_are_all_lent_from_the_named_one_first(self):
        there = [card(0, FAST), card(1, SLOW), card(2, FAST)]
        self.assertEqual((await self.choice(there)).devices, [0, 2])
        self.assertEqual((await self.choice(there, "2")).devices, [2, 0])

    async def test_a_process_in_another_container_or_on_another_machine_is_not_guessed(self):
        self.assertIsNone(gpus.pid_listening_on("192.0.2.1", 8188))
        self.assertEqual(gpus.pid_listening_on("127.0.0.1", int(self.url.rsplit(":", 1)[1])), os.getpid())

    async def test_without_nvidia_smi_nothing_is_known_and_nothing_fails(self):
        with mock.patch.dict(os.environ, {"PATH": str(self.folder())}):
            self.assertEqual((await gpus.gpus(), await gpus.uuids_of_process(1), await gpus.free_mib_of(FAST.uuid)), ([], [], None))


if __name__ == "__main__":
    unittest.main()
