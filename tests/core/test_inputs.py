"""Ways to read a text: two sentences at once, special tokens that are typed, a chat template."""

import math

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from attention_core import Input, capture, compute
from attention_core.errors import ModelHidden, NoTokens
from attention_core.export import as_python
from attention_core.inputs import as_input
from attention_core.models.embedded import published_file
from attention_core.pairs import pair_shares
from attention_core.reading import can_read, fit_input, prepare, written_by
from attention_core.views import view_head

A, B = "I ate the cake", "it was delicious, sweet"


@pytest.fixture(scope="module")
def bert():
    """MiniLM as the library opens it, with its plainest attention."""
    folder = published_file("minilm").parent
    return AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder, attn_implementation="eager")


def test_what_the_embedded_models_can_read(models):
    can = can_read(models["minilm"])
    assert (can.pair, can.target, can.writes, can.chat) == (True, False, False, False)
    assert {"[MASK]", "[SEP]"} <= set(can.special)
    can = can_read(models["smollm2"])
    assert (can.pair, can.target, can.writes, can.chat) == (False, False, False, True)
    assert "<|im_end|>" in can.special
    assert written_by(models["smollm2"], Input(A)) == ()


@pytest.mark.parametrize("layer", range(6))
def test_a_pair_equals_the_librarys_eager_attention(models, bert, layer):
    tokenizer, module = bert
    given = tokenizer(A, B, return_tensors="pt")
    assert given["token_type_ids"].sum() > 0
    with torch.no_grad():
        expected = module(**given, output_attentions=True).attentions[layer][0]
    seen = capture(models["minilm"], A, B)
    assert [token.id for token in seen.tokens] == given["input_ids"][0].tolist()
    assert [token.segment for token in seen.tokens] == given["token_type_ids"][0].tolist()
    own = torch.stack([seen.weights(layer, head) for head in range(seen.heads)])
    torch.testing.assert_close(own, expected, atol=1e-5, rtol=0)


def test_a_pair_is_not_one_text(models):
    pair, one = capture(models["minilm"], A, B), capture(models["minilm"], f"{A} [SEP] {B}", parse_special=True)
    assert [t.id for t in pair.tokens] == [t.id for t in one.tokens]
    assert (pair.weights(0, 0) - one.weights(0, 0)).abs().max() > 0.01  # the segments make the difference


def test_tokens_of_a_pair_stand_where_they_were_typed(models):
    seen = capture(models["minilm"], A, B)
    assert seen.text == f"{A}\n{B}"
    typed = [token for token in seen.tokens if not token.special]
    assert all(seen.text[token.start : token.end] == token.text for token in typed)
    assert " ".join(token.text for token in typed if token.segment == 0) == A
    assert seen.labels("sentence")[0] == ["[CLS]", A, "[SEP]", B, "[SEP]"]
    assert seen.labels("word")[0][-6:] == ["it", "was", "delicious", ",", "sweet", "[SEP]"]


@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize("special", ["shown", "hidden", "renormalised"])
@pytest.mark.parametrize("between", ["ab", "ba"])
def test_one_sentence_looks_at_the_other(models, between, special, unit):
    seen = capture(models["minilm"], A, B)
    view = view_head(seen, 3, 7, unit, special, between=between)
    full = view_head(seen, 3, 7, unit, "renormalised" if special == "renormalised" else "shown")
    sides = {"a": A.split(), "b": ["it", "was", "delicious", ",", "sweet"]}
    assert (list(view.queries), list(view.keys)) == (sides[between[0]], sides[between[1]])
    rows, columns = ([list(full.queries).index(word) for word in side] for side in (view.queries, view.keys))
    np.testing.assert_allclose(view.weights, full.weights[rows][:, columns], atol=1e-6)
    np.testing.assert_allclose(view.weights.sum(axis=1) + view.hidden, 1, atol=1e-6)
    assert view.between == between
    assert not view.square
    if unit == "token":
        rest = view_head(seen, 3, 7)
        np.testing.assert_allclose(
            view.raw[0],
            rest.raw[0][
                np.ix_(
                    [list(rest.queries).index(w) for w in view.queries], [list(rest.keys).index(w) for w in view.keys]
                )
            ],
        )


def test_a_part_of_what_is_no_pair_is_all_of_it(models):
    seen = capture(models["minilm"], A)
    assert view_head(seen, 0, 0, between="ab").queries == view_head(seen, 0, 0).queries
    with pytest.raises(ValueError, match="between is one of"):
        view_head(seen, 0, 0, between="aa")


def test_shares_of_a_pair_by_hand(models):
    seen = capture(models["minilm"], A, B)
    found = pair_shares(seen, 2, 5)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(2))
    weights = seen.weights(2, 5)
    torch.testing.assert_close(found[0, 1], weights[1:5, 6:11].sum(dim=1).mean())
    torch.testing.assert_close(found[1, 0], weights[6:11, 1:5].sum(dim=1).mean())
    torch.testing.assert_close(found[1, 2], weights[6:11, [0, 5, 11]].sum(dim=1).mean())
    view = view_head(seen, 2, 5, between="ab")
    assert math.isclose(view.weights.sum(axis=1).mean(), found[0, 1], abs_tol=1e-6)


def test_a_model_that_takes_one_text(models):
    with pytest.raises(ValueError, match="not a pair"):
        capture(models["smollm2"], A, B)
    with pytest.raises(ModelHidden, match="not a pair"):
        compute.run(compute.read, "smollm2", Input(A, B), 512)


def test_special_tokens_are_read_as_the_learner_says(models):
    text = "I [MASK] the cake"
    literal, special = (compute.run(compute.read, "minilm", asked, 512) for asked in (text, Input(text, special=True)))
    assert literal.labels[2:5] == ("[", "mask", "]") or literal.labels[2:5] == ("[", "MASK", "]")
    assert special.labels == ("[CLS]", "I", "[MASK]", "the", "cake", "[SEP]")
    assert special.special[2]
    assert (special.added, literal.added) == (2, 2)
    pair = capture(models["minilm"], A, "it [MASK]", parse_special=True)
    assert [t.label for t in pair.tokens if t.special and not t.added] == ["[MASK]"]
    assert not any(t.special and not t.added for t in capture(models["minilm"], A, "it [MASK]").tokens)


def test_a_chat_is_what_the_librarys_template_makes(models):
    tokenizer = models["smollm2"].tokenizer
    said = [{"role": "user", "content": A}]
    given = tokenizer.apply_chat_template(said, add_generation_prompt=True, return_dict=True)
    seen = capture(models["smollm2"], A, chat=True)
    assert [token.id for token in seen.tokens] == given["input_ids"]
    assert seen.text == tokenizer.apply_chat_template(said, add_generation_prompt=True, tokenize=False)
    assert "".join(token.text for token in seen.tokens) == seen.text
    assert "".join(token.text for token in seen.tokens if not token.added) == A
    assert [token.label for token in seen.tokens if token.special] == ["<|im_start|>", "<|im_end|>"] * 2 + [
        "<|im_start|>"
    ]


@pytest.mark.parametrize("text", ["assistant", "  user ", "system\nassistant"])
def test_words_of_the_template_are_not_taken_for_the_users(models, text):
    seen = capture(models["smollm2"], text, chat=True)
    own = [token for token in seen.tokens if not token.added]
    assert "".join(token.text for token in own).strip() == text.strip()
    assert seen.text[own[-1].end :].startswith("<|im_end|>\n<|im_start|>assistant")


@pytest.mark.parametrize("special", [False, True])
def test_what_a_user_types_in_a_chat_is_only_text_unless_asked(models, special):
    text = "I<|im_end|>ate"
    seen = capture(models["smollm2"], text, chat=True, parse_special=special)
    own = [token for token in seen.tokens if not token.added]
    assert "".join(token.text for token in own) == text
    assert [token.special for token in own] == ([False, True, False] if special else [False] * len(own))
    assert len(own) > 3 or special


def test_a_template_that_can_not_be_filled_in(models, monkeypatch):
    tokenizer = models["smollm2"].tokenizer
    monkeypatch.setattr(tokenizer, "chat_template", "{{ raise_exception('only <b>two</b> may speak') }}")
    with pytest.raises(ModelHidden, match="only <b>two</b> may speak"):
        prepare(models["smollm2"], Input(A, chat=True))
    monkeypatch.setattr(tokenizer, "chat_template", "nothing of it")
    with pytest.raises(NoTokens, match="leaves nothing"):
        prepare(models["smollm2"], Input(A, chat=True))


@pytest.mark.parametrize("limit", [11, 29, 64, 101])
@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("minilm", Input("cake and " * 61, "it was " * 3)),
        ("minilm", Input("a cake", "it was delicious " * 71)),
        ("minilm", Input("cake and " * 61, "it was delicious " * 71)),
        ("minilm", Input("I [MASK] it. " * 41, special=True)),
        ("smollm2", Input("I ate the cake. " * 41, chat=True)),
    ],
)
def test_what_is_too_long_is_cut_at_a_word(models, name, asked, limit):
    if asked.chat and limit < 40:
        limit += 30  # the template alone has thirty tokens
    kept, tokens, cut = fit_input(models[name], asked, limit)
    whole = len(prepare(models[name], asked).tokens)
    assert tokens == whole > limit
    read = prepare(models[name], kept).tokens
    assert limit - 3 <= len(read) <= limit
    assert cut == sum(len(side[len(part) :].split()) for side, part in zip(asked[:2], kept[:2], strict=True))
    assert all(side.startswith(part) for side, part in zip(asked[:2], kept[:2], strict=True))
    assert fit_input(models[name], kept, limit)[0] == kept


def test_what_fits_is_not_touched(models):
    for name, asked in (("minilm", Input(A, B)), ("smollm2", Input(A, chat=True)), ("minilm", Input(A))):
        assert fit_input(models[name], asked, 64)[::2] == (asked, 0)


def test_a_plain_text_and_an_input_are_the_same_capture():
    compute.run(compute.read, "minilm", "one and the same", 512)
    before = list(compute._store)
    assert compute.run(compute.read, "minilm", Input("one and the same"), 512).tokens == 6
    compute.run(compute.view, "minilm", Input("one and the same", between="ab"), 512, 0, 0, "token", "shown")
    assert set(compute._store) == set(before)
    assert as_input("x") == Input("x")


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("minilm", Input(A, B)),
        ("minilm", Input("I [MASK] it", "a 'b' \"c\" \\", special=True)),
        ("smollm2", Input(A, chat=True)),
        ("smollm2", Input("a <|im_end|> b", special=True, chat=True)),
    ],
)
def test_the_ten_lines_give_the_number(models, capsys, name, asked):
    lines = compute.run(compute.lines, name, asked, 512, 3, 2, 4, 1)
    assert lines == as_python(name, asked, 3, 2, 4, 1)
    assert len(lines.splitlines()) == 10
    exec(compile(lines, "notebook", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    seen = compute.run(compute._seen, name, asked, 512)
    assert printed[0] == f"{seen.tokens[4].label} looks at {seen.tokens[1].label}"
    assert math.isclose(float(printed[-1].split()[-1]), seen.weights(3, 2)[4, 1].item(), abs_tol=1e-6)
