"""The engine of TensorFlow: LSTM and GRU that are not spelt out. Needs TensorFlow."""

import itertools
import unittest
from typing import Any

import numpy as np
import tensorflow as tf

from photofinish_numpy import fill
from photofinish_tensorflow.configuration import Configuration, Recurrent, Variant
from photofinish_tensorflow.form import Form, Order
from photofinish_worker.engine import Quantity
from photofinish_worker.graph import Graph, Integers
from photofinish_worker.outcome import Failure, Kind
from tests.sketch import graph, node, value, weight
from tests.with_tensorflow import SGD, Array, built, number, softmax, told

BATCH, POSITIONS, FEATURES, SIZE = 2, 5, 3, 4

NAMES = ("w_ih", "w_hh", "b_ih", "b_hh")


def shapes(gates: int) -> list[list[int]]:
    return [[gates * SIZE, FEATURES], [gates * SIZE, SIZE], [gates * SIZE], [gates * SIZE]]


def names(directions: int) -> list[str]:
    return [f"{name}_{way}" for way in range(directions) for name in NAMES]


def network(op: str, directions: int, labelled: bool = False) -> Graph:
    gates = 4 if op == "LSTM" else 3
    held = [
        weight(name, shape)
        for name, shape in zip(names(directions), shapes(gates) * directions, strict=True)
    ]
    layer = {op: {"bidirectional": directions == 2}}
    nodes = [node(layer, ["x", *names(directions)], "y")]
    labels = [BATCH, POSITIONS] if labelled else None
    return graph([value("x", [BATCH, POSITIONS, FEATURES])], held, nodes, labels)


def sigmoid(x: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-x)), np.float64)


def by_hand(op: str, directions: int, moves: dict[str, Array] | None = None) -> Array:
    """The formulae of the graph's documentation, with parameters moved by `moves`."""
    x = number("x", [BATCH, POSITIONS, FEATURES])
    gates = 4 if op == "LSTM" else 3
    ways = []
    for way in range(directions):
        w_ih, w_hh, b_ih, b_hh = (
            number(f"{name}_{way}", shape) + (moves or {}).get(f"{name}_{way}", 0.0)
            for name, shape in zip(NAMES, shapes(gates), strict=True)
        )
        hidden, memory = np.zeros((BATCH, SIZE)), np.zeros((BATCH, SIZE))
        found = np.zeros((BATCH, POSITIONS, SIZE))
        for step in range(POSITIONS):
            at = POSITIONS - 1 - step if way else step
            read, kept = x[:, at] @ w_ih.T + b_ih, hidden @ w_hh.T + b_hh
            if op == "LSTM":
                enter, forget, fresh, leave = np.split(read + kept, 4, 1)
                memory = sigmoid(forget) * memory + sigmoid(enter) * np.tanh(fresh)
                hidden = sigmoid(leave) * np.tanh(memory)
            else:
                (r, z, n), (h_r, h_z, h_n) = np.split(read, 3, 1), np.split(kept, 3, 1)
                fresh = np.tanh(n + sigmoid(r + h_r) * h_n)
                update = sigmoid(z + h_z)
                hidden = (1.0 - update) * fresh + update * hidden
            found[:, at] = hidden
        ways.append(found)
    return np.concatenate(ways, 2)


def loss(op: str, directions: int, moves: dict[str, Array]) -> float:
    """That of training, from the formulae."""
    labels = fill.integers("labels", Integers(3), (BATCH, POSITIONS))
    shares = softmax(by_hand(op, directions, moves))
    return float(-np.log(np.take_along_axis(shares, labels[..., None], 2)).mean())


def asked(
    variant: Variant,
    recurrent: Recurrent,
    element: tf.DType = tf.float64,
    jit_compile: bool = False,
    **more: Any,
) -> Configuration:
    return Configuration(
        variant, element, 1, jit_compile, more.get("optimizer"), recurrent=recurrent
    )


class Recurrence(unittest.TestCase):
    def found(self, of: Graph, configuration: Configuration) -> Array:
        (one,) = built(of, configuration).parity(0).tensors
        kind = configuration.element.as_numpy_dtype
        return np.frombuffer(one.data, kind).reshape(tuple(one.shape)).astype(np.float64)

    def test_layers_of_keras_compute_what_the_graph_says(self) -> None:
        for op, directions in itertools.product(("LSTM", "GRU"), (1, 2)):
            expected = by_hand(op, directions)
            for variant, compiled in [
                (Variant.EAGER, False),
                (Variant.FUNCTION, False),
                (Variant.FUNCTION, True),
            ]:
                made = asked(variant, Recurrent.LAYER, jit_compile=compiled)
                found = self.found(network(op, directions), made)
                np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
            made = asked(Variant.KERAS, Recurrent.LAYER, tf.float32)
            found = self.found(network(op, directions), made)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)

    def test_the_operator_of_an_lstm_computes_what_the_graph_says(self) -> None:
        for directions, variant in itertools.product((1, 2), Variant):
            made = asked(variant, Recurrent.FUSED, tf.float32)
            found = self.found(network("LSTM", directions), made)
            np.testing.assert_allclose(found, by_hand("LSTM", directions), rtol=1e-5, atol=1e-6)

    def test_the_operator_runs_where_it_is_asked_for_alone(self) -> None:
        for recurrent, runs in [(Recurrent.FUSED, True), (Recurrent.LAYER, False)]:
            made = asked(Variant.EAGER, recurrent, tf.float32)
            session: Any = built(network("LSTM", 1), made)
            source = session._lowered.function.source
            self.assertEqual("tf.raw_ops.BlockLSTM(" in source, runs)

    def test_gradients_are_those_of_small_differences(self) -> None:
        for op, directions in itertools.product(("LSTM", "GRU"), (1, 2)):
            of = network(op, directions, labelled=True)
            exact = told(
                built(of, asked(Variant.FUNCTION, Recurrent.LAYER, optimizer=SGD)).parity(2)
            )
            for name in names(directions):
                found = exact[Quantity.GRADIENT, name]
                way = np.cos(np.arange(found.size)).reshape(found.shape)
                along = [loss(op, directions, {name: step * way}) for step in (1e-5, -1e-5)]
                slope = (along[0] - along[1]) / 2e-5
                self.assertAlmostEqual(float((found * way).sum()), slope, places=7)

    def test_the_operator_of_an_lstm_is_trained_as_the_layer_is(self) -> None:
        for directions, variant in itertools.product((1, 2), Variant):
            of = network("LSTM", directions, labelled=True)
            layer, fused = (
                built(of, asked(variant, recurrent, tf.float32, optimizer=SGD)).parity(3)
                for recurrent in (Recurrent.LAYER, Recurrent.FUSED)
            )
            np.testing.assert_allclose(layer.losses, fused.losses, rtol=1e-5)
            for one, other in zip(layer.tensors, fused.tensors, strict=True):
                self.assertEqual((one.quantity, one.name), (other.quantity, other.name))
                first, second = (np.frombuffer(it.data, np.float32) for it in (one, other))
                np.testing.assert_allclose(first, second, rtol=1e-3, atol=1e-6)

    def test_what_has_no_operator_is_refused_with_its_way_out(self) -> None:
        fused, layer = Recurrent.FUSED, Recurrent.LAYER
        for op, made, reason in [
            ("GRU", asked(Variant.EAGER, fused, tf.float32), "give `recurrent: layer`"),
            ("LSTM", asked(Variant.EAGER, fused), "not run in float64"),
            ("LSTM", asked(Variant.FUNCTION, fused, tf.float32, True), "`jit_compile: off`"),
            ("LSTM", asked(Variant.EAGER, Recurrent.UNROLLED), "is not spelt out"),
        ]:
            with self.assertRaisesRegex(Failure, reason) as raised:
                built(network(op, 1), made)
            self.assertEqual(raised.exception.kind, Kind.UNSUPPORTED)
        short = graph(
            [value("x", [BATCH, POSITIONS, FEATURES])],
            [weight(name, shape) for name, shape in zip(NAMES, shapes(4), strict=True)],
            [node({"LSTM": {"bidirectional": True}}, ["x", *NAMES], "y")],
        )
        with self.assertRaisesRegex(Failure, "LSTM y: .* 4 parameters for 2 directions"):
            built(short, asked(Variant.EAGER, layer))

    def test_parameters_that_another_reads_lie_as_the_graph_has_them(self) -> None:
        for op, gates in (("LSTM", 4), ("GRU", 3)):
            held = [weight(f"{n}_0", s) for n, s in zip(NAMES, shapes(gates), strict=True)]
            nodes = [
                node({op: {"bidirectional": False}}, ["x", *names(1)], "a"),
                node({"Slice": {"axis": 0, "start": 0, "end": SIZE}}, ["w_hh_0"], "s"),
                node("MatMul", ["a", "s"], "y"),
            ]
            of = graph([value("x", [BATCH, POSITIONS, FEATURES])], held, nodes)
            found = self.found(of, asked(Variant.EAGER, Recurrent.LAYER))
            square = number("w_hh_0", [gates * SIZE, SIZE])[:SIZE]
            np.testing.assert_allclose(found, by_hand(op, 1) @ square, rtol=1e-10)

    def test_gates_come_back_in_their_order(self) -> None:
        for order, gates, first in ((Order.GRU, 3, 2), (Order.BLOCK, 4, 0)):
            for shape in ((2 * gates, 5), (2 * gates,)):
                form = Form(shape, order)
                numbers = np.arange(np.prod(shape)).reshape(shape)
                memory = form.laid_out(numbers)
                self.assertEqual(memory.shape, form.dims())
                self.assertEqual(memory[..., 0].flat[0], numbers[first].flat[0])
                np.testing.assert_array_equal(form.restored(memory), numbers)
        moved = Form((4,), Order.BLOCK).laid_out(np.arange(4))
        self.assertEqual(moved.tolist(), [0, 2, 1, 3])


if __name__ == "__main__":
    unittest.main()
