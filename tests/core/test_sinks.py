"""A head with a sink: what is missing from a row's sum of 1 is said wherever the row goes."""

import csv
import io

import numpy as np
import pytest
import torch

from attention_core import capture
from attention_core.aggregate import head_mean
from attention_core.distance import all_rows
from attention_core.export import head_csv, head_npz
from attention_core.statistics import STATISTICS, survey
from attention_core.views import view_head, view_map
from benchmarks.families import build, inputs
from tiny_models import family
from ui.show import drawn_heat, drawn_row

SINK = family("GPT-OSS")


@pytest.fixture(scope="module")
def seen():
    return capture(build(SINK), **inputs(SINK))


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("special", ["shown", "hidden"])
def test_the_table_says_what_goes_to_the_sink(seen, layer, special):
    view = view_head(seen, layer, 1, special=special)
    rows = list(csv.DictReader(io.StringIO(head_csv(view))))
    sums = np.zeros(len(view.queries))
    for row in rows:
        sums[int(row["query_position"])] += float(row["weight"])
    np.testing.assert_allclose(sums, np.ones_like(sums), atol=1e-5)
    sunk = [row for row in rows if row["key_position"] == "sink"]
    assert len(sunk) == len(view.queries)
    assert sunk[0] | {"query": "", "weight": ""} == {
        "query_position": "0",
        "query": "",
        "key_position": "sink",
        "key": "",
        "allowed": "yes",
        "raw_score": "",
        "scaled_score": "",
        "weight": "",
    }
    np.testing.assert_allclose([float(row["weight"]) for row in sunk], view.sink, rtol=1e-6)
    assert view.sink.max() > 0.01


def test_the_archive_as_well(seen):
    kept = np.load(io.BytesIO(head_npz(seen, 0, 1)))
    np.testing.assert_allclose(kept["weights"].sum(axis=1) + kept["sink"], np.ones(11), atol=1e-6)


def test_the_map_has_a_column_for_it(seen):
    view = view_head(seen, 0, 1)
    meta, arrays = drawn_heat(view, "weights", view="v", param=None)
    assert meta["keys"][:-1] == view.keys
    assert meta["sink"]
    np.testing.assert_allclose(arrays["weights"].sum(axis=1) + arrays["sink"], np.ones(11), atol=1e-6)
    np.testing.assert_array_equal(arrays["sink"], view.sink)
    assert meta["hi"] == max(arrays["weights"].max(), view.sink.max())
    meta, arrays = drawn_heat(view, "raw", view="v", param=None)  # a sink has no raw score
    assert (meta["keys"], meta["sink"], "sink" in arrays) == (view.keys, False, False)
    assert arrays["raw"].shape == (11, 11)


def test_the_row_names_the_sinks_score(seen):
    meta, arrays = drawn_row(view_head(seen, 0, 1), view="v")
    assert f"{seen.layer(0).formula.sink[1].item():.4f}" in meta["words"]["sink"]
    assert arrays["sink"].shape == (11,)
    assert meta["words"]["too_far"] != meta["words"]["not_allowed"]  # this layer looks back three positions


def test_a_mean_of_heads_has_what_its_sinks_got(seen):
    mean = torch.stack([head_mean(seen, layer) for layer in range(2)]).mean(dim=0)
    view = view_map(seen, mean, sink=1 - mean.sum(dim=-1))
    sinks = torch.stack([seen.shares(layer).sink for layer in range(2)]).mean(dim=(0, 1))
    np.testing.assert_allclose(view.sink, sinks.numpy(), atol=1e-6)
    # Where only the full layer looks, the map is not masked.
    assert not seen.shares(0).allowed[0, -1, 0]
    assert view.weights[-1, 0] > 0
    assert view.allowed[-1, 0]


def test_statistics_and_distances(seen):
    found = survey(seen)
    largest = found.values[STATISTICS.index("largest")]
    weights = seen.shares(0).weights
    np.testing.assert_allclose(largest[0], weights.amax(dim=-1).mean(dim=-1).numpy(), atol=1e-5)
    rows = all_rows(seen)
    np.testing.assert_allclose(rows.sum(axis=-1), np.ones(rows.shape[:-1]), atol=1e-5)
