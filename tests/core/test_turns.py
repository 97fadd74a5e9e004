"""Whose job is next: by the order in which jobs are done, never by time."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from attention_core import compute
from attention_core.turns import Asker, Gone, Turns


@pytest.fixture
def held():
    """A queue whose thread stands still at a first job until it is let go."""
    go = threading.Event()
    with ThreadPoolExecutor(1) as thread:
        turns = Turns(thread)
        begun = threading.Event()
        turns.submit(lambda: (begun.set(), go.wait()), Asker("first"))
        begun.wait()
        yield turns, go
        go.set()


def test_everybody_in_turn(held):
    turns, go = held
    log = []
    for name in ("long 1", "long 2", "long 3", "short", "other 1", "other 2"):
        turns.submit(lambda name=name: log.append(name), Asker(name.split()[0]))
    assert len(turns) == 6
    go.set()
    turns.submit(lambda: None, Asker("last")).result()
    while len(turns):
        turns.submit(lambda: None, Asker("last")).result()
    assert log == ["long 1", "short", "other 1", "long 2", "other 2", "long 3"]


def test_a_short_job_waits_for_one_piece_of_a_long_one(monkeypatch):
    """A session that asks piece after piece, as pages do, comes behind whoever has begun to wait meanwhile."""
    log, names = [], threading.local()
    monkeypatch.setattr(compute, "_who", lambda: Asker(getattr(names, "name", "test")))
    in_piece, go_on = threading.Event(), threading.Event()

    def piece(number):
        log.append(f"piece {number}")
        if number == 0:
            in_piece.set()
            go_on.wait()

    def long():
        names.name = "long"
        for number in range(5):
            compute.run(piece, number)

    def short(name):
        names.name = name
        compute.run(log.append, name)

    with ThreadPoolExecutor(4) as sessions:
        asked = [sessions.submit(long)]
        in_piece.wait()
        asked += [sessions.submit(short, name) for name in ("ann", "bea", "cem")]
        while len(compute._turns) < 3:  # until they wait
            threading.Event().wait(0.001)
        go_on.set()
        for one in asked:
            one.result()
    assert log[0] == "piece 0"
    assert set(log[1:4]) == {"ann", "bea", "cem"}
    assert log[4:] == [f"piece {n}" for n in range(1, 5)]


def test_who_has_gone_gets_nothing_started(held):
    turns, go = held
    log, there = [], [True]
    gone = turns.submit(lambda: log.append("gone"), Asker("gone", lambda: there[0]))
    stays = turns.submit(lambda: log.append("stays"), Asker("stays"))
    there[0] = False
    go.set()
    stays.result()
    assert log == ["stays"]
    with pytest.raises(Gone):
        gone.result()


def test_who_has_gone_is_told_in_the_own_thread(monkeypatch):
    left = []
    monkeypatch.setattr(compute, "_who", lambda: Asker("a", lambda: False, lambda: left.append(threading.get_ident())))
    with pytest.raises(Gone):
        compute.run(lambda: left.append("started"))
    assert left == [threading.get_ident()]


def test_an_error_is_the_askers_and_the_next_job_goes_on(held):
    turns, go = held

    def fail():
        raise KeyError("mine")

    asked = turns.submit(fail, Asker("a")), turns.submit(lambda: 13, Asker("b"))
    go.set()
    with pytest.raises(KeyError, match="mine"):
        asked[0].result()
    assert asked[1].result() == 13
