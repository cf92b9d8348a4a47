"""A network and how its parts lie in memory: what is fed, what is held."""

from dataclasses import dataclass

from photofinish_tensorflow.configuration import Recurrent
from photofinish_tensorflow.form import Form, Order, Shape
from photofinish_tensorflow.image import filter_form
from photofinish_worker.graph import (
    GRU,
    LSTM,
    Conv,
    ConvTranspose,
    ElementType,
    Graph,
    Input,
    Linear,
    Parameter,
    Role,
)
from photofinish_worker.outcome import unsupported


@dataclass(frozen=True, slots=True)
class Network:
    """A graph with what follows from it."""

    graph: Graph
    forms: dict[str, Form]
    """How each parameter lies."""

    @classmethod
    def of(cls, graph: Graph, recurrent: Recurrent) -> "Network":
        """Decides how the parameters lie: as all who read one want it, or in the graph's order
        where they disagree. `recurrent` is what an LSTM or a GRU becomes."""
        names = [parameter.name for parameter in graph.parameters]
        if len(set(names)) != len(names):
            raise unsupported("two parameters of the graph have the same name")
        shapes = {parameter.name: parameter.shape for parameter in graph.parameters}
        wanted: dict[str, set[Form]] = {name: set() for name in names}
        for node in graph.nodes:
            for position, name in enumerate(node.inputs):
                if name not in shapes:
                    continue
                shape = shapes[name]
                form = Form(shape)
                if position == 1 and isinstance(node.op, Conv) and len(shape) == 4:
                    form = filter_form(node.op, shape)
                elif position == 1 and isinstance(node.op, ConvTranspose) and len(shape) == 4:
                    form = Form(shape, Order.FILTER)
                elif position == 1 and isinstance(node.op, Linear) and len(shape) == 2:
                    form = Form(shape, Order.TRANSPOSED)
                elif position > 0 and isinstance(node.op, LSTM | GRU):
                    form = gates_form(node.op, shape, recurrent)
                wanted[name].add(form)
        forms = {}
        for name, readers in wanted.items():
            forms[name] = readers.pop() if len(readers) == 1 else Form(shapes[name])
        return cls(graph, forms)

    def input_form(self, fed: Input) -> Form:
        """How an input lies: images with channels last, as a user of TensorFlow feeds them."""
        image = len(fed.shape) == 4 and fed.element is ElementType.FLOAT
        return Form(fed.shape, Order.CHANNELS_LAST if image else Order.PLAIN)

    def reached(self) -> list[Parameter]:
        """The weights on which the loss depends."""
        if self.graph.loss is None:
            raise unsupported(f"{self.graph.name} has no loss to train with")
        needed = {self.graph.loss.logits}
        for node in reversed(self.graph.nodes):
            if not needed.isdisjoint(node.outputs):
                needed.update(node.inputs)
        return [held for held in self.weights() if held.name in needed]

    def weights(self) -> list[Parameter]:
        """What the optimiser moves."""
        return [held for held in self.graph.parameters if held.role is Role.WEIGHT]

    def buffers(self) -> list[Parameter]:
        """What the forward pass moves."""
        return [held for held in self.graph.parameters if held.role is Role.BUFFER]


def gates_form(op: LSTM | GRU, shape: Shape, recurrent: Recurrent) -> Form:
    """How a parameter of a recurrent layer lies."""
    if isinstance(op, LSTM):
        order = Order.BLOCK if recurrent is Recurrent.FUSED else Order.TRANSPOSED
    else:
        order = Order.GRU
    form = Form(shape, order)
    # What no layer can read is refused where one is made of it.
    uneven = not shape or shape[0] % max(1, len(form.gates))
    return Form(shape, Order.TRANSPOSED) if uneven else form
