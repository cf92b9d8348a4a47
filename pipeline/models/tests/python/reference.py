"""Runs a graph in float64 with numpy alone, written from the documentation of the schema.

Arguments: the graph as JSON, the recipe for numbers (Python source), and ONNX files.
Prints JSON: for each ONNX file the relative L2 error of ONNX Runtime's outputs; and how the
activations fare in inference and training.
"""
import json
import math
import os
import sys

import numpy as np

graph = json.load(open(sys.argv[1]))
recipe = {}
exec(open(sys.argv[2]).read(), recipe)
erf = np.vectorize(math.erf, otypes=[np.float64])


def numbers(tensor, salt=""):
    shape, fill = tensor["shape"], tensor["fill"]
    count = math.prod(shape)
    if fill == "positions":
        values = np.arange(count, dtype=np.int64) % shape[-1]
    elif "stored" in fill:
        # Beside the graph.
        kind = {"float": "<f4", "int64": "<i8"}[fill["stored"]["element"]]
        values = np.fromfile(os.path.join(os.path.dirname(sys.argv[1]), "weights"), kind, count, offset=fill["stored"]["offset"])
    elif "sinusoids" in fill:
        values = recipe["sinusoids"](fill["sinusoids"]["width"], count)
    elif "causal_mask" in fill:
        values = recipe["causal_mask"](fill["causal_mask"]["width"], count)
    elif "integers" in fill:
        values = recipe["integers"](tensor["name"] + salt, fill["integers"]["bound"], count)
    elif "uniform" in fill:
        f = fill["uniform"]
        values = recipe["uniform"](tensor["name"] + salt, f["low"], f["high"], count)
    else:
        kind = np.int64 if tensor.get("element") == "int64" else np.float32
        values = np.full(count, fill["constant"]["value"], kind)
    return values.reshape(shape)


def windows(x, kernel, strides, pads, fill, ceil=False, dilations=(1, 1)):
    """Yields, for each tap of the kernel, what it sees at every position."""
    top, left, bottom, right = pads
    size = []
    for axis in (0, 1):
        room = x.shape[2 + axis] + pads[axis] + pads[axis + 2] - dilations[axis] * (kernel[axis] - 1) - 1
        n = room // strides[axis] + 1
        if ceil and room % strides[axis] and n * strides[axis] < x.shape[2 + axis] + pads[axis]:
            n += 1
        size.append(n)
    more = [max(0, (size[a] - 1) * strides[a] + kernel[a]) for a in (0, 1)]
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom + more[0]), (left, right + more[1])), constant_values=fill)
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            a, b = i * dilations[0], j * dilations[1]
            yield i, j, x[:, :, a : a + size[0] * strides[0] : strides[0], b : b + size[1] * strides[1] : strides[1]][
                :, :, : size[0], : size[1]
            ]


def conv(x, w, bias, strides, pads, dilations, group):
    n, out = x.shape[0], w.shape[0]
    total = 0
    for i, j, seen in windows(x, w.shape[2:], strides, pads, 0.0, False, dilations):
        seen = seen.reshape(n, group, -1, *seen.shape[2:])
        taps = w[:, :, i, j].reshape(group, out // group, -1)
        total = total + np.einsum("ngchw,goc->ngohw", seen, taps, optimize=True)
    total = total.reshape(n, out, *total.shape[3:])
    return total if bias is None else total + bias[:, None, None]


def conv_transpose(x, w, bias, strides, pads, output_padding, dilations, group):
    size = [
        strides[i] * (x.shape[2 + i] - 1) + dilations[i] * (w.shape[2 + i] - 1) + 1 + output_padding[i] for i in (0, 1)
    ]
    n, out = x.shape[0], w.shape[1] * group
    y = np.zeros((n, out, *size))
    rows, columns = x.shape[2:]
    parts = zip(np.split(x, group, 1), np.split(w, group, 0), np.split(y, group, 1))
    for given, taps, made in parts:
        for i in range(w.shape[2]):
            for j in range(w.shape[3]):
                top, left = i * dilations[0], j * dilations[1]
                place = (
                    slice(top, top + strides[0] * (rows - 1) + 1, strides[0]),
                    slice(left, left + strides[1] * (columns - 1) + 1, strides[1]),
                )
                made[:, :, place[0], place[1]] += np.einsum("nchw,co->nohw", given, taps[:, :, i, j])
    y = y[:, :, pads[0] : size[0] - pads[2], pads[1] : size[1] - pads[3]]
    return y if bias is None else y + bias[:, None, None]


def resized(x, axis, count, interpolation):
    size, at = x.shape[axis], np.arange(count)
    if interpolation == "nearest":
        return x.take(at * size // count, axis)
    if interpolation == "linear":
        place = (at + 0.5) * size / count - 0.5
    else:
        place = at * (size - 1) / max(1, count - 1)
    place = np.clip(place, 0, size - 1)
    low = np.floor(place).astype(int)
    share = (place - low).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    return x.take(low, axis) * (1 - share) + x.take(np.minimum(low + 1, size - 1), axis) * share


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def attention(q, k, v, heads, causal):
    split = lambda x: x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)
    q, k, v = split(q), split(k), split(v)
    scores = q @ k.swapaxes(2, 3) / math.sqrt(q.shape[3])
    if causal:
        scores = np.where(np.tri(scores.shape[2], dtype=bool), scores, -np.inf)
    mixed = (softmax(scores, -1) @ v).transpose(0, 2, 1, 3)
    return mixed.reshape(*mixed.shape[:2], -1)


def recurrent(x, parameters, step):
    """Both directions of a layer; `step` makes the next output and memory of what enters the gates."""
    outputs = []
    for first in range(0, len(parameters), 4):
        w, u, b, c = parameters[first : first + 4]
        h = m = np.zeros((x.shape[0], u.shape[1]))
        rows = {}
        for t in range(x.shape[1])[:: -1 if first else 1]:
            h, m = step(x[:, t] @ w.T + b, h @ u.T + c, h, m)
            rows[t] = h
        outputs.append(np.stack([rows[t] for t in sorted(rows)], 1))
    return np.concatenate(outputs, 2)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, h, _, memory):
    i, f, g, o = np.split(x + h, 4, 1)
    memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(memory), memory


def gru(x, h, last, _):
    (r, z, n), (hr, hz, hn) = np.split(x, 3, 1), np.split(h, 3, 1)
    z = sigmoid(z + hz)
    return (1 - z) * np.tanh(n + sigmoid(r + hr) * hn) + z * last, None


def apply(op, inputs, training):
    name, a = (op, {}) if isinstance(op, str) else next(iter(op.items()))
    x = inputs[0]
    match name:
        case "Conv":
            return conv(x, inputs[1], inputs[2] if len(inputs) > 2 else None, **a)
        case "ConvTranspose":
            return conv_transpose(x, inputs[1], inputs[2] if len(inputs) > 2 else None, **a)
        case "InstanceNormalization":
            axes = tuple(range(2, x.ndim))
            wide = lambda p: p.reshape(-1, *[1] * (x.ndim - 2))
            spread = np.sqrt(x.var(axes, keepdims=True) + a["epsilon"])
            return (x - x.mean(axes, keepdims=True)) / spread * wide(inputs[1]) + wide(inputs[2])
        case "BatchNormalization":
            _, scale, bias, mean, variance = inputs
            axes = (0, *range(2, x.ndim))
            if training:
                mean, variance = x.mean(axes), x.var(axes)
            wide = lambda p: p.reshape(-1, *[1] * (x.ndim - 2))
            return (x - wide(mean)) / np.sqrt(wide(variance) + a["epsilon"]) * wide(scale) + wide(bias)
        case "LayerNormalization":
            centred = x - x.mean(-1, keepdims=True)
            return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + a["epsilon"]) * inputs[1] + inputs[2]
        case "Relu":
            return np.maximum(x, 0)
        case "LeakyRelu":
            return np.where(x > 0, x, a["alpha"] * x)
        case "PRelu":
            return np.where(x > 0, x, inputs[1] * x)
        case "Elu":
            return np.where(x > 0, x, a["alpha"] * np.expm1(x))
        case "Softplus":
            return np.log1p(np.exp(x))
        case "Clip":
            return np.clip(x, a["min"], a["max"])
        case "Sigmoid":
            return sigmoid(x)
        case "HardSigmoid":
            return np.clip(x / 6 + 0.5, 0, 1)
        case "HardSwish":
            return x * np.clip(x / 6 + 0.5, 0, 1)
        case "Silu":
            return x / (1 + np.exp(-x))
        case "Tanh":
            return np.tanh(x)
        case "Gelu":
            if a["approximate"] == "tanh":
                return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2
            return x * (1 + erf(x / math.sqrt(2))) / 2
        case "Softmax":
            return softmax(x, a["axis"])
        case "LogSoftmax":
            return np.log(softmax(x, a["axis"]))
        case "Add":
            return x + inputs[1]
        case "Max":
            return np.maximum(x, inputs[1])
        case "Min":
            return np.minimum(x, inputs[1])
        case "Mul":
            return x * inputs[1]
        case "Div":
            return x / inputs[1]
        case "Sqrt":
            return np.sqrt(x)
        case "Exp":
            return np.exp(x)
        case "Log":
            return np.log(x)
        case "Abs":
            return np.abs(x)
        case "Sin":
            return np.sin(x)
        case "Cos":
            return np.cos(x)
        case "MatMul":
            return x @ inputs[1]
        case "Linear":
            y = x @ inputs[1].T
            return y + inputs[2] if len(inputs) > 2 else y
        case "Gemm":
            y = x @ inputs[1]
            return y + inputs[2] if len(inputs) > 2 else y
        case "Attention":
            return attention(*inputs, a["heads"], a["causal"])
        case "LSTM":
            return recurrent(x, inputs[1:], lstm)
        case "GRU":
            return recurrent(x, inputs[1:], gru)
        case "MaxPool":
            taps = windows(x, a["kernel"], a["strides"], a["pads"], -np.inf, a["ceil_mode"])
            return np.max([seen for _, _, seen in taps], axis=0)
        case "AveragePool":
            sees = lambda y: sum(seen for _, _, seen in windows(y, a["kernel"], a["strides"], a["pads"], 0.0))
            return sees(x) / (math.prod(a["kernel"]) if a["count_include_pad"] else sees(np.ones_like(x)))
        case "GlobalAveragePool":
            return x.mean((2, 3), keepdims=True)
        case "Resize":
            for axis in (2, 3):
                x = resized(x, axis, a["sizes"][axis - 2], a["interpolation"])
            return x
        case "Pad":
            sides = list(zip(a["begins"], a["ends"]))
            if a["border"] == "reflect":
                return np.pad(x, sides, "reflect")
            return np.pad(x, sides, constant_values=a["border"]["constant"]["value"])
        case "Flatten":
            return x.reshape(*x.shape[: a["axis"]], -1)
        case "Reshape":
            return x.reshape(a["shape"])
        case "Transpose":
            return x.transpose(a["perm"])
        case "Expand":
            return x * np.ones(a["shape"])
        case "Concat":
            return np.concatenate(inputs, a["axis"])
        case "Slice":
            return x.take(range(a["start"], a["end"]), a["axis"])
        case "Gather":
            return x[inputs[1]]
        case "Squeeze":
            return x.squeeze(a["axis"])
        case "Dropout":
            return x
        case "QuantizeDequantize":
            scale = inputs[1]
            if a["axis"] is not None:
                scale = scale.reshape(-1, *[1] * (x.ndim - 1 - a["axis"]))
            least, most = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(2**31), 2**31 - 1)}[a["element"]]
            return scale * (np.clip(np.rint(x / scale) + a["zero_point"], least, most) - a["zero_point"])
        case "DynamicQuantizeDequantize":
            low, high = min(0.0, x.min()), max(0.0, x.max())
            scale = (high - low) / 255 or 1.0
            zero = np.clip(np.rint(-low / scale), 0, 255)
            return scale * (np.clip(np.rint(x / scale) + zero, 0, 255) - zero)
    raise ValueError(name)


parameters = {p["name"]: numbers(p) for p in graph["parameters"]}
wide = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in parameters.items()}


def run(feeds, training=False, seen=None):
    values = {**wide, **{k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in feeds.items()}}
    for node in graph["nodes"]:
        y = apply(node["op"], [values[i] for i in node["inputs"]], training)
        values[node["outputs"][0]] = y
        if seen is not None:
            # What a mask hides is at minus infinity before a softmax.
            finite = y[np.isfinite(y)].astype(np.float64)
            seen[node["name"]] = float(np.sqrt((finite**2).mean()))
    return [values[o] for o in graph["outputs"]]


def error(got, want):
    """The largest relative L2 error of an output, and its name."""
    relative = [np.sqrt(((g - w) ** 2).sum() / (w**2).sum()) for g, w in zip(got, want)]
    worst = int(np.argmax(relative))
    return float(relative[worst]), graph["outputs"][worst]


feeds = {i["name"]: numbers(i) for i in graph["inputs"]}
other = {i["name"]: numbers(i, salt="'") for i in graph["inputs"]}
inference, training = {}, {}
want = run(feeds, False, inference)
run(feeds, True, training)
result = {
    "errors": [],
    "smallest": min(*inference.values(), *training.values()),
    "largest": max(*inference.values(), *training.values()),
    "output": math.sqrt(sum((w**2).mean() for w in want) / len(want)),
    # How far another input moves the output, as a share of the output.
    "sensitivity": error(run(other), want)[0],
}
if len(sys.argv) > 3:
    import onnxruntime

    for path in sys.argv[3:]:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        kinds = {"double": np.float64, "float16": np.float16, "float": np.float32, "int32": np.int32, "bool": np.bool_}
        kind = lambda fed: kinds.get(fed.type.removeprefix("tensor(").removesuffix(")"), np.int64)
        fed = {i.name: feeds[i.name].astype(kind(i)) for i in session.get_inputs()}
        got = [g.astype(np.float64) for g in session.run(graph["outputs"], fed)]
        result["errors"].append(error(got, want))
json.dump(result, sys.stdout)
