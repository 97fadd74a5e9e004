"""Which of the offered models write: told by what their files say of themselves, without loading any."""

import json
from pathlib import Path

from attention_core.models.catalogue import offered, source
from attention_core.models.embedded import EMBEDDED


def writers() -> dict[str, str]:
    """Return the title of each offered model that writes, by its name."""
    return {name: title for name, title in offered().items() if _writes(name)}


def _writes(name: str) -> bool:
    if name in EMBEDDED:
        return EMBEDDED[name].weights.endswith(".gguf")  # what such a file holds are models that write
    try:
        told = json.loads((Path(source(name)) / "config.json").read_text(encoding="utf-8"))
        return any(kind.endswith("ForCausalLM") for kind in told.get("architectures") or [])
    except (OSError, ValueError, AttributeError, TypeError):
        return False
