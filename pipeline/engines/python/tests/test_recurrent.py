"""The weights of recurrent layers on a GPU, played by a CPU."""

import unittest
from unittest import mock

import torch

from photofinish_pytorch import recurrent
from photofinish_pytorch.device import Place
from photofinish_pytorch.engine import distinct
from photofinish_pytorch.maker import Maker
from tests.sketch import graph, node, value, weight

GATES = {"LSTM": 4, "GRU": 3}


def flattened(op: str, bidirectional: bool, device: str = "cuda:0") -> list[list[object]]:
    """What is asked of cuDNN for a layer of 5 numbers and a state of 7, weights by their shapes."""
    rows, ways = GATES[op] * 7, "ab" if bidirectional else "a"
    shapes = {"w": [rows, 5], "r": [rows, 7], "p": [rows], "q": [rows]}
    parameters = [weight(f"{way}{name}", shape) for way in ways for name, shape in shapes.items()]
    names = [parameter["name"] for parameter in parameters]
    layer = {op: {"bidirectional": bidirectional}}
    network = graph([value("x", [2, 3, 5])], parameters, [node(layer, ["x", *names], "y")])
    maker = Maker(torch.device("cpu"), torch.float32, False, None)
    held = {parameter.name: maker.parameter(parameter) for parameter in distinct(network)}
    asked: list[list[object]] = []

    def play(weights: list[torch.Tensor], *rest: object) -> None:
        assert all(weight is held[name] for weight, name in zip(weights, names, strict=True))
        asked.append([[tuple(weight.shape) for weight in weights], *rest])

    with (
        mock.patch.object(torch, "_cudnn_rnn_flatten_weight", play),
        mock.patch.object(recurrent, "_is_acceptable", lambda _: True),
    ):
        recurrent.flatten(network, held, Place(torch.device(device)))
    return asked


class Flattening(unittest.TestCase):
    def test_cudnn_is_asked_as_by_pytorch_s_own_modules(self) -> None:
        shapes = [(28, 5), (28, 7), (28,), (28,)]
        # Weights of a layer and direction, numbers of an input, mode, numbers of a state, of which
        # projected, layers, batch first, both directions.
        self.assertEqual(flattened("LSTM", False), [[shapes, 4, 5, 2, 7, 0, 1, True, False]])
        shapes = [(21, 5), (21, 7), (21,), (21,)]
        self.assertEqual(flattened("GRU", True), [[shapes * 2, 4, 5, 3, 7, 0, 1, True, True]])

    def test_a_cpu_s_weights_stay_where_they_are(self) -> None:
        self.assertEqual(flattened("LSTM", False, "cpu"), [])
