"""From a graph to a function: names become variables, attributes become TensorFlow's."""

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from photofinish_tensorflow import operators
from photofinish_tensorflow.configuration import Configuration
from photofinish_tensorflow.emit import Emitter, Function
from photofinish_tensorflow.failure import at
from photofinish_tensorflow.form import Form
from photofinish_tensorflow.lowering import Lowering, Pass, Value
from photofinish_tensorflow.network import Network
from photofinish_worker.graph import BatchNormalization, ElementType, Node
from photofinish_worker.operands import arity
from photofinish_worker.outcome import unsupported


@dataclass(frozen=True, slots=True)
class Moved:
    """A running statistic, and by how much of its distance from the batch's a step moves it."""

    buffer: str
    momentum: float


@dataclass(frozen=True, slots=True)
class Lowered:
    """A network as a function."""

    function: Function
    """Called with the inputs, in the graph's order. In inference it gives the graph's outputs; in
    training the logits, and behind them the batch's statistics in the order of `moved`."""
    forms: list[Form]
    """How each output lies."""
    moved: list[Moved]


def lower(
    network: Network, held: dict[str, Any], configuration: Configuration, purpose: Pass
) -> Lowered:
    """Lowers `network`, which finds its parameters in `held`."""
    element = configuration.element
    low = Lowering(Emitter(), purpose, configuration.jit_compile, configuration.recurrent)
    values: dict[str, Value] = {}

    def define(name: str, value: Value) -> None:
        if name in values:
            raise unsupported(f"the graph makes `{name}` twice")
        values[name] = value

    graph = network.graph
    for index, fed in enumerate(graph.inputs):
        kind = tf.int64 if fed.element is ElementType.INT64 else element
        form = network.input_form(fed)
        with at(fed.name):
            traced = low.emit.argument(f"input_{index}", form.dims(), kind)
        define(fed.name, Value(traced, form))
    for index, parameter in enumerate(graph.parameters):
        form = network.forms[parameter.name]
        tensor = held[parameter.name]
        with at(parameter.name):
            name = f"parameter_{index}"
            traced = low.emit.attribute(name, tensor, form.dims(), tf.as_dtype(tensor.dtype))
        define(parameter.name, Value(traced, form))
    for index, node in enumerate(graph.nodes):
        low.emit.begin(node.place(), f"node_{index}")
        define(node.outputs[0] if node.outputs else "", _node(low, node, values))
    outputs = [_find(values, name) for name in _outputs(network, purpose)]
    # In the graph's order as far as a caller sees them: logits are told from labels by their place.
    low.emit.begin("output", "output")
    traced_outputs = [output.traced for output in outputs]
    forms = [output.form for output in outputs]
    if purpose.trains:
        traced_outputs = [low.plain(outputs[0])]
        forms = [Form(outputs[0].shape)]
    statistics = [statistic.batch for statistic in low.statistics]
    function = low.emit.finish(traced_outputs + statistics)
    moved = [Moved(statistic.buffer, statistic.momentum) for statistic in low.statistics]
    return Lowered(function, forms, moved)


def _outputs(network: Network, purpose: Pass) -> tuple[str, ...]:
    graph = network.graph
    if not purpose.trains:
        return graph.outputs
    if graph.loss is None:
        raise unsupported(f"{graph.name} has no loss to train with")
    return (graph.loss.logits,)


def _node(low: Lowering, node: Node, values: dict[str, Value]) -> Value:
    """The node's output."""
    if len(node.inputs) not in arity(node.op) or len(node.outputs) != 1:
        counts = f"has {len(node.inputs)} inputs and {len(node.outputs)} outputs"
        raise unsupported(f"{node.place()}: {counts}")
    missing = next((name for name in node.inputs if name not in values), None)
    if missing is not None:
        raise unsupported(f"{node.place()}: reads `{missing}`, which nothing makes")
    low.buffers = node.inputs[3:5] if isinstance(node.op, BatchNormalization) else ()
    with at(node.place()):
        return operators.apply(low, node.op, [values[name] for name in node.inputs])


def _find(values: dict[str, Value], name: str) -> Value:
    if name not in values:
        raise unsupported(f"the graph has no value `{name}`")
    return values[name]
