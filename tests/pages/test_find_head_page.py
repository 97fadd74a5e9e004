"""The page "Find a head", as a reader drives it; and the files that readers bring."""

from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from attention_core.minimal_pairs import minimal_pairs
from attention_core.relations import RELATIONS, sentences
from pages.test_pages import arrays, captions, link, own_models, payload, with_numbers  # noqa: F401 - a fixture
from trigger import fire
from ui.explorer.upload import MOST_LINES, FileRefusedError, read_lines

PAGE = "pages/find_head.py"


def said(page):
    """Return all that is written, as it reads."""
    written = [*page.markdown, *page.caption, *page.info, *page.warning, *page.error]
    return " ".join(m.value for m in written).replace("\\", "")


def rows(page):
    return payload(page, "find_heads")["rows"]


def drawn(page):
    """Return the lines that are drawn, and their numbers."""
    key = next(e.key for e in page.get("bidi_component") if e.key.startswith("links-"))
    return payload(page, key), arrays(page, key)


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_opens_with_the_answer(open_page, lang):
    page = open_page(PAGE, lang=lang)
    assert not page.exception
    first = rows(page)[0]
    assert (first["head"], len(rows(page))) == (5 * 12 + 11, 10)
    assert first["value"] == pytest.approx(0.638, abs=0.01)
    assert first["cells"][0] == "1"
    assert ("Layer 6, head 12" if lang == "en" else "6층 12번 헤드") in said(page)
    assert "72" in page.warning[0].value
    every = arrays(page, "find_heads")["values"]
    assert every.shape == (6, 12)
    assert every.max() == pytest.approx(first["value"])
    shown, numbers = drawn(page)
    assert shown["queries"][shown["pinned"]] == "it"
    to_cake = (numbers["query"] == shown["pinned"]) & (numbers["key"] == shown["keys"].index("cake"))
    assert numbers["weight"][to_cake][0] == pytest.approx(first["value"])


def test_another_model_has_another_head(open_page):
    page = open_page(PAGE, lang="en")
    page.segmented_control(key="model").set_value("smollm2").run()
    assert not page.exception
    assert rows(page)[0]["name"] == "layer 26 · head 3"
    assert rows(page)[0]["value"] == pytest.approx(0.651, abs=0.01)
    assert arrays(page, "find_heads")["values"].shape == (30, 9)


def test_words_are_clicked(open_page):
    page = open_page(PAGE, lang="en")
    page.pills(key="find_query").set_value(8).run()
    page.pills(key="find_key").set_value(6).run()
    assert (link(page)["find_query"], link(page)["find_key"]) == ("8", "6")
    assert "from “**delicious**” to “**it**”" in said(page)
    shown, _ = drawn(page)
    assert shown["queries"][shown["pinned"]] == "delicious"
    again = open_page(PAGE, **link(page))
    assert rows(again) == rows(page)


def test_a_head_is_picked_in_the_rows_or_in_the_picture(open_page):
    page = open_page(PAGE, lang="en")
    page = fire(page, "find_heads", "picked", rows(page)[2]["head"])
    assert link(page)["find_place"] == "3"
    assert payload(page, "find_heads")["chosen"] == 2
    page = fire(page, "find_heads", "picked", 0)
    shown = payload(page, "find_heads")
    assert len(shown["rows"]) == 11
    assert (shown["chosen"], shown["rows"][10]["name"]) == (10, "layer 1 · head 1")
    assert shown["rows"][10]["place"] == int(link(page)["find_place"]) > 10
    page.pills(key="find_key").set_value(3).run()  # another question begins with its own best head
    assert link(page)["find_place"] == "1"


def test_rows_open_the_head_on_the_sentence_page(open_page):
    page = open_page(PAGE, lang="en")
    target = urlsplit(rows(page)[1]["href"])
    query = {key: values[0] for key, values in parse_qs(target.query).items()}
    assert target.path == "sentence"
    opened = open_page("pages/sentence.py", **query)
    assert (link(opened)["layer"], link(opened)["head"], link(opened)["unit"]) == ("4", "2", "word")
    pinned = payload(opened, next(e.key for e in opened.get("bidi_component") if e.key.startswith("links")))
    assert pinned["queries"][pinned["pinned"]] == "it"


def test_a_long_text_travels_packed_and_an_endless_one_not_at_all(open_page):
    text = "the cake was good " * 200
    page = open_page(PAGE, lang="en", text=text)
    query = {key: values[0] for key, values in parse_qs(urlsplit(rows(page)[0]["href"]).query).items()}
    assert open_page("pages/sentence.py", **query).text_area(key="text").value == text
    endless = " ".join(f"{n * 7919 % 99991}" for n in range(9000))
    page = open_page(PAGE, lang="en")
    page.text_input(key="text").set_value(endless).run()
    assert not page.exception
    assert rows(page)[0]["href"] is None


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_a_word_that_comes_up_three_times_is_numbered(open_page, lang):
    page = open_page(PAGE, lang=lang, text="the cat saw the dog and the bird", find_query="4", find_key="2")
    labels = [option.content for option in page.pills(key="find_query").proto.options]
    assert labels[0] == r"the (1/3)"
    assert labels[3] == r"the (2/3)"
    assert drawn(page)[0]["pinned"] == 4


def test_the_choice_follows_its_word_when_the_sentence_changes(open_page):
    page = open_page(PAGE, lang="en")
    page.text_input(key="text").set_value("Yesterday I ate the cake and it was delicious").run()
    assert (link(page)["find_query"], link(page)["find_key"]) == ("7", "5")
    page.text_input(key="text").set_value("She reads a wonderful book").run()
    assert not page.exception
    assert drawn(page)[0]["queries"][drawn(page)[0]["pinned"]] == "She"


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_a_key_still_to_come_is_impossible_and_can_be_turned_round(open_page, lang):
    page = open_page(PAGE, lang=lang, model="smollm2", find_query="4", find_key="6")
    assert not page.exception
    assert "it" in page.info[0].value and "cake" in page.info[0].value
    page.button(key="find_turn").click().run()
    assert not page.info
    assert rows(page)[0]["value"] == pytest.approx(0.651, abs=0.01)
    assert open_page(PAGE, lang=lang, find_query="4", find_key="6").get("bidi_component")  # MiniLM can


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_query_and_key_the_same(open_page, lang):
    page = open_page(PAGE, lang=lang, find_query="4", find_key="4")
    assert not page.exception
    assert ("looks at itself" if lang == "en" else "자신을 얼마나") in said(page)


@pytest.mark.parametrize(
    "text", ["cake", "it it", "</script><b>x</b> $x$ **b** |a|", "💩 it", "나는 그것은 먹었다", "a" * 900]
)
@pytest.mark.parametrize("model", ["minilm", "tiny-bert"])
def test_odd_sentences(open_page, own_models, model, text):  # noqa: F811
    page = open_page(PAGE, lang="en", text=text, model=model)
    assert not page.exception
    assert rows(page)


def test_six_hundred_heads(open_page, tmp_path, monkeypatch):
    from transformers import AutoTokenizer, BertConfig, BertModel

    from attention_core.models.embedded import published_file

    config = BertConfig(hidden_size=50, num_hidden_layers=24, num_attention_heads=25, intermediate_size=7)
    BertModel(config).save_pretrained(tmp_path / "broad")
    AutoTokenizer.from_pretrained(published_file("minilm").parent).save_pretrained(tmp_path / "broad")
    monkeypatch.setenv("GAZE_MODELS_DIR", str(tmp_path))
    page = open_page(PAGE, lang="en", model="broad")
    assert not page.exception
    assert arrays(page, "find_heads")["values"].shape == (24, 25)
    assert "600 heads were tried" in page.warning[0].value


def test_a_long_text_offers_its_first_words(open_page):
    page = open_page(PAGE, lang="en", text="the cake was good " * 60)
    assert not page.exception
    assert len(page.pills(key="find_query").proto.options) == 60
    assert "60 of 240 words" in said(page)


@pytest.mark.parametrize(
    "bad",
    [
        {"find_query": "99"},
        {"find_key": "x"},
        {"find_in": "nonsense"},
        {"find_place": "0"},
        {"find_in": "set", "find_set": "nonsense"},
        {"find_in": "lines", "find_lines": "x" * 2000},
        {"find_in": "lines", "find_what": "x"},
        {"find_in": "pairs", "find_pair": "99"},
        {"find_in": "lines", "find_line": "7"},
    ],
    ids=str,
)
def test_what_does_not_exist_gets_the_default_and_a_note(open_page, bad):
    page = open_page(PAGE, lang="en", **bad)
    assert not page.exception
    assert rows(page)
    assert "does not exist" in captions(page)


def test_several_sentences(open_page):
    page = open_page(PAGE, lang="en", find_in="lines")
    assert rows(page)[0]["name"] == "layer 6 · head 12"
    assert rows(page)[0]["cells"][1] == "6/6"
    assert "randomly marked words" in said(page)
    assert "whoever asks" in said(page)
    page.text_area(key="find_lines").set_value(
        "I ate the cake and it fell\nNothing here\n\nThe cake, it said, was the cake"
    ).run()
    assert not page.exception
    assert "Left out: 1 without both “it” and “cake”" in said(page)
    assert rows(page)[0]["cells"][1].endswith("/2")
    page.segmented_control(key="find_line").set_value(2).run()
    near = drawn(page)[1]
    page.segmented_control(key="find_which").set_value("last").run()
    assert link(page)["find_which"] == "last"
    assert not np.array_equal(near["weight"], arrays(page, "find_heads")["values"])
    page.text_input(key="find_to").set_value("moon").run()
    assert not page.exception
    assert "No sentence here" in page.info[0].value
    assert "the" in captions(page)
    page.text_area(key="find_lines").set_value("   ").run()
    assert not page.exception
    assert "nothing to read" in said(page)


@pytest.mark.parametrize("what", ["previous", "first"])
def test_places_need_no_words(open_page, what):
    page = open_page(PAGE, lang="ko", find_in="lines", find_what=what)
    assert not page.exception
    assert not page.text_input
    assert rows(page)[0]["value"] > 0.5


def test_a_later_key_in_lines_is_left_out(open_page):
    page = open_page(
        PAGE, lang="en", model="smollm2", find_in="lines", find_lines="it is a cake\nthe cake and it", find_from="it"
    )
    assert "Left out: 1 in which “cake” only comes after “it”" in said(page)


def test_marked_sets_say_what_the_other_page_says(open_page):
    others = payload(open_page("pages/many_heads.py", lang="en"), "relations")["rows"]
    page = open_page(PAGE, lang="en", find_in="set")
    for relation, other in zip(RELATIONS, others, strict=True):
        page.pills(key="find_set").set_value(relation).run()
        assert not page.exception
        assert link(page)["find_set"] == relation
        assert rows(page)[0]["name"] == other["head"]
        assert rows(page)[0]["value"] == pytest.approx(other["weight"], abs=1e-5)


def test_a_set_s_sentences_are_shown_with_their_gloss(open_page):
    page = open_page(PAGE, lang="ko", find_in="set")
    assert sentences("pronoun")[0].glosses["ko"] in captions(page)
    page.segmented_control(key="find_line").set_value(2).run()
    assert sentences("pronoun")[1].glosses["ko"] in captions(page)
    assert link(page)["find_line"] == "2"


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_minimal_pairs(open_page, lang):
    page = open_page(PAGE, lang=lang, find_in="pairs")
    assert not page.exception
    assert ("No head does it" if lang == "en" else "그런 헤드는 없습니다") in said(page)
    assert len([e for e in page.get("bidi_component") if e.key.startswith("links-")]) == 2
    assert (minimal_pairs()[0].glosses["ko"][1] in captions(page)) == (lang == "ko")
    page.segmented_control(key="find_pair").set_value(4).run()
    assert "cat" in said(page) and "mouse" in said(page)
    if lang == "en":  # AppTest knows the choices by their English names
        page.segmented_control(key="find_asked").set_value("adjective").run()
        assert not page.exception
        assert (link(page)["find_asked"], link(page)["find_pair"]) == ("adjective", "4")
        assert "From “**slow**”" in said(page)


def test_minimal_pairs_can_not_be_told_apart_by_looking_back(open_page, monkeypatch):
    few = minimal_pairs()[:2]
    monkeypatch.setattr("attention_core.minimal_pairs.minimal_pairs", lambda: few)
    page = open_page(PAGE, lang="en", find_in="pairs", model="smollm2")
    assert "In this model no head can" in page.info[0].value
    assert "measured: 0)" in page.info[0].value.replace("0.0)", "0)")
    assert not arrays(page, "find_heads")["values"].any()


def test_numbers_are_those_of_every_head(open_page):
    page = with_numbers(open_page(PAGE, lang="en"), "find_head")
    assert not page.exception
    table = page.dataframe[0].value
    assert len(table) == 72
    assert table.iloc[0, 0] == "layer 6 · head 12"
    assert table.iloc[0, 1] == pytest.approx(0.638, abs=0.01)


# A file


def upload(page, name, data):
    page.file_uploader(key="find_file").set_value((name, data, "text/plain"))
    return page.run()


def test_a_file_is_asked_in_pieces_stopped_and_read(open_page):
    page = open_page(PAGE, lang="en", find_in="file")
    assert "on no disk" in said(page).replace("kept on no disk", "on no disk")
    lines = ["I ate the cake and it fell", "nothing", "", "the cake, and it was good"] * 3
    page = upload(page, "mine.txt", "\n".join(lines).encode())
    assert not page.exception
    assert "Sentences: 9" in said(page)
    assert "Blank lines left out: 3" in said(page)
    assert not page.get("bidi_component") or "find_heads" not in [e.key for e in page.get("bidi_component")]
    page.button(key="find_start").click().run()
    for _ in range(40):
        if page.button(key="find_stop").disabled:
            break
        page.run()
    assert not page.exception
    assert "Left out: 3 without both" in said(page)
    assert rows(page)[0]["cells"][1] == "6/6"
    page.button(key="find_use").click().run()
    assert link(page)["find_in"] == "sentence"
    assert link(page)["text"] == lines[0]


def test_stopping_keeps_what_was_found(open_page, monkeypatch):
    from ui.explorer import find_head

    monkeypatch.setattr(find_head, "PIECE", 0.0)  # no line is asked in a tick …
    page = open_page(PAGE, lang="en", find_in="file")
    page = upload(page, "mine.txt", b"I ate the cake and it fell\nthe cake, it was good\nit is a cake\n")
    page.button(key="find_start").click().run()
    run = page.session_state["_find_run"]
    assert run.running and run.done == 0
    monkeypatch.setattr(find_head, "PIECE", 1e-9)  # … or one
    page.run()
    page.button(key="find_stop").click().run()
    assert not page.exception
    run = page.session_state["_find_run"]
    assert not run.running
    done = run.done
    page.run()
    assert page.session_state["_find_run"].done == done


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_a_bad_file_gets_one_sentence(open_page, lang):
    page = open_page(PAGE, lang=lang, find_in="file")
    for data in (b"", b"\x89PNG\r\n", "한글".encode("cp949"), b"\n \n", b"x" * (2**20 + 1)):
        page = upload(page, "mine.txt", data)
        assert not page.exception
        assert len(page.error) == 1
        assert any("가" <= letter <= "힣" for letter in page.error[0].value) == (lang == "ko")


def test_neither_the_file_nor_its_line_stands_in_the_link(open_page):
    page = upload(open_page(PAGE, lang="en", find_in="file"), "mine.txt", b"a secret\nanother\n")
    page.number_input(key="_find_row").set_value(2).run()
    assert "another" in said(page)
    assert not {key for key, value in link(page).items() if "secret" in value or "another" in value or "row" in key}


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.txt", b"one\r\ntwo\n\n three  four \n", ("one", "two", "three four")),
        ("a.txt", "\ufeff문장 하나\n".encode(), ("문장 하나",)),
        ("a.csv", b'text,label\n"one, two",1\nthree,2\n', ("one, two", "three")),
        ("a.CSV", b"one,1\n,2\n\nthree,3\n", ("one", "three")),
        ("a.csv", b'"two\nlines",1\n', ("two lines",)),
        ("a.txt", b"text\none\n", ("text", "one")),
    ],
)
def test_lines_are_read(name, data, expected):
    assert read_lines(name, data).lines == expected


def test_a_header_is_taken_for_one_only_where_it_says_so():
    assert read_lines("a.csv", b"Sentence,x\none,1\n").header == "Sentence"
    assert read_lines("a.csv", "문장\n하나\n".encode()).header == "문장"
    assert read_lines("a.csv", b"one,x\ntwo,1\n").header is None


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.txt", b"", "empty"),
        ("a.txt", b" \n\n\t\n", "blank"),
        ("a.csv", b"text\n\n", "blank"),
        ("a.txt", b"\x89PNG\r\n\x1a\n", "image"),
        ("a.txt", b"\xff\xd8\xff\xe0", "image"),
        ("a.csv", b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image"),
        ("a.txt", b"%PDF-1.7", "pdf"),
        ("a.csv", b"PK\x03\x04...", "office"),
        ("a.txt", "글".encode("utf-16"), "utf16"),
        ("a.txt", "나는 은행에 갔다".encode("cp949"), "cp949"),
        ("a.txt", b"caf\xe9", "not_utf8"),
        ("a.txt", b"a\x00b", "binary"),
        ("a.csv", b'"open', "csv"),
        ("a.txt", b"x" * (2**20 + 1), "large"),
    ],
)
def test_files_that_can_not_be_used_say_why(name, data, reason):
    with pytest.raises(FileRefusedError) as refused:
        read_lines(name, data)
    assert refused.value.reason == reason


def test_the_byte_that_does_not_fit_is_named():
    with pytest.raises(FileRefusedError) as refused:
        read_lines("a.txt", b"caf\xe9 au lait")
    assert refused.value.places["place"] == "4"


@pytest.mark.parametrize(("count", "kept"), [(MOST_LINES, MOST_LINES), (100_000, MOST_LINES)])
def test_many_lines(count, kept):
    found = read_lines("a.txt", b"a b c\n" * count)
    assert (len(found.lines), found.total, found.blank) == (kept, count, 0)


def test_many_lines_are_said(open_page):
    page = upload(open_page(PAGE, lang="en", find_in="file"), "a.txt", b"a b c\n" * 100_000)
    assert "100,000 lines" in page.warning[0].value


def test_short_lines_are_left_out_for_what_they_are(open_page):
    page = open_page(PAGE, lang="en", find_in="lines", find_what="previous", find_lines="hello")
    assert not page.exception
    assert "no word has another one to look at" in said(page)
    assert "at least two words" in page.info[0].value


def test_what_the_best_of_none_does_is_not_concluded(open_page):
    asked = {"find_from": "the", "find_to": "cake", "find_which": "first"}
    page = open_page(PAGE, lang="en", find_in="lines", find_lines="the cat saw the cake and the cat", **asked)
    assert "No head does it" in said(page)
    assert "both words matter" not in said(page)


def test_the_same_word_twice_is_said_for_lines_too(open_page):
    page = open_page(
        PAGE, lang="en", find_in="lines", find_lines="the cat saw the cake", find_from="the", find_to="the"
    )
    assert "Both are the same word" in said(page)


def test_what_is_taken_away_is_the_pair_of_the_page(open_page, capsys):
    text = "The xylophonist saw electrocardiographs and it was fine"
    page = open_page(PAGE, lang="en", text=text, find_query="6", find_key="4")
    page.session_state["take_away"] = True
    page.run()
    exec(compile(page.code[0].value, "notebook", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "it looks at electrocardiographs"
    assert f"{float(printed[1].split()[-1]):.3f}" in said(page)
