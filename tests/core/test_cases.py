"""Small inputs on which other tools fail, with the right answer."""

import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    Gemma2Config,
    Gemma2Model,
    LlamaConfig,
    LlamaModel,
    MistralConfig,
    MistralModel,
    T5Config,
    T5Model,
)

from attention_core import Formula, capture
from attention_core.dot_product import softmax
from attention_core.grouping import group_weights
from attention_core.tokens import read_tokens

IDS = torch.tensor([[1, 2, 3, 4, 5, 6]])
TINY = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 50,
    "intermediate_size": 37,
    "pad_token_id": 0,
}


def same_as_eager(module, seen):
    module.set_attn_implementation("eager")
    with torch.no_grad():
        expected = module(input_ids=IDS, output_attentions=True).attentions
    for layer, weights in enumerate(expected):
        for head in range(4):
            torch.testing.assert_close(seen.weights(layer, head), weights[0, head], atol=1e-5, rtol=0)


def test_bert_with_the_default_kernel():
    module = BertModel(BertConfig(**TINY)).eval()
    seen = capture(module, input_ids=IDS)
    assert (seen.layers, seen.heads) == (2, 4)
    assert seen.weights(0, 0).shape == (6, 6)
    torch.testing.assert_close(seen.weights(1, 3).sum(dim=-1), torch.ones(6), atol=1e-5, rtol=0)
    same_as_eager(module, seen)


def test_llama_with_grouped_heads():
    module = LlamaModel(LlamaConfig(**TINY, num_key_value_heads=2)).eval()
    seen = capture(module, input_ids=IDS)
    assert [seen.group(0, head) for head in range(4)] == [0, 0, 1, 1]
    same_as_eager(module, seen)


def test_mistral_with_a_window():
    module = MistralModel(MistralConfig(**TINY, num_key_value_heads=4, head_dim=8, sliding_window=3)).eval()
    seen = capture(module, input_ids=IDS)
    assert (seen.weights(0, 0)[-1] > 0).sum() == 3
    formula = seen.layer(0).formula
    assert (formula.causal, formula.window, formula.allowed) == (True, 3, None)  # said in words, not in a mask tensor
    assert (seen.weights(0, 0, Formula(without=["window"]))[-1] > 0).all()
    same_as_eager(module, seen)


def test_gemma2_with_a_factor_and_a_cap_of_its_own():
    config = Gemma2Config(**TINY, num_key_value_heads=4, head_dim=8, query_pre_attn_scalar=256, sliding_window=3)
    module = Gemma2Model(config).eval()
    seen = capture(module, input_ids=IDS)
    first, second = seen.layer(0).formula, seen.layer(1).formula
    assert first.multiplier(8) == 0.0625
    assert first.softcap == 50
    assert (first.window, second.window) == (3, None)
    assert [step.name for step in seen.trace(0, 0).steps] == ["softcap"]
    same_as_eager(module, seen)


def test_t5_with_its_terms():
    config = T5Config(d_model=32, num_layers=2, num_heads=4, vocab_size=50, d_ff=37, d_kv=8, decoder_start_token_id=0)
    module = T5Model(config).eval()
    target = IDS[:, :4]
    seen = capture(module, input_ids=IDS, decoder_input_ids=target)
    assert seen.kinds == ("encoder", "decoder", "cross")
    assert seen.layer(0, "encoder").formula.factor == 1.0
    assert [step.name for step in seen.trace(0, 0, kind="encoder").steps] == ["bias"]
    assert seen.trace(0, 0, kind="cross").steps == ()
    assert seen.weights(0, 0, kind="decoder").triu(1).abs().max() == 0
    assert seen.weights(0, 0, kind="cross").shape == (4, 6)
    assert [len(tokens) for tokens in seen.axes("cross")] == [4, 6]
    module.set_attn_implementation("eager")
    with torch.no_grad():
        output = module(input_ids=IDS, decoder_input_ids=target, output_attentions=True)
    for kind, expected in (
        ("encoder", output.encoder_attentions),
        ("decoder", output.decoder_attentions),
        ("cross", output.cross_attentions),
    ):
        for layer, weights in enumerate(expected):
            torch.testing.assert_close(seen.weights(layer, 2, kind=kind), weights[0, 2], atol=1e-5, rtol=0)


def test_gpt_oss_with_a_sink():
    from transformers import GptOssConfig, GptOssModel

    config = GptOssConfig(
        **TINY | {"intermediate_size": 32},
        num_key_value_heads=2,
        head_dim=8,
        num_local_experts=2,
        num_experts_per_tok=1,
    )
    module = GptOssModel(config).eval()
    for layer in module.layers:
        torch.nn.init.normal_(layer.self_attn.sinks)
    seen = capture(module, input_ids=IDS)
    trace = seen.trace(0, 1)
    assert trace.weights.sum(dim=-1).max() < 1
    torch.testing.assert_close(trace.weights.sum(dim=-1) + trace.sink, torch.ones(6))
    same_as_eager(module, seen)


def test_big_negative_scores():
    numbers = [-110208.0547, -110189.8125, -110206.5234, -110208.4531, -110192.6016, 0, 0, 0]
    row = torch.tensor([[numbers]], dtype=torch.float64)  # float32 can't hold these decimals
    allowed = torch.tensor([[[1, 1, 1, 1, 1, 0, 0, 0]]]).bool()
    weights, _ = softmax(row, allowed)
    right = torch.tensor([0, 0.942084, 0, 0, 0.057916, 0, 0, 0], dtype=torch.float64)
    torch.testing.assert_close(weights[0, 0], right, atol=1e-6, rtol=0)


def test_nothing_allowed():
    weights, _ = softmax(torch.tensor([[[1.0, 2.0, 3.0]]]), torch.zeros(1, 1, 3, dtype=torch.bool))
    assert weights.tolist() == [[[0, 0, 0]]]


def test_word_merge():
    rows = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25], [0.4, 0.3, 0.2, 0.1], [0, 0, 0.5, 0.5]])
    words = torch.tensor([0, 1, 1, 2])
    right = torch.tensor([[0.1, 0.5, 0.4], [0.325, 0.5, 0.175], [0, 0.5, 0.5]])
    torch.testing.assert_close(group_weights(rows, words, words), right)


def test_random_weights_are_told_from_trained_ones(models):
    assert not capture(BertModel(BertConfig(**TINY)), input_ids=IDS).pretrained
    assert capture(models["minilm"].module, input_ids=IDS).pretrained


def test_repeated_words_stay_apart(models):
    tokens = read_tokens(models["minilm"].tokenizer, "the cat sat on the mat")
    assert [(t.index, t.text) for t in tokens if t.text == "the"] == [(1, "the"), (5, "the")]


def test_bytes_of_one_character(models):
    text = "東京メトロ 나는 은행에서 돈을 찾았다 💩💩"
    tokens = read_tokens(models["smollm2"].tokenizer, text)
    assert not any("�" in token.label for token in tokens)
    assert {token.text for token in tokens} <= {*"東京メトロ는행에서을았다💩", " 나", " 은", " 돈", " 찾", " 💩"}
    last = tokens[-3:]
    assert [(t.text, t.part, t.parts, text[t.start : t.end]) for t in last] == [("💩", n, 3, "💩") for n in (1, 2, 3)]


def test_white_space_has_marks(models):
    text = "def f(x):\n    return x"
    tokens = read_tokens(models["smollm2"].tokenizer, text)
    assert [t.id for t in tokens] == models["smollm2"].tokenizer(text)["input_ids"]
    assert "".join(t.label for t in tokens) == "def·f(x):↵····return·x"


@pytest.mark.parametrize("name", ["minilm", "smollm2"])
def test_one_start_token_at_most_and_it_is_known_who_added_it(models, name):
    tokens = read_tokens(models[name].tokenizer, "hello world!")
    assert sum(token.added for token in tokens[:2]) <= 1
    assert [t.added for t in tokens] == [t.start == t.end for t in tokens]


@pytest.mark.parametrize("text", ["</script><b>x</b>", "<img src=x onerror=alert(1)>", "$x^2$ **b** |a| `c`"])
@pytest.mark.parametrize("name", ["minilm", "smollm2"])
def test_hostile_text_is_only_text(models, name, text):
    tokens = read_tokens(models[name].tokenizer, text)
    assert "".join(t.text for t in tokens if not t.added).replace(" ", "") == text.replace(" ", "")
