"""What tests of TensorFlow's engine share: sessions of small networks, and numbers to hold them
against. Needs TensorFlow."""

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from photofinish_numpy import fill
from photofinish_tensorflow.configuration import Configuration, Recurrent, Variant
from photofinish_tensorflow.engine import build
from photofinish_tensorflow.ground import Ground
from photofinish_tensorflow.maker import Maker
from photofinish_tensorflow.network import Network
from photofinish_tensorflow.training import Training
from photofinish_worker.engine import ParityData, Quantity, Session
from photofinish_worker.graph import Graph, Uniform
from photofinish_worker.messages import Adam, Optimizer, Sgd

Array = NDArray[np.float64]

SGD = Sgd(0.1, 0.9, 0.01)
ADAM = Adam(0.1, 0.9, 0.999, 1e-3, 0.01)


def asked(
    variant: Variant,
    optimizer: Optimizer | None = None,
    jit_compile: bool = False,
    element: tf.DType = tf.float64,
    mixes: bool = False,
) -> Configuration:
    return Configuration(variant, element, 1, jit_compile, optimizer, mixes_precision=mixes)


def ground(network: Graph, element: tf.DType = tf.float64) -> Ground:
    return Ground(Network.of(network, Recurrent.LAYER), Maker(element))


def outputs(network: Graph, variant: Variant = Variant.EAGER, jit_compile: bool = False) -> Array:
    """The first output of an inference in binary64."""
    session = built(network, asked(variant, None, jit_compile))
    (told,) = session.parity(0).tensors
    return np.frombuffer(told.data).reshape(tuple(told.shape))


def built(network: Graph, configuration: Configuration) -> Session:
    of = Network.of(network, configuration.recurrent)
    return build(of, Maker(configuration.element), configuration)


def training(network: Graph, configuration: Configuration) -> Training:
    session = built(network, configuration)
    assert isinstance(session, Training)
    return session


def told(data: ParityData) -> dict[tuple[Quantity, str], Array]:
    return {
        (one.quantity, one.name): np.frombuffer(one.data).reshape(tuple(one.shape))
        for one in data.tensors
    }


def number(name: str, shape: list[int], low: float = -1.0, high: float = 1.0) -> Array:
    return fill.floats(name, Uniform(low, high), tuple(shape)).astype(np.float64)


def softmax(x: Array) -> Array:
    powers: Array = np.exp(x - x.max(-1, keepdims=True))
    shares: Array = powers / powers.sum(-1, keepdims=True)
    return shares
