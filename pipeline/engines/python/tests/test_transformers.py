"""Networks of Transformers against our own lowering of the same graph. Needs Transformers."""

import array
import dataclasses
import tempfile
import tomllib
import unittest
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch

from photofinish_pytorch.inference import Inference
from photofinish_pytorch.maker import Maker
from photofinish_transformers import network
from photofinish_transformers.families import find
from photofinish_transformers.piping import Piped
from photofinish_transformers.training import Loop
from photofinish_worker.engine import ParityData, Quantity
from photofinish_worker.graph import Graph, LayerNormalization
from photofinish_worker.messages import Mode
from photofinish_worker.outcome import Failure, Kind
from tests import architectures
from tests.with_transformers import (
    CELL,
    CPU,
    SGD,
    built,
    expected,
    loaded,
    maker,
    trained,
    understood,
)


def _threads() -> set[str]:
    """Those of this process, by the kernel's numbers."""
    return {task.name for task in Path("/proc/self/task").iterdir()}


def training_in_bf16(graph: Graph) -> dict[str, Any]:
    """What a cell says that trains this network so."""
    return {
        "model": {"name": graph.name, "source": "zoo", "graph": "00"},
        "mode": "training",
        "optimizer": {"sgd": dataclasses.asdict(SGD)},
        "precision": "bf16",
    }


class Agreement(unittest.TestCase):
    def same(self, told: ParityData, wanted: ParityData, name: str) -> None:
        self.assertEqual(
            [(one.quantity, one.name, one.shape) for one in told.tensors],
            [(one.quantity, one.name, one.shape) for one in wanted.tensors],
        )
        for one, other in zip(told.tensors, wanted.tensors, strict=True):
            ours, theirs = (
                torch.tensor(array.array("d", tensor.data), dtype=torch.float64)
                for tensor in (one, other)
            )
            what = f"{name}: {one.quantity} of {one.name}"
            said = partial("{}: {}".format, what)
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11, msg=said)
            if one.quantity is Quantity.OUTPUT:
                self.assertGreater(float(theirs.std()), 1e-3, what)
        torch.testing.assert_close(list(told.losses), list(wanted.losses), rtol=1e-9, atol=1e-11)

    def test_outputs_are_those_of_the_graph(self) -> None:
        for name, make in architectures.ALL.items():
            graph = make(Mode.INFERENCE)
            wanted = expected(graph, Mode.INFERENCE)
            for attention in ("fused", "plain"):
                if (name, attention) == ("vit_b16", "plain"):
                    continue
                model = built(graph, Mode.INFERENCE, attention=attention)
                told = Inference(graph, model, model, maker(), CPU).parity(0)
                self.same(told, wanted, f"{name}, {attention}")
                told = Piped(graph, model, maker()).parity(0)
                self.same(told, wanted, f"{name}, {attention}, in a pipeline")

    def test_a_graph_with_a_head_is_run_with_it_in_inference_too(self) -> None:
        graph = architectures.bert(Mode.TRAINING)
        model = built(graph, Mode.INFERENCE)
        told = Inference(graph, model, model, maker(), CPU).parity(0)
        self.same(told, expected(graph, Mode.INFERENCE), "bert with a head")

    def test_training_is_that_of_the_graph(self) -> None:
        for name, make in architectures.ALL.items():
            graph = make(Mode.TRAINING)
            wanted = expected(graph, Mode.TRAINING)
            self.assertGreater(wanted.losses[0], 0.1)
            self.same(trained(graph).parity(3), wanted, name)
            self.same(trained(graph, by_trainer=True).parity(3), wanted, f"{name} by a Trainer")

    def test_checkpoints_and_parts_of_a_batch_change_no_gradient(self) -> None:
        for name, make in architectures.ALL.items():
            graph = make(Mode.TRAINING)
            wanted = expected(graph, Mode.TRAINING)
            for checkpointing, parts in (("on", "1"), ("off", "2"), ("on", "4")):
                factors = {"gradient_checkpointing": checkpointing, "gradient_accumulation": parts}
                for by_trainer in (False, True):
                    told = trained(graph, by_trainer, **factors).parity(3)
                    self.same(told, wanted, f"{name}, {factors}, by a Trainer: {by_trainer}")


class MixedPrecision(unittest.TestCase):
    def test_weights_and_gradients_are_wide_and_products_narrow(self) -> None:
        for name, make in architectures.ALL.items():
            with self.subTest(name):
                self.mixes(make(Mode.TRAINING))

    def mixes(self, graph: Graph) -> None:
        maker = Maker(CPU.device, torch.float32, False)
        cell = training_in_bf16(graph)
        losses = {}
        for mixed in ("on", "off"):
            configuration = understood(**cell, factors={"mixed_precision": mixed})
            self.assertEqual(configuration.element == torch.float32, mixed == "on")
            if mixed == "off":
                configuration = dataclasses.replace(configuration, element=torch.float32)
            model = network.build(graph, configuration, maker, CPU.device)
            session = Loop(graph, SGD, model, 1, maker, CPU)
            losses[mixed] = session.parity(1).losses[0]
            session.step()
            for weight in model.held.values():
                self.assertIn(weight.dtype, (torch.float32, torch.int64))
        self.assertNotEqual(losses["on"], losses["off"])
        self.assertAlmostEqual(losses["on"], losses["off"], delta=0.02 * losses["off"])

    def test_a_trainer_mixes_as_a_loop_of_one_s_own(self) -> None:
        for name, make in architectures.ALL.items():
            with self.subTest(name):
                self.mixes_by_a_trainer(make(Mode.TRAINING))

    def mixes_by_a_trainer(self, graph: Graph) -> None:
        told: dict[str, list[ParityData]] = {}
        for engine in ("transformers/model", "transformers/trainer"):
            cell = {
                **CELL,
                **training_in_bf16(graph),
                "engine": engine,
                "factors": {"mixed_precision": "on"},
            }
            session, report = loaded(graph, cell, tempfile.gettempdir())
            self.assertEqual(
                report.settings["mixed precision"],
                "weights in float32, operators under autocast in bfloat16",
            )
            self.assertEqual(report.settings["element type"], "float32")
            self.assertIn("bfloat16", report.settings["arithmetic"])
            # The second is by another Trainer, of the same model.
            told[engine] = [session.parity(2)]
            session.reset()
            told[engine].append(session.parity(2))
        loop, trainer = told.values()
        self.assertEqual(trainer, loop)


class Steps(unittest.TestCase):
    def test_a_checkpointed_layer_is_computed_again(self) -> None:
        graph = architectures.bert(Mode.TRAINING)
        counts = {}
        for checkpointing in ("off", "on"):
            session = trained(graph, gradient_checkpointing=checkpointing)
            calls: list[None] = []
            layer = session._network.model.bert.encoder.layer[0].intermediate
            layer.register_forward_hook(lambda *_, calls=calls: calls.append(None))
            session.step()
            counts[checkpointing] = len(calls)
        self.assertEqual(counts, {"off": 1, "on": 2})

    def test_dropout_drops_in_steps_alone_and_a_reset_brings_back_the_beginning(self) -> None:
        for by_trainer in (False, True):
            self.drops_and_resets(trained(architectures.gpt2(Mode.TRAINING), by_trainer))

    def drops_and_resets(self, session: Loop) -> None:
        held = session._network.held
        session.step()
        stepped = {name: tensor.detach().clone() for name, tensor in held.items()}
        first = session.parity(3)
        session.step()
        for name, tensor in held.items():
            self.assertTrue(torch.equal(stepped[name], tensor.detach()), name)
        session.reset()
        session._iterate(False)
        self.assertFalse(torch.equal(stepped["wte.weight"], held["wte.weight"]))
        self.assertEqual(session.parity(3), first)

    def test_a_trainer_computes_on_the_threads_that_made_its_weights(self) -> None:
        graph = architectures.bert(Mode.TRAINING)
        trained(graph).step()
        before = _threads()
        session = trained(graph, by_trainer=True)
        session.step()
        self.assertEqual(_threads(), before)

    def test_what_a_trainer_meets_is_told_to_who_asked_for_the_step(self) -> None:
        session = trained(architectures.bert(Mode.TRAINING), by_trainer=True)
        session.step()
        model: Any = session._network.model

        def refuse(*_: Any) -> None:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried …")

        hook = model.classifier.register_forward_pre_hook(refuse)
        for _ in range(2):
            # A second request does not go on with a loop that has ended.
            with self.assertRaises(Failure) as raised:
                session.step()
            self.assertEqual(raised.exception.kind, Kind.OUT_OF_MEMORY)
        hook.remove()
        session.reset()
        session.step()


class Names(unittest.TestCase):
    def test_gpt2_shares_its_table_of_tokens_with_its_output_and_keeps_the_order_of_products(
        self,
    ) -> None:
        graph = architectures.gpt2(Mode.INFERENCE)
        made = built(graph, Mode.INFERENCE)
        model: Any = made.model
        self.assertIs(model.lm_head.weight, model.transformer.wte.weight)
        inner = model.transformer.h[0].mlp.c_fc.weight
        self.assertIs(made.held["h.0.mlp.c_fc.weight"], inner)
        self.assertEqual(tuple(inner.shape), (architectures.HIDDEN, architectures.INNER))

    def test_every_parameter_has_a_place_and_every_place_a_parameter(self) -> None:
        graph = architectures.bert(Mode.TRAINING)
        *rest, last = graph.parameters
        changes: list[tuple[Graph, str]] = [
            (
                dataclasses.replace(graph, parameters=tuple(rest)),
                "no numbers for 1 parameters: classifier.bias",
            ),
            (
                dataclasses.replace(
                    graph,
                    parameters=(*graph.parameters, dataclasses.replace(last, name="pooler.more")),
                ),
                "no parameter `bert.pooler.more` for the graph's pooler.more",
            ),
            (
                dataclasses.replace(
                    graph, parameters=(*rest, dataclasses.replace(last, shape=(5,)))
                ),
                r"classifier.bias is \[5\] in the graph, \[3\] in Transformers",
            ),
            (dataclasses.replace(graph, parameters=()), "it has no parameter `embeddings.word"),
        ]
        for changed, reason in changes:
            with self.assertRaisesRegex(Failure, reason) as raised:
                built(changed, Mode.TRAINING)
            self.assertEqual(raised.exception.kind, Kind.UNSUPPORTED)


class Cells(unittest.TestCase):
    training: ClassVar[dict[str, Any]] = {
        "mode": "training",
        "optimizer": {"sgd": {"learning_rate": 0.1, "momentum": 0.0, "weight_decay": 0.0}},
    }

    def test_a_cell_is_understood(self) -> None:
        factors = {"attention": "plain", "gradient_accumulation": "2"}
        configuration = understood(**self.training, factors=factors)
        self.assertEqual(configuration.attention, "eager")
        self.assertEqual(configuration.accumulation, 2)
        self.assertFalse(configuration.checkpointing)
        self.assertEqual(understood().attention, "sdpa")
        self.assertIsNone(understood().autotune)
        for engine, more in [("model", {}), ("trainer", self.training)]:
            cell = {"engine": f"transformers/{engine}", "device": "cuda:0", **more}
            self.assertIs(understood(**cell).autotune, False)
            self.assertIs(understood(**cell, factors={"autotune": "on"}).autotune, True)
        for precision in ("fp64", "fp32", "bf16", "fp16"):
            piped = understood(engine="transformers/pipeline", precision=precision)
            self.assertEqual((piped.variant, piped.mode), ("pipeline", Mode.INFERENCE))
        exported = understood(engine="transformers/onnxruntime", precision="fp32")
        self.assertEqual((exported.variant, exported.attention), ("onnxruntime", "eager"))

    def test_what_it_cannot_do_is_unsupported(self) -> None:
        mine = {"name": "mine.onnx", "source": "onnx", "graph": "00"}
        refused: list[tuple[dict[str, Any], str]] = [
            ({"engine": "transformers/keras"}, "runs transformers/model"),
            ({"engine": "transformers/trainer"}, "for inference there is transformers/model"),
            (
                {"engine": "transformers/pipeline", **self.training},
                "does not train; for training there is transformers/model",
            ),
            (
                {"engine": "transformers/pipeline", "device": "cuda:0"},
                "copies its outputs to the host's memory",
            ),
            (
                {
                    "engine": "transformers/pipeline",
                    "precision": "bf16",
                    "factors": {"mixed_precision": "on"},
                },
                "factor `mixed_precision` is not known to transformers/pipeline; known:",
            ),
            (
                {"engine": "transformers/onnxruntime", **self.training},
                "does not train; for training there is transformers/model",
            ),
            (
                {"engine": "transformers/onnxruntime", "device": "cuda:0"},
                "its library is the one for CPUs",
            ),
            ({"engine": "transformers/onnxruntime"}, "not all that these networks need, for fp64"),
            ({"engine": "transformers/onnxruntime", "precision": "bf16"}, "no kernels"),
            (
                {
                    "engine": "transformers/onnxruntime",
                    "precision": "fp32",
                    "factors": {"attention": "fused"},
                },
                "attention is `fused`; known: `plain`",
            ),
            ({"boundary": "device"}, "is between events of a GPU; the device is cpu"),
            (
                {
                    "engine": "transformers/trainer",
                    **self.training,
                    "device": "cuda:0",
                    "boundary": "device",
                },
                "boundary `device` is not implemented; known: `step`",
            ),
            ({"model": mine}, "mine.onnx is a file"),
            ({"factors": {"attention": "flash"}}, "attention is `flash`"),
            ({"factors": {"layout": "nchw"}}, "factor `layout` is not known"),
            ({"factors": {"autotune": "on"}}, "`autotune` is about .* the device is cpu"),
            ({"factors": {"gradient_checkpointing": "on"}}, "are about training"),
            ({"factors": {"mixed_precision": "on"}}, "ask for precision bf16"),
            (
                {
                    **self.training,
                    "dims": {"batch": 3, "seq": 4},
                    "factors": {"gradient_accumulation": "2"},
                },
                "a batch of 3 cannot be split into 2",
            ),
        ]
        for changes, reason in refused:
            with self.assertRaisesRegex(Failure, reason) as raised:
                understood(**changes)
            self.assertEqual(raised.exception.kind, Kind.UNSUPPORTED)

    def test_an_epsilon_that_a_class_does_not_take_is_unsupported(self) -> None:
        graph = architectures.distilbert(Mode.INFERENCE)
        norm = LayerNormalization(1e-5)
        nodes = tuple(
            dataclasses.replace(node, op=norm) if isinstance(node.op, type(norm)) else node
            for node in graph.nodes
        )
        with self.assertRaisesRegex(Failure, "adds 1e-12 to variances, and the graph 1e-05"):
            built(dataclasses.replace(graph, nodes=nodes), Mode.INFERENCE)

    def test_other_networks_and_arithmetic_that_is_not_the_cell_s_are_unsupported(self) -> None:
        graph = dataclasses.replace(architectures.vit(Mode.INFERENCE), name="resnet18")
        with self.assertRaisesRegex(Failure, "no class for resnet18; it runs bert_base"):
            built(graph, Mode.INFERENCE)
        with self.assertRaisesRegex(Failure, "softmax in binary32") as raised:
            built(architectures.vit(Mode.INFERENCE), Mode.INFERENCE, attention="plain")
        self.assertEqual(raised.exception.kind, Kind.UNSUPPORTED)

    def test_the_networks_that_a_plan_lets_through_are_those_with_a_class(self) -> None:
        file = Path(__file__).parents[1] / "transformers" / "engine.toml"
        with self.assertRaises(Failure) as raised:
            find("resnet18")
        known = raised.exception.reason.split("it runs ")[1].split(", ")
        for variant in tomllib.loads(file.read_text())["variants"]:
            self.assertEqual(variant["networks"], known, variant["name"])


if __name__ == "__main__":
    unittest.main()
