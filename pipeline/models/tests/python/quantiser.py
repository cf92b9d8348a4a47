"""ONNX Runtime's own quantiser, and ranges for ours.

Arguments: `ranges`, the graph as JSON, the recipe for numbers, its ONNX file, and a file with the
names of values: prints JSON, for each value the smallest and the largest number that ONNX Runtime
makes of the calibration inputs.

Or `compare`, the graph, the recipe, its ONNX file, how many bits weights take, and ONNX files of
quantised forms: prints JSON, for each form the relative L2 error against the file in floats, and the
operators that ONNX Runtime makes of it; then the same for its own static quantiser on the same
inputs, and its dynamic one.
"""
import json
import math
import os
import sys

import numpy as np
import onnx
import onnxruntime
from onnxruntime import quantization as q

COPIES = 4
mode, graph_path, recipe_path, plain = sys.argv[1:5]
graph = json.load(open(graph_path))
recipe = {}
exec(open(recipe_path).read(), recipe)
folder = os.path.dirname(plain)


def feeds(prefix=""):
    fed = {}
    for i in graph["inputs"]:
        count, fill = math.prod(i["shape"]), i["fill"]
        if "uniform" in fill:
            u = fill["uniform"]
            values = recipe["uniform"](prefix + i["name"], u["low"], u["high"], count)
        elif "constant" in fill:
            kind = np.int64 if i["element"] == "int64" else np.float32
            values = np.full(count, fill["constant"]["value"], kind)
        else:
            values = recipe["integers"](prefix + i["name"], fill["integers"]["bound"], count)
        fed[i["name"]] = values.reshape(i["shape"])
    return fed


def calibration():
    return [feeds(f"calibration.{copy}.") for copy in range(COPIES)]


def session(path, optimized=None, level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = level
    if optimized:
        options.optimized_model_filepath = optimized
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def outputs(path, optimized=None):
    return [y.astype(np.float64) for y in session(path, optimized).run(graph["outputs"], feeds())]


class Reader(q.CalibrationDataReader):
    def __init__(self):
        self.inputs = iter(calibration())

    def get_next(self):
        return next(self.inputs, None)


if mode == "ranges":
    wanted = json.load(open(sys.argv[5]))
    model = onnx.load(plain)
    known = {v.name for v in model.graph.output}
    inputs = {v.name for v in model.graph.input}
    for name in wanted:
        if name not in known and name not in inputs:
            model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    everything = os.path.join(folder, "everything.onnx")
    onnx.save(model, everything)
    run = session(everything)
    names = [v.name for v in model.graph.output]
    ranges = {}
    for fed in calibration():
        made = {**dict(zip(names, run.run(names, fed))), **fed}
        for name in wanted:
            low, high = float(made[name].min()), float(made[name].max())
            seen = ranges.get(name, (low, high))
            ranges[name] = (min(low, seen[0]), max(high, seen[1]))
    json.dump(ranges, sys.stdout)
else:
    want = outputs(plain)

    def judge(path):
        optimized = path + ".optimized"
        got = outputs(path, optimized)
        off = math.sqrt(sum(((g - w) ** 2).sum() for g, w in zip(got, want)))
        operators = {}
        for node in onnx.load(optimized).graph.node:
            operators[node.op_type] = operators.get(node.op_type, 0) + 1
        return off / math.sqrt(sum((w**2).sum() for w in want)), operators

    found = [judge(path) for path in sys.argv[6:]]
    narrow = sys.argv[5] == "7"
    folded = os.path.join(folder, "folded.onnx")
    session(plain, folded, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC)
    own = os.path.join(folder, "own.onnx")
    q.quantize_static(
        folded,
        own,
        Reader(),
        per_channel=True,
        activation_type=q.QuantType.QUInt8,
        weight_type=q.QuantType.QInt8,
        reduce_range=narrow,
    )
    found.append(judge(own))
    # Convolutions of integers take weights without a sign alone.
    q.quantize_dynamic(
        folded,
        own,
        per_channel=True,
        weight_type=q.QuantType.QUInt8,
        reduce_range=narrow,
    )
    found.append(judge(own))
    json.dump(found, sys.stdout)
