"""Writes models as exporters write them, each with all that surrounds a network there.

Arguments: the folder to write to, and the opset. Prints the names of the files.
What is here in one place is what PyTorch's two exporters, Keras' and scikit's leave: shapes that are
computed while running, layer normalisation and GELU in parts, masks, constants as nodes.
"""
import json
import math
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

folder, opset = sys.argv[1], int(sys.argv[2])
MODULES = "modules"
random = np.random.default_rng(7)


class Model:
    def __init__(self):
        self.nodes, self.tensors, self.count = [], [], 0

    def op(self, kind, *inputs, outputs=1, **attributes):
        self.count += 1
        names = [f"/{kind}_{self.count}_output_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=f"/{kind}_{self.count}", **attributes))
        return names[0] if outputs == 1 else names

    def weight(self, *shape, scale=None, name=None):
        values = random.normal(size=shape) * (scale or 1 / math.sqrt(shape[-1] if len(shape) > 1 else 1))
        return self.held(values.astype(np.float32), name)

    def held(self, values, name=None):
        name = name or f"held.{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def constant(self, values, kind=np.int64):
        tensor = numpy_helper.from_array(np.asarray(values, kind))
        return self.op("Constant", value=tensor)

    def axes(self, kind, x, axes):
        """Axes moved from attribute to input in opset 13."""
        return self.op(kind, x, self.constant(axes))

    def mean(self, x, axes, keepdims=1):
        if opset >= 18:
            return self.op("ReduceMean", x, self.constant(axes), keepdims=keepdims)
        return self.op("ReduceMean", x, axes=axes, keepdims=keepdims)

    def dim(self, x, axis):
        """Size of an axis as a list of one, the long way."""
        size = self.op("Gather", self.op("Shape", x), self.constant(axis), axis=0)
        return self.axes("Unsqueeze", size, [0])

    def norm(self, x, width):
        """Layer normalisation in parts."""
        centred = self.op("Sub", x, self.mean(x, [-1]))
        square = self.op("Pow", centred, self.constant(2.0, np.float32))
        shifted = self.op("Add", self.mean(square, [-1]), self.constant(1e-5, np.float32))
        n = self.op("Div", centred, self.op("Sqrt", shifted))
        return self.op("Add", self.op("Mul", n, self.weight(width)), self.weight(width))

    def gelu(self, x):
        erf = self.op("Erf", self.op("Div", x, self.constant(math.sqrt(2), np.float32)))
        product = self.op("Mul", x, self.op("Add", erf, self.constant(1.0, np.float32)))
        return self.op("Mul", product, self.constant(0.5, np.float32))

    def gelu_by_tanh(self, x):
        cube = self.op("Mul", x, self.op("Mul", x, x))
        bent = self.op("Add", x, self.op("Mul", self.constant(0.044715, np.float32), cube))
        tanh = self.op("Tanh", self.op("Mul", bent, self.constant(math.sqrt(2 / math.pi), np.float32)))
        half = self.op("Mul", self.constant(0.5, np.float32), x)
        return self.op("Mul", half, self.op("Add", tanh, self.constant(1.0, np.float32)))

    def linear(self, x, width, out):
        return self.op("Add", self.weight(out, scale=0.1), self.op("MatMul", x, self.weight(width, out, scale=width**-0.5)))

    def attention(self, x, width, heads, mask=None):
        size = width // heads
        qkv = self.linear(x, width, 3 * width)
        sizes = {"num_outputs": 3} if opset >= 18 else {}
        parts = self.op("Split", qkv, outputs=3, axis=2, **sizes)
        batch, seq = self.dim(x, 0), self.dim(x, 1)
        split = self.op("Concat", batch, seq, self.constant([heads]), self.constant([size]), axis=0)
        q, k, v = (self.op("Reshape", part, split) for part in parts)
        q, v = (self.op("Transpose", part, perm=[0, 2, 1, 3]) for part in (q, v))
        k = self.op("Transpose", k, perm=[0, 2, 3, 1])
        scores = self.op("Div", self.op("MatMul", q, k), self.op("Sqrt", self.constant(float(size), np.float32)))
        if mask == "causal":
            length = self.op("Squeeze", seq, self.constant([0]))
            row = self.op("Range", self.constant(0), length, self.constant(1))
            seen = self.op("LessOrEqual", self.axes("Unsqueeze", row, [0]), self.axes("Unsqueeze", row, [1]))
            scores = self.op("Where", seen, scores, self.constant(-3.4028234663852886e38, np.float32))
        elif mask:
            scores = self.op("Add", scores, mask)
        mixed = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        mixed = self.op("Transpose", mixed, perm=[0, 2, 1, 3])
        joined = self.op("Reshape", mixed, self.op("Concat", batch, seq, self.constant([-1]), axis=0))
        return self.linear(joined, width, width)

    def save(self, name, inputs, output, shape, functions=()):
        self.nodes.append(helper.make_node("Identity", [output], ["output"], name="/last"))
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info(n, kind, dims) for n, kind, dims in inputs],
            [helper.make_tensor_value_info("output", TensorProto.FLOAT, shape)],
            self.tensors,
        )
        sets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(MODULES, 1)] * bool(functions)
        model = helper.make_model(graph, opset_imports=sets, functions=functions)
        model.ir_version = 8
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, f"{folder}/{name}.onnx")
        names.append(name)


names = []


def vision():
    """A small vision transformer: patches, a class token that is repeated, positions."""
    m, width = Model(), 16
    x = m.op("Conv", "pixels", m.weight(width, 3, 4, 4, scale=0.15), m.weight(width), kernel_shape=[4, 4], strides=[4, 4])
    flat = m.op("Concat", m.dim(x, 0), m.dim(x, 1), m.constant([-1]), axis=0)
    x = m.op("Transpose", m.op("Reshape", x, flat), perm=[0, 2, 1])
    token = m.op("Expand", m.weight(1, 1, width), m.op("Concat", m.dim("pixels", 0), m.constant([1, width]), axis=0))
    x = m.op("Add", m.op("Concat", token, x, axis=1), m.weight(1, 17, width))
    for _ in range(2):
        x = m.op("Add", x, m.attention(m.norm(x, width), width, 4))
        x = m.op("Add", x, m.linear(m.gelu(m.linear(m.norm(x, width), width, 24)), 24, width))
    x = m.op("Gather", m.norm(x, width), m.constant(0), axis=1)
    x = m.op("Gemm", x, m.weight(5, width), m.weight(5), alpha=0.5, beta=2.0, transB=1)
    m.save("vision", [("pixels", TensorProto.FLOAT, ["batch_size", 3, 16, 16])], x, ["batch_size", 5])


def decoder():
    """A small language model: causal, GELU by tanh, its output tied to its table."""
    m, width = Model(), 16
    table = m.weight(40, width, name="wte.weight")
    length = m.op("Squeeze", m.dim("input_ids", 1), m.constant([0]))
    positions = m.axes("Unsqueeze", m.op("Range", m.constant(0), length, m.constant(1)), [0])
    x = m.op("Add", m.op("Gather", table, "input_ids"), m.op("Gather", m.weight(64, width), positions))
    for _ in range(2):
        x = m.op("Add", x, m.attention(m.norm(x, width), width, 2, mask="causal"))
        x = m.op("Add", x, m.linear(m.gelu_by_tanh(m.linear(m.norm(x, width), width, 24)), 24, width))
    x = m.op("MatMul", m.norm(x, width), m.op("Transpose", table, perm=[1, 0]))
    m.save("decoder", [("input_ids", TensorProto.INT64, ["batch", "sequence_length"])], x, ["batch", "sequence_length", 40])


def encoder():
    """A small BERT: a mask of integers, types of tokens, a mean over positions."""
    m, width = Model(), 16
    wide = m.axes("Unsqueeze", m.axes("Unsqueeze", "attention_mask", [1]), [2])
    wide = m.op("Cast", wide, to=TensorProto.FLOAT)
    mask = m.op("Mul", m.op("Sub", m.constant(1.0, np.float32), wide), m.constant(-3.4e38, np.float32))
    positions = m.held(np.arange(64, dtype=np.int64)[None])
    positions = m.op("Slice", positions, m.constant([0]), m.dim("input_ids", 1), m.constant([1]), m.constant([1]))
    x = m.op("Add", m.op("Gather", m.weight(50, width), "input_ids"), m.op("Gather", m.weight(2, width), "token_type_ids"))
    x = m.norm(m.op("Add", x, m.op("Gather", m.weight(64, width), positions)), width)
    x = m.norm(m.op("Add", x, m.attention(x, width, 4, mask=mask)), width)
    x = m.op("Tanh", m.linear(m.mean(x, [1], keepdims=0), width, width))
    # TensorFlow's exporter feeds integers of 32 bits, and some networks take truths for a mask.
    kinds = (TensorProto.INT64,) * 3 if opset < 17 else (TensorProto.INT32, TensorProto.BOOL, TensorProto.INT32)
    fed = zip(("input_ids", "attention_mask", "token_type_ids"), kinds)
    m.save("encoder", [(n, kind, ["batch", "seq"]) for n, kind in fed], x, ["batch", width])


def sound():
    """Convolutions over one axis, SiLU, a gate, a mean over time."""
    m = Model()
    x = m.op("Conv", "wave", m.weight(8, 2, 5, scale=0.3), m.weight(8), kernel_shape=[5], strides=[2], pads=[2, 2])
    x = m.op("Mul", x, m.op("Sigmoid", x))
    x = m.op("BatchNormalization", x, m.weight(8), m.weight(8), m.weight(8), m.held(np.full(8, 1.5, np.float32)), epsilon=1e-3)
    a, b = m.op("Split", m.op("Conv", x, m.weight(8, 4, 3, scale=0.3), group=2, auto_pad="SAME_UPPER"), m.constant([4, 4]), outputs=2, axis=1)
    x = m.op("Mul", m.op("Clip", a, m.constant(-1.0, np.float32), m.constant(1.5, np.float32)), m.op("Tanh", b))
    # Hard forms of a sigmoid: ONNX's own, with its default slope, and as PyTorch's exporter spells them out.
    x = m.op("Mul", x, m.op("HardSigmoid", x))
    bent = m.op("Clip", m.op("Add", x, m.constant(3.0, np.float32)), m.constant(0.0, np.float32), m.constant(6.0, np.float32))
    x = m.op("Add", x, m.op("Div", m.op("Mul", x, bent), m.constant(6.0, np.float32)))
    x = m.op("HardSwish", x) if opset >= 14 else m.op("Mul", x, m.op("HardSigmoid", x, alpha=1 / 6, beta=0.5))
    x = m.op("Neg", m.mean(x, [2], keepdims=0))
    m.save("sound", [("wave", TensorProto.FLOAT, ["N", 2, 20])], x, ["N", 4])


def images():
    """Pooling in its forms, and a head that flattens."""
    m = Model()
    x = m.op("Relu", m.op("Conv", "x", m.weight(6, 3, 3, 3, scale=0.2), pads=[1, 1, 1, 1]))
    x = m.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    y = m.op("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    x = m.op("Concat", m.op("Sub", x, y), y, axis=1)
    x = m.op("ReduceMean", x, axes=[2, 3]) if opset < 18 else m.mean(x, [2, 3])
    x = m.op("Dropout", m.op("Flatten", x))
    x = m.op("Softmax", m.op("Gemm", x, m.weight(12, 4), m.weight(1, 4)), axis=1)
    m.save("images", [("x", TensorProto.FLOAT, [2, 3, 11, 11])], x, [2, 4])


def llama():
    """What newer language models have: normalisation by the root of the mean square, positions as rotations
    that are computed from frequencies, gated units, keys and values that heads share."""
    m, width, heads, size = Model(), 16, 4, 4

    def norm(x):
        square = m.op("Pow", x, m.constant(2.0, np.float32))
        root = m.op("Sqrt", m.op("Add", m.mean(square, [-1]), m.constant(1e-6, np.float32)))
        return m.op("Mul", m.weight(width), m.op("Mul", x, m.op("Reciprocal", root)))

    def halves(x):
        size = {"num_outputs": 2} if opset >= 18 else {}
        return m.op("Split", x, outputs=2, axis=3, **size)

    def turned(x):
        low, high = halves(x)
        other = m.op("Concat", m.op("Neg", high), low, axis=3)
        return m.op("Add", m.op("Mul", x, cosines), m.op("Mul", other, sines))

    def apart(x, heads):
        shape = m.op("Concat", m.dim("input_ids", 0), m.dim("input_ids", 1), m.constant([heads, size]), axis=0)
        return m.op("Transpose", m.op("Reshape", x, shape), perm=[0, 2, 1, 3])

    def shared(x):
        """Each head twice."""
        x = m.axes("Unsqueeze", x, [2])
        sizes = m.op("Concat", m.dim("input_ids", 0), m.constant([2, 2]), m.dim("input_ids", 1), m.constant([size]), axis=0)
        shape = m.op("Concat", m.dim("input_ids", 0), m.constant([heads]), m.dim("input_ids", 1), m.constant([size]), axis=0)
        return m.op("Reshape", m.op("Expand", x, sizes), shape)

    length = m.op("Squeeze", m.dim("input_ids", 1), m.constant([0]))
    row = m.op("Cast", m.op("Range", m.constant(0), length, m.constant(1)), to=TensorProto.FLOAT)
    frequencies = m.held(np.array([[1.0, 0.01]], np.float32))
    angles = m.op("MatMul", m.axes("Unsqueeze", row, [1]), frequencies)
    angles = m.op("Concat", angles, angles, axis=1)
    cosines, sines = m.op("Cos", angles), m.op("Sin", angles)
    # A mask with all but the lower triangle at the least number, its first column put there once more.
    shape = m.op("Concat", m.dim("input_ids", 1), m.dim("input_ids", 1), axis=0)
    least = numpy_helper.from_array(np.array([-3.4028234663852886e38], np.float32))
    mask = m.op("ConstantOfShape", shape, value=least)
    if opset >= 14:
        mask = m.op("Trilu", mask, m.constant(1), upper=1)
    else:
        later = m.op("Less", m.axes("Unsqueeze", row, [1]), m.axes("Unsqueeze", row, [0]))
        mask = m.op("Where", later, mask, m.constant(0.0, np.float32))
    mask = m.op("ScatterND", mask, m.constant([[0, 0], [-1, 0]]), m.constant([0.0, 0.0], np.float32))
    x = m.op("Gather", m.weight(40, width, scale=1.0), "input_ids")
    for _ in range(2):
        y = norm(x)
        q = turned(apart(m.op("MatMul", y, m.weight(width, width, scale=0.25)), heads))
        k, v = (apart(m.op("MatMul", y, m.weight(width, 8, scale=0.25)), 2) for _ in range(2))
        k = m.op("Transpose", shared(turned(k)), perm=[0, 1, 3, 2])
        scores = m.op("Add", m.op("Mul", m.op("MatMul", q, k), m.constant(0.5, np.float32)), mask)
        mixed = m.op("Transpose", m.op("MatMul", m.op("Softmax", scores, axis=-1), shared(v)), perm=[0, 2, 1, 3])
        joined = m.op("Reshape", mixed, m.op("Concat", m.dim("input_ids", 0), m.dim("input_ids", 1), m.constant([-1]), axis=0))
        x = m.op("Add", x, m.op("MatMul", joined, m.weight(width, width, scale=0.25)))
        y = norm(x)
        gate = m.op("MatMul", y, m.weight(width, 24, scale=0.25))
        gate = m.op("Mul", m.op("Mul", gate, m.op("Sigmoid", gate)), m.op("MatMul", y, m.weight(width, 24, scale=0.25)))
        x = m.op("Add", x, m.op("MatMul", gate, m.weight(24, width, scale=0.2)))
    # The mean of what is seen, as embeddings of sentences are made.
    total = m.op("ReduceSum", norm(x), m.constant([1]), keepdims=0)
    x = m.op("Div", total, m.op("Cast", m.dim("input_ids", 1), to=TensorProto.FLOAT))
    squares = m.op("ReduceSum", m.op("Mul", x, x), m.constant([-1]), keepdims=1)
    x = m.op("Div", x, m.op("Sqrt", squares))
    m.save("llama", [("input_ids", TensorProto.INT64, ["batch", "sequence_length"])], x, ["batch", width])


def views():
    """Token ids that are rows of tables in other shapes, and one of them that is a narrow integer there."""
    m, width = Model(), 16
    seq = m.dim("input_ids", 1)
    rows = m.op("Reshape", "input_ids", m.op("Concat", m.constant([-1]), seq, axis=0))
    x = m.op("Gather", m.weight(40, width), rows)
    second = m.axes("Unsqueeze", "input_ids", [1])
    x = m.op("Add", x, m.axes("Squeeze", m.op("Gather", m.weight(50, width), second), [1]))
    flat = m.op("Cast", m.op("Reshape", "input_ids", m.constant([-1])), to=TensorProto.INT32)
    third = m.op("Reshape", m.op("Gather", m.weight(60, width), flat), m.op("Shape", x))
    x = m.linear(m.op("Tanh", m.op("Add", x, third)), width, width)
    m.save("views", [("input_ids", TensorProto.INT64, ["batch", "sequence"])], x, ["batch", "sequence", width])


def arithmetic():
    """Integers by ONNX's rules, which are neither C's nor Python's throughout, and what is masked twice."""
    m = Model()
    x = m.op("Where", m.held(np.array([True, True, False, True])), "x", m.constant(-np.inf, np.float32))
    x = m.op("Where", m.held(np.array([True, False, True, True])), x, m.constant(-np.inf, np.float32))
    x = m.op("Softmax", x, axis=-1)
    numbers = m.constant([-7, 7, -300, 129])
    parts = [
        m.op("Mod", numbers, m.constant([-3, -3, 7, 5])),
        m.op("Mod", numbers, m.constant([-3, -3, 7, 5]), fmod=1),
        m.op("Div", numbers, m.constant([2, -2, 7, 5])),
        m.op("ReduceSum", numbers, noop_with_empty_axes=1),
        m.op("ReduceSum", numbers),
        m.op("Slice", numbers, m.constant([-100]), m.constant([-200]), m.constant([0]), m.constant([-1])),
        m.op("Slice", numbers, m.constant([9]), m.constant([-200]), m.constant([0]), m.constant([-1])),
    ]
    for kind in (TensorProto.UINT8, TensorProto.INT8, TensorProto.UINT16, TensorProto.INT16, TensorProto.INT32, TensorProto.BOOL):
        parts.append(m.op("Cast", m.op("Cast", numbers, to=kind), to=TensorProto.INT64))
    for part in parts:
        x = m.op("Add", x, m.op("Sin", m.op("Cast", part, to=TensorProto.FLOAT)))
    m.save("arithmetic", [("x", TensorProto.FLOAT, ["batch", 4])], x, ["batch", 4])


def pictures():
    """What files have beside PyTorch's: other numbers than its defaults, and operators of one node that it
    spells out."""
    m = Model()
    f = lambda number: m.constant(number, np.float32)
    x = m.op("ConvTranspose", "x", m.weight(4, 3, 3, 2, scale=0.3), m.weight(6), group=2, strides=[2, 3], pads=[1, 0, 0, 1], output_padding=[1, 2])
    x = m.op("Pad", x, m.constant([0, 0, 1, 0, 0, 0, 0, 2]), f(0.25))
    x = m.op("PRelu", x, m.weight(6, 1, 1))
    x = m.op("PRelu", x, m.weight(1))
    x = m.op("Max", x, m.op("Neg", m.op("LeakyRelu", x)), f(-0.5))
    x = m.op("Min", x, m.op("Selu", m.op("Elu", x, alpha=0.75)))
    x = m.op("Sum", x, m.op("Softplus", x), m.op("Log", m.op("Add", m.op("Abs", x), f(1.0))))
    x = m.op("Resize", x, "", f([1, 1, 2, 3]), mode="nearest", coordinate_transformation_mode="half_pixel")
    x = m.op("Resize", x, "", "", m.constant([2, 6, 24, 12]), mode="linear", coordinate_transformation_mode="half_pixel")
    x = m.op("SpaceToDepth", x, blocksize=2)
    x = m.op("DepthToSpace", x, blocksize=2, mode="CRD")
    x = m.op("DepthToSpace", m.op("SpaceToDepth", x, blocksize=4), blocksize=2)
    if opset >= 21:
        x = m.op("GroupNormalization", x, m.weight(24), m.weight(24), num_groups=3)
    x = m.op("InstanceNormalization", x, m.weight(24), m.weight(24), epsilon=1e-3)
    if opset >= 17:
        x = m.op("LayerNormalization", x, m.weight(12, 6), m.weight(12, 6), axis=2)
    x = m.op("LogSoftmax", x, axis=1)
    if opset >= 18:
        low = m.op("ReduceMin", x, m.constant([2, 3]), keepdims=0)
        high = m.op("ReduceMax", x, m.constant([-1]))
        long = m.op("ReduceL2", x, m.constant([1, 2]), keepdims=0)
    else:
        low = m.op("ReduceMin", x, axes=[2, 3], keepdims=0)
        high = m.op("ReduceMax", x, axes=[-1])
        long = m.op("ReduceL2", x, axes=[1, 2], keepdims=0)
    high = m.op("GlobalAveragePool", m.op("Reshape", high, m.constant([2, 24, 12])))
    high = m.op("Squeeze", high, m.constant([2]))
    all_in_one = m.op("ReduceMean", m.op("Cos", x), keepdims=1)
    largest = m.op("Flatten", m.op("GlobalMaxPool", m.op("Sin", x)))
    x = m.op("Concat", low, high, long, largest, m.op("Reshape", m.op("Concat", all_in_one, all_in_one, axis=0), m.constant([2, 1])), axis=1)
    m.save("pictures", [("x", TensorProto.FLOAT, [2, 4, 5, 3])], m.op("Exp", m.op("Mul", x, f(0.1))), [2, 79])


def function(name, inputs, outputs, nodes, attributes=()):
    sets = [helper.make_opsetid("", opset), helper.make_opsetid(MODULES, 1)]
    return helper.make_function(MODULES, name, inputs, outputs, nodes, sets, attributes)


def modular():
    """Modules as functions of the file, which call each other, hand attributes on and leave outputs out."""
    m, width = Model(), 8
    node = helper.make_node
    bend = node("LeakyRelu", ["more"], ["bent"])
    slope = onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    bend.attribute.append(slope)
    linear = [node("MatMul", ["x", "weight"], ["product"]), node("Add", ["product", "bias"], ["more"])]
    call = node("Linear", ["x", "weight", "bias"], ["more"], domain=MODULES)
    functions = [
        function("Linear", ["x", "weight", "bias"], ["more"], linear),
        function("Bent", ["x", "weight", "bias"], ["bent", "more"], [call, bend], ["slope"]),
    ]
    x = "x"
    for at, slope in enumerate((0.25, 0.5)):
        # A name of the file's that is one inside, too.
        outputs = ["more", ""] if at == 0 else ["last", "product"]
        inputs = [x, m.weight(width, width), m.weight(width)]
        m.nodes.append(node("Bent", inputs, outputs, domain=MODULES, slope=slope, name=f"/bent.{at}"))
        x = outputs[0]
    x = m.op("Mul", x, m.op("Tanh", "product"))
    m.save("modular", [("x", TensorProto.FLOAT, ["batch", width])], x, ["batch", width], functions)


for make in (vision, decoder, encoder, sound, images, llama, views, arithmetic, pictures, modular):
    make()
json.dump(names, sys.stdout)
