"""What tests of PyTorch's engine share: sessions of small networks. Needs PyTorch."""

import array

import torch

from photofinish_pytorch import fill
from photofinish_pytorch.device import find
from photofinish_pytorch.inference import Inference
from photofinish_pytorch.lower import Lowered, lower
from photofinish_pytorch.maker import Maker
from photofinish_pytorch.training import Training
from photofinish_worker.graph import Graph, Uniform
from photofinish_worker.messages import Boundary, Mode, Optimizer

CPU = find("cpu")


def lowered(network: Graph, mode: Mode, element: torch.dtype = torch.float64) -> Lowered:
    maker = Maker(CPU.device, element, False)
    tensors = {held.name: maker.parameter(held) for held in network.parameters}
    return lower(network, mode, tensors)


def inference(network: Graph, boundary: Boundary = Boundary.STEP) -> Inference:
    maker = Maker(CPU.device, torch.float64, False)
    ready = lowered(network, Mode.INFERENCE)
    return Inference(network, ready, ready.module, maker, CPU, boundary)


def outputs(network: Graph) -> torch.Tensor:
    """The first output of an inference in binary64."""
    session = inference(network)
    (told,) = session.parity(0).tensors
    return torch.tensor(array.array("d", told.data), dtype=torch.float64).reshape(tuple(told.shape))


def training(network: Graph, optimizer: Optimizer, boundary: Boundary = Boundary.STEP) -> Training:
    maker = Maker(CPU.device, torch.float64, False)
    ready = lowered(network, Mode.TRAINING)
    return Training(network, optimizer, ready, ready.module, maker, CPU, boundary)


def number(name: str, shape: list[int], low: float = -1.0, high: float = 1.0) -> torch.Tensor:
    return fill.floats(name, Uniform(low, high), tuple(shape)).to(torch.float64)
