"""The small world of many heads: joined blocks, W_O, equal heads, and the original model's sizes."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from attention_core import Formula
from attention_core.labs.many_heads import BASE, MOST_WORDS, Edit, small_world, world_of, world_words

PARTS = ("words", "x", "query", "key", "value", "out")
WORDS = ("I", "ate", "the", "cake", "and", "it", "it")


def test_against_torch():
    """torch's own multi-head attention, with our matrices in it."""
    world = small_world(WORDS, 5, 3, seed=4)
    layer = torch.nn.MultiheadAttention(15, 5, bias=False, batch_first=True)
    with torch.no_grad():
        stacked = [w.transpose(1, 2).reshape(15, 15) for w in (world.query, world.key, world.value)]
        layer.in_proj_weight.copy_(torch.cat(stacked))
        layer.out_proj.weight.copy_(world.out.T)
        output, weights = layer(world.x[None], world.x[None], world.x[None], average_attn_weights=False)
    torch.testing.assert_close(world.output, output[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(world.trace.weights, weights[0], atol=1e-5, rtol=1e-5)


def test_blocks_belong_to_their_heads():
    world = small_world(WORDS, 5, 3)
    for head in range(5):
        alone = scaled_dot_product_attention(world.x @ world.query[head], world.x @ world.key[head], world.values[head])
        torch.testing.assert_close(world.joined[:, 3 * head : 3 * head + 3], alone, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(
            world.parts[:, head], alone @ world.out[3 * head : 3 * head + 3], atol=1e-5, rtol=1e-5
        )
    torch.testing.assert_close(world.parts.sum(dim=1), world.output, atol=1e-5, rtol=1e-5)


def test_by_hand():
    eye = torch.eye(2)
    zero = torch.zeros(2, 2, 1)  # all scores equal: every word is the mean of all
    value = torch.tensor([[[1.0], [0.0]], [[0.0], [1.0]]])  # head 1 hands over the first number, head 2 the second
    world = world_of(("a", "b"), torch.tensor([[2.0, 4.0], [6.0, 8.0]]), zero, zero, value, 10 * eye)
    torch.testing.assert_close(world.joined, torch.tensor([[4.0, 6.0], [4.0, 6.0]]))
    torch.testing.assert_close(world.output, torch.tensor([[40.0, 60.0], [40.0, 60.0]]))


def test_sizes_that_the_page_names():
    """Eight heads of four numbers: 32. try 1: two heads of 16 join to just as many, and W_O is as large."""
    for heads, size in ((8, 4), (2, 16)):
        world = small_world(WORDS, heads, size)
        assert world.joined.shape == (7, 32)
        assert world.out.shape == (32, 32)
    heads, size = BASE
    assert (heads, size, heads * size) == (8, 64, 512)
    assert 1 / Formula().multiplier(size) == 8
    assert 1 / Formula().multiplier(heads * size) == pytest.approx(22.63, abs=0.005)


def test_equal_heads_see_no_more_than_one():
    """try 3."""
    world = small_world(WORDS, 7, 3, alike=True)
    for head in range(7):
        assert torch.equal(world.trace.weights[head], world.trace.weights[0])
        assert torch.equal(world.joined[:, 3 * head : 3 * head + 3], world.joined[:, :3])
    different = small_world(WORDS, 7, 3)
    assert not torch.allclose(different.trace.weights[0], different.trace.weights[1], atol=0.01)


def test_the_draw_is_the_same_for_everyone():
    one, two = small_world(WORDS, 3, 5, seed=2), small_world(WORDS, 3, 5, seed=2)
    assert torch.equal(one.output, two.output)
    assert not torch.equal(one.output, small_world(WORDS, 3, 5, seed=3).output)
    assert torch.equal(one.x[5], one.x[6])  # equal words are equal, wherever they stand
    assert torch.equal(small_world(("cake",), 3, 5, seed=2).x[0], one.x[3])
    torch.testing.assert_close(one.trace.weights.sum(dim=-1), torch.ones(3, 7))


def test_every_number_can_be_changed():
    before = small_world(WORDS, 3, 5)
    edits = [Edit("q", 1, 14, 4, 2.0), Edit("x", 0, 6, 0, -3.0), Edit("o", 0, 14, 2, 7.0), Edit("v", 9, 0, 0, 1.0)]
    world = small_world(WORDS, 3, 5, edits=edits)
    assert (world.query[1, 14, 4], world.x[6, 0], world.out[14, 2]) == (2, -3, 7)
    assert (world.query != before.query).sum() == (world.x != before.x).sum() == (world.out != before.out).sum() == 1
    assert torch.equal(world.value, before.value)  # there is no tenth head
    torch.testing.assert_close(world.output, world_of(*(getattr(world, n) for n in PARTS)).output)


@pytest.mark.parametrize("value", [1e6, -1e6])
def test_no_number_overflows(value):
    """The largest numbers that the page takes, everywhere: nothing is NaN, rows still sum to 1."""
    every = [Edit(m, h, r, c, value) for m in "xqkvo" for h in range(3) for r in range(6) for c in range(6)]
    world = small_world(WORDS, 3, 2, edits=every)
    assert torch.isfinite(world.output).all()
    assert torch.isfinite(world.trace.raw).all()
    torch.testing.assert_close(world.trace.weights.sum(dim=-1), torch.ones(3, 7))


@pytest.mark.parametrize(("words", "heads", "size"), [((), 2, 3), (("a",), 0, 3), (("a",), 2, 0)])
def test_nothing_to_compute_is_refused(words, heads, size):
    with pytest.raises(ValueError, match="there must be"):
        small_world(words, heads, size)


def test_words_of_a_sentence():
    assert world_words("I ate, it!") == (("I", "ate", "it"), 3)
    assert world_words("?! …") == (("?!", "…"), 2)
    assert world_words("나는 은행에서 돈을 찾았다")[0][1] == "은행에서"
    shown, count = world_words("word " * 1000)
    assert (len(shown), count) == (MOST_WORDS, 1000)
    assert world_words("\ud800 x")[1] >= 1
