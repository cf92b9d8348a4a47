"""Operators that treat every element by itself."""

import math

from photofinish_tensorflow.emit import Traced
from photofinish_tensorflow.form import Order
from photofinish_tensorflow.lowering import Lowering, Pass, Value
from photofinish_worker.graph import Approximation, Clip, Dropout, Gelu

_SEED = 1
"""Seed of dropout."""

_MOST_AXES_OF_SOFTMAX = 5
"""Most axes that oneDNN's softmax takes, which TensorFlow calls on a CPU; with more the step
fails."""


def same(function: str, low: Lowering, x: Value) -> Value:
    """An operator of one operand, whatever its order."""
    return Value(low.emit.call(function, x.traced), x.form)


def clip(low: Lowering, op: Clip, x: Value) -> Value:
    """`min(max(x, min), max)`."""
    if (op.min, op.max) == (0.0, 6.0):
        return same("tf.nn.relu6", low, x)
    bounded = low.emit.call("tf.maximum", x.traced, op.min)
    return Value(low.emit.call("tf.minimum", bounded, op.max), x.form)


def leaky_relu(low: Lowering, x: Value, alpha: float) -> Value:
    """`max(x, 0) + alpha · min(x, 0)`."""
    return Value(_leaky(low, x.traced, alpha), x.form)


def prelu(low: Lowering, x: Value, slope: Value) -> Value:
    """The same with a slope for each channel, or one for all."""
    slopes = _aligned(low, slope, len(x.shape), x.form.order)
    return Value(_leaky(low, x.traced, slopes), x.form)


def _leaky(low: Lowering, x: Traced, slope: Traced | float) -> Traced:
    """What TensorFlow has for that takes a number of single precision, and none for each
    channel."""
    below = low.emit.call("tf.multiply", low.emit.call("tf.minimum", x, 0.0), slope)
    return low.emit.call("tf.add", low.emit.call("tf.nn.relu", x), below)


def elu(low: Lowering, x: Value, alpha: float) -> Value:
    """`max(x, 0) + alpha · (e^min(x, 0) - 1)`; TensorFlow's own has an `alpha` of 1."""
    if alpha == 1.0:
        return same("tf.nn.elu", low, x)
    below = low.emit.call("tf.nn.elu", low.emit.call("tf.minimum", x.traced, 0.0))
    below = low.emit.call("tf.multiply", below, alpha)
    return Value(low.emit.call("tf.add", low.emit.call("tf.nn.relu", x.traced), below), x.form)


def hard_sigmoid(low: Lowering, x: Value) -> Value:
    """`min(max(x/6 + ½, 0), 1)`, as `keras.activations.hard_sigmoid` composes it."""
    bounded = low.emit.call("tf.nn.relu6", low.emit.call("tf.add", x.traced, 3.0))
    return Value(low.emit.call("tf.divide", bounded, 6.0), x.form)


def hard_swish(low: Lowering, x: Value) -> Value:
    """`x · min(max(x/6 + ½, 0), 1)`."""
    gate = hard_sigmoid(low, x)
    return Value(low.emit.call("tf.multiply", x.traced, gate.traced), x.form)


def silu(low: Lowering, x: Value) -> Value:
    """`x · sigmoid(x)`."""
    gate = low.emit.call("tf.sigmoid", x.traced)
    return Value(low.emit.call("tf.multiply", x.traced, gate), x.form)


def gelu(low: Lowering, op: Gelu, x: Value) -> Value:
    """`x · Φ(x)` as `tf.nn.gelu` composes it, whose own constants are of single precision, whatever
    `x` is."""
    emit, traced = low.emit, x.traced
    if op.approximate is Approximation.TANH:
        cube = emit.call("tf.multiply", emit.call("tf.pow", traced, 3.0), 0.044715)
        bent = emit.call("tf.multiply", emit.call("tf.add", traced, cube), math.sqrt(2.0 / math.pi))
        inner = emit.call("tf.tanh", bent)
    else:
        inner = emit.call("tf.math.erf", emit.call("tf.divide", traced, math.sqrt(2.0)))
    share = emit.call("tf.add", inner, 1.0)
    halved = emit.call("tf.multiply", traced, 0.5)
    return Value(emit.call("tf.multiply", halved, share), x.form)


def dropout(low: Lowering, op: Dropout, x: Value) -> Value:
    """Zeroes elements while training, scaling the rest."""
    if low.purpose is not Pass.TRAINING or op.ratio <= 0.0:
        return x
    return Value(low.emit.call("tf.nn.dropout", x.traced, op.ratio, seed=_SEED), x.form)


def shares(function: str, low: Lowering, x: Value, axis: int) -> Value:
    """Softmax along an axis, or its logarithm; where there are more axes than the kernel takes, of
    rows."""
    plain, rank = low.plain(x), len(x.shape)
    if rank <= _MOST_AXES_OF_SOFTMAX:
        return low.made(low.emit.call(function, plain, axis))
    places = list(range(rank))
    places[axis], places[-1] = places[-1], places[axis]
    # A swap undoes itself.
    swap = tuple(places)
    moved = low.transposed(plain, swap)
    *leading, size = moved.dims
    rows = low.emit.call(function, low.reshaped(moved, (math.prod(leading), size)))
    return low.made(low.transposed(low.reshaped(rows, moved.dims), swap))


def binary(function: str, low: Lowering, a: Value, b: Value) -> Value:
    """A sum or a product, with broadcasting."""
    rank = max(len(a.shape), len(b.shape))

    def leads(value: Value) -> bool:
        return value.form.order is Order.CHANNELS_LAST and len(value.shape) == rank

    order = Order.CHANNELS_LAST if leads(a) or leads(b) else Order.PLAIN
    operands = (_aligned(low, a, rank, order), _aligned(low, b, rank, order))
    return low.made(low.emit.call(function, *operands), order)


def _aligned(low: Lowering, value: Value, rank: int, order: Order) -> Traced:
    """`value` in `order` with at least as many axes as that needs, new ones in front."""
    missing = rank - len(value.shape)
    if order is Order.PLAIN or missing == 0:
        return low.in_order(value, order)
    plain = low.plain(value)
    if all(size == 1 for size in value.shape):
        return plain
    widened = low.made(low.reshaped(plain, (1,) * missing + value.shape))
    return low.in_order(widened, order)
