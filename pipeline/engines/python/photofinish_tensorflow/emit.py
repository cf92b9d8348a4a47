"""Writes down calls of TensorFlow as a flat function, and learns shapes on the way.

What comes out is the Python that a user might have written by hand: nothing of ours runs between
two operators. Each call is also made symbolically, in a graph that is never run, so that a mistake
is found where it is made, with the node's name.
"""

import functools
import itertools
import linecache
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from photofinish_tensorflow.failure import RAISED, classify
from photofinish_worker.outcome import Failure

_FILES = "<lowered "
"""How the names of written functions' files begin."""

_COUNTER = itertools.count()

_NAME = re.compile(r"[a-z]+_\d+(?:_\d+)*")
"""Finds names of values in an expression."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A variable of the function being written."""

    name: str
    meta: Any
    """A symbolic tensor, or several."""

    @property
    def dims(self) -> tuple[int, ...]:
        """Its shape, as it lies."""
        return tuple(self.meta.shape.as_list())

    @property
    def dtype(self) -> tf.DType:
        """Its element type."""
        return self.meta.dtype


@dataclass(frozen=True, slots=True)
class Function:
    """A function that was written."""

    call: Callable[..., Any]
    """Takes the arguments in their order, and gives a tuple."""
    source: str
    file: str
    places: list[str]
    """Operator and node of each line."""

    @contextmanager
    def explained(self, otherwise: str) -> Iterator[None]:
        """Turns what TensorFlow raises inside into the outcome of the cell, with the node's name
        where there is one, else with `otherwise`."""
        try:
            yield
        except Failure:
            raise
        except RAISED as error:
            raise classify(self._place() or otherwise, error) from error

    def _place(self) -> str:
        """The operator and node in which the exception being handled was raised."""
        for frame in reversed(traceback.extract_tb(sys.exc_info()[2])):
            if frame.filename == self.file and frame.lineno is not None:
                return self.places[frame.lineno - 1]
        return ""


@dataclass
class Emitter:
    """A function being written."""

    graph: tf.Graph = field(default_factory=tf.Graph)
    place: str = ""
    """Operator and node that are being written."""
    held: dict[str, Any] = field(default_factory=lambda: {"tf": tf})
    """What the function finds by name: parameters, constants."""
    _arguments: list[str] = field(default_factory=list)
    _lines: list[tuple[str, str, str]] = field(default_factory=list)
    """Variable, expression and place of each line."""
    _name: str = "value"
    _count: int = 0

    def begin(self, place: str, name: str) -> None:
        """The calls to come belong to `place`; their results are called after `name`."""
        self.place, self._name, self._count = place, name, 0

    def argument(self, name: str, dims: tuple[int, ...], element: tf.DType) -> Traced:
        """An argument of the function."""
        self._arguments.append(name)
        return self._symbol(name, dims, element)

    def attribute(self, name: str, value: Any, dims: tuple[int, ...], element: tf.DType) -> Traced:
        """A tensor or a variable that the function finds by name."""
        self.held[name] = value
        return self._symbol(name, dims, element)

    def _symbol(self, name: str, dims: tuple[int, ...], element: tf.DType) -> Traced:
        with self.graph.as_default():
            return Traced(name, tf.compat.v1.placeholder(element, dims))

    def constant(self, value: Any) -> Traced:
        """An array as a constant."""
        name = f"constant_{len(self.held)}"
        made = tf.constant(value)
        return self.attribute(name, made, tuple(made.shape.as_list()), made.dtype)

    def call(self, function: str, *arguments: Any, **named: Any) -> Traced:
        """A call of a function of TensorFlow's, for example `tf.nn.relu`."""
        written = [_written(argument) for argument in arguments]
        written += [f"{name}={_written(value)}" for name, value in named.items()]
        target = functools.reduce(getattr, function.split(".")[1:], tf)
        with self.graph.as_default():
            metas = {name: _meta(value) for name, value in named.items()}
            meta = target(*(_meta(argument) for argument in arguments), **metas)
        return self._line(f"{function}({', '.join(written)})", meta)

    def held_call(self, name: str, function: Callable[..., Any], *arguments: Traced) -> Traced:
        """A call of a function that the written one finds by name: a layer, say."""
        name = f"{name}_{len(self.held)}"
        self.held[name] = function
        with self.graph.as_default():
            meta = function(*(argument.meta for argument in arguments))
        return self._line(f"{name}({', '.join(argument.name for argument in arguments)})", meta)

    def part(self, whole: Traced, index: int) -> Traced:
        """One of the results of a call that gives several."""
        return self._line(f"{whole.name}[{index}]", whole.meta[index])

    def _line(self, expression: str, meta: Any) -> Traced:
        name = f"{self._name}_{self._count}"
        self._count += 1
        self._lines.append((name, expression, self.place))
        return Traced(name, meta)

    def finish(self, outputs: list[Traced]) -> Function:
        """The function, which gives these as a tuple. A value is let go after its last reader."""
        result = "".join(f"{output.name}, " for output in outputs)
        file = f"{_FILES}{next(_COUNTER)}>"
        lines = [f"def lowered({', '.join(self._arguments)}):"]
        places = [""]
        last = _last_readers([line[1] for line in self._lines], {line[0] for line in self._lines})
        returned = {output.name for output in outputs}
        for index, (name, expression, place) in enumerate(self._lines):
            lines.append(f"    {name} = {expression}")
            places.append(place)
            over = [value for value in last.get(index, ()) if value not in returned]
            if over:
                lines.append(f"    del {', '.join(over)}")
                places.append(place)
        lines.append(f"    return ({result})")
        places.append("")
        source = "\n".join(lines) + "\n"
        # Where Python looks for the lines that it shows in a traceback.
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        namespace = dict(self.held)
        exec(compile(source, file, "exec"), namespace)  # noqa: S102 - written here, of fixed words
        return Function(namespace["lowered"], source, file, places)


def _last_readers(expressions: list[str], made: set[str]) -> dict[int, list[str]]:
    """For each line the values that no later one reads."""
    seen: set[str] = set()
    last: dict[int, list[str]] = {}
    for index in reversed(range(len(expressions))):
        for name in dict.fromkeys(_NAME.findall(expressions[index])):
            if name in made and name not in seen:
                seen.add(name)
                last.setdefault(index, []).append(name)
    return last


def _meta(argument: Any) -> Any:
    if isinstance(argument, Traced):
        return argument.meta
    if isinstance(argument, list | tuple):
        return [_meta(part) for part in argument]
    return argument


def _written(argument: Any) -> str:
    """An argument as Python writes it; only what is listed here ever becomes code."""
    if isinstance(argument, Traced):
        return argument.name
    if isinstance(argument, list | tuple):
        return f"[{', '.join(_written(part) for part in argument)}]"
    if isinstance(argument, float):
        return repr(argument) if abs(argument) < float("inf") else f'float("{argument}")'
    if argument is None or isinstance(argument, bool | int):
        return repr(argument)
    if isinstance(argument, str) and argument.isidentifier():
        return repr(argument)
    raise TypeError(f"{type(argument).__name__} is no argument of a written call")
