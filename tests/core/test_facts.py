"""The reference values of the formulas that the pages rest on, and of the two embedded models."""

import pytest
import torch

from attention_core import Formula, capture, trace_attention
from ui.controls import BEST_HEAD, EXAMPLE

LIKELY = {"minilm": (0.638, 0.005), "smollm2": (0.651, 0.01)}


def entropy(weights):
    return -(weights * weights.clamp_min(1e-30).log()).sum(dim=-1)


@pytest.fixture(scope="module")
def examples(models):
    return {name: capture(model, EXAMPLE) for name, model in models.items()}


@pytest.mark.parametrize("name", ["minilm", "smollm2"])
def test_best_head_for_it_to_cake(examples, name):
    seen = examples[name]
    words = [token.text.strip() for token in seen.tokens]
    it, cake = words.index("it"), words.index("cake")
    weights = torch.stack(
        [torch.stack([seen.weights(layer, head)[it] for head in range(seen.heads)]) for layer in range(seen.layers)]
    )
    layer, head = (number - 1 for number in BEST_HEAD[name])
    value, tolerance = LIKELY[name]
    assert weights[layer, head, cake].item() == pytest.approx(value, abs=tolerance)
    assert weights[layer, head].argmax() == cake
    assert weights[:, :, cake].flatten().argmax() == layer * seen.heads + head


def test_second_best_heads(examples):
    cake = [token.text.strip() for token in examples["minilm"].tokens].index("cake")
    assert examples["minilm"].weights(3, 1)[6, cake].item() == pytest.approx(0.466, abs=0.01)
    assert examples["smollm2"].weights(17, 0)[5, 3].item() == pytest.approx(0.619, abs=0.01)


def test_shapes_of_the_models(examples):
    assert (examples["minilm"].layers, examples["minilm"].heads) == (6, 12)
    assert (examples["smollm2"].layers, examples["smollm2"].heads) == (30, 9)
    assert [examples["smollm2"].group(0, head) for head in range(9)] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert examples["smollm2"].layer(0).formula.causal
    assert not examples["minilm"].layer(0).formula.causal


def test_saturation_by_hand():
    raw = torch.tensor([16.0, 8.0, 0.0, -8.0])
    key = torch.zeros(1, 4, 64)
    key[0, :, 0] = raw
    query = torch.zeros(1, 1, 64)
    query[0, 0, 0] = 1
    scaled = trace_attention(query, key, key)
    unscaled = trace_attention(query, key, key, Formula(scaled=False))
    expected = torch.tensor([0.643914, 0.236883, 0.087144, 0.032059])
    torch.testing.assert_close(scaled.weights[0, 0], expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(unscaled.weights[0, 0], torch.tensor([0.999665, 0.000335, 0, 0]), atol=1e-6, rtol=0)
    assert entropy(scaled.weights).item() == pytest.approx(0.9475, abs=1e-4)
    assert entropy(unscaled.weights).item() == pytest.approx(0.003, abs=1e-4)


def test_a_head_is_divided_by_the_root_of_its_own_size():
    assert 1 / Formula().multiplier(512 // 8) == 8.0
    assert 1 / Formula().multiplier(512) == pytest.approx(22.63, abs=0.01)
