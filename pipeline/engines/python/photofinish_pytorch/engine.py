"""PyTorch as the worker's loop sees it."""

import os
import platform
import time
from pathlib import Path

import torch

from photofinish_pytorch import (
    arithmetic,
    attention,
    compilation,
    device,
    process,
    recurrent,
    spread,
)
from photofinish_pytorch.configuration import (
    ENGINE,
    POWER_SGD,
    VARIANTS,
    Configuration,
    Spread,
    understand,
)
from photofinish_pytorch.device import Place
from photofinish_pytorch.inference import Inference
from photofinish_pytorch.lower import Lowered, lower
from photofinish_pytorch.maker import Maker
from photofinish_pytorch.spread import Store, Team
from photofinish_pytorch.training import Training
from photofinish_worker import sources
from photofinish_worker.engine import Identity, LoadReport, Session
from photofinish_worker.graph import Graph, Parameter, whole
from photofinish_worker.messages import Load, Strategy
from photofinish_worker.outcome import unsupported
from photofinish_worker.ranks import World

PACKAGES = ("photofinish_pytorch", "photofinish_worker")
"""What this worker is made of."""


class Torch:
    """PyTorch, before it has a network."""

    def __init__(self) -> None:
        self._team: Team | None = None
        """The ranks that it is one of."""

    def join(self, world: World) -> Store:
        """Joins the other ranks of a cell, before `load`."""
        self._team = Team(world)
        return self._team.store()

    def hello(self) -> Identity:
        """Who this worker is."""
        versions = {"torch": torch.__version__, "python": platform.python_version()}
        worker = sources.digest(Path(__file__).parent.parent, PACKAGES)
        return Identity(ENGINE, versions, worker, VARIANTS)

    def load(self, load: Load) -> tuple[Session, LoadReport]:
        """Builds the cell's network, ready for its first step."""
        configuration = understand(load.cell)
        process.check_threads(configuration.threads, os.environ)
        process.check_spin(configuration.sleeps, os.environ)
        team, spreading = self._team, configuration.spread
        place = device.find(_device(load.cell.device, team))
        process.apply(configuration)
        settings = _settings(configuration, not place.is_cuda)
        computed_in = configuration.autocast or configuration.element
        settings |= arithmetic.settings(computed_in, not place.is_cuda)
        forward_mode = configuration.compile_mode
        if forward_mode is not None:
            on_cpu = not place.is_cuda
            settings |= compilation.prepare(configuration.threads, on_cpu, load.scratch)
        start = time.perf_counter_ns()
        weights = load.files.weights if load.files else None
        element, channels_last = configuration.element, configuration.channels_last
        # `DataParallel` is fed all parts of a batch, a rank of DDP those of its own passes.
        is_one = spreading.strategy is Strategy.DATA_PARALLEL
        fed = whole(load.graph, spreading.workers if is_one else spreading.passes)
        part = (0, 1) if team is None else (team.world.rank, team.world.size)
        maker = Maker(place.device, element, channels_last, weights, part)
        session, lowered, departures = _build(load.graph, fed, configuration, maker, place, team)
        settings |= departures
        place.synchronize()
        built = time.perf_counter_ns()
        # Compiling ends with a reset, which makes the weights once more.
        filling_ns = maker.filling_ns
        compile_ns = 0
        if forward_mode is not None:
            # Compiling comes with the first call.
            session.step()
            session.reset()
            compilation.settle()
            compile_ns = time.perf_counter_ns() - built
            settings |= compilation.result(not place.is_cuda, forward_mode)
        if isinstance(session, Training):
            searched, search_ns = _settle(session, spreading)
            settings |= searched
            compile_ns += search_ns
        place.forget_peak()
        settings["operators in place"] = str(lowered.in_place)
        report = LoadReport(
            fill_ns=filling_ns,
            build_ns=max(0, built - start - filling_ns),
            compile_ns=compile_ns,
            threads=torch.get_num_threads(),
            spin=process.spin(os.environ),
            settings=settings,
        )
        return session, report


def _settle(session: Training, spreading: Spread) -> tuple[dict[str, str], int]:
    """Does what ranks need before their steps are alike; what is told of it, and how long a search
    took."""
    told: dict[str, str] = {}
    if spreading.compression == POWER_SGD:
        told["gradients on their way"] = (
            "PowerSGD of rank 1, with its error fed back; parity is judged with whole gradients"
        )
    if spreading.searches_bucket:
        begun = time.perf_counter_ns()
        told |= session.search_buckets()
        return told, time.perf_counter_ns() - begun
    if spreading.compression == POWER_SGD:
        session.settle()
    return told, 0


def _device(name: str, team: Team | None) -> str:
    """Where this process computes: each rank has a GPU of its own."""
    if team is None or name == "cpu":
        return name
    first = name.removeprefix("cuda:")
    return f"cuda:{int(first) + team.world.local_rank}" if first.isdecimal() else name


def _build(
    graph: Graph,
    fed: Graph,
    configuration: Configuration,
    maker: Maker,
    place: Place,
    team: Team | None,
) -> tuple[Session, Lowered, dict[str, str]]:
    """The session, its network, and what of that is not as the cell has it; `fed` is the graph with
    the inputs that a step has."""
    tensors = {parameter.name: maker.parameter(parameter) for parameter in distinct(graph)}
    lowered = lower(graph, configuration.mode, tensors)
    departures: dict[str, str] = {}
    if configuration.compile_mode is None:
        recurrent.flatten(graph, lowered.held, place)
    else:
        departures = attention.spell_out(lowered)
    wrapped, ranks = spread.wrap(lowered.module, configuration.spread, place, team)
    forward: compilation.Forward = wrapped
    if configuration.compile_mode is not None:
        forward = compilation.wrap(wrapped, configuration.compile_mode)
    optimizer, boundary = configuration.optimizer, configuration.boundary
    if optimizer is None:
        session: Session = Inference(
            graph, lowered, forward, maker, place, boundary, configuration.autocast
        )
        return session, lowered, departures
    session = Training(
        fed,
        optimizer,
        lowered,
        forward,
        maker,
        place,
        boundary,
        configuration.foreach,
        ranks,
        configuration.spread.passes,
        configuration.autocast,
    )
    return session, lowered, departures


def distinct(graph: Graph) -> tuple[Parameter, ...]:
    """The graph's parameters, if no two have the same name."""
    names = [parameter.name for parameter in graph.parameters]
    if len(set(names)) != len(names):
        raise unsupported("two parameters of the graph have the same name")
    return graph.parameters


def _settings(configuration: Configuration, on_cpu: bool) -> dict[str, str]:
    settings = process.settings(configuration, on_cpu)
    settings["memory layout of images"] = (
        "channels last" if configuration.channels_last else "contiguous (NCHW)"
    )
    if configuration.compile_mode is not None:
        trains = configuration.optimizer is not None
        what = "the forward and backward pass" if trains else "the forward pass"
        settings["torch.compile"] = f"{what}, mode {configuration.compile_mode}"
    return settings
