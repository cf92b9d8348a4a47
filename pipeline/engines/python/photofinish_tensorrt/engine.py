"""TensorRT as the worker's loop sees it."""

import importlib.metadata
import os
import platform
import time
from pathlib import Path
from typing import Any

from photofinish_tensorrt import cuda
from photofinish_tensorrt.building import Order, build
from photofinish_tensorrt.cache import Cache, key
from photofinish_tensorrt.configuration import Configuration, understand
from photofinish_tensorrt.cuda import Card
from photofinish_tensorrt.inference import Inference, place_inputs, place_outputs
from photofinish_tensorrt.library import ENGINE, RTX, Library
from photofinish_worker import sources
from photofinish_worker.engine import Identity, LoadReport, Session
from photofinish_worker.messages import Load

PACKAGES = ("photofinish_tensorrt", "photofinish_numpy", "photofinish_worker")
"""What this worker is made of."""

_TF32_OVERRIDE = "NVIDIA_TF32_OVERRIDE"
"""The variable by which NVIDIA's libraries are told to do without TF32, whoever asks for it."""


class TensorRT:
    """TensorRT or TensorRT-RTX, before it has a network."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def hello(self) -> Identity:
        """Who this worker is."""
        versions = {
            ENGINE: self._library.version,
            "cuda-bindings": importlib.metadata.version("cuda-bindings"),
            "python": platform.python_version(),
        }
        return Identity(ENGINE, versions, _worker(), (self._library.variant,))

    def load(self, load: Load) -> tuple[Session, LoadReport]:
        """Builds the cell's engine, or takes the one that an earlier launch built, and puts inputs
        and outputs on the card."""
        configuration = understand(load, self._library.variant)
        card = cuda.find(load.cell.device)
        return start(self._library, card, load, configuration)


def _worker() -> str:
    """The hash of what this worker is made of."""
    return sources.digest(Path(__file__).parent.parent, PACKAGES)


def start(
    library: Library, card: Card, load: Load, configuration: Configuration
) -> tuple[Session, LoadReport]:
    """Makes the session on a card."""
    cache = Cache.of(os.environ, load.scratch)
    started = time.perf_counter_ns()
    conditions = _conditions(library, card)
    of_card = key(Path(os.devnull), *conditions)
    order = Order(configuration.onnx, configuration.shapes, configuration.tf32)
    shapes, model = sorted(order.shapes.items()), load.cell.model
    own = model.weights.content if model.weights else None
    name = key(order.onnx, *conditions, order.tf32, shapes, model.graph, own)
    runtime = library.module.Runtime(library.logger)
    settings = {"engine": "built by an earlier launch"}
    compile_ns = 0
    kept = cache.read(f"{name}.plan")
    engine = runtime.deserialize_cuda_engine(kept) if kept is not None else None
    if engine is None:
        settings["engine"] = "built by this launch"
        began = time.perf_counter_ns()
        built = build(library, order, cache.read(f"{of_card}.timings"))
        compile_ns = time.perf_counter_ns() - began
        cache.keep(f"{name}.plan", memoryview(built.plan))
        if built.timings is not None:
            cache.keep(f"{of_card}.timings", built.timings)
        engine = runtime.deserialize_cuda_engine(built.plan)
    library.made("loading the engine", engine)
    context, kernels = _context(library, engine, cache.read(f"{name}.kernels"))
    library.made("the engine's context", context)
    began = time.perf_counter_ns()
    weights = load.files.weights if load.files else None
    place_inputs(library, card, engine, context, load.graph, weights)
    fill_ns = time.perf_counter_ns() - began
    outputs = place_outputs(library, card, engine, context, load.graph)
    session = Inference(library, card, engine, context, outputs)
    if kernels is not None:
        # TensorRT-RTX compiles kernels when they are first launched.
        began = time.perf_counter_ns()
        session.step()
        compile_ns += time.perf_counter_ns() - began
        cache.keep(f"{name}.kernels", memoryview(kernels.serialize()))
    # A step that fails is to be told in its own words.
    library.errors.clear()
    total_ns = time.perf_counter_ns() - started
    report = LoadReport(
        fill_ns=fill_ns,
        build_ns=max(0, total_ns - fill_ns - compile_ns),
        compile_ns=compile_ns,
        threads=None,
        spin="the CUDA runtime's default (cudaDeviceScheduleAuto)",
        settings=settings | _settings(configuration, card, engine),
    )
    return session, report


def _conditions(library: Library, card: Card) -> tuple[object, ...]:
    """What decides, besides the network, which engine is built: the library, the card, and how this
    worker asks."""
    override = os.environ.get(_TF32_OVERRIDE)
    of_card = (card.name, card.capability, card.driver)
    return (library.variant, library.version, *of_card, override, _worker())


def _context(library: Library, engine: Any, kept: bytes | None) -> tuple[Any, Any]:
    """The engine's context, and with TensorRT-RTX the kernels that it compiles for the card, those
    that an earlier launch kept among them."""
    if library.variant != RTX:
        return engine.create_execution_context(), None
    config = engine.create_runtime_config()
    kernels = config.create_runtime_cache()
    if kept is not None:
        # What does not fit the card or the driver any more is refused, and compiled again.
        kernels.deserialize(kept)
    config.set_runtime_cache(kernels)
    return engine.create_execution_context(config), kernels


def _settings(configuration: Configuration, card: Card, engine: Any) -> dict[str, str]:
    return {
        "CUDA driver": str(card.driver),
        "CUDA graphs": "off (default)",
        "GPU": f"{card.name}, compute capability {card.capability}",
        "inputs and outputs": "on the card",
        "layers of the engine": str(engine.num_layers),
        "network": "strongly typed: each layer in the file's element types",
        "shapes": "fixed when the engine is built",
        "TF32": "on" if configuration.tf32 else "off",
    }
