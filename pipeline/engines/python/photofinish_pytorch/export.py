"""A network as a program of `torch.export`, for AOTInductor to compile.

Inference: the forward pass. Its parameters are constants of the program, as they are for whoever
exports a module; a package finds them under the names that stand here.

Training: the joint graph of forward and backward pass, which gives the loss and the gradients. All
that it reads is fed to it, parameters too: AOTInductor writes small constants into its code as
numbers, which no optimiser could move. Running statistics are overwritten in place.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram, export
from torch.func import functional_call

from photofinish_pytorch import attention
from photofinish_pytorch.lower import Lowered
from photofinish_pytorch.training import cross_entropy

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True, slots=True)
class Exported:
    """A program, and what whoever runs it must know."""

    program: ExportedProgram
    constants: dict[str, str]
    """The graph's name of each constant, by its name in the program."""
    fed: Sequence[str]
    """Parameters that are fed, in order, before the graph's inputs and its labels."""
    gradients: Sequence[str]
    """Parameters whose gradients are given, in order, after the loss."""
    settings: dict[str, str] = field(default_factory=dict)
    """What of the program is not as the cell has it."""


class _Forward(torch.nn.Module):
    """The forward pass of inference."""

    def __init__(self, network: fx.GraphModule) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: torch.Tensor) -> Tensors:
        outputs: Tensors = self.network(*inputs, False)
        return outputs


class _Loss(torch.nn.Module):
    """The loss of training, as a function of everything."""

    def __init__(self, network: fx.GraphModule, fields: Sequence[str], dropout: bool) -> None:
        super().__init__()
        # In a list, its parameters are none of this module's.
        self._network = [network]
        self._fields = fields
        self._dropout = dropout

    def forward(self, held: Tensors, inputs: Tensors, labels: torch.Tensor) -> torch.Tensor:
        tensors = dict(zip(self._fields, held, strict=True))
        (network,) = self._network
        (logits,) = functional_call(network, tensors, (*inputs, self._dropout))
        return cross_entropy(logits, labels)


def inference(lowered: Lowered, inputs: Tensors) -> Exported:
    """The forward pass over inputs like these."""
    with torch.no_grad():
        program = export(_Forward(lowered.module), inputs)
    names = {f"network.{field}": name for name, field in _fields(lowered).items()}
    return Exported(program, names, (), ())


def training(lowered: Lowered, inputs: Tensors, labels: torch.Tensor, dropout: bool) -> Exported:
    """The joint graph over inputs and labels like these, with dropout or without."""
    idle = _without_gradient(lowered, inputs, labels)
    fields = {name: field for name, field in _fields(lowered).items() if name not in idle}
    moved = [name for name in fields if lowered.held[name].requires_grad]
    held = tuple(
        lowered.held[name].detach().requires_grad_(name in moved)  # a leaf: autograd stops here
        for name in fields
    )
    loss = _Loss(lowered.module, tuple(fields.values()), dropout)
    settings = attention.spell_out(lowered)
    program = _joint(export(loss, (held, inputs, labels)))
    return Exported(program, {}, tuple(fields), moved, settings)


def _joint(program: ExportedProgram) -> ExportedProgram:
    """Forward and backward pass of a program whose one output is the loss.

    Much as `torch.export.experimental._export_forward_backward` does it, which is what
    `torch.export` has of training: it removes calls of `detach` as well, which cost nothing once
    compiled. But it takes fused attention apart as inference may, and hands its weights to the
    backward pass for the logarithms of their sums; that decomposition is left out. Inductor leaves
    the operator whole, too.
    """
    from torch._decomp import core_aten_decompositions
    from torch.export.exported_program import _decompose_exported_program

    table: Any = core_aten_decompositions()
    table.pop(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default)
    joint: ExportedProgram = _decompose_exported_program(
        program,
        cia_to_decomp={},
        python_decomp_table=table,
        joint_loss_index=0,
        decompose_custom_triton_ops=False,
    )
    return joint


def _fields(lowered: Lowered) -> dict[str, str]:
    """What each of the graph's parameters is called in the module."""
    module = lowered.module
    fields = {id(tensor): field for field, tensor in module.named_parameters()}
    fields |= {id(tensor): field for field, tensor in module.named_buffers()}
    return {name: fields[id(tensor)] for name, tensor in lowered.held.items()}


def _without_gradient(lowered: Lowered, inputs: Tensors, labels: torch.Tensor) -> set[str]:
    """Weights on which the loss does not depend: a joint graph may not have them."""
    weights = {name: tensor for name, tensor in lowered.held.items() if tensor.requires_grad}
    (logits,) = lowered.module(*inputs, False)
    loss = cross_entropy(logits, labels)
    found = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
    return {name for name, gradient in zip(weights, found, strict=True) if gradient is None}
