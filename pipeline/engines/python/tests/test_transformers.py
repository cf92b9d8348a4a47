"""Networks of Transformers against our own lowering of the same graph. Needs Transformers."""

import array
import dataclasses
import subprocess
import sys
import tempfile
import unittest
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import onnxruntime
import torch

from photofinish_pytorch.device import find
from photofinish_pytorch.inference import Inference
from photofinish_pytorch.lower import lower
from photofinish_pytorch.maker import Maker
from photofinish_pytorch.training import Training
from photofinish_transformers import network
from photofinish_transformers.configuration import Configuration, understand
from photofinish_transformers.engine import Transformers
from photofinish_transformers.exported import Exported
from photofinish_transformers.network import Network
from photofinish_transformers.piping import Piped
from photofinish_transformers.trainer import Trained
from photofinish_transformers.training import Loop
from photofinish_worker.decode import decode
from photofinish_worker.engine import LoadReport, ParityData, Quantity, Session
from photofinish_worker.graph import Expand, Graph, LayerNormalization
from photofinish_worker.messages import Cell, Load, Mode, Sgd
from photofinish_worker.outcome import Failure, Kind
from tests import architectures

CPU = find("cpu")
SGD = Sgd(0.1, 0.9, 0.0)

CELL: dict[str, Any] = {
    "model": {"name": "bert_tiny", "source": "zoo", "graph": "00"},
    "dims": {"batch": 4, "seq": 3},
    "precision": "fp64",
    "mode": "inference",
    "optimizer": None,
    "engine": "transformers/model",
    "host_language": "python",
    "device": "cpu",
    "threads": 1,
    "strategy": "single",
    "world_size": 1,
    "boundary": "step",
    "factors": {},
}


def setUpModule() -> None:
    # Networks this small only wait for further threads, and a Trainer's has threads of its own.
    torch.set_num_threads(1)


def understood(**changes: Any) -> Configuration:
    cell = decode(Cell, {**CELL, **changes}, "cell")
    assert isinstance(cell, Cell)
    return understand(cell)


def configured(name: str, mode: Mode, **factors: str) -> Configuration:
    sgd = {"sgd": dataclasses.asdict(SGD)} if mode is Mode.TRAINING else None
    model = {"name": name, "source": "zoo", "graph": "00"}
    return understood(model=model, mode=mode.value, optimizer=sgd, factors=factors)


def maker() -> Maker:
    return Maker(CPU.device, torch.float64, False)


def built(graph: Graph, mode: Mode, **factors: str) -> Network:
    configuration = configured(graph.name, mode, **factors)
    return network.build(graph, configuration, maker(), CPU.device)


def trained(graph: Graph, by_trainer: bool = False, **factors: str) -> Loop:
    model = built(graph, Mode.TRAINING, **factors)
    parts = int(factors.get("gradient_accumulation", "1"))
    if by_trainer:
        return Trained(graph, SGD, model, parts, maker(), CPU, tempfile.gettempdir(), mixed=False)
    return Loop(graph, SGD, model, parts, maker(), CPU)


def sized(graph: Graph, batch: int) -> Graph:
    """The same network for another batch."""
    inputs = tuple(dataclasses.replace(fed, shape=(batch, *fed.shape[1:])) for fed in graph.inputs)
    nodes = tuple(
        dataclasses.replace(node, op=Expand((batch, *node.op.shape[1:])))
        if isinstance(node.op, Expand)
        else node
        for node in graph.nodes
    )
    return dataclasses.replace(graph, inputs=inputs, nodes=nodes)


def loaded(graph: Graph, cell: dict[str, Any], scratch: str = "/") -> tuple[Session, LoadReport]:
    """What the worker makes of a cell."""
    read = decode(Cell, cell, "cell")
    assert isinstance(read, Cell)
    # The threads between operators are set once a process.
    with mock.patch("torch.set_num_interop_threads"):
        return Transformers().load(Load(read, graph, None, scratch))


def expected(graph: Graph, mode: Mode) -> ParityData:
    """What PyTorch computes without Transformers."""
    tensors = {held.name: maker().parameter(held) for held in graph.parameters}
    ready = lower(graph, mode, tensors)
    if mode is Mode.INFERENCE:
        return Inference(graph, ready, ready.module, maker(), CPU).parity(0)
    return Training(graph, SGD, ready, ready.module, maker(), CPU).parity(3)


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
        for name in ("bert_tiny", "gpt2"):
            graph = architectures.ALL[name](Mode.TRAINING)
            wanted = expected(graph, Mode.TRAINING)
            for checkpointing, parts in (("on", "1"), ("off", "2"), ("on", "4")):
                factors = {"gradient_checkpointing": checkpointing, "gradient_accumulation": parts}
                for by_trainer in (False, True):
                    told = trained(graph, by_trainer, **factors).parity(3)
                    self.same(told, wanted, f"{name}, {factors}, by a Trainer: {by_trainer}")


class Pipelines(unittest.TestCase):
    def test_rows_are_called_with_one_by_one_and_run_as_a_batch(self) -> None:
        for name, make in architectures.ALL.items():
            for rows in (1, 3):
                graph = sized(make(Mode.INFERENCE), rows)
                model = built(graph, Mode.INFERENCE)
                session = Piped(graph, model, maker())
                seen: list[tuple[int, bool]] = []

                def look(_: Any, __: Any, fed: dict[str, torch.Tensor], seen: Any = seen) -> None:
                    (first, *_) = fed.values()
                    seen.append((first.shape[0], torch.is_inference_mode_enabled()))

                hook = model.model.register_forward_pre_hook(look, with_kwargs=True)
                session.step()
                hook.remove()
                # All at once, and gradients are off as a pipeline turns them off.
                self.assertEqual(seen, [(rows, False)], name)
                outputs = session._run()
                self.assertEqual(len(outputs), rows)
                wanted = Inference(graph, model, model, maker(), CPU)._run()
                for position, whole in enumerate(wanted):
                    self.assertFalse(outputs[0][position].requires_grad)
                    for row, one in enumerate(outputs):
                        torch.testing.assert_close(one[position], whole[row : row + 1])

    def test_a_step_is_one_call_of_the_pipeline(self) -> None:
        graph = sized(architectures.bert(Mode.INFERENCE), 3)
        session = Piped(graph, built(graph, Mode.INFERENCE), maker())
        calls = session._pipe.call_count
        session.step()
        self.assertEqual(session._pipe.call_count, calls + 1)

    def test_a_page_says_what_a_step_is(self) -> None:
        for rows, words in ((1, "one encoding"), (3, "a list of 3 encodings")):
            graph = sized(architectures.bert(Mode.INFERENCE), rows)
            cell = {**CELL, "engine": "transformers/pipeline", "dims": {"batch": rows, "seq": 3}}
            session, report = loaded(graph, cell)
            session.step()
            self.assertIn(words, report.settings["pipeline"])
            self.assertIn("torch.no_grad", report.settings["gradients"])
            self.assertIn("encoded", report.settings["preprocess, postprocess"])
            self.assertEqual(report.threads, 1)

    def test_what_a_model_throws_in_a_pipeline_is_the_outcome_of_the_cell(self) -> None:
        graph = architectures.bert(Mode.INFERENCE)
        model = built(graph, Mode.INFERENCE)
        session = Piped(graph, model, maker())

        def refuse(*_: Any) -> None:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried …")

        model.model.register_forward_pre_hook(refuse)
        with self.assertRaises(Failure) as raised:
            session.step()
        self.assertEqual(raised.exception.kind, Kind.OUT_OF_MEMORY)


class Exports(unittest.TestCase):
    cell: ClassVar[dict[str, Any]] = {
        **CELL,
        "engine": "transformers/onnxruntime",
        "precision": "fp32",
    }

    def loaded(self, graph: Graph, **changes: Any) -> tuple[Session, LoadReport]:
        """A session, of which no file is left."""
        model = {"name": graph.name, "source": "zoo", "graph": "00"}
        with tempfile.TemporaryDirectory() as scratch:
            try:
                return loaded(graph, {**self.cell, "model": model, **changes}, scratch)
            finally:
                self.assertEqual(list(Path(scratch).iterdir()), [])

    def near(self, told: ParityData, graph: Graph, tolerance: float) -> None:
        wanted = expected(graph, Mode.INFERENCE)
        self.assertEqual(
            [(one.quantity, one.name, one.shape) for one in told.tensors],
            [(one.quantity, one.name, one.shape) for one in wanted.tensors],
        )
        for one, other in zip(told.tensors, wanted.tensors, strict=True):
            self.assertEqual(one.element, "f32")
            ours = torch.tensor(array.array("f", one.data), dtype=torch.float64)
            theirs = torch.tensor(array.array("d", other.data), dtype=torch.float64)
            off = float((ours - theirs).norm() / theirs.norm())
            self.assertLess(off, tolerance, f"{graph.name}: {one.name}")

    def test_outputs_are_those_of_the_graph_and_no_file_is_left(self) -> None:
        for make in architectures.ALL.values():
            for rows in (1, 3):
                graph = sized(make(Mode.INFERENCE), rows)
                session, _ = self.loaded(graph)
                session.step()
                session.reset()
                self.near(session.parity(0), graph, 1e-6)

    def test_fp16_and_heads_are_exported_too(self) -> None:
        graph = architectures.bert(Mode.TRAINING)
        session, report = self.loaded(graph, precision="fp16")
        self.near(session.parity(0), graph, 5e-3)
        self.assertEqual(report.settings["arithmetic"], "stored as fp16, computed in fp32")

    def test_weights_that_no_file_can_hold_are_written_beside_it(self) -> None:
        graph = architectures.gpt2(Mode.INFERENCE)
        listed: list[list[str]] = []
        make = onnxruntime.InferenceSession

        def look(file: Path, *rest: Any, **named: Any) -> Any:
            listed.append(sorted(one.name for one in file.parent.iterdir()))
            return make(file, *rest, **named)

        limit = "torch.onnx._internal.exporter._onnx_program._LARGE_MODEL_THRESHOLD"
        with mock.patch("onnxruntime.InferenceSession", look):
            self.loaded(graph)
            with mock.patch(limit, 0):
                session, _ = self.loaded(graph)
        self.assertEqual(listed, [["model.onnx"], ["model.onnx", "model.onnx.data"]])
        self.near(session.parity(0), graph, 1e-6)

    def test_the_model_s_weights_are_gone_when_there_is_a_session(self) -> None:
        models: list[Network] = []

        def build(*told: Any) -> Network:
            models.append(make(*told))
            return models[-1]

        make = network.build
        with mock.patch("photofinish_transformers.network.build", build):
            session, _ = self.loaded(architectures.gpt2(Mode.INFERENCE))
        (model,) = models
        self.assertEqual({weight.numel() for weight in model.model.parameters()}, {0})
        session.step()

    def test_a_session_is_set_to_what_the_cell_and_its_page_say(self) -> None:
        for threads in (1, 2):
            session, report = self.loaded(architectures.bert(Mode.INFERENCE), threads=threads)
            assert isinstance(session, Exported)
            options = session._session.get_session_options()
            self.assertEqual(options.intra_op_num_threads, threads)
            self.assertEqual(options.inter_op_num_threads, 1)
            self.assertEqual(
                options.graph_optimization_level,
                onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
            )
            self.assertEqual(options.execution_mode, onnxruntime.ExecutionMode.ORT_SEQUENTIAL)
            self.assertEqual(session._session.get_providers(), ["CPUExecutionProvider"])
            self.assertEqual(report.settings["intra-op threads"], str(threads))
            self.assertEqual(report.settings["attn_implementation"], "eager")
            self.assertIn("dynamo=True", report.settings["exporter"])
            self.assertEqual(report.settings["opset"], "20")
            self.assertIsNone(report.threads)
            self.assertGreater(report.compile_ns, report.build_ns)
        torch.set_num_threads(1)

    def test_what_onnx_runtime_throws_is_the_outcome_of_the_cell(self) -> None:
        graph = architectures.bert(Mode.INFERENCE)
        for words, kind in (
            ("[ONNXRuntimeError] : 6 : std::bad_alloc", Kind.OUT_OF_MEMORY),
            ("[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Erf(13)", Kind.UNSUPPORTED),
            ("[ONNXRuntimeError] : 1 : FAIL", Kind.CRASHED),
        ):
            refuse = mock.Mock(side_effect=onnxruntime.capi.onnxruntime_pybind11_state.Fail(words))
            with (
                mock.patch("onnxruntime.InferenceSession", refuse),
                self.assertRaises(Failure) as raised,
            ):
                self.loaded(graph)
            self.assertEqual(raised.exception.kind, kind)
            self.assertEqual(raised.exception.reason, f"session: {words}")
        session, _ = self.loaded(graph)
        assert isinstance(session, Exported)
        session._binding.clear_binding_inputs()
        with self.assertRaisesRegex(Failure, "^step: ") as raised:
            session.step()
        self.assertEqual(raised.exception.kind, Kind.CRASHED)

    def test_other_variants_do_not_wait_for_onnx_runtime(self) -> None:
        code = (
            "import sys\n"
            "from photofinish_transformers.engine import Transformers\n"
            "print(Transformers().hello().versions['onnxruntime'])\n"
            "print([name for name in sys.modules if name.startswith('onnx')])\n"
        )
        told = subprocess.run(
            [sys.executable, "-X", f"pycache_prefix={sys.pycache_prefix}", "-c", code],
            capture_output=True,
            check=True,
            text=True,
        )
        self.assertEqual(told.stdout.splitlines(), [onnxruntime.__version__, "[]"])


class MixedPrecision(unittest.TestCase):
    def test_weights_and_gradients_are_wide_and_products_narrow(self) -> None:
        graph = architectures.bert(Mode.TRAINING)
        maker = Maker(CPU.device, torch.float32, False)
        cell: dict[str, Any] = {
            "mode": "training",
            "optimizer": {"sgd": dataclasses.asdict(SGD)},
            "precision": "bf16",
        }
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
            weight = model.held["encoder.layer.0.intermediate.dense.weight"]
            self.assertEqual(weight.dtype, torch.float32)
        self.assertNotEqual(losses["on"], losses["off"])
        self.assertAlmostEqual(losses["on"], losses["off"], delta=0.02 * losses["off"])

    def test_a_trainer_mixes_as_a_loop_of_one_s_own(self) -> None:
        graph = architectures.bert(Mode.TRAINING)
        told: dict[str, list[ParityData]] = {}
        for engine in ("transformers/model", "transformers/trainer"):
            cell = {
                **CELL,
                "engine": engine,
                "mode": "training",
                "optimizer": {"sgd": dataclasses.asdict(SGD)},
                "precision": "bf16",
                "factors": {"mixed_precision": "on"},
            }
            session, report = loaded(graph, cell, tempfile.gettempdir())
            self.assertEqual(
                report.settings["mixed precision"],
                "weights in float32, operators under autocast in bfloat16",
            )
            self.assertEqual(report.settings["element type"], "float32")
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

    def test_what_a_trainer_meets_in_its_thread_is_told_to_who_asked_for_the_step(self) -> None:
        session = trained(architectures.bert(Mode.TRAINING), by_trainer=True)
        session.step()
        model: Any = session._network.model

        def refuse(*_: Any) -> None:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried …")

        hook = model.classifier.register_forward_pre_hook(refuse)
        for _ in range(2):
            # A second request does not wait for a thread that has ended.
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
            ({"model": mine}, "mine.onnx is a file"),
            ({"factors": {"attention": "flash"}}, "attention is `flash`"),
            ({"factors": {"layout": "nchw"}}, "factor `layout` is not known"),
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


if __name__ == "__main__":
    unittest.main()
