"""A model of Transformers with the graph's weights."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from transformers import PreTrainedModel
from transformers.initialization import no_init_weights

from photofinish_pytorch.engine import distinct
from photofinish_pytorch.failure import at
from photofinish_pytorch.maker import Maker
from photofinish_transformers.configuration import TRAINER, Configuration
from photofinish_transformers.facts import Facts
from photofinish_transformers.families import Family, find
from photofinish_worker.graph import Graph, Parameter, Role
from photofinish_worker.messages import Mode
from photofinish_worker.outcome import unsupported

_COMPUTED = ("position_ids", "attention.scale.", "attention.mask.")
"""How constants are called that Transformers computes by itself."""


class Network:
    """A model on the device, with the parameters of a graph."""

    def __init__(
        self,
        model: PreTrainedModel,
        held: dict[str, torch.Tensor],
        graph: Graph,
        family: Family,
        autocast: torch.autocast | None,
    ) -> None:
        self.model = model
        self._held = held
        self._autocast = autocast
        renamed = dict(family.inputs)
        self.inputs = tuple(renamed.get(fed.name, fed.name) for fed in graph.inputs)
        """What the model calls its inputs."""
        logits = (graph.loss.logits,) if model.training and graph.loss else graph.outputs
        self._outputs = logits
        dropouts = (module for module in model.modules() if isinstance(module, torch.nn.Dropout))
        self._dropouts = [(module, module.p) for module in dropouts]
        self._drops = True

    @property
    def held(self) -> dict[str, torch.Tensor]:
        """The model's tensors, by the parameter's name in the graph; no constant is among them."""
        return self._held

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turns what PyTorch throws inside into the outcome of the cell."""
        with at(type(self.model).__name__):
            yield

    def __call__(self, *arguments: torch.Tensor | bool) -> tuple[torch.Tensor, ...]:
        """The outputs for inputs in the graph's order and, last, whether dropout drops."""
        *fed, dropout = arguments
        if self.model.training:
            self.drop(bool(dropout))
        named = dict(zip(self.inputs, fed, strict=True))
        if self._autocast is None:
            told = self.model(**named)
            return tuple(told[name] for name in self._outputs)
        with self._autocast:
            told = self.model(**named)
        # As Accelerate gives them, so that the loss is computed in binary32.
        return tuple(told[name].float() for name in self._outputs)

    def settings(self) -> dict[str, str]:
        """What the model is, in words."""
        config = self.model.config
        told = {
            "class": type(self.model).__name__,
            "attn_implementation": config._attn_implementation,
        }
        activation = getattr(config, "activation_function", None)
        if activation is not None:
            told["activation"] = f"{activation}, as in the published configuration"
        if hasattr(config, "use_cache"):
            told["cache of keys and values"] = "off: one forward pass keeps none"
        return told

    def drop(self, dropout: bool) -> None:
        """Turns dropout on or off, and leaves all else that depends on training as it is."""
        if dropout is not self._drops:
            for module, ratio in self._dropouts:
                module.p = ratio if dropout else 0.0
            self._drops = dropout


def build(
    graph: Graph, configuration: Configuration, maker: Maker, device: torch.device
) -> Network:
    """The model of which `graph` is, with its weights."""
    family = find(configuration.network)
    narrow = family.narrow_softmax and configuration.attention != "sdpa"
    if narrow and configuration.element == torch.float64:
        raise unsupported(
            f"Transformers computes attention's softmax in binary32 for {configuration.network}: "
            "`attention: plain` is not fp64"
        )
    trains = configuration.mode is Mode.TRAINING
    facts = Facts(graph)
    settings = family.configure(facts)
    settings._attn_implementation = configuration.attention
    # The numbers are ours: what the class would draw is not drawn.
    with at(configuration.network), no_init_weights():
        model = family.model(facts)(settings)
        model.tie_weights()
    _check_norms(model, facts.epsilon())
    held = _fill(model, graph, family, maker)
    with at(configuration.network):
        # Buffers that are no parameters, positions for one.
        model.to(device)
    model.train(trains)
    if configuration.checkpointing:
        model.activation_checkpointing_enable()
    autocast = None
    # A Trainer wraps the model's `forward` by itself, and leaves it so.
    if configuration.autocast is not None and configuration.variant != TRAINER:
        autocast = torch.autocast(device.type, configuration.autocast)
    return Network(model, held, graph, family, autocast)


def _fill(
    model: PreTrainedModel, graph: Graph, family: Family, maker: Maker
) -> dict[str, torch.Tensor]:
    """Gives each parameter of the model the graph's numbers, and leaves out none of either."""
    theirs = dict(model.named_parameters())
    base = model.base_model_prefix if model.base_model is not model else None
    held: dict[str, torch.Tensor] = {}
    for parameter in distinct(graph):
        if parameter.role is Role.CONSTANT and _is_computed(parameter):
            continue
        name = family.names.translate(parameter.name, base)
        tensor = theirs.pop(name, None)
        if tensor is None:
            place = type(model).__name__
            raise unsupported(f"{place} has no parameter `{name}` for the graph's {parameter.name}")
        if tuple(tensor.shape) != parameter.shape:
            shapes = f"{list(parameter.shape)} in the graph, {list(tensor.shape)} in Transformers"
            raise unsupported(f"{parameter.name} is {shapes}")
        with at(parameter.name):
            tensor.data = maker.parameter(parameter)
        held[parameter.name] = tensor
    if theirs:
        missing = ", ".join(sorted(theirs)[:3])
        raise unsupported(f"the graph has no numbers for {len(theirs)} parameters: {missing}")
    return held


def _check_norms(model: PreTrainedModel, epsilon: float) -> None:
    """DistilBERT's class has an epsilon of its own, whatever its configuration says."""
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm) and not math.isclose(
            module.eps, epsilon, rel_tol=1e-6
        ):
            place = type(model).__name__
            raise unsupported(f"{place} adds {module.eps} to variances, and the graph {epsilon}")


def _is_computed(parameter: Parameter) -> bool:
    last = parameter.name.rsplit(".", 1)[-1]
    return last == _COMPUTED[0] or parameter.name.startswith(_COMPUTED[1:])
