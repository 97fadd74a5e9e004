"""The server itself: what it has loaded before the first visitor comes."""

import time

import serve
from benchmarks.server import served


def test_the_usual_model_is_there_before_anybody_comes():
    with served() as server:
        for _ in range(1200):
            if "open_model" in (said := server.log.read_text()):
                break
            time.sleep(0.1)
    assert "gaze open_model model=minilm" in said
    assert "failed=" not in said


def test_a_model_that_cannot_be_loaded_does_not_end_it(monkeypatch):
    monkeypatch.setattr(serve, "offered", lambda: {"nobody/nothing": "Nothing"})
    monkeypatch.setattr(serve.compute, "prepare", lambda model: None)
    serve.warm()
