"""Every family of ``benchmarks/families.py``: its weights are those that the library computes, or it says why not.

Tiny random models: nothing is downloaded. The table in the README is made of the same list.
"""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from attention_core import Formula, capture
from attention_core.errors import WeightsOnly
from attention_core.heads import looks_back, word_weights
from attention_core.interface import recording
from attention_core.views import view_head
from benchmarks.families import FAMILIES, NO_MASK, WINDOWED, build, eager_weights, inputs, pairs

SCORES, WEIGHTS, NOTHING = (
    [family for family in FAMILIES if family.shows == what] for what in ("scores", "weights", "nothing")
)
PADDING = 3


def named(families):
    return pytest.mark.parametrize("family", families, ids=lambda family: family.name)


def closeness(seen, expected):
    return [(own - theirs).abs().max().item() for own, theirs in pairs(seen, expected)]


def output_of(module, given):
    with torch.no_grad():
        return module(**given)[0]


def test_there_are_enough_of_them():
    assert len(SCORES) >= 40
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


def test_the_table_in_the_readme_has_them_all():
    table = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").split("## Architectures")[1]
    said = {"scores": "scores and weights |", "weights": "weights only |", "nothing": "refused: "}
    assert all(f"\n| {family.name} | {said[family.shows]}" in table for family in FAMILIES)
    windows = {shows: words.replace(" |", ", in windows |") for shows, words in said.items()}
    assert all(f"\n| {family.name} | {windows[family.shows]}" in table for family in WINDOWED)


@named(SCORES)
def test_weights_equal_the_librarys_eager_attention(family):
    module, given = build(family), inputs(family)
    before, output = module.config._attn_implementation, output_of(module, given)

    seen = capture(module, **given)
    assert module.config._attn_implementation == before
    torch.testing.assert_close(output_of(module, given), output, atol=0, rtol=0)
    with recording(module):
        torch.testing.assert_close(output_of(module, given), output, atol=2e-5, rtol=1e-5)

    expected = eager_weights(module, given)
    assert seen.kinds == tuple(kind for kind, layers in expected.items() if layers and kind in seen.attention)
    assert max(closeness(seen, expected)) <= 1e-5
    assert seen.scores
    assert seen.skipped == family.skipped
    # Equal weights would prove nothing.
    for kind in seen.kinds:
        weights, sink, _ = seen.shares(0, kind)
        assert weights[:, -1].amax(dim=-1).mean() > 1.5 / (weights[0, -1] > 0).sum()
        torch.testing.assert_close(weights.sum(dim=-1) + sink, torch.ones_like(sink))
        torch.testing.assert_close(weights[1], seen.weights(0, 1, kind=kind))


@named([family for family in SCORES if family.terms])
def test_the_formula_is_the_models_own(family):
    seen = capture(build(family), **inputs(family))
    own = seen.layer(0).formula
    for name in ("factor", "softcap", "bias", "causal", "window", "allowed", "sink"):
        found, right = getattr(own, name), family.terms.get(name)
        if right is ...:
            assert isinstance(found, Tensor), name
        elif name == "factor":
            assert right is None or own.multiplier(seen.layer(0).query.shape[-1]) == pytest.approx(right)
        else:
            assert found == (right or (False if name == "causal" else None)), name
    windows = [layer.formula.window for layers in seen.attention.values() for layer in layers]
    if "layer_types" in family.config and "window" in family.terms:
        assert windows == [3, None]


@pytest.mark.parametrize("side", ["left", "right"])
@named([family for family in SCORES if family.reads not in NO_MASK])
def test_padding_changes_nothing_of_what_is_real(family, side):
    module, given = build(family), inputs(family)
    real, pads = torch.ones_like(given["input_ids"]), torch.zeros(1, PADDING, dtype=torch.long)
    halves = (lambda a: [pads, a]) if side == "left" else (lambda a: [a, pads])
    given["input_ids"], given["attention_mask"] = (
        torch.cat(halves(part), dim=1) for part in (given["input_ids"], real)
    )
    seen, expected = capture(module, **given), eager_weights(module, given)
    kept, padded = given["attention_mask"][0].bool(), ~given["attention_mask"][0].bool()
    for kind in seen.kinds:
        rows = slice(None) if kind in ("decoder", "cross") else kept
        columns = slice(None) if kind == "decoder" else kept
        for layer, theirs in enumerate(expected[kind][-len(seen.attention[kind]) :]):
            own = seen.shares(layer, kind).weights
            torch.testing.assert_close(own[:, rows][..., columns], theirs[:, rows][..., columns], atol=1e-5, rtol=0)
            assert kind == "decoder" or own[:, rows][..., padded].max() == 0


@named(WEIGHTS)
def test_weights_only(family):
    module, given = build(family), inputs(family)
    seen, expected = capture(module, **given), eager_weights(module, given)
    torch.testing.assert_close(output_of(module, given), output_of(build(family), given), atol=0, rtol=0)
    assert max(closeness(seen, expected)) == 0
    assert not seen.scores
    assert (seen.layers, len(seen.tokens)) == (2, given["input_ids"].shape[1])
    weights = seen.weights(1, 2)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(len(weights)))
    torch.testing.assert_close(seen.grouped(1, 2, "token"), weights)
    assert seen.grouped(1, 2, 4).shape == (4, 4)
    assert seen.links(1, 2, k=1)[0].weight == weights.max()
    assert word_weights(seen).shape == (2 * seen.heads, *weights.shape)
    assert looks_back(seen) == (weights.triu(1).max() == 0)
    for ask in (
        lambda: seen.trace(1, 2),
        lambda: seen.row(1, 2, 0),
        lambda: seen.weights(1, 2, Formula(scaled=False)),
    ):
        with pytest.raises(WeightsOnly, match="weights only: it computes attention in a way of its own"):
            ask()
    view = view_head(seen, 1, 2)
    assert (view.raw.size, view.final.size, view.steps.size, view.terms) == (0, 0, 0, ())
    assert view.only
    assert view.weights == pytest.approx(weights.numpy())


@named(NOTHING)
def test_what_cannot_be_seen_is_refused_with_the_reason(family):
    module, given = build(family), inputs(family)
    before = module.config._attn_implementation
    with pytest.raises((TypeError, ValueError), match=family.why):
        capture(module, **given)
    assert module.config._attn_implementation == before


def test_the_weights_of_gpt_neo_by_hand():
    """It does not scale, and every other layer looks back three positions."""
    family = next(family for family in FAMILIES if family.name == "GPT-Neo")
    module, given = build(family), inputs(family)
    kept = {}
    for layer, block in enumerate(module.h):
        for name in ("q_proj", "k_proj"):
            part = getattr(block.attn.attention, name)
            part.register_forward_hook(lambda _, __, out, at=(layer, name): kept.__setitem__(at, out[0]))
    seen = capture(module, **given)
    steps = torch.arange(11)[:, None] - torch.arange(11)
    for layer in range(2):
        query, key = (kept[layer, name].reshape(11, 3, 13).transpose(0, 1) for name in ("q_proj", "k_proj"))
        allowed = (steps >= 0) & (steps < 3 if layer == 0 else True)
        right = (query @ key.mT).masked_fill(~allowed, -math.inf).softmax(dim=-1)
        torch.testing.assert_close(seen.shares(layer).weights, right, atol=1e-5, rtol=0)
        assert torch.equal(seen.shares(layer).allowed[0], allowed)


def test_the_weights_of_bloom_by_hand():
    """ALiBi: the further back, the less, by a slope of its own for each head (Press et al. 2022)."""
    family = next(family for family in FAMILIES if family.name == "BLOOM")
    module, given = build(family), inputs(family)
    kept = []
    for block in module.h:
        block.self_attention.query_key_value.register_forward_hook(lambda _, __, out: kept.append(out[0]))
    seen = capture(module, **given)
    steps = torch.arange(11)[:, None] - torch.arange(11)
    slopes = torch.tensor([2**-4, 2**-8, 2**-2])  # of two heads, and the first between them of four
    for layer in range(2):
        query, key, _ = kept[layer].reshape(11, 3, 3, 13).permute(2, 1, 0, 3)
        scores = query @ key.mT / math.sqrt(13) - slopes[:, None, None] * steps
        right = scores.masked_fill(steps < 0, -math.inf).softmax(dim=-1)
        torch.testing.assert_close(seen.shares(layer).weights, right, atol=1e-5, rtol=0)


def test_layers_are_numbered_as_in_the_model():
    hybrid = next(family for family in FAMILIES if family.name == "LFM2")
    seen = capture(build(hybrid), **inputs(hybrid))
    assert (seen.layers, seen.place(0), seen.skipped) == (1, 1, ("layers.0",))
    assert view_head(seen, 0, 0).place == 1
    shared = next(family for family in FAMILIES if family.name == "ALBERT")
    seen = capture(build(shared), **inputs(shared))
    assert [seen.place(layer) for layer in range(seen.layers)] == [0, 1]
    assert view_head(seen, 1, 0).place is None
