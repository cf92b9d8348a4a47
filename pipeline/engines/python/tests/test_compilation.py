"""PyTorch's compiler: where its kernels are kept, and what it is given. Needs PyTorch."""

import array
import json
import os
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch._inductor.config
from torch.nn import functional

from photofinish_pytorch import aot, compilation, export
from photofinish_pytorch.configuration import understand_packaged
from photofinish_pytorch.engine import Torch
from photofinish_pytorch.lower import Lowered
from photofinish_pytorch.maker import Maker
from photofinish_worker.decode import decode
from photofinish_worker.engine import ParityData
from photofinish_worker.graph import Graph
from photofinish_worker.messages import Cell, HostLanguage, Load, Mode, Precision, Sgd
from photofinish_worker.outcome import Failure, Kind
from tests.sketch import CELL, NETWORK, graph, node, value, weight
from tests.with_pytorch import CPU, lowered


class Kernels(unittest.TestCase):
    def test_what_a_compiler_made_is_for_no_other(self) -> None:
        def shelf(**environment: str) -> Path:
            return compilation.shelf(environment, "/scratch")

        one = shelf(PHOTOFINISH_CACHE="/kept", PHOTOFINISH_CXX="one")
        self.assertEqual(one, Path("/kept/compiled/one"))
        self.assertNotEqual(one, shelf(PHOTOFINISH_CACHE="/kept", PHOTOFINISH_CXX="other"))
        # Who does not know the compiler keeps nothing, and neither does who has no place for it.
        self.assertEqual(shelf(PHOTOFINISH_CACHE="/kept"), Path("/scratch/compiled"))
        self.assertEqual(shelf(PHOTOFINISH_CXX="one"), Path("/scratch/compiled/one"))


class Compiled(unittest.TestCase):
    """What `torch.compile` makes of a network computes and trains as the network does."""

    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = scratch.name
        kept = mock.patch.dict(os.environ, {"TORCHINDUCTOR_CACHE_DIR": scratch.name})
        # Whether a kind of vectors works is tried by processes of their own, for a minute.
        config = torch._inductor.config.patch({"cpp.vec_isa_ok": False, "cpp.threads": 1})
        for patched in (kept, config, mock.patch("torch.set_num_interop_threads")):
            self.enterContext(patched)

    def told(
        self, variant: str, optimizer: Sgd | None, network: Graph = NETWORK
    ) -> tuple[ParityData, dict[str, str]]:
        cell = decode(Cell, {**CELL, "engine": f"pytorch/{variant}", "factors": {}}, "cell")
        assert isinstance(cell, Cell)
        mode = Mode.INFERENCE if optimizer is None else Mode.TRAINING
        cell = replace(cell, precision=Precision.FP64, mode=mode, optimizer=optimizer)
        session, report = Torch().load(Load(cell, network, None, self.scratch))
        session.step()
        return session.parity(3), dict(report.settings)

    def test_outputs_and_updates_are_those_of_eager(self) -> None:
        for optimizer in (None, Sgd(0.1, 0.9, 0.01)):
            settings = self.compare(NETWORK, optimizer)
            self.assertEqual(settings["kernels"], "made by this launch")

    def test_attention_is_fused_but_where_it_trains_in_binary64(self) -> None:
        network = graph(
            [value("x", [1, 3, 4])],
            [weight("w", [4, 4]), weight("v", [2, 12])],
            [
                node("Linear", ["x", "w"], "q"),
                node({"Attention": {"heads": 2, "causal": True}}, ["q", "x", "x"], "a"),
                node({"Flatten": {"axis": 1}}, ["a"], "b"),
                node("Linear", ["b", "v"], "y"),
            ],
            [1],
        )
        self.assertNotIn("attention", self.compare(network, None))
        settings = self.compare(network, Sgd(0.1, 0.9, 0.01))
        self.assertEqual(settings["attention"], "as products, since it trains in fp64")

    def compare(self, network: Graph, optimizer: Sgd | None) -> dict[str, str]:
        """Holds what is compiled against the same network as it is; what the former told."""
        eager, _ = self.told("python-eager", optimizer, network)
        compiled, settings = self.told("compiled", optimizer, network)
        self.assertEqual(len(compiled.losses), 0 if optimizer is None else 3)
        torch.testing.assert_close(compiled.losses, eager.losses, rtol=1e-12, atol=0)
        for one, other in zip(compiled.tensors, eager.tensors, strict=True):
            self.assertEqual((one.quantity, one.name), (other.quantity, other.name))
            found, expected = (
                torch.tensor(array.array("d", it.data), dtype=torch.float64) for it in (one, other)
            )
            torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-13)
            self.assertEqual(bool(found.any()), one.name != "unused")
        return settings


class Packages(unittest.TestCase):
    """What AOTInductor is given to compile, and who asks for it. Compiling takes longer: the tests
    of the worker that runs packages do it."""

    def joint(self, dropout: bool) -> tuple[export.Exported, list[torch.Tensor], Lowered]:
        ready = lowered(NETWORK, Mode.TRAINING)
        maker = Maker(CPU.device, torch.float64, False)
        assert NETWORK.loss is not None
        inputs = tuple(maker.input(fed) for fed in NETWORK.inputs)
        labels = maker.input(NETWORK.loss.labels)
        exported = export.training(ready, inputs, labels, dropout)
        held = [ready.held[name].detach().clone() for name in exported.fed]
        return exported, [*held, *inputs, labels], ready

    def test_a_joint_graph_is_fed_everything_and_gives_what_autograd_gives(self) -> None:
        exported, fed, ready = self.joint(False)
        self.assertEqual(list(exported.fed), ["scale", "bias", "mean", "variance", "w"])
        self.assertEqual(list(exported.gradients), ["scale", "bias", "w"])
        self.assertFalse(exported.program.state_dict or exported.program.constants)
        made: Any = exported.program.graph_module(*fed)
        *moved, loss, scale, bias, w = made
        inputs, labels = fed[-2], fed[-1]
        before = {name: tensor.detach().clone() for name, tensor in ready.held.items()}
        expected = functional.cross_entropy(ready.module(inputs, False)[0], labels)
        weights = [ready.held[name] for name in exported.gradients]
        torch.testing.assert_close(loss, expected.detach())
        for made_here, gradient in zip(
            (scale, bias, w), torch.autograd.grad(expected, weights), strict=True
        ):
            torch.testing.assert_close(made_here, gradient)
        for statistic, name in zip(moved, ("mean", "variance"), strict=True):
            torch.testing.assert_close(statistic, ready.held[name])
            self.assertFalse(torch.equal(statistic, before[name]))

    def test_dropout_is_compiled_in_or_left_out(self) -> None:
        def draws(dropout: bool) -> bool:
            nodes = self.joint(dropout)[0].program.graph.nodes
            return any(it.target is torch.ops.aten.native_dropout.default for it in nodes)

        self.assertTrue(draws(True))
        self.assertFalse(draws(False))

    def test_constants_of_inference_are_known_by_the_names_of_the_graph(self) -> None:
        ready = lowered(NETWORK, Mode.INFERENCE)
        maker = Maker(CPU.device, torch.float64, False)
        inputs = tuple(maker.input(fed) for fed in NETWORK.inputs)
        exported = export.inference(ready, inputs)
        self.assertEqual(set(exported.constants), set(exported.program.state_dict))
        for name, tensor in exported.program.state_dict.items():
            self.assertTrue(torch.equal(tensor, ready.held[exported.constants[name]]), name)
        self.assertEqual(set(exported.constants.values()), set(ready.held))

    def test_whoever_asks_gets_an_answer(self) -> None:
        def answer(line: bytes, error: Exception | None = None) -> Any:
            def serve(asked: aot.Compile) -> None:
                self.assertEqual((asked.package, asked.key), ("/p.pt2", "k"))
                if error is not None:
                    raise error

            return aot._answer(line, serve)

        load = {"cell": {**CELL, "engine": "pytorch/aot", "factors": {}}, "scratch": "/tmp"}
        load["graph"] = {"name": "g", "inputs": [], "parameters": [], "nodes": [], "outputs": []}
        fields = {"request": {"load": load}, "package": "/p.pt2", "dropout": True, "key": "k"}
        asked = json.dumps({"compile": fields}).encode()
        self.assertEqual(answer(asked), "compiled")
        for error, kind in [
            (Failure(Kind.UNAVAILABLE, "no compiler"), "unavailable"),
            (MemoryError(), "out_of_memory"),
            (ZeroDivisionError("by zero"), "crashed"),
        ]:
            failed = answer(asked, error)["failed"]
            self.assertEqual(failed["kind"], kind)
            self.assertTrue(failed["reason"])
        for line in (b"", b"{", b'"compile"', b'{"compile": {}}', b'{"load": {}}'):
            self.assertIn("not a request to compile", answer(line)["failed"]["reason"])

    def test_a_cell_of_a_package_is_understood_whatever_language_drives_it(self) -> None:
        cell = decode(Cell, {**CELL, "engine": "pytorch/aot", "factors": {}}, "cell")
        assert isinstance(cell, Cell)
        driven = replace(cell, host_language=HostLanguage.RUST)
        self.assertEqual(understand_packaged(driven).element, torch.float32)
        with self.assertRaisesRegex(Failure, "runs pytorch/aot, not pytorch/compiled"):
            understand_packaged(replace(driven, engine="pytorch/compiled"))
        with self.assertRaisesRegex(Failure, "compile_mode"):
            understand_packaged(replace(driven, factors={"compile_mode": "default"}))


if __name__ == "__main__":
    unittest.main()
