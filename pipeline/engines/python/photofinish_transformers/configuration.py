"""What a cell asks of Transformers, checked and in its words."""

from dataclasses import dataclass

from photofinish_pytorch.configuration import (
    ACCUMULATION,
    AUTOTUNE,
    BOUNDARIES,
    FOREACH,
    MIXED,
    Common,
    understand_common,
)
from photofinish_worker import ask
from photofinish_worker.allocator import ALLOCATOR
from photofinish_worker.messages import Cell, Mode, ModelSource, Precision
from photofinish_worker.outcome import unsupported

ENGINE = "transformers"
MODEL = "model"
TRAINER = "trainer"
PIPELINE = "pipeline"
ONNXRUNTIME = "onnxruntime"
VARIANTS = (MODEL, TRAINER, PIPELINE, ONNXRUNTIME)

ATTENTION = "attention"
IMPLEMENTATIONS = {"fused": "sdpa", "plain": "eager"}
"""Transformers' names of the forms of attention."""
CHECKPOINTING = "gradient_checkpointing"
DROPOUT = "dropout"
"""Decided which graph this worker is sent; the configuration is made from that."""

_FACTORS = {
    MODEL: (ALLOCATOR, ATTENTION, AUTOTUNE, FOREACH, CHECKPOINTING, ACCUMULATION, MIXED, DROPOUT),
    TRAINER: (ALLOCATOR, ATTENTION, AUTOTUNE, FOREACH, CHECKPOINTING, ACCUMULATION, MIXED, DROPOUT),
    PIPELINE: (ALLOCATOR, ATTENTION),
    ONNXRUNTIME: (ATTENTION,),
}
_MODES = {
    TRAINER: (Mode.TRAINING, MODEL),
    PIPELINE: (Mode.INFERENCE, MODEL),
    ONNXRUNTIME: (Mode.INFERENCE, MODEL),
}
"""What a variant does where it does one thing alone, and who does the other."""
_FORMS = {ONNXRUNTIME: ("plain",)}
"""The forms of attention of a variant that has not all of them: in the file that ONNX Runtime is
given it is products and a softmax, whatever it was in the model."""


@dataclass(frozen=True, slots=True)
class Configuration(Common):
    """A cell, understood."""

    network: str
    """The name of a network of the zoo."""
    attention: str
    """Which implementation of attention Transformers is told to take."""
    checkpointing: bool
    """Whether activations inside of layers are computed again in the backward pass."""
    variant: str
    """Who calls the model."""
    accumulation: int
    """Number of equal parts of a batch whose gradients are added up before the optimiser moves."""


def understand(cell: Cell) -> Configuration:
    """Understands `cell`, or says what of it this worker does not run."""
    variant = ask.variant(cell, ENGINE, VARIANTS)
    boundaries = BOUNDARIES if variant == MODEL else ask.STEP
    common = understand_common(cell, ENGINE, VARIANTS, _FACTORS[variant], boundaries)
    if cell.model.source is not ModelSource.ZOO:
        raise unsupported(
            f"{cell.model.name} is a file: Transformers has no class for it; its networks of the "
            "zoo run here"
        )
    only, other = _MODES.get(variant, (common.mode, variant))
    if common.mode is not only:
        does = "trains" if only is Mode.TRAINING else "does not train"
        raise unsupported(f"{cell.engine} {does}; for {common.mode} there is {ENGINE}/{other}")
    _check(cell, variant)
    forms = _FORMS.get(variant, tuple(IMPLEMENTATIONS))
    checkpointing = ask.factor(cell, CHECKPOINTING, ("off", "on")) == "on"
    accumulation = int(ask.factor(cell, ACCUMULATION, ("1", "2", "4")))
    if common.mode is Mode.INFERENCE and (checkpointing or accumulation > 1):
        raise unsupported(f"`{CHECKPOINTING}` and `{ACCUMULATION}` are about training")
    batch = cell.dims.get("batch", 1)
    if batch % accumulation:
        raise unsupported(f"a batch of {batch} cannot be split into {accumulation} equal parts")
    return Configuration(
        common.element,
        common.tf32,
        common.autotune,
        common.threads,
        common.mode,
        common.optimizer,
        common.foreach,
        common.boundary,
        common.autocast,
        network=cell.model.name,
        attention=IMPLEMENTATIONS[ask.factor(cell, ATTENTION, forms)],
        checkpointing=checkpointing,
        variant=variant,
        accumulation=accumulation,
    )


def _check(cell: Cell, variant: str) -> None:
    """Refuses what only some variants cannot do."""
    if variant == PIPELINE and cell.device != "cpu":
        raise unsupported(
            f"{cell.engine} is run on a CPU alone: a pipeline copies its outputs to the host's "
            f"memory, and a step on {cell.device} ends with the outputs there"
        )
    if variant == ONNXRUNTIME and cell.device != "cpu":
        raise unsupported(f"{cell.engine} is run on a CPU alone: its library is the one for CPUs")
    if variant == ONNXRUNTIME and cell.precision not in (Precision.FP32, Precision.FP16):
        raise unsupported(
            "ONNX Runtime's CPU execution provider has no kernels, or not all that these networks "
            f"need, for {cell.precision}"
        )
