"""A network compiled by AOTInductor into a package, a `.pt2`."""

import json

import torch

from photofinish_pytorch import compilation, device, export, process
from photofinish_pytorch.configuration import Configuration, understand_packaged
from photofinish_pytorch.device import Place
from photofinish_pytorch.engine import distinct
from photofinish_pytorch.failure import at
from photofinish_pytorch.lower import lower
from photofinish_pytorch.maker import Maker
from photofinish_worker.messages import Load, Mode
from photofinish_worker.outcome import unsupported

FACTS = "photofinish"
"""The name, in a package's metadata, of what whoever runs it must know."""


def make(load: Load, path: str, dropout: bool, key: str) -> None:
    """Compiles the network of `load` into a package at `path`, which says that it is `key`.

    Weights stay outside: whoever runs the package brings them. The values count nevertheless, since
    AOTInductor writes constants of a few numbers, or of many equal ones, into its code.
    """
    configuration = understand_packaged(load.cell)
    place = device.find(load.cell.device)
    if place.is_cuda:
        compilation.find_toolkit()
    process.apply(configuration)
    settings = compilation.prepare(configuration.threads, not place.is_cuda, load.scratch)
    if not place.is_cuda:
        settings |= compilation.vectors()
    exported = _export(load, configuration, place, dropout)
    facts = {
        "key": key,
        "constants": exported.constants,
        "fed": list(exported.fed),
        "gradients": list(exported.gradients),
        "settings": settings | exported.settings,
    }
    with at("AOTInductor"):
        torch._inductor.aoti_compile_and_package(
            exported.program,
            package_path=path,
            inductor_configs={
                "aot_inductor.package_constants_in_so": False,
                "aot_inductor.metadata": {FACTS: json.dumps(facts)},
            },
        )
    compilation.settle()


def _export(
    load: Load, configuration: Configuration, place: Place, dropout: bool
) -> export.Exported:
    graph = load.graph
    weights = load.files.weights if load.files else None
    maker = Maker(place.device, configuration.element, configuration.channels_last, weights)
    tensors = {parameter.name: maker.parameter(parameter) for parameter in distinct(graph)}
    lowered = lower(graph, configuration.mode, tensors)
    inputs = tuple(maker.input(fed) for fed in graph.inputs)
    with lowered.explained():
        if configuration.mode is Mode.INFERENCE:
            return export.inference(lowered, inputs)
        if graph.loss is None:
            raise unsupported(f"{graph.name} has no loss to train with")
        return export.training(lowered, inputs, maker.input(graph.loss.labels), dropout)
