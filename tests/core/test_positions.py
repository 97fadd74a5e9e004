"""Ways to say where a word is: each against the library's own, by hand, and by what it leaves alone."""

import math

import numpy as np
import pytest
import torch
from transformers import LlamaConfig
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.t5.modeling_t5 import T5Attention

from attention_core import capture, compute
from attention_core.labs import length, placed_head
from attention_core.labs.placed_head import moved, shuffled
from attention_core.labs.positions import (
    KINDS,
    buckets,
    clipped,
    distances,
    rotated,
    sinusoidal,
    slopes,
    speeds,
    turned_score,
)

TEXT = "The dog bit the man before it ran away"


def test_sinusoidal_by_hand_and_by_distance():
    told = sinusoidal(torch.arange(50.0), 6)
    assert told[7, 0].item() == pytest.approx(math.sin(7))
    assert told[7, 1].item() == pytest.approx(math.cos(7))
    assert told[7, 4].item() == pytest.approx(math.sin(7 / 10_000 ** (4 / 6)))
    products = told @ told.T
    for far in (1, 5, 30):
        along = torch.diagonal(products, far)
        torch.testing.assert_close(along, along[:1].expand_as(along), atol=1e-4, rtol=1e-4)
        assert along[0].item() == pytest.approx(float(np.cos(far * speeds(6).numpy()).sum()), abs=1e-4)


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize(("count", "farthest"), [(32, 128), (16, 50)])
def test_buckets_are_t5s(both, count, farthest):
    far = distances(211)
    expected = T5Attention._relative_position_bucket(far, both, count, farthest)
    assert torch.equal(buckets(far, both=both, count=count, farthest=farthest), expected)


@pytest.mark.parametrize("heads", [1, 6, 8, 9, 12, 16, 71])
def test_slopes_are_blooms(heads):
    expected = build_alibi_tensor(torch.ones(1, 3), heads, torch.float32)[:, 0, 1]
    torch.testing.assert_close(slopes(heads), expected)


def test_slopes_of_eight_heads():
    assert slopes(8).tolist() == [2.0**-n for n in range(1, 9)]


@pytest.mark.parametrize("base", [100.0, 10_000.0])
def test_turns_are_llamas(base):
    config = LlamaConfig(
        hidden_size=42, num_attention_heads=3, rope_parameters={"rope_type": "default", "rope_theta": base}
    )
    query, key = torch.randn(2, 1, 3, 11, 14).unbind()
    places = torch.arange(11)
    cos, sin = LlamaRotaryEmbedding(config)(query, places[None])
    expected = apply_rotary_pos_emb(query, key, cos, sin)
    for one, other in zip((query, key), expected, strict=True):
        torch.testing.assert_close(rotated(one, places.float(), base), other, atol=1e-5, rtol=1e-5)


def test_a_turned_score_knows_the_distance_alone():
    query, key = torch.randn(2, 10, dtype=torch.float64).unbind()
    for m, n in ((0, 0), (5, 3), (40, 97)):
        whole = rotated(query[None], torch.tensor([float(m)])) @ rotated(key[None], torch.tensor([float(n)])).T
        assert turned_score(query, key, torch.tensor([float(m - n)])).item() == pytest.approx(whole.item(), abs=1e-4)
    assert rotated(query[None], torch.tensor([31.0])).norm().item() == pytest.approx(query.norm().item(), abs=1e-5)


def test_odd_features_can_not_be_paired():
    with pytest.raises(ValueError, match="7 are odd"):
        rotated(torch.ones(2, 7), torch.arange(2.0))


def test_clipped_distances():
    assert clipped(torch.tensor([-20, -16, 0, 3, 99])).tolist() == [0, 0, 16, 19, 32]


# A real head


@pytest.mark.parametrize("head", [0, 3, 11])
def test_with_learned_positions_it_is_the_models_own_head(models, head):
    found = compute.run(placed_head.placed_head, TEXT, 512, head, "learned")
    trace = capture(models["minilm"], TEXT).trace(0, head)
    np.testing.assert_allclose(found.weights, trace.weights, atol=1e-6)
    np.testing.assert_allclose(found.scores, trace.final, atol=1e-4)
    np.testing.assert_allclose(found.context, trace.context, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_without_positions_shuffled_words_take_along_the_same(kind):
    before = compute.run(placed_head.placed_head, TEXT, 512, 2, kind)
    order = shuffled(len(before.labels), 5)
    after = compute.run(placed_head.placed_head, TEXT, 512, 2, kind, order)
    assert sorted(after.labels) == sorted(before.labels)
    assert after.labels == tuple(before.labels[n] for n in order)
    np.testing.assert_allclose(after.weights.sum(axis=1), 1, atol=1e-6)
    change = moved(before, after)
    if kind == "none":
        assert change.max() < 1e-6
        np.testing.assert_allclose(after.weights, before.weights[np.ix_(order, order)], atol=1e-6)
    else:
        assert change.max() > 0.01


def test_an_order_leaves_the_ends_and_is_never_the_old_one():
    for seed in range(50):
        order = shuffled(4, seed)
        assert order == (0, 2, 1, 3)
    assert shuffled(3, 1) == (0, 1, 2)
    assert sorted(shuffled(30, 9)) == list(range(30))


@pytest.mark.parametrize("kind", KINDS[1:])
def test_pictures_and_curves_say_the_same(kind):
    square = compute.run(placed_head.picture, kind, 1)
    far, values, (low, high) = compute.run(placed_head.over_distance, kind, 1)
    assert (values >= low - 1e-6).all() and (values <= high + 1e-6).all()
    assert far.tolist() == list(range(-64, 65))
    if kind in ("shaw", "t5", "alibi", "rope"):
        for query, key in ((0, 0), (3, 40), (63, 1)):
            assert square[query, key] == pytest.approx(values[64 + key - query], abs=1e-5)
    if kind in ("sinusoidal", "learned", "rope"):
        assert values[64] == pytest.approx(1, abs=1e-4)
    if kind == "alibi":
        np.testing.assert_allclose(values, -np.abs(far) * float(slopes(12)[1]), rtol=1e-6)


# Small models


def test_answers_are_the_last_letters():
    text, answers = length.texts(3, 20, 1)
    for row, said in zip(text.tolist(), answers.tolist(), strict=True):
        last = -100
        for letter, answer in zip(row, said, strict=True):
            last = letter if letter < length.BLANK else last
            assert answer == last


@pytest.mark.parametrize("kind", length.KINDS)
def test_the_last_places_alone_are_the_same(kind):
    text, _ = length.texts(2, 40, 3)
    whole, last = length.reader(kind)(text), length.reader(kind)(text, last=7)
    torch.testing.assert_close(last, whole[:, -7:], atol=1e-5, rtol=1e-5)
    changed = text.clone()
    changed[:, 30:] = length.BLANK
    torch.testing.assert_close(length.reader(kind)(changed)[:, :30], whole[:, :30], atol=1e-5, rtol=1e-5)  # looks back


@pytest.mark.parametrize("kind", length.KINDS)
def test_all_are_nearly_perfect_where_they_were_trained(kind):
    assert length.accuracy(kind, length.TRAINED) > 0.97


def test_what_the_page_says_of_longer_texts():
    at = {kind: length.accuracy(kind, 128) for kind in length.KINDS}
    assert min(at["alibi"], at["shaw"]) > 0.9
    assert max(at["sinusoidal"], at["learned"], at["rope"]) < 0.5
    assert length.accuracy("rope", 128, stretch=4.0) > 0.9
    assert length.accuracy("rope", 64, base=1e5) > 0.95
    assert length.accuracy("rope", 128, base=1e5) < 0.5
    assert length.accuracy("sinusoidal", 64, stretch=2.0) > length.accuracy("sinusoidal", 64) + 0.5
