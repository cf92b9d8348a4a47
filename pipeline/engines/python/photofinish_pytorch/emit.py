"""Writes down calls of PyTorch as a flat function, and learns shapes on the way.

`torch.fx` keeps the calls and generates the Python that a user might have written by hand; values
are let go after their last reader. Each call also runs on tensors without memory (the `meta`
device), so that a mistake is found where it is made, with the node's name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the function being written."""

    node: fx.Node
    meta: torch.Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(self.meta.shape)


@dataclass(frozen=True, slots=True)
class Flag:
    """An argument that is true or false, decided when the function is called."""

    node: fx.Node


def broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape to which all of these broadcast."""
    return tuple(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]


class Emitter:
    """A function being written."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.place = ""
        """Operator and node that are being written."""
        self.places: dict[str, str] = {}
        """Which operator and node each variable of the function belongs to."""
        self._name = "value"

    def begin(self, place: str, name: str) -> None:
        """The calls to come belong to `place`; their results are called `name`."""
        self.place, self._name = place, name

    def argument(self, name: str, meta: torch.Tensor) -> Value:
        """An argument of the function."""
        return Value(self.graph.create_node("placeholder", name, name=name), meta)

    def flag(self, name: str) -> Flag:
        """An argument that is true or false."""
        return Flag(self.graph.create_node("placeholder", name, name=name))

    def attribute(self, name: str, meta: torch.Tensor) -> Value:
        """A tensor that the module holds."""
        return Value(self.graph.create_node("get_attr", name, name=name), meta)

    def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Value:
        """A call of a function."""
        return self._create("call_function", function, function, arguments, named)

    def method(self, name: str, *arguments: Any, **named: Any) -> Value:
        """A call of a tensor's method."""
        return self._create("call_method", name, getattr(torch.Tensor, name), arguments, named)

    def finish(self, outputs: list[Value]) -> None:
        """The function gives these, as a tuple."""
        self.graph.output(tuple(value.node for value in outputs))

    def _create(
        self,
        kind: str,
        target: Any,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        named: dict[str, Any],
    ) -> Value:
        with torch.no_grad():
            meta = function(*_metas(arguments), **{k: _metas(v) for k, v in named.items()})
        node = self.graph.create_node(
            kind,
            target,
            _nodes(arguments),
            {name: _nodes(value) for name, value in named.items()},
            name=self._name,
        )
        self.places[node.name] = self.place
        return Value(node, meta)


def _metas(argument: Any) -> Any:
    if isinstance(argument, Value):
        return argument.meta
    if isinstance(argument, Flag):
        return False
    if isinstance(argument, tuple):
        return tuple(_metas(part) for part in argument)
    return argument


def _nodes(argument: Any) -> Any:
    if isinstance(argument, Value | Flag):
        return argument.node
    if isinstance(argument, tuple):
        return tuple(_nodes(part) for part in argument)
    return argument
