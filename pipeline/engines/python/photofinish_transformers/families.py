"""Transformers' classes for networks of the zoo, and the configurations that make them those."""

from collections.abc import Callable
from dataclasses import dataclass

import transformers
from transformers import PreTrainedConfig, PreTrainedModel

from photofinish_transformers import names
from photofinish_transformers.facts import Facts
from photofinish_transformers.names import Names
from photofinish_worker.outcome import unsupported


@dataclass(frozen=True, slots=True)
class Family:
    """Networks of one architecture."""

    configure: Callable[[Facts], PreTrainedConfig]
    """The configuration whose network has the sizes of the graph."""
    headless: str | None
    """The class whose outputs are hidden states, where the zoo has a graph of it."""
    headed: str
    """The class whose output are logits."""
    names: Names
    inputs: tuple[tuple[str, str], ...] = ()
    """Inputs that are called otherwise than in the graph."""
    narrow_softmax: bool = False
    """Whether attention without a fused kernel computes its softmax in binary32, whatever the
    element type is."""

    def model(self, facts: Facts) -> type[PreTrainedModel]:
        """The class whose outputs are those of the graph."""
        if facts.has_head():
            return _class(self.headed)
        if self.headless is None:
            raise unsupported(f"{self.headed} gives logits, and the graph has none")
        return _class(self.headless)


def _class(name: str) -> type[PreTrainedModel]:
    """Imports the architecture's module, and no other's."""
    found: type[PreTrainedModel] = getattr(transformers, name)
    return found


def find(network: str) -> Family:
    """The family of a network of the zoo."""
    family = _FAMILIES.get(network)
    if family is None:
        known = ", ".join(sorted(_FAMILIES))
        raise unsupported(f"Transformers has no class for {network}; it runs {known}")
    return family


def _bert(facts: Facts) -> PreTrainedConfig:
    vocabulary, hidden = facts.shape("embeddings.word_embeddings.weight", 2)
    return transformers.BertConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=facts.layers("encoder.layer."),
        num_attention_heads=facts.heads(),
        intermediate_size=facts.shape("encoder.layer.0.intermediate.dense.weight", 2)[0],
        max_position_embeddings=facts.shape("embeddings.position_embeddings.weight", 2)[0],
        type_vocab_size=facts.shape("embeddings.token_type_embeddings.weight", 2)[0],
        layer_norm_eps=facts.epsilon(),
        hidden_dropout_prob=facts.dropout(),
        # The graph's attention drops nothing out.
        attention_probs_dropout_prob=0.0,
        # No token is padding: the first row of the table learns as all others do.
        pad_token_id=None,
        use_cache=False,
        **_classes(facts),
    )


def _distilbert(facts: Facts) -> PreTrainedConfig:
    vocabulary, hidden = facts.shape("embeddings.word_embeddings.weight", 2)
    return transformers.DistilBertConfig(
        vocab_size=vocabulary,
        dim=hidden,
        n_layers=facts.layers("transformer.layer."),
        n_heads=facts.heads(),
        hidden_dim=facts.shape("transformer.layer.0.ffn.lin1.weight", 2)[0],
        max_position_embeddings=facts.shape("embeddings.position_embeddings.weight", 2)[0],
        dropout=facts.dropout("embeddings.dropout"),
        seq_classif_dropout=facts.dropout("dropout"),
        attention_dropout=0.0,
        pad_token_id=None,
        **_classes(facts),
    )


def _gpt2(facts: Facts) -> PreTrainedConfig:
    vocabulary, hidden = facts.shape("wte.weight", 2)
    dropout = facts.dropout()
    return transformers.GPT2Config(
        vocab_size=vocabulary,
        n_embd=hidden,
        n_layer=facts.layers("h."),
        n_head=facts.heads(),
        n_inner=facts.shape("h.0.mlp.c_fc.weight", 2)[1],
        n_positions=facts.shape("wpe.weight", 2)[0],
        layer_norm_epsilon=facts.epsilon(),
        embd_pdrop=dropout,
        resid_pdrop=dropout,
        attn_pdrop=0.0,
        use_cache=False,
        bos_token_id=None,
        eos_token_id=None,
    )


def _vit(facts: Facts) -> PreTrainedConfig:
    hidden, channels, patch, _ = facts.shape("embeddings.patch_embeddings.projection.weight", 4)
    patches = facts.shape("embeddings.position_embeddings", 3)[1] - 1
    side = round(patches**0.5)
    if side * side != patches:
        raise unsupported(f"{patches} patches do not make a square image")
    return transformers.ViTConfig(
        hidden_size=hidden,
        num_hidden_layers=facts.layers("encoder.layer."),
        num_attention_heads=facts.heads(),
        intermediate_size=facts.shape("encoder.layer.0.intermediate.dense.weight", 2)[0],
        layer_norm_eps=facts.epsilon(),
        image_size=side * patch,
        patch_size=patch,
        num_channels=channels,
        hidden_dropout_prob=facts.dropout(),
        attention_probs_dropout_prob=0.0,
        **_classes(facts),
    )


def _classes(facts: Facts) -> dict[str, int]:
    """The head's size, where the graph has one."""
    if not facts.has_head():
        return {}
    return {"num_labels": facts.shape("classifier.weight", 2)[0]}


_BERT = Family(_bert, "BertModel", "BertForSequenceClassification", names.BERT)
_FAMILIES = {
    "bert_tiny": _BERT,
    "bert_base": _BERT,
    "distilbert_base": Family(
        _distilbert, "DistilBertModel", "DistilBertForSequenceClassification", names.DISTILBERT
    ),
    "gpt2": Family(_gpt2, None, "GPT2LMHeadModel", names.GPT2),
    "vit_b16": Family(
        _vit,
        None,
        "ViTForImageClassification",
        names.VIT,
        (("input", "pixel_values"),),
        narrow_softmax=True,
    ),
}
