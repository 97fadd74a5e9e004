"""Two sentences read together: how much of its weight a head puts on the other one."""

import torch
from jaxtyping import Float
from torch import Tensor

from attention_core import compute
from attention_core.captured import PLAIN, Capture
from attention_core.formula import Formula
from attention_core.inputs import Input


def pair_shares(seen: Capture, layer: int, head: int, formula: Formula = PLAIN) -> Float[Tensor, "2 3"]:
    """Return where the words of each sentence put their weight: on the first, on the second, on special tokens.

    Rows are the two sentences: the mean over their tokens, special tokens left out. Each sums to 1 (less, with a sink);
    NaN for a sentence of which the tokeniser leaves nothing.

    Args:
        seen: The capture of a pair.
        layer: From 0.
        head: From 0.
        formula: What to change in the model's own formula.
    """
    weights = seen.weights(layer, head, formula)
    special = torch.tensor([token.special for token in seen.tokens], device=weights.device)
    second = torch.tensor([token.segment == 1 for token in seen.tokens], device=weights.device)
    sides = [~special & ~second, ~special & second]
    groups = torch.stack([*sides, special]).to(weights)
    return torch.stack([(weights[side] @ groups.mT).mean(dim=0) for side in sides]).cpu()


def shares(
    model: str, asked: Input, limit: int, layer: int, head: int, without: tuple[str, ...] = ()
) -> list[list[float]]:
    """Return :func:`pair_shares` of a head, its formula ``without`` some terms. In the compute thread."""
    formula = compute._changes(without, 1.0)
    return pair_shares(compute._seen(model, asked, limit), layer, head, formula).tolist()
