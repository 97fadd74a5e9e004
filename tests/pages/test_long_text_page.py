"""The page "Long text", as a reader drives it."""

import io

import numpy as np
import pytest

from attention_core import compute, long_text
from pages.test_pages import arrays, captions, link, payload
from trigger import fire
from ui.explorer.long_file import read_text
from ui.explorer.long_text import sample
from ui.explorer.upload import FileRefusedError

PAGE = "pages/long_text.py"
TEXT = "The cat sat on the mat. It was warm, and the cat slept. "


def gone_through(page):
    """Let the fragment's ticks pass, as the browser asks for them."""
    for _ in range(100):
        if any(element.key == "long_map" for element in page.get("bidi_component")):
            return page
        page.run()
    raise AssertionError("the model has not gone through the text")


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_the_sample_is_mapped_exactly(open_page, lang):
    page = gone_through(open_page(PAGE, lang=lang, layer="3", head="5"))
    assert not page.exception
    meta, sent = payload(page, "long_map"), arrays(page, "long_map")
    seen = compute.run(compute._seen, "minilm", sample(), 512)
    tokens = len(seen.tokens)
    assert meta["region"] == [0, tokens, 0, tokens]
    wanted = compute.run(seen.grouped, 2, 4, 256)
    np.testing.assert_allclose(sent["weights"], wanted, atol=1e-5)
    np.testing.assert_allclose(sent["weights"].sum(axis=1), 1, atol=1e-5)
    assert "".join(meta["queries"]).replace("[CLS] ", "").replace("[SEP]", "").strip() == sample()
    assert meta["keys"] is None
    assert f"{tokens}" in captions(page)
    assert arrays(page, "long_heads")["tiles"].shape[0] == 12
    assert "passage" not in link(page)


def test_a_region_by_link_is_exact_and_comes_back_identical(open_page):
    wanted = {
        "lang": "ko",
        "present": "no",
        "model": "smollm2",
        "layer": "26",
        "head": "3",
        "long_from": "box",
        "passage": TEXT * 4,
        "long_queries": "21-40",
        "long_keys": "1-30",
        "long_first": "hidden",
        "tile": "3-7",
    }
    page = gone_through(open_page(PAGE, **wanted))
    assert not page.exception
    assert {key: value.strip() for key, value in link(page).items()} == {k: v.strip() for k, v in wanted.items()}
    sent, meta = arrays(page, "long_map"), payload(page, "long_map")
    weights = compute.run(lambda: compute._seen("smollm2", TEXT * 4, 512).weights(25, 2)).numpy()
    assert meta["region"] == [20, 40, 1, 30]
    assert meta["picked"] == [3, 7]
    np.testing.assert_allclose(sent["weights"], weights[20:40, 1:30], atol=1e-5)
    np.testing.assert_array_equal(sent["allowed"], np.arange(1, 30)[None] <= np.arange(20, 40)[:, None])
    said = captions(page)
    assert f"{weights[20:40, 0].mean():.1%}" in said.replace("\\", "")
    inside = weights[20:40, 1:30].sum(1).mean()
    assert f"{inside:.1%} on the keys shown" in said.replace("\\", "") or f"{inside:.1%}를 보이는 키에" in said.replace(
        "\\", ""
    )
    assert f"{1 - inside:.1%}를 지도 밖의 키에" in said.replace("\\", "")
    listed = next(m.value for m in page.markdown if m.value.startswith("1. **"))
    strongest = np.sort(weights[20:40, 1:30].ravel())[::-1][:12]
    assert [line[5:10] for line in listed.split("\n")] == [f"{weight:.3f}" for weight in strongest]


def test_going_back_to_another_model_keeps_the_part_that_the_link_names(open_page):
    page = gone_through(open_page(PAGE, lang="en", passage=TEXT * 4, long_queries="5-20", long_keys="3-9", tile="2-1"))
    before = link(page)
    page.segmented_control(key="model").set_value("smollm2")
    page = gone_through(page.run())
    assert payload(page, "long_map")["region"][0] == 0
    assert "tile" not in link(page) or link(page)["tile"] != "2-1"
    page.query_params.clear()
    page.query_params.update(before)
    page = gone_through(page.run())
    assert link(page) == before
    assert payload(page, "long_map")["region"] == [4, 20, 2, 9]


def test_a_text_that_is_too_long_is_cut_and_says_so(open_page, monkeypatch):
    monkeypatch.setattr("ui.explorer.long_text.MOST_LETTERS", 100)
    page = gone_through(open_page(PAGE, lang="en", passage=TEXT * 3))
    assert not page.exception
    assert "the first 100 characters" in page.warning[0].value
    assert f"it has {len(TEXT) * 3}" in page.warning[0].value
    assert page.text_area(key="passage").value == TEXT * 3


def test_a_text_from_right_to_left_stays_in_its_place(open_page):
    page = gone_through(open_page(PAGE, lang="en", passage="القطة جلست على السجادة"))
    listed = next(m.value for m in page.markdown if m.value.startswith("1. **"))
    for line in listed.split("\n"):
        assert line.count("\u2068") == line.count("\u2069") == 2


def test_a_weight_that_is_too_small_for_the_list(open_page):
    page = gone_through(open_page(PAGE, lang="en", passage=TEXT * 4, model="smollm2", layer="1", head="1"))
    listed = next(m.value for m in page.markdown if m.value.startswith("1. **"))
    assert "**0.000**" not in listed
    assert "Most of these" not in captions(gone_through(open_page(PAGE, lang="en", passage="a", model="smollm2")))


def test_dragging_picking_back_and_whole(open_page):
    page = gone_through(open_page(PAGE, lang="en", passage=TEXT * 12, layer="2"))
    tokens = payload(page, "long_map")["region"][1]
    page = fire(page, "long_map", "region", [10, 29, 40, 44])
    assert not page.exception
    assert (link(page)["long_queries"], link(page)["long_keys"]) == ("11-30", "41-45")
    page = fire(page, "long_map", "picked", [4, 2])
    assert link(page)["tile"] == "4-2"
    page = fire(page, "long_map", "region", [0, 1, 2, 4])
    assert payload(page, "long_map")["region"] == [10, 12, 42, 45]
    page.button(key="long_back").click().run()
    assert payload(page, "long_map")["region"] == [10, 30, 40, 45]
    page.button(key="long_whole").click().run()
    assert payload(page, "long_map")["region"] == [0, tokens, 0, tokens]
    assert not any(button.key in ("long_back", "long_whole") for button in page.button)
    page = fire(page, "long_heads", "picked", 0)
    assert link(page)["head"] == "1"


def test_it_can_be_stopped_and_goes_on_where_it_was(open_page, monkeypatch):
    monkeypatch.setattr("ui.explorer.long_text.PIECE", 0.0)
    monkeypatch.setattr("attention_core.patience.STEP", 0.002)
    page = open_page(PAGE, lang="en", model="smollm2", passage="Stop. " + TEXT * 5, layer="30")
    page.button(key="long_switch").click().run()
    assert page.button(key="long_switch").label == "Go on"
    name = page.session_state["_long_run"][0]
    before = long_text.progress(name)
    assert before.done < 30
    page.run()
    assert long_text.progress(name) == before
    assert not any(element.key == "long_map" for element in page.get("bidi_component"))
    monkeypatch.undo()
    page.button(key="long_switch").click().run()
    gone_through(page)
    assert long_text.progress(name).done == 30


def test_a_text_that_others_pushed_out_is_read_again(open_page):
    page = gone_through(open_page(PAGE, lang="en", passage="Gone. " + TEXT * 3))
    name = page.session_state["_long_run"][0]
    compute.run(lambda: long_text._runs.pop(name).paused.close())
    page.run()
    assert not page.exception
    assert "no longer kept" in page.info[0].value
    page.button(key="long_again").click().run()
    gone_through(page)
    assert not page.exception


@pytest.mark.parametrize("text", ["x" * 50_000, "\n" * 32_768 + "end", "a", "</script><b>x</b> $x$ **b** |"])
def test_odd_texts(open_page, text):
    page = gone_through(open_page(PAGE, lang="en", passage=text))
    assert not page.exception
    assert not page.warning  # MiniLM's tokeniser makes one token of a word that it can't read, and none of line breaks


def test_what_does_not_fit_is_said(open_page):
    page = gone_through(open_page(PAGE, lang="en", passage=TEXT * 60))
    warned = page.warning[0].value.replace("\\", "")
    assert warned.startswith("At most 512 tokens go into MiniLM-L6. Words left out at the end of the text, ")
    seen = compute.run(compute._seen, "minilm", TEXT * 60, 512)
    left = len((TEXT * 60).split()) - len((TEXT * 60)[: seen.tokens[-2].end].split())
    assert int(warned.rstrip(".").rsplit(" ", 1)[1]) in (
        left,
        left + 1,
    )  # the last word that is there may be half of one
    assert 500 < payload(page, "long_map")["region"][1] <= 512


def test_a_text_without_letters_says_so_and_stays(open_page):
    page = open_page(PAGE, lang="en", passage="\u0007 \u0007")
    assert not page.exception
    assert "leaves nothing" in page.info[0].value
    assert page.text_area(key="passage").value == "\u0007 \u0007"


def pdf(text="", password="", pages=1):
    """A PDF with the same text on each page, or without."""
    from pypdf import PdfWriter

    file = PdfWriter()
    for _ in range(pages):
        _page(file, text)
    if password:
        file.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    file.write(out)
    return out.getvalue()


def _page(file, text):
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    page = file.add_blank_page(200, 200)
    if text:
        font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
        font = DictionaryObject({NameObject(key): NameObject(value) for key, value in font.items()})
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = file._add_object(stream)


def test_files_are_read():
    assert read_text("a.txt", "Zwölf\r\nBoxkämpfer".encode()) == ("Zwölf\nBoxkämpfer", 16, 0, 0)
    assert read_text("a.md", "\ufeff# 제목".encode()).text == "# 제목"
    assert read_text("a.pdf", pdf("The cat sat")) == ("The cat sat", 11, 1, 1)
    assert read_text("a.pdf", b"\r\nsent by mail\r\n" + pdf("The cat sat")).text == "The cat sat"


def test_a_file_that_is_longer_than_what_is_read_says_how_much(monkeypatch):
    monkeypatch.setattr("ui.explorer.long_file.MOST_LETTERS", 20)
    assert read_text("a.txt", b"abc " * 10) == ("abc " * 5, 40, 0, 0)
    found = read_text("a.pdf", pdf("The cat sat on it", pages=4))
    assert (found.read, found.pages) == (2, 4)
    assert found.text == "The cat sat on it\n\nT"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"x" * (5 * 2**20 + 1), "large"),
        (b" \n ", "blank"),
        (b"a\x00b", "binary"),
        (pdf(), "images"),
        (pdf("secret", "1234"), "locked"),
        (pdf("The cat sat")[:200], "damaged"),
        (b"%PDF-1.4 nonsense", "damaged"),
        (b"\x89PNG....", "image"),
        (b"PK\x03\x04....", "office"),
        ("한글".encode("cp949"), "cp949"),
        (b"\xff\xfea\x00", "utf16"),
        ("a text".encode("utf-16-le"), "utf16"),
        ("a text".encode("utf-16-be"), "utf16"),
        (b"caf\xe9 ol\xe9", "not_utf8"),
    ],
)
def test_files_that_can_t_be_used_say_why(data, reason):
    from ui.text import LANGUAGES, _texts

    with pytest.raises(FileRefusedError) as raised:
        read_text("file", data)
    assert raised.value.reason == reason
    for lang in LANGUAGES:
        said = _texts(lang)["long_file"][reason].format(**raised.value.places)
        assert said.count("{") == 0


def test_the_map_is_taken_away_as_it_is_drawn(open_page):
    page = gone_through(open_page(PAGE, lang="en", passage=TEXT * 3, layer="2", head="1", long_queries="5-9"))
    page.session_state["take_gaze-long-2-1"] = True
    page.run()
    assert not page.exception
    picture = payload(page, "pictures-gaze-long-2-1")["pictures"][0]
    assert picture["svg"].startswith("<svg")
    assert "layer 2, head 1" in picture["title"]
    assert picture["svg"].count("<text") > 5
