# tests/comfy/peaks_test.py: what a workflow is lent next time, and when two graphs are the same workflow.
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from support import graphs  # noqa: E402
from support.programs import ROOT  # noqa: E402

sys.path.insert(0, str(ROOT / "tools"))
from ebb_sidecar import peaks as module  # noqa: E402
from ebb_sidecar.peaks import Bounds, Peaks  # noqa: E402
from ebb_sidecar.workflow import fingerprint  # noqa: E402

BOUNDS = Bounds(first_guess_mib=12000, max_mib=16000)


class Learning(unittest.TestCase):
    def setUp(self):
        self.peaks = Peaks(None)

    def test_before_the_first_run_it_is_the_guess_and_afterwards_what_was_taken_with_a_margin(self):
        self.assertEqual(self.peaks.need_mib("w", BOUNDS), 12000)
        self.assertEqual(self.peaks.learn("w", 8000.0, 12000, BOUNDS), 8400)
        self.assertEqual(self.peaks.need_mib("w", BOUNDS), 8400)
        self.assertEqual(self.peaks.need_mib("another", BOUNDS), 12000)

    def test_the_most_of_the_last_three_takes_counts_so_that_one_small_run_changes_nothing(self):
        for taken in (8000.0, 3000.0, 3000.0):
            self.assertEqual(self.peaks.learn("w", taken, 12000, BOUNDS), 8400)
        self.assertEqual(self.peaks.learn("w", 3000.0, 12000, BOUNDS), 3256)

    def test_one_that_filled_its_lease_gets_a_quarter_more_and_one_that_ran_out_half_as_much_again_up_to_the_ceiling(self):
        self.assertEqual(self.peaks.learn("w", 8400.0, 8400, BOUNDS), 10500)
        self.assertEqual(self.peaks.learn("w", 5000.0, 10000, BOUNDS, out_of_memory=True), 15000)
        for lent in (15000, 16000, 16000):
            self.assertEqual(self.peaks.learn("w", float(lent), lent, BOUNDS), 16000)

    def test_a_program_that_takes_whatever_is_free_does_not_raise_its_lease_beyond_the_ceiling(self):
        lent = BOUNDS.first_guess_mib
        for _ in range(20):
            lent = self.peaks.learn("w", lent + 300.0, lent, BOUNDS)
        self.assertEqual(lent, BOUNDS.max_mib)

    def test_a_tiny_take_is_still_lent_something(self):
        self.assertEqual(self.peaks.learn("w", 0.0, 12000, BOUNDS), module.LEAST_MIB)


class Kept(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "deeper" / "peaks.json"

    def test_what_was_learned_is_there_after_a_restart(self):
        Peaks(self.file).learn("w", 8000.0, 12000, BOUNDS)
        self.assertEqual(Peaks(self.file).need_mib("w", BOUNDS), 8400)
        self.assertEqual([each.name for each in self.file.parent.iterdir()], ["peaks.json"])

    def test_the_least_used_are_forgotten_when_there_are_too_many(self):
        peaks = Peaks(self.file)
        peaks._known = {str(i): {"takes": [1.0], "mib": 300, "used": float(i)} for i in range(module.WORKFLOWS_MAX)}
        peaks.learn("new", 1000.0, 12000, BOUNDS)
        kept = json.loads(self.file.read_text())["workflows"]
        self.assertEqual((len(kept), "0" in kept, "1" in kept, "new" in kept), (module.WORKFLOWS_MAX, False, True, True))

    def test_a_file_that_is_none_of_ours_is_refused_and_left_alone(self):
        self.file.parent.mkdir()
        for content in ("", "[]", '{"workflows": {"w": {}}}', '{"workflows": {"w": {"takes": ["x"], "mib": 1, "used": 1}}}'):
            self.file.write_text(content)
            with self.assertRaisesRegex(ValueError, "is no file of learned peaks .*; remove it to learn anew"):
                Peaks(self.file)
            self.assertEqual(self.file.read_text(), content)


class Fingerprints(unittest.TestCase):
    def test_seeds_texts_steps_and_file_names_do_not_matter_models_sizes_and_links_do(self):
        graph = {"1": {"class_type": "KSampler", "inputs": {"seed": 1, "steps": 20, "cfg": 7.0, "denoise": 1.0, "sampler_name": "euler", "model": ["4", 0]}},
                 "2": {"class_type": "CLIPTextEncode", "inputs": {"text": "a cat", "clip": ["4", 1]}},
                 "3": {"class_type": "EmptyLatentImage", "inputs": {"width": 1024, "height": 1024, "batch_size": 1}},
                 "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "sdxl.safetensors"}},
                 "6": {"class_type": "CLIPTextEncodeFlux", "inputs": {"t5xxl": "a cat on a roof", "clip": ["4", 1]}},
                 "7": {"class_type": "CLIPLoader", "inputs": {"text_encoder_name": "t5 xxl.safetensors"}},
                 "5": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "cat"}}}

        def changed(node, **inputs):
            return fingerprint(graph | {node: {"class_type": graph[node]["class_type"], "inputs": graph[node]["inputs"] | inputs}})

        for node, inputs in (("1", {"seed": 2}), ("1", {"steps": 50}), ("1", {"denoise": 0.5}), ("2", {"text": "a dog"}), ("5", {"filename_prefix": "dog"}), ("6", {"t5xxl": "a dog in a park"}),
                             ("1", {"noise_seed": 3})):
            self.assertEqual(changed(node, **inputs), fingerprint(graph), inputs)
        for node, inputs in (("3", {"width": 2048}), ("3", {"batch_size": 8}), ("4", {"ckpt_name": "flux.safetensors"}), ("1", {"model": ["9", 0]}), ("7", {"text_encoder_name": "t5 base.safetensors"})):
            self.assertNotEqual(changed(node, **inputs), fingerprint(graph), inputs)

    def test_the_order_of_nodes_and_inputs_does_not_matter(self):
        graph = graphs.work()
        self.assertEqual(fingerprint(dict(reversed(graph.items()))), fingerprint(graph))

    def test_what_comfyui_says_of_its_nodes_tells_choices_from_texts_and_sizes_from_other_numbers(self):
        def node(inputs, *output):
            return {"input": {"required": inputs}, "output": list(output)}

        classes = {"Picker": node({"size": [["1024 x 1024", "4096 x 4096"], {}], "file": ["COMBO", {"options": ["sd xl", "flux dev"]}]}, "LATENT"),
                   "LoadImage": node({"image": [["a.png", "b.png"], {"image_upload": True}]}, "IMAGE", "MASK"),
                   "PrimitiveStringMultiline": node({"value": ["STRING", {"multiline": True}]}, "STRING"),
                   "PrimitiveInt": node({"value": ["INT", {"control_after_generate": True}]}, "INT"),
                   "Sum": node({"a": ["INT", {}], "b": ["INT", {}]}, "INT"),
                   "KSampler": node({"seed": ["INT", {"control_after_generate": True}], "variation": ["INT", {"control_after_generate": True}], "steps": ["INT", {}], "latent_image": ["LATENT"]}, "LATENT"),
                   "EmptyLatentImage": node({"width": ["INT", {}], "height": ["INT", {}]}, "LATENT")}
        graph = {"1": {"class_type": "Picker", "inputs": {"size": "1024 x 1024", "file": "sd xl"}},
                 "2": {"class_type": "LoadImage", "inputs": {"image": "a.png"}},
                 "3": {"class_type": "PrimitiveStringMultiline", "inputs": {"value": "cat"}},
                 "4": {"class_type": "PrimitiveInt", "inputs": {"value": 1}},  # a seed
                 "5": {"class_type": "PrimitiveInt", "inputs": {"value": 1}},  # a part of a width
                 "6": {"class_type": "Sum", "inputs": {"a": ["5", 0], "b": 7}},
                 "7": {"class_type": "EmptyLatentImage", "inputs": {"width": ["6", 0], "height": 1}},
                 "8": {"class_type": "KSampler", "inputs": {"seed": ["4", 0], "variation": 1, "steps": 1, "latent_image": ["7", 0]}}}

        def changed(id, **inputs):
            return fingerprint(graph | {id: {"class_type": graph[id]["class_type"], "inputs": graph[id]["inputs"] | inputs}}, classes)

        for id, inputs in (("2", {"image": "b.png"}), ("3", {"value": "dog"}), ("4", {"value": 2}), ("8", {"variation": 2}), ("8", {"steps": 2})):
            self.assertEqual(changed(id, **inputs), fingerprint(graph, classes), (id, inputs))
        for id, inputs in (("1", {"size": "4096 x 4096"}), ("1", {"file": "flux dev"}), ("5", {"value": 2}), ("6", {"b": 8}), ("7", {"height": 2}), ("8", {"latent_image": ["1", 0]})):
            self.assertNotEqual(changed(id, **inputs), fingerprint(graph, classes), (id, inputs))

    def test_values_that_are_handed_around_in_a_circle_have_one_too(self):
        classes = {"Sum": {"input": {"required": {"a": ["INT"], "b": ["INT"]}}, "output": ["INT"]}}
        graph = {"1": {"class_type": "Sum", "inputs": {"a": ["2", 0], "b": 1}}, "2": {"class_type": "Sum", "inputs": {"a": ["1", 0], "b": 1}}}
        self.assertEqual(len(fingerprint(graph, classes)), 24)

    def test_whatever_comes_as_a_graph_has_one(self):
        for graph in ({}, {"1": {}}, {"1": {"class_type": None, "inputs": None}}, {"1": []}, {"1": {"class_type": [], "inputs": ["x"]}}, {"1": {"inputs": {"a": [["b"]], "c": [{}]}}}):
            self.assertEqual(len(fingerprint(graph)), 24)


if __name__ == "__main__":
    unittest.main()
