"""How numbers travel to the browser: one block of bytes, read there without copying (`unpack` in shared.js)."""

import json
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import streamlit as st
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

HERE = Path(__file__).parent
FOLDERS = sorted(path.parent.name for path in HERE.glob("*/*.css"))
SERVED = ComponentManifest("gaze", "1", [ComponentConfig(name, asset_dir=name) for name in FOLDERS])
_serving = Lock()
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
