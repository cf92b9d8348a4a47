"""The engine-neutral graph, as `schema::graph` defines it: operators with ONNX's names and
attribute meanings. Shapes are resolved; nodes are in topological order."""

from dataclasses import dataclass, replace
from enum import StrEnum

from photofinish_worker.decode import Signed, Tagged

Pair = tuple[int, int]
Sides = tuple[int, int, int, int]
"""Top, left, bottom, right."""


class ElementType(StrEnum):
    """Element type of an input; floating-point values take the cell's precision."""

    FLOAT = "float"
    INT64 = "int64"


class Role(StrEnum):
    """What training does to a parameter."""

    WEIGHT = "weight"
    BUFFER = "buffer"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class Uniform(Tagged):
    """Numbers, uniform in `[low, high)`; both are binary32."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Integers(Tagged):
    """Integers, uniform in `0..bound`."""

    bound: int


@dataclass(frozen=True, slots=True)
class Constant(Tagged):
    """The same binary32 number everywhere."""

    value: float


@dataclass(frozen=True, slots=True)
class Positions(Tagged):
    """Integers 0, 1, 2, … along the last axis."""


@dataclass(frozen=True, slots=True)
class Sinusoids(Tagged):
    """Rows of sines and cosines that tell positions apart."""

    width: int


@dataclass(frozen=True, slots=True)
class CausalMask(Tagged):
    """Rows of zeros up to the row's own position, and of negative infinity behind it."""

    width: int


@dataclass(frozen=True, slots=True)
class Stored(Tagged):
    """Numbers of the user's own, little-endian, in the file that `ModelFiles.weights` names."""

    element: ElementType
    """What they are there: binary32, or 64-bit integers."""
    offset: int
    """Where they begin, in bytes."""


Fill = Uniform | Integers | Constant | Positions | Sinusoids | CausalMask | Stored


@dataclass(frozen=True, slots=True)
class Input:
    """Something a caller feeds."""

    name: str
    element: ElementType
    shape: tuple[int, ...]
    fill: Fill


@dataclass(frozen=True, slots=True)
class Parameter:
    """A weight or a buffer."""

    name: str
    shape: tuple[int, ...]
    role: Role
    fill: Fill


@dataclass(frozen=True, slots=True)
class CrossEntropy(Tagged):
    """Mean over all positions of the cross-entropy of a softmax over the last axis."""

    logits: str
    labels: Input


class Operator(Tagged):
    """An operator; its tag is the class's name as it is."""

    __slots__ = ()

    @classmethod
    def tag(cls) -> str:
        """The word that names the operator."""
        return cls.__name__


@dataclass(frozen=True, slots=True)
class Conv(Operator):
    strides: Pair
    pads: Sides
    dilations: Pair
    group: int


@dataclass(frozen=True, slots=True)
class ConvTranspose(Operator):
    strides: Pair
    pads: Sides
    output_padding: Pair
    dilations: Pair
    group: int


@dataclass(frozen=True, slots=True)
class BatchNormalization(Operator):
    epsilon: float
    momentum: float


@dataclass(frozen=True, slots=True)
class LayerNormalization(Operator):
    epsilon: float


@dataclass(frozen=True, slots=True)
class InstanceNormalization(Operator):
    epsilon: float


@dataclass(frozen=True, slots=True)
class Relu(Operator):
    pass


@dataclass(frozen=True, slots=True)
class LeakyRelu(Operator):
    alpha: float


@dataclass(frozen=True, slots=True)
class PRelu(Operator):
    pass


@dataclass(frozen=True, slots=True)
class Elu(Operator):
    alpha: float


@dataclass(frozen=True, slots=True)
class Softplus(Operator):
    pass


@dataclass(frozen=True, slots=True)
class Clip(Operator):
    min: float
    max: float


@dataclass(frozen=True, slots=True)
class Sigmoid(Operator):
    pass


@dataclass(frozen=True, slots=True)
class HardSigmoid(Operator):
    pass


@dataclass(frozen=True, slots=True)
class HardSwish(Operator):
    pass


@dataclass(frozen=True, slots=True)
class Silu(Operator):
    pass


@dataclass(frozen=True, slots=True)
class Tanh(Operator):
    pass


class Approximation(StrEnum):
    """How `Gelu` computes the normal distribution function."""

    NONE = "none"
    TANH = "tanh"


@dataclass(frozen=True, slots=True)
class Gelu(Operator):
    approximate: Approximation


@dataclass(frozen=True, slots=True)
class Softmax(Operator):
    axis: Signed


@dataclass(frozen=True, slots=True)
class LogSoftmax(Operator):
    axis: Signed


@dataclass(frozen=True, slots=True)
class Add(Operator):
    pass


@dataclass(frozen=True, slots=True)
class Mul(Operator):
    pass


@dataclass(frozen=True, slots=True)
class Div(Operator):
    pass


@dataclass(frozen=True, slots=True)
class Max(Operator):
    pass


@dataclass(frozen=True, slots=True)
class Min(Operator):
    pass


@dataclass(frozen=True, slots=True)
class Sqrt(Operator):
    pass


@dataclass(frozen=True, slots=True)
class Exp(Operator):
    pass


@dataclass(frozen=True, slots=True)
class Log(Operator):
    pass


@dataclass(frozen=True, slots=True)
class Abs(Operator):
    pass


@dataclass(frozen=True, slots=True)
class Sin(Operator):
    pass


@dataclass(frozen=True, slots=True)
class Cos(Operator):
    pass


@dataclass(frozen=True, slots=True)
class MatMul(Operator):
    pass


@dataclass(frozen=True, slots=True)
class Linear(Operator):
    pass


@dataclass(frozen=True, slots=True)
class Gemm(Operator):
    pass


@dataclass(frozen=True, slots=True)
class Attention(Operator):
    heads: int
    causal: bool


@dataclass(frozen=True, slots=True)
class LSTM(Operator):
    bidirectional: bool


@dataclass(frozen=True, slots=True)
class GRU(Operator):
    bidirectional: bool


@dataclass(frozen=True, slots=True)
class MaxPool(Operator):
    kernel: Pair
    strides: Pair
    pads: Sides
    ceil_mode: bool


@dataclass(frozen=True, slots=True)
class AveragePool(Operator):
    kernel: Pair
    strides: Pair
    pads: Sides
    count_include_pad: bool


@dataclass(frozen=True, slots=True)
class GlobalAveragePool(Operator):
    pass


class Interpolation(StrEnum):
    """How `Resize` makes a pixel of those of the image."""

    NEAREST = "nearest"
    LINEAR = "linear"
    LINEAR_CORNERS = "linear_corners"


@dataclass(frozen=True, slots=True)
class Resize(Operator):
    sizes: Pair
    interpolation: Interpolation


@dataclass(frozen=True, slots=True)
class Flatten(Operator):
    axis: int


@dataclass(frozen=True, slots=True)
class Reshape(Operator):
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Transpose(Operator):
    perm: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Expand(Operator):
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reflect(Tagged):
    """A border of the elements next to the one at the end."""


Border = Constant | Reflect


@dataclass(frozen=True, slots=True)
class Pad(Operator):
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    border: Border


@dataclass(frozen=True, slots=True)
class Concat(Operator):
    axis: int


@dataclass(frozen=True, slots=True)
class Slice(Operator):
    axis: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Gather(Operator):
    pass


@dataclass(frozen=True, slots=True)
class Squeeze(Operator):
    axis: int


class GridElement(StrEnum):
    """The integers of a grid."""

    INT8 = "int8"
    UINT8 = "uint8"
    INT32 = "int32"


@dataclass(frozen=True, slots=True)
class QuantizeDequantize(Operator):
    axis: int | None
    zero_point: Signed
    element: GridElement


@dataclass(frozen=True, slots=True)
class DynamicQuantizeDequantize(Operator):
    pass


@dataclass(frozen=True, slots=True)
class Dropout(Operator):
    ratio: float


Op = (
    Conv
    | ConvTranspose
    | BatchNormalization
    | LayerNormalization
    | InstanceNormalization
    | Relu
    | LeakyRelu
    | PRelu
    | Elu
    | Softplus
    | Clip
    | Sigmoid
    | HardSigmoid
    | HardSwish
    | Silu
    | Tanh
    | Gelu
    | Softmax
    | LogSoftmax
    | Add
    | Mul
    | Div
    | Max
    | Min
    | Sqrt
    | Exp
    | Log
    | Abs
    | Sin
    | Cos
    | MatMul
    | Linear
    | Gemm
    | Attention
    | LSTM
    | GRU
    | MaxPool
    | AveragePool
    | GlobalAveragePool
    | Resize
    | Flatten
    | Reshape
    | Transpose
    | Expand
    | Pad
    | Concat
    | Slice
    | Gather
    | Squeeze
    | QuantizeDequantize
    | DynamicQuantizeDequantize
    | Dropout
)


@dataclass(frozen=True, slots=True)
class Node:
    """One operator application."""

    name: str
    op: Op
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    in_place: bool

    def place(self) -> str:
        """Operator and node, as a reader of an error finds them."""
        return f"{self.op.tag()} {self.name}"


@dataclass(frozen=True, slots=True)
class Graph:
    """A network with everything that running it needs except the numbers themselves."""

    name: str
    inputs: tuple[Input, ...]
    parameters: tuple[Parameter, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    loss: CrossEntropy | None


def whole(graph: Graph, parts: int) -> Graph:
    """The graph as a step is fed: so many parts at once, each for a pass or a replica."""

    def longer(fed: Input) -> Input:
        rows, *rest = fed.shape
        return replace(fed, shape=(rows * parts, *rest))

    loss = graph.loss
    if loss is not None:
        loss = replace(loss, labels=longer(loss.labels))
    return replace(graph, inputs=tuple(longer(fed) for fed in graph.inputs), loss=loss)
