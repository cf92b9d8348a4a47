"""Has TensorRT-RTX build an engine from an ONNX file for a card that is not here, with the code of
the worker; prints how many layers the network had and what the engine holds, or why there is none.

Arguments: the file; the inputs' shapes as a JSON object; the compute capability, for example `SM89`.
"""

import collections
import json
import re
import sys
from pathlib import Path

from photofinish_tensorrt import library
from photofinish_tensorrt.building import Order, build
from photofinish_worker.outcome import Failure


def constants(plan):
    """Bytes of the engine's constants by their type. Engines are opened on a card alone, and
    their inspector with them; but the program that each holds stands there as text."""
    held = collections.Counter()
    for size, kind in re.findall(rb"const_payload_size=(\d+) .*? type=(\w+) }", plan):
        held[kind.decode()] += int(size)
    return held


path, shapes, target = sys.argv[1:]
order = Order(
    Path(path),
    {name: tuple(shape) for name, shape in json.loads(shapes).items()},
    target=target,
)
try:
    built = build(library.load(library.RTX), order)
    held = constants(bytes(built.plan))
    print(json.dumps({"layers": built.layers, "bytes": built.plan.nbytes, "constants": held}))
except Failure as failure:
    print(json.dumps({"kind": failure.kind, "reason": failure.reason}))
