"""The worker of the engine in perceptron.py. CONTRIBUTING.md, "An engine in any language", leads
through it.
"""

import contextlib
import json
import os
import platform
import resource
import select
import socket
from array import array
from statistics import median
from time import perf_counter_ns as now

from perceptron import Network

REQUESTS = {"load", "parity", "reset", "warm_up", "measure", "memory", "cancel", "bye"}


class Worker:
    """A method for each request. A field that the method does not take is refused by Python."""

    def __init__(self):
        kind, _, place = os.environ.get("PHOTOFINISH_CONTROL", "").partition(":")
        self.source, self.sink, self.rest = os.dup(0), os.dup(1), b""
        os.dup2(2, 1)  # what anybody prints goes to the log
        if kind == "unix":
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(place)
            self.source = self.sink = connection.detach()
        self.network = None

    def load(self, cell, graph, scratch, files=None):
        if self.network:
            raise NotImplementedError("a process loads once")
        for name, only in ("precision", "fp64"), ("mode", "inference"), ("device", "cpu"):
            if cell[name] != only:
                raise NotImplementedError(f"{name} `{cell[name]}`; `{only}` is all there is")
        start = now()
        self.network = Network(graph, files and files["weights"])
        phases = {"fill_ns": now() - start, "build_ns": 0, "compile_ns": 0}
        told = {"threads": 1, "spin": "nobody waits", "settings": {"arithmetic": "fp64"}}
        return {"loaded": {**phases, "first_step_ns": self.step(), **told}}

    def loaded(self):
        if not self.network:
            raise NotImplementedError("`load` comes first")
        return self.network

    def step(self):
        network, start = self.loaded(), now()
        network.step()
        return now() - start

    def parity(self, path, steps):
        self.step()
        tensors = []
        with open(path, "xb") as file:
            for name in self.network.outputs:
                rows = self.network.values[name]
                array("d", [number for row in rows for number in row]).tofile(file)
                shape = [len(rows), len(rows[0])]
                what = {"quantity": "output", "name": name, "shape": shape, "element": "f64"}
                tensors.append(what)
        return {"parity": {"tensors": tensors, "losses": []}}

    def reset(self):
        return self.loaded() and "reset"  # a step changes nothing that lasts

    def warm_up(self, min_steps, max_ns, tolerance):
        start, medians, steady = now(), [], False
        while 5 * len(medians) < min_steps or not (steady or now() - start >= max_ns):
            medians.append(median(self.step() for _ in range(5)))
            steady = len(medians) > 1 and abs(medians[-1] / medians[-2] - 1) <= tolerance
        done = {"steps": 5 * len(medians), "total_ns": now() - start, "steady": steady}
        return {"warm_up": done}

    def measure(self, discard, min_steps, min_ns, max_steps):
        if min(discard, min_steps, min_ns, max_steps) < 0:
            raise ValueError("a number below zero")
        for _ in range(discard):
            self.step()
        samples, total_ns, cancelled = [], 0, False
        while len(samples) < max_steps and (len(samples) < min_steps or total_ns < min_ns):
            if cancelled := self.is_interrupted():
                break
            samples.append(self.step())
            total_ns += samples[-1]
        return {"measure": {"samples_ns": samples, "cancelled": cancelled}}

    def memory(self):
        with open("/proc/self/statm") as file:
            now_bytes = int(file.read().split()[1]) * resource.getpagesize()
        peak_bytes = max(now_bytes, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        device = {"device_bytes": None, "peak_device_bytes": None}
        host = {"resident_bytes": now_bytes, "peak_resident_bytes": peak_bytes}
        return {"memory": {**host, **device}}

    def cancel(self):
        return None  # it has no answer: whatever it was meant for has ended

    def bye(self):
        return "bye"

    def is_interrupted(self):  # nothing comes during a request but `cancel`, or the end
        return bool(self.rest or select.select([self.source], [], [], 0)[0])

    def line(self):
        while b"\n" not in self.rest:
            more = os.read(self.source, 1 << 16)
            if not more:
                return None
            self.rest += more
        line, _, self.rest = self.rest.partition(b"\n")
        return line

    def say(self, reply):
        line = json.dumps(reply).encode() + b"\n"
        while line:
            line = line[os.write(self.sink, line) :]

    def answer(self, line):
        try:
            message = json.loads(line)
            ((name, fields),) = [(message, {})] if isinstance(message, str) else message.items()
            if name not in REQUESTS:
                raise ValueError(f"no request of this name: {name}")
            return getattr(self, name)(**fields)
        except Exception as error:
            is_refusal = isinstance(error, NotImplementedError)
            reason = str(error) if is_refusal else repr(error)
            kind = "unsupported" if is_refusal else "crashed"
            return {"failed": {"kind": kind, "reason": reason[:400]}}

    def serve(self):
        versions = {"python": platform.python_version()}
        who = {"engine": "plain", "versions": versions, "variants": ["python"], "worker": None}
        self.say({"hello": {"protocol": 4, **who}})
        while (line := self.line()) is not None:
            if reply := self.answer(line):
                self.say(reply)
            if reply == "bye":
                return


with contextlib.suppress(BrokenPipeError):  # a supervisor that has gone hears no answer
    Worker().serve()
