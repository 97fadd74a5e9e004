from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from attention_core import Capture, Formula, Token, capture
from attention_core.grouping import tiles
from attention_core.interface import LayerAttention
from attention_core.views import SPECIALS, THUMBNAIL, UNITS, thumbnails, view_head, view_map

HEADS, GROUPS, D, V = 6, 3, 11, 13
TEXT = "embeds cats"
SPECIAL = (True, False, False, False, True)
WORDS = (0, 1, 1, 2, 3)
FORMULAS = {
    "plain": Formula(),
    "causal": Formula(causal=True),
    "sink": Formula(sink=torch.linspace(-1, 2, HEADS)),
    "capped": Formula(softcap=2.0, bias=torch.linspace(-1, 1, 25).view(1, 5, 5)),
}


def tokens():
    spans = {"[CLS]": (0, 0), "em": (0, 2), "##beds": (2, 6), "cats": (7, 11), "[SEP]": (0, 0)}
    return tuple(
        Token(index, 100 + index, piece, TEXT[start:end] or piece, start, end, special, special, word)
        for index, ((piece, (start, end)), special, word) in enumerate(zip(spans.items(), SPECIAL, WORDS, strict=True))
    )


def layer(queries, keys, formula=Formula(), kind="self"):
    return LayerAttention(
        torch.randn(HEADS, queries, D),
        torch.randn(GROUPS, keys, D),
        torch.randn(GROUPS, keys, V),
        formula,
        kind,
        "here",
    )


def seen(formula=Formula(), given=None):
    given = given or tokens()
    return Capture(TEXT, given, (), {"self": (layer(len(given), len(given), formula),)}, pretrained=True)


@pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS.keys())
@pytest.mark.parametrize("special", SPECIALS)
@pytest.mark.parametrize("unit", UNITS)
def test_rows_with_what_is_hidden_and_the_sink_sum_to_one(unit, special, formula):
    view = view_head(seen(formula), 0, 4, unit, special)
    total = view.weights.sum(axis=1) + view.hidden + view.sink
    np.testing.assert_allclose(total, np.ones(len(view.queries)), atol=1e-6)
    assert view.weights.min() >= 0
    assert (view.sink > 0).all() == (formula.sink is not None)
    assert view.weights.shape == view.allowed.shape == (len(view.queries), len(view.keys))
    assert (view.weights[~view.allowed] == 0).all()


def test_tokens_are_the_trace_itself():
    captured = seen(FORMULAS["capped"])
    trace, view = captured.trace(0, 4), view_head(captured, 0, 4)
    for name in ("raw", "final"):
        np.testing.assert_array_equal(getattr(view, name)[0], getattr(trace, name).numpy())
    np.testing.assert_array_equal(view.weights, trace.weights.numpy())
    assert view.step_names == ("softcap", "bias")
    np.testing.assert_array_equal(view.steps, np.stack([step.scores.numpy() for step in trace.steps]))
    assert view.queries == view.keys == ("[CLS]", "em", "##beds", "cats", "[SEP]")
    assert view.special_queries == view.special_keys == SPECIAL
    assert view.pieces == ("[CLS]", "em", "##beds", "cats", "[SEP]")
    assert (view.factor, view.size) == (pytest.approx(D**-0.5), D)
    assert (view.group, view.groups, view.heads) == (2, GROUPS, HEADS)
    assert not view.hidden.any()


def test_special_tokens_hidden_by_hand():
    captured = seen(FORMULAS["sink"])
    weights, sink = captured.trace(0, 1).weights.numpy(), captured.trace(0, 1).sink.numpy()
    view = view_head(captured, 0, 1, special="hidden")
    assert view.queries == view.keys == ("em", "##beds", "cats")
    np.testing.assert_array_equal(view.weights, weights[1:4, 1:4])
    np.testing.assert_allclose(view.hidden, weights[1:4, 0] + weights[1:4, 4], rtol=1e-6)
    np.testing.assert_array_equal(view.sink, sink[1:4])
    assert view.raw.shape == view.final.shape == (1, 3, 3)
    again = view_head(captured, 0, 1, special="renormalised")
    left = weights[1:4, 1:4].sum(axis=1) + sink[1:4]
    np.testing.assert_allclose(again.weights, weights[1:4, 1:4] / left[:, None], rtol=1e-5)
    np.testing.assert_allclose(again.sink, sink[1:4] / left, rtol=1e-5)
    np.testing.assert_array_equal(again.raw, view.raw)  # scores do not change by it


@pytest.mark.parametrize("hidden", [0.99, 0.99999, 0.9999999])
def test_what_little_is_left_is_renormalised_exactly(hidden):
    bias = torch.zeros(1, 5, 5)
    bias[..., 0] = float(np.log(hidden / (1 - hidden)))
    for unit in UNITS:
        view = view_head(seen(Formula(bias=bias)), 0, 0, unit, "renormalised")
        np.testing.assert_allclose(view.weights.sum(axis=1), np.ones(len(view.queries)), rtol=1e-6)


def test_words_by_hand():
    captured = seen()
    weights = captured.weights(0, 2).numpy()
    view = view_head(captured, 0, 2, "word")
    columns = np.stack([weights[:, 0], weights[:, 1] + weights[:, 2], weights[:, 3], weights[:, 4]], axis=1)
    rows = np.stack([columns[0], (columns[1] + columns[2]) / 2, columns[3], columns[4]])
    np.testing.assert_allclose(view.weights, rows, rtol=1e-5)
    assert view.queries == ("[CLS]", "embeds", "cats", "[SEP]")
    assert view.special_keys == (True, False, False, True)
    assert view.raw.shape == view.steps.shape == view.final.shape == (0, 4, 4)  # words have no scores
    assert view.pieces == ()
    hidden = view_head(captured, 0, 2, "word", "hidden")
    np.testing.assert_allclose(hidden.weights, rows[1:3, 1:3], rtol=1e-5)
    np.testing.assert_allclose(hidden.hidden, rows[1:3, 0] + rows[1:3, 3], rtol=1e-5)


def test_a_word_may_look_where_one_of_its_tokens_may():
    view = view_head(seen(Formula(causal=True)), 0, 0, "word")
    np.testing.assert_array_equal(view.allowed, np.tril(np.ones((4, 4), dtype=bool)))


@pytest.mark.parametrize("special", SPECIALS)
@pytest.mark.parametrize("unit", UNITS)
def test_nothing_but_special_tokens_is_shown_all_the_same(unit, special):
    alone = tuple(replace(token, special=True, word=token.index) for token in tokens())
    captured = seen(given=alone)
    view = view_head(captured, 0, 3, unit, special)
    np.testing.assert_allclose(view.weights, captured.weights(0, 3).numpy(), rtol=1e-6)
    assert not view.hidden.any()


@pytest.mark.parametrize("special", SPECIALS)
@pytest.mark.parametrize("unit", UNITS)
def test_a_row_in_which_nothing_is_allowed_is_zero(unit, special):
    allowed = torch.ones(1, 5, 5, dtype=torch.bool)
    allowed[0, 3] = False
    view = view_head(seen(Formula(allowed=allowed)), 0, 0, unit, special)
    row = view.queries.index("cats")
    assert not view.weights[row].any()
    assert not view.allowed[row].any()
    assert view.hidden[row] == view.sink[row] == 0
    assert np.isfinite(view.weights).all()


def test_a_changed_formula():
    captured = seen(Formula(causal=True))
    view = view_head(captured, 0, 0, formula=Formula(without=["causal"], scaled=False))
    assert (view.causal, view.factor) == (False, 1.0)
    assert view.allowed.all()
    assert view_head(captured, 0, 0).causal


def test_cross_attention_has_two_axes():
    target = tuple(Token(n, n, f"t{n}", f"t{n}", 0, 0, n == 6, n == 6, n) for n in range(7))
    captured = Capture(TEXT, tokens(), target, {"cross": (layer(7, 5, kind="cross"),)}, pretrained=True)
    view = view_head(captured, 0, 0, special="hidden")
    assert view.weights.shape == (6, 3)
    assert view.queries == tuple(f"t{n}" for n in range(6))
    assert view.keys == ("em", "##beds", "cats")
    assert thumbnails(captured, 0, size=3).shape == (HEADS, 3, 3)


def test_arrays_can_not_be_changed():
    view = view_head(seen(), 0, 0)
    arrays = [getattr(view, field.name) for field in fields(view)] + [thumbnails(seen(), 0)]
    arrays = [array for array in arrays if isinstance(array, np.ndarray)]
    assert len(arrays) == 8
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_what_was_captured_stays_as_it_is():
    captured = seen()
    before = [tensor.clone() for tensor in (captured.layer(0).query, captured.layer(0).key, captured.layer(0).value)]
    for unit in UNITS:
        for special in SPECIALS:
            view_head(captured, 0, 0, unit, special)
    thumbnails(captured, 0, 3)
    after = (captured.layer(0).query, captured.layer(0).key, captured.layer(0).value)
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize(("unit", "special"), [("sentence", "shown"), ("token", "gone"), ("", "")])
def test_what_does_not_exist_is_named(unit, special):
    with pytest.raises(ValueError, match="unit is one of"):
        view_head(seen(), 0, 0, unit, special)


@pytest.mark.parametrize("count", [1, 2, 47, 48, 49, 97, 211])
def test_thumbnails_fit(count):
    many = tuple(Token(n, n, "a", "a", 0, 0, False, False, n) for n in range(count))
    captured = seen(Formula(causal=True), many)
    pictures = thumbnails(captured, 0)
    assert pictures.dtype == np.uint8
    assert pictures.shape[0] == HEADS
    assert pictures.shape[1] == pictures.shape[2] <= THUMBNAIL
    assert pictures.max(axis=(1, 2)).tolist() == [255] * HEADS
    assert not np.triu(pictures, 1).any()
    if count <= THUMBNAIL:
        weights = captured.weights(0, 4).numpy()
        np.testing.assert_array_equal(pictures[4], np.rint(weights / weights.max() * 255))
    else:
        grouped = captured.grouped(0, 4, THUMBNAIL).numpy()
        assert len(grouped) == int(tiles(count, THUMBNAIL)[-1]) + 1
        np.testing.assert_allclose(pictures[4], grouped / grouped.max() * 255, atol=0.51)


def test_thumbnails_of_nothing_are_black():
    nothing = Formula(allowed=torch.zeros(1, 5, 5, dtype=torch.bool))
    assert not thumbnails(seen(nothing), 0).any()


def test_a_model_without_special_tokens(models):
    captured = capture(models["smollm2"], "the cat sat")
    shown, hidden = (view_head(captured, 3, 5, special=special) for special in ("shown", "hidden"))
    np.testing.assert_array_equal(shown.weights, hidden.weights)
    assert (shown.group, shown.groups, shown.heads, shown.causal) == (1, 3, 9, True)


@pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS.keys())
@pytest.mark.parametrize(("unit", "special"), [("token", "shown"), ("word", "shown"), ("token", "renormalised")])
def test_the_first_token_can_be_left_out_of_the_keys(unit, special, formula):
    captured = seen(formula)
    whole, view = (view_head(captured, 0, 4, unit, special, first=first) for first in (True, False))
    if special == "renormalised":  # [CLS], the first token, is hidden there anyway
        np.testing.assert_array_equal(view.weights, whole.weights)
        return
    assert view.queries == whole.queries
    assert view.keys == whole.keys[1:]
    np.testing.assert_allclose(view.weights, whole.weights[:, 1:])
    np.testing.assert_allclose(view.hidden, whole.weights[:, 0])
    if unit == "token":
        np.testing.assert_array_equal(view.raw, whole.raw[:, :, 1:])


def test_a_single_token_is_shown_even_so():
    captured = seen(given=tokens()[:1])
    assert view_head(captured, 0, 0, first=False).keys == ("[CLS]",)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("special", SPECIALS)
def test_a_head_s_own_weights_as_a_map_are_shown_as_the_head_is(unit, special):
    captured = seen(FORMULAS["causal"])
    head = view_head(captured, 0, 2, unit, special, first=False)
    view = view_map(captured, captured.weights(0, 2), unit, special, first=False)
    for name in ("queries", "keys", "special_queries", "special_keys", "pieces", "causal"):
        assert getattr(view, name) == getattr(head, name)
    for name in ("weights", "hidden", "allowed"):
        np.testing.assert_array_equal(getattr(view, name), getattr(head, name))
    assert view.raw.shape == (0, *view.weights.shape)
