"""Which query heads read which key-value head: each its own, several one, all one."""

from typing import Any

from ui.components.payload import mount, pack

_mount = mount("shared_heads")


def shared_heads(meta: dict[str, Any], *, key: str) -> Any:  # noqa: ANN401
    """Show query heads joined to the key-value heads that they read.

    Args:
        meta: `heads` (how many query heads a layer has), `parts` (each with `groups`, `title` and `size`, the words
            below it, and `chosen`), `words` (`query`, `key`, `alt`).
        key: Streamlit's key of this element.

    Returns:
        The mount's result.
    """
    return _mount(data=pack(meta), key=key)
