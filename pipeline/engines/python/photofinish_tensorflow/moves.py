"""Operators that move elements and compute nothing."""

import numpy as np

from photofinish_tensorflow.form import Form, Order, Shape, moves_nothing, pick
from photofinish_tensorflow.lowering import Lowering, Value
from photofinish_worker.graph import Pad, Reflect


def reshape(low: Lowering, x: Value, shape: Shape) -> Value:
    """Another shape of the same elements, in the graph's order."""
    # Where only height and width become one axis, channels can stay last: what a vision
    # transformer does to its patches.
    if x.form.order is Order.CHANNELS_LAST and len(x.shape) == 4:
        batch, channels, height, width = x.shape
        if shape == (batch, channels, height * width):
            form = Form(shape, Order.CHANNELS_LAST)
            return Value(low.reshaped(x.traced, form.dims()), form)
    plain = x.traced if moves_nothing(x.shape, x.form.axes) else low.plain(x)
    return low.made(low.reshaped(plain, shape))


def transpose(low: Lowering, x: Value, perm: Shape) -> Value:
    """Another order of the axes."""
    if sorted(perm) != list(range(len(x.shape))):
        raise low.refuse(f"{list(perm)} is no order of {len(x.shape)} axes")
    if x.form.order in (Order.PLAIN, Order.CHANNELS_LAST):
        # From where the axes lie to where they shall lie: nothing, often.
        lies = x.form.axes
        return low.made(low.transposed(x.traced, tuple(lies.index(axis) for axis in perm)))
    return low.made(low.transposed(low.plain(x), perm))


def expand(low: Lowering, x: Value, shape: Shape) -> Value:
    """Repeats along axes of size 1."""
    wide = tuple(np.broadcast_shapes(x.shape, shape))
    return low.made(low.emit.call("tf.broadcast_to", low.plain(x), wide))


def concat(low: Lowering, parts: list[Value], axis: int) -> Value:
    """Joins values along an axis."""
    last = any(part.form.order is Order.CHANNELS_LAST for part in parts)
    order = Order.CHANNELS_LAST if last else Order.PLAIN
    lies = _lying(low, order, len(parts[0].shape), axis)
    ordered = [low.in_order(part, order) for part in parts]
    return low.made(low.emit.call("tf.concat", ordered, lies), order)


def pad(low: Lowering, op: Pad, x: Value) -> Value:
    """A border around a value as it lies."""
    last = x.form.order is Order.CHANNELS_LAST
    order = Order.CHANNELS_LAST if last else Order.PLAIN
    whole = low.in_order(x, order)
    axes = order.axes(len(x.shape))
    sides = [[op.begins[axis], op.ends[axis]] for axis in axes]
    if isinstance(op.border, Reflect):
        return low.made(low.emit.call("tf.pad", whole, sides, "REFLECT"), order)
    made = low.emit.call("tf.pad", whole, sides, constant_values=op.border.value)
    return low.made(made, order)


def cut(low: Lowering, x: Value, axis: int, start: int, end: int) -> Value:
    """Elements `start..end` along one axis."""
    last = x.form.order is Order.CHANNELS_LAST
    order = Order.CHANNELS_LAST if last else Order.PLAIN
    whole = low.in_order(x, order)
    lies = _lying(low, order, len(x.shape), axis)
    begins = [0] * len(x.shape)
    sizes = list(pick(x.shape, order.axes(len(x.shape))))
    begins[lies], sizes[lies] = start, max(0, end - start)
    return low.made(low.emit.call("tf.slice", whole, begins, sizes), order)


def squeeze(low: Lowering, x: Value, axis: int) -> Value:
    """Removes an axis of size 1."""
    if x.shape[axis : axis + 1] != (1,):
        raise low.refuse(f"axis {axis} of {list(x.shape)} has not size 1")
    return reshape(low, x, x.shape[:axis] + x.shape[axis + 1 :])


def _lying(low: Lowering, order: Order, rank: int, axis: int) -> int:
    """Where the graph's `axis` lies."""
    if axis >= rank:
        raise low.refuse(f"axis {axis} does not exist")
    return order.axes(rank).index(axis)
