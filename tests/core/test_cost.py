"""What attention costs: the paper's table by hand, walks step by step, timed layers against torch's own."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.nn import functional

from attention_core.labs import cost, timing
from attention_core.labs.cost import KINDS, costs, tower, walk, weight_bytes

LAYERS = ("attention", "recurrent", "convolution")


def reads(kind, length, layer, kernel, reach):
    """Return which places (columns) each place (rows) reads in one layer, or one step, from 0."""
    back = np.subtract.outer(np.arange(length), np.arange(length))  # how far back
    if kind == "attention":
        return np.ones((length, length), dtype=bool)
    if kind == "restricted":
        return np.abs(back) <= reach // 2
    if kind == "recurrent":
        return (back == 0) | (back == 1)
    apart = kernel**layer
    return (back >= 0) & (back % apart == 0) & (back // apart < kernel)


def test_the_table_by_hand():
    found = costs([1, 10, 27], 64, 3, 4)
    np.testing.assert_array_equal(found.operations[0], [64, 6_400, 46_656])  # n²·d
    np.testing.assert_array_equal(found.operations[1], [4_096, 40_960, 110_592])  # n·d²
    np.testing.assert_array_equal(found.operations[2], [12_288, 122_880, 331_776])  # k·n·d²
    np.testing.assert_array_equal(found.operations[3], [64, 2_560, 6_912])  # r·n·d
    np.testing.assert_array_equal(found.sequential, [[1, 1, 1], [1, 10, 27], [1, 1, 1], [1, 1, 1]])
    np.testing.assert_array_equal(found.path, [[0, 1, 1], [0, 9, 26], [0, 3, 3], [0, 5, 13]])


def test_attention_is_the_cheaper_while_n_is_less_than_d():
    attention, recurrent = costs([511, 512, 513], 512, 3, 4).operations[:2]
    assert (np.sign(attention - recurrent) == [-1, 0, 1]).all()


def test_twice_the_words():
    one, two = costs([300, 600], 64, 3, 4).operations.T
    np.testing.assert_array_equal(two / one, [4, 2, 2, 2])


@pytest.mark.parametrize(
    ("length", "kernel", "layers"), [(1, 2, 0), (2, 2, 1), (27, 3, 3), (28, 3, 4), (100_000, 2, 17)]
)
def test_how_high_the_tower_is(length, kernel, layers):
    assert tower(length, kernel) == layers


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("kernel", "reach"), [(2, 2), (3, 5), (4, 8)])
def test_news_takes_the_shortest_way_there_is(kind, kernel, reach):
    length = 23
    for first, last in [(0, length - 1), (3, 4), (5, 19)]:
        places = walk(kind, first, last, length, kernel, reach)
        assert (places[0], places[-1]) == (first, last)
        heard, layers = np.arange(length) == first, 0
        for layer, (here, there) in enumerate(pairwise(places)):
            seen = reads(kind, length, layer, kernel, reach)
            assert seen[there, here]
            if kind != "convolution":  # whose tower has so many layers for every word
                assert not heard[last]
            heard, layers = (seen & heard).any(axis=1), layer + 1
        assert heard[last]
        if (first, last) == (0, length - 1):
            assert layers == costs([length], 8, kernel, reach).path[KINDS.index(kind), 0]
            if kind == "convolution":
                low = np.arange(length) == first
                for layer in range(layers - 1):
                    low = (reads(kind, length, layer, kernel, reach) & low).any(axis=1)
                assert not low[last]


def test_memory_of_the_weights():
    assert weight_bytes(4096) == 64 * 2**20
    assert round(weight_bytes(4096, 270) / 2**30, 1) == 16.9


def test_memory_that_is_measured_grows_as_the_square_unless_fused():
    dense, fused = cost.memory()
    square = np.array([weight_bytes(n) for n in cost.MEMORY_LENGTHS])
    assert (dense >= 2 * square).all()  # scores and weights are there at once
    assert (dense < 2.1 * square).all()
    assert fused[-1] < square[-1] / 4


# The layers that are timed are torch's own, in pieces


def gradients(layer, given):
    return [given.grad, *(weight.grad for weight in layer.parameters())]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(timing, "STEPS", 5)
    monkeypatch.setattr(timing, "PIECE", 1.0)
    torch.manual_seed(3)
    return torch.randn(1, 37, 16).requires_grad_()


def in_pieces(layer, given):
    count = sum(1 for _ in layer.pieces(given, backward=True))
    return count, gradients(layer, given)


def test_attention_in_pieces_is_torchs_multi_head_attention(small):
    layer = timing._Attention(16)
    count, found = in_pieces(layer, small)
    assert count > 5
    whole = small.detach().clone().requires_grad_()
    given = whole.transpose(0, 1)
    weights = [weight.detach().clone().requires_grad_() for weight in layer.parameters()]
    out, _ = functional.multi_head_attention_forward(
        *(
            given,
            given,
            given,
            16,
            timing.HEADS,
            weights[0],
            weights[1],
            None,
            None,
            False,
            0.0,
            weights[2],
            weights[3],
        ),
        need_weights=False,
    )
    out.backward(torch.ones_like(out))
    for one, other in zip(found, [whole.grad, *(weight.grad for weight in weights)], strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("make", [lambda: timing._Recurrent(16), lambda: timing._Convolution(16, 3)])
def test_the_others_in_pieces_are_the_same_as_whole(small, make):
    layer = make()
    _, found = in_pieces(layer, small)
    found = [of.clone() for of in found]
    layer.zero_grad()
    whole = small.detach().clone().requires_grad_()
    out = layer(whole)[0] if isinstance(layer, torch.nn.LSTM) else layer(whole.mT)
    out.backward(torch.ones_like(out))
    for one, other in zip(found, gradients(layer, whole), strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("backward", [False, True])
def test_a_run_that_is_interrupted_leaves_what_it_has(backward, monkeypatch):
    monkeypatch.setattr(timing, "LENGTHS", (8, 16, 32))
    work = timing.timing(8, 3, 16, backward=backward, again=True)
    shares = []
    for _ in range(30):
        work.step()
        shares.append(work.times().share)
    assert shares == sorted(shares)
    found = timing.timing(8, 3, 16, backward=backward).times()
    assert found.lengths == (8, 16)
    assert np.isfinite(found.seconds[0, 0])
    assert np.isnan(found.seconds[2, 1])
    while not work.done:
        work.step()
    found = work.times()
    assert found.share == 1
    assert (found.seconds > 0).all()


def test_where_layers_are_timed():
    gpu = torch.cuda.is_available() or torch.backends.mps.is_available()
    assert timing.devices()[0] == "cpu"
    assert len(timing.devices()) == 1 + gpu


@pytest.mark.skipif(not torch.cuda.is_available(), reason="runs where there is a CUDA GPU")
def test_times_on_a_gpu(monkeypatch):
    monkeypatch.setattr(timing, "LENGTHS", (8, 16))
    work = timing.timing(8, 3, 16, backward=True, device="cuda", again=True)
    while not work.done:
        work.step()
    assert (work.times().seconds > 0).all()


def test_slopes():
    assert timing.slope([1, 2, 4], [5.0, 20.0, 80.0]) == pytest.approx(2)
    counted = [
        timing.slope(timing.LENGTHS, [float(timing.counted(kind, n, 64, 3)) for n in timing.LENGTHS]) for kind in LAYERS
    ]
    np.testing.assert_allclose(counted, timing.POWERS, atol=0.3)
    assert 1.8 < counted[0] < 2  # with the projections, which grow as n


def test_counted_by_hand():
    assert timing.counted("attention", 10, 4, 3) == 4 * 10 * 16 + 2 * 100 * 4
    lstm = timing._Recurrent(4)
    assert timing.counted("recurrent", 1, 4, 3) == lstm.weight_ih_l0.numel() + lstm.weight_hh_l0.numel()
    assert timing.counted("convolution", 1, 4, 3) == timing._Convolution(4, 3).weight.numel()
