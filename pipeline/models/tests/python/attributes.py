"""Prints, as JSON, the attributes of ONNX's own operators at an opset, each with the number of its type, and the
most outputs of each operator."""
import json
import sys

import onnx

opset = int(sys.argv[1])
operators = {}
for schema in onnx.defs.get_all_schemas():
    if schema.domain:
        continue
    try:
        there = onnx.defs.get_schema(schema.name, opset)
    except onnx.defs.SchemaError:
        continue
    attributes = {name: given.type.value for name, given in there.attributes.items()}
    operators[schema.name] = (attributes, there.max_output)
json.dump(operators, sys.stdout)
