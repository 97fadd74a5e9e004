"""The hub: what a repository holds, whether it can be opened, and getting it, resumably, for everyone who waits for it.

A repository is looked at before anything large is fetched: code of its own, pickle files, models over the bound and
gated ones are refused with what to do. Files land in the Hugging Face cache, where other programs find them too. A file
that was cut short stays beside its place and is continued; it gets its name when its checksum is right. What is
complete is used as it is, without asking the hub again.
"""

import hashlib
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from filelock import FileLock
from huggingface_hub import HfApi, constants, hf_hub_download, hf_hub_url
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)
from huggingface_hub.file_download import get_hf_file_metadata, http_get, repo_folder_name
from huggingface_hub.utils import build_hf_headers, validate_repo_id

from attention_core.errors import (
    DiskFull,
    Gated,
    HubBroke,
    KindUnknown,
    ModelError,
    ModelUnknown,
    NoNetwork,
    NoTokeniser,
    NotOnHub,
    Stopped,
    TooLarge,
)
from attention_core.models.embedded import EMBEDDED
from attention_core.models.files import complete, has_tokeniser, read_config, refuse, wanted
from attention_core.settings import settings

PATIENCE = 30  # seconds without a sign of life from anybody who waits, until a download ends
TIMEOUT = 10  # seconds for an answer of the hub
HERE = f"{' and '.join(EMBEDDED)} need none"

# 10 MB by default: on a slow line the bar would stand still for many seconds, and Stop would have to wait as long.
constants.DOWNLOAD_CHUNK_SIZE = 2**19


class RemoteFile(NamedTuple):
    """A file of a repository; ``sha256`` is known for large ones."""

    path: str
    size: int
    sha256: str | None


class Repository(NamedTuple):
    """What would be fetched of a model: these files of this revision."""

    name: str
    revision: str
    files: tuple[RemoteFile, ...]
    licence: str | None
    kind: str

    @property
    def bytes(self) -> int:
        """How large the files are together."""
        return sum(file.size for file in self.files)


def plausible(name: str) -> bool:
    """Return whether a name could be that of a model on the hub: ``owner/name``, or an old one without owner."""
    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return bool(name.strip("."))


def cached(name: str) -> Path | None:
    """Return the folder with a model from the hub that is here and complete."""
    if not plausible(name):
        return None
    store = _store(name)
    try:
        snapshot = store / "snapshots" / (store / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return None
    return snapshot if complete(snapshot) else None


def cached_names() -> list[str]:
    """Return the models from the hub that are here and complete."""
    try:
        stores = sorted(path.name for path in Path(constants.HF_HUB_CACHE).glob("models--*"))
    except OSError:
        return []
    names = [store.removeprefix("models--").replace("--", "/", 1) for store in stores]
    return [name for name in names if cached(name)]


def look(name: str) -> Repository:
    """Ask the hub what a model consists of, and refuse what can't be opened before it is fetched.

    Raises:
        NotOnHub: If there is no such model, or it is private.
        NoNetwork: If the hub can't be reached.
        Gated: If its owner asks for terms to be accepted first.
        ModelError: As :func:`attention_core.models.files.refuse` does; TooLarge, DiskFull, NoTokeniser, HubBroke.
    """
    title = name.rpartition("/")[2]
    if not plausible(name):
        raise NotOnHub(name, "that is no name of a model", f"write owner/name; {HERE}")
    if not _online():
        raise NoNetwork(name, "the hub can't be reached", f"check the network; {HERE}")
    try:
        info = HfApi(endpoint=constants.ENDPOINT).model_info(name, files_metadata=True, timeout=TIMEOUT)
        files = {file.rfilename: file for file in info.siblings or []}
        if "config.json" not in files:
            raise KindUnknown(title, "none", "choose a model for transformers")
        path = hf_hub_download(name, "config.json", revision=info.sha, endpoint=constants.ENDPOINT)
    except ModelError:
        raise
    except Exception as error:  # the client's network errors are of many kinds
        raise _told(name, error) from error
    try:
        config = read_config(Path(path).parent)
    except ValueError as error:
        raise KindUnknown(title, "none", "choose another model") from error
    refuse(title, config, files)
    if not has_tokeniser(files) and "preprocessor_config.json" not in files:
        raise NoTokeniser(title, "there is no tokeniser", "choose another model")
    chosen = []
    for file in (files[path] for path in wanted(files)):
        lfs = file.lfs.sha256 if file.lfs else None
        chosen.append(RemoteFile(file.rfilename, file.size or 0, lfs))
    licence = (info.card_data.get("license") if info.card_data else None) or None
    chosen.sort(key=lambda file: file.size)  # small files first: weights are complete only when everything is
    found = Repository(name, info.sha, tuple(chosen), licence, str(config.get("model_type")))
    _check_size(title, found)
    return found


def download(name: str) -> Path:
    """Get a model from the hub and return its folder. Waits until it is there; what was cut short is continued.

    Raises:
        ModelError: As :func:`look` does; HubBroke if the hub stops half-way.
    """
    return _get_all(look(name), lambda _: None)


class Download:
    """One download, in a thread of its own, for everybody who waits for it.

    Attributes:
        name: The model.
        total: Bytes of all files; 0 until the hub has been asked.
        done: Bytes that are here.
        error: What ended it, if it was not success.
        finished: Whether it has ended.
    """

    def __init__(self, name: str) -> None:
        self.name, self.total, self.done = name, 0, 0
        self.error: ModelError | None = None
        self.finished = False
        self._waiting: dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, name=f"gaze-download-{name}", daemon=True)

    def wait(self, who: str) -> None:
        """Say that somebody still waits; without a word for ``PATIENCE`` seconds they count as gone."""
        self._waiting[who] = time.monotonic()

    def leave(self, who: str) -> None:
        """Say that somebody no longer waits. Where nobody else does, the download stops; its bytes are kept."""
        self._waiting.pop(who, None)

    @property
    def waited_for(self) -> bool:
        """Whether anybody waits."""
        return any(time.monotonic() - asked < PATIENCE for asked in list(self._waiting.values()))

    def join(self, timeout: int | float | None = None) -> None:
        """Wait until it has ended."""
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            repository = look(self.name)
            self.total = repository.bytes
            _get_all(repository, self._count)
        except ModelError as error:
            self.error = error
        except Exception as error:
            self.error = HubBroke(self.name, str(error).partition("\n")[0], "try again: what is here is kept")
        finally:
            self.finished = True

    def _count(self, size: int) -> None:
        if not self.waited_for:
            raise Stopped(self.name, "nobody waits for it any more", "ask again: what is here is kept")
        self.done += size


_downloads: dict[str, Download] = {}
_lock = threading.Lock()


def fetch(name: str, who: str) -> Download:
    """Start getting a model, or join those who wait for it already.

    Args:
        name: The model.
        who: Who waits; they must say so again every few seconds, by :meth:`Download.wait`.

    Raises:
        ModelUnknown: If the host does not allow it.
    """
    if not settings().fetches(name):
        raise ModelUnknown(name, "it is not among the models that are allowed here", "choose one that is here")
    with _lock:
        one = _downloads.get(name)
        if one is None or one.finished or not one.waited_for:  # one that is about to stop can't be joined
            one = _downloads[name] = Download(name)
            one.wait(who)
            one._thread.start()
        one.wait(who)
    return one


def under_way(name: str) -> Download | None:
    """Return the download of a model: one that goes on, or how the last one ended."""
    return _downloads.get(name)


def _get_all(repository: Repository, count: Callable[[int], None]) -> Path:
    for file in repository.files:
        try:
            _get(repository, file, count)
        except ModelError:
            raise
        except Exception as error:
            raise _told(repository.name, error, half_way=True) from error
    store = _store(repository.name)
    (store / "refs").mkdir(parents=True, exist_ok=True)
    (store / "refs" / "main").write_text(repository.revision, encoding="utf-8")
    folder = store / "snapshots" / repository.revision
    if not complete(folder):
        raise HubBroke(repository.name, "weights that its index names are not there", "choose another model")
    return folder


def _get(repository: Repository, file: RemoteFile, count: Callable[[int], None]) -> None:
    name, endpoint = repository.name, constants.ENDPOINT
    url = hf_hub_url(name, file.path, revision=repository.revision, endpoint=endpoint)
    etag = get_hf_file_metadata(url, timeout=TIMEOUT, endpoint=endpoint).etag or ""
    if not re.fullmatch(r"[\w-]{8,128}", etag):
        raise HubBroke(name, f"no checksum for {file.path}", "try again later")
    blob = _store(name) / "blobs" / etag
    blob.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{blob}.gaze.lock"):
        if blob.is_file():
            count(file.size)
        else:
            part = blob.with_name(f"{etag}.gaze-part")
            _continue(url, part, file.size, count)
            if file.sha256 and _sha256(part) != file.sha256:
                part.unlink()
                raise HubBroke(name, f"{file.path} is not what was announced", "try again")
            part.rename(blob)
    hf_hub_download(name, file.path, revision=repository.revision, endpoint=endpoint)  # finds the blob, and names it


def _continue(url: str, part: Path, size: int, count: Callable[[int], None]) -> None:
    part.touch()
    with part.open("r+b") as out:
        have = out.seek(0, 2)
        if have > size:
            have = out.truncate(0)
            out.seek(0)
        count(have)
        http_get(url, out, resume_size=have, headers=build_hf_headers(), expected_size=size, tqdm_class=_bar(count))


def _bar(count: Callable[[int], None]) -> type:
    class Bar:  # as much of tqdm as the client uses; raising in it ends the download
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def __enter__(self) -> "Bar":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def update(self, size: int = 1) -> None:
            count(size)

    return Bar


def _told(name: str, error: Exception, *, half_way: bool = False) -> ModelError:
    """Turn what the hub's client raises into what a reader can use."""
    cause = error.__cause__ if isinstance(error, LocalEntryNotFoundError) and error.__cause__ else error
    status = cause.response.status_code if isinstance(cause, HfHubHTTPError) else None
    if isinstance(cause, GatedRepoError) or status == 403:
        page = f"{constants.ENDPOINT}/{name}"
        return Gated(name, page, f"accept the terms on {page}, then log in: hf auth login, or set HF_TOKEN")
    if isinstance(cause, RepositoryNotFoundError | HFValidationError) or status in (401, 404):
        return NotOnHub(name, "the hub has no such model, or it is private", f"check the name; {HERE}")
    reason = str(cause).strip().partition("\n")[0].rstrip(".: ") or type(cause).__name__
    if half_way or status is not None:
        return HubBroke(name, reason, "try again: what is here is kept")
    return NoNetwork(name, reason, f"check the network; {HERE}")


def _check_size(title: str, repository: Repository) -> None:
    size, most = repository.bytes / 1e6, settings().max_model_mb
    if size > most:
        raise TooLarge(title, f"{size:,.0f} MB > {most:,.0f} MB", "set GAZE_MAX_MODEL_MB, or choose a smaller model")
    place = Path(constants.HF_HUB_CACHE)
    while not place.is_dir():
        place = place.parent
    free = shutil.disk_usage(place).free / 1e6
    if size > free:
        raise DiskFull(title, f"{size:,.0f} MB > {free:,.0f} MB", "make room, or set HF_HOME to another disk")


def _online() -> bool:
    # Without a network the hub's client tries again for half a minute; the name service answers at once.
    if constants.is_offline_mode():
        return False
    try:
        return bool(socket.getaddrinfo(urlsplit(constants.ENDPOINT).hostname, 443))
    except OSError:
        return False


def _store(name: str) -> Path:
    return Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=name, repo_type="model")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
