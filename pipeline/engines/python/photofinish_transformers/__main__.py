"""The worker: `python -m photofinish_transformers`."""

import os
import sys
from typing import TYPE_CHECKING

from photofinish_worker.serve import serve

if TYPE_CHECKING:
    from photofinish_transformers.engine import Transformers

OFFLINE = ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY")
"""Variables that keep Transformers from asking the network for anything."""


def main() -> int:
    """Speaks the protocol; Transformers is imported when standard output is safe from chatter."""

    def make() -> "Transformers":
        # Nothing that a network consists of is downloaded: configurations and weights come from us.
        os.environ.update(dict.fromkeys(OFFLINE, "1"))
        from photofinish_transformers.engine import Transformers

        return Transformers()

    return serve(make)


if __name__ == "__main__":
    sys.exit(main())
