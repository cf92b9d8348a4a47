"""A worker that keeps to the protocol in all but one respect, which its second argument names."""
import json
import os
import select
import socket
import struct
import sys
import time

VERSION, FAULT = int(sys.argv[1]), sys.argv[2]
FIELDS = {
    "load": {"cell", "graph", "scratch"},
    "parity": {"path", "steps"},
    "warm_up": {"min_steps", "max_ns", "tolerance"},
    "measure": {"discard", "min_steps", "min_ns", "max_steps"},
}
WORDS = {"reset", "memory", "cancel", "bye"}
STEP_S = 0.0005


class Stream:
    """Lines in, lines out."""

    def __init__(self):
        self.rest, self.source, self.sink = b"", 0, 1
        address = os.environ.get("PHOTOFINISH_CONTROL")
        if address:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(address.removeprefix("unix:"))
            self.source = self.sink = self.socket.fileno()

    def say(self, message):
        line = json.dumps(message).encode() + b"\n"
        while line:
            line = line[os.write(self.sink, line):]

    def line(self):
        """The next line; leaves at the end of the stream."""
        while b"\n" not in self.rest:
            more = os.read(self.source, 1 << 16)
            if not more:
                sys.exit(0)
            self.rest += more
        line, self.rest = self.rest.split(b"\n", 1)
        return line

    def cancelled(self):
        """Whether something came in the middle of a request."""
        waits = self.rest or select.select([self.source], [], [], 0)[0]
        return bool(waits) and self.line() == b'"cancel"'


def understand(line, loaded):
    """The request and its fields; an error for what is no request."""
    message = json.loads(line)
    if isinstance(message, str) and message in WORDS:
        return message, {}
    if not isinstance(message, dict) or len(message) != 1:
        raise ValueError("no request")
    (name, fields), = message.items()
    lax = FAULT == ("any_field" if loaded else "any_load")
    if set(fields) != FIELDS[name] and not (lax and set(fields) > FIELDS[name]):
        raise ValueError("other fields")
    if any(isinstance(value, int) and value < 0 for value in fields.values()):
        raise ValueError("a number below zero")
    return name, fields


def step():
    start = time.perf_counter_ns()
    time.sleep(STEP_S)
    return time.perf_counter_ns() - start


def load():
    return {"loaded": {"fill_ns": 0, "build_ns": 0, "compile_ns": 0, "first_step_ns": step(),
                       "threads": 1, "spin": "none", "settings": {}}}


def parity(path, steps, mode):
    def tensor(quantity, name, shape):
        return {"quantity": quantity, "name": name, "shape": shape, "element": "f32"}

    if mode == "training":
        tensors = [tensor("gradient", "weight", [3, 4]), tensor("update", "weight", [3, 4])]
        count, losses = 24, [0.0] * steps
    elif FAULT == "shape":
        tensors, count, losses = [tensor("output", "y", [1])], 1, []
    else:
        tensors, count, losses = [tensor("output", "y", [2, 3])], 6, []
    with open(path, "wb") as file:
        file.write(struct.pack("<f", 0.5) * count)
    return {"parity": {"tensors": tensors, "losses": losses}}


def warm_up(min_steps, max_ns, tolerance):
    start = time.perf_counter_ns()
    for _ in range(min_steps):
        step()
    if FAULT == "long_warm_up":
        time.sleep(3)
    took = time.perf_counter_ns() - start
    return {"warm_up": {"steps": min_steps, "total_ns": took, "steady": True}}


def measure(stream, discard, min_steps, min_ns, max_steps):
    samples, cancelled = [], False
    for _ in range(0 if FAULT == "no_discard" else discard):
        step()
    while len(samples) < max_steps and (len(samples) < min_steps or sum(samples) < min_ns):
        cancelled = stream.cancelled()
        if cancelled:
            break
        samples.append(step())
    return {"measure": {"samples_ns": samples, "cancelled": cancelled}}


def memory():
    unit = 1 if FAULT == "kibibytes" else 1024
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    size = {name: int(fields[name].split()[0]) * unit for name in ("VmRSS", "VmHWM")}
    return {"memory": {"resident_bytes": size["VmRSS"], "peak_resident_bytes": size["VmHWM"],
                       "device_bytes": None, "peak_device_bytes": None}}


def failed(reason):
    return {"failed": {"kind": "unsupported", "reason": reason}}


def serve(stream):
    mode = None
    stream.say({"hello": {"protocol": VERSION, "engine": "synthetic", "versions": {"python": "3"},
                          "worker": None, "variants": ["steady"]}})
    while True:
        try:
            name, fields = understand(stream.line(), mode is not None)
        except (KeyError, RecursionError, TypeError, ValueError) as error:
            stream.say(failed(f"not understood: {type(error).__name__}"))
            continue
        if name == "cancel":
            continue
        if name == "bye":
            stream.say("bye")
            return
        if name == "memory":
            stream.say(memory())
        elif (name == "load") != (mode is None):
            stream.say(failed("not now"))
        elif name == "load":
            mode = fields["cell"]["mode"]
            stream.say(load())
        elif name == "parity":
            stream.say(parity(**fields, mode=mode))
        elif name == "warm_up":
            stream.say(warm_up(**{field: fields[field] for field in FIELDS[name]}))
        elif name == "measure":
            stream.say(measure(stream, **{field: fields[field] for field in FIELDS[name]}))
        else:
            stream.say("reset")


serve(Stream())
