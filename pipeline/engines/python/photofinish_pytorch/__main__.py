"""The worker: `python -m photofinish_pytorch`."""

import sys
import warnings
from typing import TYPE_CHECKING

from photofinish_worker.serve import serve

if TYPE_CHECKING:
    from photofinish_pytorch.engine import Torch


def main() -> int:
    """Speaks the protocol; PyTorch is imported when standard output is safe from its chatter."""

    def make() -> "Torch":
        # PyTorch asks for NumPy when it is imported, and does without it; nothing here needs it.
        warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
        from photofinish_pytorch.engine import Torch

        return Torch()

    return serve(make)


if __name__ == "__main__":
    sys.exit(main())
