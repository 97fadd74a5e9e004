"""The models that the app offers: the embedded ones, and the folders of ``GAZE_MODELS_DIR``."""

import os
from pathlib import Path

from attention_core.errors import ModelUnknown
from attention_core.models.embedded import EMBEDDED


def offered() -> dict[str, str]:
    """Return the title of each model by its name, which is what links and :func:`source` take."""
    found = {name: model.title for name, model in EMBEDDED.items()}
    return found | {name: name for name in sorted(_folders()) if name not in found}


def source(name: str) -> str:
    """Return what ``load_model`` takes for an offered model.

    Raises:
        ModelUnknown: If it is not offered; a name is looked up in the list, never used as a path.
    """
    if name in EMBEDDED:
        return name
    folders = _folders()
    if name not in folders:
        raise ModelUnknown(name, "it is not among the models here", f"choose one of {', '.join(offered())}")
    return str(folders[name])


def _folders() -> dict[str, Path]:
    root = os.environ.get("GAZE_MODELS_DIR")
    if not root or not Path(root).is_dir():
        return {}
    return {path.name: path for path in Path(root).iterdir() if (path / "config.json").is_file()}
