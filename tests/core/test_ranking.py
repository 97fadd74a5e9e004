"""Every head ranked: by hand, against a slow obvious implementation, and as the sum over sentences."""

import numpy as np
import pytest
import torch

from attention_core import capture, compute
from attention_core.heads import find_head, marked, pair_hits, pair_weights, pairs_of
from attention_core.ranking import (
    CONTROLS,
    Marks,
    choose,
    elsewhere,
    finding,
    line_cut,
    line_looks,
    line_pairs,
    looks,
    marked_looks,
    mentions,
    pair_looks,
    pieces,
    ranking,
    reach,
    sentence_reach,
    sentence_words,
    side_by_side,
    typed_words,
    words_of,
)
from attention_core.relations import sentences
from core.test_heads import RUNNING, made

HALF_OF_THREE = torch.tensor([[1, 0, 0], [0.4, 0.6, 0], [0.5, 0.3, 0.2]])


def weights(heads, words):
    """Weights of random heads that only look back."""
    return torch.randn(heads, words, words).masked_fill(torch.ones(words, words).triu(1) > 0, -torch.inf).softmax(-1)


def test_looks_by_hand():
    found = looks(
        made(torch.stack([HALF_OF_THREE, torch.tensor([[1.0, 0, 0], [0, 1, 0], [0.1, 0.2, 0.7]])])), [(2, 1)], range(1)
    )
    np.testing.assert_allclose(found.weight, [0.3, 0.2], atol=1e-6)
    np.testing.assert_allclose(found.rank, [2, 2])
    np.testing.assert_allclose(found.hits, [0, 0])
    others, back, stepped = found.controls
    np.testing.assert_allclose(others, [0.5, 0.1], atol=1e-6)  # the query is no other word
    np.testing.assert_allclose(back, [0, 0])  # 0 may not look at 1: nothing to compare with
    np.testing.assert_allclose(stepped, [0.4, 0], atol=1e-6)  # 1 → 0
    assert found.counted.tolist() == [[1, 1], [0, 0], [1, 1]]
    assert found.chance == pytest.approx(1 / 3)
    assert found.row.tolist() == [3, 3]
    assert np.isnan(ranking(found).controls[CONTROLS.index("back")]).all()


def test_of_equal_weights_the_first_has_the_better_place():
    seen = made(torch.tensor([[[1.0, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]]]))
    assert [looks(seen, [(2, key)], range(1)).rank[0] for key in range(3)] == [1, 2, 3]


def test_looks_equal_a_slow_implementation():
    looked = weights(5, 7)
    seen = made(looked)
    for query in range(7):
        for key in range(query + 1):
            found = looks(seen, [(query, key)], range(1))
            for head in range(5):
                row = looked[head, query].tolist()
                order = sorted(range(7), key=lambda k, row=row: -row[k])
                assert found.rank[head] == order.index(key) + 1
                assert found.hits[head] == (order[0] == key)
                others = [row[k] for k in range(query) if k != key]
                back = [looked[head, q, key].item() for q in range(key, 7) if q not in (query, key)]
                steps = [
                    looked[head, q, q + key - query].item() for q in range(7) if q != query and q + key - query >= 0
                ]
                for control, expected in zip(found.controls[:, head], (others, back, steps), strict=True):
                    assert control == pytest.approx(np.mean(expected) if expected else 0, abs=1e-5)


def test_several_pairs_of_a_sentence_count_as_one():
    seen = made(weights(5, 7))
    both = looks(seen, [(6, 2), (4, 1)], range(1))
    one, two = (looks(seen, [pair], range(1)) for pair in ((6, 2), (4, 1)))
    np.testing.assert_allclose(both.weight, (one.weight + two.weight) / 2, atol=1e-6)
    assert (both.sentences, both.pairs) == (1, 2)


def test_a_key_that_may_not_be_looked_at_has_no_weight():
    assert looks(made(weights(5, 7)), [(2, 3)], range(1)).weight.tolist() == [0] * 5


def test_a_local_layer_is_compared_with_its_own_window():
    seen = made(weights(2, 7), (3, None, 3))
    found = looks(seen, [(5, 2)], range(3), shuffles=500)
    assert (found.weight > 0).tolist() == [False, False, True, True, False, False]
    assert found.row.tolist() == [3, 3, 6, 6, 3, 3]
    assert found.chance == pytest.approx([0, 0, 1 / 6, 1 / 6, 0, 0])
    assert found.counted[CONTROLS.index("stepped")].tolist() == [0, 0, 1, 1, 0, 0]
    full = looks(made(weights(2, 7)), [(5, 2)], range(1), shuffles=500)
    assert (found.luck[:, 2:4] > 0).all() and (full.luck > 0).all()
    assert 0.4 < (found.luck[:, 0] > 0).mean() < 0.6  # keys are drawn among all six words; the window has three
    assert (looks(seen, [(5, 4)], range(3), shuffles=500).luck > 0).all()  # drawn in the window, which all layers have
    assert ranking(found).chance[2] == pytest.approx(1 / 6)
    near = looks(seen, [(5, 4)], range(3))
    assert near.chance == pytest.approx([1 / 3, 1 / 3, 1 / 6, 1 / 6, 1 / 3, 1 / 3])


def test_sentences_add_up():
    parts = [looks(made(weights(5, words)), [(words - 1, 1)], range(1), shuffles=19) for words in (3, 5, 7, 11)]
    total = parts[0] + parts[1] + parts[2] + parts[3]
    found = ranking(total)
    each = np.stack([part.weight for part in parts])
    np.testing.assert_allclose(found.weight, each.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(found.spread, each.std(axis=0), atol=1e-5)
    np.testing.assert_allclose(found.rank, np.mean([part.rank for part in parts], axis=0))
    assert found.order[0] == found.weight.argmax()
    assert (np.diff(found.weight[found.order]) <= 0).all()
    assert found.sentences == found.pairs == 4


def test_layers_side_by_side_are_all_layers(models):
    seen = capture(models["minilm"], RUNNING)
    whole = looks(seen, [(6, 4)], range(seen.layers), shuffles=29)
    cut = side_by_side(looks(seen, [(6, 4)], layers, shuffles=29) for layers in (range(1), range(1, 4), range(4, 6)))
    for name in ("weight", "rank", "controls", "luck"):
        np.testing.assert_allclose(getattr(cut, name), getattr(whole, name))
    assert cut.chance.tolist() == whole.chance.tolist()


def test_pieces_are_all_layers_and_never_too_long(models):
    short, long = (capture(models["minilm"], text) for text in (RUNNING, "the cake was good " * 120))
    assert pieces(short) == [range(6)]
    assert pieces(long) == [range(n, n + 1) for n in range(6)]


def test_the_set_s_ranking_is_the_finder_s():
    """Both pages say the same of the same sentences, and ``finding`` judges by the finder's rule."""
    total, marks = None, []
    for one in sentences("pronoun"):
        some = marked_looks("minilm", one.text, 512, "pronoun", one.query, one.key)
        total = some if total is None else total + some
        seen = compute._seen("minilm", one.text, 512)
        marks.append(marked(seen, pairs_of(seen, "pronoun", one.query, one.key)))
    found, finder = ranking(total), find_head(marks, 12)
    np.testing.assert_allclose(found.weight, pair_weights(marks).numpy(), atol=1e-6)
    np.testing.assert_allclose(found.hits, pair_hits(marks).numpy(), atol=1e-6)
    best = found.order[0]
    assert (best // 12, best % 12) == (finder.layer, finder.head)
    assert found.chance[best] == pytest.approx(finder.chance)
    assert found.controls[CONTROLS.index("stepped"), best] == pytest.approx(finder.stepped, abs=1e-5)


def test_luck_is_that_of_random_keys():
    looked = weights(5, 7)
    seen = made(looked)
    found = looks(seen, [(6, 2)], range(1), shuffles=2003)
    assert set(np.round(found.luck[:, 3], 4)) <= set(np.round(looked[3, 6].numpy(), 4))
    np.testing.assert_allclose(found.luck.mean(axis=0), 1 / 7, atol=0.02)
    np.testing.assert_array_equal(found.luck, looks(seen, [(6, 2)], range(1), shuffles=2003).luck)
    assert not np.array_equal(found.luck, looks(seen, [(6, 2)], range(1), shuffles=2003, seed=1).luck)


def test_a_planted_head_is_found_and_random_ones_are_not():
    planted = random = None
    for words in (7, 8, 9, 10, 11):
        looked = weights(5, words)
        some = looks(made(looked), [(6, 2)], range(1), shuffles=99)
        random = some if random is None else random + some
        looked[3, 6] = 0.02
        looked[3, 6, 2] = 0.9
        looked[3, 6, 7:] = 0
        some = looks(made(looked), [(6, 2)], range(1), shuffles=99)
        planted = some if planted is None else planted + some
    found = finding(planted, 5)
    assert (found.layer, found.head, found.verdict, found.beaten) == (0, 3, "found", 0)
    assert found.average < found.shuffled < found.weight
    assert finding(random, 5).verdict == "none"
    with pytest.raises(ValueError, match="19 shuffles"):
        finding(looks(made(weights(5, 7)), [(6, 2)], range(1)), 5)


def test_elsewhere_by_hand():
    seen = made(torch.stack([HALF_OF_THREE, torch.tensor([[1.0, 0, 0], [0.1, 0.9, 0], [0.1, 0.5, 0.4]])]))
    best = reach(seen, range(1))
    np.testing.assert_allclose(best, [[1, 0, 0], [0.4, 0.9, 0], [0.5, 0.5, 0.4]], atol=1e-6)
    words = words_of(seen)
    assert words.back
    assert elsewhere(best, words, 1, 0) == (2, 2)  # 2 → 0 and 2 → 1
    assert elsewhere(best, words, 2, 1) == (int(best[2, 0] >= best[2, 1]), 2)
    local = made(weights(2, 7), (2,))
    assert elsewhere(reach(local, range(1)), words_of(local), 1, 0)[1] == 5  # the other words next to one another


@pytest.mark.parametrize("model", ["minilm", "smollm2"])
def test_the_running_example(model, models):
    """FACTS §2: layer 6 head 12 with 0.638; SmolLM2 layer 26 head 3 with 0.651; and what the page says of them."""
    words = sentence_words(model, RUNNING, 512)
    assert words.labels == tuple(RUNNING.split())
    query, key = words.places[5], words.places[3]
    found = ranking(pair_looks(model, RUNNING, 512, query, key))
    best, heads = found.order[0], {"minilm": 12, "smollm2": 9}[model]
    where = {"minilm": (6, 12, 0.638), "smollm2": (26, 3, 0.651)}[model]
    assert (best // heads + 1, best % heads + 1) == where[:2]
    assert found.weight[best] == pytest.approx(where[2], abs=0.01)
    assert found.rank[best] == 1
    # the head of MiniLM looks at the cake whoever asks; the head of SmolLM2 does not
    assert (2 * found.controls[1, best] > found.weight[best]) == (model == "minilm")
    best_of_all = sentence_reach(model, RUNNING, 512)
    assert best_of_all[query, key] == pytest.approx(found.weight[best])
    reached, pairs = elsewhere(best_of_all, words, query, key)
    assert pairs == {"minilm": 8 * 7 - 1, "smollm2": 8 * 7 // 2 - 1}[model]
    assert reached > 0  # one sentence proves nothing


def test_words_leave_out_what_nobody_typed(models):
    words = words_of(capture(models["minilm"], "Well, it  works."))
    assert words.labels == ("Well", ",", "it", "works", ".")
    assert words.places == (1, 2, 3, 4, 5)
    assert not words.back
    words = words_of(capture(models["smollm2"], "Well, it   works.\n\n"))
    assert words.labels == ("Well", ",", "it", "works", ".")
    assert words.back
    assert typed_words("Well, it   works.\n") == ["Well", ",", "it", "works", "."]


def test_mentions():
    labels = ["The", "cake", "그것은", "the", "그것"]
    assert mentions(labels, " the ") == [0, 3]
    assert mentions(labels, "그것") == [4]  # the word itself comes before the same with an ending
    assert mentions(labels[:4], "그것") == [2]
    assert mentions(labels, "cak") == []
    assert mentions(labels, "") == []


@pytest.mark.parametrize(
    ("query", "key", "which", "back", "expected"),
    [
        ("it", "cake", "nearest", False, (5, 4)),
        ("it", "cake", "first", False, (2, 0)),
        ("it", "cake", "last", False, (5, 7)),
        ("it", "cake", "last", True, (5, 4)),
        ("cake", "it", "nearest", True, (4, 2)),
        ("x", "it", "nearest", True, "later"),
        ("cake", "moon", "nearest", False, "missing"),
        ("it", "it", "nearest", False, (2, 2)),
    ],
)
def test_which_mention(query, key, which, back, expected):
    labels = ["cake", "x", "it", "a", "cake", "it", "b", "cake"]
    assert choose(labels, query, key, which, back=back) == expected


def test_lines_say_why_they_can_not_be_asked(models):
    asked = Marks("words", "it", "cake")
    assert line_looks("minilm", "No such words", 512, asked) == "missing"
    assert line_looks("smollm2", "If it is so, cake", 512, asked) == "later"
    assert line_looks("minilm", "\x00", 512, Marks("previous")) == "unread"
    assert line_looks("minilm", "one", 512, Marks("previous")) == "missing"
    cut = "I think it is " + "very " * 20 + "much cake"
    assert line_looks("minilm", cut, 12, asked) == "beyond"
    assert line_looks("minilm", cut, 512, asked).sentences == 1
    assert (line_cut("minilm", cut, 12), line_cut("minilm", cut, 512)) == (True, False)


def test_lines_of_a_file_give_the_same_and_are_not_kept(models):
    text = "A sentence that nobody else asks: the cake and it"
    fresh = line_looks("minilm", text, 512, Marks("words", "it", "cake"), keep=False)
    assert ("minilm", text) not in [key[:2] for key in compute._store]
    kept = line_looks("minilm", text, 512, Marks("words", "it", "cake"))
    assert ("minilm", text) in [key[:2] for key in compute._store]
    np.testing.assert_allclose(fresh.weight, kept.weight, atol=1e-6)
    assert fresh.luck.shape == (99, 72)


def test_pairs_of_places_are_the_relation_s(models):
    seen = capture(models["minilm"], "She reads a book")
    for relation in ("previous", "first"):
        assert line_pairs(seen, Marks(relation)) == pairs_of(seen, relation)
