"""What this worker is made of: the hash over its own files, which the supervisor expects.

SHA-256 over the path and then the content of every `.py` file of its packages, in the order of
their paths, each preceded by its length as 64 bits, little-endian; `fingerprint::python_sources`
computes the same when photofinish is built.
"""

import hashlib
from pathlib import Path


def digest(root: Path, packages: tuple[str, ...]) -> str:
    """The hash of the packages that are folders in `root`, as 64 hexadecimal digits."""
    files = [path for package in packages for path in (root / package).rglob("*.py")]
    names = sorted(path.relative_to(root).as_posix() for path in files)
    hasher = hashlib.sha256()
    for name in names:
        for part in (name.encode(), (root / name).read_bytes()):
            hasher.update(len(part).to_bytes(8, "little"))
            hasher.update(part)
    return hasher.hexdigest()
