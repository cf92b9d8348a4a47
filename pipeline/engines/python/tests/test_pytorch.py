"""The engine: numbers, networks, cells. Needs PyTorch."""

import array
import ctypes
import hashlib
import json
import math
import struct
import tempfile
import unittest
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import torch
from torch.nn import functional

from photofinish_pytorch import arithmetic, fill, parity, process, stored
from photofinish_pytorch.configuration import understand
from photofinish_pytorch.device import find
from photofinish_pytorch.engine import Torch
from photofinish_pytorch.failure import classify
from photofinish_pytorch.process import check_spin, check_threads
from photofinish_pytorch.training import Training
from photofinish_worker import ask
from photofinish_worker.decode import decode
from photofinish_worker.engine import Quantity
from photofinish_worker.graph import (
    CausalMask,
    ElementType,
    Fill,
    Graph,
    Integers,
    Sinusoids,
    Stored,
)
from photofinish_worker.messages import Boundary, Cell, Load, Mode
from photofinish_worker.outcome import Failure, Kind
from photofinish_worker.streams import makes_integers
from tests.sketch import CELL, NETWORK, graph, node, value, weight
from tests.with_pytorch import lowered, number, outputs


class Fills(unittest.TestCase):
    def test_numbers_are_those_that_rust_makes(self) -> None:
        cases = json.loads((Path(__file__).parent / "fills.json").read_text())
        for case in cases:
            read: Any = decode(Fill, case["fill"], "fill")
            make = fill.integers if makes_integers(read) else fill.floats
            tensor = make(case["name"], read, tuple(case["shape"]))
            data = ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())
            self.assertEqual(hashlib.sha256(data).hexdigest(), case["sha256"], case["name"])

    def test_sinusoids_are_those_of_the_documentation(self) -> None:
        row = fill.floats("positions", Sinusoids(4), (2, 4))[1]
        expected = torch.tensor([0.84147098, 0.0099998333, 0.54030228, 0.99995])
        torch.testing.assert_close(row, expected, rtol=1e-6, atol=0)

    def test_a_mask_hides_what_comes_later(self) -> None:
        mask = fill.floats("mask", CausalMask(3), (3, 3))
        expected = torch.full((3, 3), -math.inf).triu(1)
        torch.testing.assert_close(mask, expected, rtol=0, atol=0)

    def test_stored_numbers_come_out_of_the_file(self) -> None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(struct.pack("<4x2f3q", 1.5, -2.0, 7, -1, 2**40))
            file.flush()
            floats = Stored(ElementType.FLOAT, 4)
            integers = Stored(ElementType.INT64, 12)
            read = stored.read(file.name, "w", floats, (2, 1))
            self.assertEqual(read.tolist(), [[1.5], [-2.0]])
            self.assertEqual(stored.read(file.name, "n", integers, (3,)).tolist(), [7, -1, 2**40])
            self.assertEqual(stored.read(file.name, "n", integers, (0, 3)).shape, (0, 3))
            self.assertTrue(makes_integers(integers) and not makes_integers(floats))
            for beyond in (Stored(ElementType.INT64, 13), Stored(ElementType.FLOAT, 1 << 62)):
                with self.assertRaisesRegex(Failure, "ends at byte 36"):
                    stored.read(file.name, "n", beyond, (3,))
        with self.assertRaisesRegex(Failure, "No such file"):
            stored.read(file.name, "w", floats, (2,))
        with self.assertRaisesRegex(Failure, "nobody named"):
            fill.floats("w", floats, (2,))


class Operators(unittest.TestCase):
    def test_recurrent_layers_are_those_of_torch_nn(self) -> None:
        layers: list[tuple[str, int, type[torch.nn.LSTM] | type[torch.nn.GRU]]] = [
            ("LSTM", 4, torch.nn.LSTM),
            ("GRU", 3, torch.nn.GRU),
        ]
        for name, gates, layer in layers:
            for both in (False, True):
                shapes = [[gates * 5, 4], [gates * 5, 5], [gates * 5], [gates * 5]]
                shapes = shapes * (2 if both else 1)
                names = [f"p{index}" for index in range(len(shapes))]
                network = graph(
                    [value("x", [2, 3, 4])],
                    [weight(made, shape) for made, shape in zip(names, shapes, strict=True)],
                    [node({name: {"bidirectional": both}}, ["x", *names], "y")],
                )
                module = layer(4, 5, batch_first=True, bidirectional=both, dtype=torch.float64)
                with torch.no_grad():
                    for own, made, shape in zip(module.parameters(), names, shapes, strict=True):
                        own.copy_(number(made, shape))
                    expected = module(number("x", [2, 3, 4]))[0]
                self.same(network, expected)

    def same(self, network: Graph, expected: torch.Tensor) -> None:
        torch.testing.assert_close(outputs(network), expected, rtol=1e-12, atol=1e-12)

    def test_uneven_padding_becomes_a_border(self) -> None:
        x, w = number("x", [1, 2, 5, 6]), number("w", [4, 1, 3, 2])
        conv = {"Conv": {"strides": [2, 1], "pads": [0, 1, 1, 2], "dilations": [1, 2], "group": 2}}
        network = graph(
            [value("x", [1, 2, 5, 6])], [weight("w", [4, 1, 3, 2])], [node(conv, ["x", "w"], "y")]
        )
        padded = functional.pad(x, (1, 2, 0, 1))
        self.same(network, functional.conv2d(padded, w, None, (2, 1), 0, (1, 2), 2))
        pool = {
            "MaxPool": {
                "kernel": [3, 3],
                "strides": [2, 2],
                "pads": [0, 0, 1, 1],
                "ceil_mode": False,
            }
        }
        network = graph([value("x", [1, 2, 5, 6])], [], [node(pool, ["x"], "y")])
        bordered = functional.pad(x, (0, 1, 0, 1), value=float("-inf"))
        self.same(network, functional.max_pool2d(bordered, 3, 2))

    def test_pools_that_count_otherwise_than_onnx_are_refused(self) -> None:
        def pool(pads: list[int], include: bool) -> Graph:
            mean = {
                "AveragePool": {
                    "kernel": [2, 2],
                    "strides": [2, 2],
                    "pads": pads,
                    "count_include_pad": include,
                }
            }
            return graph([value("x", [1, 1, 5, 5])], [], [node(mean, ["x"], "y")])

        self.assertEqual(outputs(pool([0, 0, 1, 1], True)).shape, (1, 1, 3, 3))
        with self.assertRaisesRegex(Failure, "AveragePool y: uneven padding") as raised:
            outputs(pool([0, 0, 1, 1], False))
        self.assertEqual(raised.exception.kind, Kind.UNSUPPORTED)

    def test_attention_splits_heads_and_looks_back(self) -> None:
        q, k, v = (number(name, [2, 3, 8]) for name in "qkv")
        attention = {"Attention": {"heads": 2, "causal": True}}
        fed = [value(name, [2, 3, 8]) for name in "qkv"]
        network = graph(fed, [], [node(attention, ["q", "k", "v"], "y")])

        def heads(x: torch.Tensor) -> torch.Tensor:
            return x.reshape(2, 3, 2, 4).permute(0, 2, 1, 3)

        scores = heads(q) @ heads(k).transpose(2, 3) / 2.0
        later = torch.ones(3, 3, dtype=torch.bool).triu(1)
        attended = scores.masked_fill(later, float("-inf")).softmax(-1) @ heads(v)
        self.same(network, attended.permute(0, 2, 1, 3).reshape(2, 3, 8))

    def test_products_with_weights_of_either_order(self) -> None:
        x, w, b = number("x", [2, 3, 4]), number("w", [4, 5]), number("b", [5])
        held = [weight("w", [4, 5]), weight("b", [5])]
        self.same(
            graph([value("x", [2, 3, 4])], held, [node("Gemm", ["x", "w", "b"], "y")]), x @ w + b
        )
        turned = [weight("w", [5, 4])]
        self.same(
            graph([value("x", [2, 3, 4])], turned, [node("Linear", ["x", "w"], "y")]),
            x @ number("w", [5, 4]).T,
        )

    def test_every_element_by_itself(self) -> None:
        x = number("x", [2, 3]) * 1.0
        gate = (x / 6.0 + 0.5).clamp(0.0, 1.0)
        cases: list[tuple[Any, torch.Tensor]] = [
            ("HardSigmoid", gate),
            ("HardSwish", x * gate),
            ("Sigmoid", x.sigmoid()),
            ({"LeakyRelu": {"alpha": 0.25}}, torch.where(x > 0, x, 0.25 * x)),
            ({"Elu": {"alpha": 0.5}}, torch.where(x > 0, x, 0.5 * torch.expm1(x))),
            ("Softplus", torch.log1p(x.exp())),
            ("Exp", torch.e**x),
            ("Abs", torch.where(x > 0, x, -x)),
            ("Sin", x.sin()),
            ("Cos", x.cos()),
            ({"LogSoftmax": {"axis": -1}}, x.softmax(-1).log()),
        ]
        for op, expected in cases:
            self.same(graph([value("x", [2, 3])], [], [node(op, ["x"], "y")]), expected)
        # Roots are taken of what is positive.
        nodes = [
            node("Sigmoid", ["x"], "p"),
            node("Sqrt", ["p"], "r"),
            node("Div", ["x", "r"], "y"),
        ]
        self.same(graph([value("x", [2, 3])], [], nodes), x / x.sigmoid().sqrt())

    def test_larger_smaller_and_bent_by_channel(self) -> None:
        x, y, slope = number("x", [2, 3, 4]), number("y", [3, 1]), number("s", [3, 1])
        held = [weight("y", [3, 1]), weight("s", [3, 1])]
        for nodes, expected in [
            ([node("Max", ["x", "y"], "z")], torch.where(x > y, x, y)),
            ([node("Min", ["x", "y"], "z")], torch.where(x < y, x, y)),
            ([node("PRelu", ["x", "s"], "z")], torch.where(x > 0, x, slope * x)),
            ([node("Exp", ["x"], "e"), node("Log", ["e"], "z")], x),
        ]:
            self.same(graph([value("x", [2, 3, 4])], held, nodes), expected)

    def test_transposed_convolutions_are_gradients(self) -> None:
        conv: dict[str, Any] = {"strides": [2, 1], "pads": [1, 0, 1, 0], "output_padding": [1, 0]}
        conv |= {"dilations": [1, 2], "group": 2}
        network = graph(
            [value("x", [1, 4, 3, 5])],
            [weight("w", [4, 3, 3, 2]), weight("b", [6])],
            [node({"ConvTranspose": conv}, ["x", "w", "b"], "y")],
        )
        x, w, image = number("x", [1, 4, 3, 5]), number("w", [4, 3, 3, 2]), torch.zeros(1, 6, 6, 7)
        image = image.double().requires_grad_()
        made = functional.conv2d(image, w, None, (2, 1), (1, 0), (1, 2), 2)
        (expected,) = torch.autograd.grad(made, image, x)
        self.same(network, expected + number("b", [6])[:, None, None])
        uneven = {**conv, "pads": [1, 0, 0, 0]}
        network = graph(
            [value("x", [1, 4, 3, 5])],
            [weight("w", [4, 3, 3, 2])],
            [node({"ConvTranspose": uneven}, ["x", "w"], "y")],
        )
        with self.assertRaisesRegex(Failure, "as much on both sides"):
            outputs(network)

    def test_sizes_borders_and_samples_by_themselves(self) -> None:
        x, fed = number("x", [2, 3, 4, 5]), [value("x", [2, 3, 4, 5])]
        sizes: list[tuple[str, dict[str, Any]]] = [
            ("nearest", {"mode": "nearest"}),
            ("linear", {"mode": "bilinear"}),
            ("linear_corners", {"mode": "bilinear", "align_corners": True}),
        ]
        for interpolation, settings in sizes:
            resize = {"Resize": {"sizes": [7, 3], "interpolation": interpolation}}
            expected = functional.interpolate(x, (7, 3), **settings)
            self.same(graph(fed, [], [node(resize, ["x"], "y")]), expected)
        borders: list[tuple[list[int], Any, dict[str, Any]]] = [
            ([0, 1, 2, 0], {"constant": {"value": 0.25}}, {"value": 0.25}),
            ([0, 0, 2, 0], "reflect", {"mode": "reflect"}),
        ]
        for begins, border, settings in borders:
            pad = {"Pad": {"begins": begins, "ends": [0, 0, 1, 3], "border": border}}
            sides = (0, 3, 2, 1) if border == "reflect" else (0, 3, 2, 1, 1, 0)
            expected = functional.pad(x, sides, **settings)
            self.same(graph(fed, [], [node(pad, ["x"], "y")]), expected)
        pad = {"Pad": {"begins": [0, 0, 0, 2], "ends": [0] * 4, "border": "reflect"}}
        expected = functional.pad(x, (2, 0, 0, 0), "reflect")
        self.same(graph(fed, [], [node(pad, ["x"], "y")]), expected)
        pad = {"Pad": {"begins": [1, 0, 0, 0], "ends": [0] * 4, "border": "reflect"}}
        with self.assertRaisesRegex(Failure, "reflects no first axis"):
            outputs(graph(fed, [], [node(pad, ["x"], "y")]))
        norm = node({"InstanceNormalization": {"epsilon": 0.5}}, ["x", "scale", "bias"], "y")
        spread = (x.var((2, 3), unbiased=False, keepdim=True) + 0.5).sqrt()
        normal = (x - x.mean((2, 3), keepdim=True)) / spread
        scale, bias = (number(name, [3])[:, None, None] for name in ("scale", "bias"))
        held = [weight("scale", [3]), weight("bias", [3])]
        self.same(graph(fed, held, [norm]), normal * scale + bias)

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
        rows = table[indices][:, 1:4].permute(0, 2, 1).reshape(2, 1, 12).expand(2, 3, 12)
        self.same(network, torch.cat([rows, rows], 1).flatten(1).softmax(-1))

    def test_mistakes_are_found_with_their_node(self) -> None:
        x = [value("x", [2, 3])]
        for nodes, reason in [
            ([node("MatMul", ["x", "x"], "y")], "MatMul y: "),
            ([node("Relu", ["z"], "y")], "Relu y: reads `z`, which nothing makes"),
            ([node("Add", ["x"], "y")], "Add y: has 1 inputs and 1 outputs"),
            ([node("Relu", ["x"], "x")], "the graph makes `x` twice"),
        ]:
            with self.assertRaisesRegex(Failure, reason):
                lowered(graph(x, [], nodes), Mode.INFERENCE)

    def test_an_open_side_of_a_clip_is_none_in_any_precision(self) -> None:
        # As JSON has binary32's largest number: a little more than that in binary64.
        largest = 3.4028235e38
        for low, high in [(-0.5, largest), (-largest, 0.5)]:
            clip = {"Clip": {"min": low, "max": high}}
            for in_place in (False, True):
                nodes = [node("Tanh", ["x"], "a"), node(clip, ["a"], "y", in_place)]
                network = graph([value("x", [2, 3])], [], nodes)
                for element in (torch.float64, torch.float32, torch.float16):
                    x = number("x", [2, 3]).to(element)
                    (made,) = lowered(network, Mode.INFERENCE, element).module(x, False)
                    expected = torch.tanh(x).clamp(max(low, -1.0), min(high, 1.0))
                    self.assertTrue(torch.equal(made, expected), f"{clip} {element}")

    def test_a_failure_while_running_names_its_node(self) -> None:
        network = graph(
            [value("x", [2, 3])], [], [node("Tanh", ["x"], "a"), node("Relu", ["a"], "y")]
        )
        ready = lowered(network, Mode.INFERENCE)
        with self.assertRaises(Failure) as raised, ready.explained():
            ready.module(torch.zeros(2, 3, dtype=torch.complex64), False)
        self.assertEqual(raised.exception.kind, Kind.UNSUPPORTED)
        self.assertTrue(raised.exception.reason.startswith("Relu y: "), raised.exception.reason)


class InPlace(unittest.TestCase):
    nodes = (
        node({"Gelu": {"approximate": "none"}}, ["x"], "a", True),
        node("Relu", ["a"], "b", True),
        node("Add", ["b", "a"], "c", True),
        node({"Reshape": {"shape": [2, 2]}}, ["c"], "d", True),
        node("Relu", ["d"], "e", True),
        node("Relu", ["e"], "f", True),
    )

    def test_only_a_sole_reader_overwrites_and_never_a_view(self) -> None:
        # b: `a` has two readers. c: `b` has one. e: `d` is a view. f: `e` is fresh.
        network = graph([value("x", [2, 2])], [], list(self.nodes), [2])
        ready = lowered(network, Mode.INFERENCE)
        self.assertEqual(ready.in_place, 2)
        self.assertIn("node_1 += node_0", ready.module.code)
        # `b` and `e` are outputs of relu, which its gradient reads.
        self.assertEqual(lowered(network, Mode.TRAINING).in_place, 0)

    def test_it_changes_no_number(self) -> None:
        plain = [dict(one, in_place=False) for one in self.nodes]
        fed = [value("x", [2, 2])]
        self.assertTrue(
            torch.equal(outputs(graph(fed, [], list(self.nodes))), outputs(graph(fed, [], plain)))
        )

    def test_a_broadcast_operand_is_spared(self) -> None:
        nodes = [node("Tanh", ["x"], "a"), node("Add", ["a", "z"], "y", True)]
        network = graph([value("x", [1, 2]), value("z", [2, 2])], [], nodes)
        self.assertEqual(lowered(network, Mode.INFERENCE).in_place, 0)


class Cells(unittest.TestCase):
    cell: ClassVar[dict[str, Any]] = {
        **CELL,
        "engine": "pytorch/compiled",
        "factors": {"compile_mode": "max-autotune", "layout": "channels_last"},
    }

    def understood(self, **changes: Any) -> Any:
        cell = decode(Cell, {**self.cell, **changes}, "cell")
        assert isinstance(cell, Cell)
        return understand(cell)

    def test_a_cell_is_understood(self) -> None:
        configuration = self.understood(precision="bf16")
        self.assertEqual(configuration.compile_mode, "max-autotune")
        self.assertEqual(configuration.element, torch.bfloat16)
        self.assertTrue(configuration.channels_last)
        self.assertIs(configuration.boundary, Boundary.STEP)
        self.assertIs(self.understood(boundary="request").boundary, Boundary.REQUEST)
        on_gpu = self.understood(boundary="device", device="cuda:0", factors={})
        self.assertIs(on_gpu.boundary, Boundary.DEVICE)
        self.assertEqual(process.settings(on_gpu, False)["clock"], ask.EVENTS)
        self.assertNotIn("clock", process.settings(configuration, True))
        eager = self.understood(engine="pytorch/python-eager", factors={})
        self.assertEqual((eager.compile_mode, eager.channels_last), (None, False))

    def test_what_it_cannot_do_is_unsupported(self) -> None:
        refused: list[tuple[dict[str, Any], str]] = [
            ({"engine": "pytorch/eager"}, "runs pytorch/python-eager and pytorch/compiled"),
            ({"host_language": "rust"}, "driven from Python"),
            ({"world_size": 2}, "world_size is 2 with the strategy `single`"),
            ({"strategy": "ddp"}, "strategy `ddp` is not implemented; known: `single`"),
            (
                {"boundary": "device"},
                "boundary `device` is between events of a GPU; the device is cpu",
            ),
            ({"threads": 0}, "threads cannot be 0"),
            ({"precision": "tf32"}, "tf32"),
            ({"precision": "int8-static"}, "not run in int8-static"),
            ({"mode": "training"}, "needs an optimizer"),
            ({"factors": {"spin": "off"}}, "factor `spin` is not known"),
            ({"factors": {"autotune": "off"}}, "`autotune` is about .* the device is cpu"),
            (
                {"device": "cuda:0", "factors": {"autotune": "maybe"}},
                "autotune is `maybe`",
            ),
            ({"factors": {"allocator": "arena"}}, "allocator is `arena`; known: `system`, `keep`"),
            (
                {"device": "cuda:0", "factors": {"allocator": "keep"}},
                "host's memory; the device is cuda:0",
            ),
            ({"factors": {"compile_mode": "fast"}}, "compile_mode is `fast`"),
            ({"factors": {"compile_mode": "reduce-overhead"}}, "replays CUDA graphs"),
        ]
        for changes, reason in refused:
            with self.assertRaisesRegex(Failure, reason) as raised:
                self.understood(**changes)
            self.assertEqual(raised.exception.kind, Kind.UNSUPPORTED)

    def test_cudnn_tries_its_algorithms_where_it_is_there_and_asked_to(self) -> None:
        setting = "cuDNN tries all algorithms"
        self.assertIsNone(self.understood().autotune)
        self.assertNotIn(setting, process.settings(self.understood(), True))
        self.addCleanup(setattr, torch.backends.cudnn, "benchmark", False)
        for engine in ("pytorch/python-eager", "pytorch/compiled"):
            for word, tries in [("on", True), ("off", False), (None, False)]:
                factors = {} if word is None else {"autotune": word}
                asked = self.understood(engine=engine, device="cuda:0", factors=factors)
                self.assertEqual(asked.autotune, tries)
                self.assertEqual(process.settings(asked, False)[setting], "on" if tries else "off")
                # It may be called once in a process.
                with mock.patch.object(torch, "set_num_interop_threads"):
                    process.apply(asked)
                self.assertEqual(torch.backends.cudnn.benchmark, tries)

    def test_fewer_threads_than_asked_for_are_refused(self) -> None:
        for name, word in [("OMP_THREAD_LIMIT", "1"), ("OMP_DYNAMIC", "TRUE")]:
            with self.assertRaisesRegex(Failure, name):
                check_threads(2, {name: word})
            check_threads(1, {name: word})
        check_threads(2, {"OMP_THREAD_LIMIT": "2", "OMP_DYNAMIC": "false"})

    def test_idle_threads_of_a_cpu_sleep_where_they_are_asked_to(self) -> None:
        eager = "pytorch/python-eager"
        for word, sleeps in [("off", True), ("default", False), (None, None)]:
            factors = {} if word is None else {"spin": word}
            self.assertIs(self.understood(engine=eager, factors=factors).sleeps, sleeps)
        self.assertIsNone(self.understood().sleeps)
        refused: list[tuple[dict[str, Any], str]] = [
            ({"factors": {"spin": "on"}}, "spin is `on`; known: `default`, `off`"),
            ({"factors": {"spin": "off"}, "device": "cuda:0"}, "the device is cuda:0"),
        ]
        for changes, reason in refused:
            with self.assertRaisesRegex(Failure, reason) as raised:
                self.understood(engine=eager, **changes)
            self.assertEqual(raised.exception.kind, Kind.UNSUPPORTED)

    def test_idle_threads_that_wait_otherwise_than_asked_for_are_refused(self) -> None:
        passive, active = {"OMP_WAIT_POLICY": "PASSIVE "}, {"OMP_WAIT_POLICY": "active"}
        count = {"GOMP_SPINCOUNT": "1000"}
        nothing: dict[str, str] = {}
        refused: list[tuple[bool, dict[str, str], str]] = [
            (True, nothing, "needs OMP_WAIT_POLICY=passive"),
            (True, active, "needs OMP_WAIT_POLICY=passive"),
            (True, passive | count, "GOMP_SPINCOUNT=1000"),
            (False, passive, "OMP_WAIT_POLICY=PASSIVE"),
            (False, active, "OMP_WAIT_POLICY=active"),
            (False, count, "GOMP_SPINCOUNT=1000"),
        ]
        for sleeps, environment, reason in refused:
            with self.assertRaisesRegex(Failure, reason) as raised:
                check_spin(sleeps, environment)
            self.assertEqual(raised.exception.kind, Kind.UNAVAILABLE)
        check_spin(True, passive)
        check_spin(False, nothing)
        check_spin(None, passive)
        check_spin(None, active | count)

    def test_exceptions_become_typed_outcomes(self) -> None:
        for text, kind in [
            ("DefaultCPUAllocator: can't allocate memory: you tried …", Kind.OUT_OF_MEMORY),
            ("CUDA out of memory. Tried to allocate 2 GiB", Kind.OUT_OF_MEMORY),
            ("\"add_cpu\" not implemented for 'Half'", Kind.UNSUPPORTED),
            ("The size of tensor a (3) must match", Kind.CRASHED),
        ]:
            self.assertEqual(classify("Conv c", text).kind, kind)

    def test_what_is_computed_in_binary32_says_so(self) -> None:
        wide, narrow = (
            "stored as {}, computed in float32: ",
            "products in {} where oneDNN has kernels ",
        )
        for element, capability, onednn, words in [
            (torch.bfloat16, "avx512_f", True, wide + "this CPU has no instructions"),
            (torch.float16, "avx512_bf16", True, wide + "this CPU has no instructions"),
            (torch.float16, "amx_fp16", False, wide + "oneDNN does without AMX_FP16"),
            (torch.float16, "avx512_fp16", True, narrow + r"\(AVX512_FP16\)"),
            (torch.bfloat16, "bf16", True, narrow + r"\(BF16\)"),
        ]:
            told = arithmetic.words(element, {capability: True}, onednn)
            self.assertRegex(told, words.format(str(element).removeprefix("torch.")))
        with mock.patch.dict("os.environ", {"ONEDNN_MAX_CPU_ISA": "AVX2"}):
            (told,) = arithmetic.settings(torch.bfloat16, on_cpu=True).values()
        self.assertTrue(told.endswith("; ONEDNN_MAX_CPU_ISA=AVX2"), told)

    def test_mixed_precision_keeps_weights_wide_and_computes_narrow(self) -> None:
        sgd = {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.0}
        losses = {}
        cases: list[tuple[str, dict[str, str]]] = [
            ("fp32", {}),
            ("bf16", {"mixed_precision": "on"}),
        ]
        for precision, factors in cases:
            cell = {
                **CELL,
                "engine": "pytorch/python-eager",
                "mode": "training",
                "optimizer": {"sgd": sgd},
                "precision": precision,
                "factors": factors,
            }
            read = decode(Cell, cell, "cell")
            assert isinstance(read, Cell)
            with mock.patch("torch.set_num_interop_threads"):
                session, report = Torch().load(Load(read, NETWORK, None, "/"))
            assert isinstance(session, Training)
            self.assertEqual("mixed precision" in report.settings, precision == "bf16")
            self.assertEqual(report.settings["element type"], "float32")
            losses[precision] = session.parity(1).losses[0]
            session.step()
            # The loss does not depend on all of them.
            gradients = [held.grad for held in session._weights if held.grad is not None]
            self.assertTrue(gradients)
            for tensor in (*session._weights, *gradients):
                self.assertEqual(tensor.dtype, torch.float32)
        self.assertNotEqual(losses["bf16"], losses["fp32"])
        self.assertAlmostEqual(losses["bf16"], losses["fp32"], delta=0.02 * losses["fp32"])

    def test_a_page_says_what_a_cpu_computes_in(self) -> None:
        for precision, element in [("bf16", torch.bfloat16), ("fp16", torch.float16)]:
            (told,) = arithmetic.settings(element, on_cpu=True).values()
            self.assertIn(str(element).removeprefix("torch."), told)
            self.assertEqual(arithmetic.settings(element, on_cpu=False), {})
            cell = {**CELL, "engine": "pytorch/python-eager", "precision": precision, "factors": {}}
            read = decode(Cell, cell, "cell")
            assert isinstance(read, Cell)
            with mock.patch("torch.set_num_interop_threads"):
                _, report = Torch().load(Load(read, NETWORK, None, "/"))
            self.assertEqual(report.settings["arithmetic"], told)
        self.assertEqual(arithmetic.settings(torch.float32, on_cpu=True), {})

    def test_there_is_no_such_device(self) -> None:
        with self.assertRaises(Failure) as raised:
            find("cuda:99")
        self.assertEqual(raised.exception.kind, Kind.UNAVAILABLE)

    def test_narrow_numbers_are_widened_and_lie_row_by_row(self) -> None:
        tensor = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.bfloat16).T
        told = parity.output(Quantity.OUTPUT, "y", tensor)
        self.assertEqual(array.array("f", told.data).tolist(), [1.0, 3.0, 2.0, 4.0])
        self.assertEqual(told.element, "f32")


if __name__ == "__main__":
    unittest.main()
