"""Buttons that save pictures as files; the browser turns an SVG into a PNG, since it has the fonts."""

from typing import Any

from ui.components.payload import mount, pack

_mount = mount("picture_files")


def picture_files(meta: dict[str, Any], *, key: str) -> Any:  # noqa: ANN401
    """Offer each picture as PNG and SVG; nothing is asked of the server.

    Args:
        meta: `pictures`, each with `title` (on the button), `file` (name without ending) and `svg`; `words` (`failed`).
        key: Streamlit's key of this element.

    Returns:
        The mount's result; it carries no values.
    """
    return _mount(data=pack(meta), key=key)
