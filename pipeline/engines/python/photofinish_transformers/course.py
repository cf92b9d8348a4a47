"""A `Trainer.train()` that goes on step by step, as it is asked to.

It runs in a thread of its own and waits where it is about to begin a step. So a step is what its
loop does from there to where it would begin the next one: forward, backward, optimiser, schedule,
callbacks, bookkeeping, the next batch. Handing over to the thread and back takes microseconds.
"""

import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any, Protocol

import torch
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


class _Over(Exception):
    """Nobody asks for more steps."""


class Course(TrainerCallback):  # type: ignore[misc]
    """One `train()`, from its beginning to its end."""

    def __init__(self, trainer: Steered, threads: int) -> None:
        self.gradients: dict[torch.Tensor, torch.Tensor] = {}
        """The gradients of the last step that was to keep them, by the weight."""
        self._keeps = False
        self._trainer = trainer
        self._threads = threads
        self._go: SimpleQueue[bool] = SimpleQueue()
        self._there: SimpleQueue[BaseException | None] = SimpleQueue()
        self._ended: BaseException | None = None
        trainer.add_callback(self)
        self._thread = threading.Thread(target=self._run, name="Trainer.train", daemon=True)
        self._thread.start()
        self._wait()

    def step(self, keep_gradients: bool) -> torch.Tensor:
        """One turn of the loop; gives the batch's loss before it."""
        if self._ended is not None:
            raise self._ended
        self._keeps = keep_gradients
        self._trainer.losses.clear()
        self._go.put(True)
        self._wait()
        first, *rest = self._trainer.losses
        return sum(rest, first)

    def end(self) -> None:
        """Leaves the loop."""
        self.gradients.clear()
        if self._ended is None:
            self._go.put(False)
        self._thread.join()

    def _wait(self) -> None:
        """Returns when the loop is about to begin a step; raises what ended it."""
        self._ended = self._there.get()
        if self._ended is not None:
            raise self._ended

    def _run(self) -> None:
        try:
            # OpenMP keeps the number by thread.
            torch.set_num_threads(self._threads)
            self._trainer.train()
            self._there.put(RuntimeError("the Trainer came to an end by itself"))
        except _Over:
            pass
        except BaseException as error:  # It is raised where the step was asked for.
            self._there.put(error)

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Waits until a step is asked for."""
        self._there.put(None)
        if not self._go.get():
            raise _Over

    def on_pre_optimizer_step(self, *_: Any, model: torch.nn.Module, **__: Any) -> None:
        """Keeps gradients, which the loop forgets before the step is over."""
        if self._keeps:
            self.gradients = {
                weight: weight.grad.detach().clone()
                for weight in model.parameters()
                if weight.grad is not None
            }
