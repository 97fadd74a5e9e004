"""A run of a page that the reader has overtaken, by choosing otherwise, computes no further."""

import threading

import pytest

import ui.compute
from attention_core import compute, patience
from ui.compute import paced

TEXT = "The horse raced past the barn fell, and it was overtaken. " * 4


def test_what_is_paced_ends_after_its_piece_and_can_be_asked_for_again(monkeypatch):
    class Overtaken(BaseException):
        pass

    checked = []

    def check():
        checked.append(len(checked))
        if len(checked) == 3:
            raise Overtaken

    monkeypatch.setattr(patience, "STEP", 0.0)
    monkeypatch.setattr(ui.compute, "get_run_yield_check", lambda: check)
    compute.run(compute.open_model, "minilm")
    before = threading.active_count()
    with pytest.raises(Overtaken):
        paced(compute.read, "minilm", TEXT, 512)
    assert len(checked) == 3
    assert threading.active_count() == before  # nothing of it stays put down
    assert not compute.run(lambda: any(key.text == TEXT for key in compute._store))

    monkeypatch.setattr(ui.compute, "get_run_yield_check", lambda: None)
    assert paced(compute.read, "minilm", TEXT, 512).labels[1] == "The"
