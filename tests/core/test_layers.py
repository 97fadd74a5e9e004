"""Local and full layers, and those in which no attention is seen."""

import pytest
import torch

from attention_core import capture
from attention_core.layers import Layers, layers_of, ranges
from benchmarks.families import build, inputs
from tiny_models import family

FOUND = {
    "BERT": Layers((None, None), True, (0, 1)),
    "Mistral": Layers((3, 3), False, (0, 1)),
    "Gemma 3": Layers((3, None), False, (0, 1)),
    "GPT-OSS": Layers((3, None), False, (0, 1)),
    "ModernBERT": Layers((3, None), True, (0, 1)),
    "LFM2": Layers((None,), False, (1,), (0,)),
    "Jamba": Layers((None,), False, (1,), (0,)),
    "Bamba": Layers((None,), False, (1,), (0,)),
    "Qwen3-Next": Layers((None,), False, (1,), (0,)),
    "LongT5": Layers((None, None), False, (0, 1), (), ("encoder",)),
    "BLOOM": Layers((None, None), False, (0, 1)),  # weights only
}


@pytest.mark.parametrize("name", FOUND)
def test_families(name):
    seen = capture(build(family(name)), **inputs(family(name)))
    found = layers_of(seen)
    assert found == FOUND[name]
    assert found.local == tuple(n for n, window in enumerate(found.windows) if window)
    steps = torch.arange(11)[:, None] - torch.arange(11)
    for layer, window in enumerate(found.windows if seen.scores and seen.kinds[0] == "self" else ()):
        near = (steps if not found.both else steps.abs()) < (window or 99)
        assert torch.equal(seen.shares(layer).allowed[0], near & (found.both | (steps >= 0)))


def test_a_text_shorter_than_the_window_says_so_too():
    module = build(family("ModernBERT"))
    seen = capture(module, input_ids=torch.tensor([[5, 9]]))
    assert seen.layer(0).formula.allowed is None
    assert layers_of(seen).windows == (3, None)


def test_runs_of_numbers():
    assert ranges([]) == ""
    assert ranges([4, 2, 1, 3, 7, 10, 9]) == "1–4, 7, 9, 10"
    assert ranges(range(1, 19)) == "1–18"
