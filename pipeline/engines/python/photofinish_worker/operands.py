"""What an operator's attributes say of its operands, whatever the engine."""

from photofinish_worker import graph as ops
from photofinish_worker.graph import Op, Pair, Sides


def arity(op: Op) -> range:
    """The numbers of operands that an operator takes."""
    match op:
        case ops.Conv() | ops.ConvTranspose() | ops.Linear() | ops.Gemm():
            return range(2, 4)
        case ops.BatchNormalization():
            return range(5, 6)
        case ops.LayerNormalization() | ops.InstanceNormalization() | ops.Attention():
            return range(3, 4)
        case ops.LSTM() | ops.GRU():
            return range(5, 10)
        case ops.Add() | ops.Mul() | ops.Div() | ops.Max() | ops.Min() | ops.PRelu():
            return range(2, 3)
        case ops.MatMul() | ops.Gather():
            return range(2, 3)
        case ops.Concat():
            return range(1, 1 << 30)
        case _:
            return range(1, 2)


def windows(
    size: tuple[int, ...], kernel: Pair, strides: Pair, pads: Sides, ceil: bool
) -> Pair | None:
    """The number of windows that ONNX counts along height and width (`models::infer::window`): with
    `ceil`, a last partial one where it starts inside the axis or the padding before it. `size` is
    `[batch, channels, height, width]`; `None` where it is not, or no window can be laid."""
    if len(size) != 4 or 0 in kernel or 0 in strides:
        return None
    counts = []
    for axis in (0, 1):
        length, before, after = size[2 + axis], pads[axis], pads[2 + axis]
        room = length + before + after - kernel[axis]
        count = room // strides[axis] + 1
        if ceil and room % strides[axis] and count * strides[axis] < length + before:
            count += 1
        counts.append(count)
    return counts[0], counts[1]
