"""What is global to a process that runs PyTorch: threads and arithmetic."""

from collections.abc import Mapping

import torch

from photofinish_pytorch.configuration import SPIN, Common
from photofinish_worker import ask
from photofinish_worker.messages import Boundary
from photofinish_worker.outcome import Failure, Kind

WAIT_POLICY = "OMP_WAIT_POLICY"
"""The variable by which OpenMP is told how idle threads wait."""
PASSIVE = "passive"
"""What has them sleep at once."""
SPIN_COUNT = "GOMP_SPINCOUNT"
"""The variable by which libgomp is told how long they spin, whatever the other says."""

THREAD_LIMIT = "OMP_THREAD_LIMIT"
DYNAMIC = "OMP_DYNAMIC"


def check_threads(threads: int, environment: Mapping[str, str]) -> None:
    """Refuses a process in which OpenMP would silently run fewer threads than the cell says.

    PyTorch itself reports what it was asked for.
    """
    limit = environment.get(THREAD_LIMIT, "").strip()
    if limit.isdecimal() and 1 <= int(limit) < threads:
        raise _fewer(THREAD_LIMIT, environment[THREAD_LIMIT], threads)
    if threads > 1 and environment.get(DYNAMIC, "").strip().lower() == "true":
        raise _fewer(DYNAMIC, environment[DYNAMIC], threads)


def _fewer(name: str, value: str, threads: int) -> Failure:
    reason = (
        f"{name}={value} keeps PyTorch from running {threads} threads: unset it, or ask for one "
        "thread"
    )
    return Failure(Kind.UNAVAILABLE, reason)


def check_spin(sleeps: bool | None, environment: Mapping[str, str]) -> None:
    """Refuses a process in which idle threads wait otherwise than the cell says, if it says
    anything. libgomp reads the variables once, when it is loaded: the launch has to set them."""
    if sleeps is None:
        return
    policy, count = environment.get(WAIT_POLICY), environment.get(SPIN_COUNT)
    if count is not None:
        reason = (
            f"{SPIN_COUNT}={count} has idle threads wait as it says, whatever `{SPIN}` is: unset it"
        )
        raise Failure(Kind.UNAVAILABLE, reason)
    if not sleeps and policy is not None:
        reason = (
            f"{WAIT_POLICY}={policy} has idle threads wait otherwise than PyTorch's users get it, "
            f"which is what `{SPIN}: default` asks for: unset it"
        )
        raise Failure(Kind.UNAVAILABLE, reason)
    if sleeps and (policy or "").strip().lower() != PASSIVE:
        reason = (
            f"`{SPIN}: off` needs {WAIT_POLICY}={PASSIVE} when the worker is started, and it is "
            "not set so"
        )
        raise Failure(Kind.UNAVAILABLE, reason)


def apply(common: Common) -> None:
    """Sets what is global to the process."""
    torch.set_num_interop_threads(1)
    torch.set_num_threads(common.threads)
    torch.backends.cuda.matmul.allow_tf32 = common.tf32
    torch.backends.cudnn.allow_tf32 = common.tf32
    torch.backends.cudnn.benchmark = common.autotune is True


def spin(environment: Mapping[str, str]) -> str:
    """How idle threads wait. libgomp reads the variable once, when it is loaded."""
    policy = environment.get(WAIT_POLICY)
    if policy is None:
        return "spin a while, then sleep (libgomp's default)"
    return f"{WAIT_POLICY}={policy}"


def settings(common: Common, on_cpu: bool) -> dict[str, str]:
    """What PyTorch is set to, in words."""
    trains = common.optimizer is not None
    told = {
        "element type": str(common.element).removeprefix("torch."),
        "gradients": "on" if trains else "off (inference mode)",
        "inter-op threads": str(torch.get_num_interop_threads()),
        "oneDNN": _on_or_off(torch.backends.mkldnn.is_available()),  # type: ignore[no-untyped-call]
        "TF32": _on_or_off(common.tf32),
        "widest CPU kernels": torch.backends.cpu.get_cpu_capability(),
    }
    if not on_cpu:
        told["CUDA runtime"] = str(torch.version.cuda)
        told["cuDNN"] = _cudnn(torch.backends.cudnn.version())  # type: ignore[no-untyped-call]
    if common.autotune is not None:
        told["cuDNN tries all algorithms"] = _on_or_off(common.autotune)
    if common.autocast is not None:
        cast = str(common.autocast).removeprefix("torch.")
        told["mixed precision"] = f"weights in float32, operators under autocast in {cast}"
    match common.boundary:
        case Boundary.STEP:
            pass
        case Boundary.DEVICE:
            told["clock"] = ask.EVENTS
        case Boundary.REQUEST:
            told["inputs and outputs"] = ask.REQUEST
    if common.optimizer is not None:
        name = common.optimizer.tag()
        at_once = common.foreach is True
        form = "all tensors at once (foreach)" if at_once else "one tensor after another"
        told["optimizer"] = f"{name}, {form}"
    return told


def _cudnn(version: int | None) -> str:
    """As `CUDNN_VERSION` counts since cuDNN 9: 91900 is 9.19.0."""
    if version is None:
        return "none"
    return f"{version // 10_000}.{version % 10_000 // 100}.{version % 100}"


def _on_or_off(on: bool) -> str:
    return "on" if on else "off"
