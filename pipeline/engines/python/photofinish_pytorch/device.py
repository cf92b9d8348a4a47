"""The device of a cell: found, or found missing with a reason."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from photofinish_pytorch.failure import at
from photofinish_worker.outcome import Failure, Kind


@dataclass(frozen=True, slots=True)
class Place:
    """A device that PyTorch can use."""

    device: torch.device

    @property
    def is_cuda(self) -> bool:
        """Whether it is a GPU."""
        return self.device.type == "cuda"

    def casting(self, element: torch.dtype | None) -> AbstractContextManager[object]:
        """Has operators compute in this element type, if any, under autocast."""
        return nullcontext() if element is None else torch.autocast(self.device.type, element)

    def synchronize(self) -> None:
        """Waits until the device has done everything it was asked. A CPU has: PyTorch returns from
        an operator, and from `backward`, when it is done."""
        if self.is_cuda:
            with at("synchronisation"):
                torch.cuda.synchronize(self.device)

    def memory(self) -> tuple[int, int] | None:
        """Bytes in use and at the peak; `None` on a CPU."""
        if not self.is_cuda:
            return None
        return (
            torch.cuda.memory_allocated(self.device),
            torch.cuda.max_memory_allocated(self.device),
        )

    def forget_peak(self) -> None:
        """Begins to look for the peak of memory anew: neither compiling nor trials are steps."""
        if self.is_cuda:
            torch.cuda.reset_peak_memory_stats(self.device)


def find(name: str) -> Place:
    """The device called `cpu` or `cuda:N`."""
    if name == "cpu":
        return Place(torch.device("cpu"))
    index = name.removeprefix("cuda:")
    if not index.isdecimal():
        raise Failure(Kind.UNAVAILABLE, f"there is no {name}")
    if not torch.cuda.is_available():
        raise Failure(Kind.UNAVAILABLE, "PyTorch finds no CUDA device or driver")
    count = torch.cuda.device_count()
    if int(index) >= count:
        reason = f"there is no {name}: PyTorch finds {count} CUDA device(s)"
        raise Failure(Kind.UNAVAILABLE, reason)
    torch.cuda.set_device(int(index))
    return Place(torch.device("cuda", int(index)))
