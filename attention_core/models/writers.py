"""Which of the offered models write: told by what their files say of themselves, without loading any."""

import json
from pathlib import Path

from attention_core.errors import ModelError
from attention_core.models.catalogue import offered, source
from attention_core.models.embedded import EMBEDDED


def writers() -> dict[str, str]:
    """Return the title of each offered model that writes, by its name."""
    return {name: title for name, title in offered().items() if _writes(name)}


def rewrites(name: str) -> bool:
    """Return whether a model reads one text and writes another, with an encoder and a decoder."""
    return name not in EMBEDDED and _told(name).get("is_encoder_decoder") is True


def _writes(name: str) -> bool:
    if name in EMBEDDED:
        return EMBEDDED[name].weights.endswith(".gguf")  # what such a file holds are models that write
    kinds = _told(name).get("architectures")
    return isinstance(kinds, list) and any(str(kind).endswith("ForCausalLM") for kind in kinds)


def _told(name: str) -> dict:
    try:
        told = json.loads((Path(source(name)) / "config.json").read_text(encoding="utf-8"))
        return told if isinstance(told, dict) else {}
    except (OSError, ValueError, ModelError):
        return {}
