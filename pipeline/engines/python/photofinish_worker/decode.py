"""Strict reading of JSON into typed objects.

The types say everything: a dataclass is an object with exactly its fields, a `Tagged` dataclass is
serde's externally tagged variant (`{"measure": {…}}`, or `"reset"` where it has no fields), a union
is a choice of those. `int` is an unsigned and `Signed` a signed 64-bit integer; `float` is finite.
"""

import dataclasses
import json
import math
import re
import types
from enum import Enum
from functools import cache
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

Signed = NewType("Signed", int)
"""A signed 64-bit integer."""

Json = object
"""What the standard library reads out of JSON."""


class Tagged:
    """A variant of a choice. Its tag is the class's name in snake case."""

    __slots__ = ()

    @classmethod
    def tag(cls) -> str:
        """The word that names the variant."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


class Mismatch(Exception):
    """The JSON is not what the type says."""


def message(kind: Any, line: bytes) -> object:
    """Reads one message as a `kind`, which may be a union."""
    try:
        value: Json = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Mismatch(f"not JSON: {error}") from error
    return decode(kind, value, "message")


def _no_constant(word: str) -> object:
    raise ValueError(f"{word} is no number of JSON's")


def decode(kind: Any, value: Json, place: str) -> object:
    """Reads `value` as a `kind`; `place` names it in complaints."""
    if kind is int:
        return _integer(value, 0, 2**64, place)
    if kind is Signed:
        return _integer(value, -(2**63), 2**63, place)
    if kind is float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
            raise Mismatch(f"{place} is no finite number")
        return float(value)
    if kind in (str, bool):
        if type(value) is not kind:
            raise Mismatch(f"{place} is no {'text' if kind is str else 'true or false'}")
        return value
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError as error:
            raise Mismatch(f"{place}: {error}") from error
    origin = get_origin(kind)
    if origin is tuple:
        return _tuple(get_args(kind), value, place)
    if origin is dict:
        key, item = get_args(kind)
        if key is not str or not isinstance(value, dict):
            raise Mismatch(f"{place} is no object")
        return {name: decode(item, part, f"{place}.{name}") for name, part in value.items()}
    if origin in (Union, types.UnionType):
        choices = get_args(kind)
        if types.NoneType in choices:
            if value is None:
                return None
            choices = tuple(choice for choice in choices if choice is not types.NoneType)
            if len(choices) == 1:
                return decode(choices[0], value, place)
        return _choice(choices, value, place)
    if isinstance(kind, type) and issubclass(kind, Tagged):
        return _choice((kind,), value, place)
    return _object(kind, value, place)


def _integer(value: Json, least: int, bound: int, place: str) -> int:
    if type(value) is not int or not least <= value < bound:
        raise Mismatch(f"{place} is no integer from {least} to {bound - 1}")
    return value


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _tuple(kinds: tuple[Any, ...], value: Json, place: str) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise Mismatch(f"{place} is no list")
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        raise Mismatch(f"{place} has {len(value)} entries instead of {len(kinds)}")
    parts = enumerate(zip(kinds, value, strict=True))
    return tuple(decode(kind, part, f"{place}[{index}]") for index, (kind, part) in parts)


def _choice(choices: tuple[Any, ...], value: Json, place: str) -> object:
    if isinstance(value, str):
        tag, fields = value, None
    elif isinstance(value, dict) and len(value) == 1:
        ((tag, fields),) = value.items()
        if not isinstance(fields, dict):
            raise Mismatch(f"{place}.{tag} is no object")
    else:
        raise Mismatch(f"{place} is neither a word nor an object of one field")
    for choice in choices:
        if choice.tag() == tag:
            # A variant without fields is a word, one with fields is never.
            if bool(_fields(choice)) == (fields is None):
                raise Mismatch(f"{place}: `{tag}` is not written like this")
            return _object(choice, fields or {}, f"{place}.{tag}")
    raise Mismatch(f"{place}: unknown variant `{tag[:100]}`")


def _object(kind: Any, value: Json, place: str) -> object:
    if not isinstance(value, dict):
        raise Mismatch(f"{place} is no object")
    fields = _fields(kind)
    unknown = next((name for name in value if name not in fields), None)
    if unknown is not None:
        raise Mismatch(f"{place}: unknown field `{unknown[:100]}`")
    read = {}
    for name, type_ in fields.items():
        if name not in value and types.NoneType not in get_args(type_):
            raise Mismatch(f"{place}: field `{name}` is missing")
        read[name] = decode(type_, value.get(name), f"{place}.{name}")
    return kind(**read)


@cache
def _fields(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}
