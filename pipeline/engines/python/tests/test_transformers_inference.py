"""Networks of Transformers in a pipeline and in ONNX Runtime. Needs Transformers."""

import array
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import onnxruntime
import torch

from photofinish_pytorch.inference import Inference
from photofinish_transformers import network
from photofinish_transformers.exported import Exported
from photofinish_transformers.network import Network
from photofinish_transformers.piping import Piped
from photofinish_worker.engine import LoadReport, ParityData, Session
from photofinish_worker.graph import Graph
from photofinish_worker.messages import Mode
from photofinish_worker.outcome import Failure, Kind
from tests import architectures
from tests.with_transformers import CELL, CPU, built, expected, loaded, maker, sized


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


if __name__ == "__main__":
    unittest.main()
