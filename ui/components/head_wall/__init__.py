"""All heads of a model as small pictures: a wall to hover over, walk through with the keys, and pick from."""

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8
from numpy import ndarray

from ui.components.payload import mount, pack

_mount = mount("head_wall")


class Wall(NamedTuple):
    """What the browser gets once a text; picking, ordering, filtering and colouring send nothing of it again.

    Attributes:
        name: Tells this wall from others.
        packed: The block of bytes for the browser, pictures deflated.
    """

    name: str
    packed: bytes


def wall_of(
    pictures: UInt8[ndarray, "L H s z"],
    values: Float[ndarray, "S L H"],
    roles: Int[ndarray, "L H"],
    evidence: Float[ndarray, "L H"],
) -> Wall:
    """Pack what never changes while one looks at a text.

    Args:
        pictures: 0 is the page's background, 255 the colour.
        values: The numbers of each head, NaN for none.
        roles: Which role each head has.
        evidence: The number that made it.
    """
    deflated = np.frombuffer(zlib.compress(pictures.tobytes(), 6), np.uint8)
    name = f"{zlib.crc32(pictures.tobytes() + values.tobytes()):08x}"
    meta = {"name": name, "shape": pictures.shape}
    return Wall(name, pack(meta, deflated=deflated, values=values, roles=roles, evidence=evidence))


def head_wall(wall: Wall, meta: dict[str, Any], *, key: str, on_pick: Callable[[], None] = lambda: None) -> Any:  # noqa: ANN401
    """Show a wall. Layers are rows and heads columns; in another order, pictures flow one after the other.

    Args:
        wall: From :func:`wall_of`.
        meta: `shape` (layers, heads); `chosen` (layer and head, from 0); `shown` (heads in order, each as a number:
            layer · heads + head); `flow` (False: layers as rows); `order` (which number stands out in the tip; None for
            none); `colours` (one a role: a colour, None for the text's own, a number from 0 to 1 for a grey; or None
            for the accent everywhere); `legend` (roles that occur), `counts` (how many heads each role has), `roles`
            and `statistics` (names); `heading` (written above the picture that is saved); `places` (decimals of each
            statistic); `words` (`alt`, `layer`, `head`, `title`, `old`, `png`, `svg`, `failed`).
        key: Streamlit's key of this element; in `on_pick`, `st.session_state[key].picked` is [layer, head].
        on_pick: Called when a head is picked.
    """
    result = _mount(data=pack({**meta, "wall": wall.name}), key=key, on_picked_change=on_pick)
    _mount(data=wall.packed, key=f"{key}-pictures")
    return result
