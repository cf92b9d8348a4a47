"""Several ranks: what launchers say, and two that train together. Needs PyTorch."""

import array
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import unittest
from pathlib import Path
from typing import Any

import torch

from photofinish_pytorch import buckets, spread
from photofinish_pytorch.configuration import Spread
from photofinish_pytorch.device import Place
from photofinish_worker.engine import ParityData, Quantity, Tensor
from photofinish_worker.messages import Sgd, Strategy
from photofinish_worker.outcome import Failure, Kind
from photofinish_worker.ranks import World, updates, world_of
from tests.sketch import CELL, graph, node, value, weight
from tests.with_pytorch import training

ROWS = 4
SGD = {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.0}
LAUNCHED = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "node", "MASTER_PORT": "29500"}


PARAMETERS = [weight("w", [3, 6]), weight("b", [3])]
NODES = [node("Linear", ["x", "w", "b"], "y")]
INNER = 600
"""A square matrix of so many rows fills a bucket of 1 MiB."""
WIDE_PARAMETERS = [
    weight("v", [INNER, 6]),
    weight("c", [INNER]),
    weight("u", [INNER, INNER]),
    *PARAMETERS[1:],
    weight("w", [3, INNER]),
]
WIDE_NODES = [
    node("Linear", ["x", "v", "c"], "z"),
    node("Linear", ["z", "u"], "t"),
    node("Linear", ["t", "w", "b"], "y"),
]
"""Layers that take several buckets."""


def linear(rows: int, wide: bool = False) -> dict[str, Any]:
    """A linear layer that is fed so many rows, or several, as the supervisor would send it."""
    loss = {"cross_entropy": {"logits": "y", "labels": value("labels", [rows], "int64")}}
    return {
        "name": "g",
        "inputs": [value("x", [rows, 6])],
        "parameters": WIDE_PARAMETERS if wide else PARAMETERS,
        "nodes": WIDE_NODES if wide else NODES,
        "outputs": ["y"],
        "loss": loss,
    }


class Worker:
    """A worker in a process of its own, with the ranks that it starts."""

    def __init__(self) -> None:
        root = Path(__file__).parent.parent
        path = os.pathsep.join([str(root), *sys.path])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "photofinish_pytorch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            cwd=root,
        )
        self.hello = self.answer()

    def answer(self) -> Any:
        if self.process.stdout is None:
            raise ValueError("it says nothing")
        return json.loads(self.process.stdout.readline())

    def ask(self, request: object) -> Any:
        if self.process.stdin is None:
            raise ValueError("it hears nothing")
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        return self.answer()

    def load(self, scratch: str, **factors: str) -> Any:
        return self.load_layers(scratch, wide=False, factors=factors)

    def load_layers(self, scratch: str, *, wide: bool, factors: dict[str, str]) -> Any:
        cell = {
            **CELL,
            "engine": "pytorch/python-eager",
            "precision": "fp64",
            "mode": "training",
            "optimizer": {"sgd": SGD},
            "strategy": "ddp",
            "world_size": 2,
            "dims": {"batch": 2 * ROWS},
            "factors": factors,
        }
        rows = ROWS // int(factors.get("gradient_accumulation", "1"))
        load = {"cell": cell, "graph": linear(rows, wide), "scratch": scratch}
        return self.ask({"load": load})

    def others(self) -> list[int]:
        """Processes that it has started."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(child) for child in children.read_text().split()]

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


class Together(unittest.TestCase):
    def setUp(self) -> None:
        self.worker = Worker()
        self.addCleanup(self.worker.end)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def parity(self) -> tuple[list[float], list[float]]:
        """All numbers of a training, and its losses."""
        path = self.folder / "outputs"
        answer = self.worker.ask({"parity": {"path": str(path), "steps": 3}})
        self.assertIn("parity", answer, answer)
        numbers = array.array("d", path.read_bytes())
        path.unlink()
        return list(numbers), answer["parity"]["losses"]

    def assert_as_the_whole(self, tolerance: float, wide: bool = False) -> None:
        rows = 2 * ROWS
        held, nodes = (WIDE_PARAMETERS, WIDE_NODES) if wide else (PARAMETERS, NODES)
        both = graph([value("x", [rows, 6])], held, nodes, [rows])
        whole = training(both, Sgd(**SGD)).parity(3)
        right = [number for tensor in whole.tensors for number in array.array("d", tensor.data)]
        numbers, losses = self.parity()
        for own, other in zip(numbers + losses, right + list(whole.losses), strict=True):
            self.assertTrue(math.isclose(own, other, rel_tol=tolerance, abs_tol=tolerance))

    def assert_exchanged(self, number_bytes: int, numbers: int = 3 * 6 + 3) -> None:
        """So many numbers of so many bytes went out in each step: every gradient once."""
        ranks = self.worker.ask({"exchanges": {"steps": 5}})["exchanges"]["ranks"]
        self.assertEqual([len(steps) for steps in ranks], [5, 5])
        for step in ranks[0] + ranks[1]:
            sent = sum(bucket["bytes"] for bucket in step["buckets"])
            self.assertEqual(sent, numbers * number_bytes)
            for bucket in step["buckets"]:
                times = [0, step["backward_ns"], bucket["began_ns"], bucket["ended_ns"]]
                times.append(step["wall_ns"])
                self.assertEqual(times, sorted(times))
                self.assertLess(bucket["began_ns"], bucket["ended_ns"])
        refused = self.worker.ask({"exchanges": {"steps": 65}})
        self.assertEqual(refused["failed"]["kind"], "unsupported")

    def test_what_passes_come_to_together_goes_out_once(self) -> None:
        told = self.worker.load(str(self.folder), gradient_accumulation="2")
        self.assertIn("loaded", told)
        self.assert_as_the_whole(1e-12)
        self.assert_exchanged(8)
        self.assert_as_the_whole(1e-12)

    def test_two_ranks_train_as_one_does_on_the_whole_batch(self) -> None:
        self.assertIn("loaded", self.worker.load(str(self.folder)))
        self.assert_as_the_whole(1e-12)
        measure = {"discard": 1, "min_steps": 5, "min_ns": 0, "max_steps": 5}
        samples = self.worker.ask({"measure": measure})["measure"]["samples_ns"]
        self.assertEqual(len(samples), 5)
        self.assertEqual(len(self.worker.ask("memory")["memory"]["other_ranks"]), 1)
        self.assert_exchanged(8)
        # What was timed leaves nothing behind.
        self.assert_as_the_whole(1e-12)
        self.assertEqual(self.worker.ask("bye"), "bye")
        self.assertEqual(self.worker.process.wait(), 0)

    def test_gradients_may_live_in_buckets_of_a_static_graph(self) -> None:
        switches = {"gradient_as_bucket_view": "on", "static_graph": "on", "bucket_mib": "1"}
        self.assertIn("loaded", self.worker.load(str(self.folder), **switches))
        self.assert_as_the_whole(1e-12)
        self.assert_exchanged(8)
        self.assert_as_the_whole(1e-12)

    def test_gradients_may_be_compressed(self) -> None:
        self.assertIn("loaded", self.worker.load(str(self.folder), gradient_compression="bf16"))
        self.assert_exchanged(2)
        self.assert_as_the_whole(2e-2)
        with self.assertRaises(AssertionError):
            self.assert_as_the_whole(1e-6)

    def test_a_bucket_is_searched_for(self) -> None:
        loaded = self.worker.load(str(self.folder), bucket_mib="auto")["loaded"]
        # All gradients fit into the smallest.
        self.assertEqual(
            loaded["settings"]["bucket size"], "1 MiB, the fastest of those that were tried"
        )
        self.assertRegex(
            loaded["settings"]["bucket sizes tried"], r"^1 MiB \d+\.\d ms: the slowest"
        )
        self.assertGreater(loaded["compile_ns"], 0)
        # The search leaves nothing behind.
        self.assert_as_the_whole(1e-12)
        self.assert_exchanged(8)

    def test_gradients_may_go_as_factors(self) -> None:
        switches = {"gradient_compression": "powersgd", "bucket_mib": "1"}
        told = self.worker.load_layers(str(self.folder), wide=True, factors=switches)
        self.assertIn("PowerSGD of rank 1", told["loaded"]["settings"]["gradients on their way"])
        # Judged with whole ones.
        self.assert_as_the_whole(1e-9, True)
        # A column and a row of what is worth it.
        factors = (INNER + 6) + (INNER + INNER) + (INNER + 3)
        self.assert_exchanged(8, factors + INNER + 3)
        self.assert_as_the_whole(1e-9, True)

    def test_a_rank_that_dies_is_named(self) -> None:
        self.assertIn("loaded", self.worker.load(str(self.folder)))
        (other,) = self.worker.others()
        os.kill(other, signal.SIGKILL)
        measure = {"discard": 0, "min_steps": 5, "min_ns": 0, "max_steps": 5}
        failed = self.worker.ask({"measure": measure})["failed"]
        self.assertEqual(failed["kind"], "crashed")
        self.assertIn("rank 1 was ended by signal 9", failed["reason"])

    def test_a_rank_that_dies_before_the_group_is_made_is_not_waited_for(self) -> None:
        def kill() -> None:
            # As soon as there is one.
            until = time.monotonic() + 60.0
            while time.monotonic() < until:
                if others := self.worker.others():
                    os.kill(others[0], signal.SIGKILL)
                    return

        killer = threading.Thread(target=kill)
        killer.start()
        failed = self.worker.load(str(self.folder))["failed"]
        killer.join()
        self.assertEqual(failed["kind"], "crashed")
        self.assertIn("rank 1 was ended by signal 9", failed["reason"])


class Buckets(unittest.TestCase):
    def test_sizes_end_with_one_that_holds_all(self) -> None:
        for gradient_bytes, last in ((1, 1), (3 << 20, 4), (20 << 20, 50), (1 << 40, 100)):
            self.assertEqual(buckets.sizes(gradient_bytes)[-1], last)
        self.assertIn(buckets.USUAL_MIB, buckets.sizes(20 << 20))
        file = Path(__file__).parents[1] / "pytorch" / "engine.toml"
        variants = tomllib.loads(file.read_text(encoding="utf-8"))["variants"]
        known = [
            kit["factors"]["bucket_mib"]["values"]
            for kit in variants
            if "bucket_mib" in kit["factors"]
        ]
        self.assertTrue(known)
        for values in known:
            by_number = sorted(int(value) for value in values if value.isdecimal())
            self.assertEqual(by_number, list(buckets.SIZES_MIB))
        tried = buckets.told({1: 2_500_000, 2: 1_300_000}, 2)
        self.assertEqual(
            tried["bucket sizes tried"],
            "1 MiB 2.5 ms, 2 MiB 1.3 ms: the slowest rank's median of 5 steps",
        )

    def test_factors_are_sent_where_they_save_more_than_half(self) -> None:
        for shape, sent in (((3, 6), 18), ((8, 8), 16 if 2 * 16 < 64 else 64), ((9, 9), 18)):
            self.assertEqual(spread._numbers_sent(torch.zeros(shape)), sent)
        self.assertEqual(spread._numbers_sent(torch.zeros(7)), 7)
        self.assertEqual(spread._numbers_sent(torch.zeros((4, 3, 3, 3))), 4 + 27)


class Factors(unittest.TestCase):
    """One rank, which is a group by itself."""

    def test_what_they_lose_is_fed_back_and_forgotten_at_a_reset(self) -> None:
        asked = Spread(Strategy.DDP, 1, 1, 1, False, "powersgd", False, False)
        module = torch.nn.Linear(INNER, INNER, dtype=torch.float64)
        team = spread.Team(World(0, 0, 1, "127.0.0.1", 0))
        ranks = spread.Ranks(module, asked, Place(torch.device("cpu")), team)
        self.addCleanup(torch.distributed.destroy_process_group)
        fed = torch.linspace(-1.0, 1.0, 8 * INNER, dtype=torch.float64).reshape(8, INNER).sin()

        def gradient() -> torch.Tensor:
            module.zero_grad()
            ranks.forward(fed).pow(3).sum().backward()
            found = module.weight.grad
            assert found is not None
            return found.clone()

        for _ in range(ranks.unusual):
            gradient()
        with ranks.whole():
            whole = gradient()
        lossy = gradient()
        self.assertGreater(torch.dist(lossy, whole) / whole.norm(), 0.01)
        # A column times a row, behind which all others are nothing.
        sizes = torch.linalg.svdvals(lossy)
        self.assertLess(sizes[1] / sizes[0], 1e-9)
        factors = ranks._factors
        assert factors is not None
        self.assertTrue(factors.error_dict and factors.p_memory_dict)
        ranks.restart()
        self.assertFalse(factors.error_dict or factors.p_memory_dict or factors.q_memory_dict)
        # The same from the beginning on, as long as it is the same beginning.
        first = gradient()
        ranks.restart()
        torch.testing.assert_close(gradient(), first)


class Launchers(unittest.TestCase):
    def test_a_launcher_says_who_a_process_is(self) -> None:
        self.assertIsNone(world_of({}))
        self.assertEqual(world_of(LAUNCHED), World(1, 1, 2, "node", 29500))
        self.assertEqual(world_of({**LAUNCHED, "LOCAL_RANK": "0"}), World(1, 0, 2, "node", 29500))

    def test_what_it_cannot_mean_is_named(self) -> None:
        for name, wrong, reason in (
            ("RANK", "-1", "RANK='-1' is no whole number"),
            ("RANK", "2", "RANK=2 is none of WORLD_SIZE=2 ranks"),
            ("MASTER_PORT", "65536", "MASTER_PORT=65536 is no port"),
        ):
            with self.assertRaises(Failure) as raised:
                world_of({**LAUNCHED, name: wrong})
            self.assertIs(raised.exception.kind, Kind.UNAVAILABLE)
            self.assertIn(reason, raised.exception.reason)
        for name in ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            rest = {key: value for key, value in LAUNCHED.items() if key != name}
            with self.assertRaises(Failure) as raised:
                world_of(rest)
            self.assertIn(f"{name} is not", raised.exception.reason)

    def test_ranks_are_told_apart_by_what_their_weights_did(self) -> None:
        def of(quantity: Quantity, data: bytes) -> str:
            return updates(ParityData([Tensor(quantity, "w", [1], "f32", data)]))

        self.assertEqual(of(Quantity.UPDATE, b"1234"), of(Quantity.UPDATE, b"1234"))
        self.assertNotEqual(of(Quantity.UPDATE, b"1234"), of(Quantity.UPDATE, b"1235"))
        self.assertEqual(of(Quantity.GRADIENT, b"1234"), of(Quantity.GRADIENT, b"1235"))


if __name__ == "__main__":
    unittest.main()
