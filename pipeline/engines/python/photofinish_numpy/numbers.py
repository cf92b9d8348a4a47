"""The numbers of a tensor, wherever they come from."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from photofinish_numpy import fill
from photofinish_worker import stored
from photofinish_worker.graph import ElementType, Input, Parameter, Stored


def of(wanted: Parameter | Input, floats: bool, weights: str | None) -> NDArray[Any]:
    """Binary32 numbers or 64-bit integers in the tensor's shape: by its recipe, or from the file of
    the user's own `weights`."""
    recipe = wanted.fill
    if isinstance(recipe, Stored) and weights is not None:
        data = stored.read(weights, wanted.name, recipe, wanted.shape)
        element = "<i8" if recipe.element is ElementType.INT64 else "<f4"
        return np.frombuffer(data, dtype=element).reshape(wanted.shape)
    if floats:
        return fill.floats(wanted.name, recipe, wanted.shape)
    return fill.integers(wanted.name, recipe, wanted.shape)
