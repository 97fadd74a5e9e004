"""All heads as one map, as the pages ask for it, and what they say of it."""

import itertools

import numpy as np
import pytest
import torch

from attention_core import aggregate, compute, one_map

TEXT = "I ate the cake and it was delicious"


def asked(model, way, layer=5, head=2, first=True, text=TEXT):
    layers = {"layer": [layer], "norm": []}.get(way, range(compute.run(compute.read, model, text, 64).layers))
    maps = [compute.run(one_map.layer_map, model, text, 64, way, n) for n in layers]
    if way == "flow":
        maps = [compute.run(one_map.flow_row, maps, n) for n in range(len(maps[0]))]
    return compute.run(one_map.shown, model, text, 64, way, maps, layer, head, first=first)


def means(model):
    seen = compute.run(compute._seen, model, TEXT, 64)
    return seen, torch.stack([aggregate.head_mean(seen, layer) for layer in range(seen.layers)])


@pytest.mark.parametrize("model", ["minilm", "smollm2"])
@pytest.mark.parametrize("way", one_map.WAYS)
def test_rows_sum_to_one_and_nothing_comes_from_the_future(model, way):
    view = asked(model, way)
    np.testing.assert_allclose(view.weights.sum(axis=1), 1, atol=1e-5)
    assert (view.weights[~view.allowed] == 0).all()
    without = asked(model, way, first=False)
    np.testing.assert_allclose(without.weights, view.weights[:, 1:])
    np.testing.assert_allclose(without.hidden, view.weights[:, 0], atol=1e-6)


def test_each_way_is_the_core_s():
    seen, maps = means("minilm")
    most = torch.stack([aggregate.head_largest(seen, layer) for layer in range(seen.layers)])
    wanted = {
        "layer": maps[5],
        "mean": maps.mean(dim=0),
        "largest": aggregate.largest(most),
        "rollout": aggregate.rollout(maps),
        "flow": aggregate.flow(maps),
    }
    for way, weights in wanted.items():
        np.testing.assert_allclose(asked("minilm", way).weights, weights, atol=1e-6)
    lengths = aggregate.value_norms(seen, compute.run(compute._model, "minilm").module, 5, 2)
    np.testing.assert_allclose(asked("minilm", "norm").weights, lengths / lengths.sum(-1, keepdim=True), atol=1e-6)


@pytest.mark.parametrize("model", ["minilm", "smollm2"])
def test_rows_of_a_rollout_become_more_alike_with_every_layer(model):
    """As its text says; the rows of the second half, which in a causal model have most keys in common."""
    _, maps = means(model)
    half = maps.shape[-1] // 2
    spread = [aggregate.rollout(maps[:n])[half:].std(dim=0).sum() for n in range(1, len(maps) + 1)]
    assert all(after < before for before, after in itertools.pairwise(spread))


def test_an_unknown_way_is_refused():
    with pytest.raises(ValueError, match="the ways are layer, mean"):
        compute.run(one_map.shown, "minilm", TEXT, 64, "median", [torch.eye(10)], 0, 0, first=True)
