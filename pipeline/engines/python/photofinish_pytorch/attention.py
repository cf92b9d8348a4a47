"""Fused attention, where PyTorch's compiler cannot train it."""

import torch
from torch.nn.functional import scaled_dot_product_attention

from photofinish_pytorch.lower import Lowered


def spell_out(lowered: Lowered) -> dict[str, str]:
    """Has a network that is to be compiled for training in binary64 compute attention as PyTorch's
    own products: Inductor takes the sums of the fused kernel for numbers in binary32. Gives what a
    cell's page tells of it, and does and tells nothing where there is nothing of the kind."""
    moved = (tensor for tensor in lowered.held.values() if tensor.requires_grad)
    trains_wide = any(tensor.dtype == torch.float64 for tensor in moved)
    nodes = lowered.module.graph.nodes
    fused = [node for node in nodes if node.target is scaled_dot_product_attention]
    if not (trains_wide and fused):
        return {}
    for node in fused:
        node.target = _products
    lowered.module.recompile()
    return {"attention": "as products, since it trains in fp64"}


def _products(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, is_causal: bool
) -> torch.Tensor:
    attended: torch.Tensor
    attended, _ = torch.ops.aten._scaled_dot_product_attention_math(
        query, key, value, is_causal=is_causal
    )
    return attended
