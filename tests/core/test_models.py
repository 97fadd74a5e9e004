"""The models' files: found, checked, converted once, and told plainly where something is wrong with them.

torch and transformers are imported where they are needed, since the processes that are started here import this file.
"""

import base64
import hashlib
import json
import multiprocessing
import shutil
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from attention_core.errors import (
    REPAIR,
    FolderBroken,
    HeadsDoNotDivide,
    KindUnknown,
    ModelDamaged,
    ModelMissing,
    ModelUnknown,
    NoNetwork,
    NoTokeniser,
    PickleOnly,
    RemoteCode,
)
from attention_core.models import embedded
from attention_core.models.embedded import EMBEDDED, Embedded, converted_folder, published_file

ROOT = Path(__file__).parents[2]
VOCABULARY = ("<s>", "</s>", *"abcdefghijklmnopqrs", "Ġ", "ab")
WIDTH, INNER, HEADS, LAYERS = 24, 29, 3, 2


def write_gguf(path, seed=0):
    """Write a Llama of a few thousand numbers as llama.cpp would."""
    import gguf
    import numpy as np

    random = np.random.default_rng(seed)
    file = gguf.GGUFWriter(path, "llama")
    file.add_context_length(37)
    file.add_embedding_length(WIDTH)
    file.add_block_count(LAYERS)
    file.add_feed_forward_length(INNER)
    file.add_head_count(HEADS)
    file.add_head_count_kv(1)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_rope_freq_base(1e4)
    file.add_rope_dimension_count(WIDTH // HEADS)
    file.add_vocab_size(len(VOCABULARY))
    file.add_tokenizer_model("gpt2")
    file.add_token_list(VOCABULARY)
    file.add_token_types([3, 3] + [1] * (len(VOCABULARY) - 2))
    file.add_token_merges(["a b"])
    file.add_bos_token_id(0)
    file.add_eos_token_id(1)
    shapes = {"token_embd": (len(VOCABULARY), WIDTH), "output_norm": (WIDTH,)}
    for layer in range(LAYERS):
        shapes |= {f"blk.{layer}.attn_{name}": (WIDTH, WIDTH) for name in ("q", "output")}
        shapes |= {f"blk.{layer}.attn_{name}": (WIDTH // HEADS, WIDTH) for name in ("k", "v")}
        shapes |= {f"blk.{layer}.ffn_{name}": (INNER, WIDTH) for name in ("gate", "up")}
        shapes |= {f"blk.{layer}.ffn_down": (WIDTH, INNER)}
        shapes |= {f"blk.{layer}.{name}_norm": (WIDTH,) for name in ("attn", "ffn")}
    for name, shape in shapes.items():
        file.add_tensor(f"{name}.weight", random.normal(size=shape).astype(np.float32))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    return write_gguf(tmp_path_factory.mktemp("published") / "tiny.gguf")


@pytest.fixture
def gguf(published, tmp_path, monkeypatch):
    """A tiny model as published, and a cache folder that is still empty."""
    monkeypatch.setenv("GAZE_CACHE_DIR", str(tmp_path / "cache"))
    return published


@pytest.fixture
def installed(gguf, tmp_path, monkeypatch):
    """The tiny model as an embedded one, installed as pip would do it; gives its folder."""
    site = tmp_path / "site"
    folder, records = site / "gaze_tiny", site / "gaze_tiny-1.0.dist-info"
    for place in (folder, records):
        place.mkdir(parents=True)
    shutil.copy(gguf, folder / "tiny.gguf")
    (folder / "config.json").write_text("{}")
    (folder / "README.txt.orig").write_text("nothing that a model reads")
    (records / "METADATA").write_text("Metadata-Version: 2.1\nName: gaze-tiny\nVersion: 1.0\n")
    lines = []
    for file in folder.iterdir():
        digest = base64.urlsafe_b64encode(hashlib.sha256(file.read_bytes()).digest()).decode().rstrip("=")
        lines.append(f"gaze_tiny/{file.name},sha256={digest},{file.stat().st_size}\n")
    (records / "RECORD").write_text("".join([*lines, "gaze_tiny-1.0.dist-info/RECORD,,\n"]))
    monkeypatch.syspath_prepend(site)
    monkeypatch.setitem(EMBEDDED, "tiny", Embedded("Tiny", "gaze-tiny", "gaze_tiny/tiny.gguf", "MIT"))
    return folder


def content(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_embedded_models_are_as_published():
    digest = hashlib.sha256(published_file("minilm").read_bytes()).hexdigest()
    assert digest == "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # the original's
    assert published_file("smollm2").suffix == ".gguf"


def test_a_package_that_is_not_installed(monkeypatch):
    from attention_core import load_model

    monkeypatch.setitem(EMBEDDED, "minilm", EMBEDDED["minilm"]._replace(package="gaze-has-no-such-package"))
    with pytest.raises(ModelMissing, match="gaze-has-no-such-package is not installed") as caught:
        load_model("minilm")
    assert (caught.value.model, caught.value.repair) == ("MiniLM-L6", REPAIR)
    assert str(caught.value).endswith(REPAIR)
    assert (ROOT / REPAIR.split()[-1]).is_file()


@pytest.mark.parametrize("name", ["tiny.gguf", "config.json"])
def test_a_file_that_has_gone(installed, name):
    assert published_file("tiny") == installed / "tiny.gguf"
    (installed / name).unlink()
    with pytest.raises(ModelMissing, match=name) as caught:
        published_file("tiny")
    assert caught.value.repair == REPAIR


@pytest.mark.parametrize("name", ["tiny.gguf", "config.json"])
def test_a_wrong_checksum(installed, name):
    from attention_core import load_model

    file = installed / name
    file.write_bytes(file.read_bytes()[:-1] + b" ")
    with pytest.raises(ModelDamaged, match=f"{name} is not as published") as caught:
        load_model("tiny")
    assert caught.value.repair == REPAIR


def test_only_what_a_model_reads_is_checked(installed):
    (installed / "README.txt.orig").write_text("changed")
    assert published_file("tiny").is_file()


def test_a_file_that_the_package_does_not_know(installed, monkeypatch):
    monkeypatch.setitem(EMBEDDED, "tiny", EMBEDDED["tiny"]._replace(weights="gaze_tiny/other.gguf"))
    with pytest.raises(ModelMissing, match=r"other\.gguf is not there"):
        published_file("tiny")


def test_conversion_keeps_every_number(gguf):
    import torch
    from transformers import AutoModelForCausalLM

    folder = converted_folder(gguf)
    converted = AutoModelForCausalLM.from_pretrained(folder, use_safetensors=True).state_dict()
    plain = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name).state_dict()
    assert converted.keys() == plain.keys()
    assert all(torch.equal(converted[name], plain[name]) for name in plain)


def test_what_is_whole_is_not_made_again(gguf, monkeypatch):
    folder = converted_folder(gguf)
    monkeypatch.setattr(embedded, "_convert", lambda *_: pytest.fail("converted a second time"))
    assert converted_folder(gguf) == folder


def test_another_release_of_the_same_size_is_another_model(gguf, tmp_path):
    other = write_gguf(tmp_path / gguf.name, seed=1)
    assert other.stat().st_size == gguf.stat().st_size
    assert converted_folder(other) != converted_folder(gguf)


BREAKS = {
    "no manifest": lambda folder: (folder / embedded.MANIFEST).unlink(),
    "a manifest of nothing": lambda folder: (folder / embedded.MANIFEST).write_text("{}"),
    "another kind of manifest": lambda folder: (folder / embedded.MANIFEST).write_text("[1]"),
    "a torn manifest": lambda folder: (folder / embedded.MANIFEST).write_bytes(b'{"config'),
    "not a text": lambda folder: (folder / embedded.MANIFEST).write_bytes(b"\xff\xfe\x00"),
    "half the weights": lambda folder: (folder / "model.safetensors").write_bytes(b"\x00" * 1000),
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "an altered configuration": lambda folder: (folder / "config.json").write_text("{}"),
    "an empty folder": lambda folder: (shutil.rmtree(folder), folder.mkdir()),
    "a file in its place": lambda folder: (shutil.rmtree(folder), folder.write_text("")),
    "a link to nowhere": lambda folder: (shutil.rmtree(folder), folder.symlink_to("nowhere")),
}


@pytest.mark.parametrize("spoil", BREAKS.values(), ids=BREAKS.keys())
def test_a_broken_cache_is_made_again(gguf, spoil):
    folder = converted_folder(gguf)
    whole = content(folder)
    spoil(folder)
    assert converted_folder(gguf) == folder
    assert content(folder) == whole


def test_nothing_has_the_final_name_until_it_is_whole(gguf, monkeypatch):
    seen = []
    digest = embedded._digest

    def look(path):
        seen.append([place.name for place in embedded.cache_folder().glob("tiny-*[!k]")])
        return digest(path)

    monkeypatch.setattr(embedded, "_digest", look)
    folder = converted_folder(gguf)
    assert len(seen) > 4  # the published file, then each file that was written
    assert not any(seen)
    manifest = json.loads((folder / embedded.MANIFEST).read_text())
    assert {*manifest, embedded.MANIFEST} == set(content(folder))


@pytest.mark.parametrize("kind", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_conversion_leaves_nothing(gguf, monkeypatch, kind):
    def interrupted(self, folder, **_):
        (Path(folder) / "model.safetensors").write_bytes(b"half")
        raise kind

    monkeypatch.setattr("transformers.LlamaForCausalLM.save_pretrained", interrupted)
    with pytest.raises(kind):
        converted_folder(gguf)
    assert [place.suffix for place in embedded.cache_folder().iterdir()] in ([], [".lock"])
    monkeypatch.undo()


def test_what_a_killed_conversion_left_is_removed(gguf):
    folder = converted_folder(gguf)
    shutil.rmtree(folder)
    killed, others = folder.with_name(f".{folder.name}-x7"), folder.with_name(".another-model-x7")
    for place in (killed, others):
        place.mkdir()
        (place / "model.safetensors").write_bytes(b"half")
    assert converted_folder(gguf) == folder
    assert not killed.exists()
    assert others.exists()  # its own conversion may be under way


def ask_for_the_folder(gguf, log, start):
    """What each of two processes does."""

    def slow(_, folder):
        with log.open("a") as file:
            file.write("converted\n")
        time.sleep(1)  # the other one is surely waiting by now
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"weights")
        (folder / embedded.MANIFEST).write_text(
            json.dumps({"model.safetensors": hashlib.sha256(b"weights").hexdigest()})
        )

    embedded._convert = slow
    start.wait(timeout=60)
    assert content(converted_folder(gguf)).keys() == {"model.safetensors", embedded.MANIFEST}


def test_two_processes_that_start_at_once_convert_once(gguf, tmp_path, monkeypatch):
    # A page that was tested before in this process counts as its main script, which new processes would run.
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    context = multiprocessing.get_context("spawn")
    log, start = tmp_path / "log", context.Barrier(2)
    both = [context.Process(target=ask_for_the_folder, args=(gguf, log, start)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(timeout=120)
    assert [process.exitcode for process in both] == [0, 0]
    assert log.read_text() == "converted\n"


def test_a_cache_that_can_not_be_written(installed, tmp_path, monkeypatch):
    import torch

    from attention_core import capture, load_model

    cached = load_model("tiny", "cpu")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GAZE_CACHE_DIR", str(tmp_path / "file"))
    assert converted_folder(published_file("tiny")) is None
    direct = load_model("tiny", "cpu")
    assert direct.limit == cached.limit == 37
    assert type(direct.module) is type(cached.module)
    one, other = (capture(model, "abc de") for model in (cached, direct))
    assert one.tokens == other.tokens
    assert torch.equal(one.weights(1, 2), other.weights(1, 2))


def test_a_full_disk(installed, monkeypatch):
    from safetensors import SafetensorError

    from attention_core import load_model

    def full(*_, **__):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("transformers.LlamaForCausalLM.save_pretrained", full)
    assert converted_folder(published_file("tiny")) is None
    assert load_model("tiny", "cpu").title == "Tiny"


def test_smollm2_without_a_cache_is_the_same_model(models, tmp_path, monkeypatch):
    import torch

    from attention_core import load_model
    from attention_core.tokens import read_tokens

    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GAZE_CACHE_DIR", str(tmp_path / "file"))
    direct, cached = load_model("smollm2", "cpu"), models["smollm2"]
    ours, theirs = (model.module.state_dict() for model in (direct, cached))
    assert ours.keys() == theirs.keys()
    for name in [name for name in ours if ".0." in name or ".29." in name or "embed" in name]:
        assert torch.equal(ours[name], theirs[name])
    text = "I ate the cake 은행 💩"
    assert read_tokens(direct.tokenizer, text) == read_tokens(cached.tokenizer, text)
    assert (direct.limit, direct.title) == (cached.limit, cached.title)


def test_where_the_cache_is(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "cached")
    monkeypatch.delenv("GAZE_CACHE_DIR", raising=False)
    assert embedded.cache_folder() == Path("cached/gaze")
    monkeypatch.setenv("GAZE_CACHE_DIR", "elsewhere")
    assert embedded.cache_folder() == Path("elsewhere")
    monkeypatch.delenv("GAZE_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert embedded.cache_folder() == Path.home() / ".cache/gaze"


@pytest.fixture
def offline(monkeypatch):
    """What HF_HUB_OFFLINE=1 does, which is read only once a process."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize(
    "name", ["nonsense/model", "nonsense", "", " ", "a/b/c/d", "x" * 5000, "\x00", "~nobody/x", "<b>x</b>", "은행/💩"]
)
def test_a_model_that_is_not_there(name):
    from attention_core import load_model

    with pytest.raises(NoNetwork if name in ("nonsense/model", "nonsense") else ModelUnknown) as caught:
        load_model(name)
    assert "minilm and smollm2 need none" in caught.value.repair
    assert caught.value.reason.strip()
    assert ".." not in str(caught.value).replace(name or "∅", "")


@pytest.fixture(scope="module")
def saved(tmp_path_factory, models):
    """A folder with a tiny BERT, of random weights, and a tokeniser."""
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("own")
    tokenizer = models["minilm"].tokenizer
    config = BertConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=37,
        vocab_size=len(tokenizer),
        max_position_embeddings=61,
    )
    BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def own(saved, tmp_path):
    """A copy of it that may be spoilt."""
    return Path(shutil.copytree(saved, tmp_path / "my model"))


def test_a_folder_of_ones_own(own):
    from attention_core import capture, load_model

    model = load_model(str(own), "cpu")
    assert (model.name, model.title, model.limit, model.device) == (str(own), "my model", 61, "cpu")
    assert not model.module.training
    seen = capture(model, "the cat sat")
    assert (seen.layers, seen.heads, seen.weights(1, 3).shape) == (2, 4, (5, 5))
    assert [token.text for token in seen.tokens] == ["[CLS]", "the", "cat", "sat", "[SEP]"]
    with pytest.raises(ValueError, match="61"):
        capture(model, "cat " * 61)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_gives_float32_scores(own, dtype):
    import torch
    from transformers import BertModel

    from attention_core import capture, load_model

    BertModel.from_pretrained(own, dtype=dtype).save_pretrained(own)
    seen = capture(load_model(str(own), "cpu"), "the cat sat")
    assert seen.layer(0).query.dtype == getattr(torch, dtype)  # kept as the model has it
    trace = seen.trace(1, 2)
    kinds = {trace.raw.dtype, trace.scaled.dtype, trace.weights.dtype, trace.context.dtype, seen.grouped(1, 2).dtype}
    assert kinds == {torch.float32}
    torch.testing.assert_close(trace.weights.sum(dim=-1), torch.ones(5))


def test_an_empty_folder(tmp_path):
    from attention_core import load_model

    with pytest.raises(FolderBroken, match=r"model\.safetensors") as caught:
        load_model(str(tmp_path))
    assert caught.value.model == tmp_path.name
    assert str(tmp_path) not in caught.value.reason


def pickle_only(folder):
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def edit(folder, **changes):
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))


def own_code(folder):
    edit(folder, model_type="own", auto_map={"AutoConfig": "code.Config", "AutoModel": "code.Model"})
    (folder / "code.py").write_text("raise SystemExit('this was run')")


def no_tokeniser(folder):
    for file in folder.glob("*token*"):
        file.unlink()


def cut(name, size):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size])


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (pickle_only, PickleOnly),
        (own_code, RemoteCode),
        (no_tokeniser, NoTokeniser),
        (lambda folder: (folder / "model.safetensors").unlink(), FolderBroken),
        (lambda folder: (folder / "config.json").unlink(), FolderBroken),
        (cut("config.json", 7), FolderBroken),
        (lambda folder: edit(folder, model_type="nonsense"), KindUnknown),
        (lambda folder: edit(folder, num_attention_heads="four"), FolderBroken),
        (lambda folder: edit(folder, num_attention_heads=5), HeadsDoNotDivide),
        (lambda folder: edit(folder, hidden_size=64), FolderBroken),
        (cut("model.safetensors", 0), FolderBroken),
        (cut("model.safetensors", 1000), FolderBroken),
        (cut("model.safetensors", -1000), FolderBroken),
        (cut("tokenizer.json", 1000), FolderBroken),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), FolderBroken),
    ],
    ids=[
        "pickle only",
        "code of its own",
        "no tokeniser",
        "no weights",
        "no configuration",
        "half a configuration",
        "a kind that nobody knows",
        "a word for a number",
        "heads that do not fit",
        "weights of another size",
        "no bytes",
        "half a header",
        "not all weights",
        "half a tokeniser",
        "another tokeniser",
    ],
)
def test_a_folder_that_can_not_be_used(own, spoil, kind):
    from attention_core import load_model

    spoil(own)
    with pytest.raises(kind) as caught:
        load_model(str(own), "cpu")
    assert caught.value.reason.strip()
    assert caught.value.repair.strip()


def test_the_device_that_was_told(own, monkeypatch):
    import torch

    from attention_core import load_model
    from attention_core.models.loading import best_device

    monkeypatch.setenv("GAZE_DEVICE", "meta")
    assert best_device() == torch.device("meta")
    assert load_model(str(own)).device == "meta"
    assert load_model(str(own), "cpu").device == "cpu"


@pytest.mark.parametrize(
    ("cuda", "mps", "device"),
    [(True, True, "cuda"), (True, False, "cuda"), (False, True, "mps"), (False, False, "cpu")],
)
def test_the_device_that_is_there(monkeypatch, cuda, mps, device):
    import torch

    from attention_core.models.loading import best_device

    monkeypatch.delenv("GAZE_DEVICE", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends, "mps", SimpleNamespace(is_available=lambda: mps))
    assert best_device() == torch.device(device)


def test_weights_that_are_not_among_the_files_are_noticed(tmp_path):
    from safetensors.torch import load_file, save_file
    from transformers import AutoTokenizer, BertConfig, BertModel

    from attention_core import capture, load_model

    AutoTokenizer.from_pretrained(published_file("minilm").parent).save_pretrained(tmp_path)
    BertModel(BertConfig(hidden_size=24, num_hidden_layers=2, num_attention_heads=2)).save_pretrained(tmp_path)
    assert load_model(str(tmp_path), "cpu").pretrained
    weights = load_file(tmp_path / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if "layer.1" not in name}
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    model = load_model(str(tmp_path), "cpu")
    assert not model.pretrained
    assert not capture(model, "cake").pretrained
