"""Inference: one forward pass a step."""

from typing import Any

from photofinish_tensorflow import parity
from photofinish_tensorflow.configuration import Configuration
from photofinish_tensorflow.exchange import Exchange
from photofinish_tensorflow.ground import Ground
from photofinish_tensorflow.lower import lower
from photofinish_tensorflow.lowering import Pass
from photofinish_tensorflow.run import wrap
from photofinish_worker.engine import ParityData, Quantity


class Inference:
    """A network that is ready for forward passes."""

    def __init__(self, ground: Ground, configuration: Configuration) -> None:
        self._names = ground.network.graph.outputs
        self._inputs = ground.inputs
        self._exchange = Exchange(ground.inputs) if configuration.requests else None
        self._lowered = lower(ground.network, ground.held, configuration, Pass.INFERENCE)
        self._forward = wrap(self._lowered.function.call, configuration)

    def step(self) -> None:
        """One forward pass. On a CPU TensorFlow returns from it when it is done."""
        self._run()

    def _run(self) -> tuple[Any, ...]:
        with self._lowered.function.explained("forward pass"):
            if self._exchange is None:
                outputs: tuple[Any, ...] = self._forward(*self._inputs)
                return outputs
            return self._exchange.receive(self._forward(*self._exchange.send()))

    def parity(self, steps: int) -> ParityData:
        """The graph's outputs."""
        del steps
        told = zip(self._names, self._run(), self._lowered.forms, strict=True)
        outputs = [parity.output(Quantity.OUTPUT, name, value, form) for name, value, form in told]
        return ParityData(outputs)

    def reset(self) -> None:
        """A forward pass changes nothing that lasts."""

    def device_memory(self) -> tuple[int, int] | None:
        """Nothing: the device is a CPU."""
        return None
