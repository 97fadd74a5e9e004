"""Which of a model's files are taken, and what can be said of a model from the list of its files and its configuration.

Nothing here reads weights: what can't be opened is refused before it is fetched, and before another model has to make
room for it.
"""

import json
import re
from collections.abc import Collection, Iterable
from pathlib import Path

from safetensors import safe_open

from attention_core.errors import HeadsDoNotDivide, KindUnknown, ModelError, NoTokeniser, PickleOnly, RemoteCode

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
SHARD = re.compile(r"model-\d+-of-\d+\.safetensors")
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack", ".ot")
TOKENISER = re.compile(r"tokenizer\.json|vocab\.(txt|json|bpe)|spiece\.model|tokenizer\.model|.*\.bpe\.model|.*\.spm")
BESIDE = {  # what else belongs to a model: settings and the tokeniser's parts, never code
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
    "preprocessor_config.json",
}


def wanted(names: Iterable[str]) -> list[str]:
    """Return the files of a repository that are fetched: configuration, tokeniser, and weights as safetensors.

    Files in folders within the repository are other copies of the same model, and are left.
    """
    names = sorted(names)
    plain = WEIGHTS in names
    weights = [name for name in names if (name == WEIGHTS if plain else name == INDEX or SHARD.fullmatch(name))]
    return [name for name in names if name in BESIDE or TOKENISER.fullmatch(name)] + weights


def refuse(model: str, config: dict, names: Collection[str]) -> None:
    """Refuse what can't be opened whatever its weights are.

    Args:
        model: What people call it.
        config: What its config.json says.
        names: Its files.

    Raises:
        RemoteCode: If it needs code of its own.
        KindUnknown: If the library has no such kind of model.
        PickleOnly: If its weights come as pickle files only.
        HeadsDoNotDivide: If several query heads can't share a key-value head evenly.
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES  # seconds at first

    kind = config.get("model_type")
    if kind not in CONFIG_MAPPING_NAMES:
        if config.get("auto_map"):
            raise RemoteCode(model, f"its kind, {kind!r}, is code of its own", "choose another model")
        raise KindUnknown(model, f"{kind!r}" if kind else "none", "choose another model, or a newer transformers")
    if not any(name.endswith(".safetensors") for name in names) and any(name.endswith(PICKLES) for name in names):
        raise PickleOnly(model, "no safetensors", "ask its owner for safetensors, or choose another model")
    heads, groups = config.get("num_attention_heads"), config.get("num_key_value_heads")
    if not hasattr(CONFIG_MAPPING[kind], "num_key_value_heads"):
        groups = None  # a kind that has no such setting takes no notice of it
    if isinstance(heads, int) and isinstance(groups, int) and groups > 0 and heads % groups:
        raise HeadsDoNotDivide(model, f"{heads} / {groups}", "choose another model")


def read_config(folder: Path) -> dict:
    """Return what a folder's config.json says.

    Raises:
        OSError: If it is not there.
        ValueError: If it is not JSON.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if not isinstance(config, dict):
        raise ValueError("it holds no settings")
    return config


def check_folder(model: str, folder: Path) -> None:
    """Refuse a folder that can't be opened, before its weights are read.

    Raises:
        ModelError: As :func:`refuse` does, and :class:`NoTokeniser`.
        OSError: If it has no configuration.
        ValueError: If its configuration can't be read.
    """
    names = [path.name for path in folder.iterdir()]
    refuse(model, read_config(folder), names)
    if not has_tokeniser(names):
        raise NoTokeniser(model, "there is no tokeniser", "put its files beside the weights, or choose another model")


def check_weights(folder: Path) -> None:
    """Refuse weights that can't be read, or that are fewer than the layers that config.json tells of.

    Raises:
        ValueError: If an index leads out of the folder, or there are fewer weights than layers.
        Exception: What safetensors raises for a file that is none.
    """
    layers, weights = read_config(folder).get("num_hidden_layers"), _count_weights(folder)
    if isinstance(layers, int) and 0 < weights < layers:  # to build so many takes minutes, for nothing
        raise ValueError(f"there are {weights:,} weights, and config.json tells of {layers:,} layers")


def _count_weights(folder: Path) -> int:
    """Return how many weights the files in a folder name; only their beginnings are read.

    Raises:
        ValueError: If an index names a file that does not lie in the folder.
    """
    if (folder / INDEX).is_file() and not (folder / WEIGHTS).is_file():
        shards = json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"]
        for shard in set(shards.values()):
            if Path(shard).name != shard:
                raise ValueError(f"{INDEX} names {shard!r}, which does not lie in the folder")
        return len(shards)
    count = 0
    for path in folder.glob("*.safetensors"):
        with safe_open(path, "np") as weights:
            count += len(weights.keys())
    return count


def has_tokeniser(names: Iterable[str]) -> bool:
    """Return whether a tokeniser is among the files."""
    return any(TOKENISER.fullmatch(name) for name in names)


def complete(folder: Path) -> bool:
    """Return whether configuration and all weights lie in a folder."""
    try:
        if not (folder / "config.json").is_file():
            return False
        if (folder / WEIGHTS).is_file():
            return True
        shards = set(json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values())
        return bool(shards) and all((folder / Path(shard).name).is_file() for shard in shards)
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return False


def weight_bytes(folder: Path) -> int:
    """Return how large the weights in a folder are."""
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def undivided(model: str, config: object, told: dict) -> ModelError | None:
    """Explain why a model could not be built, where its number of heads does not fit its width.

    Args:
        model: What people call it.
        config: Its configuration as the library has it, which has one name for what each family calls its own way;
            None where the library refused it.
        told: What its config.json says.
    """
    heads, width = (
        told.get(name) if config is None else getattr(config, name, None)
        for name in ("num_attention_heads", "hidden_size")
    )
    if isinstance(heads, int) and isinstance(width, int) and (heads < 1 or width % heads):
        return HeadsDoNotDivide(model, f"{width} / {heads}", "choose another model")
    return None
