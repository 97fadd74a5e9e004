"""Minimal pairs: the sentences, who switches, how good the best is by luck, and what no causal head can do."""

import numpy as np
import pytest

from attention_core import capture
from attention_core.minimal_pairs import (
    ASKED,
    minimal_pairs,
    noun_weights,
    pair_weights,
    place_of,
    switches,
)

PAIRS = minimal_pairs()


def test_the_sentences_differ_in_the_adjective_alone():
    assert len(PAIRS) >= 12
    assert len({text for pair in PAIRS for text in pair.texts}) == 2 * len(PAIRS)
    for pair in PAIRS:
        first, second = (text.split() for text in pair.texts)
        assert first[:-1] == second[:-1]
        assert first[-1] != second[-1]
        assert first[pair.pronoun] == "it"
        assert pair.adjective == len(first) - 1
        assert max(pair.nouns) < pair.pronoun
        assert first[pair.nouns[0] - 1] in ("The", "the") and first[pair.nouns[1] - 1] == "the"
        glosses = pair.glosses["ko"]
        assert len(set(glosses)) == 2
        assert all(any("가" <= letter <= "힣" for letter in gloss) for gloss in glosses)


def test_switches_by_hand():
    right, wrong = [[0.6, 0.1], [0.2, 0.3]], [[0.1, 0.6], [0.3, 0.2]]
    first, tie = [[0.6, 0.1], [0.6, 0.1]], [[0.2, 0.2], [0.1, 0.3]]
    found = switches([np.array([right, first, wrong]), np.array([right, wrong, tie])])
    np.testing.assert_array_equal(found.pairs, [[1, 0, -1], [1, -1, 0]])
    np.testing.assert_allclose(found.share, [1, 0, 0])
    np.testing.assert_allclose(found.wrong, [0, 0.5, 0.5])
    np.testing.assert_allclose(found.right, [1, 0.25, 0.25])
    np.testing.assert_allclose(found.margin[:2], [0.3, (0 - 0.3) / 2], atol=1e-12)
    assert found.order[0] == 0


def test_switches_equal_a_slow_implementation():
    draw = np.random.default_rng(0)
    pairs = [draw.random((5, 2, 2)) for _ in range(7)]
    found = switches(pairs)
    for head in range(5):
        good = sum(p[head, 0, 0] > p[head, 0, 1] and p[head, 1, 1] > p[head, 1, 0] for p in pairs)
        bad = sum(p[head, 0, 0] < p[head, 0, 1] and p[head, 1, 1] < p[head, 1, 0] for p in pairs)
        assert (found.share[head], found.wrong[head]) == (good / 7, bad / 7)


def test_exchanging_the_sentences_exchanges_right_and_wrong():
    draw = np.random.default_rng(1)
    pairs = [draw.random((5, 2, 2)) for _ in range(7)]
    found, turned = switches(pairs), switches([pair[:, ::-1] for pair in pairs])
    np.testing.assert_array_equal(found.pairs, -turned.pairs)
    np.testing.assert_array_equal(found.share, turned.wrong)


def test_a_planted_head_beats_luck_and_random_ones_do_not():
    draw = np.random.default_rng(2)
    pairs = [draw.random((97, 2, 2)) for _ in range(13)]
    random = switches(pairs)
    assert random.share.mean() == pytest.approx(1 / 4, abs=0.05)  # two coins
    assert random.share.max() > 1 / 3  # the best of many looks good
    assert random.beaten > 50
    for pair in pairs:
        pair[31] = [[0.6, 0.1], [0.1, 0.6]]
    planted = switches(pairs)
    assert (planted.order[0], planted.share[31]) == (31, 1)
    assert planted.shuffled < 1
    assert planted.beaten < 20  # all 13 coins alike is rare
    for wrong in ({"pairs": []}, {"shuffles": 5}):
        with pytest.raises(ValueError, match="19 shuffles"):
            switches(**({"pairs": pairs} | wrong))


def test_weights_are_those_of_the_capture(models):
    pair = PAIRS[0]
    seen = capture(models["minilm"], pair.texts[1])
    found = pair_weights("minilm", pair, "pronoun", 512)
    assert found.shape == (72, 2, 2)
    expected = seen.grouped(5, 11, "word")
    place = [place_of("minilm", pair.texts[1], word, 512) for word in (pair.pronoun, *pair.nouns)]
    np.testing.assert_allclose(found[71, 1], expected[place[0], place[1:]].numpy(), atol=1e-6)
    np.testing.assert_allclose(noun_weights(seen, pair.pronoun, pair.nouns, range(5, 6))[11], found[71, 1])


def test_no_causal_head_can_switch_since_the_adjective_is_still_to_come(models):
    for pair in PAIRS[:3]:
        found = pair_weights("smollm2", pair, "pronoun", 512)
        np.testing.assert_allclose(found[:, 0], found[:, 1], atol=1e-6)
        assert not (switches([found]).share + switches([found]).wrong).any()
        asked = pair_weights("smollm2", pair, "adjective", 512)  # it can look back
        assert np.abs(asked[:, 0] - asked[:, 1]).max() > 0.01


def test_what_the_page_says_of_minilm(models):
    """No head does it: neither asked by the pronoun nor by the adjective."""
    for asked in ASKED:
        weights = [pair_weights("minilm", pair, asked, 512) for pair in PAIRS]
        found = switches(weights)
        assert found.share.max() < 0.5
        assert found.share.max() <= found.shuffled
        assert max(np.abs(pair[:, 0] - pair[:, 1]).max() for pair in weights) > 0.01  # it does see the adjective
