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
from transformers import (
    BertConfig,
    BertModel,
    CLIPTextConfig,
    CLIPTextModel,
    Dinov2Config,
    Dinov2Model,
    GPT2Config,
    GPT2ForSequenceClassification,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    RobertaConfig,
    RobertaModel,
)

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


class Rms(nn.Module):
    """Normalisation by the root of the mean square, as Llama and T5 have it."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Llama(nn.Module):
    """A language model with rotations for positions, gated units, keys and values that heads share."""

    def __init__(self, words=50, width=32, heads=4, shared=2, layers=2):
        super().__init__()
        self.words, self.heads, self.shared, self.size = nn.Embedding(words, width), heads, shared, width // heads
        self.register_buffer("frequencies", 10000.0 ** (-torch.arange(0, self.size, 2).float() / self.size))
        self.blocks = nn.ModuleList()
        for _ in range(layers):
            maps = {"q": width, "k": shared * self.size, "v": shared * self.size, "o": width, "gate": 48, "up": 48}
            parts = {name: nn.Linear(width, out, bias=False) for name, out in maps.items()}
            norms = {"norm": Rms(width), "second_norm": Rms(width)}
            self.blocks.append(nn.ModuleDict(parts | norms | {"down": nn.Linear(48, width, bias=False)}))
        self.norm = Rms(width)

    def turned(self, x, angles):
        low, high = x.chunk(2, -1)
        return x * angles.cos() + torch.cat([-high, low], -1) * angles.sin()

    def forward(self, ids):
        batch, positions = ids.shape
        row = torch.arange(positions, device=ids.device)
        angles = (row[:, None].float() @ self.frequencies[None]).repeat(1, 2)
        mask = torch.full((positions, positions), torch.finfo(torch.float32).min).triu(1)
        x = self.words(ids)
        for part in self.blocks:
            y = part["norm"](x)
            apart = lambda name, heads: part[name](y).view(batch, positions, heads, self.size).transpose(1, 2)
            q, k = self.turned(apart("q", self.heads), angles), self.turned(apart("k", self.shared), angles)
            often = lambda x: x[:, :, None].expand(-1, -1, self.heads // self.shared, -1, -1).flatten(1, 2)
            scores = q @ often(k).transpose(2, 3) / self.size**0.5 + mask
            mixed = (scores.softmax(-1) @ often(apart("v", self.shared))).transpose(1, 2)
            x = x + part["o"](mixed.reshape(batch, positions, -1))
            y = part["second_norm"](x)
            x = x + part["down"](functional.silu(part["gate"](y)) * part["up"](y))
        return self.norm(x) @ self.words.weight.T


class T5(nn.Module):
    """An encoder that tells distances apart by buckets, and nothing else of positions."""

    def __init__(self, words=50, width=32, heads=4, buckets=8):
        super().__init__()
        self.words, self.heads, self.buckets = nn.Embedding(words, width), heads, buckets
        self.bias = nn.Embedding(buckets, heads)
        self.norm, self.second_norm, self.last = Rms(width), Rms(width), Rms(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 64, bias=False), nn.Linear(64, width, bias=False)

    def distances(self, positions):
        row = torch.arange(positions)
        apart = row[None] - row[:, None]
        half, near = self.buckets // 2, self.buckets // 4
        far = near + (torch.log(apart.abs().clamp(min=1).float() / near) / 3.0 * near).long()
        far = torch.min(far, torch.full_like(far, half - 1))
        return (apart > 0).long() * half + torch.where(apart.abs() < near, apart.abs(), far)

    def forward(self, ids):
        batch, positions = ids.shape
        bias = self.bias(self.distances(positions)).permute(2, 0, 1)[None]
        x = self.words(ids)
        q, k, v = self.qkv(self.norm(x)).view(batch, positions, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = ((q @ k.transpose(2, 3) + bias).softmax(-1) @ v).transpose(1, 2)
        x = x + self.out(mixed.reshape(batch, positions, -1))
        return self.last(x + self.down(functional.relu(self.up(self.second_norm(x)))))


class UNet(nn.Module):
    """Images in, images out: transposed convolutions on one way up, interpolation on the other."""

    def __init__(self, width=8):
        super().__init__()
        self.enter, self.down = self.block(3, width), self.block(width, 2 * width)
        self.bottom = self.block(2 * width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.left = self.block(3 * width, width)
        self.last = nn.Conv2d(2 * width, 4, 1)

    def block(self, channels, out):
        conv = nn.Conv2d(channels, out, 3, padding=1, bias=False)
        return nn.Sequential(conv, nn.GroupNorm(4, out), nn.LeakyReLU(0.1))

    def forward(self, x):
        first = self.enter(x)
        second = self.down(functional.max_pool2d(first, 2))
        third = self.bottom(functional.avg_pool2d(second, 2))
        wide = functional.interpolate(third, scale_factor=2.0, mode="bilinear")
        x = self.left(torch.cat([self.up(wide), functional.interpolate(second, scale_factor=2.0)], 1))
        corners = functional.interpolate(third, scale_factor=4.0, mode="bilinear", align_corners=True)
        x = torch.cat([x, corners[:, : x.shape[1]]], 1)
        return functional.log_softmax(self.last(x), 1)


class Painter(nn.Module):
    """A network that paints: borders that reflect, each image normalised by itself, pixels out of channels."""

    def __init__(self, width=8):
        super().__init__()
        self.enter = nn.Sequential(nn.ReflectionPad2d(2), nn.Conv2d(3, width, 5), nn.InstanceNorm2d(width, affine=True))
        self.bend = nn.PReLU(width)
        self.up = nn.ConvTranspose2d(width, width, 3, stride=2, padding=1, output_padding=1, groups=2)
        self.last = nn.Sequential(nn.ZeroPad2d((0, 1, 1, 0)), nn.Conv2d(width, 12, 2), nn.PixelShuffle(2), nn.Tanh())

    def forward(self, x):
        x = self.bend(self.enter(x))
        return self.last(functional.elu(self.up(x)))


class Attentive(nn.Module):
    """Channels and places weighed by means and by largest numbers; what comes out has length 1."""

    def __init__(self, width=8):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, padding=1)
        self.channels = nn.Sequential(nn.Linear(width, 4), nn.Mish(), nn.Linear(4, width))
        self.places = nn.Conv2d(2, 1, 3, padding=1)

    def forward(self, x):
        x = functional.softplus(self.conv(x))
        weights = self.channels(x.mean((2, 3))) + self.channels(x.amax((2, 3)))
        x = x * weights.sigmoid()[:, :, None, None]
        both = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)
        x = (x * self.places(both).sigmoid()).flatten(2).max(2).values
        return functional.normalize(functional.selu(x))


class Voice(nn.Module):
    """From frames to a wave, as vocoders do: one axis, spread by transposed convolutions."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Conv1d(6, 8, 7, padding=3)
        self.ups = nn.ModuleList([nn.ConvTranspose1d(8, 8, 8, 4, padding=2), nn.ConvTranspose1d(8, 4, 4, 2, padding=1)])
        self.last = nn.Conv1d(4, 1, 7)

    def forward(self, x):
        x = functional.max_pool1d(self.enter(x), 3, 1, 1)
        for up in self.ups:
            x = up(functional.leaky_relu(x, 0.1))
        x = functional.pad(x, (3, 3), "reflect")
        return torch.tanh(self.last(torch.exp(-x.abs()) + torch.minimum(x, torch.cos(x))))


def encoder():
    """Its attention has the batch written in by the older exporter."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
    return nn.Sequential(nn.Embedding(30, 16), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))


def pixels(size=64):
    return torch.randn(2, 3, size, size), {0: "batch"}


class Published(nn.Module):
    """A model of Transformers', told to see every position."""

    def __init__(self, network, output=0):
        super().__init__()
        self.network = network
        self.output = output

    def forward(self, ids):
        return self.network(input_ids=ids, attention_mask=torch.ones_like(ids))[self.output]


SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 50,
    "max_position_embeddings": 64,
}


def published_bert():
    return Published(BertModel(BertConfig(**SMALL), add_pooling_layer=False))


def published_roberta():
    """Counts its places by which ids are padding."""
    return Published(RobertaModel(RobertaConfig(**SMALL), add_pooling_layer=False))


GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 50, "n_positions": 64}


def published_gpt2():
    return Published(GPT2LMHeadModel(GPT2Config(use_cache=False, **GPT2)))


def published_judge():
    """Takes the last token of each sequence that is no padding."""
    config = GPT2Config(use_cache=False, num_labels=3, pad_token_id=1, **GPT2)
    return Published(GPT2ForSequenceClassification(config))


def published_clip():
    """Takes the token of each sequence that has the largest id."""
    return Published(CLIPTextModel(CLIPTextConfig(eos_token_id=2, **SMALL)), "pooler_output")


def published_phi3():
    """Turns all of a head by its place, and joins it with the nothing that is left."""
    return Published(Phi3ForCausalLM(Phi3Config(use_cache=False, pad_token_id=0, num_key_value_heads=2, **SMALL)))


class Stretched(nn.Module):
    """Stretches its table of places to the image."""

    def __init__(self):
        super().__init__()
        shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
        self.network = Dinov2Model(Dinov2Config(image_size=48, patch_size=8, **shape))

    def forward(self, x):
        return self.network(x)[0]


def published_llama():
    return Published(LlamaForCausalLM(LlamaConfig(use_cache=False, num_key_value_heads=2, **SMALL)))


def words(count):
    return torch.randint(0, count, (2, 6)), {0: "batch", 1: "seq"}


def wave():
    return torch.randn(6, 2, 8), {1: "batch"}


def convnext():
    return ConvNeXt([CNBlockConfig(16, 32, 1), CNBlockConfig(32, None, 1)], num_classes=10)


def densenet():
    return models.DenseNet(8, (2, 2, 2), 16, num_classes=10)


def swin():
    return models.SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], num_classes=10)


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
    "llama": (Llama, lambda: words(50)),
    "lstm": (lambda: Tagger(nn.LSTM, num_layers=2, bidirectional=True), lambda: words(30)),
    "gru_states": (lambda: Classifier(nn.GRU), wave),
    "unet": (UNet, lambda: pixels(16)),
    "published_bert": (published_bert, lambda: words(50)),
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
    "mobilenet_v3": (lambda: models.mobilenet_v3_small(num_classes=10), pixels),
    "efficientnet_v2": (lambda: models.efficientnet_v2_s(num_classes=10), pixels),
    "swin": (swin, pixels),
    "painter": (Painter, lambda: pixels(16)),
    "attentive": (Attentive, lambda: pixels(16)),
    "voice": (Voice, lambda: (torch.randn(2, 6, 10), {0: "batch"})),
    "t5": (T5, lambda: words(50)),
    "published_gpt2": (published_gpt2, lambda: words(50)),
    "published_roberta": (published_roberta, lambda: words(50)),
    "published_judge": (published_judge, lambda: words(50)),
    "published_clip": (published_clip, lambda: words(50)),
    "published_phi3": (published_phi3, lambda: words(50)),
    "published_dinov2": (Stretched, lambda: pixels(32)),
    "published_llama": (published_llama, lambda: words(50)),
    "encoder": (encoder, lambda: (words(30)[0], {})),
    "lstm_one": (lambda: Tagger(nn.LSTM), lambda: words(30)),
    "lstm_states": (lambda: Classifier(nn.LSTM), wave),
    "gru": (lambda: Tagger(nn.GRU, bidirectional=True), lambda: words(30)),
}

# Of those that are always exported, the ones with open sizes by the newer exporter, too.
OPEN = ("focus", "decoder")

# Exported once more by the newer exporter, as it writes them before it tidies up: with constants and casts
# that say nothing.
UNTIDIED = ("attentive", "voice", "published_bert")

# What `torch.export` of PyTorch 2.11 fails on by itself, with open sizes and without: it takes the last states
# of layers that go both ways for another shape.
FAILS = (("gru_states", True), ("lstm_states", True), ("lstm_states", False))


def export(name, make, feed, torchscript, dynamic, tidies=True):
    torch.manual_seed(7)
    network, (x, axes) = make().eval(), feed()
    exporter = "torchscript" if torchscript else "dynamo"
    exporter = exporter if tidies else f"{exporter}-untidied"
    stem = f"{name}-{exporter}-{'dynamic' if dynamic else 'static'}"
    settings = {"input_names": ["x"], "output_names": ["y"], "dynamo": not torchscript}
    if torchscript and dynamic:
        settings["dynamic_axes"] = {"x": axes}
    elif dynamic:
        sizes = {axis: torch.export.Dim(dim, max=64) for axis, dim in axes.items()}
        settings["dynamic_shapes"] = (sizes,)
    if not torchscript:
        settings |= {"external_data": False, "verbose": False, "optimize": tidies}
    path = f"{folder}/{stem}.onnx"
    torch.onnx.export(network, (x,), path, **settings)
    # The newer exporter closes what it cannot keep open: the length of a recurrent layer's sequence.
    sizes = onnx.load(path, load_external_data=False).graph.input[0].type.tensor_type.shape.dim
    return {"name": stem, "dims": sorted(size.dim_param for size in sizes if size.dim_param)}



def openness(network, torchscript):
    """Whether to export with open sizes and without, or only either."""
    if extent == "all":
        return True, False
    return (True,) if network in OPEN else (torchscript,)


written = []
for network, (make, feed) in (FEW | (MORE if extent == "all" else {})).items():
    for torchscript in (True, False):
        for dynamic in openness(network, torchscript):
            is_closed = dynamic and not feed()[1]
            if is_closed or (not torchscript and (network, dynamic) in FAILS):
                continue
            written.append(export(network, make, feed, torchscript, dynamic))
for network in UNTIDIED if extent == "all" else ():
    make, feed = (FEW | MORE)[network]
    written.append(export(network, make, feed, False, True, tidies=False))
json.dump(written, sys.stdout)
