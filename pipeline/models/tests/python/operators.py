"""Prints, as JSON, how often each operator is in a model once ONNX Runtime has optimised it."""
import collections
import json
import pathlib
import sys
import tempfile

import onnx
import onnxruntime

with tempfile.TemporaryDirectory() as folder:
    path = str(pathlib.Path(folder, "optimised.onnx"))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.optimized_model_filepath = path
    onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
    nodes = onnx.load(path).graph.node
json.dump(collections.Counter(node.op_type for node in nodes), sys.stdout)
