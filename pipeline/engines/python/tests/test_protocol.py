"""The worker's side of the protocol, without any engine's library."""

import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

from photofinish_worker import memory, outputs, sources, timing
from photofinish_worker.control import NoStream, Stream, _connect
from photofinish_worker.decode import Mismatch, Signed, decode, message
from photofinish_worker.engine import (
    Identity,
    LoadReport,
    ParityData,
    Quantity,
    Session,
    Tensor,
)
from photofinish_worker.graph import Clip, Node, Op, Relu, Softmax
from photofinish_worker.inbox import Inbox, Incoming, lines
from photofinish_worker.messages import VERSION, Bye, Load, Measure, Memory, Request, Reset, WarmUp
from photofinish_worker.outcome import Failure, Kind
from photofinish_worker.serve import Turns


class Counter:
    """Counts its steps, and fails at one of them."""

    def __init__(self, fails_at: int = 0) -> None:
        self.steps = 0
        self.fails_at = fails_at

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.fails_at:
            raise Failure(Kind.OUT_OF_MEMORY, "full")

    def parity(self, steps: int) -> ParityData:
        return ParityData([Tensor(Quantity.OUTPUT, "y", (1,), "f32", b"\0\0\0\0")], [0.5] * steps)

    def reset(self) -> None:
        self.steps = 0

    def device_memory(self) -> tuple[int, int] | None:
        return None


class Diverging(Counter):
    """Comes to a weight that is not finite."""

    def diverged(self) -> str | None:
        return "w" if self.steps else None


class OnDevice(Counter):
    """A device says how long its steps take, and a step takes two milliseconds."""

    def __init__(self, told: Callable[[int], int | None]) -> None:
        super().__init__()
        self.told = told

    def step(self) -> None:
        super().step()
        time.sleep(0.002)

    def device_ns(self) -> int | None:
        return self.told(self.steps)


class Engine:
    """Makes a counter, or raises."""

    def __init__(self, error: Exception | None = None, session: Session | None = None) -> None:
        self.error = error
        self.session = session or Counter()

    def hello(self) -> Identity:
        return Identity("e", {"e": "1"}, None, ["v"])

    def load(self, load: Load) -> tuple[Session, LoadReport]:
        del load
        if self.error is not None:
            raise self.error
        return self.session, LoadReport(1, 2, 3, None, "spin", {})


LOAD = {
    "load": {
        "cell": {
            "model": {"name": "n", "source": "zoo", "graph": "00"},
            "dims": {"batch": 1},
            "precision": "fp32",
            "mode": "inference",
            "optimizer": None,
            "engine": "e/v",
            "host_language": "python",
            "device": "cpu",
            "threads": 1,
            "strategy": "single",
            "world_size": 1,
            "boundary": "step",
            "factors": {},
        },
        "graph": {
            "name": "n",
            "inputs": [],
            "parameters": [],
            "nodes": [],
            "outputs": [],
            "loss": None,
        },
        "files": None,
        "scratch": "/tmp",
    }
}


FAULTS = f"""
import json, resource, sys
from dataclasses import replace
from photofinish_worker import allocator
from photofinish_worker.decode import message
from photofinish_worker.messages import Request
load = message(Request, {json.dumps(json.dumps(LOAD))}.encode())
allocator.carry_out(replace(load.cell, factors={{"allocator": sys.argv[1]}}))
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    bytearray(64 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""
"""Prints how many pages the second of two blocks needs."""


def conversation(engine: Engine, *requests: object) -> list[Any]:
    """Answers to requests: texts go over the stream as they are."""
    (reader, to_worker), (from_worker, writer) = os.pipe(), os.pipe()
    inbox = Inbox()
    turns = Turns(lambda: engine, Stream(reader, writer), inbox)

    def listen() -> None:
        inbox.read_all(lambda: os.read(reader, 100))
        inbox._messages.put(None)

    listener = threading.Thread(target=listen)
    listener.start()
    taker = threading.Thread(target=turns.take_all)
    taker.start()
    for request in requests:
        line = request if isinstance(request, str) else json.dumps(request)
        os.write(to_worker, line.encode() + b"\n")
    os.close(to_worker)
    taker.join()
    os.close(writer)
    listener.join()
    with os.fdopen(from_worker) as answers:
        replies = [json.loads(line) for line in answers]
    os.close(reader)
    return replies


class Conversation(unittest.TestCase):
    def test_each_request_has_one_reply(self) -> None:
        warm_up = {"warm_up": {"min_steps": 2, "max_ns": 0, "tolerance": 0.1}}
        measure = {"measure": {"discard": 1, "min_steps": 2, "min_ns": 0, "max_steps": 9}}
        # Requests that come ahead wait, and `cancel` counts for what came before it.
        hello, loaded, warm, measured, reset, memory_, bye = conversation(
            Engine(), LOAD, warm_up, measure, '"cancel"', '"reset"', '"memory"', '"bye"'
        )
        self.assertEqual(hello["hello"]["protocol"], VERSION)
        self.assertEqual(loaded["loaded"]["build_ns"], 2)
        self.assertGreater(loaded["loaded"]["first_step_ns"], 0)
        self.assertIn("steady", warm["warm_up"])
        self.assertIn("cancelled", measured["measure"])
        self.assertEqual(reset, "reset")
        self.assertGreater(memory_["memory"]["resident_bytes"], 1 << 20)
        self.assertEqual(bye, "bye")

    def test_a_training_that_has_diverged_was_not_measured(self) -> None:
        # Over a stream that is open: at its end all is cancelled.
        request = Incoming(1, Measure(0, 1, 0, 1))
        turns = Turns(Engine, Stream(0, 1), Inbox())
        turns._session = Counter()
        self.assertIn("measure", turns._answer(request))
        turns._session = Diverging()
        with self.assertRaisesRegex(Failure, "`w` is not finite") as raised:
            turns._answer(request)
        self.assertEqual(raised.exception.kind, Kind.PARITY_FAILED)

    def test_what_comes_out_of_order_is_unsupported(self) -> None:
        replies = conversation(Engine(), '"reset"', LOAD, LOAD, '"reset"', '"bye"')
        kinds = [reply["failed"]["kind"] for reply in replies[1:] if "failed" in reply]
        self.assertEqual(kinds, ["unsupported", "unsupported"])
        self.assertEqual(replies[-2:], ["reset", "bye"])

    def test_what_is_no_message_is_refused_and_survived(self) -> None:
        deep = "[" * 200_000
        replies = conversation(Engine(), "{", deep, '{"dance":{}}', '"memory"')
        self.assertEqual([reply["failed"]["kind"] for reply in replies[1:4]], ["crashed"] * 3)
        self.assertIn("memory", replies[4])

    def test_a_failed_load_is_told_by_its_kind_and_leaves_no_session(self) -> None:
        for error, kind in [
            (Failure(Kind.UNSUPPORTED, "no"), "unsupported"),
            (MemoryError(), "out_of_memory"),
            (ZeroDivisionError("by zero"), "crashed"),
        ]:
            _, failed, after = conversation(Engine(error), LOAD, '"reset"')
            self.assertEqual(failed["failed"]["kind"], kind)
            self.assertEqual(after["failed"]["kind"], "unsupported")
            self.assertIn("after `load` failed", after["failed"]["reason"])

    def test_an_engine_that_cannot_be_imported_is_unavailable(self) -> None:
        def make() -> Engine:
            raise ImportError("no libtorch")

        reader, writer = os.pipe()
        inbox = Inbox()
        inbox._messages.put(None)
        Turns(make, Stream(0, writer), inbox).take_all()
        os.close(writer)
        with os.fdopen(reader) as answers:
            failed = json.load(answers)["failed"]
        self.assertEqual(failed["kind"], "unavailable")
        self.assertIn("no libtorch", failed["reason"])


class Decoding(unittest.TestCase):
    def read(self, line: bytes) -> object:
        return message(Request, line)

    def test_messages_are_read_as_written(self) -> None:
        self.assertEqual(self.read(b'"reset"'), Reset())
        self.assertEqual(self.read(b' "bye" '), Bye())
        self.assertEqual(self.read(b'"memory"'), Memory())
        line = (
            b'{"measure":{"discard":0,"min_steps":1,"min_ns":18446744073709551615,"max_steps":2}}'
        )
        self.assertEqual(self.read(line), Measure(0, 1, 2**64 - 1, 2))
        line = b'{"warm_up":{"min_steps":1,"max_ns":1,"tolerance":1}}'
        self.assertEqual(self.read(line), WarmUp(1, 1, 1.0))
        self.assertIsInstance(message(Request, json.dumps(LOAD).encode()), Load)

    def test_operators_keep_their_names(self) -> None:
        self.assertEqual(decode(Op, "Relu", "op"), Relu())
        self.assertEqual(decode(Op, {"Softmax": {"axis": -1}}, "op"), Softmax(Signed(-1)))
        clip = {"Clip": {"min": 0.0, "max": 6.0}}
        node = {"name": "c", "op": clip, "inputs": ["x"], "outputs": ["y"], "in_place": True}
        read = decode(Node, node, "node")
        self.assertEqual(read, Node("c", Clip(0.0, 6.0), ("x",), ("y",), True))

    def test_anything_else_is_refused(self) -> None:
        measure = {"discard": 0, "min_steps": 1, "min_ns": 0, "max_steps": 1}
        different: list[dict[str, object]] = [
            {"mood": "good"},
            {"min_steps": -1},
            {"min_steps": 2**64},
            {"min_steps": 1.0},
            {"min_steps": True},
            {"min_steps": None},
        ]
        for changes in different:
            with self.assertRaises(Mismatch, msg=str(changes)):
                message(Request, json.dumps({"measure": {**measure, **changes}}).encode())
        for line in [
            b"",
            b"\xff",
            b"42",
            b'"dance"',
            b'{"reset":{}}',
            b'"measure"',
            b'{"measure":{}}',
            b'{"memory":1}',
            b'{"bye":{},"reset":{}}',
            b'{"warm_up":{"min_steps":1,"max_ns":1,"tolerance":NaN}}',
            b'{"warm_up":{"min_steps":1,"max_ns":1,"tolerance":1e999}}',
        ]:
            with self.assertRaises(Mismatch, msg=str(line)):
                self.read(line)


class Lines(unittest.TestCase):
    def cut(self, stream: bytes, size: int, limit: int) -> list[bytes | None]:
        chunks = [stream[i : i + size] for i in range(0, len(stream), size)]
        return list(lines(iter([*chunks, b""]).__next__, limit))

    def test_cuts_do_not_matter(self) -> None:
        stream = b"abc\n\nde\nlonger\nf\nrest"
        for size in range(1, len(stream) + 1):
            expected = [b"abc", b"", b"de", None, b"f"]
            self.assertEqual(self.cut(stream, size, 5), expected, size)

    def test_a_line_may_be_as_long_as_the_limit(self) -> None:
        self.assertEqual(self.cut(b"abcd\nabcde\n", 3, 5), [b"abcd", None])


class Timing(unittest.TestCase):
    def test_both_minima_or_the_maximum_end_a_measurement(self) -> None:
        counter = Counter()

        def count(*limits: int) -> int:
            samples = timing.measure(timing.alone(counter), Measure(*limits), lambda: False)
            self.assertFalse(samples.cancelled or 0 in samples.samples_ns)
            return len(samples.samples_ns)

        self.assertEqual(count(2, 5, 0, 100), 5)
        self.assertEqual(count(0, 5, 2**64 - 1, 7), 7)
        self.assertEqual(count(0, 9, 0, 7), 7)
        self.assertEqual(count(0, 0, 0, 7), 0)
        self.assertEqual(counter.steps, 2 + 5 + 7 + 7)

    def test_a_cancel_is_heard_between_steps(self) -> None:
        looks = iter([False, False, True])
        samples = timing.measure(timing.alone(Counter()), Measure(0, 9, 0, 9), lambda: next(looks))
        self.assertEqual((len(samples.samples_ns), samples.cancelled), (2, True))
        samples = timing.measure(timing.alone(Counter()), Measure(9, 9, 0, 9), lambda: True)
        self.assertEqual((samples.samples_ns, samples.cancelled), ([], True))

    def test_samples_are_the_devices_own_and_limits_the_hosts(self) -> None:
        # Discarded steps are none of the samples; a step of no duration has no logarithm.
        session = OnDevice(lambda step: step - 3)
        samples = timing.measure(timing.alone(session), Measure(2, 3, 0, 100), lambda: False)
        self.assertEqual(samples.samples_ns, [1, 1, 2])
        # By the device's clock ten milliseconds would take ten million of these.
        samples = timing.measure(
            timing.alone(OnDevice(lambda _: 1)), Measure(0, 1, 10_000_000, 1000), lambda: False
        )
        self.assertLessEqual(len(samples.samples_ns), 5)
        self.assertEqual(set(samples.samples_ns), {1})
        # Elsewhere it says nothing.
        untold = timing.alone(OnDevice(lambda _: None))
        samples = timing.measure(untold, Measure(0, 2, 0, 2), lambda: False)
        self.assertGreaterEqual(min(samples.samples_ns), 2_000_000)

    def test_a_warm_up_is_over_by_the_hosts_clock(self) -> None:
        # Never steady, and never as long as a window by the device's clock.
        session = OnDevice(lambda step: 1 << (step % 20))
        done = timing.warm_up(timing.alone(session), WarmUp(2, 40_000_000, 0.0), lambda: False)
        self.assertGreaterEqual(done.total_ns, 40_000_000)
        self.assertLessEqual(done.steps, timing.PATIENCE * 20 + 1)

    def test_the_first_step_of_a_device_is_told_by_the_host(self) -> None:
        engine = Engine(session=OnDevice(lambda _: 1))
        _, loaded = conversation(engine, LOAD)
        self.assertGreaterEqual(loaded["loaded"]["first_step_ns"], 2_000_000)

    def test_steady_is_said_of_samples_and_windows_last_by_the_hosts_clock(self) -> None:
        windows = timing.Windows(0.1, 0)

        def window(sample_ns: int, step_ns: int) -> bool:
            for _ in range(timing.WINDOW_STEPS):
                windows.push(sample_ns, step_ns)
            return windows.steady

        self.assertFalse(window(100, 10_000_000))
        self.assertTrue(window(100, 20_000_000), "launching took longer, and no more")
        self.assertFalse(window(200, 20_000_000))

    def test_a_warm_up_keeps_to_its_limits(self) -> None:
        counter = Counter()
        done = timing.warm_up(timing.alone(counter), WarmUp(12, 0, 0.0), lambda: False)
        self.assertEqual((done.steps, done.steady), (12, False))
        done = timing.warm_up(timing.alone(counter), WarmUp(12, 0, 0.0), lambda: True)
        self.assertEqual((done.steps, counter.steps), (0, 12))

    def test_steady_is_what_the_last_two_windows_agree_on(self) -> None:
        windows = timing.Windows(0.1, 0)

        def window(sample_ns: int) -> bool:
            for _ in range(timing.WINDOW_STEPS):
                windows.push(sample_ns, sample_ns)
            return windows.steady

        slow = 10_000_000
        story = [window(ns) for ns in (slow, slow * 11 // 10, slow * 2, slow * 2, slow)]
        self.assertEqual(story, [False, True, False, True, False])

    def test_a_slow_drift_is_no_steady_step(self) -> None:
        windows = timing.Windows(0.02, 10_000_000_000)
        now_ns, left = 0.0, 1.0
        while now_ns < 1e10 and not windows.steady:
            left = 0.2 * math.exp(-now_ns / 1e9)
            now_ns += 5e6 * (1 + left)
            step_ns = round(5e6 * (1 + left))
            windows.push(step_ns, step_ns)
        self.assertTrue(windows.steady)
        self.assertLess(left, 0.01)
        self.assertGreater(now_ns, timing.LEAST_NS)


class Files(unittest.TestCase):
    def test_tensors_follow_one_another(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "outputs"
            one = Tensor(Quantity.UPDATE, "w", (2, 1), "f32", b"12345678")
            two = Tensor(Quantity.MOVEMENT, "b", (), "f64", b"abcdefgh")
            told = outputs.write(path, ParityData([one, two], [0.25]))
            self.assertEqual(path.read_bytes(), b"12345678abcdefgh")
            self.assertEqual(told["losses"], [0.25])
            with self.assertRaisesRegex(Failure, "File exists"):
                outputs.write(path, ParityData([one]))

    def test_what_cannot_be_right_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "outputs"
            wrong = Tensor(Quantity.OUTPUT, "y", (3,), "f32", b"12345678")
            with self.assertRaisesRegex(Failure, "2 numbers for tensor `y`"):
                outputs.write(path, ParityData([wrong]))
            with self.assertRaises(Failure) as raised:
                outputs.write(path, ParityData([], [1.0, float("nan")]))
            self.assertEqual(raised.exception.kind, Kind.PARITY_FAILED)
            self.assertFalse(path.exists())


class Surroundings(unittest.TestCase):
    def test_only_loopback_is_spoken_to(self) -> None:
        for address, reason in [
            ("tcp:192.0.2.1:80", "only loopback"),
            ("tcp:[2001:db8::1]:80", "only loopback"),
            ("tcp:localhost:80", "not an IP address"),
            ("tcp:127.0.0.1", "not an IP address"),
            ("/run/socket", "neither"),
        ]:
            with self.assertRaisesRegex(NoStream, reason):
                _connect(address)

    def test_memory_that_is_kept_is_not_paid_for_again(self) -> None:
        # In a process of its own: what is asked of the C library lasts.
        given_back, kept = (
            int(subprocess.check_output([sys.executable, "-c", FAULTS, value]))
            for value in ("system", "keep")
        )
        # Pages are of 2 MiB at most. The kernel may take some away of itself.
        self.assertGreaterEqual(given_back, 30)
        self.assertLess(8 * kept, given_back)

    def test_memory_is_in_bytes(self) -> None:
        self.assertEqual(memory.field_bytes("VmHWM:\t  5 kB\nVmRSS:\t 3 kB\n", "VmRSS"), 3072)
        with self.assertRaises(Failure):
            memory.field_bytes("VmRSS:\t many kB\n", "VmRSS")

    def test_the_digest_is_that_of_the_files(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "p").mkdir()
            (root / "p" / "a.py").write_text("x")
            (root / "p" / "a.pyc").write_text("y")
            parts = b"\6" + b"\0" * 7 + b"p/a.py" + b"\1" + b"\0" * 7 + b"x"
            expected = hashlib.sha256(parts).hexdigest()
            self.assertEqual(sources.digest(root, ("p",)), expected)


if __name__ == "__main__":
    unittest.main()
