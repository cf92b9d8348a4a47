"""The engine of TensorFlow: what each operator computes. Needs TensorFlow."""

import itertools
import math
import unittest
from typing import Any

import numpy as np
import tensorflow as tf

from photofinish_numpy import fill
from photofinish_tensorflow.configuration import Variant
from photofinish_tensorflow.emit import Emitter
from photofinish_tensorflow.inference import Inference
from photofinish_worker.graph import Graph, Integers
from photofinish_worker.outcome import Failure, Kind
from tests.sketch import graph, node, value, weight
from tests.with_tensorflow import Array, asked, built, ground, number, outputs, softmax


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
            ({"LeakyRelu": {"alpha": 0.25}}, np.where(x > 0, x, 0.25 * x)),
            ({"Elu": {"alpha": 1.0}}, np.where(x > 0, x, np.expm1(x))),
            ({"Elu": {"alpha": 0.5}}, np.where(x > 0, x, 0.5 * np.expm1(x))),
            ("Softplus", np.log1p(np.exp(x))),
            ("Exp", np.exp(x)),
            ("Abs", np.abs(x)),
            ("Sin", np.sin(x)),
            ("Cos", np.cos(x)),
            ({"LogSoftmax": {"axis": -1}}, np.log(softmax(x))),
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

    def test_shares_among_more_axes_than_a_kernel_takes(self) -> None:
        """The kernel is one of single precision."""
        shape = [2, 1, 3, 2, 2, 4]
        x = number("x", shape)
        for axis, (op, of) in itertools.product(
            [0, 2, -1], [("Softmax", softmax), ("LogSoftmax", lambda x: np.log(softmax(x)))]
        ):
            expected = of(x.swapaxes(axis, -1)).swapaxes(axis, -1)
            network = graph([value("x", shape)], [], [node({op: {"axis": axis}}, ["x"], "y")])
            for variant in (Variant.EAGER, Variant.FUNCTION):
                session = built(network, asked(variant, element=tf.float32))
                (told,) = session.parity(0).tensors
                found = np.frombuffer(told.data, np.float32).reshape(tuple(told.shape))
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
            self.same(network, expected)

    def test_transposed_convolutions_spread_what_they_are_given(self) -> None:
        x = number("x", [2, 4, 3, 5])
        for strides, pads, more, group, kernel in [
            ([1, 1], [0, 0, 0, 0], [0, 0], 1, [3, 2]),
            ([2, 2], [1, 1, 1, 1], [0, 0], 1, [4, 4]),
            ([2, 3], [1, 1, 0, 1], [1, 2], 1, [3, 3]),
            ([2, 1], [0, 1, 1, 0], [1, 0], 2, [3, 2]),
        ]:
            shape = [4, 6 // group, *kernel]
            conv: dict[str, Any] = {"strides": strides, "pads": pads, "output_padding": more}
            conv |= {"dilations": [1, 1], "group": group}
            network = graph(
                [value("x", [2, 4, 3, 5])],
                [weight("w", shape), weight("b", [6])],
                [node({"ConvTranspose": conv}, ["x", "w", "b"], "y")],
            )
            sizes = [strides[i] * (x.shape[2 + i] - 1) + kernel[i] + more[i] for i in (0, 1)]
            whole = np.zeros((2, 6, *sizes))
            parts = zip(np.split(x, group, 1), np.split(number("w", shape), group), strict=True)
            for index, (given, taps) in enumerate(parts):
                part = whole[:, index * 6 // group : (index + 1) * 6 // group]
                for i, j in itertools.product(range(3), range(5)):
                    rows = slice(i * strides[0], i * strides[0] + kernel[0])
                    columns = slice(j * strides[1], j * strides[1] + kernel[1])
                    spread = np.einsum("nc,cohw->nohw", given[:, :, i, j], taps)
                    part[:, :, rows, columns] += spread
            top, left, bottom, right = pads
            kept = whole[:, :, top : sizes[0] - bottom, left : sizes[1] - right]
            self.same(network, kept + number("b", [6])[:, None, None])

    def test_sizes_borders_and_samples_by_themselves(self) -> None:
        x, fed = number("x", [2, 3, 4, 5]), [value("x", [2, 3, 4, 5])]
        resize = {"Resize": {"sizes": [8, 3], "interpolation": "nearest"}}
        picked = x[:, :, np.arange(8) // 2][..., np.arange(3) * 5 // 3]
        self.same(graph(fed, [], [node(resize, ["x"], "y")]), picked)
        for interpolation in ("linear", "linear_corners"):
            resize = {"Resize": {"sizes": [8, 3], "interpolation": interpolation}}
            with self.assertRaisesRegex(Failure, "in single precision alone"):
                outputs(graph(fed, [], [node(resize, ["x"], "y")]))
        sides = [(0, 0), (1, 0), (2, 1), (0, 3)]
        borders: list[tuple[Any, dict[str, Any]]] = [
            ({"constant": {"value": 0.25}}, {"constant_values": 0.25}),
            ("reflect", {"mode": "reflect"}),
        ]
        for border, settings in borders:
            begins, ends = ([side[at] for side in sides] for at in (0, 1))
            pad = {"Pad": {"begins": begins, "ends": ends, "border": border}}
            expected = np.pad(x, sides, **settings)
            self.same(graph(fed, [], [node(pad, ["x"], "y")]), expected)
        norm = node({"InstanceNormalization": {"epsilon": 0.5}}, ["x", "scale", "bias"], "y")
        normal = x - x.mean((2, 3), keepdims=True)
        normal = normal / np.sqrt(x.var((2, 3), keepdims=True) + 0.5)
        scale, bias = (number(name, [3])[:, None, None] for name in ("scale", "bias"))
        held = [weight("scale", [3]), weight("bias", [3])]
        self.same(graph(fed, held, [norm]), normal * scale + bias)

    def test_larger_smaller_and_bent_by_channel(self) -> None:
        x, y = number("x", [2, 3, 4, 5]), number("y", [3, 1, 1])
        for op, expected in [
            ("Max", np.maximum(x, y)),
            ("Min", np.minimum(x, y)),
            ("PRelu", np.where(x > 0, x, y * x)),
        ]:
            nodes = [node(op, ["x", "y"], "z")]
            network = graph([value("x", [2, 3, 4, 5])], [weight("y", [3, 1, 1])], nodes)
            self.same(network, expected)
        nodes = [node("Exp", ["x"], "e"), node("Log", ["e"], "y")]
        self.same(graph([value("x", [2, 3, 4, 5])], [], nodes), x)

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
            ([node({"LSTM": {"bidirectional": False}}, ["x"] * 5, "y")], "LSTM y: .* no sequence"),
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


if __name__ == "__main__":
    unittest.main()
