"""Why √dₖ: the reference values, the measures, the real head, and the training; every claim of the page."""

import math

import numpy as np
import pytest
import torch

from attention_core import Formula, capture, compute, trace_attention
from attention_core.dot_product import softmax
from attention_core.labs import scaling as lab

SENTENCE = "I ate the cake and it was delicious"
REFERENCE = {  # dₖ: mean largest weight and entropy, unscaled (FACTS, 8 keys, 4000 draws)
    4: (0.532, 1.276),
    16: (0.745, 0.678),
    64: (0.873, 0.321),
    256: (0.936, 0.157),
    1024: (0.970, 0.072),
}


@pytest.fixture(scope="module")
def world():
    return lab.curves(8, lab.SEED)


def plain(size, keys, draws, seed=0):
    """Draw every number of every vector, and multiply."""
    random = torch.Generator().manual_seed(seed)
    q, k = torch.randn(draws, 1, size, generator=random), torch.randn(draws, keys, size, generator=random)
    return (q @ k.mT)[:, 0]


# What is drawn


@pytest.mark.parametrize("size", REFERENCE)
def test_reference_table(world, size):
    at = lab.SIZES.index(size)
    largest, entropy = REFERENCE[size]
    assert world.largest[0, at] == pytest.approx(largest, abs=0.01)
    assert world.entropy[0, at] == pytest.approx(entropy, abs=0.01)
    assert 0.34 <= world.largest[1, at] <= 0.365
    assert 1.71 <= world.entropy[1, at] <= 1.755
    assert world.spread[0, at] == pytest.approx(math.sqrt(size), rel=0.02)
    assert world.spread[1, at] == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_other_seeds_differ_by_chance_alone(seed):
    found = lab.curves(8, seed)
    for size, (largest, entropy) in REFERENCE.items():
        at = lab.SIZES.index(size)
        assert found.largest[0, at] == pytest.approx(largest, abs=0.02)
        assert found.entropy[0, at] == pytest.approx(entropy, abs=0.035)


def test_drawn_scores_are_distributed_like_real_dot_products():
    drawn = lab.curves(8, 3, 1.0, 30000)
    for size in (1, 4, 64):
        p = lab.soften(plain(size, 8, 10000), 1.0)
        at = lab.SIZES.index(size)
        assert drawn.largest[0, at] == pytest.approx(p.amax(dim=-1).mean().item(), abs=0.01)
        assert drawn.entropy[0, at] == pytest.approx(lab.entropy(p).mean().item(), abs=0.025)
        assert drawn.gradient[0, at] == pytest.approx(lab.gradient_norm(p).mean().item(), abs=0.008)


def test_keys_of_one_query_share_its_length():
    drawn, real = lab.draw_scores(2, 1, 20011)[2], plain(4, 2, 20011)  # squares of two keys' scores go together
    for scores in (drawn, real):
        assert torch.corrcoef(scores.square().T)[0, 1].item() == pytest.approx(1 / 7, abs=0.05)  # 1 / (dₖ + 3)
        assert torch.corrcoef(scores.T)[0, 1].item() == pytest.approx(0, abs=0.03)


@pytest.mark.parametrize("size", lab.SIZES)
def test_variance_is_the_size(size):
    raw = lab.draw_scores(7, 3)[lab.SIZES.index(size)]
    assert raw.var().item() == pytest.approx(size, rel=0.06)
    assert raw.mean().item() == pytest.approx(0, abs=0.03 * math.sqrt(size))


def test_the_same_seed_draws_the_same():
    assert torch.equal(lab.draw_scores.__wrapped__(3, 5, 11), lab.draw_scores.__wrapped__(3, 5, 11))
    assert not torch.equal(lab.draw_scores(3, 5, 11), lab.draw_scores(3, 6, 11))


def test_vectors_grow():
    q, k = lab.draw_vectors(16, 5, 2)
    wide_q, wide_k = lab.draw_vectors(64, 11, 2)
    assert (q.shape, k.shape) == ((1, 16), (5, 16))
    assert torch.equal(wide_q[:, :16], q)
    assert torch.equal(wide_k[:5, :16], k)


def test_histogram_counts_every_score():
    for size in (1, 64, 4096):
        found = lab.histogram(size, 5, 1)
        raw = lab.draw_scores(5, 1)[lab.SIZES.index(size)].numpy()
        assert found.shares.sum(axis=1) == pytest.approx([1, 1])
        assert found.edges[0] == pytest.approx(found.edges[1] * math.sqrt(size))
        near = (raw >= 0) & (raw < math.sqrt(size) / 4)
        at = np.searchsorted(found.edges[0], 0)
        assert found.shares[0, at] == pytest.approx(near.mean(), abs=1e-4)


# The softmax and its measures


def test_hand_example():
    row = lab.hand_row((16.0, 8.0, 0.0, -8.0), 64, 1.0)
    assert row.weights[1] == pytest.approx([0.643914, 0.236883, 0.087144, 0.032059], abs=1e-6)
    assert row.weights[0] == pytest.approx([0.999665, 0.000335, 0, 0], abs=1e-6)
    assert row.entropy == pytest.approx([0.003, 0.9475], abs=1e-4)
    assert row.scores[1] == pytest.approx([2, 1, 0, -1])
    assert row.largest == pytest.approx([0.999665, 0.643914], abs=1e-6)


def test_row_equals_the_core():
    q, k = lab.draw_vectors(32, 7, 4)
    row = lab.random_row(32, 7, 4, 3.0)
    for place, scaled in enumerate((False, True)):
        trace = trace_attention(q[None], k[None], k[None], Formula(scaled=scaled, temperature=3.0)).head(0)
        assert row.scores[place] == pytest.approx(trace.scaled[0].numpy(), rel=1e-5)
        assert row.weights[place] == pytest.approx(trace.weights[0].numpy(), abs=1e-6)
    assert row.cool == pytest.approx(trace_attention(q[None], k[None], k[None]).weights[0, 0].numpy(), abs=1e-6)


@pytest.mark.parametrize("spread", [0.1, 1.0, 8.0, 60.0])
def test_gradient_norm_is_that_of_the_jacobian(spread):
    scores = torch.randn(7, dtype=torch.float64) * spread
    slope = torch.autograd.functional.jacobian(lambda s: s.softmax(dim=-1), scores)
    p = scores.softmax(dim=-1)
    assert lab.gradient_norm(p).item() == pytest.approx(slope.norm().item(), rel=1e-6, abs=1e-8)
    assert lab.gradient_norm(p).item() == pytest.approx((p.diag() - p.outer(p)).norm().item(), rel=1e-6, abs=1e-8)


def test_measures_by_hand_and_where_nothing_is_allowed():
    p = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    assert lab.entropy(p).numpy() == pytest.approx([math.log(2), 0, 0, math.log(3)])
    assert lab.gradient_norm(p).numpy() == pytest.approx([0.5, 0, 0, math.sqrt(2) / 3])


def test_gradient_norm_never_exceeds_a_half():
    p = torch.softmax(torch.randn(5003, 5) * torch.linspace(0.01, 30, 5003)[:, None], dim=-1)
    assert lab.gradient_norm(p).max() <= 0.5 + 1e-9


def test_nothing_overflows():
    for scores in (
        lab.draw_scores(8, 1)[-1],  # dₖ = 4096
        torch.tensor([[1e30, 9e29, -1e30]]),
        torch.tensor([[1e30, 1e30, 1e30]]),
    ):
        assert scores.dtype == torch.float32
        p = lab.soften(scores, 1.0)
        assert torch.isfinite(p).all()
        assert p.sum(dim=-1).numpy() == pytest.approx(np.ones(len(p)), abs=1e-6)
        assert torch.isfinite(lab.entropy(p)).all()
        assert torch.isfinite(lab.gradient_norm(p)).all()
        assert torch.equal(p, softmax(scores[None], torch.ones_like(scores[None], dtype=torch.bool))[0][0])
    assert torch.tensor(100.0).exp().isinf()  # as the plain exponential would


# What the page says


def test_claim_at_64_one_key_takes_87_percent_and_scaled_35(world):
    at = lab.SIZES.index(64)
    assert world.largest[:, at] == pytest.approx([0.87, 0.355], abs=0.01)


def test_claim_temperature_8_undoes_what_64_features_do():
    row = lab.random_row(64, 8, lab.SEED, 8.0)
    assert row.weights[0] == pytest.approx(row.cool, abs=1e-6)
    hot, cool = lab.curves(8, lab.SEED, 8.0), lab.curves(8, lab.SEED)
    at = lab.SIZES.index(64)
    for name in ("largest", "entropy", "gradient"):
        assert getattr(hot, name)[0, at] == pytest.approx(getattr(cool, name)[1, at], abs=1e-6)


def test_claim_one_feature_needs_no_scaling(world):
    row = lab.random_row(1, 8, lab.SEED, 1.0)
    assert row.weights[0] == pytest.approx(row.weights[1])
    assert world.largest[0, 0] == world.largest[1, 0]


def test_claim_without_the_factor_the_gradient_fades_and_with_it_it_stays(world):
    assert (np.diff(world.gradient[0, 2:]) < 0).all()
    assert world.gradient[0, -1] < 0.03
    assert np.ptp(world.gradient[1, 2:]) < 0.02
    assert (np.diff(world.entropy[0]) < 0).all()


def test_claim_at_1024_97_percent_and_scaled_still_36(world):
    at = lab.SIZES.index(1024)
    assert [f"{value:.2f}" for value in world.largest[:, at]] == ["0.97", "0.36"]
    assert [f"{value:.2f}" for value in world.largest[:, lab.SIZES.index(64)]] == ["0.87", "0.36"]


def test_claim_two_equal_scores_have_the_largest_gradient():
    row = lab.hand_row((16.0, 16.0, 0.0, -8.0), 64, 1.0)
    assert row.weights[0, :2] == pytest.approx([0.5, 0.5], abs=1e-6)
    assert row.gradient[0] == pytest.approx(0.5, abs=1e-6)


def test_claim_even_cold_scaled_scores_become_hard(world):
    cold = lab.curves(8, lab.SEED, 0.25)
    assert (cold.largest[1, 2:] > 0.7).all()  # the factor is no magic: temperature ¼ is four times larger scores
    at = lab.SIZES.index(16)
    assert cold.largest[1, -1] == pytest.approx(world.largest[0, at], abs=0.02)


# The real head


@pytest.mark.parametrize(
    ("model", "layer", "head", "kind", "times", "temperature", "formula"),
    [
        ("minilm", 5, 11, "on", 1.0, 1.0, Formula()),
        ("minilm", 5, 11, "off", 1.0, 1.0, Formula(scaled=False)),
        ("minilm", 3, 1, "on", 1.0, 2.0, Formula(temperature=2.0)),
        ("smollm2", 25, 2, "off", 1.0, 4.0, Formula(scaled=False, temperature=4.0)),
    ],
)
def test_real_row_is_the_captured_head(models, model, layer, head, kind, times, temperature, formula):
    seen = capture(models[model], SENTENCE)
    pair = (seen.trace(layer, head, formula), seen.trace(layer, head))
    row = lab.real_row(model, SENTENCE, 512, layer, head, 5, kind, times, temperature)
    every = lab.real_head(model, SENTENCE, 512, layer, head, kind, times, temperature)
    for place, trace in enumerate(pair):
        assert row.weights[place] == pytest.approx(trace.weights[5].numpy(), abs=1e-5)
        assert row.scores[place] == pytest.approx(trace.final[5].numpy(), abs=1e-4)
        assert row.factors[place] == pytest.approx(trace.factor)
        assert every.entropy[place] == pytest.approx(lab.entropy(trace.weights).numpy(), abs=1e-4)
        assert every.gradient[place] == pytest.approx(lab.gradient_norm(trace.weights).numpy(), abs=1e-4)
        assert row.entropy[place] == pytest.approx(every.entropy[place, 5], abs=1e-4)
        assert row.gradient[place] == pytest.approx(every.gradient[place, 5], abs=1e-4)
    assert row.raw == pytest.approx(pair[1].raw[5].numpy(), abs=1e-4)
    assert row.labels == tuple(token.label for token in seen.tokens) == every.labels


def test_other_factor_is_a_multiple_of_the_models_own():
    for times, expected in ((2.0, 2 / math.sqrt(32)), (math.sqrt(32), 1.0)):
        row = lab.real_row("minilm", SENTENCE, 512, 5, 11, 6, "other", times)
        assert row.factors == pytest.approx((expected, 1 / math.sqrt(32)))
        assert row.scores[0] == pytest.approx(row.raw * expected, rel=1e-5)
    off = lab.real_row("minilm", SENTENCE, 512, 5, 11, 6, "off")
    assert row.weights[0] == pytest.approx(off.weights[0], abs=1e-5)


def test_claim_real_head_without_its_factor():
    row = lab.real_row("minilm", SENTENCE, 512, 5, 11, 6, "off")
    cake = row.labels.index("cake")
    assert row.labels[6] == "it"
    assert row.weights[:, cake] == pytest.approx([0.999, 0.638], abs=0.002)
    assert row.gradient[0] < 0.01 < 0.3 < row.gradient[1]


def test_claim_real_head_off_at_temperature_5_66_is_the_model_itself():
    row = lab.real_row("minilm", SENTENCE, 512, 5, 11, 6, "off", 1.0, math.sqrt(32))
    assert row.weights[0] == pytest.approx(row.weights[1], abs=1e-5)


def test_claim_an_eighth_of_the_factor_flattens_the_real_head():
    row = lab.real_row("minilm", SENTENCE, 512, 5, 11, 6, "other", 0.125)
    assert row.entropy[0] == pytest.approx(math.log(10), abs=0.03)
    assert row.largest[0] < 0.15


# The training


@pytest.fixture(scope="module")
def trained():
    return {(size, rate): train(size, rate) for size, rate in ((512, 4.0), (8, 4.0), (512, 1.0), (512, 16.0))}


def train(size, rate, seed=1, steps=lab.STEPS):
    done = compute.run(lab.learn, size, rate, seed, 0)
    while done.steps < steps:
        done = compute.run(lab.learn, size, rate, seed, steps)
    return done


def test_with_the_factor_it_learns_and_without_it_does_not(trained):
    done = trained[512, 4.0]
    assert done.losses.shape == (2, lab.SEEDS, lab.STEPS + 1)
    last = done.losses[:, :, -1]
    assert (last[1] < 0.1).all()
    assert (last[0] > 1).all()
    assert done.right[1] > 0.95
    assert done.right[0] < 0.3


def test_the_gradient_is_gone_before_the_first_step(trained):
    done = trained[512, 4.0]
    assert done.gradient[0] < done.gradient[1] / 5
    assert done.dead[0] > 0.5
    assert done.dead[1] == 0


def test_claim_no_step_size_helps(trained):
    for rate in (1.0, 4.0, 16.0):
        last = trained[512, rate].losses[:, :, -1]
        assert (last[1] < 0.5).all()
        assert (last[0] > 1).all()


def test_claim_with_8_features_both_learn(trained):
    last = trained[8, 4.0].losses[:, :, -1]
    assert (last < 0.2).all()


def test_both_layers_begin_alike_and_take_the_same_steps():
    training = lab.Training(64, 4.0, 2)
    for start, other in zip(*training.weights, strict=True):
        assert torch.equal(start, other)
        assert start is not other
    query, key = (w.detach().clone() for w in training.weights[1])
    scores = query @ key.mT / 8
    p = scores.softmax(dim=-1)
    slope = 2 * (p - torch.eye(lab.KEYS)[training.targets]) / lab.WORDS
    behind = p * (slope - (p * slope).sum(dim=-1, keepdim=True))  # by hand: the softmax's Jacobian
    training.step()
    assert torch.allclose(training.weights[1][0], query - 4.0 * behind @ key / 8, atol=1e-5)
    assert torch.allclose(training.weights[1][1], key - 4.0 * behind.mT @ query / 8, atol=1e-5)
    assert training.gradient[1].item() == pytest.approx((lab.WORDS * behind).norm(dim=-1).mean().item(), rel=1e-4)


def test_training_goes_on_piece_by_piece_and_is_shared(monkeypatch):
    monkeypatch.setattr(lab, "_runs", type(lab._runs)())
    monkeypatch.setattr(lab, "MOST_RUNS", 3)
    first = lab.learn(8, 1.0, 9, 40)
    assert first.steps == lab.PIECE
    assert lab.learn(8, 1.0, 9, 40).steps == 2 * lab.PIECE
    whole = lab.learn(8, 1.0, 9, 40)
    assert whole.steps == 40
    assert lab.learn(8, 1.0, 9, 40) is whole
    assert lab.learn(8, 1.0, 9, lab.PIECE) is first
    assert whole.losses[:, :, : lab.PIECE + 1] == pytest.approx(first.losses)
    for seed in range(5):
        lab.learn(8, 1.0, 100 + seed, 0)
    assert len(lab._runs) == 3
