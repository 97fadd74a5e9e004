"""Loading a model: an embedded one, a folder, or one from the hub; always from safetensors, never with its code."""

import difflib
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import huggingface_hub
import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer
from transformers.utils import logging as transformers_logging

from attention_core import interface
from attention_core.errors import FolderBroken, ModelDamaged, ModelUnknown, whole_sentence
from attention_core.models.embedded import EMBEDDED, converted_folder, published_file

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
    """

    name: str
    title: str
    module: PreTrainedModel
    tokenizer: Tokenizer
    limit: int | None
    pretrained: bool

    @property
    def device(self) -> str:
        """The kind of device that it runs on: "cuda", "mps" or "cpu"."""
        return self.module.device.type


def best_device() -> torch.device:
    """Return ``GAZE_DEVICE`` if set, else the first of cuda, mps and cpu that this machine has."""
    if told := os.environ.get("GAZE_DEVICE"):
        return torch.device(told)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def load_model(name: str, device: torch.device | str | None = None) -> LoadedModel:
    """Load a model and its tokeniser.

    Args:
        name: "minilm" or "smollm2", which need no network; the path of a folder with a transformers model; or the name
            of a model on the hub, which is fetched once.
        device: Where to; by default :func:`best_device`.

    Returns:
        The model, in the precision in which it is stored.

    Raises:
        ModelMissing: If an embedded model's package is not installed.
        ModelDamaged: If its files are not as published, or can't be read.
        FolderBroken: If a folder has no model or no tokeniser, or they can't be read.
        ModelUnknown: If there is no such model, or it can't be fetched.
    """
    device = best_device() if device is None else torch.device(device)
    if name not in EMBEDDED:
        return _from_folder_or_hub(name, device)
    path = published_file(name)
    title, source, options = EMBEDDED[name].title, path.parent, {}
    if path.suffix == ".gguf":
        folder = converted_folder(path)
        source, options = (folder, {}) if folder else (source, {"gguf_file": path.name})
    return _load(name, title, source, device, local_files_only=True, **options)


def _from_folder_or_hub(name: str, device: torch.device) -> LoadedModel:
    folder = os.path.expanduser(name)  # os.path takes any text; Path raises for one that no path can be
    if os.path.isdir(folder):
        title = Path(folder).resolve().name
        try:
            return _load(name, title, Path(folder), device, local_files_only=True)
        except (OSError, ValueError, StrictDataclassError, ModelDamaged) as error:
            reason = getattr(error, "reason", _reason(error)).replace(folder, title)
            help_text = "put config.json, the tokeniser and model.safetensors there"
            raise FolderBroken(title, reason, help_text) from error
    try:
        return _load(name, name.rpartition("/")[2], name, device, local_files_only=not _online())
    except (OSError, ValueError, StrictDataclassError) as error:
        close = difflib.get_close_matches(name.lower(), EMBEDDED, n=1)
        hint = f"did you mean {close[0]}? Or " if close else ""
        help_text = f"{hint}check the name and the network; {' and '.join(EMBEDDED)} need none"
        raise ModelUnknown(name, _reason(error), help_text) from error


def _online() -> bool:
    # Without a network the hub's client tries again for half a minute; the name service answers at once.
    host = urlsplit(huggingface_hub.constants.ENDPOINT).hostname
    try:
        return bool(socket.getaddrinfo(host, 443))
    except OSError:
        return False


def _load(
    name: str, title: str, source: Path | str, device: torch.device, *, local_files_only: bool = False, **options: str
) -> LoadedModel:
    options = {"local_files_only": local_files_only, "trust_remote_code": False, **options}
    config = AutoConfig.from_pretrained(source, **options)
    # A GGUF file does not say so, but what it holds are models that write.
    writes = "gguf_file" in options or any(kind.endswith("ForCausalLM") for kind in config.architectures or [])
    auto = AutoModelForCausalLM if writes else AutoModel
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        if len(tokenizer) <= len(tokenizer.all_special_tokens):  # what transformers makes of a folder that has none
            raise FileNotFoundError("there is no tokeniser")
        module, report = auto.from_pretrained(
            source,
            dtype="auto",
            use_safetensors=True,
            attn_implementation=interface.NAME,
            output_loading_info=True,
            **options,
        )
    except (OSError, MemoryError):  # a file that is not there: the caller knows where it should be
        raise
    except Exception as error:  # broken files raise errors of many kinds, down to tokenizers' plain Exception
        raise ModelDamaged(title, _reason(error), "download it again") from error
    module = module.to(device).eval()
    told = getattr(config, "max_position_embeddings", None)
    limits = [n for n in (told, tokenizer.model_max_length) if n is not None and n < 10**9]
    # What comes after all attention may be missing: the pooler of a model that was trained to fill in words.
    missing = [
        key for key in report["missing_keys"] if not any(part in key for part in ("pooler", "head", "classifier"))
    ]
    return LoadedModel(name, title, module, tokenizer, min(limits, default=None), not missing)


def _reason(error: Exception) -> str:
    return whole_sentence(error)
