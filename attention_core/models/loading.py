"""Loading a model: an embedded one, a folder, a GGUF file, or one from the hub; never pickles, never its code."""

import difflib
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers import PreTrainedTokenizerBase as Tokenizer
from transformers.utils import logging as transformers_logging

from attention_core import interface, memory
from attention_core.errors import (
    FilesBroken,
    FolderBroken,
    GgufBroken,
    ModelDamaged,
    ModelError,
    ModelUnknown,
    NotNumbers,
    NoTokeniser,
    OutOfMemory,
    PrecisionUnsupported,
    whole_sentence,
)
from attention_core.models import hub
from attention_core.models.catalogue import local
from attention_core.models.embedded import EMBEDDED, cache_folder, converted_folder, published_file
from attention_core.models.files import check_folder, check_weights, read_config, undivided, weight_bytes
from attention_core.models.optional import OPTIONAL, optional_folder
from attention_core.settings import settings

transformers_logging.disable_progress_bar()


@dataclass(frozen=True)
class LoadedModel:
    """A model in memory with its tokeniser.

    Attributes:
        name: What it was asked for by.
        title: What people call it.
        module: The transformers model, in evaluation mode, on ``device``.
        tokenizer: Its tokeniser.
        limit: How many tokens it takes; None where it names no limit.
        pretrained: False where weights that attention rests on were not among the files, and so are random.
        missing: Their names.
        left_over: The names of weights of its layers that are in the files, and for which the model has no place.
    """

    name: str
    title: str
    module: PreTrainedModel
    tokenizer: Tokenizer
    limit: int | None
    pretrained: bool
    missing: tuple[str, ...] = ()
    left_over: tuple[str, ...] = ()

    @property
    def device(self) -> str:
        """The kind of device that it runs on: "cuda", "mps" or "cpu"; of a model that is split, all of them."""
        return " + ".join(dict.fromkeys(_kind(place) for place in self._places())) or self.module.device.type

    @property
    def input_device(self) -> torch.device:
        """Where its inputs go: a split model sends them on from the CPU to where they are needed."""
        return torch.device("cpu") if self._places() else self.module.device

    @property
    def embeddings(self) -> int | None:
        """How many token numbers it has embeddings for; None where that can't be seen."""
        try:
            return self.module.get_input_embeddings().weight.shape[0]
        except (AttributeError, NotImplementedError):
            return None

    @property
    def config(self) -> PreTrainedConfig:
        """Its configuration."""
        return self.module.config

    def _places(self) -> list[object]:
        return list(getattr(self.module, "hf_device_map", {}).values())


def best_device() -> torch.device:
    """Return ``GAZE_DEVICE`` if set, else the first of cuda, mps and cpu that this machine has."""
    if told := settings().device:
        return torch.device(told)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def load_model(
    name: str,
    device: torch.device | str | Mapping[str, str | int] | None = None,
    before_weights: Callable[[], object] = lambda: None,
) -> LoadedModel:
    """Load a model and its tokeniser.

    Args:
        name: "minilm" or "smollm2", which need no network; a name in ``GAZE_MODELS_DIR``; the path of a folder with a
            transformers model, or of a GGUF file; "gemma3" where its package is installed; or the name of a model on
            the hub, which is fetched once and then used as it is.
        device: Where to; by default :func:`best_device`. "auto", which ``GAZE_DEVICE`` may say too, splits a model that
            is larger than one device over all GPUs, the CPU and the disk, as accelerate sees fit within
            ``GAZE_MAX_MEMORY``, for instance ``0=10GiB,cpu=20GiB``; a mapping of parts to devices does as it says.
        before_weights: Called when everything but the weights has been read: the moment to make room for them.

    Returns:
        The model, in the precision in which it is stored.

    Raises:
        ModelMissing: If an embedded model's package is not installed.
        ModelDamaged: If its files are not as published, or can't be read.
        FolderBroken: If a folder has no model, or it can't be read.
        ModelUnknown: If there is no such model.
        ModelError: For everything else that can be wrong with a model; ``attention_core.errors`` has the list.
    """
    if device is None and settings().device == "auto":
        device = "auto"
    split = device == "auto" or isinstance(device, Mapping)
    place = None if split else best_device() if device is None else torch.device(device)
    options = _split(name, device) if split else {}

    def load(title: str, folder: Path, broken: type[ModelError], **more: object) -> LoadedModel:
        return _load(name, title, folder, place, broken, before_weights, **options, **more)

    if name in EMBEDDED:
        path = published_file(name)
        if path.suffix != ".gguf":
            return load(EMBEDDED[name].title, path.parent, ModelDamaged)
        return _load_gguf(EMBEDDED[name].title, path, ModelDamaged, load)
    if name in OPTIONAL:
        return load(OPTIONAL[name].title, optional_folder(name), ModelDamaged)
    path = os.path.expanduser(
        str(local().get(name, name))
    )  # os.path takes any text; Path raises for one that no path can be
    if os.path.isdir(path):
        return load(Path(path).resolve().name, Path(path), FolderBroken)
    if path.endswith(".gguf") and os.path.isfile(path):
        return _load_gguf(Path(path).stem, Path(path), GgufBroken, load)
    try:
        folder = hub.cached(name) or hub.download(name)
    except ModelUnknown as error:
        if close := difflib.get_close_matches(name.lower(), EMBEDDED, n=1):
            raise type(error)(name, error.reason, f"did you mean {close[0]}? Or {error.repair}") from error
        raise
    return load(name.rpartition("/")[2], folder, FilesBroken)


def _load_gguf(title: str, path: Path, broken: type[ModelError], load: Callable[..., LoadedModel]) -> LoadedModel:
    try:
        folder = converted_folder(path)
    except MemoryError as error:
        raise OutOfMemory(title, "converting it", "close other programs, or choose a smaller model") from error
    except Exception as error:  # a file that is no GGUF, or of a kind that transformers can't read
        raise broken(title, _reason(error).replace(str(path), path.name), "choose another file") from error
    if folder:
        return load(title, folder, broken)
    return load(title, path.parent, broken, gguf_file=path.name)


def _split(name: str, device: str | Mapping[str, str | int]) -> dict[str, object]:
    told = settings().max_memory
    try:
        bounds = dict(part.split("=") for part in told.split(",") if part)
    except ValueError as error:
        raise OutOfMemory(name, f"GAZE_MAX_MEMORY={told}", "write for instance 0=10GiB,cpu=20GiB") from error
    most = {_number(place): _number(size) for place, size in bounds.items()} or None
    offload = cache_folder() / "offload" / sha256(name.encode(errors="replace")).hexdigest()[:16]
    return {"device_map": device if device == "auto" else dict(device), "max_memory": most, "offload_folder": offload}


def _load(
    name: str,
    title: str,
    folder: Path,
    device: torch.device | None,
    broken: type[ModelError],
    before_weights: Callable[[], object],
    **options: object,
) -> LoadedModel:
    read = {"local_files_only": True, "trust_remote_code": False}
    if "gguf_file" in options:
        read["gguf_file"] = options["gguf_file"]
    config, part = None, "config.json"
    try:
        if "gguf_file" not in options:
            check_folder(title, folder)
        config = AutoConfig.from_pretrained(folder, **read)
        # A GGUF file does not say so, but what it holds are models that write.
        auto = AutoModelForCausalLM if "gguf_file" in options else _auto(config)
        part = "tokenizer"
        tokenizer = AutoTokenizer.from_pretrained(folder, **read)
        if len(tokenizer) <= len(tokenizer.all_special_tokens):  # what transformers makes of a folder that has none
            raise NoTokeniser(title, "there is no tokeniser", "put its files beside the weights")
        part = "weights"
        if "gguf_file" not in options:
            check_weights(folder)
        part = ""
        before_weights()
        if device is not None:
            _check_memory(title, weight_bytes(folder), device)
        module, report = auto.from_pretrained(
            folder,
            dtype="auto",
            use_safetensors=True,
            attn_implementation=interface.NAME,
            output_loading_info=True,
            **read | options,
        )
        module = (module if device is None else module.to(device)).eval()
    except ModelError:
        raise
    except Exception as error:  # broken files raise errors of many kinds, down to tokenizers' plain Exception
        misfits = _misfits(auto, folder, read | options) if "ignore_mismatched_sizes" in str(error) else ""
        raise _told(title, config, broken, error, folder, part, misfits) from error
    if name not in EMBEDDED:
        _check_numbers(title, module)
    told = getattr(config, "max_position_embeddings", None)
    limits = [n for n in (told, tokenizer.model_max_length) if n is not None and n < 10**9]
    # What comes after all attention may be missing: the pooler of a model that was trained to fill in words.
    missing = [
        key for key in report["missing_keys"] if not any(part in key for part in ("pooler", "head", "classifier"))
    ]
    # What comes after all attention is left over in every model that is opened without its head.
    left_over = [key for key in report["unexpected_keys"] if re.search(r"\.\d+\.", key)]
    return LoadedModel(
        name,
        title,
        module,
        tokenizer,
        min(limits, default=None),
        not missing,
        tuple(sorted(missing)),
        tuple(sorted(left_over)),
    )


def _auto(config: PreTrainedConfig) -> type:
    """Return the class that opens a model with what it was published for: to write, to fill in, or only to read."""
    published = config.architectures or []
    if any(kind.endswith("ForCausalLM") for kind in published):
        return AutoModelForCausalLM
    for auto in (AutoModelForSeq2SeqLM, AutoModelForMaskedLM):
        kind = auto._model_mapping.get(type(config), None)
        if kind is not None and kind.__name__ in published:
            return auto
    return AutoModel


def _misfits(auto: type, folder: Path, read: dict[str, object]) -> str:
    """Name a weight that has another shape in the files than in the model; the library only says that there is one."""
    _, report = auto.from_pretrained(folder, output_loading_info=True, ignore_mismatched_sizes=True, **read)
    name, there, here = min(report["mismatched_keys"])
    shapes = (" × ".join(map(str, shape)) for shape in (there, here))
    return "{} is {} in the files, and {} by config.json".format(name, *shapes)


def _told(
    title: str,
    config: object,
    broken: type[ModelError],
    error: Exception,
    folder: Path,
    part: str = "",
    misfits: str = "",
) -> ModelError:
    """Turn what the libraries raise into what a reader can use: the part of the files, and what is wrong with it."""
    if out_of_memory(error):
        return OutOfMemory(title, "loading it", "close other programs, or choose a smaller model")
    reason = misfits or _reason(error).replace(str(folder), title)
    reason = f"{part}: {reason}" if part else reason
    if getattr(config, "quantization_config", None):
        return PrecisionUnsupported(title, reason, "choose the model in 16 or 32 bits")
    with suppress(OSError, ValueError):
        if found := undivided(title, config, read_config(folder)):
            return found
    repair = "put config.json, the tokeniser and model.safetensors there" if broken is FolderBroken else "get it again"
    return broken(title, reason, repair)


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory did not suffice; the CPU's allocator has no class of its own for it."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and "not enough memory" in str(error).lower()
    )


def _check_memory(title: str, needed: int, device: torch.device) -> None:
    # Linux gives memory that it does not have, and ends the whole app when it is used.
    if device.type not in ("cuda", "cpu"):
        return
    if needed > (free := memory.free(device)):
        sizes = f"{needed / 1e6:,.0f} MB > {free / 1e6:,.0f} MB"
        raise OutOfMemory(title, sizes, "close other programs, choose a smaller model, or set GAZE_DEVICE=auto")


def _check_numbers(title: str, module: PreTrainedModel) -> None:
    for name, weights in module.named_parameters():
        if weights.device.type == "meta" or not weights.is_floating_point() or weights.element_size() < 2:
            continue  # on the disk, or quantised
        if weights.numel() and not all(torch.isfinite(end) for end in torch.aminmax(weights)):
            raise NotNumbers(title, name, "get it again, or choose another model")


def _number(told: str) -> int | str:
    return int(told) if told.isdecimal() else told


def _kind(place: object) -> str:
    return torch.device("cuda", place).type if isinstance(place, int) else str(place).partition(":")[0]


def _reason(error: Exception) -> str:
    return whole_sentence(error)
