"""An engine in plain Python: perceptrons in double precision."""

import math
from array import array
from operator import mul

from photofinish_worker.graph import ElementType, Linear, Relu, Stored, Uniform
from photofinish_worker.outcome import unsupported


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def numbers(tensor, weights):
    """A tensor as a list of rows: by the recipe of `models::fill`, or from the file `weights`."""
    fill, count = tensor.fill, math.prod(tensor.shape)
    if isinstance(fill, Stored) and fill.element == ElementType.FLOAT:
        with open(weights, "rb") as file:
            file.seek(fill.offset)
            flat = array("f", file.read(4 * count))
    elif isinstance(fill, Uniform):
        key = 0xCBF29CE484222325
        for byte in tensor.name.encode():
            key = (key ^ byte) * 0x100000001B3 % 2**64
        key, gamma = mix(key), 0x9E3779B97F4A7C15
        draws = (mix((key + i * gamma) % 2**64) >> 40 for i in range(1, count + 1))
        # Arrays round to single precision, as the recipe does after each operation.
        low, high = array("f", [fill.low, fill.high])
        (span,) = array("f", [high - low])
        flat = array("f", [low + part for part in array("f", [span * d / 2**24 for d in draws])])
    else:
        raise unsupported(f"tensor `{tensor.name}` is filled by {type(fill).__name__}")
    width = tensor.shape[-1]
    return [flat[start : start + width] for start in range(0, count, width)]


def linear(x, weight, bias=None):
    columns = list(zip(weight, bias[0] if bias else [0.0] * len(weight), strict=True))
    return [[sum(map(mul, row, column), start) for column, start in columns] for row in x]


def relu(x):
    return [[max(number, 0.0) for number in row] for row in x]


OPERATORS = {Linear: linear, Relu: relu}


class Network:
    """A graph with its numbers."""

    def __init__(self, graph, weights):
        for node in graph.nodes:
            if type(node.op) not in OPERATORS:
                raise unsupported(f"operator {node.op.tag()} of node `{node.name}`")
        for fed in graph.inputs:
            if len(fed.shape) != 2:
                raise unsupported(f"input `{fed.name}` of shape {list(fed.shape)}")
        tensors = (*graph.inputs, *graph.parameters)
        self.values = {tensor.name: numbers(tensor, weights) for tensor in tensors}
        self.nodes, self.outputs = graph.nodes, graph.outputs

    def step(self):
        for node in self.nodes:
            operands = [self.values[name] for name in node.inputs]
            self.values[node.outputs[0]] = OPERATORS[type(node.op)](*operands)
