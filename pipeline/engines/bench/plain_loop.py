"""A plain Python loop over ResNet-50, or a peer's harness, to hold our workers' step times against.

It is what a user would write: for PyTorch a module in plain `torch.nn` with `inplace=True` and
`+=`, called under `torch.inference_mode()`; for AOTInductor the package that our own worker runs,
loaded by `aoti_load_package` and called like that; for ONNX Runtime an `InferenceSession` and its
`run`. For TensorFlow it is the graph of our own worker, wrapped as a function and called eagerly, as
graphs from files are run: there the language is all that differs.

Peers have clocks of their own: `torch-benchmark` is `torch.utils.benchmark` around the same module,
`onnxruntime-profile` what ONNX Runtime's own profiler tells of calls of such a session, and
`openvino-benchmark` OpenVINO's `benchmark_app` over the file.

It speaks as much of the worker protocol as the race needs, so that both sides are started, paused
and asked in the same way; each side times its own steps. What to run is told by variables, since
the loop may be started as a kit's worker is: `PHOTOFINISH_PLAIN_LOOP` is `torch`, `aot`,
`onnxruntime`, `tensorflow` or a peer, `PHOTOFINISH_PLAIN_LOOP_FILE` the folder of the package, a file of ONNX
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


def torch_benchmark(batch, threads):
    step, version = torch_step(batch, threads)

    def measure(request):
        from torch.utils import benchmark

        timer = benchmark.Timer("step()", globals={"step": step}, num_threads=threads)
        seconds = []
        while len(seconds) < request["min_steps"]:
            # Each is the mean of as many steps as make its clock's own time small.
            seconds += timer.blocked_autorange(min_run_time=request["min_ns"] / 1e9).times
        return [round(each * 1e9) for each in seconds]

    return step, version, measure


def onnxruntime_session(batch, threads, path, profile=None):
    import numpy
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    images = numpy.random.rand(batch, 3, 224, 224).astype(numpy.float32)

    def step():
        return session.run(None, {name: images})

    return step, onnxruntime.__version__, session


def onnxruntime_step(batch, threads, path):
    step, version, _ = onnxruntime_session(batch, threads, path)
    return step, version


def onnxruntime_profile(batch, threads, path):
    step, version = onnxruntime_step(batch, threads, path)

    def measure(request):
        import tempfile

        # A profiler tells when it is ended, and is not begun again: each round has its session.
        with tempfile.TemporaryDirectory() as folder:
            prefix = os.path.join(folder, "times")
            profiled, _, session = onnxruntime_session(batch, threads, path, prefix)
            steps = len(samples(profiled, request))
            with open(session.end_profiling(), encoding="utf-8") as file:
                events = json.load(file)
        runs = [1000 * event["dur"] for event in events if event["name"] == "model_run"]
        return runs[-steps:]

    return step, version, measure


def openvino_benchmark(threads, path):
    import re
    import subprocess

    import openvino

    program = os.path.join(os.path.dirname(sys.executable), "benchmark_app")
    options = ["-m", path, "-d", "CPU", "-api", "sync", "-hint", "none", "-nstreams", "1"]
    options += ["-nthreads", str(threads), "-infer_precision", "f32"]

    def median_ns(seconds):
        command = [program, *options, "-t", str(seconds)]
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        return round(float(re.search(r"Median: +([0-9.]+) ms", told)[1]) * 1e6)

    def measure(request):
        # It counts in whole seconds, compiles anew each time, and tells a median and no samples.
        median = median_ns(max(1, round(request["min_ns"] / 1e9)))
        return [median] * max(request["min_steps"], request["min_ns"] // median)

    return lambda: median_ns(1), openvino.__version__, measure


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


def samples(step, request):
    for _ in range(request["discard"]):
        step()
    times, begin = [], time.perf_counter_ns()
    while len(times) < request["max_steps"]:
        start = time.perf_counter_ns()
        step()
        end = time.perf_counter_ns()
        times.append(end - start)
        if len(times) >= request["min_steps"] and end - begin >= request["min_ns"]:
            break
    return times


def load(request):
    cell = request["cell"]
    batch, threads = cell["dims"]["batch"], cell["threads"]
    kind, file = os.environ["PHOTOFINISH_PLAIN_LOOP"], os.environ.get("PHOTOFINISH_PLAIN_LOOP_FILE")
    measure = None
    if kind == "torch-benchmark":
        step, version, measure = torch_benchmark(batch, threads)
    elif kind == "onnxruntime-profile":
        step, version, measure = onnxruntime_profile(batch, threads, file)
    elif kind == "openvino-benchmark":
        step, version, measure = openvino_benchmark(threads, file)
    elif kind == "torch":
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
    return measure or (lambda request: samples(step, request)), {"loaded": loaded}


def main():
    protocol = int(os.environ["PHOTOFINISH_PLAIN_LOOP_PROTOCOL"])
    hello = {"protocol": protocol, "engine": "python", "versions": {}, "worker": None, "variants": []}
    say({"hello": hello})
    measure = None
    for line in sys.stdin:
        request = json.loads(line)
        if request == "bye":
            say("bye")
            return
        if "load" in request:
            measure, reply = load(request["load"])
            say(reply)
        elif "measure" in request:
            times = measure(request["measure"])
            say({"measure": {"samples_ns": times, "cancelled": False}})
        else:
            say({"failed": {"kind": "unsupported", "reason": "a plain loop only measures"}})


main()
