"""The store that everybody shares: its bounds by hand, what leaves, and that fifty people cost one computation."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pytest
import torch

from attention_core import captured, compute, memory, what_if
from attention_core.errors import OutOfMemory
from attention_core.store import RESERVE, Key, Store
from attention_core.what_if import Told

CLASS = 50
TEXT = "The capital of France is"
OFF = (Told(23, 4, "off"),)


def key(name):
    return Key("m", name)


@pytest.fixture
def machine():
    """The bytes that are free on each device; what the test keeps is not taken from them by itself."""
    return {"cpu": 10**12, "cuda:0": 10**12}


@pytest.fixture
def store(machine):
    return Store(machine.get)


@pytest.fixture
def counted(models, monkeypatch):
    """The texts that a model ran on, with an empty store."""
    monkeypatch.setattr(compute, "_models", dict(models))
    monkeypatch.setattr(compute, "_store", Store())
    ran, capture = [], captured.capture

    def counting(model, text, **more):
        ran.append((model.name, text))
        return capture(model, text, **more)

    monkeypatch.setattr(captured, "capture", counting)
    return ran


def everybody(job, *args):
    """Ask in as many threads as a class has people, all at the same moment."""
    start = threading.Barrier(CLASS)

    def ask(_):
        start.wait()
        return compute.run(job, *args)

    with ThreadPoolExecutor(CLASS) as people:
        return list(people.map(ask, range(CLASS)))


def test_the_least_recently_used_leaves(store, monkeypatch):
    monkeypatch.setenv("GAZE_CACHE_MB", "7")
    for name in "abc":
        assert store.keep(key(name), name, 2 * 2**20, "cpu")
    assert store.get(key("a")) == "a"
    left = []
    assert store.keep(key("d"), "d", 3 * 2**20, "cpu", lambda: left.append("d"))
    assert set(store) == {key("a"), key("c"), key("d")}
    assert (store.held("cpu"), store.get(key("b"))) == (7 * 2**20, None)
    assert not left
    assert not store.keep(key("e"), "e", 7 * 2**20 + 1, "cpu", lambda: left.append("e"))
    assert left == ["e"]
    assert set(store) == {key("a"), key("c"), key("d")}  # nobody had to leave for what does not fit
    assert store.keep(key("f"), "f", 7 * 2**20, "cpu")
    assert list(store) == [key("f")]
    assert left == ["e", "d"]


def test_what_grows_is_counted_anew(store, monkeypatch):
    monkeypatch.setenv("GAZE_CACHE_MB", "7")
    for size in (1, 3, 5):
        assert store.keep(key("grows"), size, size * 2**20, "cpu")
    assert (len(store), store.held("cpu"), store.get(key("grows"))) == (1, 5 * 2**20, 5)


def test_bounds_by_hand(store, machine, monkeypatch):
    monkeypatch.delenv("GAZE_CACHE_MB", raising=False)
    machine["cpu"] = 4000
    assert store.most("cpu") == 1000  # a quarter of what is free
    store.keep(key("a"), 0, 600, "cpu")
    machine["cpu"] -= 600
    assert store.most("cpu") == 1000  # what it takes itself does not make it smaller
    monkeypatch.setenv("GAZE_CACHE_MB", "1")
    machine["cpu"] = RESERVE + 3000
    assert store.most("cpu") == 3600
    machine["cpu"] = RESERVE + 2**21
    assert store.most("cpu") == 2**20
    machine["cpu"] = 0
    assert store.most("cpu") == 0


def test_the_oldest_leaves_when_others_take_the_memory(store, machine, monkeypatch):
    monkeypatch.delenv("GAZE_CACHE_MB", raising=False)
    for name in "abcd":
        store.keep(key(name), name, 100, "cpu")
    machine["cpu"] = 800
    assert store.keep(key("e"), "e", 100, "cpu")  # (400 + 800) / 4
    assert set(store) == {key("c"), key("d"), key("e")}
    machine["cpu"] = 0
    assert not store.keep(key("f"), "f", 100, "cpu")
    assert store.held("cpu") <= 75


def test_each_device_has_its_own_bound(store, machine, monkeypatch):
    monkeypatch.delenv("GAZE_CACHE_MB", raising=False)
    machine |= {"cpu": 4000, "cuda:0": 400}
    assert store.keep(key("here"), 1, 900, "cpu")
    assert store.keep(key("there"), 2, 90, "cuda:0")
    assert store.keep(key("there too"), 3, 90, "cuda:0")
    assert set(store) == {key("here"), key("there too")}
    assert not store.keep(key("large"), 4, 500, "cuda:0")
    assert (store.held("cpu"), store.held("cuda:0"), store.held("mps")) == (900, 90, 0)


def test_free_memory_is_the_machines():
    assert 0 < memory.free() <= psutil.virtual_memory().total
    assert memory.free(torch.device("cpu")) > 0
    with pytest.raises(RuntimeError, match="nonsense"):
        memory.free("nonsense")


def test_model_text_precision_edits_and_kind_keep_apart(store):
    different = [key("a"), Key("n", "a"), Key("m", "b"), Key("m", "a", "torch.float16"), Key("m", "a", edits=OFF)]
    different.append(Key("m", "a", what="picture"))
    for number, one in enumerate(different):
        store.keep(one, number, 1, "cpu")
    assert [store.get(one) for one in different] == list(range(6))
    store.drop(lambda one: one.model == "m")
    assert list(store) == [Key("n", "a")]


def test_fifty_people_cost_one_computation(counted):
    readings = everybody(compute.read, "minilm", TEXT, 512)
    assert counted == [("minilm", TEXT)]
    assert len(set(readings)) == 1
    edited = everybody(what_if.edited, "smollm2", TEXT, 512, OFF)
    assert len(counted) == 3  # the text as it is, for its words, and once edited
    assert all(seen is edited[0] for seen in edited)


def test_edited_captures_are_in_the_same_bound(counted, monkeypatch):
    plain = compute.run(compute._seen, "smollm2", TEXT, 512)
    edited = compute.run(what_if.edited, "smollm2", TEXT, 512, OFF)
    assert compute._store.held("cpu") == plain.bytes + edited.bytes
    assert not torch.equal(plain.weights(29, 0), edited.weights(29, 0))
    assert {one.edits != () for one in compute._store} == {True, False}
    monkeypatch.setenv("GAZE_CACHE_MB", str(2.5 * plain.bytes / 2**20))
    other = compute.run(what_if.edited, "smollm2", TEXT, 512, (Told(3, 1, "off"),))
    assert compute._store.held("cpu") == edited.bytes + other.bytes or len(compute._store) == 2
    ran = len(counted)
    assert compute.run(what_if.edited, "smollm2", TEXT, 512, (Told(3, 1, "off"),)) is other
    assert len(counted) == ran


def test_precision_is_part_of_the_key(counted):
    compute.run(compute.read, "minilm", TEXT, 512)
    assert [one.precision for one in compute._store] == ["torch.float32"]


def test_no_memory_what_is_kept_leaves_and_it_is_tried_again(counted, monkeypatch):
    compute.run(compute.read, "minilm", TEXT, 512)
    capture, fails = captured.capture, [MemoryError("full"), MemoryError("full"), MemoryError("full")]

    def scarce(model, text, **more):
        if fails:
            raise fails.pop()
        return capture(model, text, **more)

    monkeypatch.setattr(captured, "capture", scarce)
    del fails[1:]
    view = compute.run(compute.view, "minilm", "the dog sat", 512, 0, 0, "token", "shown")
    np.testing.assert_allclose(view.weights.sum(axis=-1), 1, rtol=1e-5)
    assert [one.text for one in compute._store] == ["the dog sat"]
    fails += [MemoryError("full"), MemoryError("full")]
    with pytest.raises(OutOfMemory):
        compute.run(compute.read, "minilm", "the cat sat", 512)
    assert compute.run(compute.read, "minilm", "the cat sat", 512).tokens == 5


def test_a_gpus_free_memory_is_its_own_and_what_torch_has_in_hand(monkeypatch):
    for name, told in {"memory_reserved": 700, "memory_allocated": 300}.items():
        monkeypatch.setattr(torch.cuda, name, lambda _, told=told: told)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1000, 9000))
    assert memory.free("cuda:1") == 1400
