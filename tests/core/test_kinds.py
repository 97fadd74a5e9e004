"""Encoder-decoder models that read text: three kinds of attention, each with the right tokens on its axes."""

import math

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
    T5Model,
)
from transformers.models.bart.modeling_bart import shift_tokens_right

from attention_core import Input, capture, compute, load_model
from attention_core.errors import ModelHidden
from attention_core.export import as_python, head_npz
from attention_core.inputs import MOST_WRITTEN
from attention_core.one_map import layer_map, shown
from attention_core.reading import Writing, can_read, fit_input, prepare
from attention_core.statistics import ROLES, STATISTICS, repeat, survey
from attention_core.views import thumbnails, view_head
from benchmarks.families import eager_weights, pairs

SPECIAL = ["<pad>", "</s>", "<unk>", "<s>", "<mask>"]
SOURCE_WORDS, TARGET_WORDS = ["I", "ate", "the", "cake", "and", "it", "was", "good"], ["ich", "aß", "den", "Kuchen"]
WORDS = [*SPECIAL, ".", *(f"▁{word}" for word in SOURCE_WORDS + TARGET_WORDS)]
SOURCE, TARGET = "I ate the cake.", "ich aß"
SIZES = {"vocab_size": len(WORDS), "d_model": 24}
BART_SIZES = {
    **SIZES,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 29,
    "decoder_ffn_dim": 29,
    "max_position_embeddings": 61,
    "init_std": 0.5,
    "pad_token_id": 0,
    "eos_token_id": 1,
}


def tokenizer(begins):
    """A real tokeniser of twenty words; ``begins`` puts a token before a text, as BART's does."""
    core = Tokenizer(models.Unigram([(word, -float(n)) for n, word in enumerate(WORDS)], unk_id=2))
    core.pre_tokenizer, core.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    single, pair = ("<s> $A </s>", "<s> $A </s> </s> $B </s>") if begins else ("$A </s>", "$A </s> $B </s>")
    core.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[("<s>", 3), ("</s>", 1)]
    )
    named = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}
    return PreTrainedTokenizerFast(tokenizer_object=core, **named, **({"bos_token": "<s>"} if begins else {}))


def build(name):
    """Make a tiny random model of a family."""
    torch.manual_seed(3)
    if name == "t5":
        sizes = {"d_kv": 7, "d_ff": 29, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 5}
        module = T5ForConditionalGeneration(T5Config(**SIZES, **sizes, decoder_start_token_id=0))
        # T5 starts so small that all of its weights are equal, which would prove nothing.
        for part in module.modules():
            if hasattr(part, "relative_attention_bias"):
                torch.nn.init.normal_(part.q.weight, std=0.7)
                torch.nn.init.normal_(part.k.weight, std=0.7)
    elif name == "bart":
        told = {"bos_token_id": 3, "decoder_start_token_id": 1, "forced_eos_token_id": 1}
        module = BartForConditionalGeneration(BartConfig(**BART_SIZES, **told))
    else:
        module = MarianMTModel(MarianConfig(**BART_SIZES, decoder_start_token_id=0))
    return module.eval()


def save_all(root):
    """Save the three families under a folder, each with its tokeniser."""
    for name in FAMILIES:
        build(name).save_pretrained(root / f"tiny-{name}")
        tokenizer(name == "bart").save_pretrained(root / f"tiny-{name}")


FAMILIES = ("t5", "bart", "marian")
every_family = pytest.mark.parametrize("name", FAMILIES)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    save_all(folder)
    return folder


@pytest.fixture(scope="module")
def tiny(root):
    return {name: load_model(str(root / f"tiny-{name}"), "cpu") for name in FAMILIES}


@pytest.fixture
def offered(root, monkeypatch):
    """The three families, as the app offers them."""
    monkeypatch.setenv("GAZE_MODELS_DIR", str(root))
    compute._store.drop(lambda key: "tiny-" in key.model)
    for store in (compute._models, compute._written):
        for key in [k for k in store if "tiny-" in str(k)]:
            del store[key]
    compute._fit.cache_clear()


def fed(module, labels):
    """What the library's own training feeds the decoder for these labels."""
    if isinstance(module, T5ForConditionalGeneration):
        return module._shift_right(labels)
    return shift_tokens_right(labels, module.config.pad_token_id, module.config.decoder_start_token_id)


@every_family
def test_every_kind_equals_the_librarys_eager_attention(tiny, name):
    loaded = tiny[name]
    labels = torch.tensor([loaded.tokenizer(text_target=TARGET)["input_ids"]])
    ids = torch.tensor([loaded.tokenizer(SOURCE)["input_ids"]])
    given = {"input_ids": ids, "decoder_input_ids": fed(loaded.module, labels)}
    seen = capture(loaded, SOURCE, TARGET)
    assert seen.kinds == ("encoder", "decoder", "cross")
    assert [token.id for token in seen.tokens] == ids[0].tolist()
    assert [token.id for token in seen.target] == given["decoder_input_ids"][0].tolist()
    expected = eager_weights(loaded.module, given)
    assert max((own - theirs).abs().max().item() for own, theirs in pairs(seen, expected)) <= 1e-5
    for kind, layers, heads in (("encoder", 2, 3), ("decoder", 3, 4), ("cross", 3, 4)):
        one = seen.only(kind)
        assert (one.layers, one.heads) == (layers, 5 if name == "t5" else heads)
        assert torch.equal(one.weights(1, 2), seen.weights(1, 2, kind=kind))
        assert one.axes() == seen.axes(kind)
        assert one.weights(1, 2).std() > 0.001
    assert not seen.causal(0, "cross")
    assert seen.causal(0, "decoder")


def test_rows_are_named_after_the_tokens_that_are_fed(tiny):
    assert capture(tiny["t5"], SOURCE, TARGET).labels(kind="cross") == (
        ["<pad>", "ich", "·aß"],
        ["I", "·ate", "·the", "·cake", ".", "</s>"],
    )
    assert capture(tiny["bart"], SOURCE, TARGET).labels(kind="decoder")[0] == ["</s>", "<s>", "ich", "·aß"]
    words = capture(tiny["t5"], "I ate", "ich aß den").labels("word", kind="cross")
    assert words == (["<pad>", "ich", "aß", "den"], ["I", "ate", "</s>"])


@every_family
def test_the_target_is_what_greedy_generation_writes(tiny, name):
    loaded = tiny[name]
    seen = capture(loaded, SOURCE)
    ids = torch.tensor([loaded.tokenizer(SOURCE)["input_ids"]])
    start = loaded.module.config.decoder_start_token_id
    made = loaded.module.generate(
        input_ids=ids,
        max_new_tokens=MOST_WRITTEN + 1,  # the last one is forced to be the end, in BART
        do_sample=False,
        num_beams=1,
        use_cache=False,
        bad_words_ids=[[n] for n in {0, start} if n != 1],
    )[0].tolist()
    end = made.index(1, 1) if 1 in made[1:] else len(made)
    assert seen.written
    assert [token.id for token in seen.target] == made[: min(end, MOST_WRITTEN + 1)]
    assert len(seen.target) > 3
    assert len(seen.target) <= MOST_WRITTEN + 1
    again = capture(loaded, SOURCE, written=[token.id for token in seen.target])
    assert again.target == seen.target


def test_a_model_that_is_at_the_end_at_once_writes_nothing(tiny):
    loaded = load_model(tiny["marian"].name, "cpu")
    loaded.module.final_logits_bias[0, 1] = 1e6
    seen = capture(loaded, SOURCE)
    assert [token.label for token in seen.target] == ["<pad>"]
    assert seen.weights(0, 0, kind="cross").shape == (1, 6)


def test_a_model_without_a_part_that_writes(tiny, tmp_path):
    T5Model(tiny["t5"].module.config).save_pretrained(tmp_path)
    tiny["t5"].tokenizer.save_pretrained(tmp_path)
    loaded = load_model(str(tmp_path), "cpu")
    assert can_read(loaded)[1:3] == (True, False)
    seen = capture(loaded, SOURCE)
    assert (len(seen.target), seen.written) == (1, False)
    assert len(capture(loaded, SOURCE, TARGET).target) == 3


def test_nobody_waits_for_a_target_that_is_not_looked_at(offered, monkeypatch):
    monkeypatch.setattr(Writing, "step", lambda *_: pytest.fail("it wrote"))
    for text in (SOURCE, Input(SOURCE, kind="encoder"), Input(SOURCE, TARGET, kind="cross")):
        assert not compute.run(compute.write, "tiny-t5", text, 512)
        assert compute.run(compute.read, "tiny-t5", text, 512).layers == (3 if "cross" in text else 2)
    assert len(compute._store) >= 2


def test_it_is_written_a_token_at_a_time_and_once(offered):
    asked = Input(SOURCE, kind="cross")
    steps = 1
    while compute.run(compute.write, "tiny-marian", asked, 512):
        steps += 1
    read = compute.run(compute.read, "tiny-marian", asked, 512)
    ended = len(read.target) <= MOST_WRITTEN  # the last step finds the end
    assert steps == len(read.target) - 1 + ended
    assert read.written
    assert read.longest == max(len(read.labels), len(read.target))
    other = compute.run(compute.read, "tiny-marian", asked._replace(kind="decoder"), 512)
    assert (other.target, len(compute._written)) == (read.target, 1)
    assert sum(key.model == "tiny-marian" for key in compute._store) == 1


def test_what_the_model_has_not_is_said(offered):
    with pytest.raises(ModelHidden, match="no 'cross' attention"):
        compute.run(compute.read, "minilm", Input("a b", kind="cross"), 512)


@pytest.mark.parametrize("limit", [5, 11, 23])
def test_source_and_target_are_cut_each(tiny, limit):
    asked = Input(" ".join(["I ate the cake."] * 9), " ".join(["ich aß den Kuchen"] * 9), kind="cross")
    kept, tokens, cut = fit_input(tiny["bart"], asked, limit)
    read = prepare(tiny["bart"], kept)
    assert max(len(read.tokens), len(read.target)) == limit
    assert tokens == 9 * 5 + 2
    assert cut == sum(len(whole[len(part) :].split()) for whole, part in zip(asked[:2], kept[:2], strict=True))


def test_views_of_cross_attention(tiny):
    seen = capture(tiny["t5"], SOURCE, TARGET).only("cross")
    view = view_head(seen, 2, 1)
    assert (view.kind, view.square, view.causal) == ("cross", False, False)
    assert view.queries == ("<pad>", "ich", "·aß")
    assert view.key_pieces[:2] == ("▁I", "▁ate")
    assert view.weights.shape == (3, 6)
    np.testing.assert_allclose(view.weights.sum(axis=1), 1, atol=1e-6)
    hidden = view_head(seen, 2, 1, "word", "hidden")
    assert (hidden.queries, hidden.keys) == (("ich", "aß"), ("I", "ate", "the", "cake", "."))
    np.testing.assert_allclose(hidden.weights.sum(axis=1) + hidden.hidden, 1, atol=1e-6)
    assert thumbnails(seen, 0).shape == (5, 3, 6)


@every_family
def test_statistics_know_what_two_texts_do_not_have(tiny, name):
    seen, again = capture(tiny[name], SOURCE, TARGET), repeat(tiny[name])
    for kind in seen.kinds:
        found = survey(seen.only(kind), again.only(kind))
        missing = {s for n, s in enumerate(STATISTICS) if np.isnan(found.values[n]).all()}
        nothing = {"previous", "same", "next", "distance", "induction", "duplicate"}
        if kind == "cross":
            assert missing == nothing
            assert not {ROLES[role] for role in found.roles.flat} & nothing
            heads = range(found.values.shape[2])
            first = [[seen.weights(n, h, kind="cross")[1:, 0].mean() for h in heads] for n in range(3)]
            np.testing.assert_allclose(found.values[STATISTICS.index("first")], first, atol=1e-6)
        else:
            assert not missing & (nothing - {"next"})
            assert ("next" in missing) == (kind == "decoder")


def test_maps_of_all_heads_that_follow_one_text(offered):
    asked = Input(SOURCE, TARGET, kind="cross")
    maps = [compute.run(layer_map, "tiny-t5", asked, 512, "mean", layer) for layer in range(3)]
    place = ("tiny-t5", asked, 512)
    mean = compute.run(shown, *place, "mean", maps, 0, 0, first=True)
    assert (mean.weights.shape, mean.kind) == ((3, 6), "cross")
    lengths = compute.run(shown, *place, "norm", [], 1, 2, first=True)
    np.testing.assert_allclose(lengths.weights.sum(axis=1), 1, atol=1e-5)
    for way in ("rollout", "flow"):
        with pytest.raises(ValueError, match="looks at another text"):
            compute.run(shown, *place, way, maps, 0, 0, first=True)


@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize("second", ["", TARGET])
def test_the_lines_give_the_number(tiny, capsys, second, unit):
    loaded = tiny["marian"]
    asked = Input(SOURCE, second, kind="cross")
    exec(compile(as_python(loaded.name, asked, 1, 2, 1, 3, unit=unit), "notebook", "exec"), {})
    seen = capture(loaded, SOURCE, second)
    printed = capsys.readouterr().out.splitlines()
    queries, keys = seen.labels(unit, kind="cross")
    assert printed[0] == f"{queries[1]} looks at {keys[3]}"
    expected = seen.grouped(1, 2, unit, kind="cross")[1, 3].item()
    assert math.isclose(float(printed[-1].split()[-1]), expected, abs_tol=1e-6)


def test_the_archive_has_the_tokens_of_both_texts(tiny, tmp_path):
    seen = capture(tiny["bart"], SOURCE, TARGET).only("cross")
    file = tmp_path / "head.npz"
    file.write_bytes(head_npz(seen, 2, 3))
    kept = np.load(file)
    assert kept["queries"].tolist() == ["</s>", "<s>", "ich", "·aß"]
    assert kept["weights"].shape == (4, len(seen.tokens)) == (len(kept["queries"]), len(kept["keys"]))
