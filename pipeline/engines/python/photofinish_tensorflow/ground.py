"""What a step reads and moves: inputs, labels, variables."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from photofinish_tensorflow import parity
from photofinish_tensorflow.failure import at
from photofinish_tensorflow.maker import Maker
from photofinish_tensorflow.network import Network
from photofinish_worker.engine import Quantity, Tensor
from photofinish_worker.graph import Parameter, Role
from photofinish_worker.outcome import unsupported

Hold = Callable[[Parameter, NDArray[Any]], tf.Variable]
"""Makes the variable of a parameter, with its first value."""


class Ground:
    """A network's tensors: parameters as variables, but constants, which are nobody's to move."""

    def __init__(self, network: Network, maker: Maker, hold: Hold | None = None) -> None:
        self.network = network
        self.maker = maker
        self.held: dict[str, Any] = {}
        """Variables and constants by the parameter's name."""
        for parameter in network.graph.parameters:
            with at(parameter.name):
                first = self.first(parameter)
                if parameter.role is Role.CONSTANT or not _is_float(first):
                    self.held[parameter.name] = tf.constant(first)
                else:
                    self.held[parameter.name] = (hold or _variable)(parameter, first)
        self.inputs = tuple(
            tf.constant(maker.input(fed, network.input_form(fed))) for fed in network.graph.inputs
        )

    def first(self, parameter: Parameter) -> NDArray[Any]:
        """The initial value of a parameter, as it lies."""
        return self.maker.parameter(parameter, self.network.forms[parameter.name])

    def labels(self) -> tf.Tensor:
        """The labels of training."""
        loss = self.network.graph.loss
        if loss is None:
            raise unsupported(f"{self.network.graph.name} has no loss to train with")
        return tf.constant(self.maker.input(loss.labels, self.network.input_form(loss.labels)))

    def restart(self) -> None:
        """Puts every variable to its first value."""
        for parameter in self.network.graph.parameters:
            variable = self.held[parameter.name]
            if isinstance(variable, tf.Variable):
                with at(parameter.name):
                    variable.assign(self.first(parameter))

    def diverged(self) -> str | None:
        """The first weight that is not finite."""
        for parameter in self.network.weights():
            if not bool(tf.reduce_all(tf.math.is_finite(self.held[parameter.name]))):
                return parameter.name
        return None

    def changes(self, parameters: list[Parameter], quantity: Quantity) -> list[Tensor]:
        """How far these are from where they began."""
        return [
            parity.change(
                quantity,
                parameter.name,
                self.held[parameter.name],
                self.first(parameter),
                self.network.forms[parameter.name],
            )
            for parameter in parameters
        ]


def _variable(parameter: Parameter, first: NDArray[Any]) -> tf.Variable:
    return tf.Variable(first, trainable=parameter.role is Role.WEIGHT)


def _is_float(numbers: NDArray[Any]) -> bool:
    return bool(np.issubdtype(numbers.dtype, np.floating))
