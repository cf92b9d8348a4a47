"""The timing boundary `device`: two events on the device's stream, and the time between them."""

from collections.abc import Iterable

import torch

from photofinish_pytorch.device import Place
from photofinish_pytorch.failure import at
from photofinish_worker.outcome import unsupported


class Events:
    """One before the work of a step and one after it, on the stream that it is queued on."""

    def __init__(self, place: Place) -> None:
        if not place.is_cuda:
            raise unsupported("a CPU has no events")
        self._device = place.device
        with at("events"):
            self._before = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            self._after = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]

    def begin(self, fed: Iterable[torch.Tensor]) -> None:
        """What is asked of the device from here on comes after the first event."""
        del fed
        self._before.record(torch.cuda.current_stream(self._device))

    def end(self, outputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """What was asked of it before comes before the second."""
        self._after.record(torch.cuda.current_stream(self._device))
        return outputs

    def device_ns(self) -> int:
        """From the one to the other; an error unless the device has passed both."""
        with at("events"):
            milliseconds: float = self._before.elapsed_time(self._after)
        return round(milliseconds * 1e6)
