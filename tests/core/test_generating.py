"""Writing step by step: against generate, against a capture of the whole text, and by what it must do again."""

import sys
import weakref
from itertools import pairwise

import pytest
import torch
import transformers

from attention_core import capture, compute, generating
from attention_core.edits import Edit, editing
from attention_core.formula import Formula
from attention_core.generating import MOST, Guesses, Sampling, Writing, chances, next_probabilities, token_label
from attention_core.models.loading import LoadedModel
from attention_core.models.writers import writers
from attention_core.store import Store
from attention_core.tokens import read_tokens

PROMPT = "The capital of France is"
DRAWN = Sampling("sample", 1.3, 40, 0.9, 5)


def wrapped(module, tokenizer, limit=None):
    return LoadedModel("tiny", "tiny", module.eval(), tokenizer, limit, False)


def tiny(models, kind="llama", limit=None, **more):
    """A small model with the vocabulary of SmolLM2; window layers, grouped heads and learned positions among them."""
    tokenizer, torch_seed = models["smollm2"].tokenizer, torch.manual_seed(17)
    assert torch_seed
    sizes = {"vocab_size": 49152, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 6}
    inner = {"intermediate_size": 41, "num_key_value_heads": 2, "head_dim": 4, "initializer_range": 0.5}
    module = {
        "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **inner, **more)),
        "mistral": lambda: transformers.MistralForCausalLM(
            transformers.MistralConfig(**sizes, **inner, sliding_window=5, **more)
        ),
        "gpt2": lambda: transformers.GPT2LMHeadModel(
            transformers.GPT2Config(vocab_size=49152, n_embd=24, n_layer=3, n_head=6, n_positions=64, **more)
        ),
        "bloom": lambda: transformers.BloomForCausalLM(
            transformers.BloomConfig(vocab_size=49152, hidden_size=24, n_layer=2, n_head=2, **more)
        ),
    }[kind]()
    module.generation_config.eos_token_id = None
    return wrapped(module, tokenizer, limit)


def run(writing, steps):
    while len(writing.steps) <= steps:
        writing.step()
    return writing


def generated(model, count, **settings):
    ids = torch.tensor([[token.id for token in read_tokens(model.tokenizer, PROMPT)]])
    told = {"attention_mask": torch.ones_like(ids), "max_new_tokens": count, "pad_token_id": 0}
    return model.module.generate(ids, **told, **settings)


def test_greedy_is_what_generate_writes(models):
    model = models["smollm2"]
    writing = run(Writing(model, PROMPT, Sampling()), 29)
    assert [*writing._ids(29), writing.steps[29].chosen.id] == generated(model, 40, do_sample=False)[0].tolist()
    assert writing.steps[0].chosen.label == "·Paris"  # what "try this" says
    assert writing.steps[0].chosen.probability == pytest.approx(0.773, abs=5e-4)
    assert (writing.steps[29].over, writing.steps[29].chosen.label) == ("end", "<|im_end|>")
    assert "answer is: 2018" in writing.written(29).text
    with pytest.raises(ValueError, match="over: end"):
        writing.step()


@pytest.mark.parametrize("kind", ["llama", "mistral", "gpt2", "bloom"])
def test_greedy_in_other_families(models, kind):
    model = tiny(models, kind)
    writing = run(Writing(model, PROMPT, Sampling()), 12)
    assert [*writing._ids(12), writing.steps[12].chosen.id] == generated(model, 13, do_sample=False)[0].tolist()


@pytest.mark.parametrize(
    "sampling",
    [
        DRAWN,
        Sampling("sample", 0.4),
        Sampling("sample", 2.5, 7),
        Sampling("sample", 1.0, 0, 0.5),
        Sampling("sample", 7.0, 3, 0.2),
    ],
    ids=str,
)
def test_chances_are_those_of_generate(models, sampling):
    model = tiny(models)
    settings = {
        "do_sample": True,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
    }
    told = generated(model, 5, **settings, output_scores=True, output_logits=True, return_dict_in_generate=True)
    for logits, scores in zip(told.logits, told.scores, strict=True):
        torch.testing.assert_close(chances(logits[0], sampling), scores[0].double().softmax(dim=-1), atol=1e-6, rtol=0)
    first = run(Writing(model, PROMPT, sampling), 0).steps[0]
    expected = told.scores[0][0].softmax(dim=-1)
    assert [c.chance for c in first.best] == pytest.approx([float(expected[c.id]) for c in first.best], abs=1e-6)
    assert first.left == int((expected > 0).sum())


def test_drawing_follows_the_chances():
    logits = torch.tensor([2.0, 0.0, 1.0, -1.0])
    expected, draws = chances(logits, Sampling("sample")), 4000
    found = [
        int(torch.multinomial(expected, 1, generator=torch.Generator().manual_seed(seed * (MOST + 1))))
        for seed in range(1, draws + 1)
    ]
    shares = torch.bincount(torch.tensor(found), minlength=4) / draws
    torch.testing.assert_close(
        shares.double(), expected, atol=0.03, rtol=0
    )  # seeds that follow one another are independent


def test_a_seed_writes_its_text_again(models):
    model = tiny(models)
    texts = [run(Writing(model, PROMPT, DRAWN._replace(seed=seed)), 9).ids for seed in (1, 2, 1)]
    assert texts[0] == texts[2] != texts[1]


def test_temperatures_at_the_ends():
    logits = torch.tensor([1.0, 3.0, 2.0])
    assert chances(logits, Sampling("sample", 0)).tolist() == [0, 1, 0]
    assert chances(logits, Sampling("sample", 1e-320)).tolist() == [0, 1, 0]
    torch.testing.assert_close(chances(logits, Sampling("sample", 1e9)), torch.full((3,), 1 / 3, dtype=torch.float64))
    assert chances(logits, Sampling("greedy", 5.0)).tolist() == [0, 1, 0]


@pytest.mark.parametrize("kind", ["llama", "mistral", "gpt2"])
def test_rows_are_those_of_a_capture_of_the_whole_text(models, kind):
    model = tiny(models, kind)
    writing = run(Writing(model, PROMPT, DRAWN), 11)
    assert writing.layers  # recorded on the way, not captured again
    whole = capture(model.module, input_ids=torch.tensor([writing._ids(11)]))
    early, late = writing.seen(4), writing.seen(11)
    for layer in range(3):
        for head in range(6):
            weights = late.weights(layer, head)
            torch.testing.assert_close(weights, whole.weights(layer, head), atol=1e-5, rtol=0)
            rows = len(early.tokens)
            torch.testing.assert_close(early.weights(layer, head), weights[:rows, :rows])  # rows never change
    if kind == "mistral":
        assert (late.weights(0, 0).tril(-5) == 0).all()


def test_what_the_recording_does_not_suffice_for_is_captured_again(models):
    for model, prompt in ((tiny(models), "The"), (tiny(models, "bloom"), PROMPT)):
        writing = run(Writing(model, prompt, Sampling()), 3)
        assert not writing.layers
        whole = capture(model.module, input_ids=torch.tensor([writing._ids(3)]))
        torch.testing.assert_close(writing.seen(3).weights(1, 1), whole.weights(1, 1))
        assert len(writing.seen(3).tokens) == len(writing._ids(3))


def test_tokens_nobody_would_read_in_the_text(models):
    model = models["smollm2"]
    writing = Writing(model, "나는 빵", Sampling())
    tokenizer, count = model.tokenizer, len(writing.prompt)
    new = [token.id for token in read_tokens(tokenizer, "티")][:2]  # two of a letter's three bytes
    new += [token.id for part in ("c", "a", "ke") for token in read_tokens(tokenizer, part)]  # "cake" in three
    ids = [*writing.ids, *new]
    text, tokens = writing._tokens(ids)
    assert text == "나는 빵\ufffdcake"
    assert [token.id for token in tokens] == ids
    assert [token.label for token in tokens[count:]] == ["\ufffd ¹⁄₂", "\ufffd ²⁄₂", "c", "a", "ke"]
    assert [token.index for token in tokens] == list(range(len(ids)))
    words = [token.word for token in tokens]
    assert all(b - a in (0, 1) for a, b in pairwise(words))
    writing.ids, writing.steps = ids, [None] * (len(new) + 1)
    assert not writing.written(len(new)).again
    assert "".join(["나는 빵", *writing.written(len(new)).new]) == text


def test_bytes_of_a_character_are_written_as_bytes(models):
    model = models["smollm2"]
    first = read_tokens(model.tokenizer, "티")[0].id
    assert token_label(model.tokenizer, first) == "ED"
    assert token_label(model.tokenizer, read_tokens(model.tokenizer, " cake")[0].id) == "·cake"


def test_no_more_than_the_context_and_the_limit(models, monkeypatch):
    count = len(read_tokens(models["smollm2"].tokenizer, PROMPT))
    writing = run(Writing(tiny(models, limit=count + 3), PROMPT, Sampling()), 3)
    assert [step.over for step in writing.steps] == ["", "", "", "context"]
    monkeypatch.setattr(generating, "MOST", 2)
    writing = run(Writing(tiny(models), PROMPT, Sampling()), 2)
    assert [step.over for step in writing.steps] == ["", "", "limit"]


@torch.no_grad()
def test_without_a_mask_every_place_sees_all(models):
    model = tiny(models)
    ids = [token.id for token in read_tokens(model.tokenizer, PROMPT)]
    logits = model.module(input_ids=torch.tensor([ids])).logits[0, :-1].double().softmax(dim=-1)
    masked = next_probabilities(model, ids, masked=True)
    assert masked == pytest.approx(logits[range(len(ids) - 1), ids[1:]].tolist())
    unmasked = next_probabilities(model, ids, masked=False)
    changed = next_probabilities(model, [*ids[:-1], ids[0]], masked=True)
    assert changed[:-1] == pytest.approx(masked[:-1])  # with the mask, what comes later changes nothing
    assert next_probabilities(model, [*ids[:-1], ids[0]], masked=False)[:-1] != pytest.approx(unmasked[:-1])
    blind = {(n, h): Edit(Formula(without=("causal",))) for n in range(3) for h in range(6)}
    with editing(model.module, blind):
        expected = model.module(input_ids=torch.tensor([ids])).logits[0, :-1].double().softmax(dim=-1)
    assert unmasked == pytest.approx(expected[range(len(ids) - 1), ids[1:]].tolist())


def test_in_pieces_and_at_once_the_cheat_is_the_same(models, embedded, monkeypatch):
    monkeypatch.setattr(generating, "PIECE", 3)
    while (read := generating.guesses_at("smollm2", PROMPT, 512, Sampling(), 4)) is None:
        pass
    while not read.done:
        read.step()
    at_once = generating.cheat_at("smollm2", PROMPT, 512, Sampling(), 4)
    found = generating.cheat_at("smollm2", PROMPT, 512, Sampling(), 4, read.found)
    assert len(found.masked) == 8
    assert found.masked == pytest.approx(at_once.masked, rel=1e-3, abs=1e-8)
    assert (found.open, found.labels) == (at_once.open, at_once.labels)
    alone = Guesses(models["smollm2"], [5])
    assert alone.done and alone.found == []


def test_the_cheat_of_try_this(models, embedded):
    for number, masked, unmasked in ((0, 0.36, 0.04), (10, 0.43, 0.63)):
        while (found := generating.cheat_at("smollm2", PROMPT, 512, Sampling(), number)) is None:
            pass
        assert sum(found.masked) / len(found.masked) == pytest.approx(masked, abs=0.005)
        assert sum(found.open) / len(found.open) == pytest.approx(unmasked, abs=0.005)


@pytest.fixture
def embedded(models, monkeypatch):
    """The two models as the pages' jobs find them, and no writing yet."""
    monkeypatch.setattr(compute, "_models", dict(models))
    monkeypatch.setattr(generating, "_writings", type(generating._writings)())
    monkeypatch.setattr(compute, "_store", Store())


@pytest.fixture
def forwards(models, embedded):
    """How many times the model reads, and how many tokens each time."""
    seen = []
    hook = models["smollm2"].module.model.register_forward_pre_hook(
        lambda _, __, told: seen.append(told["input_ids"].shape[1]), with_kwargs=True
    )
    yield seen
    hook.remove()


def test_a_piece_of_work_is_one_token_and_nothing_is_computed_twice(forwards):
    asked = ("smollm2", PROMPT, 512, Sampling())
    assert generating.advance(*asked, 3) is None
    assert forwards == [5]  # the prompt
    while generating.advance(*asked, 3) is None:
        assert forwards[1:] == [1] * (len(forwards) - 1)
    assert forwards == [5, 1, 1, 1]
    for number in (0, 3, 1):
        assert generating.advance(*asked, number).number == number
        generating.head_at(*asked, number, 2, 1)
        generating.strip_at(*asked, number, 2)
        generating.text_at(*asked, number)
    assert forwards == [5, 1, 1, 1]
    other = ("smollm2", PROMPT, 512, DRAWN)  # somebody else in between
    generating.advance(*other, 1)
    generating.advance(*asked, 4)
    assert forwards == [5, 1, 1, 1, 5, 1]


def test_what_is_kept_is_bounded_and_comes_again(models, forwards, monkeypatch):
    asked = [("smollm2", prompt, 512, Sampling()) for prompt in (PROMPT, "Once upon", "I ate")]
    first = generating.advance(*asked[0], 0)
    size = generating._writing(*asked[0]).bytes
    monkeypatch.setenv("GAZE_CACHE_MB", str(1.2 * size / 2**20))
    for one in asked:
        generating.advance(*one, 0)
    assert [generating._writing(*one).bytes > 0 for one in asked] == [False, True, True]
    assert generating.advance(*asked[0], 0) == first  # what was found stays
    assert forwards == [5, 2, 2]
    found = generating.advance(*asked[0], 1)
    assert forwards == [5, 2, 2, 6]  # the whole text again, once
    assert generating.advance(*asked[0], 2) is not None
    assert forwards[4:] == [1]
    alone = Writing(models["smollm2"], PROMPT, Sampling())
    alone.step()
    assert found.chosen.id == alone.step().chosen.id
    alone.step()
    whole, grown = generating._writing(*asked[0]).seen(2), alone.seen(2)
    torch.testing.assert_close(whole.weights(7, 5), grown.weights(7, 5), atol=1e-5, rtol=1e-4)


def test_a_model_leaves_although_it_has_written(models, embedded):
    compute._models["own"], asked = tiny(models), ("own", PROMPT, 512, Sampling())
    while generating.advance(*asked, 2) is None:
        pass
    module = weakref.ref(compute._models["own"].module)
    found = [generating.advance(*asked, n) for n in range(3)]
    compute._free(["own"])
    assert module() is None
    compute._models["own"] = tiny(models)  # the same once more
    assert [generating.advance(*asked, n) for n in range(3)] == found
    assert generating.head_at(*asked, 2, 1, 1).weights.shape == (7, 7)
    while generating.advance(*asked, 3) is None:
        pass


def test_a_writing_larger_than_the_store_goes_on_all_the_same(forwards, monkeypatch):
    asked = ("smollm2", PROMPT, 512, Sampling())
    while generating.advance(*asked, 2) is None:
        pass
    expected = [generating.advance(*asked, n).chosen.id for n in range(3)]
    compute._store.clear()
    generating._writings.clear()
    monkeypatch.setenv("GAZE_CACHE_MB", "0.001")
    while generating.advance(*asked, 2) is None:
        pass
    assert forwards == [5, 1, 1, 5, 6, 7]
    assert [generating.advance(*asked, n).chosen.id for n in range(3)] == expected
    assert generating.head_at(*asked, 2, 3, 1).weights.shape == (7, 7)


def test_who_writes(models, embedded, tmp_path, monkeypatch):
    for name, told in {
        "w": '{"architectures": ["XForCausalLM"]}',
        "r": '{"architectures": null}',
        "b": "[]",
        "x": "{",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(told)
    monkeypatch.setenv("GAZE_MODELS_DIR", str(tmp_path))
    assert list(writers()) == ["smollm2", "w"]
    with pytest.raises(TypeError, match="does not write"):
        generating.advance("minilm", PROMPT, 512, Sampling(), 0)
    generating.advance("smollm2", PROMPT, 512, Sampling(), 0)
    with pytest.raises(IndexError, match="step 7"):
        generating._writing("smollm2", PROMPT, 512, Sampling()).written(7)


def test_asking_for_more_than_there_is(models, embedded, monkeypatch):
    monkeypatch.setattr(generating, "MOST", 1)
    asked = ("smollm2", PROMPT, 512, Sampling())
    while generating.advance(*asked, 1) is None:
        pass
    with pytest.raises(IndexError, match="over after step 1"):
        generating.advance(*asked, sys.maxsize)
