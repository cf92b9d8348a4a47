"""Inference by a `Pipeline` of Transformers: one call of it is one step.

What it is given is encoded already, as a tokenizer or an image processor encodes it, and what it
gives are tensors: text to tokens and tensors to nested lists are no part of a step, as they are of
no other engine's. What is left is what a pipeline does around the model: parameters of the call,
`preprocess`, placing tensors, `postprocess`, and for more rows than one a dataset of encodings of
one row each, the `DataLoader` over it, collation, and the taking apart of outputs.
"""

from collections.abc import Mapping
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import (
    BatchEncoding,
    BatchFeature,
    FeatureExtractionMixin,
    Pipeline,
    PreTrainedTokenizerFast,
)

from photofinish_pytorch import parity
from photofinish_pytorch.failure import at
from photofinish_pytorch.maker import Maker
from photofinish_transformers.network import Network
from photofinish_worker.engine import ParityData, Quantity
from photofinish_worker.graph import Graph

IMAGES = "pixel_values"
"""What models of images call their input."""

PADDING = "[PAD]"

Encoding = Mapping[str, torch.Tensor]
Outputs = tuple[torch.Tensor, ...]

Parameters = dict[str, Any]


class Encoded(Pipeline):  # type: ignore[misc]
    """A pipeline from encodings to the tensors of these names."""

    def __init__(self, names: tuple[str, ...], **settings: Any) -> None:
        super().__init__(**settings)
        self._names = names

    def _sanitize_parameters(self, **_: Any) -> tuple[Parameters, Parameters, Parameters]:
        return {}, {}, {}

    def preprocess(self, encoding: Encoding) -> Encoding:
        """There is nothing to do: it is encoded."""
        return encoding

    def _forward(self, encoding: Encoding) -> Encoding:
        outputs: Encoding = self.model(**encoding)
        return outputs

    def postprocess(self, outputs: Encoding) -> Outputs:
        """The tensors, not lists of numbers."""
        return tuple(outputs[name] for name in self._names)


class Piped:
    """A network in a pipeline."""

    def __init__(self, graph: Graph, network: Network, maker: Maker) -> None:
        self._names = graph.outputs
        self._network = network
        inputs = [maker.input(fed) for fed in graph.inputs]
        images = IMAGES in network.inputs
        encode = BatchFeature if images else BatchEncoding
        rows = zip(*(fed.chunk(fed.shape[0]) for fed in inputs), strict=True)
        self._rows = [encode(dict(zip(network.inputs, row, strict=True))) for row in rows]
        with network.explained():
            self._pipe = Encoded(
                graph.outputs,
                model=network.model,
                device=torch.device("cpu"),
                # Collation asks one of them how it would pad, and refuses to go on with neither;
                # rows that are equally long it then puts together unpadded.
                **({"feature_extractor": _extractor()} if images else {"tokenizer": _tokenizer()}),
            )

    def _run(self) -> list[Outputs]:
        """The outputs of each row. Gradients are off by the pipeline's own context."""
        with self._network.explained():
            if len(self._rows) == 1:
                return [self._pipe(self._rows[0])]
            outputs: list[Outputs] = self._pipe(self._rows, batch_size=len(self._rows))
            return outputs

    def step(self) -> None:
        """One call of the pipeline."""
        self._run()

    def parity(self, steps: int) -> ParityData:
        """The graph's outputs, put together of the rows' own."""
        del steps
        told = []
        for name, rows in zip(self._names, zip(*self._run(), strict=True), strict=True):
            with at(name):
                whole = torch.cat(rows)
            told.append(parity.output(Quantity.OUTPUT, name, whole))
        return ParityData(told)

    def reset(self) -> None:
        """A call changes nothing that lasts."""

    def device_memory(self) -> tuple[int, int] | None:
        """It runs on a CPU alone."""
        return None


def _tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer that knows one token: the padding's."""
    vocabulary = Tokenizer(WordLevel({PADDING: 0}, unk_token=PADDING))
    return PreTrainedTokenizerFast(tokenizer_object=vocabulary, pad_token=PADDING)


def _extractor() -> FeatureExtractionMixin:
    """What stands for an image processor, whose classes need Pillow; pipelines take either, and
    images are not padded."""
    return FeatureExtractionMixin()
