"""How a step runs: operator by operator, or as a `tf.function`."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from photofinish_tensorflow.configuration import Configuration, Variant

Step = Callable[..., Any]


def wrap(step: Step, configuration: Configuration) -> Step:
    """`step` as the variant runs it."""
    if configuration.variant is Variant.EAGER:
        return step
    # Nothing in it depends on the values of tensors: there is no control flow to be rewritten.
    made: Step = tf.function(
        step, autograph=False, jit_compile=True if configuration.jit_compile else None
    )
    return made
