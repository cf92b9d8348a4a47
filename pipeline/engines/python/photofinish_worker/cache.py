"""Where a worker may keep what makes its next launch faster."""

from collections.abc import Mapping
from pathlib import Path

VARIABLE = "PHOTOFINISH_CACHE"
"""Names the folder, which lies beside the installation."""


def folder(environment: Mapping[str, str], scratch: str) -> Path:
    """That folder; this launch's own, `scratch`, where none is named."""
    return Path(environment.get(VARIABLE) or scratch)
