"""Jobs that are put down between products: the numbers are the same, and others are served meanwhile."""

import logging
from collections import OrderedDict

import pytest
import torch

from attention_core import capture, compute, patience
from attention_core.patience import Pacing
from attention_core.store import Store

TEXT = "The old man the boats, and the horse raced past the barn fell. " * 8
OTHER = "I ate the cake and it was delicious."


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(patience, "STEP", 0.0)


def finish(work):
    while not work.done:
        work.step()
    return work.found


def given(seen):
    return [of for layer in range(seen.layers) for of in (seen.layer(layer).query, seen.layer(layer).value)]


@pytest.mark.parametrize("name", ["minilm", "smollm2"])
def test_a_capture_that_is_put_down_is_the_same(models, name):
    expected, other = capture(models[name], TEXT), capture(models[name], OTHER)
    work, between = Pacing("read", lambda: capture(models[name], TEXT)), []
    while not work.done:
        work.step()
        between.append(capture(models[name], OTHER))  # somebody else, with the same model
        assert len(between) < 1000
    assert len(between) > 6 * expected.layers  # four or more products a layer
    assert all(torch.equal(a, b) for a, b in zip(given(work.found), given(expected), strict=True))
    assert all(torch.equal(a, b) for seen in between for a, b in zip(given(seen), given(other), strict=True))


def test_two_that_are_put_down_do_not_disturb_one_another(models):
    texts = (TEXT, OTHER)
    works = [Pacing("read", lambda text=text: capture(models["minilm"], text)) for text in texts]
    while not all(work.done for work in works):
        for work in works:
            work.step()
    for work, text in zip(works, texts, strict=True):
        expected = capture(models["minilm"], text)
        assert all(torch.equal(a, b) for a, b in zip(given(work.found), given(expected), strict=True))


def test_what_goes_wrong_is_raised_and_ends_it(models):
    work = Pacing("read", lambda: capture(models["minilm"], ""))
    with pytest.raises(ValueError, match="token"):
        finish(work)
    assert work.done


def test_it_ends_where_it_stands(models):
    work = Pacing("read", lambda: capture(models["minilm"], TEXT))
    work.step()
    work.close()
    assert work.done
    assert work.found is None
    assert not work._paused._thread.is_alive()


def test_what_computes_attention_in_a_way_of_its_own_is_done_at_once(models, monkeypatch):
    monkeypatch.setattr(compute, "_models", dict(models))
    monkeypatch.setattr(compute, "_readers", OrderedDict())

    def steps():
        work, count = compute.paced(lambda name: models[name].module(torch.tensor([[101, 102]])), "minilm"), 0
        while not work.done:
            compute.run(work.step)
            count += 1
        return count

    assert steps() > 20
    monkeypatch.setattr(type(models["minilm"].module), "_can_set_attn_implementation", lambda *_: False)
    compute._readers.clear()
    assert steps() == 1


def test_one_line_for_all_its_pieces(models, monkeypatch, caplog):
    monkeypatch.setattr(compute, "_models", dict(models))
    monkeypatch.setattr(compute, "_store", Store())
    caplog.set_level(logging.INFO, "gaze.jobs")
    work = compute.paced(compute.read, "minilm", OTHER, 512)
    steps = 0
    while not work.done:
        compute.run(work.step)
        steps += 1
    assert steps > 20
    said = [record.getMessage() for record in caplog.records if record.name == "gaze.jobs"]
    assert [line.split(" ms=")[0] for line in said] == ["read model=minilm tokens=11 from=computed"]
    assert work.found.tokens == 11
