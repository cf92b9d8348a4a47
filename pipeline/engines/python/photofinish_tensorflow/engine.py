"""TensorFlow as the worker's loop sees it."""

import os
import platform
import time
from pathlib import Path

import tensorflow as tf

from photofinish_tensorflow import mixing
from photofinish_tensorflow.configuration import (
    ENGINE,
    VARIANTS,
    Configuration,
    Variant,
    understand,
)
from photofinish_tensorflow.failure import at
from photofinish_tensorflow.ground import Ground
from photofinish_tensorflow.inference import Inference
from photofinish_tensorflow.maker import Maker
from photofinish_tensorflow.network import Network
from photofinish_tensorflow.training import Training
from photofinish_worker import ask, sources
from photofinish_worker.engine import Identity, LoadReport, Session
from photofinish_worker.messages import Load

PACKAGES = ("photofinish_tensorflow", "photofinish_numpy", "photofinish_worker")
"""What this worker is made of."""

INTER_OP_THREADS = 1
"""Operators that run at the same time."""


class TensorFlow:
    """TensorFlow, before it has a network."""

    def hello(self) -> Identity:
        """Who this worker is."""
        versions = {ENGINE: tf.__version__, "python": platform.python_version()}
        worker = sources.digest(Path(__file__).parent.parent, PACKAGES)
        return Identity(ENGINE, versions, worker, VARIANTS)

    def load(self, load: Load) -> tuple[Session, LoadReport]:
        """Builds the cell's network, ready for its first step."""
        configuration = understand(load.cell)
        with at("threads"):
            tf.config.threading.set_intra_op_parallelism_threads(configuration.threads)
            tf.config.threading.set_inter_op_parallelism_threads(INTER_OP_THREADS)
        if configuration.mixes_precision:
            mixing.turn(on=True)
        start = time.perf_counter_ns()
        maker = Maker(configuration.element, load.files.weights if load.files else None)
        session = build(Network.of(load.graph, configuration.recurrent), maker, configuration)
        report = LoadReport(
            fill_ns=maker.filling_ns,
            build_ns=max(0, time.perf_counter_ns() - start - maker.filling_ns),
            # A function is traced, optimised and compiled when it is called for the first time.
            compile_ns=0,
            threads=None,
            spin="spin a while, then sleep (Eigen's default)",
            settings=_settings(configuration),
        )
        return session, report


def build(network: Network, maker: Maker, configuration: Configuration) -> Session:
    """The session of a cell."""
    optimizer = configuration.optimizer
    if configuration.variant is Variant.KERAS:
        # Others need not wait until Keras is imported.
        from photofinish_tensorflow.keras_sessions import Fitting, Predicting

        if optimizer is None:
            return Predicting(network, maker, configuration)
        return Fitting(network, maker, configuration, optimizer)
    ground = Ground(network, maker)
    if optimizer is None:
        return Inference(ground, configuration)
    return Training(ground, configuration, optimizer)


def _settings(configuration: Configuration) -> dict[str, str]:
    onednn = os.environ.get(mixing.ONEDNN)
    element = "double" if configuration.element == tf.float64 else "float"
    settings = {
        "element type": element,
        "inputs and outputs": "tensors of TensorFlow's own",
        "inter-op threads": str(tf.config.threading.get_inter_op_parallelism_threads()),
        "intra-op threads": str(tf.config.threading.get_intra_op_parallelism_threads()),
        "memory layout of images": "channels last",
        "oneDNN": f"{mixing.ONEDNN}={onednn}" if onednn else "as the processor has it (default)",
        "weights": "variables",
        "XLA": "the whole step, compiled in the first" if configuration.jit_compile else "off",
    }
    if configuration.mixes_precision:
        settings["arithmetic"] = mixing.ARITHMETIC
    if configuration.variant is Variant.EAGER:
        settings["graph"] = "none: operators run one by one"
    else:
        settings["graph optimization"] = "on (default)"
    keras = configuration.variant is Variant.KERAS
    if configuration.requests:
        settings["inputs and outputs"] = ask.REQUEST
    if keras:
        settings["inputs and outputs"] = "arrays in the host's memory"
        settings["method"] = "train_on_batch" if configuration.trains else "predict_on_batch"
    if configuration.optimizer is not None:
        whose = "Keras's, L2 penalty by regularizers" if keras else "TensorFlow's update operators"
        settings["loss"] = "softmax cross-entropy of labels as they are" + (
            ", Keras's" if keras else ""
        )
        settings["optimizer"] = f"{configuration.optimizer.tag()}, {whose}"
    return settings
