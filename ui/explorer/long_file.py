"""A long text from a file: plain text, Markdown or a PDF that has text, read in memory; else one sentence why not."""

import io
from typing import NamedTuple

from attention_core.settings import settings
from ui.explorer.upload import FileRefusedError, _decode

MOST_LETTERS = 2**20  # more than any model here takes
KINDS = ("txt", "md", "pdf")


class FileText(NamedTuple):
    """The text of a file.

    Attributes:
        text: At most ``MOST_LETTERS`` characters of it.
        characters: How many the file has; of a PDF, the pages that were read.
        read: How many pages were read; of a file without pages 0.
        pages: How many there are.
    """

    text: str
    characters: int
    read: int = 0
    pages: int = 0


def read_text(name: str, data: bytes) -> FileText:
    """Return the text of a file.

    Args:
        name: The file's name; what it is decides what is in it.
        data: What is in it.

    Raises:
        FileRefusedError: If it is empty, too large, no text, locked, or a PDF without text.
    """
    if not data:
        raise FileRefusedError("empty")
    if len(data) > settings().max_upload_mb * 2**20:
        raise FileRefusedError("large", size=f"{len(data) / 2**20:.1f}", most=settings().max_upload_mb)
    text, *pages = _pdf(data) if b"%PDF-" in data[:1024] else (_decode(data),)
    if "\x00" in text:
        raise FileRefusedError("binary", place=f"{text.index(chr(0)) + 1:,}")
    if not text.strip():
        raise FileRefusedError("blank")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return FileText(text[:MOST_LETTERS], len(text), *pages)


def _pdf(data: bytes) -> tuple[str, int, int]:
    import pypdf
    from pypdf.errors import FileNotDecryptedError, PyPdfError

    try:
        file = pypdf.PdfReader(io.BytesIO(data))
        if file.is_encrypted and not file.decrypt(""):
            raise FileRefusedError("locked")
        pages, letters = [], 0
        for page in file.pages:
            pages.append(page.extract_text().replace("\x00", ""))
            letters += len(pages[-1])
            if letters > MOST_LETTERS:
                break
    except FileRefusedError:
        raise
    except FileNotDecryptedError as error:
        raise FileRefusedError("locked") from error
    except ImportError as error:  # a cipher for which a further package is needed
        raise FileRefusedError("locked") from error
    except (PyPdfError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError, OSError) as error:
        raise FileRefusedError("damaged") from error  # files from anywhere break in any way
    if not any(text.strip() for text in pages):
        raise FileRefusedError("images", pages=len(pages))
    return "\n\n".join(pages), len(pages), len(file.pages)
