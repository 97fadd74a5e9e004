"""Edits against a forward pass written out by hand, against a slow attention function, and by identity."""

import math

import pytest
import torch
import transformers
from torch.overrides import TorchFunctionMode
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from attention_core import Formula, capture
from attention_core.edits import OFF, Edit, editing

IDS = torch.tensor([[5, 17, 3, 23, 11, 29, 7]])
LENGTH, CUTS = IDS.shape[1], ((6, 0), (6, 3), (2, 1))
ELSEWHERE = torch.rand(LENGTH, LENGTH, generator=torch.Generator().manual_seed(3)).tril().softmax(dim=-1)
EDITS = {
    "off": OFF,
    "half": Edit(scale=0.5),
    "no factor": Edit(Formula(scaled=False)),
    "temperature": Edit(Formula(temperature=3.0)),
    "no mask": Edit(Formula(without=("causal",))),
    "cut": Edit(cut=CUTS),
    "uniform": Edit(weights="uniform"),
    "one key": Edit(weights=2),
    "elsewhere": Edit(weights=ELSEWHERE),
    "several": Edit(Formula(scaled=False, temperature=2.0), cut=CUTS, scale=-1.5),
}


def llama():
    torch.manual_seed(11)
    config = transformers.LlamaConfig(
        vocab_size=37,
        hidden_size=42,
        intermediate_size=41,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=14,
        initializer_range=0.25,
    )
    return transformers.LlamaForCausalLM(config).eval()


def changed(scores, allowed, edit):
    """One head's weights, edited, as one would write them down."""
    temperature = edit.formula.temperature
    weights = torch.zeros_like(scores)
    for i in range(len(scores)):
        keys = [j for j in range(scores.shape[1]) if allowed[i, j] and (i, j) not in edit.cut]
        if keys:
            weights[i, keys] = (scores[i, keys] / temperature).softmax(dim=-1)
        if edit.weights == "uniform":
            weights[i] = 0
            weights[i, keys] = 1 / len(keys)
        elif isinstance(edit.weights, int) and edit.weights in keys:
            weights[i] = 0
            weights[i, edit.weights] = 1
    return edit.weights if isinstance(edit.weights, torch.Tensor) else weights


def by_hand(module, ids, edits):
    """The logits of a Llama model, written out."""

    def norm(x, by):
        return x / (x.square().mean(dim=-1, keepdim=True) + module.config.rms_norm_eps).sqrt() * by.weight

    def turned(x):
        half = x.shape[-1] // 2
        angles = torch.arange(len(x))[:, None] * 10000.0 ** (-torch.arange(half) / half)
        a, b = x[:, :half], x[:, half:]
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], dim=-1)

    x, size = module.model.embed_tokens(ids)[0], 14
    for number, layer in enumerate(module.model.layers):
        looks, seen = layer.self_attn, norm(x, layer.input_layernorm)
        contexts = []
        for head in range(6):
            rows, shared = slice(head * size, (head + 1) * size), slice(head // 3 * size, (head // 3 + 1) * size)
            q, k = turned(seen @ looks.q_proj.weight[rows].T), turned(seen @ looks.k_proj.weight[shared].T)
            edit = edits.get((number, head), Edit())
            scores = q @ k.T / (math.sqrt(size) if edit.formula.scaled else 1)
            allowed = torch.ones_like(scores, dtype=torch.bool)
            if "causal" not in edit.formula.without:
                allowed = allowed.tril()
            contexts.append(edit.scale * changed(scores, allowed, edit) @ seen @ looks.v_proj.weight[shared].T)
        x = x + torch.cat(contexts, dim=-1) @ looks.o_proj.weight.T
        seen = norm(x, layer.post_attention_layernorm)
        x = x + layer.mlp.down_proj(layer.mlp.act_fn(layer.mlp.gate_proj(seen)) * layer.mlp.up_proj(seen))
    return norm(x, module.model.norm) @ module.lm_head.weight.T


@torch.no_grad()
def logits(module, *edits, ids=IDS):
    with editing(module, *edits):
        return module(input_ids=ids, use_cache=False).logits


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
@torch.no_grad()
def test_a_forward_pass_written_out(edit):
    module = llama()
    edits = {(0, 4): edit, (1, 1): edit, (1, 5): OFF}
    found, expected = logits(module, edits)[0], by_hand(module, IDS, edits)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert (found - logits(module)[0]).abs().max() > 1e-2  # it is no edit that changes nothing


def slow(module, query, key, value, mask, scaling=None, position_bias=None, softcap=None, sliding_window=None, **_):
    """Attention head by head and row by row, with the edits of ``slow.edits``."""
    number, size = slow.layer, query.shape[-1]
    slow.layer += 1
    contexts = []
    for head in range(query.shape[1]):
        edit, group = slow.edits.get((number, head), Edit()), head // (query.shape[1] // key.shape[1])
        scores = query[0, head] @ key[0, group].T
        if edit.formula.scaled:
            scores = scores * (size**-0.5 if scaling is None else scaling)
        if softcap is not None and "softcap" not in edit.formula.without:
            scores = (scores / softcap).tanh() * softcap
        if position_bias is not None and "bias" not in edit.formula.without:
            scores = scores + position_bias[0, head]
        allowed = torch.ones_like(scores, dtype=torch.bool)
        if mask is not None:
            allowed = mask[0, 0] == 0
            if {"causal", "window"} <= set(edit.formula.without):
                allowed = torch.ones_like(allowed)
        contexts.append(edit.scale * changed(scores, allowed, edit) @ value[0, group])
    return torch.stack(contexts, dim=1)[None], None


AttentionInterface.register("slow_edits", slow)
AttentionMaskInterface.register("slow_edits", eager_mask)
SIZES = {
    "vocab_size": 37,
    "hidden_size": 42,
    "intermediate_size": 41,
    "num_attention_heads": 6,
    "initializer_range": 0.3,
}
WINDOWED = SIZES | {"num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 14, "sliding_window": 3}
FAMILIES = {
    "bert": (transformers.BertModel, transformers.BertConfig(**SIZES, num_hidden_layers=2), ()),
    "gemma2": (
        transformers.Gemma2Model,
        transformers.Gemma2Config(**WINDOWED, attn_logit_softcapping=2.0, query_pre_attn_scalar=29),
        ("softcap", "causal", "window"),
    ),
    "t5": (
        transformers.T5EncoderModel,
        transformers.T5Config(vocab_size=37, d_model=41, d_kv=13, d_ff=37, num_layers=2, num_heads=6),
        ("bias",),
    ),
}


@pytest.mark.parametrize("edit", ["off", "no factor", "temperature", "cut", "uniform", "one key", "several"])
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_a_slow_attention_function(family, edit):
    kind, config, without = FAMILIES[family]
    module = kind(config).eval()
    edits = {(0, 4): EDITS[edit], (1, 1): EDITS[edit], (1, 2): Edit(Formula(without=without))}
    with editing(module, edits):
        found = module(input_ids=IDS).last_hidden_state
    before = module(input_ids=IDS).last_hidden_state
    module.set_attn_implementation("slow_edits")
    slow.edits, slow.layer = {}, 0
    torch.testing.assert_close(before, module(input_ids=IDS).last_hidden_state, atol=1e-5, rtol=1e-5)
    slow.edits, slow.layer = edits, 0
    torch.testing.assert_close(found, module(input_ids=IDS).last_hidden_state, atol=1e-5, rtol=1e-5)
    assert (found - before).abs().max() > 1e-4


def test_no_edit_is_exactly_nothing():
    module = llama()
    assert torch.equal(logits(module, {}), logits(module))
    assert torch.equal(logits(module, {(0, 0): Edit()}), logits(module))


@torch.no_grad()
def head_output(module, edits, layer, head):
    """What one head hands to the layer's output matrix."""
    kept = []
    hook = module.model.layers[layer].self_attn.o_proj.register_forward_pre_hook(lambda _, given: kept.append(given[0]))
    logits(module, edits)
    hook.remove()
    return kept[0][0, :, head * 14 : (head + 1) * 14]


def test_cutting_every_link_but_one_gives_that_value_alone():
    module = llama()
    value = capture(module, input_ids=IDS).layer(1).value[1]  # head 4 reads group 1
    last = LENGTH - 1
    cut = Edit(cut=[(last, key) for key in range(LENGTH) if key != 2])
    torch.testing.assert_close(head_output(module, {(1, 4): cut}, 1, 4)[last], value[2])
    torch.testing.assert_close(
        head_output(module, {(1, 4): Edit(weights=2)}, 1, 4)[2:], value[2].expand(LENGTH - 2, -1)
    )


def test_cutting_every_link_gives_a_context_of_zero():
    module = llama()
    cut = Edit(cut=[(4, key) for key in range(LENGTH)])
    found, before = head_output(module, {(1, 4): cut}, 1, 4), head_output(module, {}, 1, 4)
    assert found[4].abs().max() == 0
    torch.testing.assert_close(found[5:], before[5:])
    assert before[4].abs().max() > 0


def test_uniform_weights_give_the_mean_of_what_a_query_may_look_at():
    module = llama()
    value = capture(module, input_ids=IDS).layer(0).value[0]
    means = torch.stack([value[: n + 1].mean(dim=0) for n in range(LENGTH)])
    torch.testing.assert_close(head_output(module, {(0, 1): Edit(weights="uniform")}, 0, 1), means)


def test_temperatures_without_end():
    module = llama()
    hot = head_output(module, {(0, 1): Edit(Formula(temperature=1e9))}, 0, 1)
    torch.testing.assert_close(hot, head_output(module, {(0, 1): Edit(weights="uniform")}, 0, 1), atol=1e-5, rtol=1e-4)
    weights = capture(module, input_ids=IDS).weights(0, 1)
    value = capture(module, input_ids=IDS).layer(0).value[0]
    cold = head_output(module, {(0, 1): Edit(Formula(temperature=1e-9))}, 0, 1)
    torch.testing.assert_close(cold, value[weights.argmax(dim=-1)])


def test_a_layer_without_heads_adds_nothing():
    module = llama()
    found = logits(module, {(layer, head): OFF for layer in range(3) for head in range(6)})
    for layer in module.model.layers:
        layer.self_attn.o_proj.weight.data.zero_()
    torch.testing.assert_close(found, logits(module))


def test_each_sequence_of_a_batch_has_edits_of_its_own():
    module = llama()
    each = [{}, {(1, 1): OFF}, {(0, 4): EDITS["cut"], (2, 0): EDITS["uniform"]}]
    found = logits(module, *each, ids=IDS.expand(3, -1))
    for n, edits in enumerate(each):
        torch.testing.assert_close(found[n], logits(module, edits)[0], atol=1e-5, rtol=1e-5)


def test_what_later_layers_see_of_it():
    module = llama()
    before = capture(module, input_ids=IDS)
    with editing(module, {(1, 4): OFF}):
        after = capture(module, input_ids=IDS)
    for head in range(6):
        assert torch.equal(before.weights(1, head), after.weights(1, head))  # switched off is what comes of it
        assert not torch.equal(before.weights(2, head), after.weights(2, head))


def test_cross_attention_is_named():
    module = transformers.T5Model(
        transformers.T5Config(vocab_size=37, d_model=41, d_kv=13, d_ff=37, num_layers=2, num_heads=6)
    ).eval()
    inputs = {"input_ids": IDS, "decoder_input_ids": IDS[:, :3]}
    before = capture(module, **inputs)
    with editing(module, {(0, 2): OFF}, kind="cross"):
        after = capture(module, **inputs)
    assert torch.equal(before.weights(1, 0, kind="encoder"), after.weights(1, 0, kind="encoder"))
    assert torch.equal(before.weights(0, 0, kind="decoder"), after.weights(0, 0, kind="decoder"))
    assert not torch.equal(before.weights(1, 0, kind="decoder"), after.weights(1, 0, kind="decoder"))


@pytest.mark.parametrize(
    ("edits", "error", "said"),
    [
        ({(3, 0): OFF}, IndexError, "layer 3 does not exist: there are 3"),
        ({(0, 6): OFF}, IndexError, "head 6 does not exist: layer 0 has 6"),
        ({(0, 0): Edit(weights=torch.eye(3))}, ValueError, "weights of 3 × 3 do not fit 7 queries × 7 keys"),
        ({(0, 0): Edit(weights=7)}, IndexError, "key 7 does not exist: there are 7"),
    ],
)
def test_what_does_not_exist_is_said(edits, error, said):
    module = llama()
    with pytest.raises(error, match=said):
        logits(module, edits)
    logits(module)  # nothing is left behind


def test_a_batch_of_another_size_is_refused():
    with pytest.raises(ValueError, match="2 edits do not fit a batch of 3"):
        logits(llama(), {}, {(0, 0): OFF}, ids=IDS.expand(3, -1))


class Largest(TorchFunctionMode):
    """Remembers the largest tensor that is made."""

    numbers = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor):
            self.numbers = max(self.numbers, made.numel())
        return made


@pytest.mark.parametrize("edit", ["no factor", "cut", "uniform", "one key"])
def test_memory_grows_with_the_text_and_not_with_its_square(edit):
    module, length = llama(), 1999
    with Largest() as made:
        logits(module, {(1, 1): EDITS[edit]}, ids=IDS[:, :1].expand(1, length))
    assert made.numbers < length * length / 4


def test_an_edit_that_is_none_is_refused_at_once(models):
    for nonsense in ("blah", True, 1.5):
        with pytest.raises(TypeError):
            Edit(weights=nonsense)
    with pytest.raises(ValueError, match="scale"):
        Edit(scale=math.nan)
    with pytest.raises(ValueError, match="counted from 0"):
        Edit(cut=((-1, 0),))
    with pytest.raises(TypeError), editing(models["smollm2"].module, {(0, 0): "off"}):
        pass
