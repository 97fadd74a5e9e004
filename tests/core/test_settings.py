"""What a host can set: names, defaults, bounds, and what becomes of a value that makes no sense."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from attention_core.models.catalogue import misnamed, offered
from attention_core.settings import Settings, _report, settings, table

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _unset(monkeypatch):
    for field in Settings.model_fields:
        monkeypatch.delenv(f"GAZE_{field.upper()}", raising=False)
    _report.cache_clear()


@pytest.mark.parametrize(
    ("name", "told", "number"),
    [
        *[("CACHE_MB", *case) for case in (("7", 7), ("0.5", 0.5), (" 7 ", 7), ("", None))],
        *[("CACHE_MB", wrong, None) for wrong in ("abc", "0", "-1", "inf", "nan", "1e999")],
        *[("MAX_TOKENS", *case) for case in (("17", 17), ("2", 512), ("a", 512), ("7.5", 512))],
        *[("THREADS", *case) for case in (("3", 3), ("0", None), ("", None))],
        *[("PUBLIC", *case) for case in (("1", True), ("true", True), ("0", False), ("perhaps", True), ("", False))],
        *[("DEVICE", *case) for case in (("cuda:1", "cuda:1"), ("auto", "auto"), ("the best", ""))],
        *[("MAX_UPLOAD_MB", *case) for case in (("3", 3), ("-3", 5), ("1000000", 5))],
    ],
)
def test_a_value_that_makes_no_sense_gives_way_to_the_default(monkeypatch, name, told, number):
    monkeypatch.setenv(f"GAZE_{name}", told)
    assert getattr(settings(), name.lower()) == number


def test_what_is_wrong_is_said_once_and_the_rest_holds(monkeypatch, caplog):
    monkeypatch.setenv("GAZE_THREADS", "many")
    monkeypatch.setenv("GAZE_MAX_TOKENS", "-5")
    monkeypatch.setenv("GAZE_MODELS", "7")
    for other in ("1", "2"):
        monkeypatch.setenv("GAZE_CACHE_MB", other)
        for _ in range(3):
            holds = settings()
        assert (holds.threads, holds.max_tokens, holds.models, holds.cache_mb) == (None, 512, 7, float(other))
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert any(
        re.fullmatch(r"GAZE_THREADS=many makes no sense \(.*integer.*\); using the default", line) for line in said
    )
    assert any(re.fullmatch(r"GAZE_MAX_TOKENS=-5 makes no sense \(.*3\); using 512", line) for line in said)


def test_which_models(monkeypatch):
    assert settings().allows("owner/any") and settings().fetches("owner/any")
    monkeypatch.setenv("GAZE_MODELS_ALLOWED", " gemma3, owner/this ,,")
    assert settings().allowed == {"gemma3", "owner/this"}
    assert settings().fetches("owner/this") and not settings().fetches("owner/any")
    assert misnamed() == ["gemma3"]  # not installed here
    monkeypatch.setenv("GAZE_PUBLIC", "1")
    assert settings().allows("owner/this") and not settings().fetches("owner/this")
    assert misnamed() == ["gemma3", "owner/this"]
    monkeypatch.setenv("GAZE_MODELS_ALLOWED", ",")  # none beside the embedded ones
    assert not settings().allows("owner/any")
    assert set(offered()) == {"minilm", "smollm2"} and misnamed() == []


def test_a_public_mode_that_makes_no_sense_is_the_safe_one(monkeypatch, caplog):
    monkeypatch.setenv("GAZE_PUBLIC", "maybe")
    assert settings().public
    assert re.fullmatch(r"GAZE_PUBLIC=maybe makes no sense \(.*\); using True", caplog.records[-1].getMessage())


def test_every_setting_of_the_code_is_one_of_these_and_is_explained():
    code = [
        path.read_text(encoding="utf-8") for layer in ("attention_core", "ui") for path in (ROOT / layer).rglob("*.py")
    ]
    named = set(re.findall(r"GAZE_[A-Z]+(?:_[A-Z]+)*", "\n".join(code)))
    assert len(named) > 5
    assert named <= {f"GAZE_{field.upper()}" for field in Settings.model_fields}
    assert not re.search(r'(?:environ|getenv)\W+(?:get\W+)?"GAZE_', "\n".join(code))
    for field, about in Settings.model_fields.items():
        assert len(about.description or "") > 10, field


def test_make_config_prints_every_value_and_meaning(monkeypatch):
    monkeypatch.setenv("GAZE_CACHE_MB", "77.5")
    monkeypatch.setenv("GAZE_THREADS", "none")
    rows = table().splitlines()
    for field, about in Settings.model_fields.items():
        at = next(n for n, row in enumerate(rows) if row.startswith(f"GAZE_{field.upper()} ="))
        assert rows[at + 1].strip() and about.description.startswith(rows[at + 1].strip())
    assert "GAZE_CACHE_MB = 77.5  (set)" in rows
    assert "GAZE_THREADS = unset" in rows
    command = [sys.executable, "-m", "attention_core.settings"]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert printed.stdout.splitlines() == rows
    assert "GAZE_THREADS=none makes no sense" in printed.stderr
