"""Many heads as one map: against slow, obvious versions on small random heads, by hand, and by identity."""

from types import MappingProxyType

import networkx
import pytest
import torch
from transformers import AutoModel, BertConfig, GPT2Config, LlamaConfig

from attention_core import Capture, aggregate, capture
from attention_core.formula import Formula
from attention_core.interface import LayerAttention
from attention_core.tokens import Token

IDS = torch.tensor([[5, 3, 2, 7, 5, 6, 1]])
CONFIGS = {
    "bert": BertConfig(hidden_size=22, num_attention_heads=11, num_hidden_layers=3, intermediate_size=8, vocab_size=13),
    "llama": LlamaConfig(
        hidden_size=24,
        num_attention_heads=6,
        num_key_value_heads=3,
        num_hidden_layers=3,
        intermediate_size=8,
        vocab_size=13,
    ),
    "gpt2": GPT2Config(n_embd=20, n_head=5, n_layer=3, vocab_size=13, bos_token_id=0, eos_token_id=0),
}


@pytest.fixture(scope="module", params=CONFIGS)
def case(request):
    torch.manual_seed(7)
    module = AutoModel.from_config(CONFIGS[request.param], attn_implementation="gaze").eval()
    for weight in module.parameters():
        torch.nn.init.normal_(weight, std=0.7)  # as they come, all rows would be nearly even
    return module, capture(module, input_ids=IDS)


def made(*layers):
    """A capture whose heads have exactly these weights, each (H, T, T) with rows that sum to 1."""
    tokens = tuple(Token(i, i, str(i), str(i), 0, 0, False, False, i) for i in range(layers[0].shape[-1]))
    attention = []
    for weights in layers:
        eye = torch.eye(weights.shape[-1]).expand_as(weights).contiguous()
        attention.append(LayerAttention(weights.log().clamp_min(-1e4), eye, eye, Formula(factor=1.0), "self", ""))
    return Capture("", tokens, (), MappingProxyType({"self": tuple(attention)}), True)


def means(seen):
    return torch.stack([aggregate.head_mean(seen, layer) for layer in range(seen.layers)])


def maxima(seen):
    return torch.stack([aggregate.head_largest(seen, layer) for layer in range(seen.layers)])


WAYS = {
    "mean": lambda seen: aggregate.mean(means(seen)),
    "largest": lambda seen: aggregate.largest(maxima(seen)),
    "rollout": lambda seen: aggregate.rollout(means(seen)),
    "flow": lambda seen: aggregate.flow(means(seen)),
}


def every(seen):
    return torch.stack([torch.stack([seen.weights(i, h) for h in range(seen.heads)]) for i in range(seen.layers)])


def test_mean_and_largest_are_those_of_all_heads_at_once(case):
    _, seen = case
    weights = every(seen)
    torch.testing.assert_close(WAYS["mean"](seen), weights.mean(dim=(0, 1)))
    torch.testing.assert_close(aggregate.head_mean(seen, 1), weights[1].mean(dim=0))
    most = weights.amax(dim=(0, 1))
    torch.testing.assert_close(WAYS["largest"](seen), most / most.sum(dim=-1, keepdim=True))


def test_rollout_is_the_sum_over_all_paths(case):
    """A path is a position a layer; its share is the product of its steps."""
    _, seen = case
    steps = (every(seen).mean(dim=1) + torch.eye(7)) / 2
    slow = torch.zeros(7, 7)
    for output in range(7):
        for a in range(7):
            for b in range(7):
                for entry in range(7):
                    slow[output, entry] += steps[2, output, a] * steps[1, a, b] * steps[0, b, entry]
    torch.testing.assert_close(WAYS["rollout"](seen), slow)


def test_flow_is_networkx_s(case):
    _, seen = case
    steps = (every(seen).mean(dim=1) + torch.eye(7)) / 2
    graph = networkx.DiGraph()
    for layer in range(3):
        for query in range(7):
            for key in range(7):
                if steps[layer, query, key] > 0:
                    graph.add_edge((layer + 1, query), (layer, key), capacity=float(steps[layer, query, key]))
    slow = torch.zeros(7, 7)
    for output in range(7):
        for entry in range(7):
            if (0, entry) in graph:
                slow[output, entry] = networkx.maximum_flow_value(graph, (3, output), (0, entry))
    torch.testing.assert_close(WAYS["flow"](seen), slow / slow.sum(dim=-1, keepdim=True), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_rows_sum_to_one(case, way):
    found = way(case[1])
    torch.testing.assert_close(found.sum(dim=-1), torch.ones(7))
    assert (found >= 0).all()


def test_by_hand():
    """Two layers of one head on two tokens: the first layer looks at token 0 only, the second swaps them."""
    first, second = torch.tensor([[[1.0, 0], [1, 0]]]), torch.tensor([[[0.0, 1], [1, 0]]])
    seen = made(first, second)
    # (I + A)/2: [[1, 0], [.5, .5]] and [[.5, .5], [.5, .5]]
    torch.testing.assert_close(WAYS["rollout"](seen), torch.tensor([[0.75, 0.25], [0.75, 0.25]]))
    # From an output to entry 0: pipes of 1/2 to each middle, which pass on 1 and 1/2; to entry 1: only 1/2.
    torch.testing.assert_close(WAYS["flow"](seen), torch.tensor([[2 / 3, 1 / 3], [2 / 3, 1 / 3]]))
    torch.testing.assert_close(WAYS["mean"](seen), torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
    torch.testing.assert_close(WAYS["largest"](seen), torch.tensor([[0.5, 0.5], [1.0, 0.0]]))


def test_heads_that_stay_where_they_are_move_nothing():
    seen = made(*[torch.eye(5).expand(3, 5, 5)] * 4)
    for way in WAYS.values():
        torch.testing.assert_close(way(seen), torch.eye(5))


def test_value_norms_add_up_to_what_the_layer_adds(case):
    """The vectors whose lengths are returned, summed over keys and heads, are the projection without its bias."""
    module, seen = case
    layer, parts, outputs = 1, torch.zeros(7, 7, module.config.hidden_size), {}
    own = seen.layer(layer)
    project = aggregate.output_projection(module, own.name, own.query.shape[0] * own.value.shape[-1])
    size = own.value.shape[-1]
    for head in range(seen.heads):
        moved = own.value[seen.group(layer, head)] @ project[:, head * size : (head + 1) * size].mT
        vectors = seen.weights(layer, head)[..., None] * moved
        torch.testing.assert_close(aggregate.value_norms(seen, module, layer, head), vectors.norm(dim=-1))
        parts += vectors
    layer_module = next(
        m
        for name, m in module.named_modules()
        if name.endswith(("layer.1.attention.output.dense", "layers.1.self_attn.o_proj", "h.1.attn.c_proj"))
    )
    with torch.no_grad():
        layer_module.register_forward_hook(lambda _, __, out: outputs.update(out=out[0]))
        module(input_ids=IDS)
    bias = layer_module.bias if getattr(layer_module, "bias", None) is not None else 0
    torch.testing.assert_close(parts.sum(dim=1), outputs["out"] - bias, atol=1e-4, rtol=1e-4)


def test_a_model_without_a_known_output_projection_is_refused(case):
    with pytest.raises(LookupError, match="output projection"):
        aggregate.output_projection(case[0], case[1].layer(0).name, 997)


def test_a_long_text_has_no_flow():
    seen = made(torch.eye(33)[None])
    with pytest.raises(ValueError, match="at most 32 tokens, not 33"):
        WAYS["flow"](seen)


def test_a_flow_can_be_computed_row_by_row(case):
    whole = aggregate.flow(means(case[1]))
    torch.testing.assert_close(aggregate.flow(means(case[1]), range(2, 5)), whole[2:5])
