"""How a text is read, on the pages: pairs and their parts, targets, special tokens, chats; kept in the link."""

import numpy as np
import pytest

from attention_core import Input, compute
from core.test_kinds import offered, root  # noqa: F401 - fixtures
from pages.test_pages import SENTENCE, arrays, captions, link, payload, view
from trigger import fire
from ui.inputs import LONGEST

WALL = "pages/all_heads.py"
A, B = "I ate the cake", "it was delicious"
SOURCE, TARGET = "I ate the cake.", "ich aß"


def said(page):
    return captions(page).replace("\\", "")


def open_box(page):
    """Open the popover, as a click does."""
    page.session_state["how_read"] = True
    return page.run()


def drawn(page, kind):
    return arrays(page, next(e.key for e in page.get("bidi_component") if e.key.startswith(kind)))


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_a_pair_and_its_parts(open_page, lang):
    page = open_page(SENTENCE, lang=lang, text=A, layer="3", head="2")
    assert not [c for c in page.segmented_control if c.key == "segments"]
    alone = view(page, "links")["queries"]
    page = open_box(page)
    page.text_input(key="second").set_value(B).run()
    assert not page.exception
    both = view(page, "links")["queries"]
    assert both == [*alone, *B.split(), "[SEP]"]
    weights = drawn(page, "heat")["weights"]
    page = open_page(SENTENCE, **(link(page) | {"segments": "ba"}))
    assert (link(page)["second"], link(page)["segments"]) == (B, "ba")
    shown = view(page, "heat")
    assert (shown["queries"], shown["keys"]) == (B.split(), A.split())
    assert [shown["words"][side][-1] for side in ("query", "key")] == ["B", "A"]
    part = drawn(page, "heat")["weights"]
    np.testing.assert_allclose(part, weights[6:9, 1:5], atol=1e-6)
    row = drawn(page, "row")
    np.testing.assert_allclose(row["total"] + row["hidden"], 1, atol=1e-6)
    share = f"{weights[6:9, 1:5].sum(axis=1).mean():.2f}"
    assert f"{share} on A’s" in said(page) if lang == "en" else f"A의 단어 {share}" in said(page)
    assert ("only B → A: " + share if lang == "en" else f"B → A만 있습니다. 한 행에서 평균 {share}") in said(page)


def test_what_is_given_away_of_a_pair(open_page, capsys):
    page = open_page(SENTENCE, lang="en", text=A, second=B, segments="ab", layer="3", head="2")
    page.session_state["take_away"] = True
    page = page.run()
    assert not page.exception
    assert f"second={B!r}" in page.code[0].value
    exec(compile(page.code[0].value, "notebook", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    seen = compute.run(compute._seen, "minilm", Input(A, B), 512)
    query, key = (int(n) for n in page.code[0].value.split("query, key = ")[1].splitlines()[0].split(", "))
    assert float(printed[-1].split()[-1]) == pytest.approx(seen.weights(2, 1)[query, key].item(), abs=1e-6)


def test_special_tokens_are_asked_for_only_where_there_are_some(open_page):
    page = open_box(open_page(SENTENCE, lang="en", text=A))
    assert not [toggle for toggle in page.toggle if toggle.key == "special_tokens"]
    page = open_box(open_page(SENTENCE, lang="en", text="I ate the [MASK]"))
    assert view(page, "links")["queries"][-4:-1] == ["[", "mask", "]"] or "[" in view(page, "links")["queries"]
    assert "[MASK]: read as ordinary letters" in said(page)
    page.toggle(key="special_tokens").set_value(True).run()
    assert view(page, "links")["queries"][-2:] == ["[MASK]", "[SEP]"]
    assert view(page, "links")["muted_queries"][-2:] == [True, True]
    assert "Read as special, as you asked: [MASK]" in said(page)
    assert link(page)["special_tokens"] == "yes"


@pytest.mark.parametrize("path", [SENTENCE, WALL])
def test_a_chat_is_off_until_asked_for(open_page, path):
    page = open_page(path, lang="en", model="smollm2", text=A)
    assert view(page, "links")["queries"] == ["I", "·ate", "·the", "·cake"]
    page = open_page(path, lang="en", model="smollm2", text=A, chat="yes")
    assert not page.exception
    tokens = view(page, "links")
    assert tokens["queries"][0] == "<|im_start|>"
    assert tokens["muted_queries"][0]
    assert f"{len(tokens['queries']) - 4} of the tokens are the template" in said(page)
    assert open_box(page).toggle(key="chat").value


@pytest.mark.parametrize("path", [SENTENCE, WALL])
@pytest.mark.parametrize(("lang", "sides"), [("en", ("target", "source")), ("ko", ("타깃", "소스"))])
def test_cross_attention_has_the_right_tokens_on_each_axis(open_page, offered, path, lang, sides):  # noqa: F811
    page = open_page(path, lang=lang, model="tiny-t5", kind="cross", text=SOURCE, second=TARGET, layer="3")
    assert not page.exception
    shown = view(page, "heat")
    assert (shown["queries"], shown["keys"]) == (["<pad>", "ich", "·aß"], ["I", "·ate", "·the", "·cake", ".", "</s>"])
    assert (shown["words"]["query"], shown["words"]["key"]) == sides
    lines = view(page, "links")
    assert (lines["titles"], lines["key_titles"][:2]) == (["<pad>", "▁ich", "▁aß"], ["▁I", "▁ate"])
    assert all(side in lines["words"][name] for side, name in zip(sides, ("queries", "keys"), strict=True))
    assert f"“{TARGET}”" in said(page)
    assert drawn(page, "heat")["weights"].shape == (3, 6)


def test_kinds_on_the_sentence_page(open_page, offered):  # noqa: F811
    page = open_page(SENTENCE, lang="en", model="tiny-t5", text=SOURCE)
    assert len(view(page, "heat")["queries"]) == len(view(page, "heat")["keys"]) == 6
    page.segmented_control(key="kind").set_value("decoder").run()
    assert not page.exception
    assert "Target, written by the model" in said(page)
    assert view(page, "heat")["words"]["not_allowed"] == "comes later: masked"
    written = view(page, "heat")["queries"]
    page.segmented_control(key="kind").set_value("cross").run()
    assert (view(page, "heat")["queries"], len(view(page, "heat")["keys"])) == (written, 6)
    assert "no causal mask" in said(page)
    assert "le i" not in page.latex[0].value
    page = fire(page, "heads", "picked", 4)
    assert (link(page)["head"], link(page)["kind"]) == ("5", "cross")
    page.session_state["take_away"] = True
    page = page.run()
    assert "kind='cross'" in page.code[0].value
    picture = payload(page, "pictures")["pictures"][0]
    assert "tiny-t5 · cross · " in picture["svg"]
    assert picture["file"] == "gaze-tiny-t5-layer-1-head-5-cross-map"


@pytest.mark.parametrize("way", ["rollout", "flow", "mean", "norm"])
def test_one_map_of_cross_attention(open_page, offered, way):  # noqa: F811
    place = {"model": "tiny-bart", "kind": "cross", "text": SOURCE, "second": TARGET}
    page = open_page(WALL, lang="en", **place, one_map="yes", way=way)
    assert not page.exception
    refused = "mean nothing here" in " ".join(e.value for e in page.markdown)
    assert refused == (way in ("rollout", "flow"))
    assert arrays(page, "heat-one-tiny-bart-all")["weights"].shape == (4, 7)


def test_the_wall_of_cross_attention_and_its_link(open_page, offered):  # noqa: F811
    page = open_page(WALL, lang="en", model="tiny-bart", kind="cross", text=SOURCE, second=TARGET)
    wall = payload(page, "wall")
    legend = {wall["roles"][n] for n in wall["legend"]}
    assert not legend & {"previous token", "next token", "same token", "induction", "duplicate token"}
    to = next(e for e in page.get("page_link")).proto
    assert "kind=cross" in to.query_string
    assert "second=ich" in to.query_string


@pytest.mark.parametrize("path", ["pages/compare.py", "pages/find_head.py"])
def test_other_pages_take_the_first_kind(open_page, offered, path):  # noqa: F811
    page = open_page(path, lang="en", model="tiny-bart", text=SOURCE)
    assert not page.exception
    assert not page.error
    assert "the attention of its encoder" in said(page)
    assert "the attention of its encoder" not in said(open_page(path, lang="en", text=SOURCE))


def test_nothing_odd_in_a_link_does_harm(open_page):
    page = open_page(SENTENCE, lang="en", text=A, second="<b>$x$</b> " * 500, segments="zz", chat="maybe", kind="x")
    assert not page.exception
    assert len(link(page)["second"]) <= LONGEST
    assert "segments = zz" in said(page)
    assert "chat" not in link(page)


def test_a_second_sentence_without_words(open_page):
    page = open_page(SENTENCE, lang="en", text=A, second="\u200b", segments="ab")
    assert not page.exception
    assert "so everything is shown" in said(page)
    assert "nan" not in said(page)


def test_what_was_typed_comes_along_to_the_next_page(open_page):
    page = open_page(SENTENCE, lang="en", text=A, second=B)
    page = page.switch_page(WALL).run()
    assert view(page, "links")["queries"][-4:] == [*B.split(), "[SEP]"]
    page = page.switch_page(SENTENCE).run()
    assert link(page)["second"] == B
