"""Where the factor comes from: found in the configuration, never in the model's name (but for T5's relatives)."""

from types import SimpleNamespace

import pytest
import torch
from transformers import GPT2Config, GPT2Model

from attention_core import capture
from attention_core.factor import FactorSource, factor_source
from attention_core.views import view_head
from benchmarks.families import GPT2, build, inputs
from tiny_models import family

FOUND = {
    "BERT": FactorSource("size"),
    "Llama": FactorSource("size"),
    "Gemma 2": FactorSource("root", "query_pre_attn_scalar", 29),
    "Granite": FactorSource("itself", "attention_multiplier", 0.3),
    "T5": FactorSource("folded"),
    "ESM-2": FactorSource("none"),
    "OPT": FactorSource("before", "scaling", 13**-0.5),
    "Whisper": FactorSource("before", "scaling", 14**-0.5),
    "Falcon-H1": FactorSource("size"),  # it has attention_in_multiplier and key_multiplier, which are no factors
}


@pytest.mark.parametrize("name", FOUND)
def test_families(name):
    seen = capture(build(family(name)), **inputs(family(name)))
    found = {layer.source for layers in seen.attention.values() for layer in layers}
    assert found == {FOUND[name]}
    assert view_head(seen, 0, 1).source == FOUND[name]


@pytest.mark.parametrize("scaled", [True, False])
def test_gpt2_divides_by_the_layers_number_where_it_is_told_to(scaled):
    config = GPT2Config(**GPT2, scale_attn_by_inverse_layer_idx=True, scale_attn_weights=scaled)
    seen = capture(GPT2Model(config).eval(), input_ids=torch.tensor([[5, 9, 3]]))
    assert seen.layer(1).formula.factor == pytest.approx((13**-0.5 if scaled else 1) / 2)
    ways = [seen.layer(n).source for n in range(2)]
    if scaled:
        assert ways == [FactorSource("size"), FactorSource("layer", "scale_attn_by_inverse_layer_idx", 2)]
    else:
        assert ways == [FactorSource("none"), FactorSource("own")]


def of(factor, size=64, scaling=None, **config):
    module = torch.nn.Module()
    module.config, module.scaling = SimpleNamespace(**config), scaling
    return factor_source(module, factor, size)


def test_by_hand():
    assert of(None) == of(0.125) == FactorSource("size")
    assert of(1 / 16, query_pre_attn_scalar=256) == FactorSource("root", "query_pre_attn_scalar", 256)
    assert of(0.125, query_pre_attn_scalar=64) == FactorSource("root", "query_pre_attn_scalar", 64)  # the usual as well
    assert of(0.02, attn_scale=50) == FactorSource("inverse", "attn_scale", 50)
    assert of(0.02, attn_logit_softcapping=50, hidden_size=2500, logits_scaling=50) == FactorSource("own")
    assert of(1.0, attention_multiplier=1.0) == FactorSource("itself", "attention_multiplier", 1)
    assert of(0.125, scale_attn_weights=True, attention_dropout=8.0) == FactorSource("size")
    assert of(torch.ones(64)) == FactorSource("own")  # a learned number for each feature
    assert factor_source(torch.nn.Identity(), 0.3, 64) == FactorSource("own")
