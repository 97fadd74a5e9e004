"""Rotary positions: what is shown is what the model's own rotation was given and gave."""

import sys

import numpy as np
import pytest
import torch
from transformers.models.llama import modeling_llama

from attention_core import capture
from attention_core.rotary import NotTurned, before_rotation, turns, wrapped
from benchmarks.families import build, inputs
from tiny_models import family

RUNNING = "I ate the cake and it was delicious"


def captured(name):
    module, given = build(family(name)), inputs(family(name))
    return module, given, capture(module, **given)


def hooked(module, paths, run):
    """Return what some parts gave, by their path."""
    kept = {}
    parts = dict(module.named_modules())
    hooks = [
        parts[path].register_forward_hook(lambda _, __, out, path=path: kept.__setitem__(path, out[0]))
        for path in paths
    ]
    with torch.no_grad():
        run()
    for hook in hooks:
        hook.remove()
    return kept


@pytest.mark.parametrize(("name", "query", "key"), [("Llama", "q_proj", "k_proj"), ("Qwen3", "q_norm", "k_norm")])
def test_before_is_what_the_projections_give(name, query, key):
    module, given, seen = captured(name)
    size, count = seen.layer(0).query.shape[-1], len(seen.tokens)
    paths = [f"layers.{n}.self_attn.{part}" for n in range(2) for part in (query, key)]
    gave = hooked(module, paths, lambda: module(**given))
    for layer in range(2):
        for head in range(6):
            turned = before_rotation(module, seen, layer, head)
            for part, at, own in ((query, head, turned.query_before), (key, head // 3, turned.key_before)):
                right = gave[f"layers.{layer}.self_attn.{part}"].reshape(count, -1, size)[:, at]
                np.testing.assert_array_equal(own, right.numpy())
            np.testing.assert_array_equal(turned.query_after, seen.layer(layer).query[head].numpy())
            np.testing.assert_array_equal(turned.key_after, seen.layer(layer).key[head // 3].numpy())


def test_a_real_model(models):
    model = models["smollm2"]
    seen = capture(model, RUNNING)
    base = model.module.base_model
    ids = torch.tensor([[token.id for token in seen.tokens]])
    gave = hooked(base, ["layers.25.self_attn.q_proj"], lambda: base(input_ids=ids))
    turned = before_rotation(model, seen, 25, 2)
    right = gave["layers.25.self_attn.q_proj"].reshape(len(seen.tokens), 9, 64)[:, 2]
    np.testing.assert_allclose(turned.query_before, right.numpy(), atol=1e-5)
    base_of_theta = model.module.config.rope_parameters["rope_theta"]
    np.testing.assert_allclose(turned.speeds, base_of_theta ** (-np.arange(32) / 32), rtol=1e-4)
    parts, raw = turned.parts(5, 3), seen.trace(25, 2).raw[5, 3].item()
    assert parts.after.sum() + parts.rest == pytest.approx(raw, rel=1e-5)
    assert abs(parts.before.sum() - raw) > 0.1


# Halves and neighbours; all features and some; cosine and sine once and twice; one call for both and one for each.
KINDS = {
    "Llama": (7, (0, 7)),
    "GPT-NeoX, Pythia": (2, (0, 2)),
    "GPT-J": (3, (0, 1)),
    "Phi": (3, (0, 3)),
    "Cohere": (7, (0, 1)),
    "GLM-4": (6, (0, 1)),
    "ESM-2": (7, (0, 7)),
    "ModernBERT": (7, (0, 7)),
    "GPT-OSS": (11, (0, 11)),
    "Gemma 3": (11, (0, 11)),
}


@pytest.mark.parametrize("name", KINDS)
def test_identities(name):
    module, given, seen = captured(name)
    turned = before_rotation(module, seen, 0, 1, **given)
    pairs, first = KINDS[name]
    assert (len(turned.pairs), tuple(turned.pairs[0])) == (pairs, first)
    assert turned.steady
    assert (turned.scale != 1) == (name == "GPT-OSS")  # YaRN
    steps = np.arange(len(seen.tokens))[:, None]
    np.testing.assert_allclose(wrapped(turned.angles - steps * turned.speeds), np.zeros_like(turned.angles), atol=1e-4)
    arrows = {}
    for side in ("query", "key"):
        before, after = (
            getattr(turned, f"{side}_{when}")[:, turned.pairs].astype(float) for when in ("before", "after")
        )
        lengths = np.hypot(*np.moveaxis(before, -1, 0))
        np.testing.assert_allclose(np.hypot(*np.moveaxis(after, -1, 0)), lengths * turned.scale, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(after[0], before[0] * turned.scale, rtol=1e-4, atol=1e-5)  # position 0 stays
        arrows[side] = before[..., 0] + 1j * before[..., 1]
    # By hand, with complex numbers, and at any other place with the same distance: the same score.
    query, key = 7, 2
    for shift in (0, 1, 100):
        q, k = (
            turned.scale * arrows[side][at] * np.exp(1j * (at + shift) * turned.speeds)
            for side, at in (("query", query), ("key", key))
        )
        np.testing.assert_allclose((q * k.conj()).real, turned.parts(query, key).after, atol=2e-3, rtol=1e-3)
    elsewhere = arrows["query"][query] * np.exp(1j * turned.speeds) * arrows["key"][key].conj()
    assert abs(elsewhere.real.sum() - turned.parts(query, key).before.sum()) > 1e-2
    parts = turned.parts(query, key)
    raw = seen.trace(0, 1).raw[query, key].item()
    assert parts.after.sum() + parts.rest == pytest.approx(raw, rel=1e-4, abs=1e-4)
    assert (parts.rest == 0) == (2 * pairs == seen.layer(0).query.shape[-1])


def test_layers_without_rotation():
    for name in ("SmolLM3", "Cohere 2"):
        module, given, seen = captured(name)
        assert turns(module)
        assert before_rotation(module, seen, 0, 2).steady
        with pytest.raises(NotTurned, match="does not turn") as caught:
            before_rotation(module, seen, 1, 2)
        assert not caught.value.turned
    module, given, seen = captured("BERT")
    assert not turns(module)
    with pytest.raises(NotTurned, match="does not turn"):
        before_rotation(module, seen, 0, 0, **given)


@pytest.mark.parametrize("name", ["DeepSeek-V3", "DINOv3"])  # rearranged on the way; patches only
def test_what_cannot_be_verified_is_not_shown(name):
    module, given, seen = captured(name)
    with pytest.raises(NotTurned, match="can't be verified") as caught:
        before_rotation(module, seen, 0, 1, **given)
    assert caught.value.turned


@pytest.mark.parametrize("lie", ["other angles", "more afterwards"])
def test_a_rotation_that_does_something_else_is_not_believed(monkeypatch, lie):
    own = modeling_llama.apply_rotary_pos_emb

    def other(q, k, cos, sin, unsqueeze_dim=1):
        if lie == "other angles":
            cos, sin = cos.square() - sin.square(), 2 * cos * sin
        q, k = own(q, k, cos, sin, unsqueeze_dim)
        return (q, k) if lie == "other angles" else (q + 0.01, k)

    monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", other)
    module, _, seen = captured("Llama")
    with pytest.raises(NotTurned, match="can't be verified"):
        before_rotation(module, seen, 0, 1)
    assert modeling_llama.apply_rotary_pos_emb is other


def test_the_library_is_left_as_it_was():
    module, _, seen = captured("Llama")
    own = modeling_llama.apply_rotary_pos_emb
    before_rotation(module, seen, 0, 1)
    assert modeling_llama.apply_rotary_pos_emb is own
    with pytest.raises(IndexError):
        before_rotation(module, seen, 2, 1)
    with pytest.raises(ValueError, match="not the inputs"):
        before_rotation(module, seen, 0, 1, input_ids=torch.tensor([[5, 9, 3]]))
    assert sys.modules[type(module).__module__].apply_rotary_pos_emb is own
