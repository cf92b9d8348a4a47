"""Quantises a file of ONNX as ONNX Runtime's own guide has it, to hold our quantisation against.

Arguments: the file in floats, and the one to write. Batch normalisation is folded into convolutions
first, activations become integers without a sign and weights integers with one, a scale for each
channel, ranges by the smallest and largest numbers that a few images make.
"""

import sys

import numpy
import onnxruntime
from onnxruntime import quantization

CALIBRATION_INPUTS = 4


class Images(quantization.CalibrationDataReader):
    def __init__(self, fed):
        numbers = numpy.random.default_rng(0)
        self.images = iter(
            [{fed.name: numbers.random(fed.shape, numpy.float32)} for _ in range(CALIBRATION_INPUTS)]
        )

    def get_next(self):
        return next(self.images, None)


def main(plain, quantised):
    folded = plain + ".folded.onnx"
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = folded
    session = onnxruntime.InferenceSession(plain, options, providers=["CPUExecutionProvider"])
    (fed,) = session.get_inputs()
    quantization.quantize_static(
        folded,
        quantised,
        Images(fed),
        per_channel=True,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
    )


main(*sys.argv[1:])
