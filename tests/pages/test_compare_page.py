"""The page "Compare", as a reader drives it."""

import numpy as np
import pytest

from attention_core import compute
from attention_core.distance import HeadMap, align, row_distances
from pages.test_pages import arrays, captions, link, own_models, payload, with_numbers  # noqa: F401 - a fixture
from trigger import fire
from ui.controls import EXAMPLE
from ui.explorer.compare import BANK, NEAREST

PAGE = "pages/compare.py"


def said(page):
    """Return all that is written, as it reads."""
    return " ".join(m.value for m in [*page.markdown, *page.caption]).replace("\\", "")


def drawn(page):
    return {e.key for e in page.get("bidi_component")}


def queries(page, letter):
    return payload(page, f"links-{letter}")["queries"]


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_opens_with_one_head_on_two_sentences(open_page, lang):
    page = open_page(PAGE, lang=lang, text=BANK[0])
    assert not page.exception
    assert (queries(page, "a")[5], queries(page, "b")[5]) == ("money", "river")
    assert (link(page)["layer"], link(page)["head"]) == (link(page)["layer_b"], link(page)["head_b"]) == ("6", "12")
    shown = payload(page, "difference")
    assert shown["queries"] == ["[CLS]", "the", "bank", "and ∣ of", "the", "money ∣ river", "[SEP]"]
    rows = payload(page, "pairs")["rows"]
    assert [row["same"] for row in rows] == [True, True, True, False, True, False, True]
    words = payload(page, "map")["words"]
    assert any("가" <= c <= "힣" for c in words["hint"]) == (lang == "ko")


def test_the_numbers_are_the_core_s(open_page):
    page = open_page(PAGE, lang="en", text=BANK[0], special="hidden")
    views = [compute.run(compute.view, "minilm", text, 512, 5, 11, "token", "hidden") for text in BANK]
    sent = arrays(page, "difference")
    np.testing.assert_allclose(sent["raw"], views[0].weights - views[1].weights, atol=1e-6)
    np.testing.assert_array_equal(sent["final"], views[0].weights)
    np.testing.assert_array_equal(sent["weights"], views[1].weights)
    slots = [align(a, b) for a, b in zip(*((v.queries, v.keys) for v in views), strict=True)]
    expected = row_distances(views[0].weights, views[1].weights, *slots)
    np.testing.assert_allclose([row["value"] for row in payload(page, "pairs")["rows"]], expected)
    assert f"**{expected.mean():.2f}**" in said(page)
    assert f"**{expected.max():.2f}**, is at “{views[0].queries[expected.argmax()]}”" in said(page)


def test_orange_is_where_the_first_gives_more(open_page):
    page = open_page(PAGE, lang="en", text=BANK[0])
    sent, shown = arrays(page, "difference"), payload(page, "difference")
    place = np.unravel_index(np.nanargmax(sent["raw"]), sent["raw"].shape)
    assert sent["final"][place] > sent["weights"][place]
    assert shown["hi"] == pytest.approx(np.nanmax(sent["raw"]))
    assert shown["lo"] == pytest.approx(np.nanmin(sent["raw"]))
    assert (shown["show"], shown["factor"]) == ("raw", None)
    assert shown["words"]["raw"] == "weight in A − weight in B"


def test_comes_along_from_another_page(open_page):
    page = open_page("pages/sentence.py", lang="en", text="hello it", layer="3", head="5")
    page.switch_page(PAGE).run()
    assert "hello" in queries(page, "a") and "hello" in queries(page, "b")
    assert (link(page)["layer"], link(page)["head"]) == ("3", "5")
    assert (link(page)["layer_b"], link(page)["head_b"]) == ("3", "6")  # another head of the same sentence
    page.switch_page("pages/sentence.py").run()
    assert link(page)["head"] == "5"
    assert "text_b" not in link(page)


@pytest.mark.parametrize("name", ["sentences", "heads", "models"])
def test_presets(open_page, name):
    page = open_page(
        PAGE, lang="en", text="something else", scaled_b="no", compare_panes="3", first="hidden", show="raw"
    )
    page.button(key=f"compare_{name}").click().run()
    assert not page.exception
    now = link(page)
    assert (now["compare_panes"], now["first"], now["show"]) == ("2", "shown", "weights")
    assert now["scaled_b"] == "yes"
    assert now["text"] == (BANK[0] if name == "sentences" else EXAMPLE)
    assert now["text_b"] == (BANK[1] if name == "sentences" else EXAMPLE)
    best = {"sentences": ("6", "12"), "heads": ("4", "2"), "models": ("26", "3")}
    assert (now["layer_b"], now["head_b"]) == best[name]
    assert now["model_b"] == ("smollm2" if name == "models" else "minilm")
    assert "difference" in drawn(page)  # also between two models: words, without special tokens
    assert queries(page, "a") == queries(page, "b") or name == "sentences"


def test_every_pane_has_controls_of_its_own(open_page):
    page = open_page(PAGE, lang="en", compare_panes="4", text="the cat sat", text_c="one two three four", layer_d="2")
    assert not page.exception
    assert {f"links-{letter}" for letter in "abcd"} <= drawn(page)
    assert queries(page, "c")[1] == "one"
    before = arrays(page, "heat-d")["weights"]
    page = fire(page, "heads_d", "picked", 6)
    assert link(page)["head_d"] == "7"
    assert payload(page, "heads_d")["chosen"] == 6
    assert not np.allclose(arrays(page, "heat-d")["weights"], before)
    page = fire(page, "heads_a", "picked", 2)
    assert link(page)["head"] == "3"
    page.slider(key="layer_b").set_value(1).run()
    assert link(page)["layer_b"] == "1"
    page.text_input(key="text_b").set_value("a new sentence").run()
    assert "new" in queries(page, "b")
    page.segmented_control(key="compare_pair").set_value("bd").run()
    assert link(page)["compare_pair"] == "bd"
    assert "**B − D**" in said(page)
    page.segmented_control(key="compare_panes").set_value(2).run()
    assert "text_c" not in link(page)
    assert "links-c" not in drawn(page)


def test_formula_of_a_pane(open_page):
    page = open_page(PAGE, lang="en", text=EXAMPLE, text_b=EXAMPLE, layer_b="6", head_b="12")
    assert max(row["value"] for row in payload(page, "pairs")["rows"]) == 0  # the same twice
    page.toggle(key="scaled_b").set_value(False).run()
    assert link(page)["scaled_b"] == "no"
    sent = arrays(page, "heat-b")
    expected = compute.run(compute.view, "minilm", EXAMPLE, 512, 5, 11, "token", "shown", True, ("factor",))
    np.testing.assert_array_equal(sent["weights"], expected.weights)
    page.slider(key="temperature_b").set_value(2.5).run()
    assert link(page)["temperature_b"] == "2.5"
    flat = arrays(page, "heat-b")["weights"]
    assert flat.max(axis=1).mean() < sent["weights"].max(axis=1).mean()  # "above 1 the weights become more equal"
    assert not [toggle for toggle in page.toggle if toggle.key == "mask_b"]  # it looks both ways


def test_mask_of_a_model_that_looks_back(open_page):
    page = open_page(PAGE, lang="en", model="smollm2", text="the bank of the river", model_b="smollm2", mask_b="no")
    assert not page.exception
    assert arrays(page, "heat-b")["allowed"].all()
    assert not arrays(page, "heat-a")["allowed"].all()
    assert arrays(page, "difference")["allowed"].all()
    page.toggle(key="mask_b").set_value(True).run()
    blocked = arrays(page, "difference")["allowed"] == 0
    assert np.isnan(arrays(page, "difference")["raw"][blocked]).all() and blocked.any()


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_sentences_of_different_lengths_have_no_difference_map(open_page, lang):
    page = open_page(PAGE, lang=lang, text="the big cat sat", text_b="the cat sat")
    assert not page.exception
    assert "difference" not in drawn(page)
    assert "6 × 6" in page.info[0].value and "5 × 5" in page.info[0].value
    rows = payload(page, "pairs")["rows"]
    assert [(row["first"], row["second"]) for row in rows][1:4] == [("the", "the"), ("big", None), ("cat", "cat")]
    assert [row["value"] is None for row in rows] == [False, False, True, False, False, False]
    assert payload(page, "pairs")["linked"] is False
    assert payload(page, "links-b")["param"] is None  # its pin is another word than that of pane A


def test_it_says_when_words_would_fit(open_page):
    page = open_page(PAGE, lang="en", text="embeddings sat", text_b="cats sat")
    assert "Units: words" in page.info[0].value
    page.segmented_control(key="unit").set_value("word").run()
    assert not page.info
    assert payload(page, "difference")["queries"] == ["[CLS]", "embeddings ∣ cats", "sat", "[SEP]"]
    page.text_input(key="text_b").set_value("cats sat down").run()
    assert "Units" not in page.info[0].value


@pytest.mark.parametrize(
    ("now", "wanted", "not_wanted"),
    [
        ({"unit": "word", "special": "renormalised", "first": "hidden"}, ["First token: shown"], ["Units", "Special"]),
        ({"unit": "word"}, ["Special tokens: hidden, rest to 1"], ["Units", "First"]),
        ({}, ["Units: words", "Special tokens: hidden, rest to 1"], ["First"]),
    ],
    ids=str,
)
def test_two_models_are_told_what_keeps_them_apart(open_page, now, wanted, not_wanted):
    asked = {
        "model": "minilm",
        "model_b": "smollm2",
        "text": "unbelievable embeddings",
        "text_b": "unbelievable embeddings",
    }
    page = open_page(PAGE, lang="en", **asked, **now)
    said = page.info[0].value
    assert "No difference map" in said
    assert all(choice in said for choice in wanted)
    assert not any(choice in said for choice in not_wanted)


@pytest.mark.parametrize(("lang", "words"), [("en", "of the weight is hidden"), ("ko", "가중치가 숨겨져")])
def test_each_pane_says_how_much_it_hides(open_page, lang, words):
    page = open_page(PAGE, lang=lang, text=BANK[0], text_b=BANK[1], special="hidden")
    views = [compute.run(compute.view, "minilm", text, 512, 5, 11, "token", "hidden") for text in BANK]
    said = [caption.value.replace("\\", "") for caption in page.caption if words in caption.value]
    assert len(said) == 2
    assert all(f"{head.hidden.mean():.0%}" in text for head, text in zip(views, said, strict=True))
    assert words not in captions(open_page(PAGE, lang=lang, text=BANK[0], text_b=BANK[1]))


def test_a_row_that_has_lost_its_only_key_has_no_distance(open_page):
    asked = {"model": "smollm2", "model_b": "smollm2", "text": "I ate it", "text_b": "I ate it", "layer_b": "3"}
    page = open_page(PAGE, lang="en", **asked, special="renormalised", first="hidden")
    rows = payload(page, "pairs")["rows"]
    assert [row["value"] is None for row in rows] == [True, False, False]
    assert "Rows left with nothing to compare, since all that they may look at is hidden: 1" in captions(page)
    assert "without a partner" not in captions(page)
    assert "is at “I”" not in said(page)


def test_equal_panes_have_no_largest_distance(open_page):
    page = open_page(PAGE, lang="en", text=EXAMPLE, text_b=EXAMPLE, layer_b="6", head_b="12")
    assert "Every row is the same in both" in said(page)
    assert "The largest" not in said(page)


def test_a_word_that_comes_up_twice_is_numbered(open_page):
    page = open_page(PAGE, lang="en", text="the the the", text_b="the the the", layer_b="3", special="renormalised")
    values = [row["value"] for row in payload(page, "pairs")["rows"]]
    assert f"is at “the ({np.argmax(values) + 1}/3)”" in said(page)


@pytest.mark.parametrize("model", ["tiny-fnet", "no-tokeniser"])
def test_a_model_that_can_not_be_opened_leaves_the_pane_its_own(open_page, own_models, tmp_path, model):  # noqa: F811
    import shutil

    shutil.copytree(tmp_path / "tiny-bert", tmp_path / "no-tokeniser")
    for path in (tmp_path / "no-tokeniser").glob("tok*"):
        path.unlink()
    page = open_page(PAGE, lang="en", model=model, text="my own model", model_b="minilm", text_b="and mine", head_b="3")
    assert not page.exception
    assert len(page.error) == 1
    assert {box.key for box in page.text_input} == {"text", "text_b"}
    assert {"model", "model_b"} <= {choice.key for kind in (page.segmented_control, page.selectbox) for choice in kind}
    assert link(page)["model"] == "minilm"  # what each pane shows at first
    assert {"links-a", "links-b"} <= drawn(page)
    page.selectbox(key="model_b").set_value(model).run()  # five models are a list
    assert len(page.error) == 1
    assert link(page)["model_b"] == "minilm"
    page.run()
    assert not page.error
    assert {"links-a", "links-b"} <= drawn(page)
    assert (queries(page, "b")[1], link(page)["head_b"]) == ("and", "3")  # nothing that was chosen is lost


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_the_numbers_of_rows_and_of_all_heads(open_page, lang):
    from ui.explorer.compare import _distances, _map

    page = with_numbers(open_page(PAGE, lang=lang, text=BANK[0]), "gaze-compare")
    assert not page.exception
    rows, heads = (frame.value for frame in page.dataframe)
    np.testing.assert_allclose(rows.iloc[:, 1], [row["value"] for row in payload(page, "pairs")["rows"]], atol=1e-6)
    assert rows.iloc[5, 0] == "money ∣ river"
    np.testing.assert_allclose(heads.iloc[:, 1], _distances("minilm")[71])
    np.testing.assert_allclose(heads.iloc[:, 2:], _map("minilm").places)
    assert len(page.get("download_button")) == 1


def test_two_panes_on_one_head_save_two_files(open_page):
    page = open_page(PAGE, lang="en", text=EXAMPLE, text_b=EXAMPLE, layer_b="6", head_b="12", temperature_b="0.5")
    page.session_state["take_awayA"] = page.session_state["take_awayB"] = True
    page.run()
    files = [payload(page, f"pictures{pane}")["pictures"][0]["file"] for pane in "AB"]
    stem = "gaze-minilm-layer-6-head-12-pane"
    assert files == [f"{stem}-A-map", f"{stem}-B-temperature-0.5-map"]


def test_the_table_of_a_difference_has_the_positions_of_both(open_page, monkeypatch):
    from attention_core.export import head_csv
    from ui.explorer import compare

    given = []
    monkeypatch.setattr(compare, "take_map", lambda both, *more: given.append(both))
    asked = {"text": EXAMPLE, "text_b": EXAMPLE, "model_b": "smollm2", "unit": "word", "special": "renormalised"}
    assert not open_page(PAGE, lang="en", **asked).exception
    rows = [line.split(",") for line in head_csv(given[-1]).splitlines()[1:]]
    assert rows[0][:4] == ["1 ∣ 0", "I", "1 ∣ 0", "I"]  # MiniLM has [CLS] before it, SmolLM2 nothing
    given.clear()
    assert not open_page(PAGE, lang="en", text=EXAMPLE, text_b=EXAMPLE).exception
    assert head_csv(given[-1]).splitlines()[1].startswith("0,[CLS],0,[CLS]")


def test_a_long_text_in_a_pane_travels_packed(open_page):
    text = "the cake was good " * 300
    page = open_page(PAGE, lang="en", text=text, text_b=text + "and cheap", special="hidden")
    assert not page.exception
    assert {"packed", "packed_text_b"} < set(link(page))
    assert len("".join(link(page).values())) < 2000
    again = open_page(PAGE, **link(page))
    assert link(again) == link(page)
    assert again.text_area(key="text_b").value == text + "and cheap"
    assert not [note for note in again.caption if "link" in note.value]


def test_texts_that_do_not_fit_in_a_link_together_are_said(open_page):
    def endless(seed):
        return " ".join(f"{n * seed % 99991}" for n in range(1800))

    page = open_page(PAGE, lang="en", text="a", text_b="b")
    page.text_input(key="text").set_value(endless(7919)).run()
    assert "packed" in link(page) and "too long" not in captions(page)
    page.text_input(key="text_b").set_value(endless(6007)).run()
    assert not page.exception
    assert "text_b" not in link(page) and "packed_text_b" not in link(page)
    assert "too long to travel" in captions(page)
    assert len("".join(link(page).values())) < 13_000


def test_nothing_in_common(open_page):
    page = open_page(PAGE, lang="en", text="one two", text_b="three", special="hidden")
    assert not page.exception
    assert "No word of A has a partner in B" in said(page)


@pytest.mark.parametrize("model", ["minilm", "smollm2"])
def test_one_token(open_page, model):
    page = open_page(PAGE, lang="en", model=model, model_b=model, text="I", text_b="I", special="hidden")
    assert not page.exception
    assert arrays(page, "difference")["raw"].shape == (1, 1)


def test_blank_text_keeps_the_last_picture_of_its_pane(open_page):
    page = open_page(PAGE, lang="en", text="hello world", text_b="good night")
    for blank in ("", "   "):
        page.text_input(key="text_b").set_value(blank).run()
        assert not page.exception
        assert "nothing to read" in captions(page)
        assert "night" in queries(page, "b")
    assert "hello" in queries(page, "a")


@pytest.mark.parametrize(
    ("bad", "default"),
    [
        ({"layer_b": "20"}, ("layer_b", "4")),
        ({"head_b": "13"}, ("head_b", "2")),
        ({"model_b": "nonsense"}, ("model_b", "minilm")),
        ({"scaled_b": "perhaps"}, ("scaled_b", "yes")),
        ({"temperature_b": "0"}, ("temperature_b", "1.0")),
        ({"temperature_a": "nan"}, ("temperature_a", "1.0")),
        ({"compare_panes": "9"}, ("compare_panes", "2")),
        ({"compare_pair": "xy", "compare_panes": "3"}, ("compare_pair", "ab")),
        ({"compare_colour": "blood"}, ("compare_colour", "layer")),
    ],
    ids=str,
)
def test_what_does_not_exist_gets_the_default_and_a_note(open_page, bad, default):
    page = open_page(PAGE, lang="en", text=EXAMPLE, **bad)
    assert not page.exception
    key, value = default
    assert link(page)[key] == value
    assert "does not exist" in captions(page)


def test_a_layer_that_another_model_lacks(open_page):
    page = open_page(PAGE, lang="en", model_b="smollm2", layer_b="20", head_b="9", text=EXAMPLE)
    assert link(page)["layer_b"] == "20"
    page.segmented_control(key="model_b").set_value("minilm").run()
    assert not page.exception
    assert (link(page)["layer_b"], link(page)["head_b"]) == ("4", "2")


def test_models_of_different_sizes(open_page, own_models):  # noqa: F811
    page = open_page(PAGE, lang="en", model="tiny-bert", text="my own model", model_b="minilm", text_b="my own model")
    assert not page.exception
    assert "difference" in drawn(page)
    shown = payload(page, "map")
    assert len(shown["names"]) == 6
    assert [mark["letter"] for mark in shown["marks"]] == ["A"]  # B is another model's
    assert len([b for b in page.button if b.key.startswith("compare_near")]) == 5


def test_map_of_heads(open_page):
    page = open_page(PAGE, lang="en", text=BANK[0], head_b="3")
    shown = payload(page, "map")
    assert len(shown["names"]) == 72
    assert shown["names"][71] == "layer 6, head 12"
    assert shown["groups"][71] == 5
    assert shown["marks"] == [{"letter": "A", "head": 71}, {"letter": "B", "head": 62}]
    assert arrays(page, "map")["places"].shape == (72, 2)
    page = fire(page, "map", "picked", 13)
    assert (link(page)["layer"], link(page)["head"]) == ("2", "2")
    assert payload(page, "map")["marks"][0] == {"letter": "A", "head": 13}
    page.segmented_control(key="compare_colour").set_value("role").run()
    again = payload(page, "map")
    assert set(again["groups"]) <= set(range(len(again["legend"]))) and len(again["colours"]) == len(again["legend"])
    assert all(again["legend"][group] in again["notes"][n] for n, group in enumerate(again["groups"]))


def test_nearest_heads_open_in_the_second_pane(open_page):
    from attention_core.distance import nearest
    from ui.explorer.compare import _distances

    page = open_page(PAGE, lang="en", text=BANK[0])
    near = [b for b in page.button if b.key.startswith("compare_near")]
    found = nearest(_distances("minilm"), 71, NEAREST)
    for button, (head, far) in zip(near, found, strict=True):
        assert f"layer {head // 12 + 1}, head {head % 12 + 1} · **{far:.2f}**" in button.label
    near[2].click().run()
    head = found[2][0]
    assert (link(page)["layer_b"], link(page)["head_b"]) == (str(head // 12 + 1), str(head % 12 + 1))
    assert link(page)["text_b"] == link(page)["text"]
    assert payload(page, "map")["marks"][1]["head"] == head


def test_how_faithful_the_map_is(open_page, monkeypatch):
    from ui.explorer import compare

    page = open_page(PAGE, lang="en")
    found = compare._map("minilm")
    assert f"correlation of {found.correlation:.2f}" in said(page)
    assert f"by {found.stress:.0%}" in said(page)
    monkeypatch.setattr(compare, "_map", lambda model: HeadMap(found.places, 0.0, float("nan")))
    page.run()
    assert "nothing that the map could get" in said(page)


def test_a_link_comes_back_identical(open_page):
    wanted = {
        "lang": "ko",
        "present": "no",
        "text": "나는 은행에서 돈을 찾았다",
        "model": "minilm",
        "layer": "3",
        "head": "4",
        "scaled_a": "no",
        "temperature_a": "0.5",
        "text_b": "C# & 100% + **b**",
        "model_b": "smollm2",
        "layer_b": "17",
        "head_b": "9",
        "scaled_b": "yes",
        "temperature_b": "1.0",
        "mask_b": "no",
        "text_c": "x",
        "model_c": "minilm",
        "layer_c": "1",
        "head_c": "2",
        "scaled_c": "yes",
        "temperature_c": "4.9",
        "compare_panes": "3",
        "compare_pair": "bc",
        "compare_colour": "role",
        "unit": "word",
        "special": "hidden",
        "first": "hidden",
        "show": "scaled",
        "query": "1",
    }
    page = open_page(PAGE, **wanted)
    assert not page.exception
    assert link(page) == wanted


@pytest.mark.parametrize("text", ["</script><b>x</b>", "$x^2$ **b** |a| `c`", "مرحبا بالعالم", "\x07 x", "x" * 3000])
def test_odd_text(open_page, text):
    page = open_page(PAGE, lang="en", text=text, text_b=BANK[0])
    assert not page.exception
    written = " ".join(m.value for m in page.markdown)
    assert "<b>" not in written.replace("\\<", "") and "**b**" not in written
    assert {"links-a", "links-b"} <= drawn(page)


def test_a_second_run_computes_nothing(open_page, monkeypatch):
    page = open_page(PAGE, lang="en", text=BANK[0])
    monkeypatch.setattr(compute, "run", lambda *args: pytest.fail("computed again"))
    page.run()
    assert not page.exception


def test_as_many_tokens_of_two_tokenisers_are_no_partners(open_page, own_models):  # noqa: F811
    """The difference of weights that belong to other tokens would be a number without meaning."""
    text, more = "unhappily eat", {"lang": "en", "model_b": "smollm2"}
    minilm, smollm2 = (len(compute.run(compute.read, name, text, 512).labels) for name in ("minilm", "smollm2"))
    text_b = text + " it" * (minilm - smollm2)
    page = open_page(PAGE, text=text, text_b=text_b, **more)
    assert not page.exception
    assert "difference" not in drawn(page)
    assert "cut the text into other tokens" in page.info[0].value
