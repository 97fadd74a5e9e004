"""Getting models from the hub: a small one on this machine, which can be slow, strict, or die half-way."""

import json
import shutil
import threading
from types import SimpleNamespace

import pytest

from attention_core.errors import (
    DiskFull,
    Gated,
    HeadsDoNotDivide,
    HubBroke,
    KindUnknown,
    ModelUnknown,
    NoNetwork,
    NoTokeniser,
    PickleOnly,
    RemoteCode,
    Stopped,
    TooLarge,
)
from attention_core.models import catalogue, hub
from attention_core.models.files import complete, wanted
from fake_hub import REVISION, FakeHub

NAME = "someone/tiny"


@pytest.fixture(scope="module")
def published(tmp_path_factory, models):
    """A tiny BERT as its owner has put it on the hub, with copies in other formats and code beside it."""
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("published")
    config = BertConfig(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=29)
    config.vocab_size, config.max_position_embeddings = 30522, 61
    BertModel(config).save_pretrained(folder)
    models["minilm"].tokenizer.save_pretrained(folder)
    for name in ("pytorch_model.bin", "tf_model.h5", "modeling.py", "README.md", "training_args.bin"):
        (folder / name).write_bytes(b"not for us")
    return folder


@pytest.fixture
def remote(published, tmp_path, monkeypatch):
    """The hub, with the tiny model, and an empty cache."""
    one = FakeHub()
    one.models[NAME] = published
    for name, value in {
        "ENDPOINT": one.address,
        "HF_HUB_CACHE": str(tmp_path / "hub"),
        "HF_HUB_OFFLINE": False,
        "HUGGINGFACE_CO_URL_TEMPLATE": one.address + "/{repo_id}/resolve/{revision}/{filename}",
    }.items():
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
    monkeypatch.setattr("huggingface_hub.file_download.time", SimpleNamespace(sleep=lambda _: None))
    monkeypatch.setattr(hub, "_downloads", {})
    yield one
    one.close()


@pytest.fixture
def changed(remote, tmp_path):
    """Put another version of the model on the hub, its configuration changed."""

    def change(drop=(), add=(), **config):
        folder = shutil.copytree(remote.models[NAME], tmp_path / "changed")
        told = json.loads((folder / "config.json").read_text()) | config
        (folder / "config.json").write_text(json.dumps(told))
        for pattern in drop:
            for file in folder.glob(pattern):
                file.unlink()
        for name in add:
            (folder / name).write_bytes(b"something")
        remote.models[NAME] = folder

    return change


def part(tmp_path):
    """Return the file that is not whole yet."""
    return next((tmp_path / "hub").rglob("*.gaze-part"))


def weights_asked(remote):
    return [start for method, path, start in remote.log if method == "GET" and path.endswith("safetensors")]


def test_a_model_is_fetched_whole_and_then_needs_no_hub(remote, monkeypatch):
    from attention_core import capture, load_model

    assert hub.cached(NAME) is None
    assert NAME not in catalogue.offered()
    model = load_model(NAME, "cpu")
    assert (model.title, model.limit, model.pretrained) == ("tiny", 61, True)
    assert capture(model, "the cat sat").weights(1, 2).shape == (5, 5)
    folder = hub.cached(NAME)
    assert sorted(path.name for path in folder.iterdir()) == sorted(wanted(p.name for p in folder.iterdir()))
    assert not [path for path in folder.iterdir() if path.suffix in (".bin", ".h5", ".py")]
    assert catalogue.offered()[NAME] == NAME
    assert catalogue.source(NAME) == NAME
    asked = len(remote.log)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert load_model(NAME, "cpu").title == "tiny"
    assert len(remote.log) == asked


def test_other_programs_find_it_too(remote):
    from transformers import AutoModel

    hub.download(NAME)
    assert AutoModel.from_pretrained(NAME, local_files_only=True).config.hidden_size == 24


def test_what_a_repository_says_of_itself(remote, published):
    found = hub.look(NAME)
    assert (found.revision, found.licence, found.kind) == (REVISION, "mit", "bert")
    assert found.bytes == sum((published / file.path).stat().st_size for file in found.files)
    assert found.files[-1].path == "model.safetensors"  # the weights come last: whole only when everything is


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        ({"model_type": "own", "auto_map": {"AutoModel": "modeling.Own"}}, RemoteCode, "own"),
        ({"model_type": "nonsense"}, KindUnknown, "nonsense"),
        ({"drop": ["model.safetensors"]}, PickleOnly, "safetensors"),
        ({"model_type": "llama", "num_attention_heads": 8, "num_key_value_heads": 3}, HeadsDoNotDivide, "8 / 3"),
        ({"drop": ["tokenizer*", "vocab*"]}, NoTokeniser, "tokeniser"),
        ({"drop": ["config.json"]}, KindUnknown, "none"),
    ],
    ids=["code", "kind", "pickle", "heads", "tokeniser", "configuration"],
)
def test_what_is_refused_before_anything_large_is_fetched(remote, changed, change, kind, says):
    changed(**change)
    with pytest.raises(kind) as caught:
        hub.download(NAME)
    assert says in caught.value.reason
    assert not weights_asked(remote)


def test_auto_map_of_a_kind_that_the_library_has_is_no_obstacle(remote, changed):
    changed(auto_map={"AutoModel": "modeling.Own"})
    assert complete(hub.download(NAME))


def test_too_large(remote, monkeypatch):
    size = hub.look(NAME).bytes / 1e6
    monkeypatch.setenv("GAZE_MAX_MODEL_MB", "2")
    with pytest.raises(TooLarge, match="GAZE_MAX_MODEL_MB") as caught:
        hub.download(NAME)
    assert caught.value.reason == f"{size:,.0f} MB > 2 MB"
    assert not weights_asked(remote)


def test_no_room_on_the_disk(remote, monkeypatch):
    monkeypatch.setattr(hub.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(DiskFull, match="HF_HOME"):
        hub.download(NAME)


def test_gated(remote):
    remote.gated.add(NAME)
    with pytest.raises(Gated, match="hf auth login") as caught:
        hub.download(NAME)
    assert caught.value.reason == f"{remote.address}/{NAME}"


def test_a_name_that_the_hub_does_not_know(remote):
    with pytest.raises(ModelUnknown, match="no such model"):
        hub.download("someone/else")


@pytest.mark.parametrize("name", ["../tiny", "/etc/passwd", "a/b/c", "~", "a/..", "C:\\models"])
def test_a_name_that_is_none_is_not_even_asked_for(remote, name):
    with pytest.raises(ModelUnknown):
        hub.look(name)
    assert not remote.log


def test_a_hub_that_is_gone(remote):
    remote.close()
    with pytest.raises(NoNetwork, match="minilm and smollm2 need none"):
        hub.look(NAME)


def test_a_connection_that_is_cut_is_taken_up_again(remote, published):
    remote.die_after = 2**20  # of each answer
    folder = hub.download(NAME)
    assert (folder / "model.safetensors").read_bytes() == (published / "model.safetensors").read_bytes()
    starts = [int(start.removeprefix("bytes=").rstrip("-")) for start in weights_asked(remote) if start]
    assert starts == sorted(starts)
    assert len(starts) >= 2


def test_the_hub_dies_half_way_and_what_came_is_kept(remote, published, tmp_path, monkeypatch):
    remote.die_after = 2**20
    answer = FakeHub.answer

    def once(self, request, *, body):
        if len(weights_asked(remote)) >= 2:
            request.close_connection = True
            return None
        return answer(self, request, body=body)

    monkeypatch.setattr(FakeHub, "answer", once)
    with pytest.raises(HubBroke, match="what is here is kept"):
        hub.download(NAME)
    assert hub.cached(NAME) is None
    kept = part(tmp_path).stat().st_size
    assert 0 < kept < (published / "model.safetensors").stat().st_size


def test_what_was_cut_short_is_continued_later(remote, published, tmp_path):
    with pytest.raises(Stopped):
        stop_after(2**20)
    kept = part(tmp_path).stat().st_size
    assert kept > 2**19
    remote.log.clear()
    folder = hub.download(NAME)
    assert weights_asked(remote) == [f"bytes={kept}-"]
    assert (folder / "model.safetensors").read_bytes() == (published / "model.safetensors").read_bytes()
    assert not list((tmp_path / "hub").rglob("*.gaze-part"))


def stop_after(size):
    came = 0

    def count(more):
        nonlocal came
        came += more
        if came > size + 2**19 * 3:
            raise Stopped(NAME, "enough", "ask again")

    hub._get_all(hub.look(NAME), count)


def test_what_is_not_as_announced_is_thrown_away(remote, tmp_path):
    remote.lie.add(NAME)
    with pytest.raises(HubBroke, match="not what was announced"):
        hub.download(NAME)
    assert hub.cached(NAME) is None
    assert not list((tmp_path / "hub").rglob("*.gaze-part"))
    remote.lie.clear()
    assert complete(hub.download(NAME))


def test_everybody_who_asks_waits_for_the_same_download(remote):
    remote.open.clear()
    start, found = threading.Barrier(5), []

    def ask(who):
        start.wait()
        found.append(hub.fetch(NAME, who))

    threads = [threading.Thread(target=ask, args=(str(n),)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(one) for one in found}) == 1
    found[0].leave("3")  # one goes; the others still wait
    assert found[0].waited_for
    remote.open.set()
    found[0].join(30)
    assert found[0].finished
    assert found[0].error is None
    assert found[0].done == found[0].total == hub.look(NAME).bytes
    assert len(weights_asked(remote)) == 1


def test_a_download_ends_when_nobody_waits(remote, tmp_path):
    remote.slow = 0.001
    one = hub.fetch(NAME, "a")
    one.wait("b")
    one.leave("a")
    one.leave("b")
    one.join(30)
    assert isinstance(one.error, Stopped)
    assert hub.cached(NAME) is None
    remote.slow = 0
    again = hub.fetch(NAME, "a")
    assert again is not one
    again.join(30)
    assert again.error is None


def test_who_says_nothing_for_long_counts_as_gone(remote, monkeypatch):
    monkeypatch.setattr(hub, "PATIENCE", -1)
    one = hub.fetch(NAME, "a")
    one.join(30)
    assert isinstance(one.error, Stopped)


def test_what_a_repository_has_beside_the_model_is_left():
    names = ["config.json", "model.safetensors", "pytorch_model.bin", "onnx/model.safetensors", "x.py", "vocab.txt"]
    assert wanted(names) == ["config.json", "vocab.txt", "model.safetensors"]
    shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"]
    assert wanted([*shards, "consolidated.safetensors", "config.json"]) == ["config.json", *shards]


def test_weights_in_pieces_are_whole_when_all_pieces_are(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    pieces = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": pieces}))
    (tmp_path / pieces["a"]).write_bytes(b"")
    assert not complete(tmp_path)
    (tmp_path / pieces["b"]).write_bytes(b"")
    assert complete(tmp_path)


def test_a_setting_that_a_kind_does_not_have_is_no_reason_to_refuse_it(remote, changed):
    changed(num_attention_heads=8, num_key_value_heads=3)  # a BERT has no such setting
    assert (hub.download(NAME) / "config.json").exists()
