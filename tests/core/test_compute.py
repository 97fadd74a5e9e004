"""The one compute thread and the store of captures, shared by everyone who is on the page."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from attention_core import captured, compute
from attention_core.errors import ModelMissing, NoTokens
from attention_core.store import Key, Store
from attention_core.tokens import read_tokens
from attention_core.views import thumbnails, view_head

CALLERS = 7


@pytest.fixture(autouse=True)
def _store(models, monkeypatch):
    """An empty store, and the models that are in memory anyway."""
    monkeypatch.setattr(compute, "_models", dict(models))
    monkeypatch.setattr(compute, "_store", Store())
    compute._fit.cache_clear()
    yield
    compute._fit.cache_clear()


@pytest.fixture
def counted(monkeypatch):
    """The texts that a model really ran on."""
    ran, capture = [], captured.capture

    def counting(model, text):
        ran.append((model.name, text))
        return capture(model, text)

    monkeypatch.setattr(captured, "capture", counting)
    return ran


def from_many_threads(job):
    """Ask from several threads at the same moment."""
    start = threading.Barrier(CALLERS)

    def ask(number):
        start.wait()
        return job(number)

    with ThreadPoolExecutor(CALLERS) as callers:
        return list(callers.map(ask, range(CALLERS)))


def test_one_thread_whoever_asks():
    threads = from_many_threads(lambda _: compute.run(threading.current_thread))
    threads.append(compute.run(threading.current_thread))
    assert len(set(threads)) == 1
    assert threads[0] is not threading.current_thread()
    assert threads[0].name.startswith("gaze-compute")


def test_one_job_after_the_other():
    log = []

    def job(number):
        log.append(number)
        threading.Event().wait(0.01)
        log.append(number)
        return number * number

    assert from_many_threads(lambda n: compute.run(job, n)) == [n * n for n in range(CALLERS)]
    assert log[::2] == log[1::2]


def test_a_job_may_ask_for_another():
    assert compute.run(compute.run, compute.run, lambda: 13) == 13


def test_what_a_job_raises_is_raised_where_it_was_asked_for():
    def fail(reason):
        raise ModelMissing("Tiny", reason, repair="look")

    with pytest.raises(ModelMissing, match="gone") as caught:
        compute.run(fail, reason="gone")
    assert caught.value.repair == "look"
    with pytest.raises(NoTokens, match="no tokens"):
        compute.run(compute.read, "minilm", "  \n", 512)
    assert compute.run(lambda: "still there") == "still there"


@pytest.mark.parametrize(("told", "cores", "threads"), [("3", 8, 3), ("", 8, 4), ("", 1, 1), ("", None, 1)])
def test_threads_of_torch(monkeypatch, told, cores, threads):
    asked = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    monkeypatch.setattr(compute, "_settled_in", compute._settled_in)  # this thread only tries it
    monkeypatch.setenv("GAZE_THREADS", told)
    monkeypatch.setattr(compute.os, "cpu_count", lambda: cores)
    compute._settle()
    assert asked == [threads]


def test_the_same_text_is_captured_once(counted):
    text = "I ate the cake and it was delicious"
    readings = from_many_threads(lambda _: compute.run(compute.read, "minilm", text, 512))
    assert len(set(readings)) == 1
    compute.run(compute.view, "minilm", text, 512, 3, 5, "token", "shown")
    compute.run(compute.view, "minilm", text, 512, 0, 1, "word", "hidden")
    compute.run(compute.strip, "minilm", text, 512, 2)
    assert counted == [("minilm", text)]
    compute.run(compute.read, "smollm2", text, 512)
    compute.run(compute.read, "minilm", text + "!", 512)
    assert len(counted) == 3


def test_two_texts_that_are_cut_to_the_same_are_captured_once(counted):
    first, second = (compute.run(compute.read, "minilm", "cake " * times, 17) for times in (100, 200))
    assert len(counted) == 1
    assert (first.labels, first.cut, second.cut) == (second.labels, 85, 185)


def test_views_are_those_of_the_capture(models):
    text = "the cat sat on the mat"
    seen = captured.capture(models["minilm"], text)
    view = compute.run(compute.view, "minilm", text, 512, 5, 11, "word", "renormalised")
    np.testing.assert_allclose(view.weights, view_head(seen, 5, 11, "word", "renormalised").weights, atol=1e-6)
    strip = compute.run(compute.strip, "minilm", text, 512, 5).astype(int)
    np.testing.assert_allclose(strip, thumbnails(seen, 5), atol=1)


def test_the_store_is_bounded(counted, monkeypatch):
    texts = [f"{word} is one word of three" for word in ("cat", "dog", "cake", "rain", "mat")]
    compute.run(compute.read, "minilm", texts[0], 512)
    bound = 3.5 * compute._store.held("cpu")
    monkeypatch.setenv("GAZE_CACHE_MB", str(bound / 2**20))
    for text in texts[1:]:
        compute.run(compute.read, "minilm", texts[0], 512)  # looked at again and again
        compute.run(compute.read, "minilm", text, 512)
        assert compute._store.held("cpu") <= bound
    assert {key.text for key in compute._store} == {texts[3], texts[0], texts[4]}  # the least recently used are gone
    assert len(counted) == len(texts)
    compute.run(compute.read, "minilm", texts[1], 512)  # gone: read again
    assert len(counted) == len(texts) + 1


def test_a_text_larger_than_the_store_is_shown_all_the_same(counted, monkeypatch, caplog):
    small, large = "the cat sat", "the dog sat on a mat " * 11
    expected = compute.run(compute.view, "minilm", large, 512, 0, 0, "token", "shown")
    compute._store.clear()
    compute._too_large.clear()
    compute.run(compute.read, "minilm", small, 512)
    monkeypatch.setenv("GAZE_CACHE_MB", str(2 * compute._store.held("cpu") / 2**20))
    view = compute.run(compute.view, "minilm", large, 512, 0, 0, "token", "shown")
    np.testing.assert_array_equal(view.weights, expected.weights)
    compute.run(compute.view, "minilm", large, 512, 0, 0, "token", "shown")
    assert len(counted) == 4  # every time
    assert [key.text for key in compute._store] == [small]  # nothing had to leave for it
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]  # once
    assert "computed, not kept" in said
    assert "dog" not in said


def test_bytes_are_those_of_query_key_and_value():
    compute.run(compute.read, "smollm2", "the cat sat on a mat", 512)
    seen, _ = compute._store.get(Key("smollm2", "the cat sat on a mat", "torch.float32"))
    tokens = len(seen.tokens)
    assert seen.bytes == 30 * (9 + 3 + 3) * tokens * 64 * 4


@pytest.mark.parametrize(("name", "added", "shape"), [("minilm", 2, (6, 12)), ("smollm2", 0, (30, 9))])
def test_a_text_that_fits(models, name, added, shape):
    text = "embedding tables 은행"
    read = compute.run(compute.read, name, text, 512)
    tokens = read_tokens(models[name].tokenizer, text)
    assert read.labels == tuple(token.label for token in tokens)
    assert (read.tokens, read.cut, read.added, sum(read.special)) == (len(tokens), 0, added, added)
    assert (read.layers, read.heads, read.device, read.pretrained) == (*shape, "cpu", True)
    assert read.seconds > 0


@pytest.mark.parametrize("name", ["minilm", "smollm2"])
def test_ten_thousand_words(models, name):
    words = [f"{word}{n % 10}" for n, word in enumerate(["cake", "cats", "the", "나는", "running"] * 2000)]
    text = " ".join(words)
    read = compute.run(compute.read, name, text, 512)
    assert read.tokens == len(read_tokens(models[name].tokenizer, text))
    assert 400 < len(read.labels) <= 512 == read.limit
    (key,) = compute._store
    kept, (seen, _) = key.text, compute._store.get(key)
    assert text.startswith(kept + " ")
    assert len(kept.split()) + read.cut == 10_000
    view = compute.run(compute.view, name, text, 512, 1, 2, "token", "shown")
    assert view.weights.shape == (len(seen.tokens),) * 2
    assert compute.run(compute.strip, name, text, 512, 1).shape[1] <= 48


def test_the_model_takes_less_than_the_page():
    assert compute.run(compute.read, "minilm", "cake " * 700, 2048).limit == 512
    assert compute.run(compute.read, "smollm2", "cake " * 700, 2048).cut == 0
