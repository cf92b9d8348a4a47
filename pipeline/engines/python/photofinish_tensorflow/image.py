"""Convolution, pooling and batch normalisation, all with channels last."""

import math

import numpy as np
import tensorflow as tf

from photofinish_tensorflow.emit import Traced
from photofinish_tensorflow.form import Form, Order, Shape
from photofinish_tensorflow.lowering import Lowering, Pass, Statistic, Value
from photofinish_tensorflow.windows import Scheme, Windows
from photofinish_worker import operands
from photofinish_worker.graph import (
    AveragePool,
    BatchNormalization,
    Conv,
    ConvTranspose,
    Interpolation,
    MaxPool,
    Pair,
    Resize,
    Sides,
)


def filter_form(op: Conv, weight: Shape) -> Form:
    """How a convolution wants its weight to lie. A convolution has an operator of its own in
    TensorFlow where every input channel is by itself and the step is the same along both axes."""
    depthwise = (
        op.group > 1
        and weight[1:2] == (1,)
        and op.strides[0] == op.strides[1]
        and op.dilations == (1, 1)
    )
    return Form(weight, Order.DEPTHWISE, op.group) if depthwise else Form(weight, Order.FILTER)


def conv(low: Lowering, op: Conv, x: Value, weight: Value, bias: Value | None) -> Value:
    """A convolution, and its bias."""
    if len(x.shape) != 4 or len(weight.shape) != 4:
        raise low.refuse(f"{list(x.shape)} by {list(weight.shape)} is no convolution of images")
    spans = tuple(
        (size - 1) * step + 1 for size, step in zip(weight.shape[2:], op.dilations, strict=True)
    )
    windows = _windows(low, x, (spans[0], spans[1]), op.strides, op.pads, False)
    padding = windows.padding()
    steps = [1, *op.strides, 1]
    image, form = low.channels_last(x), filter_form(op, weight.shape)
    taps = low.ordered(weight, form)
    if form.order is Order.DEPTHWISE:
        image, scheme = _padded(low, image, padding, 0.0)
        made = low.emit.call("tf.nn.depthwise_conv2d", image, taps, steps, scheme.value)
    else:
        made = _convolve(low, op, image, taps, padding)
    if bias is not None:
        made = low.emit.call("tf.nn.bias_add", made, low.plain(bias))
    return low.made(made, Order.CHANNELS_LAST)


def conv_transpose(
    low: Lowering, op: ConvTranspose, x: Value, weight: Value, bias: Value | None
) -> Value:
    """What a convolution's gradient does to what it is given. Padding that TensorFlow has no scheme
    for is cut off behind it."""
    if op.dilations != (1, 1):
        raise low.refuse("TensorFlow spreads no dilated windows on a CPU")
    if len(x.shape) != 4 or len(weight.shape) != 4:
        raise low.refuse(f"{list(x.shape)} by {list(weight.shape)} is no convolution of images")
    spans = (weight.shape[2], weight.shape[3])
    made = [
        op.strides[axis] * (x.shape[2 + axis] - 1)
        + spans[axis]
        + op.output_padding[axis]
        - op.pads[axis]
        - op.pads[2 + axis]
        for axis in (0, 1)
    ]
    counts = (x.shape[2], x.shape[3])
    windows = Windows.over((made[0], made[1]), spans, op.strides, op.pads, counts)
    scheme, cut = windows.padding(), False
    sizes = list(made)
    if not isinstance(scheme, Scheme):
        scheme, cut = Scheme.VALID, True
        sizes = [made[axis] + op.pads[axis] + op.pads[2 + axis] for axis in (0, 1)]
    emit, image = low.emit, low.channels_last(x)
    taps = low.ordered(weight, Form(weight.shape, Order.FILTER))
    dims = [x.shape[0], *sizes, weight.shape[1]]
    images, filters = [image], [taps]
    if op.group > 1:
        split = (
            emit.call("tf.split", image, op.group, 3),
            emit.call("tf.split", taps, op.group, 3),
        )
        images = [emit.part(split[0], index) for index in range(op.group)]
        filters = [emit.part(split[1], index) for index in range(op.group)]
    parts = [
        emit.call("tf.nn.conv2d_transpose", *pair, dims, [1, *op.strides, 1], scheme.value)
        for pair in zip(images, filters, strict=True)
    ]
    traced = parts[0] if op.group == 1 else emit.call("tf.concat", parts, 3)
    if cut:
        begins = [0, op.pads[0], op.pads[1], 0]
        channels = weight.shape[1] * op.group
        traced = emit.call("tf.slice", traced, begins, [x.shape[0], *made, channels])
    if bias is not None:
        traced = emit.call("tf.nn.bias_add", traced, low.plain(bias))
    return low.made(traced, Order.CHANNELS_LAST)


def resize(low: Lowering, op: Resize, x: Value) -> Value:
    """Another height and width."""
    if len(x.shape) != 4:
        raise low.refuse(f"{list(x.shape)} is no image")
    image = low.channels_last(x)
    if op.interpolation is Interpolation.NEAREST:
        # What `tf.image.resize` takes is the pixel nearest to the middle.
        function = "tf.raw_ops.ResizeNearestNeighbor"
        made = low.emit.call(function, images=image, size=list(op.sizes))
        return low.made(made, Order.CHANNELS_LAST)
    if image.dtype != tf.float32:
        raise low.refuse("TensorFlow interpolates in single precision alone")
    if low.compiled:
        raise low.refuse("XLA interpolates between other pixels than TensorFlow")
    corners = op.interpolation is Interpolation.LINEAR_CORNERS
    made = low.emit.call(
        "tf.raw_ops.ResizeBilinear",
        images=image,
        size=list(op.sizes),
        align_corners=corners,
        half_pixel_centers=not corners,
    )
    return low.made(made, Order.CHANNELS_LAST)


def instance_norm(low: Lowering, epsilon: float, operands: list[Value]) -> Value:
    """Normalisation of each channel of each sample by itself."""
    x, scale, bias = operands
    if len(x.shape) < 3:
        raise low.refuse(f"{list(x.shape)} has nothing behind the channels")
    emit, image = low.emit, low.channels_last(x)
    axes = list(range(1, len(x.shape) - 1))
    moments = emit.call("tf.nn.moments", image, axes, keepdims=True)
    mean, variance = emit.part(moments, 0), emit.part(moments, 1)
    rest = (low.plain(bias), low.plain(scale), epsilon)
    made = emit.call("tf.nn.batch_normalization", image, mean, variance, *rest)
    return low.made(made, Order.CHANNELS_LAST)


def _convolve(
    low: Lowering, op: Conv, image: Traced, taps: Traced, padding: Scheme | Sides
) -> Traced:
    """A convolution in groups. TensorFlow's kernels for the CPU know no groups in the backward
    pass, so that the parts are separate operators."""
    emit = low.emit
    word: str | list[list[int]]
    if isinstance(padding, Scheme):
        word = padding.value
    elif low.purpose is Pass.INFERENCE:
        top, left, bottom, right = padding
        word = [[0, 0], [top, bottom], [left, right], [0, 0]]
    else:
        # The gradient is that of another operator where the padding is one of its own.
        image, scheme = _padded(low, image, padding, 0.0)
        word = scheme.value
    rest = ([1, *op.strides, 1], word, "NHWC", [1, *op.dilations, 1])
    if op.group == 1:
        return emit.call("tf.nn.conv2d", image, taps, *rest)
    images = emit.call("tf.split", image, op.group, 3)
    filters = emit.call("tf.split", taps, op.group, 3)
    parts = []
    for index in range(op.group):
        part = (emit.part(images, index), emit.part(filters, index))
        parts.append(emit.call("tf.nn.conv2d", *part, *rest))
    return emit.call("tf.concat", parts, 3)


def _padded(
    low: Lowering, x: Traced, padding: Scheme | Sides, number: float
) -> tuple[Traced, Scheme]:
    """Lays a border of `number` around `x` where the padding has four sides, and says what is left
    to the operator."""
    if isinstance(padding, Scheme):
        return x, padding
    top, left, bottom, right = padding
    sides = [[0, 0], [top, bottom], [left, right], [0, 0]]
    bordered = low.emit.call("tf.pad", x, sides, constant_values=number)
    return bordered, Scheme.VALID


def _windows(
    low: Lowering, x: Value, spans: Pair, strides: Pair, pads: Sides, ceil: bool
) -> Windows:
    counts = operands.windows(x.shape, spans, strides, pads, ceil)
    if counts is None or min(counts) < 1:
        raise low.refuse(f"windows of {list(spans)} do not slide over {list(x.shape)}")
    return Windows.over((x.shape[2], x.shape[3]), spans, strides, pads, counts)


def max_pool(low: Lowering, op: MaxPool, x: Value) -> Value:
    """The largest value of each window."""
    padding = _windows(low, x, op.kernel, op.strides, op.pads, op.ceil_mode).padding()
    # No number is smaller: the border never wins.
    image, scheme = _padded(low, low.channels_last(x), padding, -math.inf)
    made = low.emit.call("tf.nn.max_pool2d", image, op.kernel, op.strides, scheme.value)
    return low.made(made, Order.CHANNELS_LAST)


def average_pool(low: Lowering, op: AveragePool, x: Value) -> Value:
    """The mean of each window."""
    windows = _windows(low, x, op.kernel, op.strides, op.pads, False)
    padding = windows.padding()
    if padding is Scheme.SAME and op.count_include_pad:
        # With `SAME`, TensorFlow leaves padding out of the mean.
        padding = windows.explicit()
    image, scheme = _padded(low, low.channels_last(x), padding, 0.0)
    made = low.emit.call("tf.nn.avg_pool2d", image, op.kernel, op.strides, scheme.value)
    if not isinstance(padding, Scheme) and not op.count_include_pad:
        scales = math.prod(op.kernel) / np.maximum(windows.seen(), 1.0)
        scales = scales.astype(made.dtype.as_numpy_dtype)
        made = low.emit.call("tf.multiply", made, low.emit.constant(scales[None, :, :, None]))
    return low.made(made, Order.CHANNELS_LAST)


def global_average_pool(low: Lowering, x: Value) -> Value:
    """The mean over height and width."""
    image = low.channels_last(x)
    made = low.emit.call("tf.reduce_mean", image, axis=[1, 2], keepdims=True)
    return low.made(made, Order.CHANNELS_LAST)


def batch_norm(low: Lowering, op: BatchNormalization, x: Value, parameters: list[Value]) -> Value:
    """Batch normalisation; notes the batch's statistics when training."""
    emit, trains = low.emit, low.purpose.trains
    image = low.channels_last(x)
    scale, bias, mean, variance = (low.plain(value) for value in parameters)
    order = Order.CHANNELS_LAST if len(x.shape) >= 3 else Order.PLAIN
    # The fused operator knows images, and nothing wider than binary32. XLA takes it for the mean of
    # squares less the square of the mean when it trains, which loses digits that the composed form
    # keeps (Keras 3 writes that one).
    if len(x.shape) == 4 and image.dtype == tf.float32 and not (trains and low.compiled):
        if trains:
            # When training, the operator wants to be given no statistics.
            mean = variance = emit.constant(np.empty(0, np.float32))
        fused = emit.call(
            "tf.raw_ops.FusedBatchNormV3",
            x=image,
            scale=scale,
            offset=bias,
            mean=mean,
            variance=variance,
            epsilon=op.epsilon,
            is_training=trains,
        )
        if trains:
            _note(low, op, emit.part(fused, 1), emit.part(fused, 2))
        return low.made(emit.part(fused, 0), order)
    if trains:
        moments = emit.call("tf.nn.moments", image, list(range(len(x.shape) - 1)))
        mean, variance = emit.part(moments, 0), emit.part(moments, 1)
        count = math.prod(x.shape) // max(1, x.shape[1])
        correction = count / max(1, count - 1)
        _note(low, op, mean, emit.call("tf.multiply", variance, correction))
    made = emit.call("tf.nn.batch_normalization", image, mean, variance, bias, scale, op.epsilon)
    return low.made(made, order)


def _note(low: Lowering, op: BatchNormalization, mean: Traced, variance: Traced) -> None:
    for buffer, batch in zip(low.buffers, (mean, variance), strict=True):
        low.statistics.append(Statistic(buffer, batch, op.momentum))
