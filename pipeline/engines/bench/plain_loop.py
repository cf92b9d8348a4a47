"""A plain Python loop over ResNet-50, to hold our workers' step times against.

It is what a user would write: for PyTorch a module in plain `torch.nn` with `inplace=True` and
`+=`, called under `torch.inference_mode()`; for AOTInductor the package that our own worker runs,
loaded by `aoti_load_package` and called like that; for ONNX Runtime an `InferenceSession` and its
`run`. For TensorFlow it is the graph of our own worker, wrapped as a function and called eagerly, as
graphs from files are run: there the language is all that differs.

It speaks as much of the worker protocol as the race needs, so that both sides are started, paused
and asked in the same way; each side times its own steps. What to run is told by variables, since
the loop may be started as a kit's worker is: `PHOTOFINISH_PLAIN_LOOP` is `torch`, `aot`,
`onnxruntime` or `tensorflow`, `PHOTOFINISH_PLAIN_LOOP_FILE` the folder of the package, a file of ONNX
or one of a graph of TensorFlow's, and `PHOTOFINISH_PLAIN_LOOP_PROTOCOL` the version to greet in.
"""

import json
import os
import sys
import time

# Library chatter must not reach the protocol's stream.
STREAM = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)


def say(message):
    STREAM.write(json.dumps(message) + "\n")
    STREAM.flush()


def torch_step(batch, threads):
    import torch
    from torch import nn

    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)

    class Bottleneck(nn.Module):
        def __init__(self, inputs, width, stride, downsample):
            super().__init__()
            outputs = 4 * width
            self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
            self.bn3 = nn.BatchNorm2d(outputs)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = None
            if downsample:
                self.downsample = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
                )

        def forward(self, x):
            identity = x if self.downsample is None else self.downsample(x)
            out = self.relu(self.bn1(self.conv1(x)))
            out = self.relu(self.bn2(self.conv2(out)))
            out = self.bn3(self.conv3(out))
            out += identity
            return self.relu(out)

    class ResNet50(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(64)
            self.relu = nn.ReLU(inplace=True)
            self.maxpool = nn.MaxPool2d(3, 2, 1)
            blocks, inputs = [], 64
            for stage, (width, depth) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
                for block in range(depth):
                    stride = 2 if block == 0 and stage > 0 else 1
                    blocks.append(Bottleneck(inputs, width, stride, block == 0))
                    inputs = 4 * width
            self.blocks = nn.Sequential(*blocks)
            self.avgpool = nn.AdaptiveAvgPool2d(1)
            self.fc = nn.Linear(2048, 1000)

        def forward(self, x):
            x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
            x = self.blocks(x)
            return self.fc(torch.flatten(self.avgpool(x), 1))

    model = ResNet50().eval()
    images = torch.rand(batch, 3, 224, 224)

    def step():
        with torch.inference_mode():
            return model(images)

    return step, torch.__version__


def aot_step(threads, folder, graph):
    import pathlib

    import torch

    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    (path,) = pathlib.Path(folder).glob("*.pt2")
    model = torch._inductor.aoti_load_package(str(path))
    # It holds no weights. Any will do whose activations stay finite: means of what is read.
    names = json.loads(model.get_metadata()["photofinish"])["constants"]
    shapes = {parameter["name"]: parameter["shape"] for parameter in graph["parameters"]}
    weights = {}
    for name in model.get_constant_fqns():
        weight = torch.rand(shapes[names[name]])
        weights[name] = weight * len(weight) / weight.numel()
    model.load_constants(weights, check_full_update=True)
    (fed,) = graph["inputs"]
    images = torch.rand(fed["shape"])

    def step():
        with torch.inference_mode():
            return model(images)

    return step, torch.__version__


def onnxruntime_step(batch, threads, path):
    import numpy
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    images = numpy.random.rand(batch, 3, 224, 224).astype(numpy.float32)

    def step():
        return session.run(None, {name: images})

    return step, onnxruntime.__version__


def tensorflow_step(batch, threads, path):
    import numpy
    import tensorflow

    tensorflow.config.threading.set_intra_op_parallelism_threads(threads)
    tensorflow.config.threading.set_inter_op_parallelism_threads(1)
    with open(path, "rb") as file:
        graph = tensorflow.compat.v1.GraphDef.FromString(file.read())
    with open(path + ".json", encoding="utf-8") as file:
        ends = json.load(file)
    wrapped = tensorflow.compat.v1.wrap_function(
        lambda: tensorflow.compat.v1.import_graph_def(graph, name=""), []
    )

    def tensors(names):
        return [wrapped.graph.as_graph_element(name + ":0") for name in names]

    call = wrapped.prune(tensors(ends["feeds"]), tensors(ends["fetches"]))
    images = tensorflow.constant(numpy.random.rand(batch, 224, 224, 3).astype(numpy.float32))

    def step():
        return call(images)

    return step, tensorflow.__version__


def measure(step, request):
    for _ in range(request["discard"]):
        step()
    samples, begin = [], time.perf_counter_ns()
    while len(samples) < request["max_steps"]:
        start = time.perf_counter_ns()
        step()
        end = time.perf_counter_ns()
        samples.append(end - start)
        if len(samples) >= request["min_steps"] and end - begin >= request["min_ns"]:
            break
    return {"measure": {"samples_ns": samples, "cancelled": False}}


def load(request):
    cell = request["cell"]
    batch, threads = cell["dims"]["batch"], cell["threads"]
    kind, file = os.environ["PHOTOFINISH_PLAIN_LOOP"], os.environ.get("PHOTOFINISH_PLAIN_LOOP_FILE")
    if kind == "torch":
        step, version = torch_step(batch, threads)
    elif kind == "aot":
        step, version = aot_step(threads, file, request["graph"])
    elif kind == "onnxruntime":
        step, version = onnxruntime_step(batch, threads, file)
    else:
        step, version = tensorflow_step(batch, threads, file)
    start = time.perf_counter_ns()
    step()
    first = time.perf_counter_ns() - start
    loaded = {
        "fill_ns": 0,
        "build_ns": 0,
        "compile_ns": 0,
        "first_step_ns": first,
        "threads": threads,
        "spin": "default",
        "settings": {"version": version},
    }
    return step, {"loaded": loaded}


def main():
    protocol = int(os.environ["PHOTOFINISH_PLAIN_LOOP_PROTOCOL"])
    hello = {"protocol": protocol, "engine": "python", "versions": {}, "worker": None, "variants": []}
    say({"hello": hello})
    step = None
    for line in sys.stdin:
        request = json.loads(line)
        if request == "bye":
            say("bye")
            return
        if "load" in request:
            step, reply = load(request["load"])
            say(reply)
        elif "measure" in request:
            say(measure(step, request["measure"]))
        else:
            say({"failed": {"kind": "unsupported", "reason": "a plain loop only measures"}})


main()
