"""How the parts of a batch are spread over processes and devices, by PyTorch's own modules."""

import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import torch
from torch import distributed
from torch.distributed import GradBucket, PrefixStore, TCPStore  # type: ignore[attr-defined]
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DataParallel, DistributedDataParallel

from photofinish_pytorch import buckets
from photofinish_pytorch.configuration import POWER_SGD, Spread
from photofinish_pytorch.device import Place
from photofinish_pytorch.failure import at
from photofinish_worker.engine import BucketExchange, StepExchanges
from photofinish_worker.messages import Strategy
from photofinish_worker.outcome import Failure, Kind
from photofinish_worker.ranks import HERE, World

PATIENCE = timedelta(seconds=60)
"""How long a rank waits for the one that serves the store."""

INTERFACE = "GLOO_SOCKET_IFNAME"
"""Names the network interface over which ranks exchange."""

Future = torch.futures.Future[torch.Tensor]
Hook = Callable[..., Future]

HOOKS: dict[str, Hook] = {
    "fp16": default_hooks.fp16_compress_hook,
    "bf16": default_hooks.bf16_compress_hook,
}
"""What gradients go through that are rounded on their way."""

AS_THEY_ARE: Hook = default_hooks.allreduce_hook
"""What they go through where nothing becomes of them."""

NARROW_BYTES = 2
"""What a number takes that goes through one of these."""

WHOLE = 2
"""Iterations whose gradients go whole before PowerSGD begins: the fewest that PyTorch allows, since
buckets are made anew after the first."""


class Store:
    """PyTorch's own store, over TCP."""

    def __init__(self, world: World, *, serves: bool) -> None:
        try:
            self.store = TCPStore(
                world.address,
                world.port,
                world.size,
                is_master=serves,
                timeout=PATIENCE,
                wait_for_workers=False,
            )
        except RuntimeError as error:
            what = "cannot serve the store at which ranks meet"
            if world.rank > 0:
                what = "rank 0 is not reached"
            reason = f"{what} ({world.address}:{world.port}): {error}"
            raise Failure(Kind.UNAVAILABLE, reason) from error

    @property
    def port(self) -> int:
        """The port at which it is served."""
        return int(self.store.port)

    def set(self, name: str, value: bytes) -> None:
        """Gives a name a value."""
        with at("the store at which ranks meet"):
            self.store.set(name, value.decode())

    def get(self, name: str, patience_s: float) -> bytes | None:
        """The value of a name once it has one; nothing where it has none within that time."""
        with at("the store at which ranks meet"):
            if patience_s == 0.0:
                if not self.store.check([name]):
                    return None
            else:
                try:
                    self.store.wait([name], timedelta(seconds=patience_s))
                except distributed.DistStoreError:
                    # It says so of a wait that was in vain.
                    return None
            return bytes(self.store.get(name))

    def forget(self, name: str) -> None:
        """Forgets a name."""
        with at("the store at which ranks meet"):
            self.store.delete_key(name)


class Team:
    """A process among the ranks of a cell, and where they meet."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._store = Store(world, serves=world.rank == 0)
        """What the group is made by: whoever waits there for a rank lets nobody else ask."""

    def store(self) -> Store:
        """The store, over a connection of its own."""
        return Store(replace(self.world, port=self._store.port), serves=False)

    def group(self, place: Place) -> None:
        """Makes the group in which all ranks exchange."""
        if self.world.address == HERE:
            os.environ.setdefault(INTERFACE, "lo")
        with at("process group"):
            distributed.init_process_group(
                "nccl" if place.is_cuda else "gloo",
                store=PrefixStore("photofinish/group", self._store.store),
                rank=self.world.rank,
                world_size=self.world.size,
            )


class Ranks:
    """The network of this rank in PyTorch's own module, which exchanges gradients with others."""

    def __init__(self, module: torch.nn.Module, spread: Spread, place: Place, team: Team) -> None:
        self.rank = team.world.rank
        self._backward_ns = 0
        """When the last backward pass began, by `time.perf_counter_ns`, as all times here."""
        self._buckets: list[BucketExchange] = []
        """What was noted since it was last asked for."""
        self._module, self._spread, self._place = module, spread, place
        self._goes_whole = False
        """Whether gradients go whole for now, where they are else sent as factors."""
        self._factors: powerSGD_hook.PowerSGDState | None = None
        """What PowerSGD remembers from iteration to iteration."""
        team.group(place)
        self._wrapped: DistributedDataParallel | None = None
        self._wrap(notes=False)

    @property
    def forward(self) -> DistributedDataParallel:
        """What a user would call."""
        if self._wrapped is None:
            raise Failure(Kind.CRASHED, "there is no module that exchanges gradients")
        return self._wrapped

    def note(self, on: bool) -> None:
        """Begins, or ends, to note what is exchanged, on all ranks, by another `forward`; nobody
        may hold the one before."""
        # Two would both be told of every gradient.
        self._wrapped = None
        gc.collect()
        self._wrap(notes=on)

    @property
    def unusual(self) -> int:
        """Iterations of a new `forward` that are not as all later ones."""
        # Buckets are made anew after the first, and memory for factors in the first that has some.
        return WHOLE + 1 if self._spread.compression == POWER_SGD else 2

    def resize(self, bucket_mib: int) -> None:
        """Goes on with buckets of another size, on all ranks, by another `forward`; nobody may hold
        the one before."""
        self._spread = replace(self._spread, bucket_mib=buckets.asked(bucket_mib))
        self.note(on=False)

    def slowest(self, ns: int) -> int:
        """The longest of what each rank took."""
        with at("the ranks' times"):
            told = torch.tensor([ns], dtype=torch.int64, device=self._place.device)
            distributed.all_reduce(told, op=distributed.ReduceOp.MAX)
            return int(told.item())

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Lets gradients go whole meanwhile, where they are else sent as factors."""
        self._goes_whole = True
        try:
            yield
        finally:
            self._goes_whole = False

    def restart(self) -> None:
        """Forgets what a compression remembers of earlier iterations."""
        factors = self._factors
        if factors is not None:
            for memory in (factors.error_dict, factors.p_memory_dict, factors.q_memory_dict):
                memory.clear()
            factors.rng.seed(0)

    def begin_backward(self) -> None:
        """Says that the backward pass begins."""
        self._backward_ns = time.perf_counter_ns()

    def noted(self, began_ns: int, wall_ns: int) -> StepExchanges:
        """What was noted of a step."""
        buckets, self._buckets = self._buckets, []

        def since(time_ns: int) -> int:
            return min(max(0, time_ns - began_ns), wall_ns)

        times = [
            replace(bucket, began_ns=since(bucket.began_ns), ended_ns=since(bucket.ended_ns))
            for bucket in buckets
        ]
        return StepExchanges(wall_ns, since(self._backward_ns), times)

    def _wrap(self, notes: bool) -> None:
        spread, place = self._spread, self._place
        with at("DistributedDataParallel"):
            wrapped = DistributedDataParallel(
                self._module,
                device_ids=[place.device] if place.is_cuda else None,
                bucket_cap_mb=spread.bucket_mib,
                gradient_as_bucket_view=spread.bucket_views,
                static_graph=spread.static_graph,
            )
            hook = HOOKS.get(spread.compression)
            self._factors = None
            if spread.compression == POWER_SGD:
                # What is nothing in one direction would be divided by its length, without the ε.
                self._factors = powerSGD_hook.PowerSGDState(
                    None, start_powerSGD_iter=WHOLE, orthogonalization_epsilon=1e-8
                )
                hook = self._in_factors
            if notes:
                hook = self._noting(hook or AS_THEY_ARE)
            if hook is not None:
                wrapped.register_comm_hook(self._factors, hook)
        self._wrapped = wrapped

    def _in_factors(self, factors: powerSGD_hook.PowerSGDState, bucket: GradBucket) -> Future:
        """PowerSGD, or gradients as they are where they are to go whole."""
        if self._goes_whole:
            return AS_THEY_ARE(None, bucket)
        sent: Future = powerSGD_hook.powerSGD_hook(factors, bucket)
        if not self._place.is_cuda:
            # It exchanges three times, each time once the time before is over. Gloo tells exchanges
            # apart by the order in which they begin, and that of two buckets is another on each
            # rank.
            sent.wait()
        return sent

    def _bytes(self, bucket: GradBucket) -> int:
        """What a rank sends of a bucket."""
        buffer = bucket.buffer()
        if self._spread.compression in HOOKS:
            return buffer.numel() * NARROW_BYTES
        factors = self._factors
        if factors is None or self._goes_whole or factors.iter < WHOLE:
            return buffer.numel() * buffer.element_size()
        return sum(map(_numbers_sent, bucket.gradients())) * buffer.element_size()

    def _noting(self, hook: Hook) -> Hook:
        """The hook, with the times of what goes through it."""

        def noting(state: object, bucket: GradBucket) -> Future:
            began_ns, index = time.perf_counter_ns(), bucket.index()
            sent_bytes = self._bytes(bucket)

            def back(done: Future) -> torch.Tensor:
                ended_ns = time.perf_counter_ns()
                self._buckets.append(BucketExchange(index, sent_bytes, began_ns, ended_ns))
                return done.value()

            # Whoever waits for this waits until it is noted.
            return hook(state, bucket).then(back)

        return noting


def _numbers_sent(gradient: torch.Tensor) -> int:
    """How many numbers PowerSGD of rank 1 sends of a gradient `[rows, …]`: a column and a row, or
    all where that saves less than half of them (its `min_compression_rate`)."""
    rows = gradient.shape[0] if gradient.dim() > 0 else 1
    columns = gradient.numel() // max(1, rows)
    as_factors = rows + columns
    return as_factors if 2 * as_factors < rows * columns else gradient.numel()


def wrap(
    module: torch.nn.Module, spread: Spread, place: Place, team: Team | None
) -> tuple[torch.nn.Module, Ranks | None]:
    """The module that a user would call: the network as it is, or in PyTorch's module around it;
    and the latter, where it exchanges gradients with other processes."""
    if spread.strategy is Strategy.DATA_PARALLEL:
        first = place.device.index or 0
        last, there = first + spread.workers, torch.cuda.device_count()
        if last > there:
            reason = (
                f"{spread.workers} replicas from cuda:{first} on take {last} CUDA devices: PyTorch "
                f"finds {there}"
            )
            raise Failure(Kind.UNAVAILABLE, reason)
        return DataParallel(module, list(range(first, last))), None
    if spread.strategy is not Strategy.DDP:
        return module, None
    if team is None or team.world.size != spread.workers:
        raise Failure(Kind.CRASHED, f"this process is not one of {spread.workers} ranks")
    ranks = Ranks(module, spread, place, team)
    return ranks.forward, ranks


def align() -> None:
    """Waits until all ranks are here."""
    with at("barrier"):
        distributed.barrier()
