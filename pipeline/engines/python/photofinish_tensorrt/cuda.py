"""The CUDA runtime, as far as an engine needs one: a card, a stream, memory."""

import ctypes
from typing import Any

from cuda.bindings import runtime
from numpy.typing import NDArray

from photofinish_tensorrt.failure import classify
from photofinish_worker.outcome import Failure, Kind

DRIVER = "libcuda.so.1"


class Card:
    """A GPU with a stream of its own."""

    def __init__(self, index: int, cuda: Any = runtime) -> None:
        self.cuda = cuda
        self.check("the card", cuda.cudaSetDevice(index))
        properties = self.check("the card", cuda.cudaGetDeviceProperties(index))
        self.name = properties.name.decode(errors="replace")
        self.capability = f"{properties.major}.{properties.minor}"
        self.driver = self.check("the driver", cuda.cudaDriverGetVersion())
        flags = cuda.cudaStreamNonBlocking
        self.stream = self.check("a stream", cuda.cudaStreamCreateWithFlags(flags))
        self.bytes = 0
        """Held by buffers."""

    def check(self, place: str, answer: tuple[Any, ...]) -> Any:
        """The value that a call of the runtime gave, or the outcome that its error stands for."""
        status, *values = answer
        if status != self.cuda.cudaError_t.cudaSuccess:
            _, words = self.cuda.cudaGetErrorString(status)
            raise classify(place, f"{words.decode()} ({status.name})")
        return values[0] if values else None

    def room(self, name: str, size: int) -> int:
        """The address of `size` bytes on the card, which are held as long as the process lives."""
        # The runtime gives no address for nothing.
        address = self.check(name, self.cuda.cudaMalloc(max(1, size)))
        self.bytes += size
        return int(address)

    def put(self, name: str, array: NDArray[Any]) -> int:
        """The address of a copy of `array` on the card."""
        address = self.room(name, array.nbytes)
        kind = self.cuda.cudaMemcpyKind.cudaMemcpyHostToDevice
        source = array.ctypes.data
        self.check(name, self.cuda.cudaMemcpy(address, source, array.nbytes, kind))
        return address

    def get(self, name: str, address: int, array: NDArray[Any]) -> None:
        """Fills `array` with what is at an address on the card."""
        kind = self.cuda.cudaMemcpyKind.cudaMemcpyDeviceToHost
        target = array.ctypes.data
        self.check(name, self.cuda.cudaMemcpy(target, address, array.nbytes, kind))


def find(name: str, cuda: Any = runtime, driver: str = DRIVER) -> Card:
    """The card called `cuda:N`; `unavailable` without it, or without NVIDIA's driver."""
    index = name.removeprefix("cuda:")
    if not index.isdecimal():
        raise Failure(Kind.UNAVAILABLE, f"there is no {name}")
    try:
        ctypes.CDLL(driver)
    except OSError as error:
        reason = f"NVIDIA's driver is not on this machine: {error}"
        raise Failure(Kind.UNAVAILABLE, reason) from error
    status, count = cuda.cudaGetDeviceCount()
    if status != cuda.cudaError_t.cudaSuccess:
        _, words = cuda.cudaGetErrorString(status)
        raise Failure(Kind.UNAVAILABLE, f"CUDA finds no device: {words.decode()}")
    if int(index) >= count:
        reason = f"there is no {name}: CUDA finds {count} device(s)"
        raise Failure(Kind.UNAVAILABLE, reason)
    return Card(int(index), cuda)
