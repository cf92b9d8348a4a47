"""Exports networks from PyTorch as its users do, by both of its exporters.

Arguments: the folder to write to, and `all` or `few`. Prints JSON: for each file its name, and the
dimensions that its exporter left open.
"""
import json
import logging
import sys
import warnings

import onnx
import torch
import torch.nn.functional as functional
from torch import nn
from torchvision import models
from torchvision.models.convnext import CNBlockConfig, ConvNeXt

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
folder, extent = sys.argv[1:]


class Decoder(nn.Module):
    """A language model: fused attention, GELU by tanh, its output tied to its table."""

    def __init__(self, words=50, width=32, heads=4, layers=2, longest=64):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.blocks, self.heads = nn.ModuleList(), heads
        for _ in range(layers):
            parts = {
                "norm": nn.LayerNorm(width),
                "qkv": nn.Linear(width, 3 * width),
                "out": nn.Linear(width, width),
                "second_norm": nn.LayerNorm(width),
                "up": nn.Linear(width, 4 * width),
                "down": nn.Linear(4 * width, width),
            }
            self.blocks.append(nn.ModuleDict(parts))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        batch, positions = ids.shape
        x = self.words(ids) + self.places(torch.arange(positions, device=ids.device))
        for part in self.blocks:
            qkv = part["qkv"](part["norm"](x)).view(batch, positions, 3, self.heads, -1)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + part["out"](seen.transpose(1, 2).reshape(batch, positions, -1))
            x = x + part["down"](functional.gelu(part["up"](part["second_norm"](x)), approximate="tanh"))
        return self.norm(x) @ self.words.weight.T


class Tagger(nn.Module):
    """A recurrent network over words, with an output for each."""

    def __init__(self, kind, **settings):
        super().__init__()
        self.words = nn.Embedding(30, 12)
        self.layers = kind(12, 16, batch_first=True, **settings)
        self.out = nn.Linear(32 if settings.get("bidirectional") else 16, 5)

    def forward(self, ids):
        return self.out(self.layers(self.words(ids))[0])


class Classifier(nn.Module):
    """A recurrent network, time first, of which the last states count."""

    def __init__(self, kind):
        super().__init__()
        self.layers = kind(8, 16, num_layers=2, bidirectional=True)
        self.out = nn.Linear(32, 4)

    def forward(self, x):
        states = self.layers(x)[1]
        hidden = states[0] if isinstance(states, tuple) else states
        return self.out(torch.cat([hidden[-2], hidden[-1]], dim=1))


class Focus(nn.Module):
    """Every second pixel, four times, as detectors begin."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(12, 8, 3)

    def forward(self, x):
        rows = x[..., ::2, :], x[..., 1::2, :]
        return self.conv(torch.cat([part for row in rows for part in (row[..., ::2], row[..., 1::2])], 1))


def encoder():
    """Its attention has the batch written in by the older exporter."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
    return nn.Sequential(nn.Embedding(30, 16), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))


def pixels(size=64):
    return torch.randn(2, 3, size, size), {0: "batch"}


def words(count):
    return torch.randint(0, count, (2, 6)), {0: "batch", 1: "seq"}


def wave():
    return torch.randn(6, 2, 8), {1: "batch"}


def convnext():
    return ConvNeXt([CNBlockConfig(16, 32, 1), CNBlockConfig(32, None, 1)], num_classes=10)


def densenet():
    return models.DenseNet(8, (2, 2, 2), 16, num_classes=10)


def vit():
    network = models.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10)
    # Zeros, until it is trained.
    nn.init.normal_(network.heads.head.weight)
    return network


FEW = {
    "resnet18": (lambda: models.resnet18(num_classes=10), pixels),
    "vit": (vit, lambda: pixels(32)),
    "focus": (Focus, lambda: pixels(16)),
    "decoder": (Decoder, lambda: words(50)),
    "lstm": (lambda: Tagger(nn.LSTM, num_layers=2, bidirectional=True), lambda: words(30)),
    "gru_states": (lambda: Classifier(nn.GRU), wave),
}
MORE = {
    "mobilenet_v2": (lambda: models.mobilenet_v2(num_classes=10), pixels),
    "efficientnet_b0": (lambda: models.efficientnet_b0(num_classes=10), pixels),
    "shufflenet": (lambda: models.shufflenet_v2_x0_5(num_classes=10), pixels),
    "squeezenet": (lambda: models.squeezenet1_1(num_classes=10), pixels),
    "densenet": (densenet, pixels),
    "googlenet": (lambda: models.googlenet(num_classes=10, aux_logits=False, init_weights=True), pixels),
    "inception": (lambda: models.inception_v3(num_classes=10, aux_logits=False, init_weights=True), lambda: pixels(96)),
    "regnet": (lambda: models.regnet_y_400mf(num_classes=10), pixels),
    "mnasnet": (lambda: models.mnasnet0_5(num_classes=10), pixels),
    "convnext": (convnext, pixels),
    "encoder": (encoder, lambda: (words(30)[0], {})),
    "lstm_one": (lambda: Tagger(nn.LSTM), lambda: words(30)),
    "lstm_states": (lambda: Classifier(nn.LSTM), wave),
    "gru": (lambda: Tagger(nn.GRU, bidirectional=True), lambda: words(30)),
}

# What `torch.export` of PyTorch 2.11 fails on by itself, with open sizes and without: it takes the last states
# of layers that go both ways for another shape.
FAILS = (("gru_states", True), ("lstm_states", True), ("lstm_states", False))


def export(name, make, feed, torchscript, dynamic):
    torch.manual_seed(7)
    network, (x, axes) = make().eval(), feed()
    exporter = "torchscript" if torchscript else "dynamo"
    stem = f"{name}-{exporter}-{'dynamic' if dynamic else 'static'}"
    settings = {"input_names": ["x"], "output_names": ["y"], "dynamo": not torchscript}
    if torchscript and dynamic:
        settings["dynamic_axes"] = {"x": axes}
    elif dynamic:
        sizes = {axis: torch.export.Dim(dim, max=64) for axis, dim in axes.items()}
        settings["dynamic_shapes"] = (sizes,)
    if not torchscript:
        settings |= {"external_data": False, "verbose": False}
    path = f"{folder}/{stem}.onnx"
    torch.onnx.export(network, (x,), path, **settings)
    # The newer exporter closes what it cannot keep open: the length of a recurrent layer's sequence.
    sizes = onnx.load(path, load_external_data=False).graph.input[0].type.tensor_type.shape.dim
    return {"name": stem, "dims": sorted(size.dim_param for size in sizes if size.dim_param)}


written = []
for network, (make, feed) in (FEW | (MORE if extent == "all" else {})).items():
    for torchscript in (True, False):
        for dynamic in (True, False) if extent == "all" else (torchscript,):
            is_closed = dynamic and not feed()[1]
            if is_closed or (not torchscript and (network, dynamic) in FAILS):
                continue
            written.append(export(network, make, feed, torchscript, dynamic))
json.dump(written, sys.stdout)
