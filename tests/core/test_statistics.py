"""Every statistic against a slow, obvious loop, by hand and by identity; every role of the rule; the repeated text."""

import math
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import pytest
import torch

from attention_core import Capture, capture, compute
from attention_core.dot_product import trace_attention
from attention_core.formula import Formula
from attention_core.interface import LayerAttention
from attention_core.statistics import (
    BROAD,
    ON_REPEATED,
    ON_TEXT,
    PIECE,
    REPEAT,
    ROLES,
    SHARES,
    STATISTICS,
    Measured,
    draw,
    join,
    judge,
    measure,
    measure_repeated,
    on_repeated,
    on_text,
    piece,
    pieces,
    repeat,
    repeated_piece,
    survey,
)
from attention_core.tokens import Token
from attention_core.views import thumbnails

RUNNING = "I ate the cake and it was delicious"


def token(index: int, text: str, number: int = -1) -> Token:
    special = text.startswith("[") and len(text) > 1
    return Token(index, index if number < 0 else number, text, text, 0, 0, special, special, index)


def tokens(*texts: str) -> tuple[Token, ...]:
    return tuple(token(n, text) for n, text in enumerate(texts))


def made(layers: int, heads: int, size: int, formula: Formula, texts: tuple[Token, ...], groups: int = 1) -> Capture:
    """A capture of random queries and keys."""
    length = len(texts)
    kept = tuple(
        LayerAttention(
            3 * torch.randn(heads, length, size),
            torch.randn(groups, length, size),
            torch.randn(groups, length, 2),
            formula,
            "self",
            "",
        )
        for _ in range(layers)
    )
    return Capture("", texts, (), MappingProxyType({"self": kept}), True)


def slow(weights: np.ndarray, allowed: np.ndarray, texts: tuple[Token, ...]) -> dict[str, float]:
    """Every statistic, cell by cell, as its definition says it."""
    size = len(texts)
    rows: dict[str, list[float]] = {name: [] for name in ON_TEXT}
    for q in range(size):
        row = weights[q]
        if not any(allowed[q]):
            continue
        rows["entropy"].append(-sum(w * math.log(w) for w in row if w > 0))
        rows["largest"].append(max(row))
        rows["distance"].append(sum(row[k] * abs(q - k) for k in range(size)))
        for name, k in (("previous", q - 1), ("same", q), ("next", q + 1)):
            if 0 <= k < size and allowed[q][k]:
                rows[name].append(row[k])
        if q > 0 and allowed[q][0]:
            rows["first"].append(row[0])
        for name, kind in (("separator", lambda t: t.special), ("punctuation", lambda t: t.text in (".", ",", "?"))):
            marked = [k for k in range(size) if kind(texts[k])]
            if not kind(texts[q]) and any(allowed[q][k] for k in marked):
                rows[name].append(sum(row[k] for k in marked))
    return {name: float(np.mean(found)) if found else math.nan for name, found in rows.items()}


SENTENCE = tokens("[CLS]", "so", ",", "it", "is", ".", "or", "not", "?", "yes", "[SEP]")
NOWHERE = torch.ones(1, 11, 11, dtype=torch.bool)
NOWHERE[0, 3] = False


@pytest.mark.parametrize(
    "formula",
    [Formula(), Formula(causal=True), Formula(causal=True, window=3), Formula(allowed=NOWHERE)],
    ids=["plain", "causal", "window", "a row that looks nowhere"],
)
def test_statistics_equal_a_slow_loop(formula):
    seen = made(3, 6, 5, formula, SENTENCE, groups=2)
    found = survey(seen)
    for layer in range(3):
        for head in range(6):
            trace = seen.trace(layer, head)
            expected = slow(trace.weights.double().numpy(), trace.allowed.numpy(), SENTENCE)
            np.testing.assert_allclose(found.values[:9, layer, head], list(expected.values()), atol=1e-5)
        allowed = seen.trace(layer, 0).allowed.double().numpy()
        even = allowed / np.maximum(allowed.sum(1, keepdims=True), 1)
        np.testing.assert_allclose(found.even[:9, layer], list(slow(even, allowed, SENTENCE).values()), atol=1e-5)
    assert found.values.shape == (len(STATISTICS), 3, 6)
    assert np.isnan(found.values[9:]).all()  # nothing was read twice


def test_a_sink_takes_its_share():
    seen = made(1, 3, 5, Formula(sink=torch.tensor([0.0, 1.0, 2.0])), SENTENCE)
    found = survey(seen)
    for head in range(3):
        trace = seen.trace(0, head)
        expected = slow(trace.weights.double().numpy(), trace.allowed.numpy(), SENTENCE)
        np.testing.assert_allclose(found.values[:9, 0, head], list(expected.values()), atol=1e-5)


def test_statistics_by_hand():
    weights = torch.tensor([[0.5, 0.25, 0.25], [0, 1, 0], [0.2, 0.3, 0.5]])[None]
    found = on_text(weights, torch.ones(3, 3, dtype=torch.bool), *[tokens("[CLS]", "cake", ".")] * 2)
    expected = {
        "entropy": (1.5 * math.log(2) + 0 - 0.2 * math.log(0.2) - 0.3 * math.log(0.3) - 0.5 * math.log(0.5)) / 3,
        "largest": (0.5 + 1 + 0.5) / 3,
        "previous": (0 + 0.3) / 2,
        "same": (0.5 + 1 + 0.5) / 3,
        "next": (0.25 + 0) / 2,
        "first": (0 + 0.2) / 2,
        "separator": (0 + 0.2) / 2,  # the rows of "cake" and "."
        "punctuation": (0.25 + 0) / 2,  # the rows of [CLS] and "cake"
        "distance": ((0.25 + 2 * 0.25) + 0 + (2 * 0.2 + 0.3)) / 3,
    }
    assert list(expected) == list(ON_TEXT)
    torch.testing.assert_close(found[:, 0], torch.tensor(list(expected.values())))


def test_statistics_by_identity():
    size = 7
    allowed, texts = torch.ones(size, size, dtype=torch.bool), tokens("[CLS]", *"abcd", ",", "[SEP]")
    even = on_text(torch.full((1, size, size), 1 / size), allowed, texts, texts)[:, 0]
    expected = [math.log(size), *[1 / size] * 5, 2 / size, 1 / size, (size**2 - 1) / (3 * size)]
    torch.testing.assert_close(even, torch.tensor(expected))
    for step, name in ((-1, "previous"), (0, "same"), (1, "next")):
        only = torch.eye(size).roll(step, dims=-1)[None]
        found = dict(zip(ON_TEXT, on_text(only, allowed, texts, texts)[:, 0].tolist(), strict=True))
        assert (found[name], found["largest"], found["entropy"]) == (1, 1, 0)


def test_what_a_model_can_not_do_is_not_a_number():
    found = survey(made(2, 3, 5, Formula(causal=True), tokens("a", "b", "c", "d", "e")))
    missing = {name for name, value in zip(STATISTICS, found.values, strict=True) if np.isnan(value).all()}
    assert missing == {"next", "separator", "punctuation", *ON_REPEATED}
    alone = survey(made(2, 3, 5, Formula(causal=True), tokens("cake")))
    known = {name: value for name, value in zip(STATISTICS, alone.values, strict=True) if not np.isnan(value).any()}
    assert {name: value.max() for name, value in known.items()} == {
        "entropy": 0,
        "largest": 1,
        "same": 1,
        "distance": 0,
    }
    assert {ROLES[n] for n in alone.roles.ravel()} == {"mixed"}  # it can't do otherwise, so that is no role


def test_repeated_by_hand():
    texts = tuple(token(n, "x", number) for n, number in enumerate((101, 7, 5, 3, 7, 5, 3, 102)))
    allowed = torch.ones(8, 8, dtype=torch.bool)
    weights = torch.zeros(2, 8, 8)
    weights[0, 4, 2], weights[0, 5, 3], weights[0, 6, 4] = 0.9, 0.6, 0.3  # the token after the first occurrence
    weights[1, 4, 1], weights[1, 5, 2], weights[1, 6, 3] = 0.5, 0.4, 0.3  # the first occurrence
    found = on_repeated(weights, allowed, texts)
    torch.testing.assert_close(found, torch.tensor([[0.6, 0.0], [0.0, 0.4]]))


def test_repeated_equals_a_slow_loop():
    numbers = [9, 4, 7, 2, 5, 9, 4, 7, 2, 5, 4]
    texts = tuple(token(n, "x", number) for n, number in enumerate(numbers))
    seen = made(2, 3, 5, Formula(causal=True), texts)
    found = survey(seen, seen).values[9:]
    for layer in range(2):
        for head in range(3):
            weights, after, same = seen.weights(layer, head).numpy(), [], []
            for q in range(11):
                before = [k for k in range(q) if numbers[k] == numbers[q]]
                if before:
                    same.append(weights[q, before[0]])
                    after.append(weights[q, before[0] + 1])
            np.testing.assert_allclose(found[:, layer, head], [np.mean(after), np.mean(same)], atol=1e-6)


def test_pieces_are_the_whole():
    seen = made(2, 7, 5, Formula(causal=True), SENTENCE)
    whole, parts = measure(seen, 1, range(7), 4), [measure(seen, 1, range(n, min(n + 3, 7)), 4) for n in (0, 3, 6)]
    for one, other in zip(whole, join(parts), strict=True):
        torch.testing.assert_close(one, other, equal_nan=True)
    assert whole.pictures.shape == (7, 4, 4)


@pytest.mark.parametrize(("heads", "length"), [(12, 512), (25, 512), (9, 256), (3, 4000)])
def test_pieces_are_short_and_have_every_head_once(heads, length):
    cut = pieces(heads, length)
    assert [head for span in cut for head in span] == list(range(heads))
    assert all(len(span) * length**2 <= PIECE or len(span) == 1 for span in cut)


@pytest.mark.parametrize(("length", "size"), [(11, 64), (11, 4), (64, 64), (67, 13)])
def test_pictures_are_the_thumbnails(length, size):
    seen = made(1, 3, 5, Formula(causal=True), tokens(*["a"] * length))
    own = seen.layer(0)
    found = draw(trace_attention(own.query, own.key, own.value, own.formula).weights, size)
    assert max(found.shape[1:]) <= size
    assert np.abs(found.numpy().astype(int) - thumbnails(seen, 0, size)).max() <= 1


def judged(**shares: float) -> tuple[str, float]:
    """The role of one head, of which the rest is nothing; even weights would give a tenth, entropy 2."""
    values = torch.tensor([[shares.get(name, 0.0)] for name in STATISTICS])
    even = torch.tensor([{"entropy": 2.0}.get(name, 0.1) for name in STATISTICS])
    nothing = torch.zeros(0, 0, 0, dtype=torch.uint8)
    found = judge([Measured(values[:9], even[:9], nothing)], [Measured(values[9:], even[9:], nothing)])
    return ROLES[found.roles[0, 0]], pytest.approx(float(found.evidence[0, 0]))


def test_every_role_of_the_rule():
    for name in SHARES:
        assert judged(**{name: 0.5}) == (name, 0.5)
        assert judged(**{name: 0.49}) == ("mixed", 0.49)
    for rare, common in pairwise(SHARES):
        assert judged(**{rare: 0.6, common: 0.9}) == (rare, 0.6)
    assert judged(entropy=2 * BROAD + 0.01) == ("broad", (2 * BROAD + 0.01) / 2)
    assert judged(entropy=2 * BROAD - 0.01)[0] == "mixed"
    assert judged(entropy=1.9, first=0.5)[0] == "first"
    assert set(ROLES) == {*SHARES, "broad", "mixed"}


def test_half_is_not_enough_where_equal_weights_give_as_much():
    nothing = torch.zeros(0, 0, 0, dtype=torch.uint8)
    for chance, role in ((0.25, "same"), (0.375, "mixed")):
        values, even = torch.full((9, 1), torch.nan), torch.full((9,), torch.nan)
        values[STATISTICS.index("same")], even[STATISTICS.index("same")] = 0.625, chance
        found = judge([Measured(values, even, nothing)], [])
        assert ROLES[found.roles[0, 0]] == role
        assert found.evidence[0, 0] == pytest.approx(0.625)
        assert np.isnan(found.values[9:]).all()


@pytest.mark.parametrize("name", ["minilm", "smollm2"])
def test_random_tokens_come_twice(models, name):
    seen = repeat(models[name])
    ids = [t.id for t in seen.tokens]
    added = {"minilm": (1, 1), "smollm2": (0, 0)}[name]
    assert len(ids) == 2 * REPEAT + sum(added)
    once, again = ids[added[0] :][:REPEAT], ids[added[0] + REPEAT :][:REPEAT]
    assert once == again
    assert len(set(once)) == REPEAT
    assert not set(once) & set(models[name].tokenizer.all_special_ids)
    assert [t.id for t in repeat(models[name]).tokens] == ids
    assert [t.id for t in repeat(models[name], seed=1).tokens] != ids
    assert [t.id for t in repeat(models[name], length=5).tokens] == [
        *ids[: added[0]],
        *once[:5] * 2,
        *ids[-added[1] :][: added[1]],
    ]


def test_real_heads(models):
    """What the page's texts say of the two models, and that the famous kinds of heads are found."""
    small, large = (capture(models[name], RUNNING) for name in ("minilm", "smollm2"))
    assert small.tokens[0].label == "[CLS]"
    assert not any(t.special for t in large.tokens)
    found = survey(large, repeat(models["smollm2"]))
    roles = [ROLES[n] for n in found.roles.ravel()]
    assert roles.count("induction") >= 3
    assert roles.count("previous") >= 3
    assert roles.count("first") > len(roles) / 2
    assert not {"next", "separator"} & set(roles)
    best = divmod(int(found.values[STATISTICS.index("induction")].argmax()), large.heads)
    assert found.evidence[best] == pytest.approx(0.9, abs=0.05)
    assert ROLES[found.roles[best]] == "induction"
    weights = repeat(models["smollm2"])
    torch.testing.assert_close(
        measure_repeated(weights, best[0], range(best[1], best[1] + 1)).values[0, 0],
        torch.stack([weights.weights(*best)[REPEAT + n, n + 1] for n in range(REPEAT)]).mean(),
    )


def test_jobs_give_the_same(models):
    seen = capture(models["minilm"], RUNNING)
    for one, other in zip(
        compute.run(piece, "minilm", RUNNING, 512, 2, range(1, 4)), measure(seen, 2, range(1, 4), 64), strict=True
    ):
        torch.testing.assert_close(one, other, equal_nan=True)
    again = compute.run(repeated_piece, "minilm", 2)
    torch.testing.assert_close(again.values, measure_repeated(repeat(models["minilm"]), 2, range(12)).values)
