"""What a graph tells of its architecture: sizes of tables, numbers of layers and heads."""

from typing import TypeVar

from photofinish_worker import graph as ops
from photofinish_worker.graph import Graph
from photofinish_worker.outcome import unsupported

Shape = tuple[int, ...]
T = TypeVar("T")


class Facts:
    """A graph, to be asked. Whatever it does not tell, or tells twice, is `unsupported`."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._shapes = {parameter.name: parameter.shape for parameter in graph.parameters}

    def has_head(self) -> bool:
        """Whether the graph ends in logits, and not in hidden states."""
        return "logits" in self._graph.outputs

    def shape(self, name: str, rank: int) -> Shape:
        """The shape of a parameter."""
        shape = self._shapes.get(name)
        if shape is None or len(shape) != rank:
            raise self._other(f"it has no parameter `{name}` of {rank} dimensions")
        return shape

    def layers(self, before: str) -> int:
        """How many layers there are: parameters are called `before`, a number from 0 on, a dot and
        the rest."""
        names = (name.removeprefix(before) for name in self._shapes if name.startswith(before))
        numbers = {name.split(".", 1)[0] for name in names}
        if numbers != {str(number) for number in range(len(numbers))} or not numbers:
            raise self._other(f"its layers `{before}…` are not numbered from 0")
        return len(numbers)

    def heads(self) -> int:
        """How many heads attention has, as one operator or spelt out."""
        found = set()
        for node in self._graph.nodes:
            if isinstance(node.op, ops.Attention):
                found.add(node.op.heads)
            elif isinstance(node.op, ops.Reshape) and len(node.op.shape) == 4:
                # [batch, position, head, element of the head]
                found.add(node.op.shape[2])
        return self._only("number of heads", found)

    def epsilon(self) -> float:
        """What layer normalisation adds to the variance."""
        norms = (node.op for node in self._graph.nodes)
        found = {op.epsilon for op in norms if isinstance(op, ops.LayerNormalization)}
        return self._only("epsilon of its normalisations", found)

    def dropout(self, name: str | None = None) -> float:
        """The ratio that the node of this name drops out, or all other nodes; 0 without any."""
        found = {
            node.op.ratio
            for node in self._graph.nodes
            if isinstance(node.op, ops.Dropout) and (name is None or node.name == name)
        }
        return self._only("ratio of dropout", found or {0.0})

    def _only(self, what: str, found: set[T]) -> T:
        if len(found) != 1:
            raise self._other(f"it has not one {what} but {len(found)}")
        (one,) = found
        return one

    def _other(self, how: str) -> Exception:
        return unsupported(f"{self._graph.name} is not the architecture that its name says: {how}")
