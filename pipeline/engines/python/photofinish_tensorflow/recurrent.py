"""LSTM and GRU as one call: a layer of Keras's, or an operator of TensorFlow's."""

from collections.abc import Callable
from typing import Any

import numpy as np

from photofinish_tensorflow.configuration import Recurrent
from photofinish_tensorflow.emit import Traced
from photofinish_tensorflow.form import Order
from photofinish_tensorflow.lowering import Lowering, Value
from photofinish_tensorflow.network import gates_form
from photofinish_worker.graph import GRU, LSTM

_PARAMETERS = 4
"""Parameters of a direction: the weights of input and state, then their biases."""

_HIDDEN = 6
"""Which result of `BlockLSTM` is what the layer gives."""


def apply(low: Lowering, op: LSTM | GRU, x: Value, parameters: list[Value]) -> Value:
    """The outputs of a layer at all positions, `[batch, position, directions·size]`."""
    directions = 2 if op.bidirectional else 1
    if len(parameters) != directions * _PARAMETERS or len(x.shape) != 3:
        held = f"{len(parameters)} parameters for {directions} directions"
        raise low.refuse(f"{list(x.shape)} is no sequence, or {held} are not {_PARAMETERS} each")
    sequence = low.plain(x)
    ways = []
    for direction in range(directions):
        own = parameters[direction * _PARAMETERS :][:_PARAMETERS]
        weights = [_weight(low, op, value) for value in own]
        match low.recurrent:
            case Recurrent.LAYER:
                ways.append(_layer(low, op, sequence, weights, direction == 1))
            case Recurrent.FUSED:
                ways.append(_fused(low, op, sequence, weights, direction == 1))
            case Recurrent.UNROLLED:
                raise low.refuse("it is not spelt out: give `recurrent: layer`")
    return low.made(ways[0] if len(ways) == 1 else low.emit.call("tf.concat", ways, 2))


def _weight(low: Lowering, op: LSTM | GRU, value: Value) -> Traced:
    """A parameter as the layer wants it, which is how it lies unless others read it, too."""
    wanted = gates_form(op, value.shape, low.recurrent)
    if value.form == wanted:
        return value.traced
    turned = low.in_order(value, Order.TRANSPOSED)
    if not wanted.gates:
        return turned
    last = len(value.shape) - 1
    gates = low.emit.call("tf.split", turned, len(wanted.gates), last)
    return low.emit.call("tf.concat", [low.emit.part(gates, gate) for gate in wanted.gates], last)


def _layer(
    low: Lowering, op: LSTM | GRU, sequence: Traced, weights: list[Traced], backward: bool
) -> Traced:
    """Keras's layer, given these weights; `keras.layers.Bidirectional` runs two of them."""
    kernel, state_kernel, input_bias, state_bias = weights
    emit = low.emit
    if isinstance(op, LSTM):
        bias = emit.call("tf.add", input_bias, state_bias)
    else:
        bias = emit.call("tf.stack", [input_bias, state_bias])
    call = _keras_layer(op, sequence, state_kernel.dims[0], backward)
    found = emit.held_call("layer", call, sequence, kernel, state_kernel, bias)
    return emit.call("tf.reverse", found, [1]) if backward else found


def _keras_layer(op: LSTM | GRU, sequence: Traced, size: int, backward: bool) -> Callable[..., Any]:
    # Others need not wait until Keras is imported.
    import keras

    kind = keras.layers.LSTM if isinstance(op, LSTM) else keras.layers.GRU
    layer = kind(size, return_sequences=True, go_backwards=backward, dtype=sequence.dtype.name)
    # Its weights are given in each call: it makes none of its own.
    with keras.StatelessScope(initialize_variables=False):
        layer.build(sequence.dims)
    others = [variable.value for variable in layer.non_trainable_variables]

    def call(x: Any, kernel: Any, state_kernel: Any, bias: Any) -> Any:
        outputs, _ = layer.stateless_call([kernel, state_kernel, bias], others, x)
        return outputs

    return call


def _fused(
    low: Lowering, op: LSTM | GRU, sequence: Traced, weights: list[Traced], backward: bool
) -> Traced:
    """TensorFlow's operator of a whole LSTM. It goes over the first axis, and wants the weights of
    input and state as one. (`BlockLSTMV2` has the gates as Keras has them, but the gradient that
    TensorFlow 2.21 registers for it is that of `BlockLSTM`, which has them in another order: it is
    wrong.)"""
    if not isinstance(op, LSTM):
        reason = (
            "TensorFlow's GRU of one operator resets before its product, and this one behind it"
        )
        raise low.refuse(f"{reason}: give `recurrent: layer`")
    if low.compiled:
        raise low.refuse("XLA has no such operator: give `recurrent: layer`, or `jit_compile: off`")
    if sequence.dtype.size > 4:
        raise low.refuse(f"the operator is not run in {sequence.dtype.name}")
    emit = low.emit
    kernel, state_kernel, input_bias, state_bias = weights
    batch, positions, _ = sequence.dims
    size = state_kernel.dims[0]
    kind = sequence.dtype.as_numpy_dtype
    start, peephole = (emit.constant(np.zeros(dims, kind)) for dims in ((batch, size), (size,)))
    in_time = low.transposed(sequence, (1, 0, 2))
    results = emit.call(
        "tf.raw_ops.BlockLSTM",
        seq_len_max=emit.constant(np.int64(positions)),
        x=emit.call("tf.reverse", in_time, [0]) if backward else in_time,
        cs_prev=start,
        h_prev=start,
        w=emit.call("tf.concat", [kernel, state_kernel], 0),
        wci=peephole,
        wcf=peephole,
        wco=peephole,
        b=emit.call("tf.add", input_bias, state_bias),
        forget_bias=0.0,
        cell_clip=-1.0,
    )
    hidden = emit.part(results, _HIDDEN)
    if backward:
        hidden = emit.call("tf.reverse", hidden, [0])
    return low.transposed(hidden, (1, 0, 2))
