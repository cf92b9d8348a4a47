"""The engine of TensorRT on a stand-in for a card. Needs TensorRT-RTX."""

import ctypes
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
from photofinish_tensorrt.configuration import understand
from photofinish_tensorrt.engine import start
from photofinish_tensorrt.library import Library
from photofinish_worker import cache, sources
from photofinish_worker.graph import Uniform
from photofinish_worker.outcome import Failure, Kind
from tests.with_tensorrt import RTX, SHAPE, Folder, load, onnx


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
