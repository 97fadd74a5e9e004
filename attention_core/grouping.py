"""Words, sentences and tiles: a group of keys gets the sum of its weights, a group of queries the mean of its rows.

So rows still sum to 1. Groups are runs of neighbouring positions, written as one number a position: 0, 0, 1, 2, 2 …
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_core.dot_product import scores
from attention_core.formula import Formula

QUERY_BLOCK, KEY_BLOCK = 128, 1024  # a block of scores stays in the processor's cache (half a megabyte)


def tiles(positions: int, count: int) -> Int[Tensor, " T"]:
    """Cut positions into at most ``count`` tiles of the same size; the last may be smaller."""
    size = -(-positions // count)
    return torch.arange(positions) // size


def group_weights(
    weights: Float[Tensor, "Q K"], queries: Int[Tensor, " Q"], keys: Int[Tensor, " K"]
) -> Float[Tensor, "A B"]:
    """Group weights that are already there: sum over the keys of a group, mean over its queries."""
    return _mean_rows(_sum_columns(weights, keys), queries)


def grouped_attention(
    query: Float[Tensor, "1 Q D"],
    key: Float[Tensor, "1 K D"],
    formula: Formula,
    queries: Int[Tensor, " Q"],
    keys: Int[Tensor, " K"],
) -> tuple[Float[Tensor, "A B"], Float[Tensor, " A"]]:
    """Compute one head's grouped weights without ever holding queries × keys.

    Each block of scores meets its row's largest score so far; when a larger one comes, what was summed before is scaled
    down to it. The result is exact.

    Args:
        query: Queries of one head.
        key: Keys of one head.
        formula: The head's own formula.
        queries: The group of each query, as written above.
        keys: The group of each key.

    Returns:
        The grouped weights, and the mean share of the sink in each group of queries.

    Source: the running maximum and sum of Dao et al. 2022 (FlashAttention), applied to sums over groups.
    """
    positions, others = query.shape[1], key.shape[1]
    queries, keys = queries.to(query.device), keys.to(query.device)
    rows = []
    for start in range(0, positions, QUERY_BLOCK):
        block = range(start, min(start + QUERY_BLOCK, positions))
        rows.append(_rows(query[:, block.start : block.stop], key, formula, block, keys, others))
    sums, sinks = (torch.cat(parts) for parts in zip(*rows, strict=True))
    return _mean_rows(sums, queries), _mean_rows(sinks[:, None], queries)[:, 0]


def _rows(
    query: Float[Tensor, "1 q D"],
    key: Float[Tensor, "1 K D"],
    formula: Formula,
    block: range,
    keys: Tensor,
    others: int,
) -> tuple[Float[Tensor, "q B"], Float[Tensor, " q"]]:
    groups = int(keys[-1]) + 1
    precise = torch.promote_types(query.dtype, torch.float32)
    shape, device = (query.shape[1], 1), query.device
    largest = torch.full(shape, -torch.inf, dtype=precise, device=device)
    sink_sum = torch.zeros(shape, dtype=precise, device=device)
    if (sink := formula.term("sink")) is not None:
        largest, sink_sum = torch.full_like(largest, sink.item()), sink_sum + 1
    sums = torch.zeros(query.shape[1], groups, dtype=precise, device=device)
    for start in range(0, others, KEY_BLOCK):
        span = range(start, min(start + KEY_BLOCK, others))
        if not formula.sees(block, span):
            continue
        part = slice(span.start, span.stop)
        _, scaled, steps, allowed = scores(query, key[:, part], formula.block(block, span, device))
        final = (steps[-1].scores if steps else scaled)[0].masked_fill(~allowed[0], -torch.inf)
        higher = torch.maximum(largest, final.amax(dim=-1, keepdim=True))
        safe = higher.masked_fill(higher == -torch.inf, 0.0)  # a row that has seen nothing yet
        shrink = (largest - safe).exp()
        sums *= shrink
        sink_sum *= shrink
        sums.index_add_(1, keys[part], (final - safe).exp_())
        largest = higher
    total = sums.sum(dim=-1, keepdim=True) + sink_sum
    total = total.masked_fill(total == 0, 1.0)  # nothing allowed: the row stays zero
    return sums / total, (sink_sum / total)[:, 0]


def _sum_columns(weights: Float[Tensor, "Q K"], keys: Int[Tensor, " K"]) -> Float[Tensor, "Q B"]:
    return weights.new_zeros(len(weights), int(keys[-1]) + 1).index_add_(1, keys.to(weights.device), weights)


def _mean_rows(rows: Float[Tensor, "Q B"], queries: Int[Tensor, " Q"]) -> Float[Tensor, "A B"]:
    counts = queries.bincount().to(rows)
    return rows.new_zeros(len(counts), rows.shape[1]).index_add_(0, queries.to(rows.device), rows) / counts[:, None]
