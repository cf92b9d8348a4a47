"""Checks an ONNX file with ONNX's own checker, shape inference included."""
import sys

import onnx

path, opset = sys.argv[1], int(sys.argv[2])
onnx.checker.check_model(path, full_check=True)
model = onnx.load(path, load_external_data=False)
assert model.opset_import[0].version == opset, model.opset_import
assert model.producer_name == "photofinish", model.producer_name
inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
given = {value.name: value.type for value in model.graph.output}
assert given, "no outputs"
for value in inferred.graph.output:
    assert value.type == given[value.name], (value.name, value.type, given[value.name])
