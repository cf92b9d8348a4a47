"""Small graphs of the architectures that Transformers has classes for, written as the zoo writes
its own: the names of parameters, operators and outputs are those of `models::zoo`."""

from typing import Any

from photofinish_worker.decode import decode
from photofinish_worker.graph import Graph
from photofinish_worker.messages import Mode

BATCH, SEQ, LAYERS, HIDDEN, HEADS, INNER = 4, 3, 2, 8, 2, 12
VOCABULARY, POSITIONS, TYPES, CLASSES, EPSILON = 11, 6, 2, 3, 1e-12
IMAGE, PATCH, CHANNELS = 8, 4, 3

Nodes = list[dict[str, Any]]


class Builder:
    """A graph being written; values are called after the node that makes them."""

    def __init__(self) -> None:
        self.inputs: Nodes = []
        self.parameters: Nodes = []
        self.nodes: Nodes = []

    def input(self, name: str, shape: list[int], bound: int | None = None) -> str:
        fill: Any = {"uniform": {"low": -1.0, "high": 1.0}}
        if bound is not None:
            fill = {"integers": {"bound": bound}}
        element = "float" if bound is None else "int64"
        self.inputs.append({"name": name, "element": element, "shape": shape, "fill": fill})
        return name

    def weight(self, name: str, shape: list[int]) -> str:
        fill = {"uniform": {"low": -0.5, "high": 0.5}}
        held = {"name": name, "shape": shape, "role": "weight", "fill": fill}
        self.parameters.append(held)
        return name

    def positions(self, name: str) -> str:
        held = {"name": name, "shape": [1, SEQ], "role": "constant", "fill": "positions"}
        self.parameters.append(held)
        return name

    def node(self, op: Any, inputs: list[str], name: str) -> str:
        made = {"name": name, "op": op, "inputs": inputs, "outputs": [name], "in_place": False}
        self.nodes.append(made)
        return name

    def linear(self, x: str, name: str, size: int, width: int = HIDDEN) -> str:
        held = [self.weight(f"{name}.weight", [size, width]), self.weight(f"{name}.bias", [size])]
        return self.node("Linear", [x, *held], name)

    def gemm(self, x: str, name: str, size: int, width: int = HIDDEN) -> str:
        held = [self.weight(f"{name}.weight", [width, size]), self.weight(f"{name}.bias", [size])]
        return self.node("Gemm", [x, *held], name)

    def norm(self, x: str, name: str) -> str:
        held = [self.weight(f"{name}.{part}", [HIDDEN]) for part in ("weight", "bias")]
        return self.node({"LayerNormalization": {"epsilon": EPSILON}}, [x, *held], name)

    def add(self, x: str, y: str, name: str) -> str:
        return self.node("Add", [x, y], name)

    def gelu(self, x: str, name: str, approximate: str = "none") -> str:
        return self.node({"Gelu": {"approximate": approximate}}, [x], name)

    def dropout(self, x: str, name: str, ratio: float = 0.25) -> str:
        return self.node({"Dropout": {"ratio": ratio}}, [x], name)

    def attend(self, heads: list[str], name: str, causal: bool = False) -> str:
        return self.node({"Attention": {"heads": HEADS, "causal": causal}}, heads, name)

    def first(self, x: str, name: str) -> str:
        first = self.node({"Slice": {"axis": 1, "start": 0, "end": 1}}, [x], f"{name}.first")
        return self.node({"Squeeze": {"axis": 1}}, [first], f"{name}.squeeze")

    def table(self, ids: str, name: str, rows: int) -> str:
        return self.node("Gather", [self.weight(f"{name}.weight", [rows, HIDDEN]), ids], name)

    def finish(
        self, name: str, outputs: dict[str, str], labels: list[int] | None, classes: int
    ) -> Graph:
        """Renames values that are outputs."""
        called = {value: output for output, value in outputs.items()}
        for made in self.nodes:
            made["inputs"] = [called.get(value, value) for value in made["inputs"]]
            made["outputs"] = [called.get(value, value) for value in made["outputs"]]
        loss = None
        if labels is not None:
            fill = {"integers": {"bound": classes}}
            fed = {"name": "labels", "element": "int64", "shape": labels, "fill": fill}
            loss = {"cross_entropy": {"logits": "logits", "labels": fed}}
        whole = {
            "name": name,
            "inputs": self.inputs,
            "parameters": self.parameters,
            "nodes": self.nodes,
            "outputs": list(outputs),
            "loss": loss,
        }
        read = decode(Graph, whole, "graph")
        assert isinstance(read, Graph)
        return read


def bert(mode: Mode) -> Graph:
    net = Builder()
    tokens = net.input("input_ids", [BATCH, SEQ], VOCABULARY)
    types = net.input("token_type_ids", [BATCH, SEQ], TYPES)
    positions = net.positions("embeddings.position_ids")
    words = net.table(tokens, "embeddings.word_embeddings", VOCABULARY)
    places = net.table(positions, "embeddings.position_embeddings", POSITIONS)
    kinds = net.table(types, "embeddings.token_type_embeddings", TYPES)
    x = net.add(net.add(words, kinds, "add_types"), places, "add_positions")
    x = net.dropout(net.norm(x, "embeddings.LayerNorm"), "embeddings.dropout")
    for index in range(LAYERS):
        name = f"encoder.layer.{index}"
        own = [
            net.linear(x, f"{name}.attention.self.{part}", HIDDEN)
            for part in ("query", "key", "value")
        ]
        y = net.attend(own, f"{name}.attention.self.attention")
        y = net.linear(y, f"{name}.attention.output.dense", HIDDEN)
        y = net.dropout(y, f"{name}.attention.output.dropout")
        y = net.add(y, x, f"{name}.attention.output.add")
        x = net.norm(y, f"{name}.attention.output.LayerNorm")
        y = net.linear(x, f"{name}.intermediate.dense", INNER)
        y = net.gelu(y, f"{name}.intermediate.activation")
        y = net.linear(y, f"{name}.output.dense", HIDDEN, INNER)
        y = net.add(net.dropout(y, f"{name}.output.dropout"), x, f"{name}.output.add")
        x = net.norm(y, f"{name}.output.LayerNorm")
    pooled = net.linear(net.first(x, "pooler"), "pooler.dense", HIDDEN)
    pooled = net.node("Tanh", [pooled], "pooler.activation")
    if mode is Mode.INFERENCE:
        outputs = {"last_hidden_state": x, "pooler_output": pooled}
        return net.finish("bert_tiny", outputs, None, 0)
    logits = net.linear(net.dropout(pooled, "dropout"), "classifier", CLASSES)
    return net.finish("bert_tiny", {"logits": logits}, [BATCH], CLASSES)


def distilbert(mode: Mode) -> Graph:
    net = Builder()
    tokens = net.input("input_ids", [BATCH, SEQ], VOCABULARY)
    positions = net.positions("embeddings.position_ids")
    words = net.table(tokens, "embeddings.word_embeddings", VOCABULARY)
    places = net.table(positions, "embeddings.position_embeddings", POSITIONS)
    x = net.norm(net.add(words, places, "embeddings.add"), "embeddings.LayerNorm")
    x = net.dropout(x, "embeddings.dropout")
    for index in range(LAYERS):
        name = f"transformer.layer.{index}"
        own = [
            net.linear(x, f"{name}.attention.{part}", HIDDEN)
            for part in ("q_lin", "k_lin", "v_lin")
        ]
        y = net.attend(own, f"{name}.attention.attention")
        y = net.linear(y, f"{name}.attention.out_lin", HIDDEN)
        x = net.norm(net.add(y, x, f"{name}.attention.add"), f"{name}.sa_layer_norm")
        y = net.gelu(net.linear(x, f"{name}.ffn.lin1", INNER), f"{name}.ffn.activation")
        y = net.dropout(net.linear(y, f"{name}.ffn.lin2", HIDDEN, INNER), f"{name}.ffn.dropout")
        x = net.norm(net.add(y, x, f"{name}.ffn.add"), f"{name}.output_layer_norm")
    if mode is Mode.INFERENCE:
        return net.finish("distilbert_base", {"last_hidden_state": x}, None, 0)
    y = net.linear(net.first(x, "cls"), "pre_classifier", HIDDEN)
    y = net.dropout(net.node("Relu", [y], "relu"), "dropout", 0.5)
    logits = net.linear(y, "classifier", CLASSES)
    return net.finish("distilbert_base", {"logits": logits}, [BATCH], CLASSES)


def gpt2(mode: Mode) -> Graph:
    del mode
    net = Builder()
    tokens = net.input("input_ids", [BATCH, SEQ], VOCABULARY)
    positions = net.positions("position_ids")
    words = net.table(tokens, "wte", VOCABULARY)
    places = net.table(positions, "wpe", POSITIONS)
    x = net.dropout(net.add(words, places, "add_positions"), "drop")
    for index in range(LAYERS):
        name = f"h.{index}"
        every = net.gemm(net.norm(x, f"{name}.ln_1"), f"{name}.attn.c_attn", 3 * HIDDEN)
        own = [
            net.node(
                {"Slice": {"axis": 2, "start": part * HIDDEN, "end": (part + 1) * HIDDEN}},
                [every],
                f"{name}.attn.{part}",
            )
            for part in range(3)
        ]
        y = net.attend(own, f"{name}.attn.attention", causal=True)
        y = net.dropout(net.gemm(y, f"{name}.attn.c_proj", HIDDEN), f"{name}.attn.dropout")
        x = net.add(y, x, f"{name}.attn.add")
        y = net.gemm(net.norm(x, f"{name}.ln_2"), f"{name}.mlp.c_fc", INNER)
        y = net.gelu(y, f"{name}.mlp.act", "tanh")
        y = net.dropout(net.gemm(y, f"{name}.mlp.c_proj", HIDDEN, INNER), f"{name}.mlp.dropout")
        x = net.add(x, y, f"{name}.mlp.add")
    logits = net.node("Linear", [net.norm(x, "ln_f"), "wte.weight"], "lm_head")
    return net.finish("gpt2", {"logits": logits}, [BATCH, SEQ], VOCABULARY)


def vit(mode: Mode) -> Graph:
    del mode
    net = Builder()
    images = net.input("input", [BATCH, CHANNELS, IMAGE, IMAGE])
    place = "embeddings.patch_embeddings"
    held = [
        net.weight(f"{place}.projection.weight", [HIDDEN, CHANNELS, PATCH, PATCH]),
        net.weight(f"{place}.projection.bias", [HIDDEN]),
    ]
    conv = {"strides": [PATCH] * 2, "pads": [0] * 4, "dilations": [1, 1], "group": 1}
    x = net.node({"Conv": conv}, [images, *held], f"{place}.projection")
    x = net.node({"Flatten": {"axis": 2}}, [x], f"{place}.flatten")
    x = net.node({"Transpose": {"perm": [0, 2, 1]}}, [x], f"{place}.transpose")
    token = net.weight("embeddings.cls_token", [1, 1, HIDDEN])
    token = net.node({"Expand": {"shape": [BATCH, 1, HIDDEN]}}, [token], "embeddings.expand")
    x = net.node({"Concat": {"axis": 1}}, [token, x], "embeddings.cat")
    patches = (IMAGE // PATCH) ** 2
    x = net.add(
        x, net.weight("embeddings.position_embeddings", [1, 1 + patches, HIDDEN]), "embeddings.add"
    )
    for index in range(LAYERS):
        name = f"encoder.layer.{index}"
        normal = net.norm(x, f"{name}.layernorm_before")
        own = [
            net.linear(normal, f"{name}.attention.attention.{part}", HIDDEN)
            for part in ("query", "key", "value")
        ]
        y = net.attend(own, f"{name}.attention.attention.attention")
        y = net.linear(y, f"{name}.attention.output.dense", HIDDEN)
        x = net.add(y, x, f"{name}.attention.add")
        y = net.linear(net.norm(x, f"{name}.layernorm_after"), f"{name}.intermediate.dense", INNER)
        y = net.gelu(y, f"{name}.intermediate.activation")
        y = net.linear(y, f"{name}.output.dense", HIDDEN, INNER)
        x = net.add(y, x, f"{name}.output.add")
    first = net.first(net.norm(x, "layernorm"), "class")
    logits = net.linear(first, "classifier", CLASSES)
    return net.finish("vit_b16", {"logits": logits}, [BATCH], CLASSES)


ALL = {"bert_tiny": bert, "distilbert_base": distilbert, "gpt2": gpt2, "vit_b16": vit}
"""The architectures, by the name of a network that has it."""
