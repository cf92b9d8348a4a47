"""Small networks, as the supervisor would send them."""

from typing import Any

from photofinish_worker.decode import decode
from photofinish_worker.graph import Graph

UNIFORM = {"uniform": {"low": -1.0, "high": 1.0}}


def value(name: str, shape: list[int], element: str = "float") -> dict[str, Any]:
    """An input."""
    numbers = UNIFORM if element == "float" else {"integers": {"bound": 3}}
    return {"name": name, "element": element, "shape": shape, "fill": numbers}


def weight(name: str, shape: list[int], role: str = "weight") -> dict[str, Any]:
    numbers = {"uniform": {"low": 0.5, "high": 1.5}} if role == "buffer" else UNIFORM
    return {"name": name, "shape": shape, "role": role, "fill": numbers}


def node(op: Any, inputs: list[str], output: str, in_place: bool = False) -> dict[str, Any]:
    return {"name": output, "op": op, "inputs": inputs, "outputs": [output], "in_place": in_place}


def graph(
    inputs: list[Any], parameters: list[Any], nodes: list[Any], labels: list[int] | None = None
) -> Graph:
    output = nodes[-1]["outputs"][0]
    loss = None
    if labels is not None:
        fed = value("labels", labels, "int64")
        loss = {"cross_entropy": {"logits": output, "labels": fed}}
    read = decode(
        Graph,
        {
            "name": "g",
            "inputs": inputs,
            "parameters": parameters,
            "nodes": nodes,
            "outputs": [output],
            "loss": loss,
        },
        "graph",
    )
    assert isinstance(read, Graph)
    return read


NETWORK = graph(
    [value("x", [4, 2, 3, 3])],
    [
        weight("scale", [2]),
        weight("bias", [2]),
        weight("mean", [2], "buffer"),
        weight("variance", [2], "buffer"),
        weight("w", [3, 18]),
        weight("unused", [2]),
    ],
    [
        node(
            {"BatchNormalization": {"epsilon": 1e-5, "momentum": 0.1}},
            ["x", "scale", "bias", "mean", "variance"],
            "a",
        ),
        node({"Flatten": {"axis": 1}}, ["a"], "b"),
        node({"Dropout": {"ratio": 0.5}}, ["b"], "c"),
        node("Linear", ["c", "w"], "y"),
    ],
    [4],
)
"""One to train: it has running statistics, dropout, and a weight that nothing reads."""

CELL: dict[str, Any] = {
    "model": {"name": "n", "source": "zoo", "graph": "00"},
    "dims": {"batch": 1},
    "precision": "fp32",
    "mode": "inference",
    "optimizer": None,
    "host_language": "python",
    "device": "cpu",
    "threads": 1,
    "strategy": "single",
    "world_size": 1,
    "boundary": "step",
}
"""What a cell has besides engine and factors."""
