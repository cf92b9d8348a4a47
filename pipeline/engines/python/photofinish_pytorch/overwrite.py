"""Which operands are overwritten: where the published network does so, and where that changes
neither a result nor a gradient. The same rule as the Rust worker's."""

from collections import Counter
from collections.abc import Set

from photofinish_pytorch.emit import broadcast
from photofinish_worker import graph as ops
from photofinish_worker.graph import Graph, Node, Op
from photofinish_worker.messages import Mode

Shape = tuple[int, ...]

_HAS_FORM = (ops.Relu, ops.Clip, ops.Silu, ops.Add)

_SHARES_MEMORY = (
    ops.Flatten,
    ops.Reshape,
    ops.Transpose,
    ops.Slice,
    ops.Squeeze,
    ops.Expand,
    ops.Dropout,
    # Joining the heads may be a view, as may turning time and batch.
    ops.Attention,
    ops.LSTM,
    ops.GRU,
)
"""Operators whose output may share memory with an input."""

_GRADIENT_READS_OUTPUT = (
    ops.Relu,
    ops.Clip,
    ops.Sigmoid,
    ops.Tanh,
    ops.Sqrt,
    ops.Exp,
    ops.Softmax,
    ops.LogSoftmax,
    ops.Attention,
    ops.LSTM,
    ops.GRU,
)
"""Operators whose gradient autograd computes from their output (`derivatives.yaml` of PyTorch:
formulas that name `result`; `clip` when it ran in place), or whose kernel keeps it."""


class Overwrites:
    """What must be known of a graph to overwrite safely."""

    def __init__(self, graph: Graph, kept: Set[str], mode: Mode) -> None:
        self._readers = Counter(name for node in graph.nodes for name in node.inputs)
        self._makers: dict[str, Op] = {name: n.op for n in graph.nodes for name in n.outputs}
        self._kept = kept
        self._mode = mode

    def allow(self, node: Node, operands: list[Shape]) -> bool:
        """Whether the output of `node` goes where its first operand was; its shape comes first."""
        if not node.in_place or not isinstance(node.op, _HAS_FORM):
            return False
        # All of these are elementwise: the output is as large as the operands together.
        return operands[0] == broadcast(operands) and self._is_free(node.inputs[0])

    def _is_free(self, name: str) -> bool:
        """Whether a value may be overwritten by its only reader."""
        maker = self._makers.get(name)
        if maker is None or self._readers[name] != 1 or name in self._kept:
            return False
        if isinstance(maker, _SHARES_MEMORY):
            return False
        return self._mode is Mode.INFERENCE or not isinstance(maker, _GRADIENT_READS_OUTPUT)
