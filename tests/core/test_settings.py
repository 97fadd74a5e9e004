import pytest

from attention_core.settings import positive


@pytest.mark.parametrize(
    ("told", "number"), [("7", 7), ("0.5", 0.5), ("", 3), ("abc", 3), ("0", 3), ("-1", 3), ("inf", 3)]
)
def test_positive(monkeypatch, told, number):
    monkeypatch.setenv("GAZE_TEST", told)
    assert positive("GAZE_TEST", 3) == number
