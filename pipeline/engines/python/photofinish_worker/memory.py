"""Memory of this process, from the kernel."""

from pathlib import Path

from photofinish_worker.outcome import Failure, Kind

STATUS = Path("/proc/self/status")


def read(device: tuple[int, int] | None) -> dict[str, int | None]:
    """Resident set and its peak; device memory as the engine tells it."""
    try:
        status = STATUS.read_text()
    except OSError as error:
        raise Failure(Kind.CRASHED, f"cannot read {STATUS}: {error}") from error
    current, peak = device if device is not None else (None, None)
    return {
        "resident_bytes": field_bytes(status, "VmRSS"),
        "peak_resident_bytes": field_bytes(status, "VmHWM"),
        "device_bytes": current,
        "peak_device_bytes": peak,
    }


def field_bytes(status: str, name: str) -> int:
    """A field of the file, in bytes; the kernel writes KiB (proc_pid_status(5))."""
    for line in status.splitlines():
        words = line.split()
        if words[:1] == [f"{name}:"] and words[2:] == ["kB"] and words[1].isdecimal():
            return int(words[1]) * 1024
    raise Failure(Kind.CRASHED, f"{STATUS} has no {name}")
