"""What a cell asks of Transformers, checked and in its words."""

from dataclasses import dataclass

from photofinish_pytorch.configuration import Common, factor, understand_common
from photofinish_worker.messages import Cell, Mode, ModelSource
from photofinish_worker.outcome import unsupported

ENGINE = "transformers"
MODEL = "model"
TRAINER = "trainer"
VARIANTS = (MODEL, TRAINER)

ATTENTION = "attention"
IMPLEMENTATIONS = {"fused": "sdpa", "plain": "eager"}
"""Transformers' names of the forms of attention."""
CHECKPOINTING = "gradient_checkpointing"
ACCUMULATION = "gradient_accumulation"


@dataclass(frozen=True, slots=True)
class Configuration(Common):
    """A cell, understood."""

    network: str
    """The name of a network of the zoo."""
    attention: str
    """Which implementation of attention Transformers is told to take."""
    checkpointing: bool
    """Whether activations inside of layers are computed again in the backward pass."""
    by_trainer: bool
    """Whether Transformers' Trainer trains, rather than a loop of one's own."""
    accumulation: int
    """Number of equal parts of a batch whose gradients are added up before the optimiser moves."""


def understand(cell: Cell) -> Configuration:
    """Understands `cell`, or says what of it this worker does not run."""
    common = understand_common(cell, ENGINE, VARIANTS, (ATTENTION, CHECKPOINTING, ACCUMULATION))
    if cell.model.source is not ModelSource.ZOO:
        raise unsupported(
            f"{cell.model.name} is a file: Transformers has no class for it; its networks of the "
            "zoo run here"
        )
    by_trainer = cell.engine == f"{ENGINE}/{TRAINER}"
    if by_trainer and common.mode is Mode.INFERENCE:
        raise unsupported(f"{cell.engine} trains; for inference there is {ENGINE}/{MODEL}")
    checkpointing = factor(cell, CHECKPOINTING, ("off", "on")) == "on"
    accumulation = int(factor(cell, ACCUMULATION, ("1", "2", "4")))
    if common.mode is Mode.INFERENCE and (checkpointing or accumulation > 1):
        raise unsupported(f"`{CHECKPOINTING}` and `{ACCUMULATION}` are about training")
    batch = cell.dims.get("batch", 1)
    if batch % accumulation:
        raise unsupported(f"a batch of {batch} cannot be split into {accumulation} equal parts")
    return Configuration(
        common.element,
        common.tf32,
        common.threads,
        common.mode,
        common.optimizer,
        network=cell.model.name,
        attention=IMPLEMENTATIONS[factor(cell, ATTENTION, tuple(IMPLEMENTATIONS))],
        checkpointing=checkpointing,
        by_trainer=by_trainer,
        accumulation=accumulation,
    )
