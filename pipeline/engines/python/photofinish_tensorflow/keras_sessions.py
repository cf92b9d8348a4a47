"""Keras: `predict_on_batch` and `train_on_batch` of a compiled model."""

from collections.abc import Set
from typing import Any

import keras
import tensorflow as tf

from photofinish_tensorflow import keras_model, parity
from photofinish_tensorflow.configuration import Configuration
from photofinish_tensorflow.failure import at
from photofinish_tensorflow.ground import Ground
from photofinish_tensorflow.lower import lower
from photofinish_tensorflow.lowering import Pass
from photofinish_tensorflow.maker import Maker
from photofinish_tensorflow.network import Network
from photofinish_tensorflow.training import SEED
from photofinish_worker.engine import ParityData, Quantity, Tensor
from photofinish_worker.messages import Optimizer


def _model(
    configuration: Configuration, decay: float = 0.0, reached: Set[str] = frozenset()
) -> keras_model.Network:
    element = configuration.element.name
    # What losses, metrics and optimisers compute in.
    keras.config.set_floatx(element)
    return keras_model.Network(element, decay, reached)


def _fed(ground: Ground) -> Any:
    """The inputs as a user of Keras has them: arrays in the host's memory."""
    arrays = [fed.numpy() for fed in ground.inputs]
    return arrays[0] if len(arrays) == 1 else arrays


class Predicting:
    """A model that is ready to predict."""

    def __init__(self, network: Network, maker: Maker, configuration: Configuration) -> None:
        self._model = _model(configuration)
        ground = Ground(network, maker, self._model.hold)
        self._names = network.graph.outputs
        self._x = _fed(ground)
        lowered = lower(network, ground.held, configuration, Pass.INFERENCE)
        self._lowered = self._model.inferring = lowered
        self._model.compile(jit_compile=configuration.jit_compile)

    def step(self) -> None:
        """One prediction; Keras gives it as arrays, when it is done."""
        self._run()

    def _run(self) -> Any:
        with self._lowered.function.explained("predict_on_batch"):
            return self._model.predict_on_batch(self._x)

    def parity(self, steps: int) -> ParityData:
        """The graph's outputs."""
        del steps
        outputs = self._run()
        several = outputs if isinstance(outputs, list | tuple) else (outputs,)
        told = zip(self._names, several, self._lowered.forms, strict=True)
        return ParityData(
            [parity.output(Quantity.OUTPUT, name, value, form) for name, value, form in told]
        )

    def reset(self) -> None:
        """A prediction changes nothing that lasts."""

    def device_memory(self) -> tuple[int, int] | None:
        """Nothing: the device is a CPU."""
        return None


class Fitting:
    """A model that is ready to be trained."""

    def __init__(
        self, network: Network, maker: Maker, configuration: Configuration, settings: Optimizer
    ) -> None:
        self._network = network
        self._configuration = configuration
        reached = {parameter.name for parameter in network.reached()}
        self._model = _model(configuration, settings.weight_decay, reached)
        self._ground = ground = Ground(network, maker, self._model.hold)
        self._reached = [name for name in self._names() if name in reached]
        self._x, self._y = _fed(ground), ground.labels().numpy()
        tf.random.set_seed(SEED)
        self._learn(Pass.TRAINING)
        self._optimizer = keras_model.optimizer(settings)
        self._optimizer.build(self._model.trainable_variables)
        self._fresh = [variable.numpy() for variable in self._optimizer.variables]
        self._model.compile(
            optimizer=self._optimizer,
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            jit_compile=configuration.jit_compile,
        )

    def _names(self) -> list[str]:
        return [parameter.name for parameter in self._network.weights()]

    def _learn(self, purpose: Pass) -> None:
        held = self._ground.held
        self._lowered = lower(self._network, held, self._configuration, purpose)
        self._model.learn(self._lowered, held)

    def step(self) -> None:
        """One iteration."""
        self._iterate()

    def _iterate(self) -> None:
        with self._lowered.function.explained("train_on_batch"):
            self._model.train_on_batch(self._x, self._y)

    def parity(self, steps: int) -> ParityData:
        """Gradients, movements, updates and losses, dropout off."""
        told = tf.Variable(0.0, dtype=self._configuration.element, trainable=False)
        self._model.told = told
        self._switch(Pass.DETERMINISTIC)
        tensors: list[Tensor] = self._gradients()
        losses: list[float] = []
        self.reset()
        for iteration in range(steps):
            self._iterate()
            losses.append(float(told))
            if iteration == 0:
                buffers = self._network.buffers()
                tensors += self._ground.changes(buffers, Quantity.MOVEMENT)
        tensors += self._ground.changes(self._network.weights(), Quantity.UPDATE)
        self._model.told = None
        self._switch(Pass.TRAINING)
        return ParityData(tensors, losses)

    def _switch(self, purpose: Pass) -> None:
        """Goes on with another form of the network, from the beginning."""
        self._learn(purpose)
        self._model.make_train_function(force=True)
        self.reset()

    def _gradients(self) -> list[Tensor]:
        """The gradients that Keras finds in the first iteration, which it keeps to itself in
        `train_on_batch`: those of the loss alone, without the L2 penalty's."""
        held, forms = self._ground.held, self._network.forms
        weights = [held[name] for name in self._reached]

        def find() -> list[Any]:
            with tf.GradientTape() as tape:
                logits = self._model(self._x, training=True)
                loss = self._model.loss(self._y, logits)
            gradients: list[Any] = tape.gradient(loss, weights)
            return gradients

        # Precision is mixed in functions alone, as `train_on_batch` is one.
        mixes = self._configuration.mixes_precision
        run = tf.function(find, autograph=False) if mixes else find
        with self._lowered.function.explained("gradients"):
            found = dict(zip(self._reached, run(), strict=True))
        element = self._configuration.element
        return [
            parity.output(Quantity.GRADIENT, name, found[name], forms[name])
            if name in found
            else parity.nothing(Quantity.GRADIENT, name, forms[name], element)
            for name in self._names()
        ]

    def diverged(self) -> str | None:
        """The first weight that is not finite."""
        return self._ground.diverged()

    def reset(self) -> None:
        """Initial weights and statistics, a fresh optimiser."""
        self._ground.restart()
        with at("optimiser"):
            for variable, first in zip(self._optimizer.variables, self._fresh, strict=True):
                variable.assign(first)

    def device_memory(self) -> tuple[int, int] | None:
        """Nothing: the device is a CPU."""
        return None
