"""Inference: one launch of the engine a step, inputs and outputs on the card."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from photofinish_numpy import numbers
from photofinish_tensorrt.cuda import Card
from photofinish_tensorrt.library import Library
from photofinish_worker.engine import ParityData, Quantity, Tensor
from photofinish_worker.graph import ElementType, Graph
from photofinish_worker.outcome import unsupported


@dataclass(frozen=True, slots=True)
class Output:
    """An output of the engine's, and where it is on the card."""

    name: str
    shape: tuple[int, ...]
    element: Any
    """Its element type, NumPy's."""
    address: int


class Inference:
    """An engine that is ready to run."""

    def __init__(
        self, library: Library, card: Card, engine: Any, context: Any, outputs: list[Output]
    ) -> None:
        self._library = library
        self._card = card
        self._engine = engine
        self._context = context
        self._outputs = outputs
        self._stream = card.stream
        self._handle = int(card.stream)
        self._synchronize = card.cuda.cudaStreamSynchronize
        self._success = card.cuda.cudaError_t.cudaSuccess

    def step(self) -> None:
        """One launch of the engine, until the card is done with it."""
        launched = self._context.execute_async_v3(self._handle)
        (status,) = self._synchronize(self._stream)
        if not launched or status != self._success:
            self._card.check("step", (status,))
            raise self._library.failure("step")

    def parity(self, steps: int) -> ParityData:
        """The graph's outputs."""
        del steps
        self.step()
        return ParityData([self._told(output) for output in self._outputs])

    def _told(self, output: Output) -> Tensor:
        held: NDArray[Any] = np.empty(output.shape, output.element)
        self._card.get(output.name, output.address, held)
        wide = held.dtype in (np.float64, np.int64)
        data = held.astype("<f8" if wide else "<f4", copy=False).tobytes()
        element = "f64" if wide else "f32"
        return Tensor(Quantity.OUTPUT, output.name, output.shape, element, data)

    def reset(self) -> None:
        """A launch changes nothing that lasts."""

    def device_memory(self) -> tuple[int, int]:
        """Bytes of weights, activations, inputs and outputs; all are there from the beginning."""
        weights = self._engine.get_engine_stat(self._library.module.EngineStat.TOTAL_WEIGHTS_SIZE)
        held = int(weights) + int(self._engine.device_memory_size_v2) + self._card.bytes
        return held, held


def place_inputs(
    library: Library, card: Card, engine: Any, context: Any, graph: Graph, weights: str | None
) -> None:
    """Puts the graph's inputs on the card, in the element types that the engine has. An input that
    its outputs do not depend on is not the engine's."""
    fed = {fed.name: fed for fed in graph.inputs}
    for name in _names(engine, library.module.TensorIOMode.INPUT):
        if name not in fed:
            raise unsupported(f"the engine has an input `{name}`, and the graph has none")
        wanted = fed[name]
        made = numbers.of(wanted, wanted.element is ElementType.FLOAT, weights)
        element = library.module.nptype(engine.get_tensor_dtype(name))
        array = np.ascontiguousarray(made, element)
        context.set_tensor_address(name, card.put(name, array))


def place_outputs(
    library: Library, card: Card, engine: Any, context: Any, graph: Graph
) -> list[Output]:
    """Makes room on the card for the engine's outputs; gives those that are the graph's, in its
    order."""
    outputs: dict[str, Output] = {}
    for name in _names(engine, library.module.TensorIOMode.OUTPUT):
        shape = tuple(context.get_tensor_shape(name))
        element = np.dtype(library.module.nptype(engine.get_tensor_dtype(name)))
        size = element.itemsize * int(np.prod(shape, dtype=np.int64))
        address = card.room(name, size)
        context.set_tensor_address(name, address)
        outputs[name] = Output(name, shape, element, address)
    lost = [name for name in graph.outputs if name not in outputs]
    if lost:
        raise unsupported(f"the engine has no output `{lost[0]}`")
    return [outputs[name] for name in graph.outputs]


def _names(engine: Any, mode: Any) -> list[str]:
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    return [name for name in names if engine.get_tensor_mode(name) == mode]
