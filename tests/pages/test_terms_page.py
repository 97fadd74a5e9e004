"""Sinks, windows, local and skipped layers, untrained models: said on every page that shows such a model."""

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from pages.test_pages import SENTENCE, arrays, captions, payload
from tiny_models import save
from ui.components.standalone import standalone
from ui.compute import head_view
from ui.take_away import _map, _parts

WALL, COMPARE, FIND, HEADS = (f"pages/{name}.py" for name in ("all_heads", "compare", "find_head", "many_heads"))
TEXT = "I ate the cake and it was delicious"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GAZE_MODELS_DIR", str(tmp_path))
    return tmp_path


def said(page):
    return captions(page).replace("\\", "")


def keyed(page, start):
    return [e.key for e in page.get("bidi_component") if e.key.startswith(start)]


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_a_sink_is_said_everywhere(open_page, folder, lang):
    asked = {"lang": lang, "model": save(folder, "GPT-OSS"), "layer": "1", "head": "2", "text": TEXT}
    view = head_view(asked["model"], TEXT, 0, 1, "token", "shown")
    share = f"{view.sink.mean():.0%}"
    name = {"en": "(sink)", "ko": "(싱크)"}[lang]
    page = open_page(SENTENCE, **asked)
    assert not page.exception
    assert share in said(page)
    (heat,) = keyed(page, "heat")
    assert payload(page, heat)["keys"][-1] == name
    shown = arrays(page, heat)
    np.testing.assert_allclose(shown["weights"].sum(axis=1) + shown["sink"], np.ones(10), atol=1e-6)
    row = payload(page, keyed(page, "row")[0])["words"]
    assert f"{dict(view.terms)['sink']:.4f}" in row["sink"]
    assert row["too_far"] != row["not_allowed"]
    page = open_page(WALL, one_map="yes", **asked)
    assert not page.exception
    assert said(page).count(share) >= 1
    for heat in keyed(page, "heat"):
        shown = arrays(page, heat)
        np.testing.assert_allclose(shown["weights"].sum(axis=1) + shown["sink"], np.ones(10), atol=1e-5)
    page = open_page(COMPARE, **asked, text_b=TEXT)
    assert not page.exception
    assert said(page).count(share) == 2 or share in said(page)
    # The file for a browser and the picture.
    parts = _parts({1: view}, "weights", log=False, pinned=3)
    np.testing.assert_array_equal(parts[1].arrays["sink"], view.sink)
    np.testing.assert_allclose(parts[2].arrays["sink"] + parts[2].arrays["weights"].sum(axis=1), np.ones(10), atol=1e-6)
    assert standalone("a", "b", parts, lang=lang)
    assert "(sink)" in _map(view.weights, view, "weights", "a", log=False)


@pytest.mark.parametrize(("lang", "words"), [("en", "Layer 2: full"), ("ko", "2층: 전체")])
def test_local_layers_are_marked(open_page, folder, lang, words):
    asked = {"lang": lang, "model": save(folder, "Gemma 3"), "layer": "2", "head": "1", "text": TEXT}
    for path in (SENTENCE, WALL, COMPARE):
        page = open_page(path, **asked)
        assert not page.exception
        assert words in said(page), path
        assert {"en": "Local layers (window 3): 1.", "ko": "로컬 층(창 3): 1."}[lang] in said(page)
    page = open_page(SENTENCE, **asked | {"layer": "1"})
    assert {"en": "Layer 1: local, window 3", "ko": "1층: 로컬, 창 3"}[lang] in said(page)


@pytest.mark.parametrize(("lang", "words"), [("en", "Skipped: layers 1 of the model"), ("ko", "모델의 1층")])
def test_layers_without_attention_are_named(open_page, folder, lang, words):
    asked = {"lang": lang, "model": save(folder, "LFM2"), "layer": "1", "head": "1", "text": TEXT}
    for path in (SENTENCE, WALL, COMPARE):
        page = open_page(path, **asked)
        assert not page.exception
        assert words in said(page), path
        assert {"en": "This is layer 2 of the model", "ko": "모델에서는 2층입니다"}[lang] in said(page)
    page = open_page("pages/long_text.py", **asked | {"passage": TEXT})
    for _ in range(20):  # ticks
        page.run()
    assert not page.exception
    assert words in said(page)
    assert {"en": "This is layer 2 of the model", "ko": "모델에서는 2층입니다"}[lang] in said(page)


def test_both_sides_of_a_window(open_page, folder):
    page = open_page(SENTENCE, lang="en", model=save(folder, "ModernBERT"), layer="1", head="1", text=TEXT)
    assert "less than 3 away, on both sides" in said(page)
    (heat,) = keyed(page, "heat")
    drawn = arrays(page, heat)["weights"]
    steps = np.abs(np.subtract.outer(np.arange(len(drawn)), np.arange(len(drawn))))
    np.testing.assert_array_equal(drawn > 0, steps < 3)


def test_where_the_factor_comes_from(open_page, folder):
    page = open_page(SENTENCE, lang="en", model=save(folder, "Granite"), layer="1", head="1", text=TEXT)
    assert "Factor 0.3: it stands in the model's configuration, as “attention_multiplier”." in said(page)
    assert "Heads 1–3 of this layer read key-value head 1 of 2" in said(page)
    page = open_page(SENTENCE, lang="ko", model="minilm")
    assert "원래 논문대로" in said(page)


def test_an_untrained_model_is_called_so_on_every_page(open_page, folder):
    model = save(folder, "Llama")
    kept = load_file(folder / model / "model.safetensors")
    del kept["layers.1.self_attn.k_proj.weight"]
    save_file(kept, folder / model / "model.safetensors", metadata={"format": "pt"})
    asked = {"lang": "en", "model": model, "text": TEXT}
    pages = [(SENTENCE, {}), (WALL, {}), (COMPARE, {}), (HEADS, {})]
    pages += [(FIND, {"find_in": where}) for where in ("sentence", "lines", "set", "pairs")]
    for path, more in pages:
        page = open_page(path, **asked, **more)
        assert not page.exception, (path, more)
        assert any("never trained" in warning.value for warning in page.warning), (path, more)
