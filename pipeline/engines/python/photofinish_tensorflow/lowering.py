"""What the operators' lowerings share: values with their order in memory, and how to change it.

Images and what convolutions make of them lie with channels last, the only order for which
TensorFlow has kernels on a CPU. A value goes back into the graph's own order where an operator
tells channels from positions by their place: that is a transposition, or nothing where one of the
two has size 1.
"""

from dataclasses import dataclass, field
from enum import Enum, auto

from photofinish_tensorflow.configuration import Recurrent
from photofinish_tensorflow.emit import Emitter, Traced
from photofinish_tensorflow.form import Form, Order, Shape, inverse, is_sorted, moves_nothing, pick
from photofinish_worker.outcome import Failure, unsupported


class Pass(Enum):
    """What a step is for."""

    INFERENCE = auto()
    """Running statistics, no dropout."""
    TRAINING = auto()
    """A training iteration."""
    DETERMINISTIC = auto()
    """A training iteration for parity: dropout off."""

    @property
    def trains(self) -> bool:
        """Whether batch normalisation uses the batch's statistics."""
        return self is not Pass.INFERENCE


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the graph in the function being written."""

    traced: Traced
    form: Form

    @property
    def shape(self) -> Shape:
        """The graph's shape."""
        return self.form.shape


@dataclass(frozen=True, slots=True)
class Statistic:
    """A statistic of a batch, towards which a running one moves."""

    buffer: str
    """Name of the running statistic."""
    batch: Traced
    """That of the batch; the variance unbiased."""
    momentum: float
    """Weight of the new one."""


@dataclass
class Lowering:
    """A network being lowered."""

    emit: Emitter
    purpose: Pass
    compiled: bool
    """Whether XLA compiles what is written."""
    recurrent: Recurrent
    """What an LSTM or a GRU becomes."""
    statistics: list[Statistic] = field(default_factory=list)
    buffers: tuple[str, ...] = ()
    """Names of the running statistics of the node at hand."""

    def refuse(self, reason: str) -> Failure:
        """The outcome of a cell in which the node at hand cannot be lowered."""
        return unsupported(f"{self.emit.place}: {reason}")

    def made(self, traced: Traced, order: Order = Order.PLAIN) -> Value:
        """A node's output, which lies in `order`."""
        dims = traced.dims
        shape = pick(dims, inverse(order.axes(len(dims))))
        return Value(traced, Form(shape, order))

    def plain(self, value: Value) -> Traced:
        """`value` in the graph's order."""
        axes, traced = value.form.axes, value.traced
        if is_sorted(axes):
            return traced
        if moves_nothing(value.shape, axes):
            return self.reshaped(traced, value.shape)
        if value.form.order is Order.DEPTHWISE:
            traced = self.reshaped(traced, pick(value.shape, axes))
        return self.transposed(traced, inverse(axes))

    def ordered(self, value: Value, form: Form) -> Traced:
        """`value` as `form` says."""
        if value.form == form:
            return value.traced
        plain = self.plain(value)
        if moves_nothing(form.shape, form.axes):
            return self.reshaped(plain, form.dims())
        return self.reshaped(self.transposed(plain, form.axes), form.dims())

    def in_order(self, value: Value, order: Order) -> Traced:
        """`value` in an order of a value's."""
        return self.ordered(value, Form(value.shape, order))

    def channels_last(self, value: Value) -> Traced:
        """`value` with channels last; one that has fewer than three axes has them there."""
        few = len(value.shape) < 3
        return self.plain(value) if few else self.in_order(value, Order.CHANNELS_LAST)

    def reshaped(self, traced: Traced, dims: Shape) -> Traced:
        """The same elements in another shape."""
        return traced if traced.dims == dims else self.emit.call("tf.reshape", traced, dims)

    def transposed(self, traced: Traced, axes: Shape) -> Traced:
        """Another order of the axes: axis `i` of the output is axis `axes[i]` of `traced`."""
        return traced if is_sorted(axes) else self.emit.call("tf.transpose", traced, axes)
