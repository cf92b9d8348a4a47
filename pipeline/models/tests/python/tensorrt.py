"""Has TensorRT-RTX build an engine from an ONNX file for a card that is not here, with the code of
the worker; prints how many layers the network had, or why there is no engine.

Arguments: the file; the inputs' shapes as a JSON object; the compute capability, for example `SM89`.
"""

import json
import sys
from pathlib import Path

from photofinish_tensorrt import library
from photofinish_tensorrt.building import Order, build
from photofinish_worker.outcome import Failure

path, shapes, target = sys.argv[1:]
order = Order(
    Path(path),
    {name: tuple(shape) for name, shape in json.loads(shapes).items()},
    target=target,
)
try:
    built = build(library.load(library.RTX), order)
    print(json.dumps({"layers": built.layers, "bytes": built.plan.nbytes}))
except Failure as failure:
    print(json.dumps({"kind": failure.kind, "reason": failure.reason}))
