"""From words to context: the walk against a reference, by hand and by identity; and every claim of the page."""

import hashlib
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

from attention_core import Formula, compute
from attention_core.labs.step_by_step import (
    HAND_MADE,
    KEY_MADE,
    LAYER,
    MOST_TOKENS,
    QUERY_MADE,
    VALUE_MADE,
    WORLDS,
    Projection,
    embed,
    made,
    movement,
    real_head,
    real_walk,
    small_world,
    split,
    view,
    walk,
)
from ui.controls import EXAMPLE

T, M, D, V = 7, 5, 3, 11  # no axis can stand in for another
WORDS = tuple("abcdefg")
SENTENCE, _ = split(EXAMPLE)
IT, CAKE, I = SENTENCE.index("it"), SENTENCE.index("cake"), SENTENCE.index("I")  # noqa: E741
TEXTS = Path(__file__).parents[2] / "assets" / "text"


def parts():
    return torch.randn(T, M), *(Projection(torch.randn(M, size), torch.randn(size)) for size in (D, D, V))


def world(name="cake", words=SENTENCE, draw=0, scaled=True, **changed):
    """A small world, with what a learner changes in it."""
    new = tuple(changed.get(key) for key in ("x", "w_q", "w_k", "w_v"))
    return small_world(words, 0, name, draw, new, scaled)


def weights(*args, **kwargs):
    return world(*args, **kwargs).arrays["weights"]


def changed(matrix, **cells):
    """A matrix with cells changed, named r3c0 and the like."""
    values = [list(row) for row in matrix]
    for place, value in cells.items():
        values[int(place[1])][int(place[3])] = value
    return tuple(map(tuple, values))


# The walk.


def test_walk_against_a_reference():
    x, w_q, w_k, w_v = parts()
    went = walk(WORDS, x, w_q, w_k, w_v)
    linear = torch.nn.functional.linear
    q, k, v = (linear(x, p.weight.T, p.bias) for p in (w_q, w_k, w_v))
    context = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]
    torch.testing.assert_close(went.query, q)
    torch.testing.assert_close(went.trace.context, context, atol=1e-5, rtol=1e-5)
    assert went.trace.raw.shape == (T, T)
    assert went.trace.context.shape == (T, V)


def test_walk_by_hand():
    one, eye = torch.zeros(2), torch.eye(2)
    went = walk(("a", "b"), eye, Projection(2 * eye, one), Projection(eye, one + 1), Projection(eye, one))
    torch.testing.assert_close(went.trace.raw, torch.tensor([[4.0, 2.0], [2.0, 4.0]]))
    share = np.exp(2 / np.sqrt(2)) / (np.exp(2 / np.sqrt(2)) + 1)
    assert went.trace.weights[0, 0].item() == pytest.approx(share, abs=1e-6)
    torch.testing.assert_close(went.trace.context, went.trace.weights)


def test_walk_moves_with_its_words():
    x, w_q, w_k, w_v = parts()
    order = torch.randperm(T)
    one, other = walk(WORDS, x, w_q, w_k, w_v), walk(WORDS, x[order], w_q, w_k, w_v)
    torch.testing.assert_close(one.trace.context[order], other.trace.context)


def test_what_does_not_fit_is_named():
    x, w_q, w_k, w_v = parts()
    with pytest.raises(ValueError, match="6 words need as many embeddings, not 7"):
        walk(WORDS[:6], x, w_q, w_k, w_v)
    with pytest.raises(ValueError, match="W_K takes 13 numbers, and a word has 5"):
        walk(WORDS, x, w_q, Projection(torch.randn(13, D), torch.zeros(D)), w_v)
    with pytest.raises(ValueError, match="not 'nonsense'"):
        made("nonsense", SENTENCE)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e6])
def test_rows_sum_to_one_whatever_the_numbers(size):
    huge = tuple(tuple(size * value for value in row) for row in QUERY_MADE)
    x = tuple(tuple(size * value for value in embed(word)) for word in SENTENCE)
    shown = world(x=x, w_q=huge, w_k=huge).arrays
    assert np.isfinite(shown["raw"]).all()
    np.testing.assert_allclose(shown["weights"].sum(axis=1), 1, atol=1e-6)
    assert np.isfinite(shown["context"]).all()


# The movement.


def test_movement_by_hand():
    value = torch.tensor([[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]])
    moved = movement(value, torch.tensor([[0.25, 0.75, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), 0)
    assert moved.target == 1
    assert moved.before == pytest.approx(0)
    assert moved.after == pytest.approx(0.75 / np.hypot(0.75, 0.25), abs=1e-6)


def test_context_is_where_the_pulls_lead_and_the_plane_keeps_it():
    value, share = torch.randn(T, V), torch.randn(T, T).softmax(-1)
    for word in range(T):
        moved = movement(value, share, word)
        start = moved.places[word]
        pulls = share[word][:, None] * (moved.places - start)
        torch.testing.assert_close(start + pulls.sum(dim=0), moved.end, atol=1e-5, rtol=1e-5)
        way = moved.places[moved.target] - start
        assert way[0] > 0
        assert way[1].item() == pytest.approx(0, abs=1e-5)  # the first axis is the way to the target, at full length
        assert way[0].item() == pytest.approx((value[moved.target] - value[word]).norm().item(), rel=1e-5)
        assert moved.target != word


def test_movement_against_a_reference():
    value, share = torch.randn(T, V), torch.randn(T, T).softmax(-1)
    moved = movement(value, share, 3)
    context = (share @ value)[3].double().numpy()
    target = value[moved.target].double().numpy()
    after = context @ target / np.linalg.norm(context) / np.linalg.norm(target)
    assert moved.after == pytest.approx(after, abs=1e-6)


@pytest.mark.parametrize("value", [torch.zeros(5, 3), torch.ones(5, 3), torch.eye(5)[:, :1]], ids=["0", "same", "line"])
def test_nothing_to_see_in_a_plane_is_no_error(value):
    moved = movement(value, torch.full((5, 5), 0.2), 2)
    assert torch.isfinite(moved.places).all()
    assert torch.isfinite(torch.tensor([moved.before, moved.after])).all()


def test_one_word_looks_at_itself():
    shown = world(words=("it",))
    assert shown.focus == (0, 0)
    assert shown.arrays["weights"].tolist() == [[1.0]]


# The words.


def test_words_of_ones_own_follow_the_rule_on_the_page():
    for word in ("zebra", "얼룩말", "x"):
        drawn = hashlib.sha256(word.encode()).digest()[:4]
        assert embed(word) == tuple(round(byte / 127.5 - 1, 1) for byte in drawn)
        assert embed(word) == embed(word.upper()) == embed(f"“{word}!”")
        assert all(-1 <= number <= 1 for number in embed(word))
    assert len({embed(word) for word in ("zebra", "lion", "river", "moon")}) == 4


@pytest.mark.parametrize("word", ["", "…", "💩", "\ud800", "x" * 5000])
def test_any_word_has_four_numbers(word):
    assert len(embed(word)) == 4


def test_split():
    assert SENTENCE == ("I", "ate", "the", "cake", "and", "it", "was", "delicious")
    assert split("a b c d e f g h i j k") == (tuple("abcdefgh"), 3)
    assert split(" \x00 \u200b ") == ((), 0)
    assert split("one\x07two\nthree") == (("onetwo", "three"), 0)


def test_every_hand_made_word_has_four_numbers():
    assert {len(numbers) for numbers in HAND_MADE.values()} == {4}
    assert all(word.lower() in HAND_MADE for word in SENTENCE)


@pytest.mark.parametrize("text", ["나는 케이크를 먹었는데 그것은 정말 맛있었다", "She ate a pizza and it was good."])
def test_other_sentences_of_known_words_look_at_the_food_too(text):
    words, _ = split(text)
    shown = world(words=words)
    row, target = shown.focus
    assert words[row] in ("그것은", "it")
    assert words[target] in ("케이크를", "pizza")
    assert shown.arrays["weights"][row, target] > 0.8


# The worlds, and what the page says of them.


def test_it_looks_at_cake_with_0_82():
    shown = world()
    row = shown.arrays["weights"][IT]
    assert row[CAKE] == pytest.approx(0.82, abs=0.005)
    assert row.argmax() == CAKE
    assert shown.focus == (IT, CAKE)
    assert (shown.size, shown.factor) == (4, 0.5)


def test_it_looks_at_cake_by_hand():
    scores = np.array([2, 1.6, 0, 8, 0, 0, 0, 2.4])  # (4, 1, 0, 0) times each word's key
    np.testing.assert_allclose(world().arrays["raw"][IT], scores, atol=1e-6)
    powers = np.exp(scores / 2)
    np.testing.assert_allclose(weights()[IT], powers / powers.sum(), atol=1e-6)


def test_it_moves_towards_cake():
    before, after = world().arrays["cosines"][IT]
    assert (before, after) == (pytest.approx(0, abs=1e-6), pytest.approx(0.997, abs=5e-4))


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("draw", [0, 1, 77])
def test_worlds(name, draw):
    shown = world(name, draw=draw).arrays
    assert shown["x"].shape == (8, 4)
    np.testing.assert_allclose(shown["weights"].sum(axis=1), 1, atol=1e-6)
    for part in "qkv":
        np.testing.assert_allclose(shown[part], shown["x"] @ shown[f"w_{part}"], atol=1e-5)
    np.testing.assert_allclose(shown["raw"], shown["q"] @ shown["k"].T, atol=1e-4)
    np.testing.assert_allclose(shown["context"], shown["weights"] @ shown["v"], atol=1e-5)


def test_identity_leaves_x_as_it_is():
    shown = world("identity").arrays
    for part in "qkv":
        np.testing.assert_array_equal(shown[part], shown["x"])


def test_random_depends_on_the_seed_alone():
    np.testing.assert_array_equal(world("random", draw=5).arrays["w_q"], world("random", draw=5).arrays["w_q"])
    assert (world("random", draw=5).arrays["w_q"] != world("random", draw=6).arrays["w_q"]).any()
    assert np.abs(world("random", draw=5).arrays["w_v"]).max() <= 2


def test_all_words_equal_have_an_eighth_each_whatever_the_w():
    for other in (QUERY_MADE, made("random", SENTENCE, 3).w_q):
        shown = world("equal", w_q=other, w_k=other).arrays["weights"]
        np.testing.assert_allclose(shown, np.full((8, 8), 1 / 8), atol=1e-7)


def test_without_the_division_the_weight_rises_to_0_99():
    assert weights()[IT, CAKE] == pytest.approx(0.82, abs=0.005)
    assert weights(scaled=False)[IT, CAKE] == pytest.approx(0.99, abs=0.005)


def test_doubling_the_row_of_w_q_undoes_the_division():
    assert QUERY_MADE[3][:2] == (4, 1)
    doubled = weights(w_q=changed(QUERY_MADE, r3c0=8.0, r3c1=2.0))
    np.testing.assert_allclose(doubled[IT], weights(scaled=False)[IT], atol=1e-6)
    assert doubled[IT, CAKE] == pytest.approx(0.99, abs=0.005)


def test_who_asks_for_nothing_listens_to_everyone_alike():
    shown = world(w_q=changed(QUERY_MADE, r3c0=0.0, r3c1=0.0)).arrays
    assert not shown["raw"][IT].any()
    np.testing.assert_allclose(shown["weights"][IT], np.full(8, 1 / 8), atol=1e-7)


def test_when_food_is_no_thing_it_looks_at_i():
    assert KEY_MADE[0][0] == 2
    row = weights(w_k=changed(KEY_MADE, r0c0=0.0))[IT]
    assert row.argmax() == I
    assert row[I] == pytest.approx(0.28, abs=0.005)


def test_the_same_word_twice_gets_the_same_weight():
    words, _ = split("the zebra saw the cake and the zebra")
    for name in ("cake", "identity", "random"):
        shown = weights(name, words)
        np.testing.assert_array_equal(shown[:, 1], shown[:, 7])
        np.testing.assert_array_equal(shown[:, 0], shown[:, 3])


def test_what_the_stages_say_of_the_hand_made_numbers():
    shown = world().arrays
    assert shown["x"][IT].tolist() == [0, 0, 0, 1]  # it says only one thing of itself
    assert shown["q"][IT].tolist() == [4, 1, 0, 0]  # it asks for a thing, and a little for someone
    assert shown["k"][CAKE].tolist() == [2, 0, 0, 0]  # food offers itself as a thing
    assert np.diag(VALUE_MADE).tolist() == [1, 1, 1, 0.5]


def numbers_of(lang, key):
    import re

    text = tomllib.loads((TEXTS / lang / "step_by_step.toml").read_text(encoding="utf-8"))["step_by_step"][key]
    return set(re.findall(r"\d+\.\d+|1/8", text))


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_the_numbers_in_the_prompts_are_those_of_the_core(lang):
    cake = weights()[IT, CAKE]
    without = weights(scaled=False)[IT, CAKE]
    i = weights(w_k=changed(KEY_MADE, r0c0=0.0))[IT, I]
    went = compute.run(real_head, EXAMPLE, True)
    before, after = went.arrays["cosines"][went.focus[0]]
    assert numbers_of(lang, "try_1") == {f"{cake:.2f}", "1.00"}
    assert numbers_of(lang, "try_2") == {f"{cake:.2f}", f"{without:.2f}"}
    assert numbers_of(lang, "try_3") == {f"{without:.2f}"}
    assert numbers_of(lang, "try_4") == numbers_of(lang, "try_6") == {"1/8"}
    assert numbers_of(lang, "try_5") == {f"{i:.2f}"}
    assert numbers_of(lang, "try_8") == {
        f"{went.arrays['weights'][went.focus].item():.2f}",
        f"{before:.3f}",
        f"{after:.3f}",
    }


# The real head.


def test_the_real_head_is_the_captured_one_to_the_last_step():
    went = compute.run(real_walk, EXAMPLE)
    trace = compute.run(lambda: compute._seen("minilm", EXAMPLE, 512).trace(5, 11))
    torch.testing.assert_close(went.query @ went.key.T, trace.raw, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(went.trace.weights, trace.weights, atol=1e-6, rtol=1e-5)
    it, cake = went.words.index("it"), went.words.index("cake")
    assert trace.weights[it, cake].item() == pytest.approx(0.638, abs=0.005)
    assert view(went).focus == (it, cake)


def test_x_times_w_plus_bias_gives_the_real_q_k_and_v():
    went = compute.run(real_walk, EXAMPLE)
    assert went.x.shape == (10, 384)
    for part, got in ((went.w_q, went.query), (went.w_k, went.key), (went.w_v, went.value)):
        assert part.weight.shape == (384, 32)
        torch.testing.assert_close(went.x @ part.weight + part.bias, got, atol=1e-4, rtol=1e-4)


def test_x_is_what_enters_the_layer():
    """Against the module itself: a hook on the layer sees the same numbers."""

    def job():
        module, seen = compute._model("minilm").module, compute._seen("minilm", EXAMPLE, 512)
        met = []
        hook = module.encoder.layer[LAYER].register_forward_pre_hook(lambda _, args: met.append(args[0][0]))
        with torch.no_grad():
            module(input_ids=torch.tensor([[token.id for token in seen.tokens]]))
        hook.remove()
        return met[0]

    torch.testing.assert_close(compute.run(real_walk, EXAMPLE).x, compute.run(job), atol=1e-5, rtol=1e-5)


def test_the_real_head_without_its_division():
    went = compute.run(real_walk, EXAMPLE, Formula(scaled=False))
    torch.testing.assert_close(went.trace.weights, went.trace.raw.softmax(-1), atol=1e-6, rtol=1e-5)


def test_a_long_text_is_cut_and_said():
    shown = compute.run(real_head, "the cake was good " * 50, True)
    assert len(shown.words) <= MOST_TOKENS
    assert shown.cut > 100


def test_what_is_shared_can_not_be_written():
    with pytest.raises(ValueError, match="read-only"):
        world().arrays["x"][0, 0] = 1
