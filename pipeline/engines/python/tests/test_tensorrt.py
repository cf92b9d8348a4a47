"""The engine of TensorRT, as far as it goes without a GPU: what is built from ONNX, what is kept,
what is refused; steps run on a stand-in for a card. Needs TensorRT-RTX."""

import ctypes
import shutil
import tempfile
import unittest
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from photofinish_numpy import fill
from photofinish_tensorrt import cuda, library
from photofinish_tensorrt.building import Order, build
from photofinish_tensorrt.cache import Cache, key
from photofinish_tensorrt.configuration import understand
from photofinish_tensorrt.engine import TensorRT, start
from photofinish_tensorrt.failure import classify
from photofinish_tensorrt.library import Library
from photofinish_worker import cache, sources
from photofinish_worker.decode import decode
from photofinish_worker.graph import Uniform
from photofinish_worker.messages import Cell, Load, ModelFiles, Precision
from photofinish_worker.outcome import Failure, Kind
from tests.sketch import CELL, graph, node, value

RTX = library.load(library.RTX)
SHAPE = (2, 3)
NETWORK = graph([value("x", list(SHAPE))], [], [node("Relu", ["x"], "y")])


def field(number: int, content: bytes | str | int) -> bytes:
    """A field of a protobuf message."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    raw = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def described(name: str, element: int, shape: tuple[int | str, ...]) -> bytes:
    """A `ValueInfoProto`; a size that is a word is open."""
    sizes = [field(1, field(2 if isinstance(size, str) else 1, size)) for size in shape]
    return field(1, name) + field(2, field(1, field(1, element) + field(2, b"".join(sizes))))


def onnx(
    folder: str,
    operator: str = "Relu",
    element: int = 1,
    shape: tuple[int | str, ...] = SHAPE,
) -> Path:
    """A file with one operator. Elements: 1 is binary32, 10 is binary16."""
    body = field(1, "x") + field(2, "y") + field(3, "the_node") + field(4, operator)
    ends = field(11, described("x", element, shape)) + field(12, described("y", element, shape))
    path = Path(folder) / "model.onnx"
    opset = field(8, field(1, "") + field(2, 21))
    path.write_bytes(field(1, 10) + field(7, field(1, body) + field(2, "g") + ends) + opset)
    return path


def cell(**other: Any) -> Cell:
    asked = CELL | {"engine": "tensorrt/rtx", "device": "cuda:0", "factors": {}} | other
    read = decode(Cell, asked, "cell")
    assert isinstance(read, Cell)
    return read


def load(path: Path, scratch: str, **other: Any) -> Load:
    asked = cell(**other)
    files = ModelFiles("no.weights", str(path), asked.precision)
    return Load(asked, NETWORK, files, scratch)


class Folder(unittest.TestCase):
    """A test that writes files."""

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)


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


class Status(IntEnum):
    cudaSuccess = 0  # noqa: N815 - as CUDA's runtime calls it
    cudaErrorMemoryAllocation = 2  # noqa: N815


class Runtime:
    """The CUDA runtime, of a card whose memory is the host's."""

    cudaError_t = Status  # noqa: N815
    cudaMemcpyKind = SimpleNamespace(cudaMemcpyHostToDevice=1, cudaMemcpyDeviceToHost=2)  # noqa: N815
    cudaStreamNonBlocking = 1  # noqa: N815

    def __init__(self, memory: int = 1 << 20) -> None:
        self.left = memory
        self.held: list[Any] = []
        self.status = Status.cudaSuccess
        self.synchronized = 0

    def __getattr__(self, name: str) -> Any:
        answers = {
            "cudaSetDevice": (Status.cudaSuccess,),
            "cudaGetDeviceCount": (Status.cudaSuccess, 1),
            "cudaGetDeviceProperties": (Status.cudaSuccess, _PROPERTIES),
            "cudaDriverGetVersion": (Status.cudaSuccess, 13000),
            "cudaStreamCreateWithFlags": (Status.cudaSuccess, 7),
            "cudaGetErrorString": (Status.cudaSuccess, b"out of memory"),
        }
        return lambda *_: answers[name]

    def cudaMalloc(self, size: int) -> tuple[Any, ...]:  # noqa: N802
        if size > self.left:
            return Status.cudaErrorMemoryAllocation, None
        self.left -= size
        self.held.append(ctypes.create_string_buffer(size))
        return Status.cudaSuccess, ctypes.addressof(self.held[-1])

    def cudaMemcpy(self, target: int, source: int, size: int, kind: int) -> tuple[Any, ...]:  # noqa: N802
        del kind
        ctypes.memmove(target, source, size)
        return (Status.cudaSuccess,)

    def cudaStreamSynchronize(self, stream: int) -> tuple[Any, ...]:  # noqa: N802
        assert stream == 7
        self.synchronized += 1
        return (self.status,)


_PROPERTIES = SimpleNamespace(name=b"A card", major=8, minor=9)


class Engine:
    """What a card would run: y is x without what is negative."""

    num_io_tensors = 2
    num_layers = 1
    device_memory_size_v2 = 100

    def __init__(self, element: Any) -> None:
        self.element = element
        self.addresses: dict[str, int] = {}
        self.launches = True

    def get_tensor_name(self, index: int) -> str:
        return "xy"[index]

    def get_tensor_mode(self, name: str) -> Any:
        modes = RTX.module.TensorIOMode
        return modes.INPUT if name == "x" else modes.OUTPUT

    def get_tensor_dtype(self, name: str) -> Any:
        del name
        return self.element

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        del name
        return SHAPE

    def get_engine_stat(self, stat: Any) -> int:
        del stat
        return 1000

    def create_runtime_config(self) -> Any:
        return mock.Mock(create_runtime_cache=lambda: mock.Mock(serialize=lambda: b"kernels"))

    def create_execution_context(self, config: Any = None) -> "Engine":
        del config
        return self

    def set_tensor_address(self, name: str, address: int) -> None:
        self.addresses[name] = address

    def execute_async_v3(self, stream: int) -> bool:
        assert stream == 7
        element = np.dtype(RTX.module.nptype(self.element))
        count = int(np.prod(SHAPE))
        held = {
            name: np.frombuffer(
                (ctypes.c_char * (count * element.itemsize)).from_address(address), element
            )
            for name, address in self.addresses.items()
        }
        np.maximum(held["x"], 0, out=held["y"])
        return self.launches


class Builder:
    """TensorRT's builder, as far as it is asked: its plan says which timings it was given."""

    def __init__(self, refused: bytes = b"") -> None:
        self.refused = refused
        """Timings that it does not take."""
        self.cleared: list[Any] = []
        self.timings: Any = None

    def create_network(self, flags: int) -> Any:
        assert flags == 1 << 3
        fed = SimpleNamespace(name="x", shape=SHAPE)
        return SimpleNamespace(num_inputs=1, num_layers=1, get_input=lambda _: fed)

    def create_builder_config(self) -> "Builder":
        return self

    def clear_flag(self, flag: Any) -> None:
        self.cleared.append(flag)

    def create_timing_cache(self, kept: bytes) -> Any:
        return SimpleNamespace(kept=kept, serialize=lambda: kept + b"+learnt")

    def set_timing_cache(self, timings: Any, ignore_mismatch: bool) -> bool:
        assert not ignore_mismatch
        if timings.kept and timings.kept == self.refused:
            return False
        self.timings = timings
        return True

    def build_serialized_network(self, network: Any, config: Any) -> Any:
        del network
        assert config is self
        return b"built with " + self.timings.kept


class Native(Folder):
    """TensorRT itself, which needs a card even to build: its module is made up."""

    def setUp(self) -> None:
        super().setUp()
        self.builder = Builder()
        self.refused: list[bytes] = []
        self.loaded: list[bytes] = []

    def deserialize(self, plan: bytes) -> Engine | None:
        self.loaded.append(plan)
        if plan in self.refused:
            self.errors.append("Error Code 1: the plan is another version's")
            return None
        return Engine(RTX.module.float32)

    def started(self, card: str = "A card") -> dict[str, str]:
        """What a launch tells of itself."""
        shown = ("TensorIOMode", "EngineStat", "nptype", "float32")
        runtime = SimpleNamespace(deserialize_cuda_engine=self.deserialize)
        module = SimpleNamespace(
            **{name: getattr(RTX.module, name) for name in shown},
            __version__="10.0",
            Builder=lambda _: self.builder,
            BuilderFlag=SimpleNamespace(TF32="TF32"),
            NetworkDefinitionCreationFlag=SimpleNamespace(STRONGLY_TYPED=3),
            OnnxParser=lambda *_: SimpleNamespace(parse_from_file=lambda _: True),
            Runtime=lambda _: runtime,
        )
        self.errors: list[str] = []
        ours = Library(module, library.NATIVE, None, self.errors)
        request = load(onnx(self.folder), self.folder, engine="tensorrt/native")
        with mock.patch.dict("os.environ", {cache.VARIABLE: self.folder}):
            held = cuda.Card(0, Runtime())
            held.name = card
            session, report = start(ours, held, request, understand(request, "native"))
        session.step()
        self.assertEqual(self.errors, [])
        return dict(report.settings)

    def plans(self) -> list[Path]:
        return list(Path(self.folder, "engines").glob("*.plan"))

    def test_an_engine_is_built_once(self) -> None:
        self.assertEqual(self.started()["engine"], "built by this launch")
        self.assertEqual(self.builder.cleared, ["TF32"])
        self.assertEqual(self.started()["engine"], "built by an earlier launch")
        self.assertEqual(self.loaded, [b"built with "] * 2)

    def test_timings_of_kernels_serve_the_next_engine(self) -> None:
        self.started()
        for plan in self.plans():
            plan.unlink()
        self.started()
        self.assertEqual(self.loaded[-1], b"built with +learnt")
        # Another card's times are not looked at.
        self.started("Another card")
        self.assertEqual(self.loaded[-1], b"built with ")

    def test_timings_that_do_not_fit_are_begun_anew(self) -> None:
        self.started()
        for plan in self.plans():
            plan.unlink()
        self.builder.refused = b"+learnt"
        self.started()
        self.assertEqual(self.loaded[-1], b"built with ")
        (kept,) = Path(self.folder, "engines").glob("*.timings")
        self.assertTrue(kept.read_bytes().endswith(b"+learnt"))
        self.assertFalse(kept.read_bytes().endswith(b"+learnt+learnt"))

    def test_an_engine_that_the_library_refuses_is_built_again(self) -> None:
        self.started()
        self.refused = [b"built with "]
        self.assertEqual(self.started()["engine"], "built by this launch")
        self.assertEqual(self.loaded[-1], b"built with +learnt")
        self.assertEqual(self.started()["engine"], "built by an earlier launch")

    def test_an_engine_that_is_refused_as_soon_as_it_is_built_fails_in_words(self) -> None:
        self.refused = [b"built with "]
        with self.assertRaises(Failure) as caught:
            self.started()
        expected = "loading the engine: Error Code 1: the plan is another version's"
        self.assertEqual(caught.exception.reason, expected)


class Running(Folder):
    def started(self, element: Any = None, memory: int = 1 << 20) -> tuple[Any, Any, Any]:
        """A session on the stand-in, its engine, its CUDA runtime; the engine is truly built."""
        self.engine = Engine(element or RTX.module.float32)
        runtime = SimpleNamespace(deserialize_cuda_engine=lambda plan: plan and self.engine)
        shown = {name: getattr(RTX.module, name) for name in dir(RTX.module)}
        module = SimpleNamespace(
            **shown | {"Runtime": lambda _: runtime, "__version__": RTX.version}
        )
        module.ComputeCapability = SimpleNamespace(CURRENT=RTX.module.ComputeCapability.SM89)
        ours = Library(module, library.RTX, RTX.logger, RTX.errors)
        self.cuda = Runtime(memory)
        half = element is not None
        request = load(
            onnx(self.folder, element=10 if half else 1),
            self.folder,
            precision="fp16" if half else "fp32",
        )
        with mock.patch.dict("os.environ", {cache.VARIABLE: self.folder}):
            card = cuda.Card(0, self.cuda)
            session, report = start(ours, card, request, understand(request, "rtx"))
        return session, report, ours

    def test_outputs_are_the_engine_s(self) -> None:
        for element, kind in ((None, np.float32), (RTX.module.float16, np.float16)):
            session, report, _ = self.started(element)
            (told,) = session.parity(0).tensors
            fed: NDArray[Any] = fill.floats("x", Uniform(-1.0, 1.0), SHAPE).astype(kind)
            self.assertLess(fed.min(), 0)
            expected = np.maximum(fed, 0).astype("<f4").tobytes()
            self.assertEqual((told.name, tuple(told.shape), told.element), ("y", SHAPE, "f32"))
            self.assertEqual(told.data, expected)
            size = 2 * int(np.prod(SHAPE)) * np.dtype(kind).itemsize
            self.assertEqual(session.device_memory(), (1100 + size, 1100 + size))
            self.assertEqual(report.settings["GPU"], "A card, compute capability 8.9")

    def test_a_step_waits_for_the_card(self) -> None:
        session, _, _ = self.started()
        before = self.cuda.synchronized
        session.step()
        self.assertEqual(self.cuda.synchronized, before + 1)

    def test_the_second_launch_finds_the_engine_and_its_kernels(self) -> None:
        _, first, _ = self.started()
        self.assertEqual(first.settings["engine"], "built by this launch")
        self.assertEqual(first.settings["TF32"], "off")
        with mock.patch("photofinish_tensorrt.engine.build", side_effect=AssertionError):
            _, second, _ = self.started()
        self.assertEqual(second.settings["engine"], "built by an earlier launch")
        kept = [path.suffix for path in Path(self.folder, "engines").iterdir()]
        self.assertEqual(sorted(kept), [".kernels", ".plan"])

    def test_other_code_or_another_arithmetic_builds_another_engine(self) -> None:
        def engine() -> str:
            _, report, _ = self.started()
            return str(report.settings["engine"])

        anew, found = "built by this launch", "built by an earlier launch"
        self.assertEqual([engine(), engine()], [anew, found])
        with mock.patch.object(sources, "digest", return_value="other"):
            self.assertEqual([engine(), engine()], [anew, found])
        with mock.patch.dict("os.environ", {"NVIDIA_TF32_OVERRIDE": "0"}):
            self.assertEqual([engine(), engine()], [anew, found])

    def test_a_step_that_fails_says_why(self) -> None:
        session, _, ours = self.started()
        self.engine.launches = False
        ours.errors[:] = ["Error Code 1: no"]
        with self.assertRaises(Failure) as caught:
            session.step()
        self.assertEqual(caught.exception.reason, "step: Error Code 1: no")
        self.cuda.status = Status.cudaErrorMemoryAllocation
        with self.assertRaises(Failure) as caught:
            session.step()
        self.assertIs(caught.exception.kind, Kind.OUT_OF_MEMORY)

    def test_a_card_that_is_full_is_out_of_memory(self) -> None:
        with self.assertRaises(Failure) as caught:
            self.started(memory=8)
        self.assertIs(caught.exception.kind, Kind.OUT_OF_MEMORY)
        self.assertIn("x: out of memory (cudaErrorMemoryAllocation)", caught.exception.reason)


class Cards(unittest.TestCase):
    def reason(self, name: str, driver: str = "libc.so.6", **other: Any) -> str:
        found = Runtime()
        for attribute, answer in other.items():
            setattr(found, attribute, answer)
        with self.assertRaises(Failure) as caught:
            cuda.find(name, found, driver)
        self.assertIs(caught.exception.kind, Kind.UNAVAILABLE)
        return caught.exception.reason

    def test_a_card_is_found(self) -> None:
        self.assertEqual(cuda.find("cuda:0", Runtime(), "libc.so.6").name, "A card")

    def test_what_is_missing_is_named(self) -> None:
        self.assertIn("libabsent.so.9", self.reason("cuda:0", "libabsent.so.9"))
        self.assertIn("finds 1 device", self.reason("cuda:1"))
        self.assertIn("there is no cuda:-1", self.reason("cuda:-1"))
        refused = (Status.cudaErrorMemoryAllocation, None)
        reason = self.reason("cuda:0", cudaGetDeviceCount=lambda: refused)
        self.assertIn("CUDA finds no device", reason)


if __name__ == "__main__":
    unittest.main()
