"""The timing boundary `request`: numbers come from the caller's memory and go back to it."""

from collections.abc import Iterable

import torch

from photofinish_pytorch.failure import at


class Exchange:
    """The caller's memory: pageable, on the host, each tensor as it lies on the device."""

    def __init__(self, fed: Iterable[torch.Tensor]) -> None:
        """Takes what `fed` holds: nothing is left of it there before it is sent."""
        with at("inputs"):
            fed = tuple(fed)
            self._sent = [_copied(tensor) for tensor in fed]
            for tensor in fed:
                # Ids that are zero are ids.
                tensor.zero_()
        self._received: tuple[torch.Tensor, ...] | None = None

    def begin(self, fed: Iterable[torch.Tensor]) -> None:
        """Copies what is sent into `fed`, which PyTorch reads: as many tensors, in order."""
        with at("inputs"), torch.no_grad():
            for sent, tensor in zip(self._sent, fed, strict=True):
                tensor.copy_(sent)

    def end(self, outputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Copies `outputs` to the caller's memory, which is found at the first call.

        From a device it returns when they are there.
        """
        with at("outputs"), torch.no_grad():
            if self._received is None:
                self._received = tuple(_copied(tensor) for tensor in outputs)
            else:
                for room, tensor in zip(self._received, outputs, strict=True):
                    room.copy_(tensor)
            return self._received

    def device_ns(self) -> None:
        """The host's clock tells how long a request takes."""


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers of a tensor in memory of their own, on the host, in the same order."""
    return tensor.detach().to("cpu", copy=True)
