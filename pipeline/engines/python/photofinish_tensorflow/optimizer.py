"""The optimisers, by TensorFlow's own update operators with the graph's meaning, as the Rust worker
uses them."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from photofinish_worker.messages import Adam as AdamSettings
from photofinish_worker.messages import Optimizer as Settings
from photofinish_worker.messages import Sgd as SgdSettings


class Optimizer(Protocol):
    """Moves weights against their gradients."""

    def apply(self, gradients: Sequence[Any]) -> None:
        """Moves each weight by its gradient, a tensor like it."""

    def clear(self) -> None:
        """Forgets velocities and moments."""


def make(settings: Settings, weights: Sequence[tf.Variable], element: tf.DType) -> Optimizer:
    """A fresh optimiser over `weights`."""
    match settings:
        case SgdSettings():
            return Sgd(settings, weights, element)
        case AdamSettings():
            return Adam(settings, weights, element)


class Sgd:
    """Stochastic gradient descent with momentum and L2 penalty."""

    def __init__(
        self, settings: SgdSettings, weights: Sequence[tf.Variable], element: tf.DType
    ) -> None:
        self._weights = weights
        self._rate = tf.constant(settings.learning_rate, element)
        self._momentum = tf.constant(settings.momentum, element)
        self._decay = settings.weight_decay
        self._velocities = _zeros(weights) if settings.momentum else []

    def apply(self, gradients: Sequence[Any]) -> None:
        """One update of each weight."""
        for index, (weight, gradient) in enumerate(zip(self._weights, gradients, strict=True)):
            slope = _decayed(weight, gradient, self._decay)
            if self._velocities:
                tf.raw_ops.ResourceApplyMomentum(
                    var=weight.handle,
                    accum=self._velocities[index].handle,
                    lr=self._rate,
                    grad=slope,
                    momentum=self._momentum,
                )
            else:
                tf.raw_ops.ResourceApplyGradientDescent(
                    var=weight.handle, alpha=self._rate, delta=slope
                )

    def clear(self) -> None:
        """No velocity."""
        _clear(self._velocities)


class Adam:
    """Adam, with L2 penalty.

    TensorFlow's operator divides by `√v + ε'`, where the paper and PyTorch divide by
    `√(v/(1 - β₂ᵗ)) + ε` (Kingma and Ba 2015, the note after algorithm 1): the same for
    `ε' = ε·√(1 - β₂ᵗ)` and the rate `rate·√(1 - β₂ᵗ)/(1 - β₁ᵗ)`. The rate is computed here, and the
    operator is told of powers of 0, with which it leaves it as it is.
    """

    def __init__(
        self, settings: AdamSettings, weights: Sequence[tf.Variable], element: tf.DType
    ) -> None:
        self._weights = weights
        self._settings = settings
        self._element = element
        self._first, self._second = _zeros(weights), _zeros(weights)
        # As the weights' type has them, so that `1 - β` means the same in the moments, which are
        # computed in that type, and in their corrections.
        self._betas = [
            float(np.asarray(beta, element.as_numpy_dtype))
            for beta in (settings.beta1, settings.beta2)
        ]
        # In binary64: in binary32 1 - β₂ᵗ would lose half of its digits.
        self._powers = [tf.Variable(beta, dtype=tf.float64) for beta in self._betas]
        self._beta1, self._beta2 = (tf.constant(beta, element) for beta in self._betas)
        self._zero = tf.constant(0.0, element)

    def apply(self, gradients: Sequence[Any]) -> None:
        """One update of each weight."""
        settings, (power1, power2) = self._settings, self._powers
        root = tf.sqrt(1.0 - power2)
        rate = tf.cast(settings.learning_rate * root / (1.0 - power1), self._element)
        epsilon = tf.cast(settings.epsilon * root, self._element)
        slots = zip(self._weights, self._first, self._second, gradients, strict=True)
        for weight, first, second, gradient in slots:
            tf.raw_ops.ResourceApplyAdam(
                var=weight.handle,
                m=first.handle,
                v=second.handle,
                beta1_power=self._zero,
                beta2_power=self._zero,
                lr=rate,
                beta1=self._beta1,
                beta2=self._beta2,
                epsilon=epsilon,
                grad=_decayed(weight, gradient, settings.weight_decay),
            )
        for power, beta in zip(self._powers, self._betas, strict=True):
            power.assign(power * beta)

    def clear(self) -> None:
        """No moments."""
        _clear(self._first)
        _clear(self._second)
        for power, beta in zip(self._powers, self._betas, strict=True):
            power.assign(beta)


def _zeros(weights: Sequence[tf.Variable]) -> list[tf.Variable]:
    return [tf.Variable(tf.zeros_like(weight), trainable=False) for weight in weights]


def _clear(variables: Sequence[tf.Variable]) -> None:
    for variable in variables:
        variable.assign(tf.zeros_like(variable))


def _decayed(weight: tf.Variable, gradient: Any, decay: float) -> Any:
    """The gradient with that of the L2 penalty."""
    return gradient + decay * weight if decay else gradient
