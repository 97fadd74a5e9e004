"""The models that the app offers: what is here, and a list of models that are worth getting.

Here are the embedded ones, optional packages that somebody installed, folders and .gguf files of ``GAZE_MODELS_DIR``,
and models from the hub that were fetched whole, as far as the host allows them; in public mode only what was installed.
A name is looked up in that list, never used as a path.
"""

import os
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from attention_core.errors import ModelUnknown, PathRefused
from attention_core.models.embedded import EMBEDDED, MANIFEST, needs_conversion, unconverted
from attention_core.models.optional import OPTIONAL, converted, installed
from attention_core.settings import settings

LIST = Path(__file__).parents[2] / "assets" / "models.toml"


class Listed(NamedTuple):
    """A model that is worth getting.

    Attributes:
        title: What people call it.
        kind: "encoder", "decoder", "encoder-decoder", "vision" or "protein".
        licence: Its licence.
        megabytes: How large what is fetched is; None where that is not known for sure.
        gated: Whether its owner asks for terms to be accepted first.
        pickle: Whether it was published as pickle files only, which Gaze does not open.
        needs: A package that its tokeniser wants, or nothing.
    """

    title: str
    kind: str
    licence: str
    megabytes: int | None = None
    gated: bool = False
    pickle: bool = False
    needs: str = ""


@cache
def listed() -> dict[str, Listed]:
    """Return the models that are worth getting, by their names on the hub."""
    return {name: Listed(**told) for name, told in tomllib.loads(LIST.read_text(encoding="utf-8")).items()}


def offered() -> dict[str, str]:
    """Return the title of each model that is here, by its name, which is what links and :func:`source` take."""
    from attention_core.models.hub import cached_names

    found = {name: model.title for name, model in EMBEDDED.items()}
    found |= {name: model.title for name, model in OPTIONAL.items() if installed(name)}
    found |= {name: name for name in sorted(local()) if name not in found}
    known, fetched = listed(), [] if settings().public else cached_names()
    found |= {name: known[name].title if name in known else name for name in fetched if name not in found}
    return {name: title for name, title in found.items() if name in EMBEDDED or settings().allows(name)}


def misnamed() -> list[str]:
    """Return the names in ``GAZE_MODELS_ALLOWED`` that no model here has, and none that can be fetched."""
    here = offered()
    return sorted(n for n in settings().allowed if n not in here and not ("/" in n and settings().fetches(n)))


def source(name: str) -> str:
    """Return what ``load_model`` takes for an offered model.

    Raises:
        PathRefused: If the name is a path, or leads out of ``GAZE_MODELS_DIR``.
        ModelUnknown: If it is not offered.
    """
    from attention_core.models.hub import cached

    if name not in EMBEDDED and not settings().allows(name) and not is_path(name):
        raise ModelUnknown(name, "it is not among the models that are allowed here", f"choose one of {_choices()}")
    if name in EMBEDDED or (name in OPTIONAL and installed(name)):
        return name
    if path := local().get(name):
        return str(path)
    if cached(name) and not settings().public:
        return name
    if is_path(name):
        raise PathRefused(name, "a model is opened by its name, never by a path", f"choose one of {_choices()}")
    if root := _root():
        path = root / name  # os.path answers for names of any length, where Path would raise
        if os.path.islink(path) or (os.path.exists(path) and _leads_out(path, root)):
            raise PathRefused(name, "it leads out of the folder of models", f"choose one of {_choices()}")
    raise ModelUnknown(name, "it is not among the models here", f"choose one of {_choices()}")


def unprepared(name: str) -> bool:
    """Return whether an offered model must be converted before it can be loaded quickly."""
    if name in OPTIONAL:
        return installed(name) and not (converted(name) / MANIFEST).is_file()
    path = local().get(name)
    if path and path.suffix == ".gguf":
        return unconverted(path)
    return needs_conversion(name)


def is_path(name: str) -> bool:
    """Return whether a name is meant as a path: absolute, of the home folder, or with a way up."""
    return name.startswith(("/", "~", "\\")) or ":" in name or ".." in name.replace("\\", "/").split("/")


def _choices() -> str:
    return ", ".join(offered())


def _root() -> Path | None:
    root = "" if settings().public else settings().models_dir
    return Path(root) if root and Path(root).is_dir() else None


def local() -> dict[str, Path]:
    """Return the folders and GGUF files of ``GAZE_MODELS_DIR``, by their names."""
    root = _root()
    if root is None:
        return {}
    return {
        path.name: path
        for path in root.iterdir()
        if ((path / "config.json").is_file() or (path.suffix == ".gguf" and path.is_file()))
        and not _leads_out(path, root)
    }


def _leads_out(path: Path, root: Path) -> bool:
    """Return whether a path, or a file in it, is a link to somewhere outside the folder of models."""
    inside = [path, *(path.iterdir() if path.is_dir() else [])]
    return not all(place.resolve().is_relative_to(root.resolve()) for place in inside)
