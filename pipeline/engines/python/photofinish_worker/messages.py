"""What the supervisor says, as `schema::protocol` and `schema::cell` define it."""

from dataclasses import dataclass
from enum import StrEnum

from photofinish_worker.decode import Tagged
from photofinish_worker.graph import Graph

VERSION = 9
"""Version of the protocol."""

MAX_MESSAGE_BYTES = 64 << 20
"""The longest message that either side accepts, its newline included."""

CONTROL_VARIABLE = "PHOTOFINISH_CONTROL"
"""Names the socket to speak over, where standard input and output are not private."""


class Precision(StrEnum):
    """Arithmetic of weights and activations."""

    FP64 = "fp64"
    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"
    INT8_DYNAMIC = "int8-dynamic"
    INT8_STATIC = "int8-static"


class Mode(StrEnum):
    """What a step does."""

    INFERENCE = "inference"
    TRAINING = "training"


class HostLanguage(StrEnum):
    """The language that drives the engine."""

    RUST = "rust"
    PYTHON = "python"
    OTHER = "other"


class Strategy(StrEnum):
    """How training is spread over workers."""

    SINGLE = "single"
    ACCUMULATED = "accumulated"
    DATA_PARALLEL = "data_parallel"
    DDP = "ddp"


class Boundary(StrEnum):
    """Where the clock starts and stops."""

    STEP = "step"
    DEVICE = "device"
    REQUEST = "request"


class ModelSource(StrEnum):
    """Where a network came from."""

    ZOO = "zoo"
    ONNX = "onnx"


@dataclass(frozen=True, slots=True)
class Weights:
    """A file of weights, as the manifest names it, and the hash of its content."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class Model:
    """A name to show, and the hash of the graph that it stands for."""

    name: str
    source: ModelSource
    graph: str
    weights: Weights | None = None
    """The user's weights for a network of the zoo, which `ModelFiles` has."""


@dataclass(frozen=True, slots=True)
class Sgd(Tagged):
    """Stochastic gradient descent with momentum and L2 penalty."""

    learning_rate: float
    momentum: float
    weight_decay: float


@dataclass(frozen=True, slots=True)
class Adam(Tagged):
    """Adam, with bias correction and L2 penalty added to the gradient."""

    learning_rate: float
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float


Optimizer = Sgd | Adam


@dataclass(frozen=True, slots=True)
class Cell:
    """One fully resolved configuration: what a worker is asked to run."""

    model: Model
    dims: dict[str, int]
    precision: Precision
    mode: Mode
    optimizer: Sgd | Adam | None
    engine: str
    """Engine and variant, for example `pytorch/compiled`."""
    host_language: HostLanguage
    device: str
    """`cpu`, or `cuda:N`."""
    threads: int
    strategy: Strategy
    world_size: int
    boundary: Boundary
    factors: dict[str, str]


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files of a model that the user brought, or whose numbers were computed beforehand, to be
    read."""

    weights: str
    """The numbers of the parameters whose fill is `Stored`."""
    onnx: str | None
    """The user's file as it is; absent where the graph is not, or no longer, that of a file."""
    precision: Precision
    """What floats are in that file."""


@dataclass(frozen=True, slots=True)
class Load(Tagged):
    """Build the network and make it ready to run. Once a process."""

    cell: Cell
    graph: Graph
    files: ModelFiles | None
    scratch: str


@dataclass(frozen=True, slots=True)
class Parity(Tagged):
    """Run once on the standard input, or train for `steps` iterations; write the outputs."""

    path: str
    steps: int


@dataclass(frozen=True, slots=True)
class Reset(Tagged):
    """Put parameters and optimiser back to their initial state."""


@dataclass(frozen=True, slots=True)
class WarmUp(Tagged):
    """Run until the step time is steady, within limits."""

    min_steps: int
    max_ns: int
    tolerance: float


@dataclass(frozen=True, slots=True)
class Measure(Tagged):
    """Time steps until both minima are reached, or the maximum is."""

    discard: int
    min_steps: int
    min_ns: int
    max_steps: int


@dataclass(frozen=True, slots=True)
class Profile(Tagged):
    """Run steps under the engine's own profiler, and tell where their time went."""

    steps: int


@dataclass(frozen=True, slots=True)
class Exchanges(Tagged):
    """Run steps of several ranks, and tell what they exchanged and when."""

    steps: int


@dataclass(frozen=True, slots=True)
class Memory(Tagged):
    """Tell memory use."""


@dataclass(frozen=True, slots=True)
class Cancel(Tagged):
    """End the request in progress early."""


@dataclass(frozen=True, slots=True)
class Bye(Tagged):
    """Leave."""


Request = Load | Parity | Reset | WarmUp | Measure | Profile | Exchanges | Memory | Cancel | Bye
