"""The worker: `python -m photofinish_tensorrt`."""

import sys
from typing import TYPE_CHECKING

from photofinish_worker.serve import serve

if TYPE_CHECKING:
    from photofinish_tensorrt.engine import TensorRT


def main() -> int:
    """Speaks the protocol; the libraries are loaded when standard output is safe from them."""

    def make() -> "TensorRT":
        from photofinish_tensorrt import library
        from photofinish_tensorrt.engine import TensorRT

        return TensorRT(library.find())

    return serve(make)


if __name__ == "__main__":
    sys.exit(main())
