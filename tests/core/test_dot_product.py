import math

import jaxtyping
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from attention_core import Formula, trace_attention

H, G, Q, K, D, V = 6, 3, 5, 7, 11, 13  # no axis can stand in for another


def qkv(heads=H, groups=G, dtype=torch.float64):
    return (
        torch.randn(heads, Q, D, dtype=dtype),
        torch.randn(groups, K, D, dtype=dtype),
        torch.randn(groups, K, V, dtype=dtype),
    )


def test_equals_torch_with_grouped_heads_and_a_mask(device):
    q, k, v = (tensor.to(device) for tensor in qkv(dtype=torch.float32))
    allowed = torch.rand(1, Q, K, device=device) > 0.3
    allowed[..., 0] = True
    context = trace_attention(q, k, v, Formula(allowed=allowed)).context
    wide_k, wide_v = (t.repeat_interleave(H // G, dim=0) for t in (k, v))
    torch.testing.assert_close(context, scaled_dot_product_attention(q, wide_k, wide_v, attn_mask=allowed))


def test_by_hand():
    # q·k = √2 · √2·ln 3 = 2 ln 3 for the first key, 0 for the second; ÷ √2 leaves weights 3 : 1 with √2 · ln 3.
    q = torch.tensor([[[1.0, 0.0]]])
    k = torch.tensor([[[math.sqrt(2) * math.log(3), 0.0], [0.0, 0.0]]])
    v = torch.tensor([[[4.0, 0.0], [0.0, 8.0]]])
    trace = trace_attention(q, k, v)
    torch.testing.assert_close(trace.raw, torch.tensor([[[math.sqrt(2) * math.log(3), 0.0]]]))
    torch.testing.assert_close(trace.scaled, torch.tensor([[[math.log(3), 0.0]]]))
    torch.testing.assert_close(trace.weights, torch.tensor([[[0.75, 0.25]]]))
    torch.testing.assert_close(trace.context, torch.tensor([[[3.0, 2.0]]]))


def test_rows_sum_to_one():
    trace = trace_attention(*qkv())
    assert trace.weights.shape == (H, Q, K)
    torch.testing.assert_close(trace.weights.sum(dim=-1), torch.ones(H, Q, dtype=torch.float64))


def test_permuting_the_input_permutes_the_output():
    x = torch.randn(2, Q, D)
    order = torch.randperm(Q)
    straight, mixed = trace_attention(x, x, x), trace_attention(x[:, order], x[:, order], x[:, order])
    torch.testing.assert_close(mixed.context, straight.context[:, order])
    torch.testing.assert_close(mixed.weights, straight.weights[:, order][:, :, order])


def test_head_reads_its_group():
    q, k, v = qkv()
    trace = trace_attention(q, k, v)
    for head in range(H):
        alone = trace_attention(q[head : head + 1], k[[head // (H // G)]], v[[head // (H // G)]])
        torch.testing.assert_close(trace.head(head).weights, alone.weights[0])
        torch.testing.assert_close(trace.head(head).context, alone.context[0])


def test_nothing_allowed_is_zero_and_never_nan():
    q, k, v = qkv()
    allowed = torch.ones(1, Q, K, dtype=torch.bool)
    allowed[0, 2] = False
    trace = trace_attention(q, k, v, Formula(allowed=allowed))
    assert trace.weights[:, 2].abs().max() == 0
    assert trace.context[:, 2].abs().max() == 0
    torch.testing.assert_close(trace.weights[:, 3].sum(dim=-1), torch.ones(H, dtype=torch.float64))


def test_causal_and_window():
    x = torch.randn(1, 6, D)
    weights = trace_attention(x, x, x, Formula(causal=True, window=3)).weights[0]
    assert ((weights > 0).sum(dim=-1) == torch.tensor([1, 2, 3, 3, 3, 3])).all()
    assert (weights.triu(1) == 0).all()
    everything = trace_attention(x, x, x, Formula(causal=True, window=3, without=["window", "causal"]))
    assert (everything.weights > 0).all()


def test_half_precision_scores_are_float32():
    q = torch.full((1, 1, 128), 24.0, dtype=torch.float16)
    trace = trace_attention(q, q, q)
    assert trace.raw.dtype == torch.float32
    assert trace.raw.item() == 73728


def test_huge_scores_do_not_overflow():
    q = torch.full((1, 2, 3), 1e18)
    assert torch.isfinite(trace_attention(q, q, q).weights).all()


def test_extra_terms_are_steps_of_their_own():
    q, k, v = qkv()
    bias = torch.randn(H, Q, K, dtype=torch.float64)
    trace = trace_attention(q, k, v, Formula(factor=0.5, softcap=2.0, bias=bias, temperature=4.0))
    assert [step.name for step in trace.steps] == ["softcap", "bias", "temperature"]
    raw = q @ k.repeat_interleave(H // G, dim=0).mT
    expected = ((raw * 0.5 / 2).tanh() * 2 + bias) / 4
    torch.testing.assert_close(trace.final, expected)
    torch.testing.assert_close(trace.weights, expected.softmax(dim=-1))
    without = trace_attention(q, k, v, Formula(factor=0.5, softcap=2.0, bias=bias, without=("softcap", "bias")))
    assert without.steps == ()
    torch.testing.assert_close(without.weights, (raw * 0.5).softmax(dim=-1))


def test_a_sink_takes_its_share():
    q, k, v = qkv()
    sink = torch.randn(H, dtype=torch.float64)
    trace = trace_attention(q, k, v, Formula(sink=sink))
    torch.testing.assert_close(trace.weights.sum(dim=-1) + trace.sink, torch.ones(H, Q, dtype=torch.float64))
    expected = sink.exp()[:, None] / (trace.final.exp().sum(dim=-1) + sink.exp()[:, None])
    torch.testing.assert_close(trace.sink, expected)


def test_unscaled():
    q, k, v = qkv()
    trace = trace_attention(q, k, v, Formula(scaled=False))
    assert trace.factor == 1
    torch.testing.assert_close(trace.scaled, trace.raw)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (((5, 3, 4), (2, 3, 4), (2, 3, 4)), "5 query heads .* 2 key-value heads"),
        (((2, 3, 4), (2, 3, 5), (2, 3, 5)), "4 features and a key 5"),
        (((2, 3, 4), (2, 3, 4), (2, 7, 4)), r"\(2, 3\) and values \(2, 7\)"),
    ],
)
def test_sizes_that_do_not_fit_are_named(shapes, words, unchecked):
    with pytest.raises(ValueError, match=words):
        trace_attention(*(torch.randn(shape) for shape in shapes))


@pytest.fixture
def unchecked():
    """Switch off the types that only tests check, so that the product's own message is met."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def test_formula_refuses_nonsense():
    with pytest.raises(ValueError, match="temperature must be above 0"):
        Formula(temperature=0.0)
    with pytest.raises(ValueError, match="nonsense"):
        Formula(without=["nonsense"])


def test_changes_keep_the_rest_of_the_formula():
    own = Formula(factor=0.25, causal=True)
    changed = own.changed(Formula(scaled=False))
    assert (changed.scaled, changed.factor, changed.causal) == (False, 0.25, True)
    assert own.changed(Formula()) == own
