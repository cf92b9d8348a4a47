"""From a graph to a module: names become variables, attributes become PyTorch's, and it is decided
what runs in place."""

import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import fx

from photofinish_pytorch import operators
from photofinish_pytorch.emit import Emitter, Flag, Value
from photofinish_pytorch.failure import at, classify
from photofinish_pytorch.overwrite import Overwrites
from photofinish_worker.graph import ElementType, Graph, Input, Node, Parameter, Role
from photofinish_worker.messages import Mode
from photofinish_worker.operands import arity
from photofinish_worker.outcome import Failure, unsupported

_FORWARD = "<eval_with_key>"
"""How `torch.fx` begins the file names of the code that it generates."""

_MADE = re.compile(r"(\w+) = ")
"""Finds the variable that a line of that code makes."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A network as a module, and where its parts are."""

    module: fx.GraphModule
    """Called with the inputs, in the graph's order, and whether dropout drops; gives the outputs as
    a tuple: those of the graph, or the logits when training."""
    held: dict[str, torch.Tensor]
    """The module's tensors, by the parameter's name."""
    places: dict[str, str]
    """Operator and node of each variable of the generated code."""
    in_place: int
    """Number of operators that overwrite their first operand."""

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turns what PyTorch throws inside the module into the outcome of the cell."""
        try:
            yield
        except Failure:
            raise
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise classify(self._place(), str(error)) from error

    def _place(self) -> str:
        """The operator and node in which the exception being handled was raised."""
        for frame in reversed(traceback.extract_tb(sys.exc_info()[2])):
            made = _MADE.search(frame.line or "")
            if frame.filename.startswith(_FORWARD) and made:
                return self.places.get(made[1], "forward pass")
        return "training iteration" if self._has_weights() else "forward pass"

    def _has_weights(self) -> bool:
        return any(tensor.requires_grad for tensor in self.held.values())


def lower(graph: Graph, mode: Mode, tensors: dict[str, torch.Tensor]) -> Lowered:
    """Lowers `graph`; `tensors` are its parameters, as they are on the device."""
    kept = {graph.loss.logits} if mode is Mode.TRAINING and graph.loss else set(graph.outputs)
    emit = Emitter()
    values: dict[str, Value] = {}

    def define(name: str, value: Value) -> None:
        if name in values:
            raise unsupported(f"the graph makes `{name}` twice")
        values[name] = value

    element = next((t.dtype for t in tensors.values() if t.is_floating_point()), torch.float32)
    for index, fed in enumerate(graph.inputs):
        define(fed.name, emit.argument(f"input_{index}", _meta_of_input(fed, element)))
    dropout = emit.flag("dropout")
    attributes: dict[str, torch.Tensor | torch.nn.Parameter] = {}
    held: dict[str, torch.Tensor] = {}
    for index, parameter in enumerate(graph.parameters):
        tensor = _as_attribute(parameter, tensors[parameter.name], mode)
        attribute = f"parameter_{index}"
        attributes[attribute], held[parameter.name] = tensor, tensor
        define(parameter.name, emit.attribute(attribute, _meta(tensor)))
    overwrites = Overwrites(graph, kept, mode)
    in_place = 0
    for index, node in enumerate(graph.nodes):
        emit.begin(node.place(), f"node_{index}")
        output, overwrote = _node(emit, node, values, overwrites, mode, dropout)
        in_place += overwrote
        define(node.outputs[0], output)
    outputs = [_find(values, name) for name in _outputs(graph, mode)]
    emit.finish(outputs)
    module = fx.GraphModule(attributes, emit.graph, graph.name)
    return Lowered(module, held, emit.places, in_place)


def _outputs(graph: Graph, mode: Mode) -> tuple[str, ...]:
    if mode is Mode.INFERENCE:
        return graph.outputs
    if graph.loss is None:
        raise unsupported(f"{graph.name} has no loss to train with")
    return (graph.loss.logits,)


def _node(
    emit: Emitter,
    node: Node,
    values: dict[str, Value],
    overwrites: Overwrites,
    mode: Mode,
    dropout: Flag,
) -> tuple[Value, bool]:
    """The node's output, and whether it overwrites its first operand."""
    if len(node.inputs) not in arity(node.op) or len(node.outputs) != 1:
        counts = f"has {len(node.inputs)} inputs and {len(node.outputs)} outputs"
        raise unsupported(f"{node.place()}: {counts}")
    missing = next((name for name in node.inputs if name not in values), None)
    if missing is not None:
        raise unsupported(f"{node.place()}: reads `{missing}`, which nothing makes")
    operands = [values[name] for name in node.inputs]
    with at(node.place()):
        other = operands[1] if len(operands) == 2 else None
        if overwrites.allow(node, [value.shape for value in operands]):
            return operators.overwrite(emit, node.op, operands[0], other), True
        trains = mode is Mode.TRAINING
        return operators.apply(emit, node.op, operands, trains, dropout), False


def _find(values: dict[str, Value], name: str) -> Value:
    if name not in values:
        raise unsupported(f"the graph has no value `{name}`")
    return values[name]


def _as_attribute(
    parameter: Parameter, tensor: torch.Tensor, mode: Mode
) -> torch.Tensor | torch.nn.Parameter:
    """What the optimiser moves is a parameter of the module, the rest a buffer."""
    if parameter.role is Role.WEIGHT and tensor.is_floating_point():
        return torch.nn.Parameter(tensor, requires_grad=mode is Mode.TRAINING)
    return tensor


def _meta(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(tensor.detach(), device="meta")


def _meta_of_input(fed: Input, element: torch.dtype) -> torch.Tensor:
    dtype = torch.int64 if fed.element is ElementType.INT64 else element
    with at(fed.name):
        return torch.empty(fed.shape, dtype=dtype, device="meta")
