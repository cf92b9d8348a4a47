"""The engine of TensorFlow: numbers, how they lie, cells. Needs TensorFlow."""

import hashlib
import json
import math
import struct
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf

from photofinish_numpy import fill
from photofinish_tensorflow import mixing
from photofinish_tensorflow.configuration import Configuration, Recurrent, Variant, understand
from photofinish_tensorflow.failure import classify
from photofinish_tensorflow.form import Form, Order, inverse, moves_nothing
from photofinish_tensorflow.maker import Maker
from photofinish_tensorflow.windows import Scheme, Windows
from photofinish_worker.decode import decode
from photofinish_worker.graph import (
    CausalMask,
    ElementType,
    Fill,
    Parameter,
    Role,
    Sinusoids,
    Stored,
    Uniform,
)
from photofinish_worker.messages import Cell
from photofinish_worker.outcome import Failure, Kind
from photofinish_worker.streams import makes_integers
from tests.sketch import CELL
from tests.with_tensorflow import asked


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
        layer = self.understood(engine="tensorflow/eager", factors={"recurrent": "layer"})
        self.assertEqual(layer.recurrent, Recurrent.LAYER)

    def test_what_it_cannot_do_is_unsupported(self) -> None:
        refused: list[tuple[dict[str, Any], str]] = [
            ({"engine": "tensorflow/graph"}, "tensorflow/eager and tensorflow/keras"),
            ({"host_language": "rust"}, "driven from Python"),
            ({"precision": "fp16"}, "not run in fp16"),
            ({"engine": "tensorflow/eager", "factors": {}, "precision": "bf16"}, "not run in bf16"),
            ({"engine": "tensorflow/keras", "precision": "fp64"}, "single precision"),
            ({"mode": "training"}, "needs an optimizer"),
            ({"factors": {"weights": "frozen"}}, "factor `weights` is not known"),
            ({"factors": {"jit_compile": "maybe"}}, "jit_compile is `maybe`"),
            ({"factors": {"recurrent": "plain"}}, "known: `unrolled`, `layer`, `fused`"),
            ({"engine": "tensorflow/eager"}, "factor `jit_compile` is not known"),
        ]
        for changes, reason in refused:
            with self.assertRaisesRegex(Failure, reason) as raised:
                self.understood(**changes)
            self.assertEqual(raised.exception.kind, Kind.UNSUPPORTED)
        with self.assertRaisesRegex(Failure, "built for the CPU") as raised:
            self.understood(device="cuda:0")
        self.assertEqual(raised.exception.kind, Kind.UNAVAILABLE)

    def test_precision_is_mixed_in_bf16_alone_and_not_beside_xla(self) -> None:
        refusals: list[tuple[dict[str, Any], str]] = [
            ({"precision": "fp32"}, "give `precision: bf16`"),
            ({"jit": "on"}, "give `jit_compile: off`"),
            ({"value": "off"}, "give `mixed_precision: on`"),
            ({"value": None}, "give `mixed_precision: on`"),
            ({"value": "half"}, "mixed_precision is `half`"),
        ]
        for variant in (Variant.FUNCTION, Variant.KERAS):

            def mixed(value: str | None = "on", jit: str = "off", precision: str = "bf16") -> Any:
                mixed = {} if value is None else {"mixed_precision": value}
                return self.understood(
                    engine=f"tensorflow/{variant}",  # noqa: B023 # Called in this turn alone.
                    precision=precision,
                    factors={"jit_compile": jit, **mixed},
                )

            with mock.patch.object(mixing, "check"):
                self.assertEqual(mixed(), asked(variant, None, False, tf.float32, True))
                for refused, reason in refusals:
                    with self.assertRaisesRegex(Failure, reason) as raised:
                        mixed(**refused)
                    self.assertEqual(raised.exception.kind, Kind.UNSUPPORTED)
        with self.assertRaisesRegex(Failure, "factor `mixed_precision` is not known"):
            self.understood(engine="tensorflow/eager", factors={"mixed_precision": "on"})

    def test_precision_is_mixed_only_where_a_processor_and_onednn_do(self) -> None:
        knows = "flags\t\t: fpu avx512f avx512_bf16 amx_tile\n"
        mixing.check({}, knows)
        mixing.check({mixing.ONEDNN: "1"}, knows)
        for environment, processors in [
            ({mixing.ONEDNN: "0"}, knows),
            ({mixing.ONEDNN: "False"}, knows),
            ({}, "flags\t\t: fpu avx512f avx512_bf16x\n"),
        ]:
            with self.assertRaisesRegex(Failure, "compute in fp32") as raised:
                mixing.check(environment, processors)
            self.assertEqual(raised.exception.kind, Kind.UNSUPPORTED)

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
