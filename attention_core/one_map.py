"""All heads of a text as one map, for the pages: jobs for the compute thread, each short, and what they add up to."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attention_core import aggregate, compute
from attention_core.inputs import Input
from attention_core.views import HeadView, view_map

WAYS = ("layer", "mean", "largest", "rollout", "flow", "norm")


def layer_map(model: str, text: str | Input, limit: int, way: str, layer: int) -> Tensor:
    """Sum up the heads of one layer, from 0, as ``way`` needs it: (Q, K)."""
    seen = compute._seen(model, text, limit)
    return aggregate.head_largest(seen, layer) if way == "largest" else aggregate.head_mean(seen, layer)


def flow_row(maps: Sequence[Tensor], output: int) -> Tensor:
    """Return the flow from one output position to all inputs, (T,)."""
    return aggregate.flow(torch.stack(list(maps)), range(output, output + 1))[0]


def shown(
    model: str, text: str | Input, limit: int, way: str, maps: Sequence[Tensor], layer: int, head: int, *, first: bool
) -> HeadView:
    """Add up and prepare for showing.

    Args:
        model: Its name.
        text: What was read.
        limit: How many tokens at most.
        way: One of ``WAYS``.
        maps: Each layer's ``layer_map``; for "layer" that of the one layer; for "flow" the rows; for "norm" nothing.
        layer: From 0; matters to "norm".
        head: From 0; matters to "norm".
        first: Whether the first token is shown among the keys.

    Raises:
        LookupError: If the model's W_O is needed and can't be found.
        ValueError: If there is no such way, or it does not go with cross-attention.
    """
    seen = compute._seen(model, text, limit)
    if way == "norm":
        lengths = aggregate.value_norms(seen, compute._model(model).module, layer, head)
        found = lengths / lengths.sum(dim=-1, keepdim=True).clamp_min(1e-12)
    else:
        combine = {
            "layer": aggregate.mean,
            "mean": aggregate.mean,
            "largest": aggregate.largest,
            "rollout": aggregate.rollout,
            "flow": lambda rows: rows,
        }
        if way not in combine:
            raise ValueError(f"the ways are {', '.join(WAYS)}, not {way!r}")
        if way in ("rollout", "flow") and seen.kinds[0] == "cross":
            raise ValueError(f"{way} follows one text through the layers; cross-attention looks at another text")
        found = combine[way](torch.stack(list(maps)))
    found = found.to(seen.weights(0, 0).device)
    sunk = way in ("layer", "mean") and seen.scores and any(of.formula.sink is not None for of in seen._layers(None))
    return view_map(seen, found, first=first, sink=(1 - found.sum(dim=-1)).clamp_min(0) if sunk else None)
