"""A `Trainer.train()` that goes on step by step, as it is asked to.

It waits where it is about to begin a step. So a step is what its loop does from there to where it
would begin the next one: forward, backward, optimiser, schedule, callbacks, bookkeeping, the next
batch. It waits as a greenlet, a call stack of its own in the same thread: OpenMP would give another
thread another pool, and where both together have more threads than there are processors, libgomp
has idle ones spin 100 times instead of 300,000 (its `env.c`).
"""

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from greenlet import getcurrent, greenlet
from transformers import TrainerCallback


class Endless:
    """The parts of a batch, over and over."""

    def __init__(self, batches: list[dict[str, torch.Tensor]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        """The parts, each as a batch of the Trainer's."""
        while True:
            yield from self._batches


class Steered(Protocol):
    """What of a Trainer is needed here."""

    losses: list[torch.Tensor]
    """What `training_step` gave since the list was cleared."""

    def add_callback(self, callback: Any) -> None:
        """Has the callback told of every step."""
        ...

    def train(self) -> Any:
        """Trains."""
        ...


class Course(TrainerCallback):  # type: ignore[misc]
    """One `train()`, from its beginning to its end."""

    def __init__(self, trainer: Steered) -> None:
        self.gradients: dict[torch.Tensor, torch.Tensor] = {}
        """The gradients of the last step that was to keep them, by the weight."""
        self._keeps = False
        self._losses = trainer.losses
        self._home = getcurrent()
        self._loop = greenlet(trainer.train)
        self._ended: BaseException | None = None
        trainer.add_callback(self)
        self._go_on()

    def step(self, keep_gradients: bool) -> torch.Tensor:
        """One turn of the loop; gives the batch's loss before it."""
        self._keeps = keep_gradients
        self._losses.clear()
        self._go_on()
        first, *rest = self._losses
        return sum(rest, first)

    def end(self) -> None:
        """Leaves the loop."""
        self.gradients.clear()
        if self._ended is None:
            # GreenletExit, which no `except Exception` keeps.
            self._loop.throw()

    def _go_on(self) -> None:
        """Returns when the loop is about to begin a step; raises what ended it."""
        if self._ended is None:
            try:
                self._loop.switch()
            except BaseException as error:
                self._ended = error
            else:
                if self._loop.dead:
                    self._ended = RuntimeError("the Trainer came to an end by itself")
        if self._ended is not None:
            raise self._ended

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Waits until a step is asked for."""
        self._home.switch()

    def on_pre_optimizer_step(self, *_: Any, model: torch.nn.Module, **__: Any) -> None:
        """Keeps gradients, which the loop forgets before the step is over."""
        if self._keeps:
            self.gradients = {
                weight: weight.grad.detach().clone()
                for weight in model.parameters()
                if weight.grad is not None
            }
