"""The video search page, as a reader uses it: every control, both languages, bad input, links."""

import time

import numpy as np
import pytest

from pages.test_pages import arrays, captions, link, payload, with_numbers

PAGE = "pages/video_search.py"


def films(page):
    """Return the films' titles, the one with the largest weight first, and their weights in that order."""
    weights = arrays(page, "films")["weights"][0]
    order = np.argsort(-weights, kind="stable")
    return [payload(page, "films")["keys"][n] for n in order], weights[order]


@pytest.mark.parametrize(
    ("lang", "query", "first"),
    [("en", "find me an SF film", "Ninth Moon Post"), ("ko", "오늘은 멜로가 좋아", "우산 대여점")],
)
def test_it_opens_with_an_answer(open_page, lang, query, first):
    page = open_page(PAGE, lang=lang)
    assert not page.exception
    assert page.text_input(key="q").value == query
    titles, weights = films(page)
    assert titles[0] == first
    assert (weights > 0).all()
    assert weights.sum() == pytest.approx(1, abs=1e-6)
    assert link(page)["q"] == query


def test_another_query_gets_another_answer(open_page):
    page = open_page(PAGE, lang="en")
    page.text_input(key="q").set_value("ghosts in a haunted house").run()
    assert films(page)[0][0] == "The Room That Breathes"
    page.text_input(key="q").set_value("바다에 사는 고래").run()
    assert films(page)[0][0] == "Listening to the Deep"
    assert "고래 → whales" in captions(page).replace("\\", "")


def test_an_example_is_one_click_away(open_page):
    page = open_page(PAGE, lang="ko")
    page.button(key="ask_1").click().run()
    assert page.text_input(key="q").value == link(page)["q"] == "배꼽 빠지게 웃고 싶어"
    assert payload(page, "films")["group"][arrays(page, "films")["weights"][0].argmax()] == 3


def test_hard_search_has_one_winner(open_page):
    page = open_page(PAGE, lang="en")
    winner = films(page)[0][0]
    page.segmented_control(key="search").set_value("hard").run()
    titles, weights = films(page)
    assert titles[0] == winner
    assert weights.tolist() == [1] + [0] * 23
    assert arrays(page, "films")["opacity"].sum() == 1
    assert link(page)["search"] == "hard"
    assert payload(page, "films")["words"]["weight"] == "hard search, weight"


def test_temperature_sharpens(open_page):
    page = open_page(PAGE, lang="en")
    tops = []
    for temperature in (1.0, 0.3, 0.05, 0.01):
        page.slider(key="search_temperature").set_value(temperature).run()
        assert link(page)["search_temperature"] == str(temperature)
        assert payload(page, "films")["factor_text"] == f"1/{temperature:g}"
        tops.append(films(page)[1][0])
    assert tops == sorted(tops)
    assert tops[0] < 0.07
    assert tops[-1] > 0.9


def test_fewer_tags_make_another_key(open_page):
    page = open_page(PAGE, lang="en")
    five = films(page)[1]
    page.slider(key="search_tags").set_value(1).run()
    assert payload(page, "films")["used"] == 1
    weights = films(page)[1]
    assert len(set(weights[:3].tolist())) == 1
    assert weights.tolist() != five.tolist()
    assert link(page)["search_tags"] == "1"


def test_what_is_drawn_is_what_the_core_computed(open_page):
    from attention_core import compute
    from attention_core.labs import video_search

    page = open_page(PAGE, lang="en", q="bread and history", search_temperature="0.2", search_tags="3")
    found = compute.run(video_search.search, "bread and history", 3, 0.2, False)
    sent = arrays(page, "films")
    for name in ("weights", "raw", "scaled"):
        np.testing.assert_array_equal(sent[name][0], getattr(found, name))
    np.testing.assert_array_equal(sent["colours"][0], found.context)
    np.testing.assert_array_equal(sent["opacity"][0], video_search.opacities(found.weights))
    table = with_numbers(page, "gaze-video-search").dataframe[0].value
    np.testing.assert_array_equal(table.iloc[:, 1].to_numpy(), found.raw)
    assert table.shape == (24, 5)


def test_empty_search_keeps_the_last_picture(open_page):
    page = open_page(PAGE, lang="en", q="a wedding")
    before = films(page)[0]
    for blank in ("", "   "):
        page.text_input(key="q").set_value(blank).run()
        assert not page.exception
        assert "search box is empty" in captions(page)
        assert films(page)[0] == before
        assert link(page)["q"] == "a wedding"


@pytest.mark.parametrize("text", ["robot " * 834, "로봇 " * 1667])
def test_five_thousand_characters_are_cut_and_it_is_said(open_page, text):
    text = text[:5000]
    page = open_page(PAGE, lang="en", q=text)
    assert not page.exception
    assert "5000 characters" in page.warning[0].value
    assert "300" in page.warning[0].value
    assert films(page)[0][0] == "Ninth Moon Post"
    assert link(page)["q"] == text[:300]


@pytest.mark.parametrize(
    "text",
    [
        "</script><b>x</b>",
        "$x$ **b** |a| `c`",
        "\x07 \x00",
        "مرحبا",
        "💩",
        "\u202eabc",
        "뷁쀍",
        ":red[x] {t}",
        "?",
        "가",
    ],
    ids=range(10),
)
def test_odd_queries(open_page, text):
    page = open_page(PAGE, lang="ko", q=text)
    assert not page.exception
    assert page.text_input(key="q").value == text
    weights = films(page)[1]
    assert weights.sum() == pytest.approx(1, abs=1e-6)


def test_typed_words_are_never_markup(open_page):
    page = open_page(PAGE, lang="en", q="멜로 <b>x</b> **y**")
    said = next(caption.value for caption in page.caption if "→" in caption.value)
    assert "<b>" not in said.replace("\\<", "")
    assert "**" not in said


def test_nothing_in_the_dictionary_is_said(open_page):
    page = open_page(PAGE, lang="en", q="뷁쀍")
    assert "its answer means little" in captions(page)
    page.text_input(key="q").set_value("뷁쀍 멜로").run()
    assert "without effect: 뷁쀍" in captions(page)


@pytest.mark.parametrize(
    ("bad", "key", "value"),
    [
        ({"search": "magic"}, "search", "soft"),
        ({"search_temperature": "0"}, "search_temperature", "0.05"),
        ({"search_temperature": "nan"}, "search_temperature", "0.05"),
        ({"search_temperature": "1e30"}, "search_temperature", "0.05"),
        ({"search_temperature": "warm"}, "search_temperature", "0.05"),
        ({"search_tags": "6"}, "search_tags", "5"),
        ({"search_tags": "-1"}, "search_tags", "5"),
        ({"measure": "maybe"}, "measure", "no"),
    ],
    ids=str,
)
def test_what_does_not_exist_gets_the_default_and_a_note(open_page, bad, key, value):
    page = open_page(PAGE, lang="en", **bad)
    assert not page.exception
    assert link(page)[key] == value
    assert "does not exist" in captions(page)


def test_a_link_comes_back_identical(open_page):
    wanted = {
        "lang": "ko",
        "q": "무서운 거 & 100% 로봇?",
        "search": "hard",
        "search_temperature": "0.37",
        "search_tags": "2",
        "measure": "no",
        "text": "the dog chased its tail",
        "query": "5",
        "present": "yes",
    }
    page = open_page(PAGE, **wanted)
    assert not page.exception
    assert link(page) == wanted
    assert payload(page, "words")["pinned"] == 5


def test_another_language_keeps_the_search(open_page):
    page = open_page(PAGE, lang="en", q="kung fu")
    before = arrays(page, "films")["weights"]
    page.segmented_control(key="lang").set_value("ko").run()
    assert link(page)["q"] == "kung fu"
    assert payload(page, "films")["keys"][4] == "일곱 종 항구"
    assert payload(page, "films")["tags"][4][0] == "액션"
    np.testing.assert_array_equal(arrays(page, "films")["weights"], before)


def test_the_rate_is_measured_when_asked_for(open_page):
    page = open_page(PAGE, lang="en")
    assert not any("hits" in m.value and "held out" in m.value for m in page.markdown)
    page.toggle(key="measure").set_value(True).run(timeout=120)
    lines = [m.value for m in page.markdown if m.value.startswith("- ") and "of 20 hits" in m.value]
    assert len(lines) == 4
    assert all(int(line.split(": ")[1].split()[0]) >= 19 for line in lines)


def test_the_bridge_is_a_real_head(open_page, models):
    from attention_core import capture

    page = open_page(PAGE, lang="en")
    seen = capture(models["minilm"], "I ate the cake and it was delicious")
    sent, meta = arrays(page, "words"), payload(page, "words")
    np.testing.assert_allclose(sent["weights"], seen.weights(layer=5, head=11).numpy(), atol=1e-5)
    assert meta["queries"][meta["default"]] == "it"
    assert meta["keys"][sent["weights"][meta["default"]].argmax()] == "cake"
    np.testing.assert_allclose(sent["scaled"], sent["raw"] / 32**0.5, rtol=1e-5)
    page.text_input(key="text").set_value("the dog chased its tail").run()
    assert "dog" in payload(page, "words")["keys"]


def test_blank_sentence_keeps_the_last_one(open_page):
    page = open_page(PAGE, lang="en", text="hello world")
    page.text_input(key="text").set_value(" ").run()
    assert not page.exception
    assert "hello" in payload(page, "words")["keys"]


def test_a_change_is_quick(open_page):
    """The core's part of a keystroke: not asserted against a clock, but that nothing is computed twice."""
    from attention_core import compute
    from attention_core.labs import video_search

    compute.run(video_search.search, "a first query", 5, 0.05, False)
    before = video_search._tag.cache_info().misses, video_search._keys.cache_info().misses
    start = time.perf_counter()
    compute.run(video_search.search, "another query, never asked before", 5, 0.05, False)
    print(f"one query: {1000 * (time.perf_counter() - start):.0f} ms")  # noqa: T201
    assert (video_search._tag.cache_info().misses, video_search._keys.cache_info().misses) == before
