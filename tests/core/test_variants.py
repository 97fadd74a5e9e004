"""Beyond the square: tiles that end where attention does, patterns by their definition, errors that fall as stated."""

import math

import numpy as np
import pytest
import torch

from attention_core import capture, compute, trace_attention
from attention_core.dot_product import softmax
from attention_core.labs import flash, patterns, variants
from attention_core.labs.patterns import PATTERNS, longest_path, masked, pattern, reach
from attention_core.labs.variants import APPROXIMATIONS, variant

T, D = 29, 7
FACTOR = D**-0.5


@pytest.fixture
def given():
    torch.manual_seed(5)
    return torch.randn(3, T, D).unbind()


# Tiles


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (5, 3), (T, 1), (1, T), (64, 64)])
@pytest.mark.parametrize("causal", [True, False])
def test_the_last_tile_is_attention(given, size, causal):
    q, k, v = given
    allowed = torch.ones(T, T, dtype=torch.bool).tril() if causal else None
    scores = q @ k.T * FACTOR
    found = flash.tiles(scores, v, size, allowed)
    weights = masked(scores, torch.ones_like(scores, dtype=torch.bool) if allowed is None else allowed)
    torch.testing.assert_close(found.context[-1], weights @ v, atol=1e-6, rtol=1e-5)
    closed = scores if allowed is None else scores.masked_fill(~allowed, -torch.inf)
    torch.testing.assert_close(found.maximum[-1], closed.amax(dim=1))
    torch.testing.assert_close(found.total[-1], (closed - found.maximum[-1][:, None]).exp().sum(dim=1))
    assert len(found.rows) == math.ceil(T / size[0]) * math.ceil(T / size[1])
    cover = torch.zeros(T, T, dtype=torch.long)
    for (a, b), (c, d) in zip(found.rows, found.columns, strict=True):
        cover[a:b, c:d] += 1
    assert (cover == 1).all()


def test_every_state_is_attention_over_the_keys_so_far(given):
    q, k, v = given
    scores = q @ k.T * FACTOR
    found = flash.tiles(scores, v, (T, 4))
    for state, (_, last) in enumerate(found.columns):
        torch.testing.assert_close(
            found.context[state], scores[:, :last].softmax(dim=-1) @ v[:last], atol=1e-6, rtol=1e-5
        )
    assert (found.maximum[1:] >= found.maximum[:-1]).all()


def test_a_row_in_which_nothing_is_allowed_is_zero(given):
    _, _, v = given
    found = flash.tiles(torch.zeros(T, T), v, (4, 4), torch.zeros(T, T, dtype=torch.bool))
    assert (found.context == 0).all()
    assert (found.total == 0).all()


@pytest.mark.parametrize("name", ["minilm", "smollm2"])
def test_a_real_head(models, name):
    text = "I ate the cake and it was delicious"
    found = compute.run(flash.head_tiles, name, text, 512, 2, 1, (3, 4))
    own = capture(models[name], text).trace(2, 1)
    torch.testing.assert_close(found.tiles.context[-1], own.context, atol=1e-5, rtol=1e-5)
    assert 0 <= found.difference < 1e-5


def test_what_is_read_and_written_by_hand():
    found = flash.traffic(4096, 64, 2**15)
    assert (found.rows, found.columns) == (64, 128)
    assert found.dense == 4 * 4096 * 64 + 4 * 4096**2
    assert found.tiles == 2 * 4096 * 64 + 32 * (3 * 4096 * 64 + 4 * 4096)
    with pytest.raises(ValueError, match="it takes 256"):
        flash.traffic(4096, 64, 128)
    assert flash.traffic(1, 64, 256).columns == 1
    assert 4 * flash.traffic(16_384, 64, 2**15).dense > 4 * 2**30
    tiles = [flash.traffic(4096, 64, 2**n).tiles for n in range(8, 20)]
    assert tiles == sorted(tiles, reverse=True)  # more room, less to move


# Patterns


def test_patterns_by_their_definition():
    for q in range(T):
        for k in range(T):
            far = q - k
            assert pattern("window", T, 3)[q, k] == (abs(far) <= 3)
            assert pattern("dilated", T, 3)[q, k] == (abs(far) <= 6 and far % 2 == 0)
            assert pattern("strided", T, 4)[q, k] == (far >= 0 and (far < 4 or far % 4 == 0))
            assert pattern("blocks", T, 5)[q, k] == (q // 5 == k // 5)
    assert torch.equal(pattern("window", T, 0), torch.eye(T, dtype=torch.bool))
    assert pattern("window", T, T).all()


def test_what_the_page_says_of_costs():
    for length in (64, 256):  # strided with s = √n: about n·√n
        cells = int(pattern("strided", length, math.isqrt(length)).sum())
        assert length**1.5 < cells < 2 * length**1.5
    wide, narrow = (pattern("dilated", 99, 5).sum(dim=1)[50], pattern("window", 99, 5).sum(dim=1)[50])
    assert wide == narrow  # twice as wide for the same cost


def test_window_and_global_words_are_longformers_mask():
    """Longformer's own: a window on both sides, and global tokens that see all and are seen by all."""
    seen = pattern("bigbird", T, 3, seed=2)
    assert seen[0].all() and seen[:, 0].all()
    more = seen & ~pattern("window", T, 3)
    more[0] = more[:, 0] = False
    assert 0 < int(more.sum(dim=1).max()) <= patterns.RANDOM
    assert torch.equal(seen, pattern("bigbird", T, 3, seed=2))
    assert not torch.equal(seen, pattern("bigbird", T, 3, seed=3))


@pytest.mark.parametrize("side", [2, 3])
def test_a_window_is_longformers(side):
    from transformers import LongformerConfig, LongformerModel

    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 5}
    config = LongformerConfig(vocab_size=31, attention_window=[2 * side], max_position_embeddings=64, **sizes)
    torch.manual_seed(3)
    layer = LongformerModel(config).eval().encoder.layer[0].attention.self
    hidden = torch.randn(1, 6 * side, 12)
    nothing = torch.zeros(1, 6 * side)
    with torch.no_grad():
        theirs = layer(hidden, attention_mask=nothing, is_index_masked=nothing > 0, is_index_global_attn=nothing > 0)[0]
        q, k, v = (of(hidden[0]).unflatten(-1, (2, 6)).transpose(0, 1) for of in (layer.query, layer.key, layer.value))
    for head in range(2):
        ours = masked(q[head] @ k[head].T / 6**0.5, pattern("window", 6 * side, side)) @ v[head]
        torch.testing.assert_close(ours, theirs[0, :, 6 * head : 6 * head + 6], atol=1e-5, rtol=1e-4)


def test_an_empty_row_is_zero(given):
    q, k, _ = given
    allowed = pattern("window", T, 1)
    allowed[4] = False
    weights = masked(q @ k.T, allowed)
    assert (weights[4] == 0).all()
    ours, _ = softmax((q @ k.T)[None], allowed[None])
    torch.testing.assert_close(weights, ours[0])


def test_reach_is_the_shortest_way():
    allowed = pattern("window", 9, 2)
    far = (torch.arange(9)[:, None] - torch.arange(9)[None]).abs()
    layers = torch.where(far <= 2, 1, torch.where(far <= 4, 2, torch.where(far <= 6, 3, 0)))
    assert torch.equal(reach(allowed), layers)
    assert longest_path(allowed) == 4
    assert longest_path(pattern("blocks", 9, 3)) is None
    assert longest_path(pattern("bigbird", 29, 1)) == 2
    assert longest_path(torch.ones(1, 1, dtype=torch.bool)) == 0
    assert longest_path(pattern("dilated", 9, 2)) is None  # even and odd places never meet


def test_a_painted_cross_connects_all():
    allowed = pattern("blocks", 10, 3)
    allowed[4] = allowed[:, 4] = True
    assert longest_path(allowed) == 2


# Errors


@pytest.mark.parametrize(
    ("kind", "number"), [("window", T), ("bigbird", T), ("dilated", 0), ("blocks", T), ("low_rank", T), ("lsh", 1)]
)
def test_with_everything_it_is_exact(given, kind, number):
    found = variant(kind, *given, FACTOR, number)
    torch.testing.assert_close(found.exact, trace_attention(*(of[None] for of in given)).weights[0])
    if kind == "dilated":
        assert found.error > 0.1
    else:
        assert found.error < 1e-5
        torch.testing.assert_close(found.weights, found.exact, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", [*PATTERNS, *APPROXIMATIONS])
def test_rows_sum_to_one_and_the_error_is_that_of_the_context(given, kind):
    found = variant(kind, *given, FACTOR, 8, 3)
    if kind != "low_rank":
        torch.testing.assert_close(found.weights.sum(dim=1), torch.ones(T))
    exact = found.exact @ given[2]
    torch.testing.assert_close(found.context, found.weights @ given[2])
    assert found.error == pytest.approx(float((found.context - exact).norm() / exact.norm()), rel=1e-5)
    assert (found.weights[~found.allowed] == 0).all()


def test_linear_attention_by_hand(given):
    q, k, v = given
    found = variant("linear", q, k, v, FACTOR, 1)
    phi = [torch.where(x > 0, x + 1, x.exp()) for x in (q * FACTOR**0.5, k * FACTOR**0.5)]
    context = phi[0] @ (phi[1].T @ v) / (phi[0] @ phi[1].sum(dim=0))[:, None]
    torch.testing.assert_close(found.context, context, atol=1e-5, rtol=1e-4)


def test_low_rank_is_the_best_there_is(given):
    errors = [torch.linalg.matrix_norm(variant("low_rank", *given, FACTOR, r).weights - _exact(given)) for r in (1, 5)]
    values = torch.linalg.svdvals(_exact(given))
    for rank, error in zip((1, 5), errors, strict=True):  # Eckart and Young
        assert error.item() == pytest.approx(values[rank:].norm().item(), rel=1e-4)


def _exact(given):
    return (given[0] @ given[1].T * FACTOR).softmax(dim=-1)


@pytest.fixture(scope="module")
def real(models):
    """The head that the page shows at first, on its text."""
    from ui.lessons.variants import chapter

    own = capture(models["minilm"], chapter()).layer(0)
    return own.query[0], own.key[0], own.value[0]


def errors(real, kind, numbers, share=1.0, seeds=(1,)):
    found = [[variant(kind, *real, share * 32**-0.5, n, seed).error for seed in seeds] for n in numbers]
    return np.sqrt(np.square(found).mean(axis=1))


def test_errors_fall_with_window_blocks_and_rank(real):
    for kind, numbers in (("window", (0, 2, 8, 32, 128, 300)), ("low_rank", (1, 4, 16, 64, 256))):
        found = errors(real, kind, numbers)
        assert (np.diff(found) < 0).all()
        assert found[-1] < 1e-4
    assert (np.diff(errors(real, "bigbird", (0, 2, 8, 32, 128), seeds=(1, 2, 3))) < 0).all()
    assert (np.diff(errors(real, "lsh", (1, 4, 16, 64), seeds=(1, 2, 3))) > 0).all()  # more buckets look at less


def test_random_features_fall_as_one_over_the_root(real):
    numbers = (128, 256, 512, 1024, 2048)
    found = errors(real, "random_features", numbers, share=0.25, seeds=range(1, 6))
    assert np.polyfit(np.log(numbers), np.log(found), 1)[0] == pytest.approx(-0.5, abs=0.1)
    steep = errors(real, "random_features", numbers, seeds=range(1, 6))
    assert np.polyfit(np.log(numbers), np.log(steep), 1)[0] > -0.3  # large scores: far more slowly


@pytest.mark.parametrize("kind", [*PATTERNS, *APPROXIMATIONS])
def test_what_is_timed_computes_the_same(kind):
    q, k, v = torch.randn(3, T, D, generator=torch.Generator().manual_seed(1)).unbind()
    found = variants._quick(kind, q, k, v, 5)()
    assert found.shape == (T, D)
    if kind in PATTERNS:
        torch.testing.assert_close(found, masked(q @ k.T / D**0.5, pattern(kind, T, 5)) @ v, atol=1e-5, rtol=1e-4)
    if kind == "linear":
        torch.testing.assert_close(found, variant("linear", q, k, v, FACTOR, 1).context, atol=1e-5, rtol=1e-4)
    assert torch.isfinite(found).all()


def test_times_are_times():
    assert all(0 < number < 10 for number in variants.seconds("window", 64, 8, 2))
