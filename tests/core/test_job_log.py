"""One line a computation: what, of which model, how long, from the store or not; and never what somebody typed."""

import io
import logging
import re

import pytest

from attention_core import compute, job_log, long_text
from attention_core.inputs import Input
from attention_core.store import Store

SECRET = "my secret cake"


@pytest.fixture
def lines(models, monkeypatch, caplog):
    monkeypatch.setattr(compute, "_models", dict(models))
    monkeypatch.setattr(compute, "_store", Store())
    monkeypatch.delenv("GAZE_LOG_TEXT", raising=False)
    caplog.set_level(logging.INFO, "gaze.jobs")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "gaze.jobs"]


def test_a_line_for_each_computation(lines):
    compute.run(compute.read, "minilm", SECRET, 512)
    compute.run(compute.view, "minilm", SECRET, 512, 0, 0, "token", "shown")
    compute.run(compute.read, "minilm", Input(SECRET, "and another"), 512)
    compute.run(compute.open_model, "smollm2")
    said = [
        re.fullmatch(r"(\w+) model=(\S+) tokens=([-\d]+) from=([-\w]+) ms=\d+\.\d", line).groups() for line in lines()
    ]
    assert said[:2] == [("read", "minilm", "5", "computed"), ("view", "minilm", "5", "store")]
    assert said[2][3] == "computed"
    assert said[3] == ("open_model", "smollm2", "-", "-")


def test_a_job_within_a_function_has_a_line_and_a_helper_has_none(lines):
    def job():
        return 1

    def _helper():
        return 2

    assert compute.run(job) + compute.run(_helper) + compute.run(lambda: 3) == 6
    (line,) = lines()
    assert line.split()[0].endswith(".job")


def test_a_long_text_has_a_line_for_reading_it_and_one_for_each_map(lines):
    read = long_text.begin("minilm", (SECRET + " ") * 40)
    while (at := long_text.step(read.name, 0)).done < at.layers:
        pass
    long_text.step(read.name, 0)
    long_text.region_map(read.name, 2, 3, long_text.Region(0, read.tokens, 0, read.tokens))
    said = [line.split(" ms=")[0] for line in lines()]
    rest = f"model=minilm tokens={read.tokens} from=computed"
    assert said == [f"read_long {rest}", f"region_map {rest}"]


def test_what_needs_no_text_and_what_fails(lines):
    compute.run(sum, [1, 2])

    def fails():
        raise ValueError(SECRET)

    with pytest.raises(ValueError, match="secret"):
        compute.run(fails)
    assert re.fullmatch(r"sum model=- tokens=- from=- ms=\d+\.\d", lines()[0])
    assert lines()[1].endswith("failed=ValueError")
    assert not any("secret" in line for line in lines())


def test_what_somebody_typed_only_if_asked_for(lines, monkeypatch):
    compute.run(compute.read, "minilm", SECRET, 512)
    assert not any("secret" in line for line in lines())
    monkeypatch.setenv("GAZE_LOG_TEXT", "1")
    compute.run(compute.view, "minilm", SECRET + "\nforged line", 512, 0, 0, "token", "shown")
    assert SECRET in lines()[-1]
    assert "\n" not in lines()[-1]


def test_they_appear_on_the_terminal_once(monkeypatch):
    terminal = io.StringIO()
    monkeypatch.setattr("sys.stderr", terminal)
    handlers, level = list(job_log.LOG.handlers), job_log.LOG.level
    monkeypatch.setattr(job_log.LOG, "handlers", [])
    try:
        job_log.show()
        job_log.show()
        compute.run(sum, [1, 2])
        assert terminal.getvalue().count(" gaze sum model=-") == 1
    finally:
        job_log.LOG.setLevel(level)
    assert job_log.LOG.handlers != handlers or not handlers
