"""Training: one iteration a step: forward, loss, backward, optimiser."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from photofinish_tensorflow import optimizer, parity
from photofinish_tensorflow.configuration import Configuration
from photofinish_tensorflow.exchange import Exchange
from photofinish_tensorflow.ground import Ground
from photofinish_tensorflow.lower import Lowered, lower
from photofinish_tensorflow.lowering import Pass
from photofinish_tensorflow.run import wrap
from photofinish_worker.engine import ParityData, Quantity, Tensor
from photofinish_worker.graph import Parameter
from photofinish_worker.messages import Optimizer

SEED = 0
"""Seed of the operators that draw random numbers."""


@dataclass(frozen=True, slots=True)
class _Iteration:
    """One iteration, as the variant runs it."""

    lowered: Lowered
    call: Callable[..., tuple[Any, list[Any]]]
    """Called with the inputs and the labels; gives the loss and the gradients."""


class Training:
    """A network that is ready for iterations."""

    def __init__(self, ground: Ground, configuration: Configuration, settings: Optimizer) -> None:
        self._ground = ground
        self._configuration = configuration
        self._reached = ground.network.reached()
        self._weights = [ground.held[parameter.name] for parameter in self._reached]
        self._labels = ground.labels()
        fed = (self._labels, *ground.inputs)
        self._exchange = Exchange(fed) if configuration.requests else None
        self._optimizer = optimizer.make(settings, self._weights, configuration.element)
        tf.random.set_seed(SEED)
        self._timed = self._iteration(Pass.TRAINING)
        self._judged: _Iteration | None = None
        """Without dropout; made at its first use."""

    def _iteration(self, purpose: Pass) -> _Iteration:
        ground, configuration = self._ground, self._configuration
        lowered = lower(ground.network, ground.held, configuration, purpose)
        forward, weights, update = lowered.function.call, self._weights, self._optimizer.apply
        running = [(ground.held[moved.buffer], moved.momentum) for moved in lowered.moved]

        def iterate(labels: Any, *inputs: Any) -> tuple[Any, list[Any]]:
            with tf.GradientTape() as tape:
                logits, *batch = forward(*inputs)
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
                loss = tf.reduce_mean(losses)
            # Those of tables are sparse; the update operators want all of it.
            gradients = [tf.convert_to_tensor(found) for found in tape.gradient(loss, weights)]
            for (statistic, momentum), seen in zip(running, batch, strict=True):
                statistic.assign_sub((statistic - seen) * momentum)
            update(gradients)
            return loss, gradients if purpose is Pass.DETERMINISTIC else []

        return _Iteration(lowered, wrap(iterate, configuration))

    def _iterate(self, iteration: _Iteration) -> tuple[Any, list[Any]]:
        with iteration.lowered.function.explained("training iteration"):
            if self._exchange is None:
                return iteration.call(self._labels, *self._ground.inputs)
            loss, gradients = iteration.call(*self._exchange.send())
            (received,) = self._exchange.receive((loss,))
            return received, gradients

    def step(self) -> None:
        """One iteration. On a CPU TensorFlow returns from it when it is done."""
        self._iterate(self._timed)

    def parity(self, steps: int) -> ParityData:
        """Gradients, movements, updates and losses, dropout off."""
        self.reset()
        if self._judged is None:
            self._judged = self._iteration(Pass.DETERMINISTIC)
        network = self._ground.network
        tensors: list[Tensor] = []
        losses: list[float] = []
        for iteration in range(steps):
            loss, gradients = self._iterate(self._judged)
            losses.append(float(loss))
            if iteration == 0:
                tensors += self._gradients(gradients)
                tensors += self._ground.changes(network.buffers(), Quantity.MOVEMENT)
        tensors += self._ground.changes(network.weights(), Quantity.UPDATE)
        self.reset()
        return ParityData(tensors, losses)

    def _gradients(self, gradients: list[Any]) -> list[Tensor]:
        """The gradients of all weights; zeros where the loss does not depend on one."""
        forms, element = self._ground.network.forms, self._configuration.element
        found = zip(self._reached, gradients, strict=True)
        by_name = {parameter.name: gradient for parameter, gradient in found}

        def told(parameter: Parameter) -> Tensor:
            name = parameter.name
            if name in by_name:
                return parity.output(Quantity.GRADIENT, name, by_name[name], forms[name])
            return parity.nothing(Quantity.GRADIENT, name, forms[name], element)

        return [told(parameter) for parameter in self._ground.network.weights()]

    def diverged(self) -> str | None:
        """The first weight that is not finite."""
        return self._ground.diverged()

    def reset(self) -> None:
        """Initial weights and statistics, a fresh optimiser."""
        self._ground.restart()
        self._optimizer.clear()

    def device_memory(self) -> tuple[int, int] | None:
        """Nothing: the device is a CPU."""
        return None
