"""What one launch makes and the next ones need: engines, timings of kernels, compiled kernels.

Building an engine takes seconds to minutes. What is kept lies beside the installation, as what
`torch.compile` makes does, and is never part of what the store holds.
"""

import contextlib
import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "PHOTOFINISH_CACHE"
"""Names the folder in which a worker may keep what makes its next launch faster."""


class Cache:
    """A folder of files by name. What cannot be kept is made again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def of(cls, environment: Mapping[str, str], scratch: str) -> "Cache":
        """Beside the installation; for this launch alone where there is no such place."""
        return cls(Path(environment.get(VARIABLE) or scratch) / "engines")

    def read(self, name: str) -> bytes | None:
        """What was kept under this name."""
        try:
            return (self._folder / name).read_bytes()
        except OSError:
            return None

    def keep(self, name: str, content: bytes | memoryview) -> None:
        """Keeps `content`, whole or not at all."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self._folder) as fresh:
                path = Path(fresh) / name
                path.write_bytes(content)
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
