"""Steps of networks, of inference and training, and what stands around them. Needs PyTorch."""

import array
import math
import unittest
from typing import Any
from unittest import mock

import torch

from photofinish_pytorch import fill
from photofinish_pytorch.device import Place
from photofinish_pytorch.edges import edges
from photofinish_worker.engine import ParityData, Quantity
from photofinish_worker.graph import Integers
from photofinish_worker.messages import Adam, Boundary, Sgd
from photofinish_worker.outcome import Failure
from tests.sketch import NETWORK, graph, node, value
from tests.with_pytorch import inference, number, training


class Iterations(unittest.TestCase):
    def told(self, data: ParityData) -> dict[tuple[Quantity, str], torch.Tensor]:
        return {
            (tensor.quantity, tensor.name): torch.tensor(
                array.array("d", tensor.data), dtype=torch.float64
            )
            for tensor in data.tensors
        }

    def test_updates_are_those_of_an_optimiser_written_down(self) -> None:
        rate, momentum = 0.1, 0.9
        data = training(NETWORK, Sgd(rate, momentum, 0.0)).parity(3)
        told = self.told(data)
        x, w = number("x", [4, 2, 3, 3]), number("w", [3, 18]).requires_grad_()
        labels = fill.integers("labels", Integers(3), (4,))
        scale, bias = number("scale", [2]).requires_grad_(), number("bias", [2]).requires_grad_()
        weights = {"scale": scale, "bias": bias, "w": w}
        before = {name: tensor.detach().clone() for name, tensor in weights.items()}
        velocity = {name: torch.zeros_like(tensor) for name, tensor in weights.items()}
        losses = []
        for iteration in range(3):
            mean = x.mean((0, 2, 3), keepdim=True)
            variance = x.var((0, 2, 3), unbiased=False, keepdim=True)
            normal = (x - mean) / (variance + 1e-5).sqrt()
            y = (normal * scale.view(1, 2, 1, 1) + bias.view(1, 2, 1, 1)).flatten(1) @ w.T
            loss = -(y.log_softmax(1)[torch.arange(4), labels]).mean()
            losses.append(loss.item())
            gradients = torch.autograd.grad(loss, list(weights.values()))
            for (name, tensor), gradient in zip(weights.items(), gradients, strict=True):
                if iteration == 0:
                    expected = told[Quantity.GRADIENT, name].reshape(gradient.shape)
                    torch.testing.assert_close(expected, gradient)
                velocity[name] = momentum * velocity[name] + gradient
                tensor.data -= rate * velocity[name]
        torch.testing.assert_close(list(data.losses), losses)
        for name, tensor in weights.items():
            update = (tensor.detach() - before[name]).flatten()
            torch.testing.assert_close(told[Quantity.UPDATE, name], update)
        moved = 0.1 * (x.mean((0, 2, 3)) - number("mean", [2], 0.5, 1.5))
        torch.testing.assert_close(told[Quantity.MOVEMENT, "mean"], moved)
        # What the loss does not depend on stays, and is told all the same.
        self.assertEqual(told[Quantity.GRADIENT, "unused"].abs().sum(), 0)
        self.assertEqual(told[Quantity.UPDATE, "unused"].abs().sum(), 0)

    def test_a_reset_brings_back_the_initial_state_and_the_first_random_numbers(self) -> None:
        session = training(NETWORK, Adam(0.1, 0.9, 0.999, 1e-8, 0.0))
        first = session.parity(3)
        session.step()
        dropped = [tensor.clone() for tensor in session._weights]
        session.step()
        session.reset()
        session.step()
        for one, other in zip(dropped, session._weights, strict=True):
            self.assertTrue(torch.equal(one, other.detach()))
        self.assertEqual(session.parity(3), first)

    def test_a_training_that_has_diverged_says_so(self) -> None:
        session = training(NETWORK, Sgd(0.1, 0.0, 0.0))
        session.step()
        self.assertIsNone(session.diverged())
        for number_ in (math.nan, math.inf, -math.inf):
            session.reset()
            session._network.held["w"].data[1, 2] = number_
            self.assertEqual(session.diverged(), "w")
        session = training(NETWORK, Sgd(1e300, 0.0, 1.0))
        for _ in range(2):
            session.step()
        self.assertIsNotNone(session.diverged())

    def test_dropout_drops_in_steps_alone(self) -> None:
        session = training(NETWORK, Sgd(0.1, 0.0, 0.0))
        weights = session._network.held
        session.step()
        stepped = weights["w"].detach().clone()
        session.reset()
        session._iterate(False)
        self.assertFalse(torch.equal(stepped, weights["w"]))


class Requests(unittest.TestCase):
    """What is fed is spoilt before each step: it is the caller's memory that counts."""

    def test_a_pass_reads_and_writes_the_callers_memory(self) -> None:
        network = graph([value("x", [2, 3])], [], [node("Relu", ["x"], "y")])
        session = inference(network, Boundary.REQUEST)
        expected = inference(network).parity(0)
        for _ in range(2):
            session._inputs[0].fill_(7.0)
            self.assertEqual(session.parity(0), expected)
        first, second = session._run(), session._run()
        self.assertEqual(first[0].data_ptr(), second[0].data_ptr())

    def test_an_iteration_begins_and_ends_there(self) -> None:
        optimizer = Sgd(0.1, 0.9, 0.0)
        session = training(NETWORK, optimizer, Boundary.REQUEST)
        expected = training(NETWORK, optimizer).parity(3)
        session._inputs[0].fill_(7.0)
        session._labels.zero_()
        self.assertEqual(session.parity(3), expected)


class Events(unittest.TestCase):
    """A GPU that is none: what is asked of it is noted in order."""

    def setUp(self) -> None:
        self.asked: list[str] = []
        self.gpu = Place(torch.device("cuda", 1))
        note = self.asked.append

        class Event:
            """The first of two, or the second."""

            made = 0

            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing
                type(self).made += 1
                self.name = f"event {self.made}"

            def record(self, stream: str) -> None:
                note(f"{self.name} on {stream}")

            def elapsed_time(self, later: "Event") -> float:
                return 0.0123454 if (self.name, later.name) == ("event 1", "event 2") else -1.0

        for name, stands_for in (
            ("Event", Event),
            ("current_stream", lambda device: f"stream of {device}"),
            ("synchronize", lambda device: note(f"wait for {device}")),
        ):
            patch = mock.patch.object(torch.cuda, name, stands_for)
            patch.start()
            self.addCleanup(patch.stop)

    def noting(self, forward: Any) -> Any:
        def noted(*fed: Any) -> Any:
            self.asked.append("forward")
            return forward(*fed)

        return noted

    def test_a_pass_is_between_them_and_the_wait_behind(self) -> None:
        network = graph([value("x", [2, 3])], [], [node("Relu", ["x"], "y")])
        session = inference(network)
        self.assertIsNone(session.device_ns())
        session._edges, session._place = edges(Boundary.DEVICE, self.gpu, ()), self.gpu
        session._forward = self.noting(session._forward)
        session.step()
        between = ["event 1 on stream of cuda:1", "forward", "event 2 on stream of cuda:1"]
        self.assertEqual(self.asked, [*between, "wait for cuda:1"])
        self.assertEqual(session.device_ns(), 12345)

    def test_an_iteration_is_between_them_with_its_optimiser(self) -> None:
        session = training(NETWORK, Sgd(0.1, 0.9, 0.0))
        session._edges, session._place = edges(Boundary.DEVICE, self.gpu, ()), self.gpu
        session._forward = self.noting(session._forward)
        with mock.patch.object(session._optimizer, "step", self.noting(session._optimizer.step)):
            session.step()
        work = ["forward", "forward"]
        between = ["event 1 on stream of cuda:1", *work, "event 2 on stream of cuda:1"]
        self.assertEqual(self.asked, [*between, "wait for cuda:1"])
        self.assertEqual(session.device_ns(), 12345)

    def test_a_cpu_has_none(self) -> None:
        with self.assertRaisesRegex(Failure, "a CPU has no events"):
            training(NETWORK, Sgd(0.1, 0.9, 0.0), Boundary.DEVICE)
        self.assertEqual(self.asked, [])
