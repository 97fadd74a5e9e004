"""Several sentences from a file: read in memory, one a line, and what is wrong with it said in one sentence."""

import csv
import io
import re
from dataclasses import dataclass
from itertools import islice

import streamlit as st

from attention_core.settings import settings
from ui.text import note, plain, t

MOST_BYTES = 2**20
MOST_LINES = 2_000
LOOKED_AT = 50  # rows of a CSV file, to see what parts its cells
HEADERS = {"text", "texts", "sentence", "sentences", "문장", "텍스트"}
# How files begin that are no text, in bytes, whatever their name says.
IMAGES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\x00", b"MM\x00*")
OTHERS = {
    b"%PDF": "pdf",
    b"PK\x03\x04": "office",
    b"\xd0\xcf\x11\xe0": "office",
    b"\xff\xfe": "utf16",
    b"\xfe\xff": "utf16",
}


class FileRefusedError(ValueError):
    """A file that can't be used: ``reason`` is the end of its text's key, ``places`` fill the text in."""

    def __init__(self, reason: str, **places: object) -> None:
        super().__init__(f"{reason} {places}")
        self.reason, self.places = reason, places


@dataclass(frozen=True)
class Lines:
    """The sentences of a file.

    Attributes:
        lines: At most ``MOST_LINES``, none of them blank.
        total: How many there were.
        blank: How many blank ones were left out.
        header: The first row of a CSV file, where it was taken for the column's name.
    """

    lines: tuple[str, ...]
    total: int
    blank: int
    header: str | None = None


def read_lines(name: str, data: bytes) -> Lines:
    """Read the sentences of a text file, one a line, or of a CSV file, the first cell of each row.

    Args:
        name: The file's name; one that ends in ``.csv`` is read as CSV.
        data: What is in it.

    Raises:
        FileRefusedError: If it is empty, too large, an image or another kind of file, not UTF-8, or blank.
    """
    if not data:
        raise FileRefusedError("empty")
    if len(data) > MOST_BYTES:
        raise FileRefusedError("large", size=f"{len(data) / 1e6:.1f}")
    text = _decode(data)
    if "\x00" in text:
        raise FileRefusedError("binary", place=text.index("\x00"))
    header = None
    if name.lower().endswith(".csv"):
        try:
            rows = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
            found = [row[0] if row else "" for row in rows]
        except csv.Error as error:
            raise FileRefusedError("csv", said=str(error)) from error
        if found and found[0].strip().casefold() in HEADERS:
            header = found.pop(0).strip()
    else:
        found = re.split("\r\n|\r|\n", text)  # not where splitlines cuts besides: U+2028, a vertical tab …
        found = found[:-1] if not found[-1] else found
    lines = [" ".join(line.split()) for line in found]
    kept = [line for line in lines if line]
    if not kept:
        raise FileRefusedError("blank")
    return Lines(tuple(kept[:MOST_LINES]), len(kept), len(lines) - len(kept), header)


def uploader(key: str) -> tuple[str, Lines] | None:
    """Ask for a file, and say what is in it or what is wrong with it.

    Returns:
        An id of the file's content, and its lines; None where there is none that can be used, or none is taken.
    """
    if settings().public:
        note("upload.public")
        return None
    file = st.file_uploader(t("upload.file"), key=key, help=t("upload.help"))
    if file is None:
        note("upload.nothing")
        return None
    state = st.session_state
    if state.get("_upload", (None,))[0] != file.file_id:  # read once, not in every run
        try:
            state["_upload"] = (file.file_id, read_lines(file.name, file.getvalue()))
        except FileRefusedError as error:
            state["_upload"] = (file.file_id, error)
    found = state["_upload"][1]
    if isinstance(found, FileRefusedError):
        st.error(t(f"upload.{found.reason}", **{name: plain(value) for name, value in found.places.items()}))
        return None
    if found.total > len(found.lines):
        st.warning(t("upload.many", total=f"{found.total:,}", most=f"{MOST_LINES:,}"))
    else:
        note("upload.lines", lines=len(found.lines))
    if found.blank:
        note("upload.blanks", blank=found.blank)
    if found.header is not None:
        note("upload.header", header=found.header)
    return file.file_id, found


def _delimiter(text: str) -> str:
    """Return what parts the cells: a semicolon or a tab where each of the first rows has as many of them, else a comma.

    A single row decides nothing: a sentence may well have a semicolon.
    """
    for mark in ",;\t":
        rows = islice(csv.reader(io.StringIO(text, newline=""), delimiter=mark), LOOKED_AT)
        lengths = [len(row) for row in rows if row]
        if len(lengths) > 1 and len(set(lengths)) == 1 and lengths[0] > 1:
            return mark
    return ","


def _decode(data: bytes) -> str:
    if data.startswith(IMAGES) or data[4:8] == b"ftyp" or data[8:12] == b"WEBP":
        raise FileRefusedError("image")
    for start, kind in OTHERS.items():
        if data.startswith(start):
            raise FileRefusedError(kind)
    zeros = sorted(data[start:4096:2].count(0) for start in (0, 1))
    if zeros[0] == 0 and zeros[1] > len(data[:4096]) // 4 and not len(data) % 2:  # mostly every other byte
        raise FileRefusedError("utf16")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        try:
            korean = sum("가" <= letter <= "힣" for letter in data.decode("cp949"))
        except UnicodeDecodeError:
            korean = 0
        reason = "cp949" if korean else "not_utf8"
        raise FileRefusedError(reason, place=f"{error.start + 1:,}") from error
