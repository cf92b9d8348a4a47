"""The engine of TensorFlow: variants and iterations. Needs TensorFlow."""

import unittest
from collections.abc import Callable
from dataclasses import replace
from unittest import mock

import numpy as np
import tensorflow as tf

from photofinish_numpy import fill
from photofinish_tensorflow import mixing
from photofinish_tensorflow.configuration import Configuration, Variant
from photofinish_tensorflow.engine import TensorFlow
from photofinish_tensorflow.exchange import Exchange
from photofinish_tensorflow.keras_sessions import Fitting, Predicting
from photofinish_tensorflow.lowering import Pass
from photofinish_worker.decode import decode
from photofinish_worker.engine import ParityData, Quantity, TrainingSession
from photofinish_worker.graph import Integers
from photofinish_worker.messages import Cell, Load, Optimizer, Sgd
from photofinish_worker.outcome import Failure
from tests.sketch import CELL, NETWORK, graph, node, value, weight
from tests.with_tensorflow import (
    ADAM,
    SGD,
    Array,
    asked,
    built,
    number,
    outputs,
    softmax,
    told,
    training,
)


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

    def test_numbers_from_the_callers_memory_are_the_same_numbers(self) -> None:
        for variant in Variant:
            for optimizer in (None, SGD):
                step = asked(variant, optimizer)
                request = replace(step, requests=True)
                expected = built(NETWORK, step).parity(3)
                session = built(NETWORK, request)
                session.step()
                self.assertEqual(session.parity(3), expected, f"{variant} {optimizer}")

    def test_every_step_reads_what_is_sent(self) -> None:
        session = built(NETWORK, replace(asked(Variant.EAGER, None), requests=True))
        before = session.parity(1)
        for array in vars(session)["_exchange"]._sent:
            array[...] = 0
        self.assertNotEqual(session.parity(1), before)

    def test_what_is_sent_has_memory_of_its_own(self) -> None:
        exchange = Exchange([tf.constant([1.0, 2.0])])
        (sent,) = exchange.send()
        exchange._sent[0][...] = 3.0
        np.testing.assert_array_equal(sent, [1.0, 2.0])
        output = tf.Variable([1.0, 2.0])
        (received,) = exchange.receive([output.read_value()])
        output.assign([5.0, 6.0])
        np.testing.assert_array_equal(received, [1.0, 2.0])

    def test_results_are_copied_to_one_place(self) -> None:
        exchange = Exchange([tf.constant([1.0, 2.0])])
        (first,) = exchange.receive(exchange.send())
        (again,) = exchange.receive([tf.constant([3.0, 4.0])])
        self.assertIs(first, again)
        np.testing.assert_array_equal(first, [3.0, 4.0])

    def test_all_train_in_single_precision(self) -> None:
        wide = told(training(NETWORK, asked(Variant.EAGER, SGD)).parity(3))
        for variant in Variant:
            session = built(NETWORK, asked(variant, SGD, element=tf.float32))
            for one in session.parity(3).tensors:
                self.assertEqual(one.element, "f32")
                found = np.frombuffer(one.data, np.float32).reshape(tuple(one.shape))
                expected = wide[one.quantity, one.name]
                np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)

    def test_a_penalty_a_million_times_the_loss_does_not_round_it(self) -> None:
        settings = Sgd(0.0, 0.0, 1e6)
        wide = training(NETWORK, asked(Variant.EAGER, settings)).parity(2)
        self.assertLess(max(wide.losses), 10.0)
        for jit_compile in (False, True):
            session = built(NETWORK, asked(Variant.KERAS, settings, jit_compile, tf.float32))
            assert isinstance(session, Fitting)
            self.assertGreater(float(sum(session._model.losses)), 1e6 * wide.losses[0])
            np.testing.assert_allclose(session.parity(2).losses, wide.losses, rtol=1e-6)

    def test_several_inputs_and_images_as_outputs(self) -> None:
        network = graph(
            [value("a", [2, 3, 4, 4]), value("b", [3, 1, 1])],
            [],
            [node("Mul", ["a", "b"], "y")],
        )
        expected = number("a", [2, 3, 4, 4]) * number("b", [3, 1, 1])
        for variant in Variant:
            np.testing.assert_allclose(outputs(network, variant), expected)


class Keras(unittest.TestCase):
    """A step is a batch of `fit` and `predict`."""

    def after(self, jit_compile: bool, moves: Callable[[Fitting], None]) -> list[Array]:
        """Every variable, and the optimiser's own, after the steps that `moves` takes."""
        session = built(NETWORK, asked(Variant.KERAS, ADAM, jit_compile, tf.float32))
        assert isinstance(session, Fitting)
        # Without dropout, whose random numbers each function draws by itself.
        session._switch(Pass.DETERMINISTIC)
        moves(session)
        held = session._ground.held.values()
        own = [variable.numpy() for variable in session._optimizer.variables]
        return [variable.numpy() for variable in held] + own

    def test_fit_moves_everything_exactly_as_a_step_does(self) -> None:
        def steps(session: Fitting) -> None:
            for _ in range(2):
                session.step()

        def fits(session: Fitting) -> None:
            x, y = session._x, session._y
            for _ in range(2):
                session._model.fit(x, y, batch_size=len(x), shuffle=False, verbose=0)

        for jit_compile in (False, True):
            stepped, fitted = (self.after(jit_compile, moves) for moves in (steps, fits))
            fresh = self.after(jit_compile, lambda _: None)
            moved = 0
            for one, other, first in zip(stepped, fitted, fresh, strict=True):
                np.testing.assert_array_equal(one, other)
                moved += not np.array_equal(one, first)
            # Weights and running statistics, both moments, the count of iterations.
            self.assertGreater(moved, 8)

    def test_predict_gives_exactly_what_a_step_computes(self) -> None:
        for jit_compile in (False, True):
            session = built(NETWORK, asked(Variant.KERAS, None, jit_compile, tf.float32))
            assert isinstance(session, Predicting)
            x = session._x
            predicted = session._model.predict(x, batch_size=len(x), verbose=0)
            self.assertGreater(np.abs(predicted).max(), 0.0)
            np.testing.assert_array_equal(predicted, session._run())


class Mixed(unittest.TestCase):
    """Where the processor has bf16, numbers show that it is used; others refuse such cells."""

    def setUp(self) -> None:
        try:
            mixing.check({})
        except Failure as failure:
            self.skipTest(failure.reason)
        self.addCleanup(mixing.turn, on=False)

    def error(self, configuration: Configuration) -> dict[Quantity, float]:
        """How far a variant that mixes is from fp32, relative to the norm of each quantity."""
        mixing.turn(on=False)
        eager = asked(Variant.EAGER, configuration.optimizer, element=tf.float32)
        expected = built(NETWORK, eager).parity(3)
        mixing.turn(on=True)
        found = built(NETWORK, configuration).parity(3)
        errors = {}
        for quantity in {one.quantity for one in expected.tensors}:

            def all_of(data: ParityData) -> Array:
                of = (one.data for one in data.tensors if one.quantity is quantity)  # noqa: B023
                return np.concatenate([np.frombuffer(data, np.float32) for data in of], dtype=float)

            difference = all_of(found) - all_of(expected)
            errors[quantity] = float(np.linalg.norm(difference) / np.linalg.norm(all_of(expected)))
        return errors

    def test_a_cell_that_asks_for_it_gets_it(self) -> None:
        factors = {"jit_compile": "off", "mixed_precision": "on"}
        cell = {**CELL, "engine": "tensorflow/function", "precision": "bf16", "factors": factors}
        read = decode(Cell, cell, "cell")
        assert isinstance(read, Cell)
        expected = built(NETWORK, asked(Variant.EAGER, element=tf.float32)).parity(0)
        # Threads are settled before anything runs, which is over here.
        threads = "tensorflow.config.threading.set_{}_op_parallelism_threads"
        with mock.patch(threads.format("intra")), mock.patch(threads.format("inter")):
            session, report = TensorFlow().load(Load(read, NETWORK, None, "/"))
        self.assertTrue(report.settings["arithmetic"].startswith("bf16 in the operators"))
        (found,), (wide,) = session.parity(0).tensors, expected.tensors
        difference = np.frombuffer(found.data, np.float32) - np.frombuffer(wide.data, np.float32)
        self.assertGreater(np.abs(difference).max(), 1e-4)

    def test_products_of_functions_are_in_bf16(self) -> None:
        roundoff = 2.0**-9
        for variant in (Variant.FUNCTION, Variant.KERAS):
            for optimizer in (None, SGD):
                mixed = asked(variant, optimizer, False, tf.float32, mixes=True)
                errors = self.error(mixed)
                # Statistics of the batch are taken in fp32.
                errors.pop(Quantity.MOVEMENT, None)
                self.assertEqual(len(errors), 1 if optimizer is None else 2)
                for quantity, error in errors.items():
                    self.assertGreater(error, roundoff / 10.0, f"{variant} {quantity}")
                    self.assertLess(error, 0.1, f"{variant} {quantity}")

    def test_what_is_no_function_of_grapplers_stays_in_fp32(self) -> None:
        """So these are not offered it."""
        for variant, compiled in (
            (Variant.EAGER, False),
            (Variant.FUNCTION, True),
            (Variant.KERAS, True),
        ):
            for error in self.error(asked(variant, SGD, compiled, tf.float32)).values():
                self.assertLess(error, 1e-5, variant)


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

    def test_a_training_that_has_diverged_says_so(self) -> None:
        for variant in Variant:
            session = built(NETWORK, asked(variant, Sgd(1e30, 0.0, 1.0), element=tf.float32))
            assert isinstance(session, TrainingSession)
            self.assertIsNone(session.diverged())
            for _ in range(3):
                session.step()
            self.assertIsNotNone(session.diverged(), variant)
            session.reset()
            self.assertIsNone(session.diverged())

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


if __name__ == "__main__":
    unittest.main()
