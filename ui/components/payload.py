"""How numbers travel to the browser: one block of bytes, read there without copying (`unpack` in shared.js)."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

HERE = Path(__file__).parent
DTYPES = {"f": "f4", "b": "u1", "u": "u1", "i": "i4"}  # by numpy's kind


def pack(meta: dict[str, Any], /, **arrays: np.ndarray) -> bytes:
    """Put words and numbers into one block of bytes.

    Layout, little-endian: u32 length of the header | header: JSON, padded with spaces | the arrays in C order, each at
    a multiple of 8. An array's `offset` counts from the end of the header, which is itself at a multiple of 8.

    Args:
        meta: Anything JSON can hold. Lone surrogates survive, since the JSON is plain ASCII.
        arrays: Floats of any width become f4, booleans and unsigned bytes u1, integers i4; any shape.

    Returns:
        The block, for a component's `data`.

    Raises:
        TypeError: If an array is neither real, integer nor boolean, or has unsigned integers wider than a byte.
    """
    described: dict[str, dict[str, Any]] = {}
    blocks: list[bytes] = []
    offset = 0
    for name, array in arrays.items():
        dtype = DTYPES.get(array.dtype.kind)
        if dtype is None or (array.dtype.kind == "u" and array.dtype.itemsize > 1):
            raise TypeError(f"{name}: {array.dtype} does not travel; give float, int, bool or uint8")
        block = np.ascontiguousarray(array, dtype=f"<{dtype}").tobytes()
        described[name] = {"dtype": dtype, "shape": list(array.shape), "offset": offset}
        blocks.append(block + bytes(-len(block) % 8))
        offset += len(blocks[-1])
    header = json.dumps({"meta": meta, "arrays": described}, ensure_ascii=True, allow_nan=False).encode("ascii")
    header += b" " * (-(4 + len(header)) % 8)
    return struct.pack("<I", len(header)) + header + b"".join(blocks)


def mount(name: str) -> Callable[..., Any]:
    """Register the component in the folder `name` and give its mount.

    Its module is what all components share, then the folder's other scripts, then `name.js` with the default export.
    """
    folder = HERE / name
    js = [HERE / "shared.js", *sorted(set(folder.glob("*.js")) - {folder / f"{name}.js"}), folder / f"{name}.js"]
    css = [HERE / "shared.css", folder / f"{name}.css"]
    return st.components.v2.component(
        f"gaze_{name}",
        html=f'<div class="gaze {name}" data-gaze="{name}"></div>',
        css="\n".join(path.read_text("utf-8") for path in css),
        js="\n".join(path.read_text("utf-8") for path in js),
    )
