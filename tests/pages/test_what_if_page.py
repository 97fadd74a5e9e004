"""The page "What if": an edit at once, in the link, with what it lacks; heads knocked out one by one."""

import numpy as np
import pytest

from attention_core import compute, what_if
from attention_core.inputs import Input
from attention_core.what_if import Told
from ui.changes import what_if as glue

PARIS, TEXT = 7042, "The capital of France is"


@pytest.fixture
def visit(open_page):
    def opener(**query):
        return open_page(
            "pages/what_if.py", **{"lang": "en", "model": "smollm2", "text": TEXT, "layer": "24", "head": "5"} | query
        )

    return opener


def texts(page):
    return "\n".join(element.value for kind in (page.markdown, page.caption) for element in kind).replace("\\", "")


def test_a_first_visit_switches_off_the_head_that_matters(open_page):
    page = open_page("pages/what_if.py", lang="en")
    assert not page.exception
    assert page.session_state["edits"] in ("24.5.off", "6.12.off", "26.3.off")


def test_what_the_model_says(visit):
    page = visit()
    assert not page.exception
    said = compute.run(what_if.said, "smollm2", TEXT, 512, (Told(23, 4, "off"),))
    at = said.ids.index(PARIS)
    assert f"probability **{said.before[at]:.1%}** before and **{said.after[at]:.1%}** after" in texts(page)
    assert f"{said.divergence:.3f} nats" in texts(page)
    assert page.query_params["edits"] == "24.5.off"


def test_an_edit_is_chosen_scoped_and_taken_back(visit):
    page = visit()
    page.selectbox(key="what@24.5").set_value("uniform").run()
    assert page.session_state["edits"] == "24.5.uniform"
    page.slider(key="layer").set_value(3).run()
    assert page.selectbox(key="what@3.5").value == "as_is"
    page.selectbox(key="what@3.5").set_value("off").run()
    assert page.session_state["edits"] == "24.5.uniform_3.5.off"
    page.button(key="undo_0").click().run()
    assert page.session_state["edits"] == "3.5.off"
    page.button(key="undo_0").click().run()
    assert page.session_state["edits"] == "none"
    assert "Nothing is changed" in texts(page)
    assert not page.exception


def test_a_head_its_layer_and_all_heads_are_told_apart(visit):
    """What is told of one takes nothing back that is told of another; the particular goes before the general."""
    page = visit(edits="24.5.off")
    page.button_group(key="what_scope@24.5").set_value("layer").run()
    assert page.session_state["edits"] == "24.5.off"  # to look is not to change
    assert page.selectbox(key="what@24.all").value == "as_is"
    assert "What holds for layer 24, head 5 now is: layer 24, head 5: switch off" in texts(page)
    page.selectbox(key="what@24.all").set_value("uniform").run()
    page.button_group(key="what_scope@24.5").set_value("model").run()
    page.selectbox(key="what@all.all").set_value("scale").run()
    assert page.slider(key="what_scale@all.all").value == 0.5
    page.slider(key="what_scale@all.all").set_value(0.9).run()
    assert page.session_state["edits"] == "24.5.off_24.all.uniform_all.all.scale.0.9"
    page.button_group(key="what_scope@24.5").set_value("head").run()
    assert page.selectbox(key="what@24.5").value == "off"
    assert "What holds" not in texts(page)
    page.selectbox(key="what@24.5").set_value("as_is").run()
    assert page.session_state["edits"] == "24.all.uniform_all.all.scale.0.9"
    assert "What holds for layer 24, head 5 now is: layer 24, all heads: look everywhere equally" in texts(page)
    page = visit(head="6", edits="24.all.uniform_all.all.scale.0.9")
    assert page.button_group(key="what_scope@24.6").value == "layer"  # the controls say what holds for it
    assert page.selectbox(key="what@24.all").value == "uniform"
    assert not page.exception


def test_links_that_are_cut_one_by_one(visit):
    page = visit(edits="24.6.scale.2")
    page.selectbox(key="what@24.5").set_value("cut").run()
    assert page.session_state["edits"] == "24.6.scale.2_24.5.cut.4-3"  # from the last word to the one before
    page.multiselect(key="what_keys@24.5").set_value([]).run()
    assert page.session_state["edits"] == "24.6.scale.2"
    assert page.selectbox(key="what@24.5").value == "cut"  # the controls wait for another word
    page.multiselect(key="what_keys@24.5").set_value([1, 0]).run()
    assert page.session_state["edits"] == "24.6.scale.2_24.5.cut.4-0-1"
    page.selectbox(key="what_query@24.5").set_value("all").run()
    assert page.session_state["edits"] == "24.6.scale.2_24.5.cut.all-0-1"
    assert not page.exception


def test_edits_outlive_another_page_and_another_model(visit):
    """Controls that a page does not draw are forgotten; the edits are not, and each model has its own."""
    page = visit(edits="24.5.cut.4-3_24.6.off")
    page.switch_page("pages/all_heads.py").run()
    page.switch_page("pages/what_if.py").run()
    assert not page.exception
    assert page.query_params["edits"] == "24.5.cut.4-3_24.6.off"
    assert page.multiselect(key="what_keys@24.5").value == [3]
    page.button_group(key="model").set_value("minilm").run()
    assert page.query_params["edits"] == "6.12.off"
    page.button_group(key="model").set_value("smollm2").run()
    assert page.query_params["edits"] == "24.5.cut.4-3_24.6.off"
    assert not page.exception


def test_every_edit_in_both_languages(visit):
    edits = ["scale.-1.5", "cut.4-0-3", "uniform", "key.3", "instead", "unscaled", "temperature.1e+09", "unmasked"]
    for lang, edit in zip(("en", "ko") * 4, edits, strict=True):
        page = visit(edits=f"24.5.{edit}_all.all.scale.0.9", lang=lang)
        assert not page.exception, edit
        assert page.query_params["edits"] == f"24.5.{edit}_all.all.scale.0.9"


def test_cutting_every_link_of_a_row_is_said(visit):
    page = visit(edits="24.5.cut.4-0-1-2-3-4")
    assert "every link of “is” is cut: with nothing left to look at, the context is zero" in texts(page)


def test_a_temperature_of_zero_is_explained(visit):
    page = visit(edits="24.5.temperature.4")
    page.number_input(key="what_temperature@24.5").set_value(0.0).run()
    assert "The smallest temperature here is 1e-06" in texts(page)
    assert page.session_state["edits"] == "24.5.temperature.1e-06"
    assert not page.exception
    page = visit(edits="24.5.temperature.1e-300")
    assert page.query_params["edits"] == "24.5.temperature.1e-06"
    assert "nan" not in texts(page)


def test_what_does_not_fit_is_said_and_left_out(visit):
    page = visit(edits="24.5.instead", instead="Hello there")
    assert "5 tokens here, 2 there" in texts(page)
    for far in ("24.5.cut.17-3", "24.5.key.999"):
        page = visit(edits=far)
        assert not page.exception, far
        assert "with 5 words" in texts(page)
    page = visit(edits="24.5.key.4")
    page.text_input(key="text").set_value("two words").run()
    assert not page.exception
    assert "with 2 words" in texts(page)
    for nonsense in (
        "24.5.explode",
        "99.1.off",
        "24.5.scale.nan",
        "x",
        "24.5.temperature.-1",
        "24.5.key.-1",
        "24.5.key.-0",
        "24.5.key.²",
        "٢٤.5.off",
        "24.5.cut.a-b",
        "24.5.scale.5",
        "24.5.key.all",
        "24.5.key.1-2",
        "24.5.cut.all",
    ):
        page = visit(edits=nonsense)
        assert not page.exception, nonsense
        assert page.session_state["edits"] == "24.5.off"
    page = visit(edits="024.05.off_24.5.uniform_3.all.scale.1_99.1.off")
    assert page.query_params["edits"] == "24.5.uniform_3.all.scale.1"  # one for each place, as it is written here
    assert "does not know: 99.1.off" in texts(page)


def test_a_token_that_is_asked_for_stays_in_sight(visit):
    """Also where it is no longer among the most probable; a number that is no token is said to be none."""
    page = visit(edits="none", aim="1")
    assert "“<|im_start|>”, the word that is chosen above" in texts(page)
    page = visit(edits="none", aim="9999999")
    assert not page.exception
    assert "9999999" in texts(page)
    assert page.query_params["aim"] == str(PARIS)


def test_what_is_taken_away_is_what_is_drawn(visit, capsys):
    for when, said in (("after", "editing(model.module, edits)"), ("before", "seen.trace(")):
        page = visit(edits="24.5.uniform_3.all.off", when=when)
        page.session_state["take_gaze-what-if-layer-24-head-5" if when == "after" else "take_away"] = True
        page.run()
        assert not page.exception
        assert said in page.code[0].value
        exec(compile(page.code[0].value, "lines", "exec"), {})
        shown = compute.run(what_if.view, "smollm2", TEXT, 512, (Told(23, 4, "uniform"), Told(2, None, "off")), 23, 4)
        own = compute.run(compute.view, "smollm2", TEXT, 512, 23, 4, "token", "shown")
        expected = {"after": shown, "before": own}[when].weights
        assert np.isclose(expected, float(capsys.readouterr().out.split()[-1]), atol=1e-6).any()


@pytest.mark.parametrize("query", [{"text": "a"}, {"layer": "30", "edits": "30.5.off"}])
def test_where_nothing_looks_elsewhere_nothing_is_said_to(visit, query):
    page = visit(**query)
    assert not page.exception
    assert "No other head looks elsewhere" in texts(page)
    assert "moves most" not in texts(page)


def test_a_model_without_words_to_say(open_page):
    page = open_page(
        "pages/what_if.py", lang="en", model="minilm", text="I ate the cake and it was delicious", edits="6.all.off"
    )
    assert not page.exception
    meant = compute.run(what_if.meant, "minilm", "I ate the cake and it was delicious", 512, (Told(5, None, "off"),))
    assert f"a cosine of **{meant.cosine:.3f}**" in texts(page)


def test_heads_are_knocked_out_one_by_one(open_page, monkeypatch):
    monkeypatch.setattr(glue, "PIECE", 1e9)  # all in one tick
    text = "cake tastes good"
    page = open_page("pages/what_if.py", lang="en", model="minilm", text=text, edits="none")
    like = page.session_state["like"]
    page.button(key="knock").click().run()
    page.run()
    assert not page.exception
    run = page.session_state[glue.RUN]
    assert run.done == len(run.pieces)
    worst = [(int(n) // 12, int(n) % 12) for n in run.effects.ravel().argsort()[:3]]
    after = compute.run(what_if.without_all, "minilm", text, 512, like, worst)
    plain = compute.run(what_if.without_all, "minilm", text, 512, like, ())
    assert f"from **{plain:.3f}** to **{after:.3f}**" in texts(page)
    one = compute.run(what_if.without_all, "minilm", text, 512, like, worst[:1])
    assert run.effects[worst[0]] == pytest.approx(one - plain, abs=1e-5)
    page.button(key="knock_use").click().run()
    assert page.session_state["edits"] == "_".join(f"{layer + 1}.{head + 1}.off" for layer, head in worst)


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_a_model_that_fills_in(open_page, tmp_path, monkeypatch, models, lang):
    import torch
    import transformers

    torch.manual_seed(5)
    sizes = {"hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.BertConfig(vocab_size=len(models["minilm"].tokenizer), initializer_range=0.3, **sizes)
    transformers.BertForMaskedLM(config).save_pretrained(tmp_path / "filler")
    models["minilm"].tokenizer.save_pretrained(tmp_path / "filler")
    monkeypatch.setenv("GAZE_MODELS_DIR", str(tmp_path))
    page = open_page(
        "pages/what_if.py", lang=lang, model="filler", text="the [MASK] is red", special_tokens="yes", edits="1.all.off"
    )
    assert not page.exception
    asked = Input("the [MASK] is red", special=True)
    said = compute.run(what_if.said, "filler", asked, 512, (Told(0, None, "off"),))
    module = transformers.BertForMaskedLM.from_pretrained(tmp_path / "filler").eval()
    with torch.no_grad():
        ids = models["minilm"].tokenizer("the [MASK] is red", return_tensors="pt")
        logits = module(input_ids=ids["input_ids"]).logits[0, 2]
    best = int(logits.argmax())
    assert said.ids[0] == best
    assert said.before[0] == pytest.approx(float(logits.softmax(dim=-1)[best]), abs=1e-5)
    assert f"**{said.before[0]:.1%}**" in texts(page)
    page = open_page("pages/what_if.py", lang=lang, model="filler", text="the ball is red")
    assert "[MASK]" in texts(page)
    assert not page.exception
