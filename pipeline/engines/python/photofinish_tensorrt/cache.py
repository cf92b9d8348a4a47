"""What one launch makes and the next ones need: engines, timings of kernels, compiled kernels.

Building an engine takes seconds to minutes. What is kept lies beside the installation, as what
`torch.compile` makes does, and is never part of what the store holds.
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from photofinish_worker import cache

_HASH_BYTES = hashlib.sha256().digest_size


class Cache:
    """A folder of files by name, each of which begins with the SHA-256 of the rest: TensorRT runs
    what it is given. What cannot be kept, or is damaged, is made again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def of(cls, environment: Mapping[str, str], scratch: str) -> "Cache":
        """Beside the installation; for this launch alone where there is no such place."""
        return cls(cache.folder(environment, scratch) / "engines")

    def read(self, name: str) -> bytes | None:
        """What was kept under this name, if it is as it was written."""
        try:
            with (self._folder / name).open("rb") as file:
                expected, content = file.read(_HASH_BYTES), file.read()
        except OSError:
            return None
        return content if hashlib.sha256(content).digest() == expected else None

    def keep(self, name: str, content: bytes | memoryview) -> None:
        """Keeps `content`, whole or not at all."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self._folder) as fresh:
                path = Path(fresh) / name
                with path.open("wb") as file:
                    file.write(hashlib.sha256(content).digest())
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                path.replace(self._folder / name)


def key(onnx: Path, *words: object) -> str:
    """The name of what is made of a file, of the data that the supervisor put beside it, and under
    the conditions that `words` tell."""
    hasher = hashlib.sha256()
    for path in (onnx, onnx.with_suffix(".data")):
        if path.is_file():
            with path.open("rb") as file:
                hasher.update(hashlib.file_digest(file, "sha256").digest())
    hasher.update(repr(words).encode())
    return hasher.hexdigest()
