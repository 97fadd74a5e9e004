"""What pages ask of an edited model: against the core, by the facts that the page tells, and by identity."""

import math

import numpy as np
import pytest
import torch

from attention_core import capture, compute, what_if
from attention_core.edits import OFF, Edit, editing
from attention_core.formula import Formula
from attention_core.what_if import LengthsDifferError, Told

PARIS, TEXT, LIMIT = 7042, "The capital of France is", 512
STRONG = Told(23, 4, "off")


def job(name, *args):
    return compute.run(getattr(what_if, name), *args)


def test_paris_hangs_on_one_head(models):
    said = job("said", "smollm2", TEXT, LIMIT, (STRONG,))
    at = said.ids.index(PARIS)
    assert said.labels[at] == " Paris"
    assert said.before[at] > 0.7
    assert said.after[at] < 0.2
    module, ids = models["smollm2"].module, torch.tensor([models["smollm2"].tokenizer(TEXT)["input_ids"]])
    with torch.no_grad(), editing(module, {(23, 4): OFF}):
        after = module(input_ids=ids).logits[0, -1].softmax(dim=-1)
    with torch.no_grad():
        before = module(input_ids=ids).logits[0, -1].double().log_softmax(dim=-1)
    assert said.after[at] == pytest.approx(float(after[PARIS]), abs=1e-5)
    assert said.divergence == pytest.approx(float((before.exp() * (before - after.double().log())).sum()), abs=1e-3)


def paris(*told):
    said = job("said", "smollm2", TEXT, LIMIT, told)
    return said.after[said.ids.index(PARIS)]


def test_what_the_page_tells_to_try():
    plain, off = paris(), paris(STRONG)
    assert off < plain / 5
    assert paris(Told(23, 4, "cut", "4-3")) == pytest.approx(off, abs=0.01)  # from "is" to "France"
    assert paris(Told(23, 4, "instead", "The capital of Japan is")) == pytest.approx(plain, abs=0.01)
    assert paris(Told(23, 4, "scale", "2")) < plain
    none = job("said", "smollm2", TEXT, LIMIT, (Told(None, None, "off"),))
    other = job("said", "smollm2", "The name of everything is", LIMIT, (Told(None, None, "off"),))
    both = set(none.ids) & set(other.ids)
    assert none.ids[int(none.after.argmax())] in both
    for n in both:
        assert none.after[none.ids.index(n)] == pytest.approx(other.after[other.ids.index(n)], abs=1e-6)


def test_without_edits_nothing_moves():
    said = job("said", "smollm2", TEXT, LIMIT, ())
    assert np.array_equal(said.before, said.after)
    assert said.divergence == 0
    assert job("moved", "smollm2", TEXT, LIMIT, (), 29).max() == 0
    assert job("meant", "minilm", TEXT, LIMIT, ()).cosine == pytest.approx(1, abs=1e-6)


def test_only_later_layers_look_elsewhere():
    moved = [job("moved", "smollm2", TEXT, LIMIT, (STRONG,), layer) for layer in (22, 23, 24, 29)]
    assert max(moved[0].max(), moved[1].max()) < 1e-3  # float noise of the root of almost nothing
    assert min(moved[2].max(), moved[3].max()) > 0.01


def test_a_model_that_predicts_nothing_means_something_else():
    assert job("said", "minilm", TEXT, LIMIT, (Told(5, 11, "off"),)) is None
    meant = job("meant", "minilm", "I ate the cake and it was delicious", LIMIT, (Told(5, None, "off"),))
    assert 0.5 < meant.cosine < 0.999
    assert (np.diff(meant.before) <= 0).all()
    assert "I ate the cake and it was delicious" not in meant.sentences


def test_words_become_tokens():
    edits = compute.run(
        what_if.changes, "minilm", "the zyzzogeton cake", LIMIT, (Told(0, 1, "cut", "3-1-2"), Told(0, 2, "key", "2"))
    )
    seen = compute.run(compute._seen, "minilm", "the zyzzogeton cake", LIMIT)
    word = seen.group_numbers("word")[1].tolist()
    assert word.count(2) > 1  # a word of several tokens
    rows, keys = ([n for n, of in enumerate(word) if of in which] for which in ((3,), (1, 2)))
    assert set(edits[0, 1].cut) == {(q, k) for q in rows for k in keys}
    assert edits[0, 2] == Edit(weights=word.index(2))


def test_what_is_told_of_one_head_goes_before_what_is_told_of_many():
    told = (Told(2, 3, "scale", "0.5"), Told(None, None, "off"), Told(2, None, "temperature", "3"))
    edits = job("changes", "minilm", TEXT, LIMIT, told)
    assert len(edits) == 72
    assert edits[2, 3] == Edit(scale=0.5)
    assert edits[2, 4] == Edit(Formula(temperature=3.0))
    assert edits[0, 0] == OFF


def test_another_sentences_weights():
    other = "The capital of Japan is"
    edits = job("changes", "smollm2", TEXT, LIMIT, (Told(23, 4, "instead", other),))
    assert torch.equal(edits[23, 4].weights, compute.run(compute._seen, "smollm2", other, LIMIT).weights(23, 4))
    with pytest.raises(LengthsDifferError, match="5 tokens and the other one 2"):
        job("changes", "smollm2", TEXT, LIMIT, (Told(23, 4, "instead", "Hello there"),))


@pytest.mark.parametrize("kind", ["cut", "uniform", "unmasked"])
def test_a_view_shows_the_weights_that_the_model_used(models, kind):
    told = (Told(23, 4, kind, "4-0-3" if kind == "cut" else ""),)
    view = job("view", "smollm2", TEXT, LIMIT, told, 23, 4)
    seen = capture(models["smollm2"], TEXT)
    value = seen.layer(23).value[seen.group(23, 4)]
    kept = []
    module = models["smollm2"].module
    layer = module.model.layers[23].self_attn.o_proj
    hook = layer.register_forward_pre_hook(lambda _, given: kept.append(given[0][0]))
    with torch.no_grad(), editing(module, job("changes", "smollm2", TEXT, LIMIT, told)):
        module(input_ids=torch.tensor([[token.id for token in seen.tokens]]))
    hook.remove()
    size = value.shape[-1]
    np.testing.assert_allclose(view.weights @ value.numpy(), kept[0][:, 4 * size : 5 * size].numpy(), atol=1e-4)
    assert kind == "cut" or np.allclose(view.weights.sum(axis=1), 1, atol=1e-5)


def without_each(*asked):
    read = job("without_each", *asked)
    while not read.done:
        compute.run(read.step)
    return compute.run(what_if.outcomes, read)


def test_the_shelf_is_filled_a_sentence_a_piece(monkeypatch):
    monkeypatch.setattr(what_if, "_shelf", type(what_if._shelf)(2))
    left = [job("shelve", "minilm", LIMIT) for _ in range(4)]
    assert left == list(range(left[0], left[0] - 4, -1)) and left[0] > 4
    assert len(what_if._shelf["minilm"]) == 4
    found = job("meant", "minilm", TEXT, LIMIT, ())
    assert len(what_if._shelf["minilm"]) == left[0] + 1
    monkeypatch.setattr(what_if, "_shelf", type(what_if._shelf)(2))
    assert job("meant", "minilm", TEXT, LIMIT, ()).sentences == found.sentences
    assert job("shelve", "minilm", LIMIT) == 0


def test_the_three_strongest_together():
    heads = ((23, 4), (0, 4), (11, 7))
    plain = job("without_all", "smollm2", TEXT, LIMIT, PARIS, ())
    each = without_each("smollm2", TEXT, LIMIT, PARIS, heads)
    together = job("without_all", "smollm2", TEXT, LIMIT, PARIS, heads)
    assert math.exp(plain) > 0.7
    assert each[0] - plain == pytest.approx(-1.70, abs=0.02)
    assert together < each.min()
    said = job("said", "smollm2", TEXT, LIMIT, tuple(Told(*head, "off") for head in heads))
    assert said.after[said.ids.index(PARIS)] == pytest.approx(math.exp(together), abs=1e-6)


def test_looks_are_the_last_rows_weights(models):
    seen = capture(models["smollm2"], TEXT)
    looks = job("looks", "smollm2", TEXT, LIMIT, 3)
    assert looks.shape == (30, 9)
    assert looks[23, 4] == pytest.approx(float(seen.weights(23, 4)[-1, 3]), abs=1e-6)
    mean = capture(models["minilm"], TEXT).weights(2, 5)[:, 4].mean()  # [CLS] is the first word
    assert job("looks", "minilm", TEXT, LIMIT, 4)[2, 5] == pytest.approx(float(mean), abs=1e-6)


EVERY = (
    Told(None, None, "scale", "0.9"),
    Told(3, None, "uniform"),
    Told(4, None, "instead", "The capital of Japan is"),
    Told(23, 4, "cut", "4-0-3"),
    Told(23, 5, "cut", "all-3"),
    Told(23, 6, "key", "3"),
    Told(24, 1, "temperature", "4"),
    Told(24, 2, "unscaled"),
    Told(24, 3, "unmasked"),
    Told(24, 4, "instead", "The capital of Spain is"),
    Told(25, 0, "off"),
)


@pytest.mark.parametrize("at", [(3, 1), (4, 7), (23, 4), (23, 5), (23, 6), (24, 1), (24, 2), (24, 3), (24, 4), (29, 8)])
def test_lines_of_python_give_the_page_s_number(models, at, capsys):
    lines = job("as_python", "smollm2", TEXT, LIMIT, EVERY, *at, 4, 3)
    exec(compile(lines, "lines", "exec"), {})
    said = capsys.readouterr().out.split()
    assert float(said[-1]) == pytest.approx(job("view", "smollm2", TEXT, LIMIT, EVERY, *at).weights[4, 3], abs=1e-5)


def test_an_edited_head_is_shown_as_it_then_looks():
    edits = (Told(5, 11, "uniform"), Told(5, 10, "cut", "2-0-1-2-3-4"), Told(5, 9, "off"))
    moved = job("moved", "minilm", "cake tastes good", LIMIT, edits, 5)
    assert moved[11] > 0.1  # it looks everywhere equally now
    assert moved[10] == pytest.approx(1 / 5, abs=1e-3)  # one row of five has nothing left
    assert moved[9] == pytest.approx(0, abs=1e-3)  # it looks as before, and nobody hears of it
    shown = job("view", "minilm", "cake tastes good", LIMIT, edits, 5, 11)
    np.testing.assert_allclose(shown.weights, 1 / 5, atol=1e-6)


def test_what_an_edit_leaves_to_a_sink(models, tmp_path, monkeypatch):
    import transformers

    torch.manual_seed(7)
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "head_dim": 8,
    }
    config = transformers.GptOssConfig(
        vocab_size=len(models["smollm2"].tokenizer),
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        **sizes,
    )
    transformers.GptOssForCausalLM(config).save_pretrained(tmp_path / "sinking")
    models["smollm2"].tokenizer.save_pretrained(tmp_path / "sinking")
    monkeypatch.setenv("GAZE_MODELS_DIR", str(tmp_path))
    edits = (Told(0, 0, "cut", "all-0"), Told(0, 1, "uniform"))
    cut, uniform = (job("view", "sinking", TEXT, LIMIT, edits, 0, head) for head in (0, 1))
    np.testing.assert_allclose(cut.weights.sum(axis=1) + cut.sink, 1, atol=1e-6)
    assert cut.weights[0].tolist() == [0] * 5 and cut.sink[0] == pytest.approx(1)  # all is left to the sink
    assert uniform.sink.max() == pytest.approx(0, abs=1e-6)
