"""Files of pictures from anybody: opened if they are what they seem, else refused with the reason."""

import io
import warnings

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from attention_core.settings import settings

MOST_PIXELS = 25_000_000  # a small file may unfold to more than memory holds
MOST_ASPECT = 20
KINDS = ("PNG", "JPEG", "WEBP")


class PictureRefusedError(ValueError):
    """A file that is no picture to be used; ``reason`` names why and ``places`` are the numbers of the sentence."""

    def __init__(self, reason: str, **places: object) -> None:
        super().__init__(f"{reason} {places}")
        self.reason, self.places = reason, places


def open_picture(data: bytes) -> Image.Image:
    """Open a picture from a file of anybody's: PNG, JPEG or WebP, turned upright, on white where it is transparent.

    Raises:
        PictureRefusedError: If it is empty, too large, no picture, has too many pixels, or is damaged.
    """
    if not data:
        raise PictureRefusedError("empty")
    most = settings().max_upload_mb
    if len(data) > most * 2**20:
        raise PictureRefusedError("large", size=f"{len(data) / 2**20:.1f}", most=most)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a bomb, which is defused below
            picture = Image.open(io.BytesIO(data), formats=KINDS)
            width, height = picture.size
            if width * height > MOST_PIXELS:
                raise PictureRefusedError("pixels", width=width, height=height, most=MOST_PIXELS // 10**6)
            if max(width, height) > MOST_ASPECT * min(width, height):
                raise PictureRefusedError("thin", width=width, height=height)
            picture.load()
            upright = ImageOps.exif_transpose(picture)
    except UnidentifiedImageError as error:
        raise PictureRefusedError("kind") from error
    except Image.DecompressionBombError as error:
        raise PictureRefusedError("bomb", most=MOST_PIXELS // 10**6) from error
    except (OSError, ValueError, SyntaxError, IndexError, TypeError, EOFError) as error:
        if isinstance(error, PictureRefusedError):
            raise
        raise PictureRefusedError("damaged") from error
    if upright.mode.startswith("I"):  # 16-bit grey
        upright = Image.fromarray((np.asarray(upright, dtype=np.float64) / 257).clip(0, 255).astype(np.uint8))
    if "A" in upright.getbands() or "transparency" in upright.info:
        over = upright.convert("RGBA")
        white = Image.new("RGBA", over.size, "white")
        white.alpha_composite(over)
        upright = white
    return upright.convert("RGB")
