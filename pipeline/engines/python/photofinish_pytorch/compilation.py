"""PyTorch's compiler, for `torch.compile` and AOTInductor, and what it needs of the machine."""

import os
import shutil
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from photofinish_worker import cache
from photofinish_worker.outcome import Failure, Kind

_INDUCTOR_CACHE = "TORCHINDUCTOR_CACHE_DIR"

_CXX = "PHOTOFINISH_CXX"
"""Holds what tells the machine's C++ compiler from others."""

Forward = Callable[..., tuple[torch.Tensor, ...]]


def prepare(threads: int, on_cpu: bool, scratch: str) -> dict[str, str]:
    """Makes ready for compiling, and says with what."""
    if on_cpu:
        settings = {
            "CPU kernels by": _compiler(("C++", "g++", "CXX"), "PyTorch", "kernels for a CPU")
        }
    else:
        _compiler(("C", "gcc", "CC"), "Triton", "what launches its kernels")
        settings = {"CUDA kernels by": "Triton"}
    folder = shelf(os.environ, scratch)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        # A cache that others may not write to: every launch compiles for itself.
        folder = Path(scratch) / "compiled"
    os.environ.setdefault(_INDUCTOR_CACHE, str(folder))
    import torch._inductor.config

    # The number of threads is written into the code. It is a part of a compiled network's name in
    # the cache only where it is set here.
    torch._inductor.config.cpp.threads = threads
    return settings


def shelf(environment: Mapping[str, str], scratch: str) -> Path:
    """Where kernels are kept: PyTorch finds them by their source and command line, whichever
    compiler answers to its name."""
    cxx = environment.get(_CXX)
    if cxx is None:
        return Path(scratch) / "compiled"
    return cache.folder(environment, scratch) / "compiled" / cxx


def _compiler(of: tuple[str, str, str], caller: str, what: str) -> str:
    """The compiler that `caller` is going to call for `what`: of a language, called so unless a
    variable says otherwise. What it compiles includes Python's headers."""
    language, usual, variable = of
    name = os.environ.get(variable, usual)
    found = shutil.which(name)
    if found is None:
        reason = (
            f"there is no {language} compiler `{name}`, with which {caller} compiles {what}: "
            f"install one (on Debian: apt install {usual})"
        )
        raise Failure(Kind.UNAVAILABLE, reason)
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.exists():
        reason = (
            f"{header} is missing, which {caller} includes in {what}: install Python's headers "
            "(on Debian: apt install python3-dev)"
        )
        raise Failure(Kind.UNAVAILABLE, reason)
    return found


def find_toolkit() -> None:
    """Tells AOTInductor where CUDA's toolkit is: it links with a stub of the driver's library, and
    looks for that where this variable says, however it found the toolkit."""
    from torch.utils.cpp_extension import CUDA_HOME

    if CUDA_HOME is None:
        reason = (
            "AOTInductor compiles for a GPU with CUDA's toolkit, which is not there: install it, "
            "or say where it is with CUDA_HOME"
        )
        raise Failure(Kind.UNAVAILABLE, reason)
    os.environ.setdefault("CUDA_HOME", CUDA_HOME)


def wrap(forward: torch.nn.Module, mode: str) -> Forward:
    """The network compiled as a whole, or not at all: nothing of it runs eagerly in silence."""
    compiled: Forward = torch.compile(forward, mode=mode, fullgraph=True)
    return compiled


def settle() -> None:
    """Ends the processes that compiled: nothing may run beside a measurement."""
    from torch._inductor.async_compile import shutdown_compile_workers

    shutdown_compile_workers()


def result(on_cpu: bool, mode: str) -> dict[str, str]:
    """What came of it: whether this process compiled or found everything in the cache, which
    instructions the kernels use, and whether a GPU replays them as graphs."""
    from torch._dynamo.utils import counters

    inductor, autograd = counters["inductor"], counters["aot_autograd"]
    anew = inductor["fxgraph_cache_miss"] + inductor["fxgraph_cache_bypass"]
    found = inductor["fxgraph_cache_hit"] + autograd["autograd_cache_hit"]
    warm = found and not anew
    settings = {"kernels": "from the cache of earlier launches" if warm else "made by this launch"}
    if on_cpu:
        return settings | vectors()
    if mode != "default":
        # PyTorch leaves them out with a warning where it cannot record the network.
        skips = inductor["cudagraph_skips"]
        settings["CUDA graphs"] = f"skipped {skips} times" if skips else "replayed"
    return settings


def vectors() -> dict[str, str]:
    """Which instructions the kernels for a CPU use; PyTorch tries them out once a process."""
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    return {"vectors of CPU kernels": str(pick_vec_isa() or "none")}
