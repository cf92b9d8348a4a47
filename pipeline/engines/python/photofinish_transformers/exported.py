"""Inference by ONNX Runtime: the model as PyTorch's exporter writes it.

A step is one bound call, as in the worker of the engine `onnxruntime`: inputs lie ready in memory,
and outputs have their place beforehand. What differs from that engine is who wrote the file, and
the language that makes the call.
"""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import numpy
import onnxruntime
import torch
from torch.onnx import ONNXProgram

from photofinish_pytorch import parity, process
from photofinish_pytorch.failure import at
from photofinish_pytorch.maker import Maker
from photofinish_transformers import network
from photofinish_transformers.configuration import Configuration
from photofinish_transformers.network import Network
from photofinish_worker.engine import LoadReport, ParityData, Quantity, Session
from photofinish_worker.graph import Graph
from photofinish_worker.messages import Load
from photofinish_worker.outcome import Failure, kind_of

PROVIDER = "CPUExecutionProvider"

_ELEMENTS = {torch.float32: numpy.float32, torch.float16: numpy.float16}
# As in the worker of the engine `onnxruntime`.
_MEMORY = ("bad_alloc", "out of memory", "failed to allocate memory")
_REFUSED = ("not_implemented",)

Fed = dict[str, torch.Tensor]


class Exported:
    """A session of ONNX Runtime with everything bound."""

    def __init__(
        self, session: onnxruntime.InferenceSession, graph: Graph, fed: Fed, element: torch.dtype
    ) -> None:
        self._session = session
        # ONNX Runtime reads inputs where they lie.
        self._fed = fed
        with _told("binding"):
            self._binding = session.io_binding()
            for name, tensor in fed.items():
                value = onnxruntime.OrtValue.ortvalue_from_numpy(tensor.numpy())
                self._binding.bind_ortvalue_input(name, value)
            shapes = {output.name: output.shape for output in session.get_outputs()}
            self._outputs = {
                name: onnxruntime.OrtValue.ortvalue_from_shape_and_type(
                    shapes[name], _ELEMENTS[element]
                )
                for name in graph.outputs
            }
            for name, room in self._outputs.items():
                self._binding.bind_ortvalue_output(name, room)

    def step(self) -> None:
        """One call; the outputs stay in their bound place."""
        try:
            self._session.run_with_iobinding(self._binding)
        except Exception as error:  # ONNX Runtime's have nothing else in common.
            raise _failed("step", error) from error

    def parity(self, steps: int) -> ParityData:
        """The graph's outputs."""
        del steps
        self.step()
        read = {name: torch.from_numpy(room.numpy()) for name, room in self._outputs.items()}
        return ParityData(
            [parity.output(Quantity.OUTPUT, name, tensor) for name, tensor in read.items()]
        )

    def reset(self) -> None:
        """A call changes nothing that lasts."""

    def device_memory(self) -> tuple[int, int] | None:
        """It runs on a CPU alone."""
        return None


def load(load: Load, configuration: Configuration) -> tuple[Session, LoadReport]:
    """Exports the cell's network and has ONNX Runtime make a session of it."""
    process.apply(configuration)
    start = time.perf_counter_ns()
    host = torch.device("cpu")
    maker = Maker(host, configuration.element, False, load.files.weights if load.files else None)
    inputs = [maker.input(fed) for fed in load.graph.inputs]
    built = network.build(load.graph, configuration, maker, host)
    fed = dict(zip(built.inputs, inputs, strict=True))
    settings = built.settings()
    built_ns = time.perf_counter_ns()
    with TemporaryDirectory(dir=load.scratch) as folder:
        file = Path(folder) / "model.onnx"
        settings |= _export(built, fed, load.graph.outputs, file)
        # The weights are in the file: what a step reads is ONNX Runtime's own copy.
        del built
        gc.collect()
        session = _session(file, configuration.threads)
    compiled_ns = time.perf_counter_ns()
    bound = Exported(session, load.graph, fed, configuration.element)
    report = LoadReport(
        fill_ns=maker.filling_ns,
        build_ns=max(0, built_ns - start - maker.filling_ns)
        + (time.perf_counter_ns() - compiled_ns),
        compile_ns=compiled_ns - built_ns,
        # ONNX Runtime does not tell.
        threads=None,
        spin="spin a while, then sleep (ONNX Runtime's default)",
        settings=settings | _settings(configuration),
    )
    return bound, report


class _Named(torch.nn.Module):
    """The model with the graph's outputs, in the graph's order."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self._network = network
        self.model = network.model

    def forward(self, *fed: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self._network(*fed, False)


def _export(built: Network, fed: Fed, outputs: tuple[str, ...], file: Path) -> dict[str, str]:
    """Writes the model to `file`, and beside it the weights where one file cannot hold all; says
    how. The model has no weights after that."""
    with at("torch.onnx.export"), torch.no_grad():
        # The older exporter alone writes the file itself and gives nothing.
        program = cast(
            ONNXProgram,
            torch.onnx.export(
                _Named(built).eval(),
                tuple(fed.values()),
                input_names=list(fed),
                output_names=list(outputs),
                dynamo=True,
                verbose=False,
            ),
        )
        program.save(file)
    # Rules of onnxscript's rewriter keep the last graph that they looked at: it is to hold neither
    # the model's weights nor those that were transposed for the file.
    for weight in built.model.parameters():
        weight.data = weight.data.new_empty(0)
    for written in program.model.graph.initializers.values():
        written.const_value = None
    return {
        "exporter": f"torch.onnx.export of PyTorch {torch.__version__} with dynamo=True, "
        f"onnxscript {metadata.version('onnxscript')}",
        "opset": str(program.model.opset_imports[""]),
    }


def _session(file: Path, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    with _told("session"):
        return onnxruntime.InferenceSession(file, options, providers=[PROVIDER])


def _settings(configuration: Configuration) -> dict[str, str]:
    """As the engine `onnxruntime` tells them."""
    narrow = configuration.element == torch.float16
    return {
        "arithmetic": "stored as fp16, computed in fp32" if narrow else "fp32",
        "attention": "composed of products and a softmax",
        "execution": "sequential",
        "execution providers": PROVIDER,
        "graph optimization": "all",
        "inputs and outputs": "bound once",
        "inter-op threads": "1",
        "intra-op threads": str(configuration.threads),
        "memory": "with PyTorch and its exporter, whose peak it is, and what they left to malloc",
        "memory arena": "on (default)",
        "memory pattern": "on (default)",
        "onnxruntime": onnxruntime.__version__,
    }


@contextmanager
def _told(place: str) -> Iterator[None]:
    """Turns what ONNX Runtime throws inside into the outcome of the cell."""
    try:
        yield
    except Exception as error:
        raise _failed(place, error) from error


def _failed(place: str, error: Exception) -> Failure:
    words = str(error)
    return Failure(kind_of(words, _MEMORY, _REFUSED), f"{place}: {words.strip()}")
