"""How the parts of a batch are spread over processes and devices, by PyTorch's own modules."""

import gc
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import torch
from torch import distributed
from torch.distributed import GradBucket, PrefixStore, TCPStore  # type: ignore[attr-defined]
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DataParallel, DistributedDataParallel

from photofinish_pytorch.configuration import Spread
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
"""What gradients go through that are compressed on their way."""

NARROW_BYTES = 2
"""What a number takes that goes through one of these."""


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
            if notes:
                wrapped.register_comm_hook(None, self._noting(hook or default_hooks.allreduce_hook))
            elif hook is not None:
                wrapped.register_comm_hook(None, hook)
        self._wrapped = wrapped

    def _noting(self, hook: Hook) -> Hook:
        """The hook, with the times of what goes through it."""
        narrow = self._spread.compression in HOOKS

        def noting(state: None, bucket: GradBucket) -> Future:
            began_ns, index, buffer = time.perf_counter_ns(), bucket.index(), bucket.buffer()
            sent_bytes = buffer.numel() * (NARROW_BYTES if narrow else buffer.element_size())

            def back(done: Future) -> torch.Tensor:
                ended_ns = time.perf_counter_ns()
                self._buckets.append(BucketExchange(index, sent_bytes, began_ns, ended_ns))
                return done.value()

            # Whoever waits for this waits until it is noted.
            return hook(state, bucket).then(back)

        return noting


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
