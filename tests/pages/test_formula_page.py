"""The formula of the chosen head: as the model has it, and without some of its terms."""

import numpy as np
import pytest
import torch
from transformers import BertTokenizerFast, Gemma2Config, Gemma2ForCausalLM

from attention_core import Capture, Formula
from attention_core.interface import LayerAttention
from attention_core.tokens import Token
from attention_core.views import view_head
from pages.test_pages import SENTENCE, arrays, captions, link
from ui.formula import equation

HEAT = "heat-{}-token-shown"


def shown(page):
    return page.latex[0].value


def said(page):
    return captions(page).replace("\\", "")


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_the_formulas_of_the_embedded_models(open_page, lang):
    page = open_page(SENTENCE, lang=lang)
    assert r"\operatorname{softmax}_{j}\!\left(\frac{q_i \cdot k_j}{\sqrt{32}}\right)" in shown(page)
    assert "0.1768 = 1/√32" in said(page)
    page = open_page(SENTENCE, lang=lang, model="smollm2")
    assert r"\operatorname{softmax}_{j \le i}\!\left(\frac{q_i \cdot k_j}{\sqrt{64}}\right)" in shown(page)


def test_without_factor_and_mask(open_page):
    page = open_page(SENTENCE, lang="en", model="smollm2", layer="3", head="4")
    drawn = arrays(page, HEAT.format("smollm2"))
    page.pills(key="without").set_value(["factor", "causal"]).run()
    assert not page.exception
    assert link(page)["without"] == "factor-causal"
    assert r"\operatorname{softmax}_{j}\!\left(q_i \cdot k_j\right)" in shown(page)
    assert "without factor, causal mask" in said(page)
    changed = arrays(page, HEAT.format("smollm2"))
    np.testing.assert_array_equal(changed["raw"], drawn["raw"])
    scores = np.exp(changed["raw"].astype(float) - changed["raw"].max(axis=1, keepdims=True))
    np.testing.assert_allclose(changed["weights"], scores / scores.sum(axis=1, keepdims=True), atol=1e-5)
    page.pills(key="without").set_value([]).run()
    np.testing.assert_array_equal(arrays(page, HEAT.format("smollm2"))["weights"], drawn["weights"])


@pytest.mark.parametrize("bad", ["softmax", "factor-x", "<b>"])
def test_a_term_that_does_not_exist_is_said(open_page, bad):
    page = open_page(SENTENCE, lang="en", without=bad)
    assert not page.exception
    assert "without" not in link(page)
    assert "without" in said(page)


def test_a_model_of_one_s_own_with_more_terms(open_page, tmp_path, monkeypatch):
    """Gemma 2: a factor of its own, a soft-cap, and layers with and without a window."""
    typed = "i ate the cake and it was delicious"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *typed.split()]
    folder = tmp_path / "tiny-gemma"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(3)
    Gemma2ForCausalLM(
        Gemma2Config(
            vocab_size=13,
            hidden_size=32,
            intermediate_size=19,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            query_pre_attn_scalar=256,
            attn_logit_softcapping=50.0,
            sliding_window=3,
        )
    ).save_pretrained(folder)
    monkeypatch.setenv("GAZE_MODELS_DIR", str(tmp_path))
    page = open_page(SENTENCE, lang="en", model="tiny-gemma", layer="1", head="1", text="I ate the cake")
    assert not page.exception
    assert r"\sqrt{256}" in shown(page)
    assert r"50 \tanh" in shown(page)
    assert r"j \le i, j > i - 3" in shown(page)
    assert "Factor 0.0625 = 1/√256: “query_pre_attn_scalar” is 256 in the model's configuration." in said(page)
    assert "1/√dₖ would be 1/√8" in said(page)
    assert "Heads 1, 2 of this layer read key-value head 1 of 2" in said(page)
    assert "Local layers (window 3): 1" in said(page)
    assert "Window 3" in said(page)
    before = arrays(page, HEAT.format("tiny-gemma"))["weights"]
    assert (before[-1] > 0).sum() == 3
    page.pills(key="without").set_value(["window"]).run()
    assert (arrays(page, HEAT.format("tiny-gemma"))["weights"][-1] > 0).sum() == before.shape[1]
    page = open_page(
        SENTENCE, lang="en", model="tiny-gemma", layer="2", head="1", text="I ate the cake", without="window"
    )
    assert "i - 3" not in shown(page)  # the full layer has no window to leave out


def view(formula):
    tokens = tuple(Token(i, i, str(i), str(i), 0, 0, False, False, i) for i in range(3))
    query, key, value = torch.randn(4, 3, 8), torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    attention = LayerAttention(query, key, value, formula, "self", "here")
    return view_head(Capture("", tokens, (), {"self": (attention,)}, True), 0, 1)


@pytest.mark.parametrize(
    ("formula", "parts"),
    [
        (Formula(factor=1.0), [r"softmax}_{j}\!\left(q_i \cdot k_j\right)"]),
        (Formula(factor=0.3), [r"0.3\; q_i \cdot k_j"]),
        (Formula(bias=torch.zeros(4, 3, 3)), [r"\frac{q_i \cdot k_j}{\sqrt{8}} + b_{ij}"]),
        (Formula(sink=torch.tensor([0.0, 1.5, 0.0, 0.0])), [r",\; 1.5\right)"]),
        (Formula(allowed=torch.ones(1, 3, 3, dtype=torch.bool)), [r"_{\text{allowed}}"]),
        (Formula(causal=True, window=2, softcap=30.0), [r"_{j \le i, j > i - 2}", r"30 \tanh"]),
    ],
)
def test_every_term_stands_in_the_equation(formula, parts):
    for part in parts:
        assert part in equation(view(formula))
    assert equation(view(formula), ("factor", "bias", "sink", "softcap", "causal", "window")).count("{8}") == 0
