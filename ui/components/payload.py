"""How numbers travel to the browser: one block of bytes, read there without copying (`unpack` in shared.js)."""

import json
import math
import struct
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import streamlit as st
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

HERE = Path(__file__).parent
FOLDERS = sorted(path.parent.name for path in HERE.glob("*/*.css"))
SERVED = ComponentManifest("gaze", "1", [ComponentConfig(name, asset_dir=name) for name in FOLDERS])
LARGE = 128 * 128  # cells of a map
_serving = Lock()


class Rounded(NamedTuple):
    """Numbers that may travel in 16 bits: what is shown of them, so many decimals, stays what it is.

    Attributes:
        array: Floats of any shape; where they are not finite they become NaN.
        places: How many decimals are shown, at most: so many as fit.
    """

    array: np.ndarray
    places: int = 4


def pack(meta: dict[str, Any], /, **arrays: np.ndarray | Rounded) -> bytes:
    """Put words and numbers into one block of bytes.

    Layout, little-endian: u32 length of the header | header: JSON, padded with spaces | the arrays in C order, each at
    a multiple of 8. An array's `offset` counts from the end of the header, which is itself at a multiple of 8.

    Args:
        meta: Anything JSON can hold. Lone surrogates survive, since the JSON is plain ASCII.
        arrays: Floats of any width become f4, or u2 with `low` and `step` where they are `Rounded`; booleans become b1,
            eight in a byte, the first in the lowest bit; integers u1, u2 or i4, as they fit; any shape.

    Returns:
        The block, for a component's `data`.

    Raises:
        TypeError: If an array is neither real, integer nor boolean.
    """
    described: dict[str, dict[str, Any]] = {}
    blocks: list[bytes] = []
    offset = 0
    for name, array in arrays.items():
        block, told = _travelling(name, array)
        described[name] = told | {"offset": offset}
        blocks.append(block + bytes(-len(block) % 8))
        offset += len(blocks[-1])
    header = json.dumps({"meta": meta, "arrays": described}, ensure_ascii=True, allow_nan=False).encode("ascii")
    header += b" " * (-(4 + len(header)) % 8)
    return struct.pack("<I", len(header)) + header + b"".join(blocks)


def slim(arrays: Mapping[str, np.ndarray], factor: float | None = None) -> dict[str, np.ndarray | Rounded]:
    """Return a head's arrays as they travel: as they are, but for a large map's, of which what is shown stays the same.

    Raw scores that the browser is to multiply by a ``factor`` other than 1 stay exact there too.
    """
    if max(array.size for array in arrays.values()) <= LARGE:
        return dict(arrays)
    exact = {"raw"} if "weights" in arrays and factor != 1 else set()
    return {
        name: Rounded(array) if array.dtype.kind == "f" and array.ndim > 1 and name not in exact else array
        for name, array in arrays.items()
    }


def _travelling(name: str, array: np.ndarray | Rounded) -> tuple[bytes, dict[str, Any]]:
    told: dict[str, Any] = {}
    if isinstance(array, Rounded):
        array, told = _sixteen_bits(*array)
    told["shape"] = list(array.shape)
    if array.dtype.kind == "b":
        return np.packbits(array, bitorder="little").tobytes(), told | {"dtype": "b1"}
    if array.dtype.kind in "ui":
        least, most = (int(array.min()), int(array.max())) if array.size else (0, 0)
        dtype = "u1" if least >= 0 and most < 2**8 else "u2" if least >= 0 and most < 2**16 else "i4"
    elif array.dtype.kind == "f":
        dtype = "f4"
    else:
        raise TypeError(f"{name}: {array.dtype} does not travel; give float, int or bool")
    return np.ascontiguousarray(array, dtype=f"<{dtype}").tobytes(), told | {"dtype": dtype}


def _sixteen_bits(array: np.ndarray, places: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Return steps above the lowest number, 65535 for NaN, each chosen so that the decimals shown are the number's own.

    Where not even whole numbers fit into 16 bits, the numbers stay as they are.
    """
    numbers = array.astype(np.float64)
    finite = np.isfinite(numbers)
    low, high = (numbers[finite].min(), numbers[finite].max()) if finite.any() else (0.0, 0.0)
    step = (high - low) / 65534 or 1.0
    places = min(places, math.floor(-math.log10(step / 0.9)) if high > low else places)  # a step for every last digit
    if places < 0:
        return array, {}
    numbers = np.where(finite, numbers, low)

    def digits(values: np.ndarray) -> np.ndarray:  # as toFixed: halves away from zero
        return np.copysign(np.floor(np.abs(values) * 10**places + 0.5), values)

    steps = np.rint((numbers - low) / step)
    shown = (low + steps * step).astype(np.float32).astype(np.float64)
    steps += np.sign(digits(numbers) - digits(shown))
    return np.where(finite, steps, 65535).astype(np.uint16), {"low": low, "step": step, "places": places}


def mount(name: str) -> Callable[..., Any]:
    """Give the mount of the component in the folder `name`.

    Its module is `name.js` with the default export. Browsers load it, and what it imports, from where the server serves
    these folders, once; code that is given as text would travel again with every change of the numbers. The stylesheet
    travels, because it has to be there when the module measures.
    """
    css = "\n".join((HERE / folder / f"{folder}.css").read_text("utf-8") for folder in ("shared", name))
    html = f'<div class="gaze {name}" data-gaze="{name}"></div>'

    @cache
    def component() -> Callable[..., Any]:
        return st.components.v2.component(f"{SERVED.name}.{name}", html=html, css=css, js=f"{name}.js")

    def mounted(**told: Any) -> Any:  # noqa: ANN401
        _serve()
        return component()(**told)

    return mounted


def _serve() -> None:
    """Tell the running server which folders to serve, as an installed package does by its pyproject.toml."""
    manager = get_bidi_component_manager()
    with _serving:
        if manager.get_metadata(f"{SERVED.name}.shared") is None:
            manager.register_from_manifest(SERVED, HERE)
