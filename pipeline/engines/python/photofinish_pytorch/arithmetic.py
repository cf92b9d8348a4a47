"""What a CPU computes in where a cell asks for less than binary32."""

import os
from collections.abc import Mapping

import torch

_INSTRUCTIONS = {
    # On x86, and on ARM.
    torch.bfloat16: ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16"),
    torch.float16: ("avx512_fp16", "amx_fp16", "fp16_arith"),
}
"""What PyTorch calls the instructions that compute in a narrow type."""

_LIMITS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
"""The variables by which oneDNN is told to do without instructions."""


def settings(element: torch.dtype, on_cpu: bool) -> dict[str, str]:
    """What operators in `element` are computed in, where that does not go without saying: PyTorch
    runs bf16 and fp16 on a CPU that knows neither, and says nothing."""
    if not on_cpu or element not in _INSTRUCTIONS:
        return {}
    supported = {
        # For bf16 any AVX-512 is enough, by which oneDNN imitates it.
        torch.bfloat16: torch.ops.mkldnn._is_mkldnn_bf16_supported,
        torch.float16: torch.ops.mkldnn._is_mkldnn_fp16_supported,
    }
    capabilities = torch.cpu.get_capabilities()
    limits = "".join(f"; {name}={os.environ[name]}" for name in _LIMITS if name in os.environ)
    return {"arithmetic": words(element, capabilities, onednn=supported[element]()) + limits}


def words(element: torch.dtype, capabilities: Mapping[str, object], onednn: bool) -> str:
    """What is computed in on a CPU of these `capabilities`, if oneDNN takes the type or not."""
    name = str(element).removeprefix("torch.")
    known = _INSTRUCTIONS[element]
    found = [one.upper() for one in known if capabilities.get(one)]
    if not found:
        return f"stored as {name}, computed in float32: this CPU has no instructions for {name}"
    if not onednn:
        return f"stored as {name}, computed in float32: oneDNN does without {' and '.join(found)}"
    return (
        f"products in {name} where oneDNN has kernels ({', '.join(found)}), all else in float32, "
        f"rounded to {name}"
    )
