"""What is taken away: the same numbers, whatever the text, in a form that no program mistakes for something else."""

import csv
import io

import numpy as np
import pytest
import torch

from attention_core import Formula, capture
from attention_core.export import as_python, head_csv, head_npz
from attention_core.views import view_head

RUNNING = "I ate the cake and it was delicious"
HOSTILE = '=SUM(A1) "quoted", </script><b>x</b> +1 @x -2 💩 은행'


@pytest.mark.parametrize(("name", "text", "head"), [("minilm", HOSTILE, (5, 11)), ("smollm2", RUNNING, (25, 2))])
def test_the_table_holds_every_number(models, name, text, head):
    view = view_head(capture(models[name], text), *head)
    rows = list(csv.DictReader(io.StringIO(head_csv(view))))
    shape = view.weights.shape
    assert len(rows) == shape[0] * shape[1]
    for column, array in (("weight", view.weights), ("raw_score", view.raw[0])):
        np.testing.assert_array_equal(np.float32([row[column] for row in rows]).reshape(shape), array)
    scaled = np.float32([row["scaled_score"] for row in rows]).reshape(shape)
    np.testing.assert_array_equal(scaled, view.raw[0] * np.float32(view.factor))
    for n, row in enumerate(rows):
        q, k = divmod(n, shape[1])
        assert (int(row["query_position"]), int(row["key_position"])) == (q, k)
        assert (row["query"].lstrip("'"), row["key"].lstrip("'")) == (
            view.queries[q].lstrip("'"),
            view.keys[k].lstrip("'"),
        )
        assert (row["allowed"] == "yes") == view.allowed[q, k]
    assert not any(field.startswith(("=", "+", "-", "@")) for row in rows for field in (row["query"], row["key"]))


def test_between_words_there_are_no_scores(models):
    view = view_head(capture(models["minilm"], "unbelievable embeddings"), 2, 3, "word")
    rows = list(csv.DictReader(io.StringIO(head_csv(view))))
    assert set(rows[0]) == {"query_word_position", "query", "key_word_position", "key", "allowed", "weight"}
    assert sum(float(row["weight"]) for row in rows) == pytest.approx(len(view.queries), abs=1e-5)


@pytest.mark.parametrize("name", ["minilm", "smollm2"])
def test_the_archive_reproduces_the_head_with_numpy_alone(models, name):
    seen = capture(models[name], RUNNING)
    kept = np.load(io.BytesIO(head_npz(seen, 3, 7)))
    raw = kept["query"] @ kept["key"].T
    np.testing.assert_allclose(raw, kept["raw"], atol=1e-4, rtol=1e-5)
    scores = np.where(kept["allowed"], raw * kept["factor"], -np.inf)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(shares / shares.sum(axis=1, keepdims=True), kept["weights"], atol=1e-5)
    np.testing.assert_array_equal(kept["weights"], seen.weights(3, 7).numpy())
    assert kept["queries"].tolist() == [token.label for token in seen.tokens]
    assert kept["value"].shape == (len(seen.tokens), seen.layer(3).value.shape[-1])


def test_half_a_character_is_no_reason_to_fail(models):
    seen = capture(models["minilm"], "a \ud800 b")
    assert head_csv(view_head(seen, 0, 0)).encode()
    assert np.load(io.BytesIO(head_npz(seen, 0, 0)))["queries"].size


@pytest.mark.parametrize("text", [RUNNING, HOSTILE, "a\n'''b\\n\"\"\" c"])
def test_the_ten_lines_give_the_number(models, text, capsys):
    seen = capture(models["minilm"], text)
    lines = as_python("minilm", seen.text, 5, 11, 3, 2)
    assert len(lines.splitlines()) == 10
    exec(compile(lines, "notebook", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    trace = seen.trace(5, 11)
    assert printed[0] == f"{seen.tokens[3].label} looks at {seen.tokens[2].label}"
    assert float(printed[1].split()[2]) == pytest.approx(trace.raw[3, 2].item(), abs=1e-4)
    assert float(printed[3].split()[-1]) == pytest.approx(trace.weights[3, 2].item(), abs=1e-6)
    assert torch.is_tensor(trace.weights)


@pytest.mark.parametrize("formula", [Formula(scaled=False), Formula(temperature=2.5, without=("causal",))])
def test_the_lines_of_a_changed_formula(models, formula, capsys):
    lines = as_python("smollm2", RUNNING, 3, 7, 2, 5, formula)
    assert len(lines.splitlines()) == 10
    exec(compile(lines, "notebook", "exec"), {})
    weight = capture(models["smollm2"], RUNNING).trace(3, 7, formula).weights[2, 5].item()
    assert float(capsys.readouterr().out.split()[-1]) == pytest.approx(weight, abs=1e-6)


def test_the_lines_between_words(models, capsys):
    text = "The xylophonist saw it"
    exec(compile(as_python("minilm", text, 1, 2, 2, 4, unit="word"), "notebook", "exec"), {})
    seen = capture(models["minilm"], text)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "xylophonist looks at it"
    assert float(printed[1].split()[-1]) == pytest.approx(seen.grouped(1, 2, "word")[2, 4].item(), abs=1e-6)


@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize(("name", "special", "first"), [("minilm", "hidden", True), ("smollm2", "shown", False)])
def test_positions_are_those_in_the_text_whatever_is_hidden(models, name, unit, special, first, capsys):
    """The row of the table that a position of the lines of Python names has the number that they print."""
    text = "unbelievable embeddings and it"
    seen = capture(models[name], text)
    shown = view_head(seen, 3, 2, unit, special, first=first)
    rows = list(csv.DictReader(io.StringIO(head_csv(shown))))
    assert len(rows) == shown.weights.size < len(seen.labels(unit)[0]) * len(seen.labels(unit)[1])
    whole = seen.grouped(3, 2, unit).numpy()
    place = "position" if unit == "token" else "word_position"
    for row in rows:
        at = int(row[f"query_{place}"]), int(row[f"key_{place}"])
        assert [labels[n] for labels, n in zip(seen.labels(unit), at, strict=True)] == [row["query"], row["key"]]
        assert np.float32(row["weight"]) == pytest.approx(whole[at], abs=1e-6)
    if unit == "token":  # the archive holds all tokens: a position is an index there
        kept = np.load(io.BytesIO(head_npz(seen, 3, 2)))
        assert kept["weights"][at] == np.float32(row["weight"])
    exec(compile(as_python(name, text, 3, 2, *at, unit=unit), "notebook", "exec"), {})
    assert float(capsys.readouterr().out.split()[-1]) == pytest.approx(float(row["weight"]), abs=1e-6)
