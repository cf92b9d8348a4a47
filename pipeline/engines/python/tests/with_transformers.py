"""What tests of Transformers' engine share: cells, models, and what our own lowering of the same
graph computes. Needs Transformers."""

import dataclasses
import tempfile
from typing import Any
from unittest import mock

import torch

from photofinish_pytorch.device import find
from photofinish_pytorch.inference import Inference
from photofinish_pytorch.lower import lower
from photofinish_pytorch.maker import Maker
from photofinish_pytorch.training import Training
from photofinish_transformers import network
from photofinish_transformers.configuration import Configuration, understand
from photofinish_transformers.engine import Transformers
from photofinish_transformers.network import Network
from photofinish_transformers.trainer import Trained
from photofinish_transformers.training import Loop
from photofinish_worker.decode import decode
from photofinish_worker.engine import LoadReport, ParityData, Session
from photofinish_worker.graph import Expand, Graph
from photofinish_worker.messages import Cell, Load, Mode, Sgd
from tests import sketch

CPU = find("cpu")
SGD = Sgd(0.1, 0.9, 0.0)

CELL: dict[str, Any] = {
    **sketch.CELL,
    "model": {"name": "bert_tiny", "source": "zoo", "graph": "00"},
    "dims": {"batch": 4, "seq": 3},
    "precision": "fp64",
    "engine": "transformers/model",
    "factors": {},
}

# Networks this small only wait for further threads.
torch.set_num_threads(1)


def understood(**changes: Any) -> Configuration:
    cell = decode(Cell, {**CELL, **changes}, "cell")
    assert isinstance(cell, Cell)
    return understand(cell)


def configured(name: str, mode: Mode, **factors: str) -> Configuration:
    sgd = {"sgd": dataclasses.asdict(SGD)} if mode is Mode.TRAINING else None
    model = {"name": name, "source": "zoo", "graph": "00"}
    return understood(model=model, mode=mode.value, optimizer=sgd, factors=factors)


def maker() -> Maker:
    return Maker(CPU.device, torch.float64, False)


def built(graph: Graph, mode: Mode, **factors: str) -> Network:
    configuration = configured(graph.name, mode, **factors)
    return network.build(graph, configuration, maker(), CPU.device)


def trained(graph: Graph, by_trainer: bool = False, **factors: str) -> Loop:
    model = built(graph, Mode.TRAINING, **factors)
    parts = int(factors.get("gradient_accumulation", "1"))
    if by_trainer:
        return Trained(graph, SGD, model, parts, maker(), CPU, tempfile.gettempdir(), mixed=False)
    return Loop(graph, SGD, model, parts, maker(), CPU)


def sized(graph: Graph, batch: int) -> Graph:
    """The same network for another batch."""
    inputs = tuple(dataclasses.replace(fed, shape=(batch, *fed.shape[1:])) for fed in graph.inputs)
    nodes = tuple(
        dataclasses.replace(node, op=Expand((batch, *node.op.shape[1:])))
        if isinstance(node.op, Expand)
        else node
        for node in graph.nodes
    )
    return dataclasses.replace(graph, inputs=inputs, nodes=nodes)


def loaded(graph: Graph, cell: dict[str, Any], scratch: str = "/") -> tuple[Session, LoadReport]:
    """What the worker makes of a cell."""
    read = decode(Cell, cell, "cell")
    assert isinstance(read, Cell)
    # The threads between operators are set once a process.
    with mock.patch("torch.set_num_interop_threads"):
        return Transformers().load(Load(read, graph, None, scratch))


def expected(graph: Graph, mode: Mode) -> ParityData:
    """What PyTorch computes without Transformers."""
    tensors = {held.name: maker().parameter(held) for held in graph.parameters}
    ready = lower(graph, mode, tensors)
    if mode is Mode.INFERENCE:
        return Inference(graph, ready, ready.module, maker(), CPU).parity(0)
    return Training(graph, SGD, ready, ready.module, maker(), CPU).parity(3)
