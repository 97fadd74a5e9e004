"""What the sentence page gives away: the files' numbers are those on the page, whatever was typed."""

import csv
import io
import re

import numpy as np
import pytest

from pages.test_pages import SENTENCE, arrays, payload, view
from ui.components.standalone import standalone
from ui.show import drawn_heat
from ui.take_away import _csv, _file_name, _parts

HOSTILE = "=1+1 </script><b>x</b> $x$ 은행 💩"


def opened(page):
    page.session_state["take_away"] = True
    return page.run()


@pytest.mark.parametrize("lang", ["en", "ko"])
@pytest.mark.parametrize(("unit", "special", "first"), [("token", "shown", "log"), ("word", "hidden", "hidden")])
def test_it_opens_with_every_kind_of_file(open_page, lang, unit, special, first):
    page = opened(open_page(SENTENCE, lang=lang, text=HOSTILE, unit=unit, special=special, first=first, also="2-3"))
    assert not page.exception
    assert len(page.get("download_button")) == 3
    pictures = payload(page, "pictures")["pictures"]
    stem = "gaze-minilm-layer-6-head-12" + ("-words" if unit == "word" else "")
    assert [picture["file"] for picture in pictures] == [f"{stem}-map", f"{stem}-lines"]
    assert all("<b>" not in picture["svg"] and "<script" not in picture["svg"] for picture in pictures)
    assert "layer, head = 5, 11" in page.code[0].value


def test_a_changed_formula_is_named_and_given_away(open_page, capsys):
    page = opened(open_page(SENTENCE, lang="en", without="factor"))
    assert "· without factor</text>" in payload(page, "pictures")["pictures"][0]["svg"]
    exec(compile(page.code[0].value, "notebook", "exec"), {})
    drawn = arrays(page, "heat-minilm-token-shown")["weights"]
    query, key = (int(n) for n in page.code[0].value.split("query, key = ")[1].splitlines()[0].split(", "))
    assert float(capsys.readouterr().out.split()[-1]) == pytest.approx(drawn[query, key], abs=1e-6)


def test_words_and_what_is_hidden(open_page, capsys):
    """In words, and with tokens hidden, the lines still give a number of the page."""
    text = "The xylophonist electrocardiographs quixotically and it was fine"
    for asked in (
        {"unit": "word", "special": "hidden"},
        {"first": "hidden"},
        {"unit": "word", "special": "renormalised"},
    ):
        page = opened(open_page(SENTENCE, lang="en", layer="2", head="3", text=text, **asked))
        exec(compile(page.code[0].value, "notebook", "exec"), {})
        printed = capsys.readouterr().out.splitlines()
        query, key = printed[0].split(" looks at ")
        shown = view(page, "heat")
        drawn = arrays(page, next(e.key for e in page.get("bidi_component") if e.key.startswith("heat")))["weights"]
        at = shown["queries"].index(query), shown["keys"].index(key)
        if asked.get("special") != "renormalised":
            assert float(printed[-1].split()[-1]) == pytest.approx(drawn[at], abs=1e-6)


def test_logarithmic_colours_are_those_of_the_picture(open_page):
    plain, log = (
        payload(opened(open_page(SENTENCE, lang="en", first=first)), "pictures")["pictures"][0]["svg"]
        for first in ("shown", "log")
    )
    assert "≤ 0.0008" in log
    assert "≤" not in plain
    assert plain != log


def test_nothing_is_made_while_it_is_closed(open_page):
    page = open_page(SENTENCE)
    assert not page.get("download_button")
    assert not page.code


def test_the_lines_of_python_give_the_number_of_the_page(open_page, capsys):
    page = opened(open_page(SENTENCE))
    exec(compile(page.code[0].value, "notebook", "exec"), {})
    printed = capsys.readouterr().out
    assert "it looks at cake" in printed
    drawn = arrays(page, view(page, "heat")["view"].join(["heat-", ""]))
    assert float(printed.split()[-1]) == pytest.approx(drawn["weights"][6, 4], abs=1e-6)


def test_the_picture_shows_what_the_page_shows(open_page):
    page = opened(open_page(SENTENCE, show="raw"))
    drawn = arrays(page, "heat-minilm-token-shown")
    svg = payload(page, "pictures")["pictures"][0]["svg"]
    numbers = re.findall(r'text-anchor="middle"[^>]*>([^<]*)<', svg)
    assert [float(n.replace("\u2212", "-")) for n in numbers] == pytest.approx(drawn["raw"].ravel(), abs=0.0051)


def test_the_table_opens_in_a_spreadsheet():
    from ui.compute import head_view

    head = head_view("minilm", HOSTILE, 5, 11, "token", "shown")
    table = _csv(head).decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(table)))
    assert rows[0]["query"] == "[CLS]"
    assert rows[len(head.keys)]["query"] == "'="
    np.testing.assert_array_equal(np.float32([row["weight"] for row in rows]).reshape(head.weights.shape), head.weights)


def test_one_file_is_under_three_megabytes_at_256_tokens():
    from ui.compute import head_view

    head = head_view("smollm2", "word " * 255, 3, 2, "token", "shown")
    assert len(head.queries) == 256
    page = standalone("t", "x", _parts({2: head}, "weights", False, 0), lang="en")
    assert len(page.encode()) < 3_000_000


def test_user_text_is_only_text_in_the_file():
    from ui.compute import head_view

    head = head_view("minilm", HOSTILE, 5, 11, "token", "shown")
    page = standalone(HOSTILE, HOSTILE, _parts({11: head}, "weights", True, 0), lang="en")
    assert "<b>x" not in page
    assert page.count("</script>") == 1
    assert "http" not in page.replace("http://www.w3.org", "")
    assert drawn_heat(head, "weights", view="file")[0]["param"] == "query"


def test_a_file_has_a_name_that_every_system_takes():
    assert _file_name("a/b: c?.gguf", 0, 2) == "gaze-a-b-c-.gguf-layer-1-head-3"


def test_a_file_s_name_says_the_changes_and_the_pane(open_page):
    changes = (("factor", "causal"), 0.5)
    assert _file_name("m", 0, 2, changes, "B") == "gaze-m-layer-1-head-3-pane-B-without-factor-causal-temperature-0.5"
    page = opened(open_page(SENTENCE, lang="en", without="factor"))
    assert payload(page, "pictures")["pictures"][0]["file"] == "gaze-minilm-layer-6-head-12-without-factor-map"


def test_a_web_page_names_fonts_that_have_korean_letters():
    page = standalone("t", "은행", [], lang="ko")
    assert "Malgun Gothic" in page and "Noto Sans CJK KR" in page


def test_lines_stay_level_where_the_first_token_is_hidden(open_page):
    for asked, down in (({}, 0), ({"first": "hidden"}, 1), ({"first": "hidden", "special": "hidden"}, 0)):
        shown = view(open_page(SENTENCE, lang="en", **asked), "links")
        assert shown["down"] == down
        assert shown["queries"][down:] == shown["keys"]
