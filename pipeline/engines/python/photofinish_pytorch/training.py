"""Training: one iteration a step, in the order of PyTorch's tutorials: forget the gradients,
forward, loss, backward, optimiser."""

import math
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import torch
from torch.nn import functional

from photofinish_pytorch import buckets, parity, spread
from photofinish_pytorch.compilation import Forward
from photofinish_pytorch.device import Place
from photofinish_pytorch.edges import edges
from photofinish_pytorch.failure import at
from photofinish_pytorch.maker import Maker
from photofinish_pytorch.network import Network
from photofinish_pytorch.spread import Ranks
from photofinish_worker.engine import ParityData, Quantity, StepExchanges, Tensor
from photofinish_worker.graph import Graph, Role
from photofinish_worker.messages import Adam, Boundary, Optimizer, Sgd
from photofinish_worker.outcome import unsupported

SEED = 0
"""Seed of dropout after every reset."""


class Training:
    """A network that is ready for iterations."""

    def __init__(
        self,
        graph: Graph,
        settings: Optimizer,
        network: Network,
        forward: Forward,
        maker: Maker,
        place: Place,
        boundary: Boundary = Boundary.STEP,
        foreach: bool | None = None,
        ranks: Ranks | None = None,
        passes: int = 1,
        autocast: torch.dtype | None = None,
    ) -> None:
        if graph.loss is None:
            raise unsupported(f"{graph.name} has no loss to train with")
        self._parameters = graph.parameters
        self._settings = settings
        self._foreach = foreach
        self._autocast = autocast
        """What the forward pass and the loss are computed in under autocast, if they are."""
        self._ranks = ranks
        """What `forward` is, where several ranks train together."""
        self._network = network
        self._forward = forward
        self._maker = maker
        self._place = place
        self._inputs = tuple(maker.input(fed) for fed in graph.inputs)
        self._labels = maker.input(graph.loss.labels)
        self._edges = edges(boundary, place, (*self._inputs, self._labels))
        self._weights = [tensor for tensor in network.held.values() if tensor.requires_grad]
        self._optimizer = _optimizer(settings, self._weights, foreach)
        self._passes: list[tuple[torch.Tensor, ...]] = [(*self._inputs, self._labels)]
        """What is fed in each of the equal parts of the batch; views, where there are several."""
        if passes > 1:
            fed = [value.chunk(passes) for value in self._passes[0]]
            self._passes = list(zip(*fed, strict=True))
        self._seed()

    def _iterate(self, dropout: bool) -> torch.Tensor:
        with self._network.explained():
            if self._edges is not None:
                self._edges.begin((*self._inputs, self._labels))
            self._optimizer.zero_grad()
            loss = self._backward(dropout)
            self._optimizer.step()
            if self._edges is not None:
                (loss,) = self._edges.end((loss,))
        return loss

    def _backward(self, dropout: bool) -> torch.Tensor:
        """Leaves the gradients of the loss with the weights; gives the loss.

        Each pass's mean loss counts by its share of the batch: the gradients that add up are those
        of the batch's mean loss.
        """
        *others, last = self._passes
        if not others:
            return self._pass(*last, dropout=dropout)
        losses = []
        for fed in others:
            # What they come to goes out with the last.
            with nullcontext() if self._ranks is None else self._ranks.forward.no_sync():
                losses.append(self._pass(*fed, dropout=dropout).detach())
        losses.append(self._pass(*last, dropout=dropout).detach())
        return torch.stack(losses).sum()

    def _pass(self, *fed: torch.Tensor, dropout: bool) -> torch.Tensor:
        """Forward and backward with a part of the batch; gives its share of the loss."""
        *inputs, labels = fed
        with self._place.casting(self._autocast):
            (logits,) = self._forward(*inputs, dropout)
            loss = cross_entropy(logits, labels)
        if len(self._passes) > 1:
            loss = loss / len(self._passes)
        if self._ranks is not None:
            self._ranks.begin_backward()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    def step(self) -> None:
        """One iteration."""
        self._iterate(True)
        self._place.synchronize()

    def device_ns(self) -> int | None:
        """What the last step took by the device's own clock, where that is its sample."""
        return None if self._edges is None else self._edges.device_ns()

    def parity(self, steps: int) -> ParityData:
        """Gradients, movements, updates and losses, dropout off."""
        self.reset()
        tensors: list[Tensor] = []
        losses: list[float] = []
        with nullcontext() if self._ranks is None else self._ranks.whole():
            for iteration in range(steps):
                loss = self._iterate(False)
                losses.append(float(loss.detach().to(torch.float64).item()))
                if iteration == 0:
                    # The optimiser leaves the gradients as they are.
                    tensors += self._gradients()
                    tensors += self._changes(Role.BUFFER, Quantity.MOVEMENT)
            tensors += self._changes(Role.WEIGHT, Quantity.UPDATE)
        self.reset()
        return ParityData(tensors, losses)

    def _gradients(self) -> list[Tensor]:
        """The gradients of the last iteration; zeros where the loss does not depend on a weight."""
        found = []
        for parameter in self._parameters:
            if parameter.role is Role.WEIGHT:
                weight = self._network.held[parameter.name]
                gradient = self._gradient(weight)
                gradient = torch.zeros_like(weight) if gradient is None else gradient
                found.append(parity.output(Quantity.GRADIENT, parameter.name, gradient))
        return found

    def _gradient(self, weight: torch.Tensor) -> torch.Tensor | None:
        """The gradient of the last iteration, where the loss depends on the weight."""
        return weight.grad

    def _changes(self, role: Role, quantity: Quantity) -> list[Tensor]:
        """How far the parameters of this role are from where they began."""
        changes = []
        for parameter in self._parameters:
            if parameter.role is role:
                after, before = (
                    self._network.held[parameter.name],
                    self._maker.parameter(parameter),
                )
                changes.append(parity.change(quantity, parameter.name, after, before))
        return changes

    def diverged(self) -> str | None:
        """The first weight that is not finite."""
        for parameter in self._parameters:
            if parameter.role is Role.WEIGHT:
                weight = self._network.held[parameter.name].detach()
                # NaN is larger than any. Asking each number would take memory.
                largest = torch.linalg.vector_norm(weight, math.inf) if weight.numel() else 0.0
                if not math.isfinite(largest):
                    return parameter.name
        return None

    def reset(self) -> None:
        """Initial weights and statistics, a fresh optimiser, the first random numbers."""
        self._optimizer.zero_grad()
        with torch.no_grad():
            for parameter in self._parameters:
                if parameter.role is not Role.CONSTANT:
                    with at(parameter.name):
                        initial = self._maker.parameter(parameter)
                        self._network.held[parameter.name].copy_(initial)
        self._optimizer = _optimizer(self._settings, self._weights, self._foreach)
        if self._ranks is not None:
            self._ranks.restart()
        self._seed()

    def _seed(self) -> None:
        """What dropout drops is another thing on every rank."""
        torch.manual_seed(SEED + (0 if self._ranks is None else self._ranks.rank))

    def align(self) -> None:
        """Waits until all ranks are here, where there are several."""
        if self._ranks is not None:
            spread.align()

    @property
    def notes_exchanges(self) -> bool:
        """Whether the host sees an exchange end: NCCL's futures are there once it is enqueued."""
        return self._ranks is not None and not self._place.is_cuda

    def exchanges(self, steps: int) -> list[StepExchanges]:
        """What this rank exchanges in so many steps."""
        ranks = self._ranks
        if ranks is None:
            raise unsupported("one process exchanges nothing")
        self._rewrap(ranks, partial(ranks.note, on=True))
        ranks.noted(0, 0)
        told = []
        for _ in range(steps):
            spread.align()
            began_ns = time.perf_counter_ns()
            self.step()
            told.append(ranks.noted(began_ns, time.perf_counter_ns() - began_ns))
        self._rewrap(ranks, partial(ranks.note, on=False))
        return told

    def _rewrap(self, ranks: Ranks, another: Callable[[], None]) -> None:
        """Goes on with another `forward` of the ranks."""
        # Nobody may hold it while there is another.
        del self._forward
        another()
        self._forward = ranks.forward
        self._become_usual(ranks)

    def _become_usual(self, ranks: Ranks) -> None:
        for _ in range(ranks.unusual):
            self.step()

    def settle(self) -> None:
        """Runs the iterations that are not as all later ones, and goes back to the beginning."""
        if self._ranks is not None:
            self._become_usual(self._ranks)
            self.reset()

    def search_buckets(self) -> dict[str, str]:
        """Times some iterations of each size of bucket, and goes on with the fastest, from the
        beginning; tells what it found."""
        ranks = self._ranks
        if ranks is None:
            raise unsupported("one process exchanges nothing")
        gradient_bytes = sum(weight.numel() * weight.element_size() for weight in self._weights)
        found: dict[int, int] = {}
        for size_mib in buckets.sizes(gradient_bytes):
            self._rewrap(ranks, partial(ranks.resize, size_mib))
            times = []
            for _ in range(buckets.TIMED):
                spread.align()
                began_ns = time.perf_counter_ns()
                self.step()
                times.append(time.perf_counter_ns() - began_ns)
            found[size_mib] = ranks.slowest(statistics.median_low(times))
        fastest_mib = min(found, key=found.__getitem__)
        self._rewrap(ranks, partial(ranks.resize, fastest_mib))
        self.reset()
        return buckets.told(found, fastest_mib)

    def device_memory(self) -> tuple[int, int] | None:
        """Bytes in use on the device and their peak."""
        return self._place.memory()


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean over all positions of the cross-entropy over the last axis."""
    if logits.dim() > 2:
        return functional.cross_entropy(logits.flatten(0, -2), labels.flatten())
    return functional.cross_entropy(logits, labels)


def _optimizer(
    settings: Optimizer, weights: list[torch.Tensor], foreach: bool | None
) -> torch.optim.Optimizer:
    """A fresh optimiser: no velocity, no moments; every choice but the cell's is PyTorch's own."""
    with at("optimiser"):
        match settings:
            case Sgd(learning_rate, momentum, weight_decay):
                return torch.optim.SGD(
                    weights,
                    lr=learning_rate,
                    momentum=momentum,
                    weight_decay=weight_decay,
                    foreach=foreach,
                )
            case Adam(learning_rate, beta1, beta2, epsilon, weight_decay):
                return torch.optim.Adam(
                    weights,
                    lr=learning_rate,
                    betas=(beta1, beta2),
                    eps=epsilon,
                    weight_decay=weight_decay,
                    foreach=foreach,
                )
