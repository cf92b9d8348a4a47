"""The engine of TensorFlow: numbers, networks, iterations. Needs TensorFlow."""

import hashlib
import itertools
import json
import math
import struct
import tempfile
import unittest
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from photofinish_numpy import fill
from photofinish_tensorflow.configuration import Configuration, Variant, understand
from photofinish_tensorflow.emit import Emitter
from photofinish_tensorflow.engine import build
from photofinish_tensorflow.failure import classify
from photofinish_tensorflow.form import Form, Order, inverse, moves_nothing
from photofinish_tensorflow.ground import Ground
from photofinish_tensorflow.inference import Inference
from photofinish_tensorflow.maker import Maker
from photofinish_tensorflow.network import Network
from photofinish_tensorflow.training import Training
from photofinish_tensorflow.windows import Scheme, Windows
from photofinish_worker.decode import decode
from photofinish_worker.engine import ParityData, Quantity, Session
from photofinish_worker.graph import (
    CausalMask,
    ElementType,
    Fill,
    Graph,
    Integers,
    Parameter,
    Role,
    Sinusoids,
    Stored,
    Uniform,
)
from photofinish_worker.messages import Adam, Cell, Optimizer, Sgd
from photofinish_worker.outcome import Failure, Kind
from photofinish_worker.streams import makes_integers
from tests.sketch import CELL, NETWORK, graph, node, value, weight

Array = NDArray[np.float64]

SGD = Sgd(0.1, 0.9, 0.01)
ADAM = Adam(0.1, 0.9, 0.999, 1e-3, 0.01)


def asked(
    variant: Variant,
    optimizer: Optimizer | None = None,
    jit_compile: bool = False,
    element: tf.DType = tf.float64,
) -> Configuration:
    return Configuration(variant, element, 1, jit_compile, optimizer)


def ground(network: Graph, element: tf.DType = tf.float64) -> Ground:
    return Ground(Network.of(network), Maker(element))


def outputs(network: Graph, variant: Variant = Variant.EAGER, jit_compile: bool = False) -> Array:
    """The first output of an inference in binary64."""
    session = built(network, asked(variant, None, jit_compile))
    (told,) = session.parity(0).tensors
    return np.frombuffer(told.data).reshape(tuple(told.shape))


def built(network: Graph, configuration: Configuration) -> Session:
    return build(Network.of(network), Maker(configuration.element), configuration)


def training(network: Graph, configuration: Configuration) -> Training:
    session = built(network, configuration)
    assert isinstance(session, Training)
    return session


def told(data: ParityData) -> dict[tuple[Quantity, str], Array]:
    return {
        (one.quantity, one.name): np.frombuffer(one.data).reshape(tuple(one.shape))
        for one in data.tensors
    }


def number(name: str, shape: list[int], low: float = -1.0, high: float = 1.0) -> Array:
    return fill.floats(name, Uniform(low, high), tuple(shape)).astype(np.float64)


def softmax(x: Array) -> Array:
    powers: Array = np.exp(x - x.max(-1, keepdims=True))
    shares: Array = powers / powers.sum(-1, keepdims=True)
    return shares


class Fills(unittest.TestCase):
    def test_numbers_are_those_that_rust_makes(self) -> None:
        cases = json.loads((Path(__file__).parent / "fills.json").read_text())
        for case in cases:
            read: Any = decode(Fill, case["fill"], "fill")
            make = fill.integers if makes_integers(read) else fill.floats
            data = make(case["name"], read, tuple(case["shape"])).tobytes()
            self.assertEqual(hashlib.sha256(data).hexdigest(), case["sha256"], case["name"])

    def test_sinusoids_and_masks_are_those_of_the_documentation(self) -> None:
        row = fill.floats("positions", Sinusoids(4), (2, 4))[1]
        np.testing.assert_allclose(row, [0.84147098, 0.0099998333, 0.54030228, 0.99995], 1e-6)
        mask = fill.floats("mask", CausalMask(3), (3, 3))
        np.testing.assert_array_equal(mask, np.triu(np.full((3, 3), -np.inf), 1))

    def test_stored_numbers_come_out_of_the_file(self) -> None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(struct.pack("<4x2f2q", 1.5, -2.0, 7, 2**40))
            file.flush()
            maker = Maker(tf.float64, file.name)

            def read(element: ElementType, offset: int, shape: tuple[int, ...]) -> Any:
                held = Parameter("w", shape, Role.WEIGHT, Stored(element, offset))
                return maker.parameter(held, Form(shape)).tolist()

            self.assertEqual(read(ElementType.FLOAT, 4, (2, 1)), [[1.5], [-2.0]])
            self.assertEqual(read(ElementType.INT64, 12, (2,)), [7, 2**40])
            with self.assertRaisesRegex(Failure, "ends at byte 28"):
                read(ElementType.INT64, 13, (2,))
        with self.assertRaisesRegex(Failure, "nobody named"):
            fill.floats("w", Stored(ElementType.FLOAT, 0), (2,))

    def test_what_cannot_fit_is_out_of_memory(self) -> None:
        for shape in [(2**63, 2), (2**60,), (2**62, 2)]:
            held = Parameter("w", shape, Role.WEIGHT, Uniform(0.0, 1.0))
            with self.assertRaises((Failure, MemoryError)) as raised:
                Maker(tf.float32).parameter(held, Form(shape))
            kind = getattr(raised.exception, "kind", Kind.OUT_OF_MEMORY)
            self.assertEqual(kind, Kind.OUT_OF_MEMORY, raised.exception)


class Forms(unittest.TestCase):
    def test_every_order_comes_back(self) -> None:
        for form, dims in [
            (Form((2, 3, 1, 2), Order.CHANNELS_LAST), (2, 1, 2, 3)),
            (Form((4, 3, 1, 2), Order.FILTER), (1, 2, 3, 4)),
            (Form((6, 1, 2, 1), Order.DEPTHWISE, 3), (2, 1, 3, 2)),
            (Form((2, 3), Order.TRANSPOSED), (3, 2)),
            (Form((2, 3), Order.CHANNELS_LAST), (2, 3)),
        ]:
            numbers = np.arange(math.prod(form.shape)).reshape(form.shape)
            memory = form.laid_out(numbers)
            self.assertEqual(memory.shape, dims)
            np.testing.assert_array_equal(form.restored(memory), numbers)

    def test_filters_lie_as_tensorflow_wants_them(self) -> None:
        numbers = np.arange(24).reshape(4, 3, 1, 2)
        memory = Form((4, 3, 1, 2), Order.FILTER).laid_out(numbers)
        self.assertEqual(memory[0, 1, 2, 3], numbers[3, 2, 0, 1])
        numbers = np.arange(12).reshape(6, 1, 2, 1)
        memory = Form((6, 1, 2, 1), Order.DEPTHWISE, 3).laid_out(numbers)
        self.assertEqual(memory[1, 0, 2, 1], numbers[5, 0, 1, 0])

    def test_axes_of_one_element_move_freely(self) -> None:
        self.assertTrue(moves_nothing((4, 512, 1, 1), (0, 2, 3, 1)))
        self.assertTrue(moves_nothing((4, 1, 7, 7), (0, 2, 3, 1)))
        self.assertFalse(moves_nothing((4, 2, 7, 1), (0, 2, 3, 1)))
        self.assertEqual(inverse((2, 3, 1, 0)), (3, 2, 0, 1))

    def test_padding_is_told_in_tensorflows_words_where_it_has_them(self) -> None:
        def padding(size: int, span: int, stride: int, before: int, count: int) -> Any:
            pads = (before, before, 9, 9)
            return square(size, span, stride, pads, count).padding()

        def square(size: int, span: int, stride: int, pads: Any, count: int) -> Windows:
            return Windows.over((size,) * 2, (span,) * 2, (stride,) * 2, pads, (count,) * 2)

        self.assertEqual(padding(8, 3, 1, 1, 8), Scheme.SAME)
        self.assertEqual(padding(8, 1, 2, 0, 4), Scheme.VALID)
        # A rest that no window reaches.
        self.assertEqual(padding(8, 3, 2, 0, 3), Scheme.VALID)
        # TensorFlow would pad [0, 1] where PyTorch pads [1, 1] and leaves a rest.
        self.assertEqual(padding(8, 3, 2, 1, 4), (1, 1, 0, 0))
        self.assertEqual(padding(7, 3, 2, 1, 4), Scheme.SAME)
        # A last partial window, which TensorFlow would centre.
        self.assertEqual(padding(5, 4, 3, 0, 2), (0, 0, 2, 2))
        seen = square(4, 3, 2, (1, 1, 1, 1), 2).seen()
        np.testing.assert_array_equal(seen, [[4, 6], [6, 9]])


def slid(x: Array, kernel: list[int], strides: list[int], dilations: list[int]) -> Array:
    """The windows of `x`: `[batch, channels, rows, columns, *kernel]`."""
    spans = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    views = np.lib.stride_tricks.sliding_window_view(x, spans, (2, 3))
    views = views[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
    return np.asarray(views, np.float64)


def bordered(x: Array, pads: list[int], filler: float = 0.0) -> Array:
    top, left, bottom, right = pads
    sides = [(0, 0), (0, 0), (top, bottom), (left, right)]
    return np.pad(x, sides, constant_values=filler)


class Operators(unittest.TestCase):
    def same(self, network: Graph, expected: Array) -> None:
        found = outputs(network)
        self.assertEqual(found.shape, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)

    def test_convolutions_of_every_kind(self) -> None:
        x = number("x", [2, 4, 7, 6])
        for strides, pads, dilations, group, out, kernel in [
            ([1, 1], [1, 1, 1, 1], [1, 1], 1, 3, [3, 3]),
            ([2, 2], [1, 1, 1, 1], [1, 1], 1, 3, [3, 3]),
            ([2, 1], [0, 1, 1, 2], [1, 2], 2, 6, [3, 2]),
            ([2, 2], [1, 0, 0, 1], [1, 1], 4, 8, [3, 3]),
            ([1, 2], [0, 0, 0, 0], [1, 1], 4, 4, [2, 2]),
        ]:
            shape = [out, 4 // group, *kernel]
            conv = {"strides": strides, "pads": pads, "dilations": dilations, "group": group}
            network = graph(
                [value("x", [2, 4, 7, 6])],
                [weight("w", shape), weight("b", [out])],
                [node({"Conv": conv}, ["x", "w", "b"], "y")],
            )
            windows = slid(bordered(x, pads), kernel, strides, dilations)
            parts = [
                np.einsum("bcijkl,ockl->boij", *pair)
                for pair in zip(
                    np.split(windows, group, 1), np.split(number("w", shape), group), strict=True
                )
            ]
            self.same(network, np.concatenate(parts, 1) + number("b", [out])[:, None, None])

    def test_pools_see_what_onnx_lets_them_see(self) -> None:
        x = number("x", [1, 2, 7, 6])
        fed = [value("x", [1, 2, 7, 6])]
        for pads, ceil, taken in [
            ([1, 1, 1, 1], False, [1, 1, 1, 1]),
            ([0, 1, 1, 0], False, [0, 1, 1, 0]),
            ([0, 0, 0, 0], True, [0, 0, 0, 1]),
        ]:
            pool = {"kernel": [3, 3], "strides": [2, 2], "pads": pads, "ceil_mode": ceil}
            windows = slid(bordered(x, taken, -np.inf), [3, 3], [2, 2], [1, 1])
            network = graph(fed, [], [node({"MaxPool": pool}, ["x"], "y")])
            self.same(network, windows.max((4, 5)))
        for pads, counts in itertools.product([[1, 1, 1, 1], [0, 1, 1, 0]], [False, True]):
            pool = {
                "kernel": [3, 3],
                "strides": [2, 2],
                "pads": pads,
                "count_include_pad": counts,
            }
            sums = slid(bordered(x, pads), [3, 3], [2, 2], [1, 1]).sum((4, 5))
            seen = slid(bordered(np.ones_like(x), pads), [3, 3], [2, 2], [1, 1]).sum((4, 5))
            network = graph(fed, [], [node({"AveragePool": pool}, ["x"], "y")])
            self.same(network, sums / (9.0 if counts else seen))
        network = graph(fed, [], [node("GlobalAveragePool", ["x"], "y")])
        self.same(network, x.mean((2, 3), keepdims=True))

    def test_a_window_that_fits_nowhere_is_refused(self) -> None:
        pool = {"kernel": [9, 9], "strides": [1, 1], "pads": [0, 0, 0, 0], "ceil_mode": False}
        network = graph([value("x", [1, 1, 5, 5])], [], [node({"MaxPool": pool}, ["x"], "y")])
        with self.assertRaisesRegex(Failure, "MaxPool y: windows of") as raised:
            outputs(network)
        self.assertEqual(raised.exception.kind, Kind.UNSUPPORTED)

    def test_normalisations_with_what_was_learnt(self) -> None:
        for shape in [[2, 3, 2, 2], [2, 3]]:
            x, wide = number("x", shape), (3, *[1] * (len(shape) - 2))
            names = ["scale", "bias", "mean", "variance"]
            roles = ["weight", "weight", "buffer", "buffer"]
            network = graph(
                [value("x", shape)],
                [weight(name, [3], role) for name, role in zip(names, roles, strict=True)],
                [
                    node(
                        {"BatchNormalization": {"epsilon": 1e-5, "momentum": 0.1}},
                        ["x", *names],
                        "y",
                    )
                ],
            )
            scale, bias = (number(name, [3]).reshape(wide) for name in names[:2])
            mean, variance = (number(name, [3], 0.5, 1.5).reshape(wide) for name in names[2:])
            self.same(network, (x - mean) / np.sqrt(variance + 1e-5) * scale + bias)
        x = number("x", [2, 3, 4])
        network = graph(
            [value("x", [2, 3, 4])],
            [weight("scale", [4]), weight("bias", [4])],
            [node({"LayerNormalization": {"epsilon": 0.1}}, ["x", "scale", "bias"], "y")],
        )
        spread = np.sqrt(x.var(-1, keepdims=True) + 0.1)
        normal = (x - x.mean(-1, keepdims=True)) / spread
        self.same(network, normal * number("scale", [4]) + number("bias", [4]))

    def test_attention_splits_heads_and_looks_back(self) -> None:
        q, k, v = (number(name, [2, 3, 8]) for name in "qkv")
        fed = [value(name, [2, 3, 8]) for name in "qkv"]
        for causal in (False, True):
            attention = {"Attention": {"heads": 2, "causal": causal}}
            network = graph(fed, [], [node(attention, ["q", "k", "v"], "y")])

            def heads(x: Array) -> Array:
                return x.reshape(2, 3, 2, 4).transpose(0, 2, 1, 3)

            scores = heads(q) @ heads(k).swapaxes(2, 3) / 2.0
            if causal:
                scores += np.triu(np.full((3, 3), -np.inf), 1)
            attended = softmax(scores) @ heads(v)
            self.same(network, attended.transpose(0, 2, 1, 3).reshape(2, 3, 8))

    def test_products_with_weights_of_either_order(self) -> None:
        x, w, b = number("x", [2, 3, 4]), number("w", [4, 5]), number("b", [5])
        fed, bias = [value("x", [2, 3, 4])], weight("b", [5])
        gemm = node("Gemm", ["x", "w", "b"], "y")
        self.same(graph(fed, [weight("w", [4, 5]), bias], [gemm]), x @ w + b)
        turned, linear = number("w", [5, 4]), node("Linear", ["x", "w"], "y")
        self.same(graph(fed, [weight("w", [5, 4])], [linear]), x @ turned.T)
        # Two readers that want it otherwise.
        both = [
            linear,
            node({"Transpose": {"perm": [1, 0]}}, ["w"], "t"),
            node("MatMul", ["x", "t"], "u"),
            node("Add", ["y", "u"], "z"),
        ]
        self.same(graph(fed, [weight("w", [5, 4])], both), 2.0 * x @ turned.T)
        self.same(
            graph(
                [value("x", [2, 3, 4]), value("z", [1, 4, 2])],
                [],
                [node("MatMul", ["x", "z"], "y")],
            ),
            x @ number("z", [1, 4, 2]),
        )

    def test_every_element_by_itself(self) -> None:
        x = number("x", [2, 3, 2, 2]) * 1.0
        bell = np.vectorize(math.erf)
        bend = np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))
        cases: list[tuple[Any, Array]] = [
            ("Relu", np.maximum(x, 0.0)),
            ("Sigmoid", 1.0 / (1.0 + np.exp(-x))),
            ("Tanh", np.tanh(x)),
            ("Silu", x / (1.0 + np.exp(-x))),
            ("HardSigmoid", np.clip(x / 6.0 + 0.5, 0.0, 1.0)),
            ("HardSwish", x * np.clip(x / 6.0 + 0.5, 0.0, 1.0)),
            ({"Clip": {"min": 0.0, "max": 6.0}}, np.clip(x, 0.0, 6.0)),
            ({"Clip": {"min": -0.25, "max": 0.5}}, np.clip(x, -0.25, 0.5)),
            ({"Gelu": {"approximate": "none"}}, x * (1.0 + bell(x / math.sqrt(2.0))) / 2.0),
            ({"Gelu": {"approximate": "tanh"}}, x * (1.0 + bend) / 2.0),
            ({"Dropout": {"ratio": 0.5}}, x),
        ]
        for op, expected in cases:
            network = graph([value("x", [2, 3, 2, 2])], [], [node(op, ["x"], "y")])
            self.same(network, expected)
        # Roots are taken of what is positive.
        nodes = [
            node("Sigmoid", ["x"], "p"),
            node("Sqrt", ["p"], "r"),
            node("Div", ["x", "r"], "y"),
        ]
        self.same(graph([value("x", [2, 3, 2, 2])], [], nodes), x * np.sqrt(1.0 + np.exp(-x)))

    def test_operands_of_fewer_axes_meet_an_image(self) -> None:
        x = number("x", [2, 3, 4, 5])
        for shape in [[5], [4, 1], [3, 1, 1], [1], [], [2, 3, 4, 5]]:
            network = graph(
                [value("x", [2, 3, 4, 5])],
                [weight("w", shape)],
                [node("Mul", ["x", "w"], "a"), node("Add", ["w", "a"], "y")],
            )
            w = number("w", shape)
            self.same(network, x * w + w)

    def test_shapes_and_tables(self) -> None:
        table = number("t", [3, 4])
        indices = fill.integers("i", Integers(3), (2, 5))
        network = graph(
            [value("i", [2, 5], "int64")],
            [weight("t", [3, 4])],
            [
                node("Gather", ["t", "i"], "a"),
                node({"Slice": {"axis": 1, "start": 1, "end": 4}}, ["a"], "b"),
                node({"Transpose": {"perm": [0, 2, 1]}}, ["b"], "c"),
                node({"Reshape": {"shape": [2, 1, 12]}}, ["c"], "d"),
                node({"Expand": {"shape": [3, 1]}}, ["d"], "e"),
                node({"Concat": {"axis": 1}}, ["e", "e"], "f"),
                node({"Flatten": {"axis": 1}}, ["f"], "g"),
                node({"Softmax": {"axis": -1}}, ["g"], "y"),
            ],
        )
        rows = table[indices][:, 1:4].transpose(0, 2, 1).reshape(2, 1, 12)
        rows = np.broadcast_to(rows, (2, 3, 12))
        self.same(network, softmax(np.concatenate([rows, rows], 1).reshape(2, -1)))

    def test_images_are_moved_as_the_graph_sees_them(self) -> None:
        x = number("x", [2, 6, 2, 3])
        nodes = [
            node({"Slice": {"axis": 1, "start": 1, "end": 5}}, ["x"], "a"),
            node({"Concat": {"axis": 2}}, ["a", "a"], "b"),
            node({"Softmax": {"axis": 1}}, ["b"], "c"),
            node({"Transpose": {"perm": [3, 0, 1, 2]}}, ["c"], "d"),
            node({"Slice": {"axis": 0, "start": 0, "end": 1}}, ["d"], "e"),
            node({"Squeeze": {"axis": 0}}, ["e"], "y"),
        ]
        sliced = x[:, 1:5]
        doubled = np.concatenate([sliced, sliced], 2)
        shares = softmax(doubled.swapaxes(1, 3)).swapaxes(1, 3)
        self.same(graph([value("x", [2, 6, 2, 3])], [], nodes), shares.transpose(3, 0, 1, 2)[0])
        patches = [
            node({"Reshape": {"shape": [2, 6, 6]}}, ["x"], "a"),
            node({"Transpose": {"perm": [0, 2, 1]}}, ["a"], "y"),
        ]
        network = graph([value("x", [2, 6, 2, 3])], [], patches)
        self.same(network, x.reshape(2, 6, 6).transpose(0, 2, 1))

    def test_mistakes_are_found_with_their_node(self) -> None:
        x = [value("x", [2, 3])]
        for nodes, reason in [
            ([node("MatMul", ["x", "x"], "y")], "MatMul y: "),
            ([node("Relu", ["z"], "y")], "Relu y: reads `z`, which nothing makes"),
            ([node("Add", ["x"], "y")], "Add y: has 1 inputs and 1 outputs"),
            ([node("Relu", ["x"], "x")], "the graph makes `x` twice"),
            ([node({"LSTM": {"bidirectional": False}}, ["x"] * 5, "y")], "recurrent: unrolled"),
            ([node({"Transpose": {"perm": [0, 0]}}, ["x"], "y")], "no order of 2 axes"),
        ]:
            with self.assertRaisesRegex(Failure, reason):
                outputs(graph(x, [], nodes))

    def test_a_failure_while_running_names_its_node(self) -> None:
        network = graph(
            [value("i", [2], "int64")],
            [weight("t", [2, 3])],
            [node("Gather", ["t", "i"], "a"), node("Relu", ["a"], "y")],
        )
        session = Inference(ground(network), asked(Variant.EAGER))
        session._inputs = (tf.constant([0, 7], tf.int64),)
        with self.assertRaises(Failure) as raised:
            session.step()
        self.assertTrue(raised.exception.reason.startswith("Gather a: "), raised.exception.reason)

    def test_only_what_is_fixed_becomes_code(self) -> None:
        emit = Emitter()
        x = emit.argument("input_0", (2,), tf.float32)
        with self.assertRaises(TypeError):
            emit.call("tf.identity", x, name='y")\nprint("')

    def test_values_are_let_go_after_their_last_reader(self) -> None:
        emit = Emitter()
        emit.begin("Relu a", "node_0")
        first = emit.call("tf.nn.relu", emit.argument("input_0", (2,), tf.float32))
        emit.begin("Relu b", "node_1")
        function = emit.finish([emit.call("tf.nn.relu", first)])
        self.assertIn("del node_0_0\n", function.source)
        self.assertNotIn("del node_1_0", function.source)
        (found,) = function.call(tf.constant([-1.0, 2.0]))
        self.assertEqual(found.numpy().tolist(), [0.0, 2.0])


class Variants(unittest.TestCase):
    others = (
        (Variant.FUNCTION, False),
        (Variant.FUNCTION, True),
        (Variant.KERAS, False),
        (Variant.KERAS, True),
    )

    def test_all_give_the_same_outputs(self) -> None:
        eager = outputs(NETWORK)
        for variant, jit_compile in self.others:
            function = outputs(NETWORK, variant, jit_compile)
            np.testing.assert_allclose(function, eager, rtol=1e-12)

    def test_all_train_alike(self) -> None:
        for optimizer in (SGD, ADAM):
            eager = training(NETWORK, asked(Variant.EAGER, optimizer)).parity(3)
            for variant, jit_compile in self.others:
                session = built(NETWORK, asked(variant, optimizer, jit_compile))
                other = session.parity(3)
                # Keras casts its optimisers' settings by way of single precision: of Adam's 1 - β₂
                # half of the digits are lost.
                bound = 1e-4 if variant is Variant.KERAS else 1e-9
                np.testing.assert_allclose(other.losses, eager.losses, rtol=bound)
                found, expected = told(other), told(eager)
                self.assertEqual(found.keys(), expected.keys())
                for key in expected:
                    name = f"{variant} {optimizer.tag()} {key}"
                    np.testing.assert_allclose(
                        found[key], expected[key], bound, 1e-3 * bound, err_msg=name
                    )
                # What came between does not last.
                session.step()
                self.assertEqual(session.parity(3), other)

    def test_all_train_in_single_precision(self) -> None:
        wide = told(training(NETWORK, asked(Variant.EAGER, SGD)).parity(3))
        for variant in Variant:
            session = built(NETWORK, asked(variant, SGD, element=tf.float32))
            for one in session.parity(3).tensors:
                self.assertEqual(one.element, "f32")
                found = np.frombuffer(one.data, np.float32).reshape(tuple(one.shape))
                expected = wide[one.quantity, one.name]
                np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)

    def test_several_inputs_and_images_as_outputs(self) -> None:
        network = graph(
            [value("a", [2, 3, 4, 4]), value("b", [3, 1, 1])],
            [],
            [node("Mul", ["a", "b"], "y")],
        )
        expected = number("a", [2, 3, 4, 4]) * number("b", [3, 1, 1])
        for variant in Variant:
            np.testing.assert_allclose(outputs(network, variant), expected)


class Iterations(unittest.TestCase):
    def test_updates_are_those_of_an_optimiser_written_down(self) -> None:
        for settings in (SGD, ADAM):
            self.iterations(settings)

    def iterations(self, settings: Optimizer) -> None:
        data = training(NETWORK, asked(Variant.FUNCTION, settings)).parity(3)
        found = told(data)
        x = number("x", [4, 2, 3, 3])
        labels = fill.integers("labels", Integers(3), (4,))
        shapes = {"scale": [2], "bias": [2], "w": [3, 18]}
        weights = {name: number(name, shape) for name, shape in shapes.items()}
        first = {name: array.copy() for name, array in weights.items()}
        second = {name: np.zeros_like(array) for name, array in weights.items()}
        moment = {name: np.zeros_like(array) for name, array in weights.items()}
        mean, variance = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
        normal = (x - mean) / np.sqrt(variance + 1e-5)
        for step in range(1, 4):
            scale, bias = (weights[name].reshape(1, 2, 1, 1) for name in ("scale", "bias"))
            hidden = (normal * scale + bias).reshape(4, 18)
            shares = softmax(hidden @ weights["w"].T)
            loss = -np.log(shares[np.arange(4), labels]).mean()
            self.assertAlmostEqual(data.losses[step - 1], loss, places=12)
            wrong = (shares - np.eye(3)[labels]) / 4.0
            back = (wrong @ weights["w"]).reshape(4, 2, 3, 3)
            slopes = {
                "scale": (back * normal).sum((0, 2, 3)),
                "bias": back.sum((0, 2, 3)),
                "w": wrong.T @ hidden,
            }
            for name, array in weights.items():
                if step == 1:
                    told_slope = found[Quantity.GRADIENT, name]
                    np.testing.assert_allclose(told_slope, slopes[name], 1e-10, 1e-12)
                slope = slopes[name] + settings.weight_decay * array
                if isinstance(settings, Sgd):
                    moment[name] = settings.momentum * moment[name] + slope
                    array -= settings.learning_rate * moment[name]
                    continue
                beta1, beta2 = settings.beta1, settings.beta2
                moment[name] = beta1 * moment[name] + (1.0 - beta1) * slope
                second[name] = beta2 * second[name] + (1.0 - beta2) * slope**2
                root = np.sqrt(second[name] / (1.0 - beta2**step)) + settings.epsilon
                array -= settings.learning_rate * moment[name] / (1.0 - beta1**step) / root
        for name, array in weights.items():
            update = found[Quantity.UPDATE, name]
            np.testing.assert_allclose(update, array - first[name], 1e-9, 1e-12)
        for name, batch in [("mean", mean), ("variance", variance * 36 / 35)]:
            moved = 0.1 * (batch.flatten() - number(name, [2], 0.5, 1.5))
            np.testing.assert_allclose(found[Quantity.MOVEMENT, name], moved, 1e-9, 1e-12)
        # What the loss does not depend on stays, and is told all the same.
        self.assertEqual(np.abs(found[Quantity.GRADIENT, "unused"]).sum(), 0)
        self.assertEqual(np.abs(found[Quantity.UPDATE, "unused"]).sum(), 0)

    def test_gradients_are_slopes_of_the_loss(self) -> None:
        conv = {"strides": [2, 2], "pads": [1, 1, 1, 1], "dilations": [1, 1]}
        pool = {"kernel": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
        network = graph(
            [value("x", [2, 4, 9, 8]), value("i", [2], "int64")],
            [
                weight("w", [4, 2, 3, 3]),
                weight("d", [8, 1, 3, 3]),
                weight("t", [3, 8]),
            ],
            [
                node({"Conv": {**conv, "group": 2}}, ["x", "w"], "a"),
                node({"MaxPool": {**pool, "ceil_mode": False}}, ["a"], "b"),
                node({"Conv": {**conv, "group": 4}}, ["b", "d"], "c"),
                node({"AveragePool": {**pool, "count_include_pad": False}}, ["c"], "e"),
                node("GlobalAveragePool", ["e"], "f"),
                node({"Flatten": {"axis": 1}}, ["f"], "g"),
                node("Gather", ["t", "i"], "h"),
                node("Add", ["g", "h"], "k"),
                node("Linear", ["k", "t"], "y"),
            ],
            [2],
        )
        session = training(network, asked(Variant.EAGER, Sgd(0.0, 0.0, 0.0)))
        slopes = told(session.parity(1))
        held = session._ground.held
        for parameter in network.parameters:
            name = parameter.name
            form = session._ground.network.forms[name]
            way = form.laid_out(number(f"way of {name}", list(parameter.shape)))
            losses = []
            for step in (1e-5, -1e-5):
                session.reset()
                held[name].assign_add(step * way)
                losses.append(float(session._iterate(session._timed)[0]))
            slope = (losses[0] - losses[1]) / 2e-5
            told_slope = float((form.laid_out(slopes[Quantity.GRADIENT, name]) * way).sum())
            self.assertAlmostEqual(told_slope, slope, places=7, msg=name)

    def test_dropout_drops_in_steps_alone(self) -> None:
        session = training(NETWORK, asked(Variant.EAGER, Sgd(0.1, 0.0, 0.0)))
        session.step()
        stepped = session._ground.held["w"].numpy()
        update = told(session.parity(1))[Quantity.UPDATE, "w"]
        self.assertFalse(np.allclose(stepped.T, number("w", [3, 18]) + update))

    def test_a_network_without_a_loss_is_not_trained(self) -> None:
        network = graph([value("x", [2])], [], [node("Relu", ["x"], "y")])
        with self.assertRaisesRegex(Failure, "no loss"):
            training(network, asked(Variant.EAGER, SGD))


class Cells(unittest.TestCase):
    def understood(self, **changes: Any) -> Configuration:
        cell = decode(
            Cell,
            {
                **CELL,
                "engine": "tensorflow/function",
                "factors": {"jit_compile": "on", "recurrent": "unrolled"},
                **changes,
            },
            "cell",
        )
        assert isinstance(cell, Cell)
        return understand(cell)

    def test_a_cell_is_understood(self) -> None:
        configuration = self.understood(precision="fp64")
        self.assertEqual(configuration, asked(Variant.FUNCTION, None, True))
        keras = self.understood(engine="tensorflow/keras", factors={})
        self.assertEqual(keras, asked(Variant.KERAS, None, True, tf.float32))
        eager = self.understood(engine="tensorflow/eager", factors={})
        self.assertEqual(eager, asked(Variant.EAGER, element=tf.float32))

    def test_what_it_cannot_do_is_unsupported(self) -> None:
        refused: list[tuple[dict[str, Any], str]] = [
            ({"engine": "tensorflow/graph"}, "tensorflow/eager and tensorflow/keras"),
            ({"host_language": "rust"}, "driven from Python"),
            ({"precision": "bf16"}, "not run in bf16"),
            ({"engine": "tensorflow/keras", "precision": "fp64"}, "single precision"),
            ({"mode": "training"}, "needs an optimizer"),
            ({"factors": {"weights": "frozen"}}, "factor `weights` is not known"),
            ({"factors": {"jit_compile": "maybe"}}, "jit_compile is `maybe`"),
            ({"engine": "tensorflow/eager"}, "factor `jit_compile` is not known"),
        ]
        for changes, reason in refused:
            with self.assertRaisesRegex(Failure, reason) as raised:
                self.understood(**changes)
            self.assertEqual(raised.exception.kind, Kind.UNSUPPORTED)
        with self.assertRaisesRegex(Failure, "built for the CPU") as raised:
            self.understood(device="cuda:0")
        self.assertEqual(raised.exception.kind, Kind.UNAVAILABLE)

    def test_exceptions_become_typed_outcomes(self) -> None:
        cases: list[tuple[Exception, Kind]] = [
            (
                tf.errors.ResourceExhaustedError(None, None, "failed to allocate"),
                Kind.OUT_OF_MEMORY,
            ),
            (RuntimeError("std::bad_alloc"), Kind.OUT_OF_MEMORY),
            (tf.errors.UnimplementedError(None, None, "dilation"), Kind.UNSUPPORTED),
            (LookupError("No gradient defined for operation"), Kind.UNSUPPORTED),
            (tf.errors.InvalidArgumentError(None, None, "shapes"), Kind.CRASHED),
        ]
        for error, kind in cases:
            self.assertEqual(classify("Conv c", error).kind, kind)
        told = classify("step", ValueError("Cannot multiply\n\nStack trace for op definition: x"))
        self.assertEqual(told.reason, "step: Cannot multiply")
        bold = classify("step", ValueError("\x1b[1mCannot multiply\x1b[0m"))
        self.assertEqual(bold.reason, "step: Cannot multiply")


if __name__ == "__main__":
    unittest.main()
