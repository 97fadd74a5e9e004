"""What the benchmarks count, name and write down is right; how long anything takes is no matter of tests."""

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from benchmarks import classroom, first_picture, results, to_browser
from benchmarks.classroom import CHANGE, Asked, Done, percentile
from benchmarks.server import free_port, healthy, served
from benchmarks.visitor import Answer, Visitor, unpack
from ui.components.payload import pack


def alone(visit):
    """Run a coroutine in a thread of its own: where a browser was driven before, this one has a loop already."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(visit())).result()


@pytest.mark.parametrize(("share", "value"), [(0.5, 5), (0.9, 9), (0.95, 10), (0.99, 10), (0.01, 1), (1, 10)])
def test_a_percentile_is_one_of_the_values(share, value):
    assert percentile([3, 10, 1, 7, 5, 2, 9, 4, 8, 6], share) == value


def test_half_of_two_hundred_does_not_exceed_the_median():
    values = list(range(200))
    for share in (0.5, 0.95, 0.99):
        bound = percentile(values, share)
        assert sum(value <= bound for value in values) == math.ceil(share * 200)


def test_unpack_gives_back_what_was_packed():
    arrays = {
        "weights": np.linspace(0, 1, 35, dtype=np.float32).reshape(5, 7),
        "allowed": np.tri(5, 7, dtype=bool),
        "query": np.arange(11),
        "empty": np.zeros((0, 3), np.float32),
    }
    meta, found = unpack(pack({"queries": ["it", "각", "\ud800"]}, **arrays))
    assert meta == {"queries": ["it", "각", "\ud800"]}
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


def test_everybody_has_a_sentence_of_their_own():
    sentences = [classroom.sentence_of(number) for number in range(1000)]
    assert len({*sentences, classroom.TEACHERS}) == 1001


def test_a_wrong_picture_is_found():
    from attention_core import compute

    text = classroom.sentence_of(17)
    view = compute.run(compute.view, "minilm", text, 512, 4, 6, "token", "shown")
    block = pack({"queries": view.queries}, weights=view.weights)
    other = pack({"queries": (*view.queries[:-1], "[PAD]")}, weights=view.weights)
    right = {Asked(text, 5, 7): block}
    assert classroom.wrong_pictures(right) == 0
    assert classroom.wrong_pictures({Asked(text, 5, 8): block}) == 1
    assert classroom.wrong_pictures({Asked(text, 4, 7): block}) == 1
    assert classroom.wrong_pictures({Asked(text, 5, 7): other}) == 1
    assert classroom.wrong_pictures({Asked(classroom.sentence_of(18), 5, 7): block}) == 1


def test_two_answers_to_one_question_may_differ_in_words_alone():
    one, same = (pack({"pinned": pin}, weights=np.eye(3)) for pin in (None, 2))
    assert classroom.same_numbers(one, same) == []
    assert classroom.same_numbers(one, pack({}, weights=np.eye(3) + 1e-7)) == ["weights"]


def test_a_line_counts_what_went_wrong_and_times_what_did_not():
    good = [Done("class", CHANGE, 0.1 * n, 0.2 * n, 1000 * n, n > 7, wrong=False) for n in range(1, 11)]
    bad = Done("class", CHANGE, math.nan, math.nan, 0, before=True, wrong=True)
    cells = classroom.line(f"class: {CHANGE}", [*good, bad], 1).split("|")[1:-1]
    assert [cell.strip() for cell in cells] == [
        f"class: {CHANGE}",
        *("11", "1"),
        *("0.50", "1.00", "1.00"),
        *("1.00", "2.00", "2.00"),
        *("5", "30%", "p95 ≤ 1: 1.00 ×"),
    ]
    assert len(classroom.line("class", [bad]).split("|")) == len(cells) + 2


def test_memory_is_told_at_its_moments():
    assert classroom.memory_line([2**20 * (n + 5) for n in range(200)], 180) == "| 5 | 12 | 65 | 95 | 184 | 204 | 204 |"
    assert classroom.memory_line([2**20 * (n + 5) for n in range(31)], 20) == "| 5 | 12 | – | 15 | 24 | 35 | 35 |"
    assert classroom.memory_line([2**20 * n for n in (3, 9, 4)], 1).endswith(" 4 | 9 |")


def test_bounds_are_those_of_a_head_at_64_tokens_and_of_anything_at_512():
    assert to_browser.bound_for("head", 64) == 150_000
    assert to_browser.bound_for("text", 64) is None
    assert to_browser.bound_for("head", 512) == to_browser.bound_for("text", 512) == 2_000_000


def test_where_the_bytes_of_an_action_are():
    block = pack({"word": "x"}, weights=np.eye(100, dtype=np.float32), allowed=np.ones((100, 100), bool))
    answer = Answer(0, {}, {"heatmap": block}, 90_000, {"heatmap": 33_000}, {"heatmap": len(block)}, 20_000, ())
    sent = to_browser.Sent("head", answer)
    (line,) = to_browser.profile("sentence", "minilm", 64, sent)
    assert "| heatmap | 33.0 | 41.4 | weights 40.0 (32 bits) · allowed 1.2 (1 bits) · words 0.2 |" in line
    assert to_browser.line("sentence", "minilm", 64, sent, 150_000).endswith(
        "| 90 | 33 | 41 | 16 | 20 | 150 | 0.60 × |"
    )


def test_a_median_and_its_target():
    assert first_picture.line("x", [3.0, 1.0, 8.0], 6) == "| x | 3.00 | 1.00 | 8.00 | 6 s | 0.50 × |"
    assert first_picture.line("x", [3.0, 1.0, 8.0]) == "| x | 3.00 | 1.00 | 8.00 |  |  |"


def test_every_benchmark_says_what_it_is():
    names = {path.stem for path in results.benchmarks()}
    assert names >= {"architectures", "capture", "classroom", "first_picture", "to_browser", "wall"}
    assert not names & {"results", "families", "server", "visitor", "__init__"}
    for path in results.benchmarks():
        heading, blank, command = results.doc_of(path).splitlines()[:3]
        assert heading.endswith("."), path
        assert not blank
        assert f"benchmarks/{path.name}" in command


@pytest.mark.parametrize(("ending", "well"), [("", True), ("raise SystemExit(3)", False)])
def test_results_hold_what_was_printed_and_say_what_failed(tmp_path, ending, well):
    made = tmp_path / "made.py"
    made.write_text(
        '"""Things counted.\n\n    python made.py\n\nOne by one.\n"""\nimport benchmarks.server\n'
        f'print("| a |", benchmarks.server.__file__)\n{ending}\n'
    )
    table = results.run(made)
    assert table.well == well
    page = results.page("A machine.", "2026-01-02", [table])
    assert "on 2026-01-02" in page
    assert "## made\n\nThings counted.\n\nOne by one.\n\n| a | benchmarks/server.py\n" in page  # no path of the machine
    assert ("failed" in page) == (not well)


def test_the_machine_is_named():
    import torch

    about = results.machine()
    assert f"torch {torch.__version__}" in about
    assert " cores, " in about
    assert " s." in about.rpartition("loop: ")[2]


def test_a_server_that_nobody_started_is_not_healthy():
    assert not healthy(free_port())


@pytest.fixture(scope="module")
def server():
    with served() as server:
        yield server


def test_a_visitor_sees_what_a_browser_sees(server):
    """Home, the menu, a sentence, a layer, a head; then the same head again, which is not sent again: it is large."""
    from attention_core import compute

    text = "Finn took the ball out of the bag. " * 10

    async def visit():
        visitor = Visitor(server.port, deflate=True)
        home = await visitor.open()
        await visitor.follow("sentence")
        await visitor.choose("text", text)
        layer = await visitor.choose("layer", 3)
        head = await visitor.pick("heads", "picked", 4)
        await visitor.pick("heads", "picked", 6)
        again = await visitor.pick("heads", "picked", 4)
        await visitor.leave()
        return home, layer, head, again

    home, layer, head, again = alone(visit)
    assert not [*home.wrong, *layer.wrong, *head.wrong, *again.wrong]
    assert "token_links" in home.came
    for answer, place in ((layer, 11), (head, 4), (again, 4)):
        view = compute.run(compute.view, "minilm", text, 512, 2, place, "token", "shown")
        meta, arrays = unpack(answer.data["heatmap"])
        assert tuple(meta["queries"]) == view.queries
        np.testing.assert_allclose(arrays["weights"], view.weights, atol=1e-6)
    assert head.sent > head.code["heatmap"] + head.arrays["heatmap"] > 0
    assert head.arrays["heatmap"] == len(head.data["heatmap"])
    assert again.sent < head.sent / 4
    assert not again.arrays.get("heatmap")
    assert head.deflated < head.sent


def test_a_part_of_the_page_that_redraws_itself_is_watched(server):
    async def visit():
        visitor = Visitor(server.port)
        first = await visitor.open("long_text", model="smollm2", passage="The old man told us a long story. " * 120)
        last = await visitor.watch()
        await visitor.leave()
        return first, last

    first, last = alone(visit)
    assert "long_map" not in first.came  # nine hundred tokens go through the model in pieces
    assert "long_map" in last.came
    assert not [*first.wrong, *last.wrong]


def test_tabs_may_vanish_or_never_open(server):
    async def visit():
        visitor = Visitor(server.port)
        await visitor.vanish("heads", "picked", 1)
        await visitor.leave()
        await visitor.open("sentence")
        await visitor.vanish("heads", "picked", 1)
        await visitor.leave()
        await visitor.open("sentence")
        answer = await visitor.choose("layer", 2)
        await visitor.leave()
        return answer

    assert "heatmap" in alone(visit).came


def test_what_a_page_complains_about_is_heard(server):
    async def visit():
        visitor = Visitor(server.port)
        answer = await visitor.open("sentence", model="a/b/c")
        error = await visitor.pick("heads", "picked", "no head")
        await visitor.leave()
        return answer, error

    answer, error = alone(visit)
    assert not answer.wrong  # a link that is wrong is remarked upon, and the usual model shown
    assert error.wrong
    assert server.complaints == 1
    assert server.memory > 2**26
