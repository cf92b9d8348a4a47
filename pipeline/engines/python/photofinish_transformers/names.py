"""What our parameters are called in Transformers' classes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Names:
    """How names of one architecture are translated.

    The zoo calls parameters as Transformers' checkpoints do, less the prefix of the base model.
    Where a class has renamed its modules since (Transformers then translates checkpoints as it
    reads them), the parts of names that changed are listed, in the order of their replacement.
    """

    heads: tuple[str, ...] = ()
    """Modules of the head, which have no prefix."""
    renamed: tuple[tuple[str, str], ...] = ()

    def translate(self, name: str, base: str | None) -> str:
        """The name in a class that calls its base model so, or in the base model itself."""
        for ours, theirs in self.renamed:
            name = name.replace(ours, theirs)
        if base is None or name.split(".", 1)[0] in self.heads:
            return name
        return f"{base}.{name}"


BERT = Names(("classifier",))
DISTILBERT = Names(("pre_classifier", "classifier"))
# `lm_head.weight` is `wte.weight` itself. Products lie as `[in, out]` in both, and query, key and
# value are one product in both.
GPT2 = Names()
VIT = Names(
    ("classifier",),
    (
        ("encoder.layer.", "layers."),
        (".attention.attention.query.", ".attention.q_proj."),
        (".attention.attention.key.", ".attention.k_proj."),
        (".attention.attention.value.", ".attention.v_proj."),
        (".attention.output.dense.", ".attention.o_proj."),
        (".intermediate.dense.", ".mlp.fc1."),
        (".output.dense.", ".mlp.fc2."),
    ),
)
