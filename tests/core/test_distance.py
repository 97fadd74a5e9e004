"""Distances between rows and heads, and the map of heads: against scipy, by hand, by identities."""

from types import MappingProxyType

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon

from attention_core import Capture, Formula, capture, compute, distance
from attention_core.distance import (
    align,
    all_distances,
    all_rows,
    distances_of,
    head_distances,
    head_map,
    js_distance,
    js_divergence,
    nearest,
    row_distances,
    scale,
    shipped,
)
from attention_core.heads import marked, pair_weights, pairs_of
from attention_core.interface import LayerAttention
from attention_core.relations import sentences
from attention_core.tokens import Token
from attention_core.views import view_head

LAYERS, HEADS, D = 3, 2, 7


def random_rows(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).mul(3).softmax(dim=-1).double().numpy()


def made(words, formula=Formula(), seed=0):
    """A capture of random heads."""
    draw = torch.Generator().manual_seed(seed)
    layers = tuple(
        LayerAttention(*(torch.randn(HEADS, words, D, generator=draw) for _ in range(3)), formula, "self", "")
        for _ in range(LAYERS)
    )
    tokens = tuple(Token(n, n, "a", "a", n, n + 1, False, False, n) for n in range(words))
    return Capture("a" * words, tokens, (), MappingProxyType({"self": layers}), True)


def test_divergence_and_distance_are_scipy_s():
    p, q = (rows / rows.sum(axis=-1, keepdims=True) for rows in (random_rows(5, 3, 11), random_rows(5, 3, 11, seed=1)))
    expected = jensenshannon(p, q, base=2, axis=-1)
    np.testing.assert_allclose(js_distance(p, q), expected, atol=1e-9)
    np.testing.assert_allclose(js_divergence(p, q), expected**2, atol=1e-12)


def test_divergence_by_hand():
    one, other, half = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]), np.array([[0.5, 0.5]])
    assert js_divergence(one, other) == pytest.approx(1)  # no key in common
    assert js_divergence(half, half) == 0
    # H(¾, ¼) − ½·(0 + 1) = 0.8113 − 0.5
    assert js_divergence(one, half) == pytest.approx(0.3113, abs=1e-4)
    assert js_distance(one, half) == pytest.approx(0.5579, abs=1e-4)
    nothing = np.zeros((1, 2))  # a row in which nothing is allowed
    assert js_divergence(nothing, nothing) == 0


def test_distance_is_one():
    p, q, r = (random_rows(101, 5, seed=seed) for seed in range(3))
    np.testing.assert_allclose(js_distance(p, q), js_distance(q, p))
    assert ((js_distance(p, q) >= 0) & (js_distance(p, q) <= 1)).all()
    assert (js_distance(p, q) + js_distance(q, r) >= js_distance(p, r) - 1e-12).all()
    assert (js_distance(p, p) < 1e-7).all()


def test_words_are_aligned_by_hand():
    bank = ["the", "bank", "and", "the", "money"], ["the", "bank", "of", "the", "river"]
    assert align(*bank) == [(n, n) for n in range(5)]
    assert align(["a", "b", "c"], ["a", "c"]) == [(0, 0), (1, None), (2, 1)]
    assert align(["a", "x", "c"], ["a", "y", "c", "d"]) == [(0, 0), (1, 1), (2, 2), (None, 3)]
    assert align(["a", "x", "y"], ["a", "z"]) == [(0, 0), (1, None), (2, None), (None, 1)]
    assert align([], ["a"]) == [(None, 0)]
    assert align(bank[0], bank[0]) == align(bank[0], bank[1])


def test_row_distances_are_scipy_s_where_all_have_partners():
    p, q = random_rows(5, 7), random_rows(5, 7, seed=1)
    slots = [[(n, n) for n in range(size)] for size in (5, 7)]
    np.testing.assert_allclose(row_distances(p, q, *slots), jensenshannon(p, q, base=2, axis=1), atol=1e-7)


def test_row_distances_by_hand():
    p = np.array([[0.5, 0.5], [1.0, 0.0]])
    q = np.array([[0.5, 0.0, 0.5], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    slots = [(0, 0), (None, 1), (1, 2)]  # the second word was put in
    found = row_distances(p, q, slots, slots)
    np.testing.assert_allclose(found[[0, 2]], [0, 1], atol=1e-7)
    assert np.isnan(found[1])
    other = [(0, 0), (1, None), (None, 1), (None, 2)]  # the second word has no partner: its weight has none either
    assert row_distances(p, q, [(0, 0)], other)[0] == pytest.approx(np.sqrt(0.5))


def test_what_is_hidden_counts_as_one_more_key():
    p, q = np.array([[0.2, 0.3]]), np.array([[0.6, 0.4]])
    slots = [(0, 0)], [(0, 0), (1, 1)]
    expected = jensenshannon([0.2, 0.3, 0.5], [0.6, 0.4, 0], base=2)
    assert row_distances(p, q, *slots)[0] == pytest.approx(expected)
    assert row_distances(np.zeros((1, 1)), np.ones((1, 1)), [(0, 0)], [(0, 0)])[0] == pytest.approx(1)


@pytest.mark.parametrize("formula", [Formula(), Formula(causal=True), Formula(sink=torch.tensor([0.3, -1.0]))])
def test_head_distances_equal_the_obvious_loop(formula):
    captures = [made(words, formula, seed) for seed, words in enumerate((5, 11))]
    found = head_distances(captures)
    heads = [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]
    slow = np.zeros((6, 6))
    for n, one in enumerate(heads):
        for m, other in enumerate(heads):
            rows = []
            for seen in captures:
                a, b = seen.trace(*one), seen.trace(*other)
                for query in range(len(seen.tokens)):
                    sides = [torch.cat([t.weights[query], t.sink[query, None]]).double().numpy() for t in (a, b)]
                    rows.append(0.0 if n == m else jensenshannon(*sides, base=2))
            slow[n, m] = np.mean(np.nan_to_num(rows))
    np.testing.assert_allclose(found, slow, atol=1e-4)  # the weights themselves have six digits
    np.testing.assert_array_equal(found, found.T)
    assert not np.diag(found).any()


def test_pieces_make_no_difference(monkeypatch):
    rows = [all_rows(made(words)) for words in (3, 7)]
    assert [r.shape for r in rows] == [(6, 3, 3), (6, 7, 7)]
    whole, asked = all_distances(rows), []

    def piece(block, rows):
        asked.append(len(block))
        return compute.run(distances_of, block, rows)

    monkeypatch.setattr(distance, "PIECE", 6 * (9 + 49) * 4)
    np.testing.assert_array_equal(all_distances(rows, piece), whole)
    assert asked == [4, 2]


def test_a_sink_is_the_last_key():
    assert all_rows(made(3, Formula(sink=torch.ones(2)))).shape == (6, 3, 4)
    np.testing.assert_allclose(all_rows(made(3, Formula(sink=torch.ones(2)))).sum(-1), 1, atol=1e-6)


def test_heads_that_look_elsewhere_are_as_far_apart_as_can_be():
    rows = np.zeros((3, 2, 2))
    rows[0, :, 0] = rows[1, :, 1] = 1  # the first key, the second key, and once each
    rows[2] = np.eye(2)
    np.testing.assert_allclose(all_distances([rows]), [[0, 1, 0.5], [1, 0, 0.5], [0.5, 0.5, 0]], atol=1e-7)


def test_what_lies_in_a_plane_comes_back():
    places = np.random.default_rng(0).normal(size=(13, 2))
    true = np.linalg.norm(places[:, None] - places, axis=-1)
    found = head_map(true)
    np.testing.assert_allclose(np.linalg.norm(found.places[:, None] - found.places, axis=-1), true, atol=1e-3)
    assert found.stress < 1e-3
    assert found.correlation == pytest.approx(1, abs=1e-5)
    np.testing.assert_array_equal(head_map(true).places, found.places)


def test_stress_and_correlation_equal_their_formulas():
    true = head_distances([made(5)])
    found = head_map(true)
    pairs = [(a, b) for a in range(6) for b in range(a)]
    drawn = np.array([np.linalg.norm(found.places[a] - found.places[b]) for a, b in pairs])
    real = np.array([true[a, b] for a, b in pairs])
    assert found.stress == pytest.approx(np.sqrt(((drawn - real) ** 2).sum() / (real**2).sum()))
    assert found.correlation == pytest.approx(np.corrcoef(drawn, real)[0, 1])
    once = scale(true, None)
    first = np.array([np.linalg.norm(once[a] - once[b]) for a, b in pairs])
    assert found.stress <= np.sqrt(((first - real) ** 2).sum() / (real**2).sum()) + 1e-6


@pytest.mark.parametrize("heads", [1, 2, 3, 5])
def test_few_and_equal_heads_have_a_map(heads):
    for far in (0.0, 0.7):
        found = head_map(far * (1 - np.eye(heads)))
        assert found.places.shape == (heads, 2)
        assert np.isfinite(found.places).all()
        assert np.isnan(found.correlation) or found.correlation <= 1
    if heads == 2:
        assert np.linalg.norm(found.places[0] - found.places[1]) == pytest.approx(0.7)


def test_nearest_by_hand():
    distances = np.array([[0, 0.4, 0.1, 0.4], [0.4, 0, 0.2, 0.3], [0.1, 0.2, 0, 0.9], [0.4, 0.3, 0.9, 0]])
    assert nearest(distances, 0, 3) == [(2, 0.1), (1, 0.4), (3, 0.4)]
    assert nearest(distances, 3, 1) == [(1, 0.3)]
    assert len(nearest(distances, 1, 99)) == 3


def test_shipped_sentences():
    assert len(set(shipped())) == 12
    assert shipped()[0] == sentences("pronoun")[0].text


def test_a_real_model_s_map(models, monkeypatch):
    """What the page says: dots that are near behave alike; it misses the true distances by some part."""
    monkeypatch.setitem(compute._models, "minilm", models["minilm"])
    captures = [capture(models["minilm"], text) for text in shipped()]
    true = head_distances(captures)
    rows = [compute.run(distance.sentence_rows, "minilm", text, 512) for text in shipped()]
    np.testing.assert_allclose(all_distances(rows), true, atol=1e-3)
    found = head_map(true)
    assert found.correlation > 0.8
    assert 0.1 < found.stress < 0.35
    close = [head for head, _ in nearest(true, 71, 6)]
    far = [head for head, _ in nearest(true, 71, 71)[-6:]]
    drawn = np.linalg.norm(found.places - found.places[71], axis=1)
    assert drawn[close].mean() < drawn[far].mean()


def test_second_best_from_it_to_cake(models):
    """FACTS §2: after the best head comes layer 4 head 2 in MiniLM, layer 18 head 1 in SmolLM2."""
    from ui.explorer.compare import SECOND_HEAD

    first = sentences("pronoun")[0]
    for name, model in models.items():
        seen = capture(model, first.text)
        weights = pair_weights([marked(seen, pairs_of(seen, "pronoun", first.query, first.key))])
        second = int(weights.argsort(descending=True)[1])
        assert (second // seen.heads + 1, second % seen.heads + 1) == SECOND_HEAD[name]


def test_a_view_of_a_changed_formula_is_the_capture_s(models, monkeypatch):
    monkeypatch.setitem(compute._models, "smollm2", models["smollm2"])
    text = "the bank of the river"
    seen = compute.run(compute._seen, "smollm2", text, 512)
    for without, temperature in ((("factor",), 1.0), ((), 2.0), (("causal",), 1.0)):
        view = compute.run(compute.view, "smollm2", text, 512, 3, 4, "token", "shown", True, without, temperature)
        mask, scaled = "causal" not in without, "factor" not in without
        formula = Formula(scaled=scaled, temperature=temperature, without=() if mask else ("causal",))
        np.testing.assert_array_equal(view.weights, view_head(seen, 3, 4, formula=formula).weights)
        assert view.causal == mask
        assert (view.weights[0, 1:].sum() > 0) == (not mask)
