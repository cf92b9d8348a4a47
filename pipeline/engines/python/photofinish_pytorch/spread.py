"""How the parts of a batch are spread over processes and devices, by PyTorch's own modules."""

import os
from dataclasses import replace
from datetime import timedelta

import torch
from torch import distributed
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DataParallel, DistributedDataParallel

from photofinish_pytorch.configuration import Spread
from photofinish_pytorch.device import Place
from photofinish_pytorch.failure import at
from photofinish_worker.messages import Strategy
from photofinish_worker.outcome import Failure, Kind
from photofinish_worker.ranks import HERE, World

PATIENCE = timedelta(seconds=60)
"""How long a rank waits for the one that serves the store."""

INTERFACE = "GLOO_SOCKET_IFNAME"
"""Names the network interface over which ranks exchange."""


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


def wrap(
    module: torch.nn.Module, spread: Spread, place: Place, team: Team | None
) -> torch.nn.Module:
    """The module that a user would call: the network as it is, or in PyTorch's module around it."""
    if spread.strategy is Strategy.DATA_PARALLEL:
        first = place.device.index or 0
        last, there = first + spread.parts, torch.cuda.device_count()
        if last > there:
            reason = (
                f"{spread.parts} replicas from cuda:{first} on take {last} CUDA devices: PyTorch "
                f"finds {there}"
            )
            raise Failure(Kind.UNAVAILABLE, reason)
        return DataParallel(module, list(range(first, last)))
    if spread.strategy is not Strategy.DDP:
        return module
    if team is None or team.world.size != spread.parts:
        raise Failure(Kind.CRASHED, f"this process is not one of {spread.parts} ranks")
    team.group(place)
    with at("DistributedDataParallel"):
        wrapped = DistributedDataParallel(
            module,
            device_ids=[place.device] if place.is_cuda else None,
            bucket_cap_mb=spread.bucket_mib,
            gradient_as_bucket_view=spread.bucket_views,
            static_graph=spread.static_graph,
        )
        match spread.compression:
            case "fp16":
                wrapped.register_comm_hook(None, default_hooks.fp16_compress_hook)
            case "bf16":
                wrapped.register_comm_hook(None, default_hooks.bf16_compress_hook)
            case _:
                pass
    return wrapped


def align() -> None:
    """Waits until all ranks are here."""
    with at("barrier"):
        distributed.barrier()
