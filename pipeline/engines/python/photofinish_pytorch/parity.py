"""Tensors on their way to a parity file."""

import ctypes

import torch

from photofinish_pytorch.failure import at
from photofinish_worker.engine import Quantity, Tensor


def output(quantity: Quantity, name: str, tensor: torch.Tensor) -> Tensor:
    """Copies `tensor` to the host: fp64 as it is, everything else widened to binary32."""
    with at(name):
        wide = tensor.dtype == torch.float64
        host = tensor.detach().to("cpu", torch.float64 if wide else torch.float32)
        # Row-major, however it lies in memory.
        host = host.contiguous()
        data = ctypes.string_at(host.data_ptr(), host.numel() * host.element_size())
    return Tensor(quantity, name, tuple(tensor.shape), "f64" if wide else "f32", data)


def change(quantity: Quantity, name: str, after: torch.Tensor, before: torch.Tensor) -> Tensor:
    """`after` minus `before`, without the rounding of a narrow precision."""
    with at(name):
        difference = after.detach().to(torch.float64) - before.detach().to(torch.float64)
        if after.dtype != torch.float64:
            difference = difference.to(torch.float32)
    return output(quantity, name, difference)
