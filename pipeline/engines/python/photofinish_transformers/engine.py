"""Transformers as the worker's loop sees it."""

import os
import platform
import time
from importlib import metadata
from pathlib import Path

import torch
import transformers

from photofinish_pytorch import arithmetic, device, process
from photofinish_pytorch.device import Place
from photofinish_pytorch.inference import Inference
from photofinish_pytorch.maker import Maker
from photofinish_transformers import network
from photofinish_transformers.configuration import (
    ENGINE,
    ONNXRUNTIME,
    PIPELINE,
    TRAINER,
    VARIANTS,
    Configuration,
    understand,
)
from photofinish_transformers.network import Network
from photofinish_transformers.training import Loop
from photofinish_worker import sources
from photofinish_worker.engine import Identity, LoadReport, Session
from photofinish_worker.graph import whole
from photofinish_worker.messages import Load

PACKAGES = ("photofinish_transformers", "photofinish_pytorch", "photofinish_worker")
"""What this worker is made of."""


class Transformers:
    """Transformers, before it has a network."""

    def hello(self) -> Identity:
        """Who this worker is."""
        versions = {
            "transformers": transformers.__version__,
            "torch": torch.__version__,
            # Imported by its own variant alone: the others' starts would wait for it.
            "onnxruntime": metadata.version("onnxruntime"),
            "python": platform.python_version(),
        }
        worker = sources.digest(Path(__file__).parent.parent, PACKAGES)
        return Identity(ENGINE, versions, worker, VARIANTS)

    def load(self, load: Load) -> tuple[Session, LoadReport]:
        """Builds the cell's network, ready for its first step."""
        configuration = understand(load.cell)
        if configuration.variant == ONNXRUNTIME:
            from photofinish_transformers import exported

            return exported.load(load, configuration)
        process.check_threads(configuration.threads, os.environ)
        place = device.find(load.cell.device)
        process.apply(configuration)
        start = time.perf_counter_ns()
        weights = load.files.weights if load.files else None
        maker = Maker(place.device, configuration.element, False, weights)
        built = network.build(load.graph, configuration, maker, place.device)
        session = _session(load, configuration, built, maker, place)
        place.synchronize()
        built_ns = time.perf_counter_ns() - start
        report = LoadReport(
            fill_ns=maker.filling_ns,
            build_ns=max(0, built_ns - maker.filling_ns),
            compile_ns=0,
            threads=torch.get_num_threads(),
            spin=process.spin(os.environ),
            settings=process.settings(configuration, not place.is_cuda)
            | arithmetic.settings(
                configuration.autocast or configuration.element, not place.is_cuda
            )
            | _settings(configuration, built, load.graph.inputs[0].shape[0]),
        )
        return session, report


def _session(
    load: Load, configuration: Configuration, built: Network, maker: Maker, place: Place
) -> Session:
    graph, optimizer, parts = load.graph, configuration.optimizer, configuration.accumulation
    fed = whole(graph, parts)
    # Only the variants that need them pay for importing a Trainer and pipelines.
    if configuration.variant == PIPELINE:
        from photofinish_transformers.piping import Piped

        return Piped(graph, built, maker)
    if optimizer is None:
        return Inference(graph, built, built, maker, place, configuration.boundary)
    if configuration.variant != TRAINER:
        boundary, foreach = configuration.boundary, configuration.foreach
        return Loop(fed, optimizer, built, parts, maker, place, boundary, foreach)
    from photofinish_transformers.trainer import Trained

    mixed = configuration.autocast is not None
    foreach = configuration.foreach
    return Trained(fed, optimizer, built, parts, maker, place, load.scratch, mixed, foreach)


def _settings(configuration: Configuration, built: Network, batch: int) -> dict[str, str]:
    settings = built.settings()
    if configuration.variant == PIPELINE:
        settings["gradients"] = "off (torch.no_grad, the pipeline's own)"
        settings["pipeline"] = (
            "a call with one encoding: no DataLoader"
            if batch == 1
            else f"a call with a list of {batch} encodings of one row each, batch_size={batch}"
        )
        settings["preprocess, postprocess"] = "of no step: what comes is encoded, tensors go out"
    if configuration.optimizer is not None:
        settings["training"] = (
            "one turn of Trainer.train(): constant learning rate; it clips nothing, yet takes the "
            "norm of all gradients, as it does whatever max_grad_norm is"
            if configuration.variant == TRAINER
            else "a loop of one's own: model, cross-entropy, backward, step"
        )
        parts = configuration.accumulation
        settings["gradient accumulation"] = f"{parts} parts of the batch" if parts > 1 else "off"
        settings["gradient checkpointing"] = "each layer" if configuration.checkpointing else "off"
    return settings
