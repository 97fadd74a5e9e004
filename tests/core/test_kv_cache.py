"""The KV cache: sizes against memory, multiplications against torch's counter, pooling against averaged weights."""

import copy
from contextlib import nullcontext

import pytest
import torch
import transformers
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from attention_core import compute, generating
from attention_core.generating import PIECE, Sampling, held_bytes, next_probabilities, read_on
from attention_core.labs import kv_cache as lab
from attention_core.labs.kv_cache import (
    NAMED,
    Shape,
    cache_bytes,
    holds,
    multiplications,
    pooled_heads,
    pooling,
    shape_of,
)
from attention_core.store import Store
from core.test_generating import PROMPT, tiny, wrapped

IDS = [5, 17, 3, 23, 11, 29, 7]


def small(models, kind="llama", **more):
    """As tiny, with a small vocabulary of its own."""
    torch.manual_seed(23)
    sizes = {"vocab_size": 37, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 12}
    inner = {"intermediate_size": 41, "num_key_value_heads": 6, "head_dim": 10, "initializer_range": 0.5}
    module = {
        "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **inner, **more)),
        "gpt2": lambda: transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=37, n_embd=24, n_layer=3, n_head=6, n_positions=64, bos_token_id=0, eos_token_id=0
            )
        ),
    }[kind]()
    return wrapped(module, models["minilm"].tokenizer)  # the tokeniser is not asked


@pytest.fixture
def embedded(models, monkeypatch):
    monkeypatch.setattr(compute, "_models", dict(models))
    monkeypatch.setattr(generating, "_writings", type(generating._writings)())
    monkeypatch.setattr(lab, "_races", type(lab._races)())
    monkeypatch.setattr(compute, "_store", Store())


@pytest.mark.parametrize(
    ("name", "groups", "expected"),
    [("llama2_7b", 32, 2_147_483_648), ("llama2_70b", 8, 1_342_177_280), ("llama2_70b", 64, 10_737_418_240)],
)
def test_reference_sizes(name, groups, expected):
    assert cache_bytes(NAMED[name].shape._replace(groups=groups), 4096, 2) == expected


def test_sizes_by_hand():
    assert cache_bytes(Shape(2, 6, 3, 5), 7, 4) == 2 * 2 * 3 * 5 * 7 * 4
    assert cache_bytes(NAMED["llama2_70b"].shape._replace(groups=1), 4096, 2) == 160 * 2**20  # what "try this" says


def test_the_named_small_model_is_the_one_here(models):
    assert shape_of(models["smollm2"]) == NAMED["smollm2"].shape
    assert models["smollm2"].limit == NAMED["smollm2"].tokens


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_the_arithmetic_is_what_the_cache_holds(models, kind):
    model = tiny(models, kind)
    cache = read_on(model, IDS)[1]
    for more in range(3):
        assert held_bytes(cache) == cache_bytes(shape_of(model), len(IDS) + more, 4)
        cache = read_on(model, [more], cache)[1]


def test_the_arithmetic_is_what_smollm2_holds(models, embedded):
    while (cost := lab.cost_at("smollm2", PROMPT, 512, Sampling(), 3)) is None:
        pass
    shape, number = lab.shape_named("smollm2")
    assert cost.holds == ((8,) * 30, 3, 64, 64, number, cache_bytes(shape, 8, number))
    assert cost.cached == multiplications(models["smollm2"], 1, [8] * 30)
    assert cost.alone == multiplications(models["smollm2"], 8, [8] * 30)
    earlier = lab.cost_at("smollm2", PROMPT, 512, Sampling(), 1)  # what was held then, not what is held now
    assert earlier.holds.bytes == cache_bytes(shape, 6, number)


def test_a_local_layer_keeps_what_it_can_look_at(models):
    """Of Gemma 3's layers most are local: the cache of such a layer stops growing."""
    torch.manual_seed(23)
    sizes = {"vocab_size": 37, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "head_dim": 10}
    config = transformers.Gemma3TextConfig(
        **sizes,
        intermediate_size=41,
        num_key_value_heads=2,
        sliding_window=5,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    )
    model = wrapped(transformers.Gemma3ForCausalLM(config), models["minilm"].tokenizer)
    cache = read_on(model, IDS[:2])[1]
    for read in range(2, 9):
        found = holds(cache, read)
        assert found.kept == (min(read, 4), read, min(read, 4))
        assert found.bytes == held_bytes(cache) == sum(found.kept) * 2 * 20 * 4
        assert found == holds(cache, read)
        before, cache = cache, read_on(model, [read], cache)[1]
        assert before is cache
    assert holds(cache, 3).kept == (3, 3, 3)  # as it was earlier
    _, cache = counted(model, IDS)
    assert counted(model, [13], cache)[0] == multiplications(model, 1, [5, 8, 5]).total


def test_layers_without_attention_count_for_nothing(models):
    torch.manual_seed(23)
    sizes = {"vocab_size": 37, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4}
    kinds = ["conv", "full_attention", "conv"]
    config = transformers.Lfm2Config(**sizes, intermediate_size=41, num_key_value_heads=2, layer_types=kinds)
    model = wrapped(transformers.Lfm2ForCausalLM(config), models["minilm"].tokenizer)
    assert shape_of(model) == Shape(1, 4, 2, 6)
    found = holds(read_on(model, IDS)[1], 7)
    assert (found.kept, found.bytes) == ((7,), 7 * 2 * 12 * 4)
    assert multiplications(model, 7, [7]).attention == 2 * 4 * 6 * 7 * 7
    before, after = (next_probabilities(model, IDS, masked=masked) for masked in (True, False))
    assert len(before) == len(after) == 6 and before != after


def test_tokens_computed():
    assert lab.tokens_computed(1, 9, cached=True) == 10
    assert lab.tokens_computed(1, 9, cached=False) == 55  # 1 + 2 + … + 10
    assert lab.tokens_computed(5, 19, cached=False) == 290  # what "try this" says
    assert lab.tokens_computed(5, 19, cached=True) == 24


def counted(model, ids, cache=None):
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        _, cache = read_on(model, ids, cache)
    return counter.get_total_flops() // 2, cache  # a multiplication and an addition each


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_multiplications_are_those_that_torch_counts(models, kind):
    model = small(models, kind)
    whole, cache = counted(model, IDS)
    assert whole == multiplications(model, 7, [7] * 3).total
    assert counted(model, [13], cache)[0] == multiplications(model, 1, [8] * 3).total


def test_multiplications_by_hand_and_with_experts(models):
    work = multiplications(small(models), 2, [7] * 3)
    assert work.attention == 2 * 3 * 12 * 10 * 2 * 7
    assert work.weights == 2 * 3 * (24 * 120 * 2 + 24 * 60 * 2 + 3 * 24 * 41)
    assert work.vocabulary == 37 * 24
    config = transformers.MixtralConfig(
        vocab_size=37,
        hidden_size=24,
        intermediate_size=44,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
    )
    module = transformers.MixtralForCausalLM(config)
    assert multiplications(wrapped(module, models["minilm"].tokenizer), 1, [1, 1]) is None


def test_both_ways_write_the_same(models, embedded):
    ids = {}
    for cached in (True, False):
        for number in range(6):
            while (found := lab.lap("smollm2", PROMPT, 512, cached, number)) is None:
                pass
            assert found.seconds > 0
        ids[cached] = lab._races["smollm2", PROMPT, 512, cached][0]
    assert ids[True] == ids[False]
    assert len(ids[True]) == 11
    model = tiny(models)
    compute._models["tiny"] = model
    for cached in (True, False):
        while lab.lap("tiny", PROMPT, 512, cached, 15) is None:
            pass
        ids[cached] = lab._races["tiny", PROMPT, 512, cached][0]
    assert ids[True] == ids[False]


def test_without_a_cache_all_is_read_again(models, embedded):
    seen = []
    hook = models["smollm2"].module.model.register_forward_pre_hook(
        lambda _, __, told: seen.append(told["input_ids"].shape[1]), with_kwargs=True
    )
    try:
        for cached in (True, False):
            while lab.lap("smollm2", PROMPT, 512, cached, 2) is None:
                pass
    finally:
        hook.remove()
    assert seen == [5, 1, 1, 5, 6, 7]


def test_a_race_and_a_cost_that_have_left_the_store_are_the_same(models, embedded, monkeypatch):
    def race():
        while lab.lap("smollm2", PROMPT, 512, True, 4) is None:
            pass
        return [lab.lap("smollm2", PROMPT, 512, True, n).id for n in range(5)]

    def cost():
        while (found := lab.cost_at("smollm2", PROMPT, 512, Sampling(), 2)) is None:
            pass
        return found

    expected, paid = race(), cost()
    assert paid.holds.bytes == held_bytes(generating._writing("smollm2", PROMPT, 512, Sampling()).cache)
    lab._races.clear()
    compute._store.clear()
    assert generating._writing("smollm2", PROMPT, 512, Sampling()).cache is None
    monkeypatch.setenv("GAZE_CACHE_MB", "0.001")
    assert race() == expected
    assert cost() == paid


def averaged(model, groups):
    """The same model, its key and value weights really averaged, and each of the means repeated for its heads."""
    module = copy.deepcopy(model.module)
    for layer in module.model.layers:
        for part in (layer.self_attn.k_proj, layer.self_attn.v_proj):
            heads = part.weight.detach().unflatten(0, (6, 10)).unflatten(0, (groups, 6 // groups))
            part.weight.data = heads.mean(dim=1, keepdim=True).expand_as(heads).flatten(0, 2).clone()
    return module


@pytest.mark.parametrize("groups", [1, 2, 3])
@torch.no_grad()
def test_pooling_is_averaging_the_weights_rotation_and_all(models, groups):
    model = small(models)
    ids = torch.tensor([IDS])
    before = model.module(input_ids=ids).logits
    with pooling(model, groups):
        found = model.module(input_ids=ids).logits
    torch.testing.assert_close(found, averaged(model, groups)(input_ids=ids).logits, atol=1e-5, rtol=1e-5)
    assert (found - before).abs().max() > 1e-2
    assert torch.equal(model.module(input_ids=ids).logits, before)  # nothing is left behind


@torch.no_grad()
def test_pooling_into_as_many_changes_nothing(models):
    model = small(models)
    with pooling(model, 6):
        found = next_probabilities(model, IDS, masked=True)
    assert found == pytest.approx(next_probabilities(model, IDS, masked=True), abs=1e-6)


def test_pooled_heads_by_hand():
    heads = torch.tensor([1.0, 3.0, 10.0, 30.0])[None, :, None, None]
    assert pooled_heads(heads, 2).flatten().tolist() == [2, 20]
    assert pooled_heads(heads, 1).flatten().tolist() == [11]
    for wrong in (3, 0, 8):
        with pytest.raises(ValueError, match="evenly"):
            pooled_heads(heads, wrong)


def test_perplexity_by_hand():
    assert lab.perplexity([0.25, 0.25]) == pytest.approx(4)
    assert lab.perplexity([0.5, 0.125]) == pytest.approx(4)


def paragraph_perplexity(groups):
    read = lab.paragraph("smollm2", groups)
    while not read.done:
        read.step()
    return lab.paragraph_perplexity(read)


@pytest.mark.parametrize("groups", [3, 1])
def test_in_pieces_and_at_once_it_is_the_same(models, embedded, groups):
    read = lab.paragraph("smollm2", groups)
    with nullcontext() if groups == 3 else pooling(models["smollm2"], groups):
        at_once = next_probabilities(models["smollm2"], read.ids, masked=True)
    steps = 0
    while not read.done:
        read.step()
        steps += 1
    assert read.found == pytest.approx(at_once, rel=1e-3, abs=1e-8)
    assert lab.perplexity(read.found) == pytest.approx(lab.perplexity(at_once), rel=1e-5)
    assert steps == -(-(len(read.ids) - 1) // PIECE) > 1
    assert read.cache is None


def test_the_paragraph_of_try_this(models, embedded):
    before, tokens = paragraph_perplexity(3)
    ids = torch.tensor([models["smollm2"].tokenizer(lab.PARAGRAPH.read_text(encoding="utf-8").strip())["input_ids"]])
    with torch.no_grad():
        loss = models["smollm2"].module(input_ids=ids, labels=ids).loss
    assert before == pytest.approx(float(loss.exp()), rel=1e-4)
    assert before == pytest.approx(33.7, abs=0.05)
    assert tokens == ids.shape[1]
    assert paragraph_perplexity(1)[0] == pytest.approx(18_000, abs=100)


def test_the_head_that_pooling_changes(models, embedded):
    asked = ("smollm2", PROMPT, 512, Sampling(), 2, 25, 2)
    while (found := lab.pooled_head(*asked, 1)) is None:
        pass
    assert found.pooled.weights.sum(axis=1) == pytest.approx(1)
    assert found.distances[0] == 0  # one key
    assert max(found.distances) > 0.1
    same = lab.pooled_head(*asked, 3)
    assert same.pooled.weights == pytest.approx(found.own.weights, abs=1e-4)
    assert max(same.distances) < 0.01
    assert [lab.divisors(n) for n in (9, 8)] == [[9, 3, 1], [8, 4, 2, 1]]
