"""From an ONNX file to an engine. TensorRT-RTX builds one for a card that is not there."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from photofinish_tensorrt.failure import classify
from photofinish_tensorrt.library import NATIVE, RTX, Library
from photofinish_worker.outcome import Failure, Kind, unsupported

CURRENT = "CURRENT"
"""The compute capability of the card at hand."""


@dataclass(frozen=True, slots=True)
class Order:
    """What to build."""

    onnx: Path
    shapes: Mapping[str, tuple[int, ...]]
    """Of each input: an engine is built for them alone, whatever the file leaves open."""
    tf32: bool = False
    """Whether products of binary32 may be rounded to TF32."""
    target: str = CURRENT
    """Compute capability of the card that the engine is for, for example `SM89`. TensorRT itself
    builds for the card at hand."""


@dataclass(frozen=True, slots=True)
class Built:
    """An engine, and what made it."""

    plan: Any
    """The engine as bytes."""
    timings: bytes | None
    """TensorRT: how long each kernel took that was tried, for the next time."""
    layers: int
    """Layers of the network before it was optimised."""


def build(library: Library, order: Order, timings: bytes | None = None) -> Built:
    """Parses the file and builds the engine. Element types are those that the file says, layer by
    layer: nothing is computed in another precision."""
    trt = library.module
    library.errors.clear()
    builder = trt.Builder(library.logger)
    flags = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    network = builder.create_network(flags)
    _parse(library, network, order.onnx)
    _close_shapes(network, order.shapes)
    config = builder.create_builder_config()
    if not order.tf32:
        config.clear_flag(trt.BuilderFlag.TF32)
    if library.variant == RTX:
        config.num_compute_capabilities = 1
        config.set_compute_capability(getattr(trt.ComputeCapability, order.target), 0)
    cache = None
    if library.variant == NATIVE:
        cache = _timings(config, timings)
    plan = library.made("building the engine", builder.build_serialized_network(network, config))
    learnt = bytes(cache.serialize()) if cache is not None else None
    return Built(plan, learnt, network.num_layers)


def _timings(config: Any, kept: bytes | None) -> Any:
    """The times of kernels that the builder reads, and adds to: those that were kept, unless it
    refuses them, as it does with another card's."""
    if kept is not None:
        cache = config.create_timing_cache(kept)
        if cache is not None and config.set_timing_cache(cache, ignore_mismatch=False):
            return cache
    cache = config.create_timing_cache(b"")
    config.set_timing_cache(cache, ignore_mismatch=False)
    return cache


def _parse(library: Library, network: Any, onnx: Path) -> None:
    """Reads the file into `network`, or names the nodes that TensorRT does not take."""
    if not onnx.is_file():
        raise Failure(Kind.CRASHED, f"{onnx}: there is no such file")
    parser = library.module.OnnxParser(network, library.logger)
    if parser.parse_from_file(str(onnx)):
        return
    errors = [parser.get_error(index) for index in range(parser.num_errors)]
    if not errors:
        raise library.failure("parsing")
    library.errors.clear()
    first = errors[0]
    failure = classify(_place(first), first.desc())
    refused = any(error.code().name.startswith("UNSUPPORTED") for error in errors)
    others = list(dict.fromkeys(_place(error) for error in errors[1:]))
    reason = "; also: ".join([failure.reason, *([", ".join(others)] if others else [])])
    raise Failure(Kind.UNSUPPORTED if refused else failure.kind, reason)


def _place(error: Any) -> str:
    """Where in the file: operator and node, as far as the parser got to one."""
    operator, node = error.node_operator(), error.node_name()
    return f"{operator} of node {node}" if operator else "parsing"


def _close_shapes(network: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    for index in range(network.num_inputs):
        tensor = network.get_input(index)
        if tensor.name not in shapes:
            raise unsupported(f"the file has an input `{tensor.name}`, and the graph has none")
        if tuple(tensor.shape) != shapes[tensor.name]:
            tensor.shape = shapes[tensor.name]
