"""The worker: `python -m photofinish_tensorflow`."""

import sys
from typing import TYPE_CHECKING

from photofinish_worker.serve import serve

if TYPE_CHECKING:
    from photofinish_tensorflow.engine import TensorFlow


def main() -> int:
    """Speaks the protocol; TensorFlow is imported when standard output is safe from its chatter."""

    def make() -> "TensorFlow":
        from photofinish_tensorflow.engine import TensorFlow

        return TensorFlow()

    return serve(make)


if __name__ == "__main__":
    sys.exit(main())
