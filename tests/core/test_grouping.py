import pytest
import torch

from attention_core import Formula, trace_attention
from attention_core.grouping import QUERY_BLOCK, group_weights, grouped_attention, tiles


def slow(weights, queries, keys):
    """Group in the slowest, most obvious way."""
    result = torch.zeros(int(queries[-1]) + 1, int(keys[-1]) + 1, dtype=weights.dtype)
    for a in range(result.shape[0]):
        for b in range(result.shape[1]):
            rows = [i for i, group in enumerate(queries.tolist()) if group == a]
            columns = [j for j, group in enumerate(keys.tolist()) if group == b]
            result[a, b] = sum(sum(weights[i, j] for j in columns) for i in rows) / len(rows)
    return result


def test_group_weights_equals_the_obvious_loops():
    weights = torch.randn(5, 7, dtype=torch.float64).softmax(dim=-1)
    queries, keys = torch.tensor([0, 0, 1, 2, 2]), torch.tensor([0, 1, 1, 1, 2, 3, 3])
    torch.testing.assert_close(group_weights(weights, queries, keys), slow(weights, queries, keys))


@pytest.mark.parametrize(
    "formula",
    [
        Formula(),
        Formula(causal=True),
        Formula(causal=True, window=37),
        Formula(scaled=False, causal=True),
        Formula(softcap=3.0),
        Formula(sink=torch.tensor([1.5])),
        Formula(causal=True, temperature=0.5),
    ],
    ids=["plain", "causal", "window", "unscaled", "softcap", "sink", "temperature"],
)
def test_blocks_equal_the_whole_matrix(formula, device, monkeypatch):
    monkeypatch.setattr("attention_core.grouping.KEY_BLOCK", 61)  # so that several blocks meet in each row
    tokens = 2 * QUERY_BLOCK + 31
    q, k = torch.randn(2, 1, tokens, 13, device=device)
    numbers = tiles(tokens, 29)
    grouped, sinks = grouped_attention(q, k, formula, numbers, numbers)
    trace = trace_attention(q, k, k, formula).head(0)
    torch.testing.assert_close(grouped, group_weights(trace.weights, numbers, numbers), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(grouped.sum(dim=-1) + sinks, torch.ones(29, device=device))


def test_bias_and_mask_tensors_are_cut_into_blocks(monkeypatch):
    monkeypatch.setattr("attention_core.grouping.KEY_BLOCK", 61)
    tokens = QUERY_BLOCK + 31
    q, k = torch.randn(2, 1, tokens, 5)
    allowed = torch.rand(1, tokens, tokens) > 0.5
    allowed[:, 3] = False
    formula = Formula(bias=torch.randn(1, tokens, tokens), allowed=allowed)
    numbers = torch.arange(tokens)
    grouped, _ = grouped_attention(q, k, formula, numbers, numbers)
    torch.testing.assert_close(grouped, trace_attention(q, k, k, formula).weights[0], atol=1e-6, rtol=1e-5)
    assert grouped[3].abs().max() == 0


def test_tiles():
    assert tiles(7, 3).tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert tiles(2, 9).tolist() == [0, 1]
