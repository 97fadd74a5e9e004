"""Long texts: a forward pass in pieces and maps of regions, against one that is whole and its dense matrix."""

import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from attention_core import Formula, capture, compute, long_text, patience, trace_attention
from attention_core.errors import ModelHidden, NoTokens, WeightsOnly
from attention_core.grouping import region_attention
from attention_core.long_text import Gone, Region
from attention_core.patience import Closed, Paused, in_pieces
from benchmarks.families import build
from tiny_models import TYPED, family, save

STORY = "The old sailor told us a long story, and we listened because it was cold outside; the fire was bright. " * 9
FAMILIES = ("BERT", "ModernBERT", "GPT-2", "Llama", "Mistral", "Gemma 2", "GPT-OSS")


def dense(weights, region, sizes):
    """Sum over keys and mean over queries, tile by tile, in the slowest and most obvious way."""
    rows = range(region.row, region.row_end, sizes[0])
    columns = range(region.column, region.column_end, sizes[1])
    found = torch.zeros(len(rows), len(columns), dtype=weights.dtype)
    for a, row in enumerate(rows):
        for b, column in enumerate(columns):
            tile = weights[
                row : min(row + sizes[0], region.row_end), column : min(column + sizes[1], region.column_end)
            ]
            found[a, b] = tile.sum(dim=1).mean()
    return found


FORMULAS = {
    "plain": Formula(),
    "causal": Formula(causal=True),
    "window": Formula(causal=True, window=37),
    "both ways": Formula(window=41),
    "sink": Formula(causal=True, sink=torch.tensor([1.5])),
    "softcap": Formula(softcap=3.0, causal=True),
    "temperature": Formula(temperature=0.5),
    "unscaled": Formula(scaled=False),
}
REGIONS = {
    "all": Region(0, 337, 0, 337),
    "square": Region(101, 214, 101, 214),
    "far": Region(290, 331, 3, 60),
    "one": Region(199, 200, 17, 18),
    "wide": Region(7, 11, 0, 337),
    "tall": Region(0, 337, 331, 337),
}


@pytest.mark.parametrize("most", [1, 29, 71])
@pytest.mark.parametrize("region", REGIONS.values(), ids=REGIONS)
@pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS)
def test_a_region_equals_the_dense_matrix(formula, region, most, monkeypatch):
    monkeypatch.setattr("attention_core.grouping.KEY_BLOCK", 61)  # several blocks in a row, some inside one tile
    monkeypatch.setattr("attention_core.grouping.QUERY_BLOCK", 19)
    q, k = 2 * torch.randn(2, 1, 337, 13)
    trace = trace_attention(q, k, k, formula).head(0)
    sizes = region.sizes(most)
    rows, columns = range(region.row, region.row_end), range(region.column, region.column_end)
    found, sinks = region_attention(q, k, formula, rows, columns, sizes)
    torch.testing.assert_close(found, dense(trace.weights, region, sizes), atol=2e-6, rtol=1e-4)
    torch.testing.assert_close(sinks, dense(trace.sink[:, None], Region(*region[:2], 0, 1), (sizes[0], 1))[:, 0])
    if len(columns) == 337:
        torch.testing.assert_close(found.sum(dim=-1) + sinks, torch.ones(len(found)))


def test_large_scores_far_apart_stay_exact():
    q, k = 40 * torch.randn(2, 1, 211, 7)
    found, _ = region_attention(q, k, Formula(), range(211), range(211), (1, 1))
    torch.testing.assert_close(found, trace_attention(q, k, k).weights[0], atol=1e-5, rtol=1e-3)


def in_steps(module, ids, seconds=0.0):
    """Run a model in as many steps as possible, and return what is kept of its layers, and how many steps it took."""
    kept, steps = [], 0

    def job(paused):
        with in_pieces(module, paused, lambda *layer: kept.append(layer)):
            outputs.append(
                module(input_ids=ids, **({"use_cache": False} if hasattr(module.config, "use_cache") else {}))
            )

    outputs = []
    paused = Paused(job)
    while not paused.done:
        paused.step(seconds)
        steps += 1
    return kept, outputs[0][0], steps


@pytest.mark.parametrize("name", FAMILIES)
def test_a_forward_pass_in_pieces_gives_the_same_layers(name, monkeypatch):
    """With causal and sliding windows both ways, soft-caps, sinks, and query heads that share keys."""
    monkeypatch.setattr(patience, "PIECE", 300.0)  # so that everything is cut
    monkeypatch.setattr(patience, "ROWS", 7)
    module = build(family(name))
    ids = torch.randint(3, 61, (1, 37))
    wanted = capture(module, input_ids=ids)
    module.set_attn_implementation("gaze")
    with torch.no_grad():
        output = module(input_ids=ids)[0]
    kept, found, steps = in_steps(module, ids)
    assert steps > 20
    assert len(kept) == wanted.layers
    for (query, key, formula), layer in zip(kept, (wanted.layer(n) for n in range(wanted.layers)), strict=True):
        torch.testing.assert_close(query, layer.query, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(key, layer.key, atol=1e-4, rtol=1e-4)
        everything = range(37)
        own, theirs = (of.block(everything, everything).allowed for of in (formula, layer.formula))
        assert (own is None and theirs is None) or torch.equal(own, theirs)
        assert formula.allowed is None  # said in words, so that no matrix is kept
        assert formula.softcap == layer.formula.softcap
        assert formula.multiplier(query.shape[-1]) == layer.formula.multiplier(query.shape[-1])
        assert (formula.sink is None) == (layer.formula.sink is None)
    torch.testing.assert_close(found, output, atol=1e-4, rtol=1e-4)


def test_no_matrix_of_queries_times_keys_is_made():
    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        largest = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, list | tuple) else [out]:
                if isinstance(tensor, torch.Tensor):
                    self.largest = max(self.largest, tensor.untyped_storage().nbytes())
            return out

    tokens, kept = 2999, []
    config = dict(family("Mistral").config) | {"max_position_embeddings": tokens}
    import transformers

    module = transformers.MistralModel(transformers.MistralConfig(**config)).eval()
    watch = Watch()

    def job(paused):
        with watch, in_pieces(module, paused, lambda *layer: kept.append(layer)):
            module(input_ids=torch.randint(3, 61, (1, tokens)), use_cache=False)

    Paused(job).step(60.0)
    query, key, formula = kept[-1]
    with watch:
        region_attention(query[:1], key[:1], formula, range(tokens), range(tokens), (12, 12))
    assert 0 < watch.largest < tokens**2  # bytes: a mask alone would have as many
    assert len(kept) == 2


def test_a_bias_for_each_pair_is_refused_where_it_would_be_too_large(monkeypatch):
    module = build(family("T5")).get_encoder()
    ids = torch.randint(3, 61, (1, 23))
    kept, _, _ = in_steps(module, ids)
    assert kept[0][2].bias.shape[-2:] == (23, 23)
    monkeypatch.setattr(patience, "MOST_MATRIX", 22**2)
    with pytest.raises(ValueError, match=r"a bias for each pair of positions.*no more than 22 tokens"):
        in_steps(module, ids)


def test_large_products_are_cut_and_stay_the_same(monkeypatch):
    monkeypatch.setattr(patience, "PIECE", 500.0)
    layer, given = nn.Linear(13, 11), torch.randn(1, 31, 13)
    results = []

    def job(paused):
        with patience._Pieces(paused):
            results.append(functional.linear(given, layer.weight, layer.bias))
            results.append(functional.linear(given, layer.weight))

    paused, steps = Paused(job), 0
    while not paused.done:
        paused.step(0.0)
        steps += 1
    assert steps > 60
    torch.testing.assert_close(results[0], layer(given))
    torch.testing.assert_close(results[1], given @ layer.weight.T)


def test_one_alone_works_and_a_job_can_be_ended():
    seen = []

    def job(paused):
        try:
            for n in range(100):
                seen.append((n, threading.current_thread().name))
                paused.pause()
        except Closed:
            seen.append("closed")
            raise

    paused = Paused(job)
    paused.step(0.0)
    paused.step(0.0)
    assert [n for n, _ in seen] == [0, 1]
    paused.close()
    assert seen[-1] == "closed"
    assert paused.done
    paused.step(0.0)  # nothing more
    assert len(seen) == 3
    never = Paused(job)
    never.close()
    assert len(seen) == 3


def test_what_goes_wrong_in_a_job_is_raised_where_it_is_waited_for():
    def job(paused):
        paused.pause()
        raise ValueError("wrong")

    paused = Paused(job)
    paused.step(0.0)
    with pytest.raises(ValueError, match="wrong"):
        paused.step(0.0)
    assert paused.done


@pytest.fixture
def read():
    """A story read by SmolLM2, up to the last layer."""
    compute.run(lambda: [long_text._runs.pop(name).paused.close() for name in list(long_text._runs)])
    found = long_text.begin("smollm2", STORY)
    while long_text.step(found.name, 3).done < found.layers:
        pass
    return found


def test_a_story_through_the_embedded_model(read):
    seen = compute.run(compute._seen, "smollm2", STORY, 512)
    assert (read.tokens, read.layers, read.heads) == (len(seen.tokens), 30, 9)
    assert read.words(0, read.tokens) == STORY
    assert read.words(3, 5) == "".join(token.text for token in seen.tokens[3:5])
    for layer, head in ((25, 2), (0, 8), (29, 0)):
        weights = compute.run(seen.weights, layer, head)
        found = long_text.region_map(read.name, layer, head, Region(0, read.tokens, 0, read.tokens), 23)
        np.testing.assert_allclose(found.weights, dense(weights, found.region, found.sizes), atol=2e-5)
        np.testing.assert_allclose(found.weights.sum(axis=1), 1, atol=1e-5)
        assert (found.weights[~found.allowed] == 0).all()
        assert (found.allowed == np.tril(np.ones_like(found.weights, dtype=bool))).all()
        part = Region(101, 143, 5, 120)
        zoomed = long_text.region_map(read.name, layer, head, part)
        assert zoomed.sizes == (1, 1)
        np.testing.assert_allclose(zoomed.weights, weights[101:143, 5:120].numpy(), atol=2e-5)
        np.testing.assert_allclose(zoomed.weights.sum(axis=1), weights[101:143, 5:120].sum(-1).numpy(), atol=2e-5)
        best = zoomed.links(7)
        wanted = np.sort(zoomed.weights.ravel())[::-1][:7]
        np.testing.assert_array_equal([weight for _, _, weight in best], wanted)
        row, column, weight = best[0]
        assert zoomed.weights[row, column] == weight
        assert (zoomed.queries(row), zoomed.keys(column)) == (
            range(101 + row, 102 + row),
            range(5 + column, 6 + column),
        )
    small = long_text.small_maps(read.name, 25, 9, Region(0, read.tokens, 0, read.tokens))
    assert small.shape == (9, 42, 42)
    assert (small.max(axis=(1, 2)) == 255).all()


def test_pieces_make_up_the_same_map(read, monkeypatch):
    region, told = Region(3, read.tokens, 0, read.tokens - 1), []
    whole = long_text.region_map(read.name, 7, 4, region, 31)
    monkeypatch.setattr(patience, "PIECE", 1.0)
    pieces = long_text.region_map(read.name, 7, 4, region, 31, told.append)
    assert len(told) == len(pieces.weights) > 20
    assert told[-1] == 1
    np.testing.assert_allclose(pieces.weights, whole.weights, atol=1e-6)


def test_what_does_not_fit_memory_is_dropped_and_what_is_wanted_stays(monkeypatch):
    found = long_text.begin("smollm2", STORY, again=True)
    each = found.tokens * (9 + 3) * 64 * 4
    monkeypatch.setenv("GAZE_LONG_MB", str(4.5 * each / 2**20))
    found = long_text.begin("smollm2", STORY, again=True)
    while (last := long_text.step(found.name, 11)).done < found.layers:
        assert sum(run.bytes for run in long_text._runs.values()) <= 4.5 * each
    assert 11 in last.kept
    assert len(last.kept) == 4
    with pytest.raises(Gone, match="layer 29"):
        long_text.region_map(found.name, 29, 0, Region(0, 5, 0, 5))
    other = long_text.begin("smollm2", "Another text that is read", again=True)
    while long_text.step(other.name, 0).done < 30:
        pass
    assert long_text.progress(found.name) is None  # the oldest leaves
    with pytest.raises(Gone, match="no longer kept"):
        long_text.step(found.name, 0)
    assert long_text.begin("smollm2", STORY * 40).bound == "memory"


@pytest.mark.parametrize(
    ("text", "tokens", "cut"),
    [("a" * 50_000, None, 1), ("\n" * 32_768, 8192, 0), ("word " * 100_000, 8192, None), ("\ud800 x " * 3, None, 0)],
    ids=["one word", "line breaks", "many words", "surrogates"],
)
def test_odd_texts_are_cut_and_read(text, tokens, cut):
    found = long_text.begin("smollm2", text)
    assert 0 < found.tokens <= 8192
    if tokens:
        assert found.tokens == tokens
    assert found.cut == (cut if cut is not None else 100_000 - len(found.text.split()))
    compute.run(lambda: long_text._runs.pop(found.name).paused.close())


def test_the_model_s_own_limit_is_said():
    found = long_text.begin("minilm", STORY * 9)
    assert (found.limit, found.bound) == (512, "model")
    assert found.tokens <= 512
    assert found.cut == len((STORY * 9).split()) - len(found.text.split()) > 0
    assert found.words(0, 2).startswith("[CLS]")
    assert long_text.begin("minilm", STORY * 9, 100).bound == "gaze"


def test_regions_beyond_the_text_are_refused(read):
    for region in (Region(0, read.tokens + 1, 0, 5), Region(5, 5, 0, 5), Region(0, 5, -1, 5)):
        with pytest.raises(ValueError, match="does not fit a text of"):
            long_text.region_map(read.name, 0, 0, region)


def test_texts_and_models_that_can_t_be_read_say_so(tmp_path, monkeypatch):
    with pytest.raises(NoTokens):
        long_text.begin("minilm", "  \n ")
    monkeypatch.setenv("GAZE_MODELS_DIR", str(tmp_path))
    with pytest.raises(WeightsOnly):
        long_text.begin(save(tmp_path, "BLOOM"), TYPED)
    monkeypatch.setattr(patience, "MOST_MATRIX", 4)
    biased = long_text.begin(save(tmp_path, "T5"), TYPED)
    assert biased.half
    with pytest.raises(ModelHidden, match="a bias for each pair"):
        long_text.step(biased.name, 0)
    assert long_text.progress(biased.name) is None


def test_parts_of_a_text_are_the_whole_text(read):
    for size in (1, 3, 50):
        spans = [range(low, min(low + size, read.tokens)) for low in range(0, read.tokens, size)]
        assert "".join(read.parts(spans)) == STORY
        assert read.parts(spans[2:4]) == [read.text[read.starts[s.start] : read.ends[s.stop - 1]] for s in spans[2:4]]
    found = long_text.begin("minilm", "I ate the cake")
    assert found.parts([range(0, 2), range(2, 4), range(4, 6)]) == ["[CLS] I ", "ate the ", "cake [SEP]"]
    assert found.parts([range(5, 6)]) == ["[SEP] "]
    korean = long_text.begin("smollm2", "뷁은")
    parts = korean.parts([range(n, n + 1) for n in range(korean.tokens)])
    assert all(parts)
    assert parts[-1].endswith("은")
