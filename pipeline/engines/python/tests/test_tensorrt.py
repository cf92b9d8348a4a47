"""The engine of TensorRT, as far as it goes without a GPU: what is built from ONNX, what is kept,
what is refused. Needs TensorRT-RTX."""

import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from photofinish_tensorrt import library
from photofinish_tensorrt.building import Order, build
from photofinish_tensorrt.cache import Cache, key
from photofinish_tensorrt.configuration import understand
from photofinish_tensorrt.engine import TensorRT
from photofinish_tensorrt.failure import classify
from photofinish_tensorrt.library import Library
from photofinish_worker import cache
from photofinish_worker.messages import Load, ModelFiles, Precision
from photofinish_worker.outcome import Failure, Kind
from tests.with_tensorrt import NETWORK, RTX, SHAPE, Folder, cell, load, onnx


class Building(Folder):
    def order(self, path: Path, shape: tuple[int, ...] = SHAPE) -> Order:
        return Order(path, {"x": shape}, target="SM89")

    def test_an_engine_is_built_for_a_card_that_is_not_here(self) -> None:
        for element in (1, 10):
            built = build(RTX, self.order(onnx(self.folder, element=element)))
            self.assertGreater(built.plan.nbytes, 1000)
            self.assertEqual(built.layers, 1)
            self.assertIsNone(built.timings)

    def test_open_sizes_are_closed(self) -> None:
        path = onnx(self.folder, shape=("batch", 3))
        self.assertEqual(build(RTX, self.order(path, (5, 3))).layers, 1)

    def test_an_unknown_operator_is_named_with_its_node(self) -> None:
        with self.assertRaises(Failure) as caught:
            build(RTX, self.order(onnx(self.folder, "Confuse")))
        self.assertIs(caught.exception.kind, Kind.UNSUPPORTED)
        self.assertIn("Confuse of node the_node", caught.exception.reason)

    def test_inputs_must_be_the_graph_s(self) -> None:
        with self.assertRaises(Failure) as caught:
            build(RTX, Order(onnx(self.folder), {"z": SHAPE}, target="SM89"))
        self.assertIn("input `x`", caught.exception.reason)

    def test_what_is_no_model_is_refused(self) -> None:
        broken = Path(self.folder) / "broken.onnx"
        broken.write_bytes(b"\xff" * 100)
        for path in (broken, Path(self.folder) / "absent.onnx"):
            with self.assertRaises(Failure) as caught:
                build(RTX, self.order(path))
            self.assertIs(caught.exception.kind, Kind.CRASHED)

    def test_shapes_that_do_not_fit_are_told_in_tensorrt_s_words(self) -> None:
        with self.assertRaises(Failure) as caught:
            build(RTX, self.order(onnx(self.folder, "MatMul")))
        self.assertIn("MatMul of node the_node", caught.exception.reason)


class Words(unittest.TestCase):
    def test_complaints_are_sorted(self) -> None:
        for words, kind in [
            ("Error Code 2: OutOfMemory", Kind.OUT_OF_MEMORY),
            ("CUDA: out of memory (cudaErrorMemoryAllocation)", Kind.OUT_OF_MEMORY),
            ('Assertion failed: creator && "Plugin not found', Kind.UNSUPPORTED),
            ("Error Code 10: Could not find any implementation for node", Kind.UNSUPPORTED),
            ("Error Code 1:\n  Cuda Runtime", Kind.CRASHED),
        ]:
            failure = classify("step", words)
            self.assertIs(failure.kind, kind, words)
            self.assertEqual(failure.reason, f"step: {' '.join(words.split())}")

    def test_a_library_that_is_not_there_is_named(self) -> None:
        with self.assertRaises(Failure) as caught:
            library.load(library.NATIVE)
        self.assertIs(caught.exception.kind, Kind.UNAVAILABLE)
        self.assertIn("tensorrt_bindings cannot be loaded", caught.exception.reason)
        with mock.patch.object(library, "find_spec", return_value=None):
            self.assertRaises(Failure, library.find)

    def test_the_first_complaint_is_told_and_forgotten(self) -> None:
        ours = Library(RTX.module, library.RTX, None, ["first", "second"])
        self.assertEqual(ours.failure("step").reason, "step: first")
        self.assertEqual(ours.failure("step").reason, "step: without a word")

    def test_complaints_about_what_was_made_after_all_are_forgotten(self) -> None:
        ours = Library(RTX.module, library.RTX, None, ["out of memory: trying another tactic"])
        self.assertEqual(ours.made("building", b"plan"), b"plan")
        with self.assertRaises(Failure) as caught:
            ours.made("the engine's context", None)
        self.assertIs(caught.exception.kind, Kind.CRASHED)
        self.assertEqual(caught.exception.reason, "the engine's context: without a word")

    def test_it_says_who_it_is(self) -> None:
        identity = TensorRT(library.find()).hello()
        self.assertEqual(identity.engine, "tensorrt")
        self.assertEqual(list(identity.variants), ["rtx"])
        self.assertEqual(identity.versions["tensorrt"], RTX.version)
        self.assertRegex(str(identity.worker), "^[0-9a-f]{64}$")


class Understanding(unittest.TestCase):
    def test_a_cell_is_understood(self) -> None:
        asked = understand(load(Path("/m.onnx"), "/s", precision="tf32"), "rtx")
        self.assertEqual(asked.shapes, {"x": SHAPE})
        self.assertTrue(asked.tf32)
        self.assertFalse(understand(load(Path("/m.onnx"), "/s"), "rtx").tf32)

    def test_what_decided_the_file_is_known(self) -> None:
        forms = {"recurrent": "fused", "attention": "plain"}
        grids = {"calibration": "percentile", "grid": "symmetric"}
        request = load(Path("/m.onnx"), "/s", precision="int8-static", factors=forms | grids)
        self.assertFalse(understand(request, "rtx").tf32)

    def test_what_tensorrt_does_not_run_is_refused(self) -> None:
        cases: list[tuple[dict[str, Any], str]] = [
            ({"engine": "tensorrt/native"}, "this worker runs tensorrt/rtx"),
            ({"device": "cpu"}, "the device is cpu"),
            ({"precision": "bf16"}, "not run in bf16"),
            ({"mode": "training", "optimizer": {"sgd": _SGD}}, "does no training"),
            ({"factors": {"layout": "nchw"}}, "factor `layout`"),
            ({"host_language": "rust"}, "driven from Python"),
        ]
        for other, words in cases:
            with self.assertRaises(Failure) as caught:
                understand(load(Path("/m.onnx"), "/s", **other), "rtx")
            self.assertIs(caught.exception.kind, Kind.UNSUPPORTED)
            self.assertIn(words, caught.exception.reason)

    def test_without_a_file_in_the_cell_s_precision_there_is_nothing_to_read(self) -> None:
        for files in (None, ModelFiles("w", "/m.onnx", Precision.FP16)):
            with self.assertRaises(Failure) as caught:
                understand(Load(cell(), NETWORK, files, "/s"), "rtx")
            self.assertIn("none was named", caught.exception.reason)


_SGD = {"learning_rate": 0.1, "momentum": 0.0, "weight_decay": 0.0}


class Keeping(Folder):
    def test_what_was_kept_is_found(self) -> None:
        kept = Cache.of({cache.VARIABLE: self.folder}, "/nowhere")
        self.assertIsNone(kept.read("a"))
        kept.keep("a", b"one")
        kept.keep("a", memoryview(b"two"))
        self.assertEqual(kept.read("a"), b"two")
        self.assertEqual([path.name for path in Path(self.folder, "engines").iterdir()], ["a"])

    def test_what_is_damaged_is_not_found(self) -> None:
        kept = Cache.of({cache.VARIABLE: self.folder}, "/nowhere")
        kept.keep("a", b"an engine")
        path = Path(self.folder, "engines", "a")
        whole = path.read_bytes()
        flipped = whole[:-1] + bytes([whole[-1] ^ 1])
        for damaged in (flipped, whole[:-1], whole[:20], b"", whole + b"!"):
            path.write_bytes(damaged)
            self.assertIsNone(kept.read("a"), damaged)
        path.write_bytes(whole)
        self.assertEqual(kept.read("a"), b"an engine")

    def test_a_place_that_cannot_be_written_to_keeps_nothing(self) -> None:
        (Path(self.folder) / "engines").write_bytes(b"in the way")
        kept = Cache.of({}, self.folder)
        kept.keep("a", b"one")
        self.assertIsNone(kept.read("a"))

    def test_a_key_is_of_the_model_its_data_and_the_conditions(self) -> None:
        path = onnx(self.folder)
        keys = {key(path, "a", 1), key(path, "a", 2), key(onnx(self.folder, "Abs"), "a", 1)}
        path.with_suffix(".data").write_bytes(b"1")
        keys.add(key(path, "a", 1))
        path.with_suffix(".data").write_bytes(b"2")
        keys.add(key(path, "a", 1))
        self.assertEqual(len(keys), 5)
        self.assertEqual(key(path, "a", 1), key(path, "a", 1))


if __name__ == "__main__":
    unittest.main()
