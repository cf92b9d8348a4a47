"""Mixed precision: weights stay in fp32, and Grappler has operators compute in bf16 where it thinks
that safe. It rewrites functions; what runs operator by operator, or is XLA's as a whole, it leaves
alone."""

from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf

from photofinish_worker.outcome import unsupported

ONEDNN = "TF_ENABLE_ONEDNN_OPTS"
"""The variable by which TensorFlow is told whether to compute with oneDNN."""

OPTION = "auto_mixed_precision_onednn_bfloat16"

ARITHMETIC = (
    f"bf16 in the operators that Grappler thinks safe for it ({OPTION}), fp32 elsewhere; "
    "weights in fp32"
)
"""What is computed in where precision is mixed."""

_INSTRUCTIONS = "avx512_bf16"
_PROCESSORS = Path("/proc/cpuinfo")
_OFF = ("0", "false")


def check(environment: Mapping[str, str], processors: str | None = None) -> None:
    """Refuses where TensorFlow would go on in fp32, whose outputs are within the bounds of bf16.
    `processors`: what the system tells of them."""
    value = environment.get(ONEDNN)
    if value is not None and value.lower() in _OFF:
        raise unsupported(
            f"{ONEDNN}={value} turns off oneDNN, for which alone TensorFlow mixes in bf16, and it "
            "would compute in fp32: unset it"
        )
    told = _PROCESSORS.read_text() if processors is None else processors
    if _INSTRUCTIONS not in told.split():
        raise unsupported(
            "this processor has no instructions for bf16 (AVX512_BF16), and TensorFlow would "
            "compute in fp32"
        )


def turn(on: bool) -> None:
    """Has all functions of this process mix precision from here on, or none."""
    tf.config.optimizer.set_experimental_options({OPTION: on})
