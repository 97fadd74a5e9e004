"""Other models in a real Chromium: a name is typed, the model comes, a list keeps its choice in another language."""

import re
import shutil
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from browser.server import serve
from fake_hub import FakeHub

NAME = "someone/tiny"


@pytest.fixture(scope="module")
def place(tmp_path_factory, models):
    """A server of its own that knows a hub on this machine and a folder of models; gives its address and the hub."""
    from transformers import BertConfig, BertModel

    root = tmp_path_factory.mktemp("place")
    config = BertConfig(hidden_size=24, num_hidden_layers=5, num_attention_heads=3, intermediate_size=29)
    config.vocab_size = 30522
    BertModel(config).save_pretrained(root / "tiny")
    models["minilm"].tokenizer.save_pretrained(root / "tiny")
    for name in ("one", "two", "three"):
        shutil.copytree(root / "tiny", root / "shelf" / name)
    hub = FakeHub()
    hub.models[NAME] = root / "tiny"
    with pytest.MonkeyPatch.context() as told:
        told.setenv("HF_ENDPOINT", hub.address)
        told.setenv("HF_HOME", str(root / "home"))
        told.setenv("GAZE_MODELS_DIR", str(root / "shelf"))
        address, process = serve("app.py")
    yield address, hub
    hub.close()
    process.terminate()
    process.wait(10)


@pytest.fixture
def page(place, browser):
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-US")
    page = context.new_page()
    page.set_default_timeout(60_000)
    yield page
    context.close()


def rested(page):
    for _ in range(2):
        page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()
        page.locator("[data-gaze=token_links] button").first.wait_for()
        page.wait_for_timeout(400)


def query(page):
    return {key: values[0] for key, values in parse_qs(urlsplit(page.url).query).items()}


def test_a_model_comes_while_one_reads_on_and_is_opened(place, page):
    address, hub = place
    hub.open.clear()
    page.goto(f"{address}/sentence?lang=en")
    rested(page)
    page.get_by_role("button", name="Open another").click()
    box = page.locator(".st-key-models_name input")
    box.fill(NAME)
    box.press("Enter")
    page.get_by_role("button", name="Get and open").click()
    bar = page.locator(".st-key-gaze_getting")
    expect(bar).to_contain_text(re.compile(r"Getting someone/tiny: \d+ of \d+ MB"))
    expect(box).to_have_count(0)  # the list has closed
    page.get_by_label("Your sentence").fill("reading on meanwhile")
    expect(page.locator("[data-gaze=token_links] button").filter(has_text="meanwhile").first).to_be_visible()
    expect(bar).to_be_visible()
    hub.open.set()
    expect(bar).to_have_count(0)
    rested(page)
    assert (query(page)["model"], query(page)["text"]) == (NAME, "reading on meanwhile")


def test_a_list_of_models_keeps_its_choice_in_another_language(place, page):
    address, _ = place
    page.goto(f"{address}/sentence?lang=en&model=two")
    rested(page)
    assert query(page)["model"] == "two"
    page.get_by_text("한국어", exact=True).click()
    expect(page.get_by_text("모델", exact=True).first).to_be_visible()
    rested(page)
    assert query(page)["model"] == "two"
    expect(page.locator(".st-key-model input")).to_have_value("two")
