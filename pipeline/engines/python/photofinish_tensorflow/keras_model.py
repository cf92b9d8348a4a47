"""A network as a `keras.Model`, with the optimisers of Keras."""

from collections.abc import Set
from typing import Any

import keras
import tensorflow as tf
from numpy.typing import NDArray

from photofinish_tensorflow.lower import Lowered
from photofinish_worker.graph import Parameter, Role
from photofinish_worker.messages import Adam, Optimizer, Sgd


class Network(keras.Model):  # type: ignore[misc] # Keras tells no types.
    """A model whose weights are a graph's parameters, and whose call is the lowered graph."""

    def __init__(self, element: str, decay: float, reached: Set[str]) -> None:
        """Weights of the names in `reached` get an L2 penalty: those on which the loss depends."""
        super().__init__(name="network", dtype=element)
        self._reached = reached
        self.inferring: Lowered | None = None
        """What a call runs in inference."""
        self.learning: Lowered | None = None
        """What a call runs while training."""
        self.told: tf.Variable | None = None
        """Where the loss without the penalty is to be put. Keras tells their sum, of which the loss
        may be a small part: less the penalty it would be off by the rounding of the whole."""
        self._running: list[tuple[tf.Variable, float]] = []
        # The gradient of `λ·w²` is `2·λ·w`.
        self._penalty = keras.regularizers.L2(decay / 2.0) if decay else None

    def hold(self, parameter: Parameter, first: NDArray[Any]) -> tf.Variable:
        """A weight or a buffer, with its first value."""
        penalised = parameter.name in self._reached
        weight = self.add_weight(
            shape=first.shape,
            initializer="zeros",
            dtype=first.dtype.name,
            trainable=parameter.role is Role.WEIGHT,
            autocast=False,
            regularizer=self._penalty if penalised else None,
            name=f"parameter_{len(self.weights)}",
        )
        weight.assign(first)
        return weight.value

    def learn(self, lowered: Lowered, held: dict[str, Any]) -> None:
        """From here on a call runs this while training."""
        self.learning = lowered
        self._running = [(held[moved.buffer], moved.momentum) for moved in lowered.moved]

    def call(self, inputs: Any, training: bool = False) -> Any:
        """The graph's outputs; the logits while training, which moves the running statistics."""
        fed = inputs if isinstance(inputs, list | tuple) else (inputs,)
        lowered = self.learning if training else self.inferring
        if lowered is None:
            raise ValueError("a model is lowered before it is called")
        if not training:
            outputs = lowered.function.call(*fed)
            return outputs[0] if len(outputs) == 1 else outputs
        logits, *batch = lowered.function.call(*fed)
        for (statistic, momentum), seen in zip(self._running, batch, strict=True):
            statistic.assign_sub((statistic - seen) * momentum)
        return logits

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """The loss with the penalty."""
        if self.told is not None:
            self.told.assign(self.loss(y, y_pred))
        return super().compute_loss(x, y, y_pred, sample_weight, training)


class PaperAdam(keras.optimizers.Adam):  # type: ignore[misc] # Keras tells no types.
    """Keras's Adam with ε where the paper and PyTorch have it, beside the corrected moment
    (Kingma and Ba 2015, the note after algorithm 1); Keras has it beside the uncorrected one."""

    @property
    def epsilon(self) -> Any:
        """The ε of this step: Keras's formula with `ε·√(1 - β₂ᵗ)` is the paper's with ε."""
        step = tf.cast(self.iterations.value + 1, tf.float64)
        scale = tf.sqrt(1.0 - tf.pow(tf.constant(self.beta_2, tf.float64), step))
        return tf.cast(self._epsilon * scale, keras.config.floatx())

    @epsilon.setter
    def epsilon(self, epsilon: float) -> None:
        self._epsilon = epsilon


def optimizer(settings: Optimizer) -> keras.optimizers.Optimizer:
    """A fresh optimiser; the L2 penalty is the model's."""
    match settings:
        case Sgd(learning_rate, momentum, _):
            return keras.optimizers.SGD(learning_rate, momentum)
        case Adam(learning_rate, beta1, beta2, epsilon, _):
            return PaperAdam(learning_rate, beta1, beta2, epsilon)
