"""The page "Find a head", as a reader drives it; and the files that readers bring."""

from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from attention_core.minimal_pairs import minimal_pairs, switches
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
    assert labels[0].replace("\\", "") == "the (1/3)"
    assert labels[3].replace("\\", "") == "the (2/3)"
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


@pytest.mark.parametrize(("lang", "name"), [("en", "Layer 1, head 1, swapped"), ("ko", "1층 1번 헤드에서 짝을 바꾸어")])
def test_what_is_swapped_is_that_of_the_chosen_row(open_page, lang, name):
    from ui.explorer.find_head import _pair, _ranking

    page = open_page(PAGE, lang=lang)
    assert "6층 12번 헤드에서 짝을" in captions(page) or "Layer 6, head 12, swapped" in captions(page)
    page = fire(page, "find_heads", "picked", 0)
    assert name in captions(page)
    others = _ranking(_pair("minilm", "I ate the cake and it was delicious", 6, 4)).controls[0, 0]
    assert f"{others:.3f}" in captions(page).replace("\\", "")


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_luck_is_worded_by_how_much_there_is_to_compare(open_page, monkeypatch, lang):
    from ui.explorer import find_head

    told = {}
    for found in ((3, 55), (0, 55), (0, 2)):
        monkeypatch.setattr(find_head, "_elsewhere", lambda *asked, found=found: found)
        told[found] = open_page(PAGE, lang=lang).warning[0].value
    assert len(set(told.values())) == 3
    few, none = told[0, 2], told[0, 55]
    if lang == "en":
        assert "in 3 of 55 other pairs" in told[3, 55]
        assert "no head gives as much in any of the 55" in none and "says little" not in none
        assert "says little" in few and "only 2" in few
    else:
        assert "55개 가운데 어디에서도" in none
        assert "2개뿐" in few


def test_chance_in_a_long_text_is_not_zero(open_page):
    page = open_page(PAGE, lang="en", text="the cake was good and it " * 80)
    said_of_best = next(m.value for m in page.markdown if "A head of that layer" in m.value).replace("\\", "")
    assert float(said_of_best.rsplit("give ", 1)[1].rstrip(".")) == pytest.approx(1 / 482, rel=0.05)


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_the_mention_that_is_asked_for_is_named(open_page, lang):
    page = open_page(PAGE, lang=lang, text="the cat saw the dog and the bird", find_query="8", find_key="4")
    heading = next(m.value for m in page.markdown if m.value.startswith("#####")).replace("\\", "")
    assert "the (2/3)" in heading and "bird" in heading
    assert said(page).count("the (2/3)") >= 3  # the best head, what is swapped, the head that is drawn


def test_words_are_called_frequent_only_where_they_are(open_page):
    asked = {"find_in": "lines", "find_from": "moon"}
    page = open_page(PAGE, lang="en", find_lines="the sun shines\ncats sleep", **asked)
    assert "Words that stand in them: " in captions(page)
    page = open_page(PAGE, lang="en", find_lines="the sun shines\nthe cats sleep", **asked)
    assert "Words that stand in several of them: the" in captions(page)
    assert "cats" not in captions(page)


@pytest.mark.parametrize(("lang", "where"), [("en", "lines"), ("ko", "lines"), ("en", "file")])
def test_lines_that_are_cut_are_said(open_page, monkeypatch, lang, where):
    from ui.explorer import find_head

    monkeypatch.setattr(find_head, "MOST_LETTERS", 9000)
    lines = "I think it is " + "very " * 600 + "much cake\nthe cake and it " + "fell " * 600
    if where == "lines":
        page = open_page(PAGE, lang=lang, find_in="lines", find_lines=lines)
    else:
        page = upload(open_page(PAGE, lang=lang, find_in="file"), "a.txt", lines.encode())
        page.button(key="find_start").click().run()
        while not page.button(key="find_stop").disabled:
            page.run()
    assert not page.exception
    left, cut = (
        "Left out: 1 in which “it” or “cake” only stands after the 512",
        "Cut: 1 with more tokens than the 512",
    )
    if lang == "ko":
        left, cut = ("토큰 512개보다 뒤에만 있는 문장 1개", "토큰이 512개를 넘어 끝이 잘린 문장이 1개")
    assert left in captions(page)
    assert cut in captions(page)
    assert "without both" not in captions(page)


def test_a_long_line_of_a_file_is_shortened_on_screen_and_used_whole(open_page):
    long = "the cake and it was good " * 60
    page = upload(open_page(PAGE, lang="en", find_in="file"), "a.txt", long.encode())
    assert max(len(m.value.replace("\\", "")) for m in page.markdown if "cake" in m.value) == 240
    page.button(key="find_use").click().run()
    assert page.text_area(key="text").value == long.strip()


def test_a_file_is_forgotten_on_another_page(open_page):
    page = upload(open_page(PAGE, lang="en", find_in="file"), "a.txt", b"a secret and it\nanother\n")
    page.number_input(key="_find_row").set_value(2).run()
    kept = {"_upload", "_find_run", "_find_row"}
    assert all(key in page.session_state for key in kept)
    page.switch_page("pages/sentence.py").run()
    assert not any(key in page.session_state for key in kept)
    assert "secret" not in str(page.session_state)
    page.switch_page(PAGE).run()
    assert not page.exception


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.csv", b"text;label\nHello, you;1\nIt was late, and so;2\n", ("Hello, you", "It was late, and so")),
        ("a.csv", b"text\tlabel\none; two\t1\n", ("one; two",)),
        ("a.csv", b'text,label\n"one; two",1\nthree,2\n', ("one; two", "three")),
        ("a.csv", b"text\nIt was late; we left\nBye\n", ("It was late; we left", "Bye")),
        ("a.csv", b"It was late; we left\n", ("It was late; we left",)),
        ("a.txt", "one\u2028two\x0bthree\x1cfour\nfive\rsix".encode(), ("one two three four", "five", "six")),
    ],
)
def test_cells_and_lines_are_parted_where_they_should_be(name, data, expected):
    found = read_lines(name, data)
    assert found.lines == expected
    assert found.blank == 0
    assert found.header == ("text" if data.startswith(b"text") else None)


def _with_pair(monkeypatch, one, two):
    from ui.explorer import find_head

    def weights(model, n, asked):
        found = np.full((72, 2, 2), [[0.3, 0.1], [0.1, 0.3]])
        found[:, 0] = one, two
        return found

    few = minimal_pairs()[:3]
    monkeypatch.setattr("attention_core.minimal_pairs.minimal_pairs", lambda: few)
    monkeypatch.setattr(find_head, "_one_pair", weights)
    monkeypatch.setattr(
        find_head, "_switches", lambda model, asked: switches([weights(model, n, asked) for n in range(3)])
    )


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_a_tie_prefers_neither_and_a_near_tie_has_the_digits_that_decide(open_page, monkeypatch, lang):
    _with_pair(monkeypatch, 0.25, 0.25)
    tie = said(open_page(PAGE, lang=lang, find_in="pairs"))
    assert ("exactly the same. It prefers neither." if lang == "en" else "어느 쪽도 더 보지 않습니다.") in tie
    assert not [mark for mark in ("neither ✗", "neither ✓", "않습니다 ✗") if mark in tie]
    _with_pair(monkeypatch, 0.0000012, 0.0000034)
    near = said(open_page(PAGE, lang=lang, find_in="pairs"))
    assert "0.000001" in near and "0.000003" in near
    assert "0.000," not in near


def test_a_margin_of_nothing_has_no_sign():
    from ui.explorer.find_head import _signed

    assert [_signed(value) for value in (-0.0001, 0.0, 0.0001, -0.25, 0.25)] == ["0.000"] * 3 + ["−0.250", "+0.250"]


def test_both_sentences_of_a_pair_can_be_taken_away(open_page, capsys):
    page = open_page(PAGE, lang="en", find_in="pairs", find_pair="2")
    page.session_state["take_away2.1"] = page.session_state["take_away2.2"] = True
    page.run()
    assert not page.exception
    pair = minimal_pairs()[1]
    for n, code in enumerate(page.code):
        assert repr(pair.texts[n]) in code.value
        exec(compile(code.value, "notebook", "exec"), {})
        printed = capsys.readouterr().out.splitlines()
        assert printed[0] == f"it looks at {pair.texts[n].split()[pair.nouns[n]]}"
        assert f"{float(printed[1].split()[-1]):.3f}" in said(page)
    files = [payload(page, f"pictures2.{n}")["pictures"][0]["file"] for n in (1, 2)]
    assert len(set(files)) == 2
