"""Each operator of the graph as the calls that a user of PyTorch would write."""

import operator
from collections.abc import Callable
from typing import assert_never

import torch
from torch.nn import functional

from photofinish_pytorch.emit import Emitter, Flag, Value, broadcast
from photofinish_worker import graph as ops
from photofinish_worker.graph import Op, Pair, Sides
from photofinish_worker.operands import windows
from photofinish_worker.outcome import unsupported


def overwrite(emit: Emitter, op: Op, x: Value, other: Value | None) -> Value:
    """Computes the output where the first operand was."""
    match op:
        case ops.Relu():
            return emit.call(functional.relu, x, inplace=True)
        case ops.Clip(low, high):
            return _clipped(emit, x, low, high, in_place=True)
        case ops.Silu():
            return emit.call(functional.silu, x, inplace=True)
        case ops.Add() if other is not None:
            return emit.call(operator.iadd, x, other)
        case _:
            raise unsupported(f"{emit.place}: has no form in place")


_OPEN = torch.finfo(torch.float32).max
"""A bound that keeps nothing out. No narrower type has the number."""


def _clipped(emit: Emitter, x: Value, low: float, high: float, *, in_place: bool) -> Value:
    if high >= _OPEN:
        return emit.call(torch.clamp_min_ if in_place else torch.clamp_min, x, low)
    if low <= -_OPEN:
        return emit.call(torch.clamp_max_ if in_place else torch.clamp_max, x, high)
    if in_place:
        return emit.call(functional.hardtanh, x, low, high, inplace=True)
    return emit.call(functional.hardtanh, x, low, high)


def apply(emit: Emitter, op: Op, operands: list[Value], trains: bool, dropout: Flag) -> Value:
    """Computes the output as a new tensor, or a view."""
    x, *rest = operands
    second = rest[0] if rest else x
    third = rest[1] if len(rest) > 1 else None
    match op:
        case ops.Conv(strides, pads, dilations, group):
            x, padding = _bordered(emit, x, pads, 0.0)
            return emit.call(torch.conv2d, x, second, third, strides, padding, dilations, group)
        case ops.ConvTranspose(strides, pads, output_padding, dilations, group):
            if pads[:2] != pads[2:]:
                raise unsupported(f"{emit.place}: PyTorch cuts off as much on both sides")
            sizes = (strides, pads[:2], output_padding, group, dilations)
            return emit.call(torch.conv_transpose2d, x, second, third, *sizes)
        case ops.BatchNormalization(epsilon, momentum):
            scale, bias, mean, variance = rest
            return emit.call(
                functional.batch_norm,
                x,
                mean,
                variance,
                scale,
                bias,
                training=trains,
                momentum=momentum,
                eps=epsilon,
            )
        case ops.LayerNormalization(epsilon):
            width = (x.shape[-1],)
            return emit.call(functional.layer_norm, x, width, second, third, epsilon)
        case ops.InstanceNormalization(epsilon):
            # What `functional.instance_norm` calls, which refuses a channel of one element.
            settings = (None, None, True, 0.0, epsilon, True)
            return emit.call(torch.instance_norm, x, second, third, *settings)
        case ops.Relu():
            return emit.call(functional.relu, x)
        case ops.LeakyRelu(alpha):
            return emit.call(functional.leaky_relu, x, alpha)
        case ops.PRelu():
            return emit.call(torch.prelu, x, emit.method("reshape", second, (-1,)))
        case ops.Elu(alpha):
            return emit.call(functional.elu, x, alpha)
        case ops.Softplus():
            return emit.call(functional.softplus, x)
        case ops.Clip(low, high):
            return _clipped(emit, x, low, high, in_place=False)
        case ops.Sigmoid():
            return emit.call(torch.sigmoid, x)
        case ops.HardSigmoid():
            return emit.call(functional.hardsigmoid, x)
        case ops.HardSwish():
            return emit.call(functional.hardswish, x)
        case ops.Silu():
            return emit.call(functional.silu, x)
        case ops.Tanh():
            return emit.call(torch.tanh, x)
        case ops.Gelu(approximate):
            return emit.call(functional.gelu, x, approximate=approximate.value)
        case ops.Softmax(axis):
            return emit.call(torch.softmax, x, axis)
        case ops.LogSoftmax(axis):
            return emit.call(torch.log_softmax, x, axis)
        case ops.Add():
            return emit.call(operator.add, x, second)
        case ops.Mul():
            return emit.call(operator.mul, x, second)
        case ops.Div():
            return emit.call(operator.truediv, x, second)
        case ops.Max():
            return emit.call(torch.maximum, x, second)
        case ops.Min():
            return emit.call(torch.minimum, x, second)
        case ops.Sqrt():
            return emit.call(torch.sqrt, x)
        case ops.Exp():
            return emit.call(torch.exp, x)
        case ops.Log():
            return emit.call(torch.log, x)
        case ops.Abs():
            return emit.call(torch.abs, x)
        case ops.Sin():
            return emit.call(torch.sin, x)
        case ops.Cos():
            return emit.call(torch.cos, x)
        case ops.MatMul():
            return emit.call(torch.matmul, x, second)
        case ops.Linear():
            return emit.call(functional.linear, x, second, third)
        case ops.Gemm():
            return _gemm(emit, x, second, third)
        case ops.Attention(heads, causal):
            return _attention(emit, operands, heads, causal)
        case ops.LSTM(bidirectional) | ops.GRU(bidirectional):
            return _recurrent(emit, op, x, rest, trains, bidirectional)
        case ops.MaxPool(kernel, strides, pads, ceil_mode):
            counts = _windows(emit, x, kernel, strides, pads, ceil_mode)
            x, padding = _bordered_window(emit, x, kernel, pads, float("-inf"))
            pool: Callable[..., torch.Tensor] = functional.max_pool2d
            pooled = emit.call(pool, x, kernel, strides, padding, ceil_mode=ceil_mode)
            return _agreeing(emit, pooled, counts)
        case ops.AveragePool(kernel, strides, pads, count_include_pad):
            counts = _windows(emit, x, kernel, strides, pads, False)
            bordered, padding = _bordered_window(emit, x, kernel, pads, 0.0)
            if bordered is not x and not count_include_pad:
                reason = "uneven padding that does not count in the mean has no operator"
                raise unsupported(f"{emit.place}: {reason}")
            pooled = emit.call(
                functional.avg_pool2d, bordered, kernel, strides, padding, False, count_include_pad
            )
            return _agreeing(emit, pooled, counts)
        case ops.GlobalAveragePool():
            return emit.call(functional.adaptive_avg_pool2d, x, (1, 1))
        case ops.Resize(sizes, interpolation):
            return _resize(emit, x, sizes, interpolation)
        case ops.Flatten(axis):
            return emit.call(torch.flatten, x, axis)
        case ops.Reshape(shape):
            return emit.method("reshape", x, shape)
        case ops.Transpose(perm):
            return emit.method("permute", x, perm)
        case ops.Expand(shape):
            return emit.method("expand", x, broadcast([x.shape, shape]))
        case ops.Pad(begins, ends, border):
            return _pad(emit, x, begins, ends, border)
        case ops.Concat(axis):
            return emit.call(torch.cat, tuple(operands), axis)
        case ops.Slice(axis, start, end):
            return emit.call(torch.narrow, x, axis, start, end - start)
        case ops.Gather():
            return emit.call(functional.embedding, second, x)
        case ops.Squeeze(axis):
            return emit.call(torch.squeeze, x, axis)
        case ops.Dropout(ratio):
            return emit.call(functional.dropout, x, ratio, dropout if trains else False)
        case ops.QuantizeDequantize() | ops.DynamicQuantizeDequantize():
            raise unsupported(f"{emit.place}: nothing is rounded to integers here")
        case _:
            assert_never(op)


def _resize(emit: Emitter, x: Value, sizes: Pair, interpolation: ops.Interpolation) -> Value:
    if interpolation is ops.Interpolation.NEAREST:
        return emit.call(functional.interpolate, x, sizes, mode="nearest")
    corners = interpolation is ops.Interpolation.LINEAR_CORNERS
    return emit.call(functional.interpolate, x, sizes, mode="bilinear", align_corners=corners)


def _pad(
    emit: Emitter, x: Value, begins: tuple[int, ...], ends: tuple[int, ...], border: ops.Border
) -> Value:
    """A border as PyTorch writes it: before and behind for each axis from the last on, without the
    first ones that have none; where it reflects, without two of them at most."""
    axes = list(zip(begins, ends, strict=True))
    least = len(axes) - 2 if isinstance(border, ops.Reflect) else 0
    while len(axes) > least and axes[0] == (0, 0):
        axes.pop(0)
    sides = tuple(side for axis in reversed(axes) for side in axis)
    if isinstance(border, ops.Reflect):
        if len(axes) == len(begins):
            raise unsupported(f"{emit.place}: PyTorch reflects no first axis")
        return emit.call(functional.pad, x, sides, "reflect")
    return emit.call(functional.pad, x, sides, "constant", border.value)


def _gemm(emit: Emitter, x: Value, weight: Value, bias: Value | None) -> Value:
    """As Hugging Face's `Conv1D` calls it: one product of matrices that adds the bias."""
    rows = emit.method("reshape", x, (-1, x.shape[-1]))
    if bias is None:
        product = emit.call(torch.mm, rows, weight)
    else:
        product = emit.call(torch.addmm, bias, rows, weight)
    return emit.method("view", product, (*x.shape[:-1], weight.shape[1]))


def _recurrent(
    emit: Emitter, op: Op, x: Value, parameters: list[Value], trains: bool, bidirectional: bool
) -> Value:
    """A layer as `torch.nn.LSTM` and `torch.nn.GRU` call it: states of zeros, batch first.

    What PyTorch calls training matters to cuDNN alone: whether it keeps what the backward pass
    reads.
    """
    directions = 2 if bidirectional else 1
    if len(parameters) != 4 * directions:
        raise unsupported(f"{emit.place}: has {len(parameters)} parameters")
    size = parameters[1].shape[-1]
    zeros = emit.method("new_zeros", x, (directions, x.shape[0], size))
    weights = tuple(parameters)
    rest = (weights, True, 1, 0.0, trains, bidirectional, True)
    if isinstance(op, ops.LSTM):
        made = emit.call(torch.lstm, x, (zeros, zeros), *rest)
    else:
        made = emit.call(torch.gru, x, zeros, *rest)
    return emit.call(operator.getitem, made, 0)


def _attention(emit: Emitter, operands: list[Value], heads: int, causal: bool) -> Value:
    """As Hugging Face's models call it: heads split, attended, joined."""

    def split(x: Value) -> Value:
        if len(x.shape) != 3 or heads == 0 or x.shape[2] % heads:
            raise unsupported(f"{emit.place}: an operand is not [batch, position, heads·size]")
        batch, positions, width = x.shape
        parts = emit.method("view", x, (batch, positions, heads, width // heads))
        return emit.method("transpose", parts, 1, 2)

    query, key, value = operands
    attended = emit.call(
        functional.scaled_dot_product_attention,
        split(query),
        split(key),
        split(value),
        is_causal=causal,
    )
    joined = emit.method("transpose", attended, 1, 2)
    return emit.method("reshape", joined, (*query.shape[:2], value.shape[2]))


def _bordered(emit: Emitter, x: Value, pads: Sides, number: float) -> tuple[Value, Pair]:
    """The padding that an operator itself takes, with a border laid around `x` first where the
    sides differ."""
    top, left, bottom, right = pads
    if top == bottom and left == right:
        return x, (top, left)
    return emit.call(functional.pad, x, (left, right, top, bottom), "constant", number), (0, 0)


def _bordered_window(
    emit: Emitter, x: Value, kernel: Pair, pads: Sides, number: float
) -> tuple[Value, Pair]:
    """The same for pooling, which takes at most half of its window."""
    top, left, bottom, right = pads
    if top <= kernel[0] // 2 and left <= kernel[1] // 2:
        return _bordered(emit, x, pads, number)
    return emit.call(functional.pad, x, (left, right, top, bottom), "constant", number), (0, 0)


def _windows(emit: Emitter, x: Value, kernel: Pair, strides: Pair, pads: Sides, ceil: bool) -> Pair:
    """The number of windows that ONNX counts."""
    counts = windows(x.shape, kernel, strides, pads, ceil)
    if counts is None:
        raise unsupported(f"{emit.place}: pools something that is not an image")
    return counts


def _agreeing(emit: Emitter, pooled: Value, counts: Pair) -> Value:
    if pooled.shape[2:] != counts:
        raise unsupported(f"{emit.place}: PyTorch makes another number of windows than ONNX")
    return pooled
