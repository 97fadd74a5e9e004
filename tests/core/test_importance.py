"""Knocking heads out, gradients and outcomes: against one head at a time, finite differences and the library."""

import math

import numpy as np
import pytest
import torch
import transformers

from attention_core.edits import OFF, Edit
from attention_core.importance import (
    KnockedOut,
    gradient_times_weight,
    knocked_out,
    outcome_of,
    pieces,
    rank_correlation,
)
from attention_core.models.loading import LoadedModel
from attention_core.outcomes import Similarity, Token, divergence, embedding, log_probabilities, predicts

IDS = torch.tensor([[5, 17, 3, 23, 11, 29, 7]])


@pytest.fixture
def tiny(models):
    torch.manual_seed(13)
    config = transformers.LlamaConfig(
        vocab_size=37,
        hidden_size=84,
        intermediate_size=41,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=2,
        initializer_range=0.2,
    )
    module = transformers.LlamaForCausalLM(config).double().eval()
    return LoadedModel("tiny", "tiny", module, models["minilm"].tokenizer, None, False)  # the tokeniser is not asked


def test_a_tokens_log_probability_is_the_librarys(tiny):
    model = tiny
    with torch.no_grad():
        expected = model.module(input_ids=IDS).logits[0, -1].log_softmax(dim=-1)
        assert torch.equal(log_probabilities(model, IDS)[0], expected)
    assert outcome_of(model, IDS, Token(19)) == pytest.approx(float(expected[19]))
    assert expected.exp().sum() == pytest.approx(1)


def test_each_head_knocked_out_in_a_batch_equals_one_at_a_time(tiny):
    model, heads = tiny, [(0, 3), (1, 1), (2, 5)]
    together = knocked_out(model, IDS, Token(19), heads)
    for head, found in zip(heads, together, strict=True):
        assert float(found) == pytest.approx(outcome_of(model, IDS, Token(19), {head: OFF}), abs=1e-10)
    assert len(set(together.tolist())) == 3


@pytest.mark.parametrize(("most", "reads"), [(1000, [7]), (6, [2, 2, 2, 1]), (1, [1] * 7)])
def test_in_pieces_and_at_once_it_is_the_same(tiny, most, reads):
    heads = [(0, 3), (1, 1), (2, 5)]
    read, seen = KnockedOut(tiny, IDS, Token(19), heads, most), []
    hook = tiny.module.model.register_forward_pre_hook(
        lambda _, __, told: seen.append(told["input_ids"].shape), with_kwargs=True
    )
    while not read.done:
        read.step()
    hook.remove()
    assert seen == [(3, size) for size in reads]
    torch.testing.assert_close(read.found, knocked_out(tiny, IDS, Token(19), heads))


def test_what_can_not_be_cut_is_one_piece(tiny, models):
    asked = Token(19, 3)  # not after the last token
    read = KnockedOut(tiny, IDS, asked, [(0, 3)], 2)
    read.step()
    assert read.done and torch.equal(read.found, knocked_out(tiny, IDS, asked, [(0, 3)]))
    ids = torch.tensor([models["minilm"].tokenizer("the bank and the money")["input_ids"]])
    asked = Similarity(embedding(models["minilm"], ids)[0])
    read = KnockedOut(models["minilm"], ids, asked, [(5, 11)], 2)
    read.step()
    assert read.done and 0.9 < float(read.found) < 1


def test_gradient_times_weight_is_the_slope_of_scaling_a_head(tiny):
    model, step = tiny, 2e-3
    slopes = gradient_times_weight(model, IDS, Token(19))
    assert slopes.shape == (3, 6)
    for head in ((0, 0), (1, 4), (2, 5)):
        up, down = (outcome_of(model, IDS, Token(19), {head: Edit(scale=1 + by)}) for by in (step, -step))
        assert float(slopes[head]) == pytest.approx((up - down) / (2 * step), rel=1e-3, abs=1e-5)
    assert all(parameter.grad is None for parameter in model.module.parameters())


def test_pieces_hold_every_head_once_and_few_tokens():
    batches = list(pieces(5, 7, 16, most=100))
    assert [head for batch in batches for head in batch] == [(layer, head) for layer in range(5) for head in range(7)]
    assert max(len(batch) for batch in batches) * 16 <= 100
    assert list(pieces(1, 2, 1000)) == [[(0, 0)], [(0, 1)]]
    assert len(next(pieces(30, 9, 5))) == 4  # of a deep model fewer than of a flat one
    assert len(next(pieces(6, 12, 5))) == 20


def test_divergence_by_hand():
    before, after = torch.tensor([0.5, 0.5]).log(), torch.tensor([0.25, 0.75]).log()
    assert divergence(before, after) == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))
    assert divergence(before, before) == 0


def test_rank_correlation_by_hand():
    one = np.array([1.0, 2.0, 3.0, 5.0])
    assert rank_correlation(one, one**2) == pytest.approx(1)
    assert rank_correlation(one, -one) == pytest.approx(-1)
    assert rank_correlation(one, np.array([1.0, 3.0, 2.0, 4.0])) == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert math.isnan(rank_correlation(one, np.ones(4)))


def test_an_embedding_is_the_mean_of_the_last_vectors(models):
    model = models["minilm"]
    ids = torch.tensor([model.tokenizer("the bank and the money")["input_ids"]])
    with torch.no_grad():
        expected = model.module(input_ids=ids).last_hidden_state[0].mean(dim=0)
        found = embedding(model, ids)[0]
    torch.testing.assert_close(found, expected / expected.norm())
    assert outcome_of(model, ids, Similarity(found)) == pytest.approx(1, abs=1e-6)
    off = {(5, head): OFF for head in range(12)}
    assert outcome_of(model, ids, Similarity(found), off) < 0.99
    assert not predicts(model)
    with pytest.raises(TypeError, match="predicts no tokens"):
        log_probabilities(model, ids)


def test_paris(models):
    model = models["smollm2"]
    ids = torch.tensor([model.tokenizer("The capital of France is")["input_ids"]])
    with torch.no_grad():
        best = int(log_probabilities(model, ids)[0].argmax())
    assert model.tokenizer.decode([best]) == " Paris"
