"""Training by Transformers' `Trainer`: one turn of the loop in `Trainer.train()` is one step."""

import torch
from transformers import Trainer, TrainingArguments

from photofinish_pytorch.device import Place
from photofinish_pytorch.maker import Maker
from photofinish_pytorch.training import SEED, cross_entropy
from photofinish_transformers.course import Course, Endless
from photofinish_transformers.network import Network
from photofinish_transformers.training import Loop
from photofinish_worker.graph import Graph
from photofinish_worker.messages import Optimizer
from photofinish_worker.outcome import unsupported

FOREVER = 10**9
"""More steps than anybody asks for."""

LABELS = "labels"

Batch = dict[str, torch.Tensor]


class Trained(Loop):
    """A network in the hands of a `Trainer`; every reset brings another one."""

    def __init__(
        self,
        graph: Graph,
        settings: Optimizer,
        network: Network,
        parts: int,
        maker: Maker,
        place: Place,
        scratch: str,
        mixed: bool,
        foreach: bool | None = None,
    ) -> None:
        if place.is_cuda and torch.cuda.device_count() > 1:
            raise unsupported(
                "a Trainer spreads its batch over all GPUs that it sees: let it see one by "
                "CUDA_VISIBLE_DEVICES"
            )
        super().__init__(graph, settings, network, parts, maker, place, foreach=foreach)
        self._arguments = _arguments(parts, place, scratch, mixed)
        names = (*network.inputs, LABELS)
        self._batches = [dict(zip(names, part, strict=True)) for part in self._passes]
        self._course = self._begin()

    def _begin(self) -> Course:
        with self._network.explained():
            trainer = _Trainer(self._network.model, self._arguments, self._optimizer, self._batches)
            return Course(trainer)

    def _iterate(self, dropout: bool) -> torch.Tensor:
        with self._network.explained():
            self._network.drop(dropout)
            # Only parity, for which nothing drops out, asks for gradients.
            return self._course.step(keep_gradients=not dropout)

    def _gradient(self, weight: torch.Tensor) -> torch.Tensor | None:
        return self._course.gradients.get(weight)

    def reset(self) -> None:
        """Initial weights, a fresh optimiser, and another Trainer."""
        self._course.end()
        super().reset()
        self._course = self._begin()


class _Trainer(Trainer):  # type: ignore[misc]
    """A Trainer whose batches are ready, and whose loss is the graph's: no label is shifted."""

    loss_is_scaled_for_ga = False

    def __init__(
        self,
        model: torch.nn.Module,
        arguments: TrainingArguments,
        optimizer: torch.optim.Optimizer,
        batches: list[Batch],
    ) -> None:
        super().__init__(model, arguments, optimizers=(optimizer, None))
        self.losses: list[torch.Tensor] = []
        """The losses of the parts of the batch, as they add up."""
        self._endless = Endless(batches)

    def get_train_dataloader(self) -> Endless:
        return self._endless

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: Batch,
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        del return_outputs, num_items_in_batch
        labels = inputs.pop(LABELS)
        return cross_entropy(model(**inputs)["logits"], labels)

    def training_step(
        self,
        model: torch.nn.Module,
        inputs: Batch,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        loss: torch.Tensor = super().training_step(model, inputs, num_items_in_batch)
        self.losses.append(loss)
        return loss


def _arguments(parts: int, place: Place, scratch: str, mixed: bool) -> TrainingArguments:
    """The Trainer's defaults, except that it saves and tells nothing, and that learning rate and
    gradients are the cell's: the rate does not decay, and no gradient is clipped. It takes the norm
    of all gradients, and multiplies them by one, all the same."""
    return TrainingArguments(
        output_dir=scratch,
        max_steps=FOREVER,
        gradient_accumulation_steps=parts,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=SEED,
        use_cpu=not place.is_cuda,
        bf16=mixed,
    )
