"""What an engine implements; `serve` does the rest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from photofinish_worker.messages import Load


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a worker is: a `hello` without the protocol's version."""

    engine: str
    versions: Mapping[str, str]
    worker: str | None
    """Hash of what the worker is made of."""
    variants: Sequence[str]


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What an engine tells of getting ready; the loop times the first step itself."""

    fill_ns: int
    build_ns: int
    compile_ns: int
    threads: int | None
    spin: str
    """How idle threads wait."""
    settings: Mapping[str, str]


class Quantity(StrEnum):
    """What a tensor of a parity file is."""

    OUTPUT = "output"
    GRADIENT = "gradient"
    MOVEMENT = "movement"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor on its way to a parity file."""

    quantity: Quantity
    name: str
    shape: Sequence[int]
    element: str
    """`f32` or `f64`; narrower types are widened before they get here."""
    data: bytes
    """Row-major, little-endian."""


@dataclass(frozen=True, slots=True)
class ParityData:
    """Outputs, for comparison with the reference's."""

    tensors: Sequence[Tensor]
    losses: Sequence[float] = field(default_factory=tuple)


class Session(Protocol):
    """A network that is ready to run."""

    def step(self) -> None:
        """One synchronous step. The clock runs exactly while this does."""

    def parity(self, steps: int) -> ParityData:
        """Runs for the sake of the outputs, from the initial state, and leaves it in that.

        Inference: one step on the standard input; the graph's outputs. Training: `steps`
        iterations, dropout off; for every weight its gradient in the first iteration and its final
        value minus its initial one, for every buffer its value after the first iteration minus its
        initial one, and the loss of each iteration before its update.
        """
        ...

    def reset(self) -> None:
        """Puts parameters, buffers and optimiser back to their initial state."""

    def device_memory(self) -> tuple[int, int] | None:
        """Bytes in use on the device and their peak; `None` on a CPU."""
        ...


@runtime_checkable
class TrainingSession(Session, Protocol):
    """A network that a step trains."""

    def diverged(self) -> str | None:
        """The first weight that holds anything but finite numbers, if one does.

        The loop asks after each measurement, outside of the clock: where a training has diverged,
        times are those of arithmetic on infinities and NaN.
        """
        ...


@dataclass(frozen=True, slots=True)
class BucketExchange:
    """A bucket of gradients on its way to the other ranks and back."""

    bucket: int
    """Its number: buckets go out in this order."""
    bytes: int
    """What goes out."""
    began_ns: int
    """When it was handed over."""
    ended_ns: int
    """When it was back."""


@dataclass(frozen=True, slots=True)
class StepExchanges:
    """A step of one rank, in nanoseconds from its beginning by that rank's own clock."""

    wall_ns: int
    """How long it took."""
    backward_ns: int
    """When the backward pass began."""
    buckets: Sequence[BucketExchange]


@runtime_checkable
class RankedSession(Session, Protocol):
    """A network that several ranks train."""

    def align(self) -> None:
        """Waits until all ranks are here: asked before each stretch of steps, outside of the clock,
        so that no step waits for a rank that had not heard of it yet."""

    @property
    def notes_exchanges(self) -> bool:
        """Whether it can tell when its buckets go out and are back."""
        ...

    def exchanges(self, steps: int) -> Sequence[StepExchanges]:
        """Runs so many steps on all ranks, and tells what this one exchanged in each."""
        ...


@runtime_checkable
class TimedSession(Session, Protocol):
    """A network whose device has a clock of its own."""

    def device_ns(self) -> int | None:
        """What the last step took by that clock: its sample at the boundary `device`.

        The loop asks after each step that it times, outside of its own clock. `None` at the other
        boundaries, where that clock tells the sample.
        """
        ...


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """Something that an engine spent time on."""

    name: str
    """As the engine says it."""
    nodes: frozenset[str]
    """The nodes of the graph that it computed, or a part of them; none: overhead."""
    time_ns: int
    """In all profiled steps, without what other entries tell."""
    calls: int
    conversion: bool
    """Whether it only brings numbers into another layout, precision or memory."""


@dataclass(frozen=True, slots=True)
class ProfileData:
    """Where the time of profiled steps went."""

    wall_ns: int
    """Time of the steps."""
    kernels: int
    """Kernels launched in them."""
    entries: Sequence[ProfileEntry]


@runtime_checkable
class ProfilingSession(Session, Protocol):
    """A network whose engine has a profiler that can be mapped to nodes of the graph."""

    def profile(self, steps: int) -> ProfileData:
        """Runs so many steps under the profiler, each as `step` runs it."""
        ...


class Engine(Protocol):
    """An engine before it has a network. Making one must be cheap and silent."""

    def hello(self) -> Identity:
        """Who this worker is. Called once, first; may import the engine's library."""
        ...

    def load(self, load: Load) -> tuple[Session, LoadReport]:
        """Builds the cell's network, ready for its first step. Called at most once."""
        ...
