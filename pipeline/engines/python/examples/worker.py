"""The worker of the engine in perceptron.py. CONTRIBUTING.md, "An engine in any language", leads
through it.
"""

import platform
import sys
from array import array
from itertools import chain
from time import perf_counter_ns

from perceptron import Network

from photofinish_worker.engine import Identity, LoadReport, ParityData, Quantity, Tensor
from photofinish_worker.outcome import unsupported
from photofinish_worker.serve import serve

ONLY = {"precision": "fp64", "mode": "inference", "device": "cpu"}


class Plain:
    def hello(self):
        return Identity("plain", {"python": platform.python_version()}, None, ["python"])

    def load(self, load):
        for name, only in ONLY.items():
            if (asked := getattr(load.cell, name)) != only:
                raise unsupported(f"{name} is {asked}; `{only}` is all there is")
        start = perf_counter_ns()
        network = Network(load.graph, load.files and load.files.weights)
        report = LoadReport(
            fill_ns=perf_counter_ns() - start,
            build_ns=0,
            compile_ns=0,
            threads=1,
            spin="nobody waits",
            settings={"arithmetic": "double precision, number by number"},
        )
        return Session(network), report


class Session:
    def __init__(self, network):
        self.network = network
        self.step = network.step  # what is timed

    def parity(self, steps):
        self.step()
        named = ((name, self.network.values[name]) for name in self.network.outputs)
        return ParityData([tensor(name, rows) for name, rows in named])

    def reset(self):
        pass  # a step changes nothing that lasts

    def device_memory(self):
        return None  # all of it is the process's


def tensor(name, rows):
    numbers = array("d", chain.from_iterable(rows)).tobytes()
    return Tensor(Quantity.OUTPUT, name, [len(rows), len(rows[0])], "f64", numbers)


sys.exit(serve(Plain))
