"""Products of matrices, attention, layer normalisation and tables."""

import math

import numpy as np

from photofinish_tensorflow.emit import Traced
from photofinish_tensorflow.form import Order
from photofinish_tensorflow.lowering import Lowering, Value
from photofinish_worker.graph import Attention, LayerNormalization

_UNSEEN = -1e9
"""What is added to the score of a position that must not be seen, as Keras has it."""


def dense(low: Lowering, x: Value, weight: Value, bias: Value | None, linear: bool) -> Value:
    """A dense layer: one product of matrices, whatever the leading axes. `linear`: the graph's
    weight is `[out, in]`."""
    if len(weight.shape) != 2:
        raise low.refuse(f"its weight {list(weight.shape)} is no matrix")
    # Whether the weight lies as `[out, in]`.
    turned = linear and weight.form.order is not Order.TRANSPOSED
    matrix = weight.traced if linear and not turned else low.plain(weight)
    product = _product(low, _rows(low, x), matrix, turned)
    if bias is not None:
        product = low.emit.call("tf.nn.bias_add", product, low.plain(bias))
    return low.made(low.reshaped(product, (*x.shape[:-1], product.dims[-1])))


def _rows(low: Lowering, value: Value) -> Traced:
    """`value` as a matrix: all axes but the last become one."""
    if not value.shape:
        raise low.refuse("a scalar has no last axis")
    return low.reshaped(low.plain(value), (math.prod(value.shape[:-1]), value.shape[-1]))


def _product(low: Lowering, a: Traced, b: Traced, turned: bool) -> Traced:
    if turned:
        return low.emit.call("tf.matmul", a, b, transpose_b=True)
    return low.emit.call("tf.matmul", a, b)


def matmul(low: Lowering, a: Value, b: Value) -> Value:
    """A product of matrices, with broadcasting over leading axes."""
    if len(b.shape) == 2 and len(a.shape) >= 2:
        product = _product(low, _rows(low, a), low.plain(b), False)
        return low.made(low.reshaped(product, (*a.shape[:-1], b.shape[-1])))
    return low.made(_product(low, low.plain(a), low.plain(b), False))


def attention(low: Lowering, op: Attention, operands: list[Value]) -> Value:
    """Attention as Keras composes it: queries scaled, scores masked, shares of the values."""
    emit = low.emit
    split = []
    for value in operands:
        shape = value.shape
        if len(shape) != 3 or op.heads == 0 or shape[2] % op.heads:
            raise low.refuse(f"{list(shape)} is not [batch, position, heads·size]")
        heads = (*shape[:2], op.heads, shape[2] // op.heads)
        split.append(low.transposed(low.reshaped(low.plain(value), heads), (0, 2, 1, 3)))
    query, key, value_heads = split
    scaled = emit.call("tf.multiply", query, 1.0 / math.sqrt(max(1, query.dims[3])))
    scores = _product(low, scaled, key, True)
    if op.causal:
        seen = np.tri(scores.dims[2], scores.dims[3], dtype=np.bool_)
        mask = np.where(seen, 0.0, _UNSEEN).astype(scores.dtype.as_numpy_dtype)
        scores = emit.call("tf.add", scores, emit.constant(mask))
    attended = _product(low, emit.call("tf.nn.softmax", scores), value_heads, False)
    joined = low.transposed(attended, (0, 2, 1, 3))
    return low.made(low.reshaped(joined, (*operands[0].shape[:2], operands[2].shape[2])))


def layer_norm(low: Lowering, op: LayerNormalization, operands: list[Value]) -> Value:
    """Layer normalisation of primitive operators, as Keras has it, but with the mean taken off
    first, as the Rust worker has it: what Keras writes, `x·s + (β - mean·s)`, TensorFlow 2.21 fuses
    into an operator of oneDNN's that knows no other ε than 0.001."""
    emit = low.emit
    x, scale, bias = (low.plain(value) for value in operands)
    moments = emit.call("tf.nn.moments", x, [len(x.dims) - 1], keepdims=True)
    mean, variance = emit.part(moments, 0), emit.part(moments, 1)
    root = emit.call("tf.math.rsqrt", emit.call("tf.add", variance, op.epsilon))
    factor = emit.call("tf.multiply", root, scale)
    centred = emit.call("tf.subtract", x, mean)
    return low.made(emit.call("tf.add", emit.call("tf.multiply", centred, factor), bias))


def gather(low: Lowering, table: Value, indices: Value) -> Value:
    """Rows of a table."""
    return low.made(low.emit.call("tf.gather", low.plain(table), low.plain(indices)))
