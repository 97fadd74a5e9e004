"""What a host has closed: the page says so where the control would be, and nothing else can be had."""

from types import SimpleNamespace

import pytest
from streamlit.runtime.scriptrunner import StopException

import ui.compute
from attention_core import compute
from attention_core.errors import ModelUnknown
from attention_core.models import hub
from attention_core.models.catalogue import offered, source
from attention_core.picture_files import PictureRefusedError, open_picture
from pages.test_pages import captions, link

SENTENCE = "pages/sentence.py"
PUBLIC = {"en": "open to the public", "ko": "누구나 쓸 수 있는 공개용"}
langs = pytest.mark.parametrize("lang", PUBLIC)


@pytest.fixture
def public(monkeypatch, tmp_path):
    """A public server whose host has a folder of models, which visitors do not see."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.json").write_text('{"model_type": "bert"}')
    monkeypatch.setenv("GAZE_MODELS_DIR", str(tmp_path))
    assert "own" in offered()
    monkeypatch.setenv("GAZE_PUBLIC", "1")


def opened(page):
    page.session_state["models_others_0"] = True
    return page.run()


@langs
def test_no_other_models(open_page, public, lang):
    page = opened(open_page(SENTENCE, lang=lang))
    assert not page.exception
    assert PUBLIC[lang] in captions(page)
    assert not [box for box in page.selectbox if box.key == "models_name"]
    assert not [button for button in page.button if button.key.startswith("models_get")]
    assert set(offered()) >= {"minilm", "smollm2"} and "own" not in offered()
    with pytest.raises(ModelUnknown):
        source("own")
    with pytest.raises(ModelUnknown):
        hub.fetch("someone/tiny", "visitor")


@langs
def test_a_link_to_a_model_that_can_not_be_had(open_page, public, lang):
    page = open_page(SENTENCE, lang=lang, model="someone/tiny")
    assert not page.exception
    assert "someone/tiny" in captions(page)
    assert {"en": "allowed", "ko": "허용"}[lang] in captions(page)
    assert link(page).get("model", "minilm") == "minilm"
    assert not [button for button in page.button if button.key.startswith("models_get")]


@langs
def test_no_files(open_page, public, lang):
    page = open_page("pages/find_head.py", lang=lang, find_in="file")
    assert not page.exception
    assert not page.file_uploader
    assert PUBLIC[lang] in captions(page)
    page = open_page("pages/picture.py", lang=lang, picture="own")
    assert not page.exception
    assert not page.file_uploader
    assert PUBLIC[lang] in captions(page)


@langs
def test_only_the_models_that_are_allowed(open_page, monkeypatch, lang):
    monkeypatch.setenv("GAZE_MODELS_ALLOWED", "klue/bert-base")
    page = opened(open_page(SENTENCE, lang=lang))
    (one,) = page.selectbox(key="models_name").options
    assert one.startswith("KLUE BERT")
    for name, there in (("klue/bert-base", True), ("someone/tiny", False)):
        page = open_page(SENTENCE, lang=lang)
        page.session_state["models_name"] = name
        page = opened(page)
        assert bool([button for button in page.button if button.key == "models_get"]) == there
        assert any(name in error.value for error in page.error) != there
    assert {"minilm", "smollm2"} <= set(offered())  # these the pages rest on
    with pytest.raises(ModelUnknown, match="allowed"):
        source("someone/tiny")


def test_how_large_a_file_may_be(open_page, monkeypatch):
    monkeypatch.setenv("GAZE_MAX_UPLOAD_MB", "1")
    with pytest.raises(PictureRefusedError) as caught:
        open_picture(b"x" * (2**20 + 1))
    assert (caught.value.reason, caught.value.places["most"]) == ("large", 1)
    page = open_page("pages/picture.py", lang="en", picture="own")
    assert "up to 1 MB" in page.file_uploader[0].label


def test_a_closed_sessions_job_is_not_started(monkeypatch):
    open_now, started = {"here"}, []
    place = SimpleNamespace(is_active_session=lambda session: session in open_now)
    monkeypatch.setattr(ui.compute.runtime, "exists", lambda: True)
    monkeypatch.setattr(ui.compute.runtime, "get_instance", lambda: place)

    def stop():
        raise StopException

    monkeypatch.setattr(ui.compute.st, "stop", stop)
    for session in ("here", "gone"):
        run = SimpleNamespace(session_id=session)
        monkeypatch.setattr(ui.compute, "get_script_run_ctx", lambda run=run, **_: run)
        try:
            compute.run(started.append, session)
        except StopException:
            started.append("stopped")
    assert started == ["here", "stopped"]
