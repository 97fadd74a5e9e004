"""Capture against the library's own eager attention, for both embedded models, every layer and head."""

import dataclasses

import pytest
import torch

from attention_core import Formula, capture, load_model
from attention_core.captured import Link

TEXTS = {
    "english": "I ate the cake and it was delicious",
    "korean": "나는 은행에서 돈을 찾았다. 나는 강가의 은행에 앉았다.",
    "emoji": "💩💩 👨‍👩‍👧 ok 🇰🇷",
    "one word": "cake",
    "300 tokens": "The cat that the dog chased sat on the mat and watched the rain. " * 20,
}


def eager(model, ids):
    """Weights as transformers computes them in its plainest way, (L, H, T, T)."""
    module = getattr(model.module, "base_model", model.module)
    before = module.config._attn_implementation
    module.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            weights = module(input_ids=ids, output_attentions=True, use_cache=False).attentions
    finally:
        module.set_attn_implementation(before)
    return torch.cat(weights)


def all_weights(seen):
    return torch.stack(
        [torch.stack([seen.weights(layer, head) for head in range(seen.heads)]) for layer in range(seen.layers)]
    )


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
@pytest.mark.parametrize("name", ["minilm", "smollm2"])
def test_weights_equal_the_librarys_eager_attention(models, name, text):
    seen = capture(models[name], text)
    expected = eager(models[name], torch.tensor([[token.id for token in seen.tokens]]))
    assert len(seen.tokens) >= 300 or text != TEXTS["300 tokens"]
    assert (all_weights(seen) - expected).abs().max() <= 1e-5


def test_capture_on_a_gpu():
    if not torch.cuda.is_available():
        pytest.skip("runs where there is a GPU")
    on_gpu = capture(load_model("minilm", "cuda"), TEXTS["english"])
    on_cpu = capture(load_model("minilm", "cpu"), TEXTS["english"])
    torch.testing.assert_close(all_weights(on_gpu).cpu(), all_weights(on_cpu), atol=1e-4, rtol=0)


@pytest.fixture(scope="module", params=["minilm", "smollm2"])
def seen(models, request):
    return capture(models[request.param], TEXTS["korean"])


def test_row_links_and_groups_agree_with_the_weights(seen):
    layer, head = 2, 5
    weights = seen.weights(layer, head)
    for query in (0, 3, len(weights) - 1):
        torch.testing.assert_close(seen.row(layer, head, query).weights[0], weights[query])
    links = seen.links(layer, head, k=5)
    best = weights.flatten().topk(5)
    assert [link.weight for link in links] == pytest.approx(best.values.tolist(), abs=1e-6)
    assert links[0] == Link(*divmod(best.indices[0].item(), len(weights)), links[0].weight)
    torch.testing.assert_close(seen.grouped(layer, head, "token"), weights, atol=1e-6, rtol=1e-5)
    for by in ("word", "sentence", 4):
        grouped = seen.grouped(layer, head, by)
        labels = seen.labels(by)[0]
        assert grouped.shape == (len(labels), len(labels)) or by == 4
        torch.testing.assert_close(grouped.sum(dim=-1), torch.ones(len(grouped)))


def test_what_if_without_the_factor(seen):
    plain, unscaled = seen.trace(1, 1), seen.trace(1, 1, Formula(scaled=False))
    torch.testing.assert_close(plain.raw, unscaled.raw)
    torch.testing.assert_close(unscaled.scaled, plain.raw)
    torch.testing.assert_close(plain.scaled, plain.raw * plain.factor)
    assert unscaled.weights.amax(dim=-1).mean() > plain.weights.amax(dim=-1).mean()


def test_no_causal_mask(models):
    seen = capture(models["smollm2"], TEXTS["english"])
    assert seen.weights(0, 0).triu(1).abs().max() == 0
    assert seen.weights(0, 0, Formula(without=["causal"])).triu(1).max() > 0


def test_words_are_summed_over_keys_and_averaged_over_queries(models):
    seen = capture(models["minilm"], "embedding tables")
    tokens, words = seen.weights(0, 0), seen.grouped(0, 0, "word")
    assert seen.labels("word")[0] == ["[CLS]", "embedding", "tables", "[SEP]"]
    assert words[1, 1].item() == pytest.approx(tokens[1:4, 1:4].sum(dim=-1).mean().item(), abs=1e-6)


def test_nothing_that_was_captured_can_be_changed(seen):
    with pytest.raises(dataclasses.FrozenInstanceError):
        seen.tokens = ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        seen.trace(0, 0).weights = None


def test_the_model_is_left_as_it_was(models):
    module = models["minilm"].module
    before = module.config._attn_implementation, module.training
    ids = torch.tensor([[101, 2009, 102]])
    output = module(input_ids=ids).last_hidden_state
    capture(module, input_ids=ids)
    assert (module.config._attn_implementation, module.training) == before
    torch.testing.assert_close(module(input_ids=ids).last_hidden_state, output)


def test_what_does_not_exist_is_named(seen):
    with pytest.raises(IndexError, match="layer 99"):
        seen.trace(99, 0)
    with pytest.raises(IndexError, match="head 99"):
        seen.trace(0, 99)
    with pytest.raises(IndexError, match="query 9999"):
        seen.row(0, 0, 9999)
    with pytest.raises(KeyError, match="cross"):
        seen.trace(0, 0, kind="cross")
    with pytest.raises(ValueError, match="paragraph"):
        seen.grouped(0, 0, "paragraph")


@pytest.mark.parametrize("text", ["", "   ", "\n\n"])
def test_blank_text(models, text):
    with pytest.raises(ValueError, match="no tokens"):
        capture(models["minilm"], text)


def test_more_than_the_model_takes(models):
    with pytest.raises(ValueError, match="512"):
        capture(models["minilm"], "cake " * 600)


def test_a_text_needs_a_tokeniser(models):
    with pytest.raises(TypeError, match="load_model"):
        capture(models["minilm"].module, "cake")


def test_inputs_that_are_none_are_refused_in_a_sentence(models):
    module = models["minilm"].module
    for shape in ((1, 0), (5,), (1, 2, 3)):
        with pytest.raises(ValueError, match="a batch of one sequence"):
            capture(module, input_ids=torch.zeros(shape, dtype=torch.long))
    with pytest.raises(TypeError):
        capture(torch.nn.Linear(2, 2), input_ids=torch.zeros(1, 2, dtype=torch.long))
