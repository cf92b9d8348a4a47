"""What a step begins and ends with besides its work: its timing boundary."""

from collections.abc import Iterable
from typing import Protocol

import torch

from photofinish_pytorch.device import Place
from photofinish_pytorch.events import Events
from photofinish_pytorch.exchange import Exchange
from photofinish_worker.messages import Boundary


class Edges(Protocol):
    """Both ends of a step."""

    def begin(self, fed: Iterable[torch.Tensor]) -> None:
        """Before the work, which reads `fed`."""

    def end(self, outputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """After the work; gives `outputs` where the caller finds them."""
        ...

    def device_ns(self) -> int | None:
        """What the last step took by the device's own clock, where that is its sample. The device
        must be done."""
        ...


def edges(boundary: Boundary, place: Place, fed: Iterable[torch.Tensor]) -> Edges | None:
    """Those of steps at `boundary`, which read what `fed` holds; at `step` there are none."""
    match boundary:
        case Boundary.STEP:
            return None
        case Boundary.DEVICE:
            return Events(place)
        case Boundary.REQUEST:
            return Exchange(fed)
