"""Each operator of the graph as the calls that a user of TensorFlow would write."""

import math
from typing import assert_never

from photofinish_tensorflow import image, moves, pointwise, recurrent, sequence
from photofinish_tensorflow.lowering import Lowering, Value
from photofinish_worker import graph as ops
from photofinish_worker.graph import Op


def apply(low: Lowering, op: Op, operands: list[Value]) -> Value:
    """The output of `op`; the number of operands has been checked."""
    x, *rest = operands
    second = rest[0] if rest else x
    third = rest[1] if len(rest) > 1 else None
    match op:
        case ops.Conv():
            return image.conv(low, op, x, second, third)
        case ops.ConvTranspose():
            return image.conv_transpose(low, op, x, second, third)
        case ops.InstanceNormalization(epsilon):
            return image.instance_norm(low, epsilon, operands)
        case ops.Resize():
            return image.resize(low, op, x)
        case ops.BatchNormalization():
            return image.batch_norm(low, op, x, rest)
        case ops.MaxPool():
            return image.max_pool(low, op, x)
        case ops.AveragePool():
            return image.average_pool(low, op, x)
        case ops.GlobalAveragePool():
            return image.global_average_pool(low, x)
        case ops.LayerNormalization():
            return sequence.layer_norm(low, op, operands)
        case ops.Linear() | ops.Gemm():
            return sequence.dense(low, x, second, third, isinstance(op, ops.Linear))
        case ops.MatMul():
            return sequence.matmul(low, x, second)
        case ops.Attention():
            return sequence.attention(low, op, operands)
        case ops.Gather():
            return sequence.gather(low, x, second)
        case ops.LSTM() | ops.GRU():
            return recurrent.apply(low, op, x, rest)
        case ops.Softmax(axis):
            return pointwise.shares("tf.nn.softmax", low, x, axis)
        case ops.LogSoftmax(axis):
            return pointwise.shares("tf.nn.log_softmax", low, x, axis)
        case ops.Relu():
            return pointwise.same("tf.nn.relu", low, x)
        case ops.LeakyRelu(alpha):
            return pointwise.leaky_relu(low, x, alpha)
        case ops.PRelu():
            return pointwise.prelu(low, x, second)
        case ops.Elu(alpha):
            return pointwise.elu(low, x, alpha)
        case ops.Softplus():
            return pointwise.same("tf.math.softplus", low, x)
        case ops.Sigmoid():
            return pointwise.same("tf.sigmoid", low, x)
        case ops.Tanh():
            return pointwise.same("tf.tanh", low, x)
        case ops.Clip():
            return pointwise.clip(low, op, x)
        case ops.HardSigmoid():
            return pointwise.hard_sigmoid(low, x)
        case ops.HardSwish():
            return pointwise.hard_swish(low, x)
        case ops.Silu():
            return pointwise.silu(low, x)
        case ops.Sqrt():
            return pointwise.same("tf.sqrt", low, x)
        case ops.Exp():
            return pointwise.same("tf.exp", low, x)
        case ops.Log():
            return pointwise.same("tf.math.log", low, x)
        case ops.Abs():
            return pointwise.same("tf.abs", low, x)
        case ops.Sin():
            return pointwise.same("tf.sin", low, x)
        case ops.Cos():
            return pointwise.same("tf.cos", low, x)
        case ops.Gelu():
            return pointwise.gelu(low, op, x)
        case ops.Dropout():
            return pointwise.dropout(low, op, x)
        case ops.Add():
            return pointwise.binary("tf.add", low, x, second)
        case ops.Mul():
            return pointwise.binary("tf.multiply", low, x, second)
        case ops.Div():
            return pointwise.binary("tf.divide", low, x, second)
        case ops.Max():
            return pointwise.binary("tf.maximum", low, x, second)
        case ops.Min():
            return pointwise.binary("tf.minimum", low, x, second)
        case ops.Flatten(axis):
            return moves.reshape(low, x, (*x.shape[:axis], math.prod(x.shape[axis:])))
        case ops.Reshape(shape):
            return moves.reshape(low, x, shape)
        case ops.Squeeze(axis):
            return moves.squeeze(low, x, axis)
        case ops.Transpose(perm):
            return moves.transpose(low, x, perm)
        case ops.Expand(shape):
            return moves.expand(low, x, shape)
        case ops.Pad():
            return moves.pad(low, op, x)
        case ops.Concat(axis):
            return moves.concat(low, operands, axis)
        case ops.Slice(axis, start, end):
            return moves.cut(low, x, axis, start, end)
        case ops.QuantizeDequantize() | ops.DynamicQuantizeDequantize():
            raise low.refuse("nothing is rounded to integers here")
        case _:
            assert_never(op)
