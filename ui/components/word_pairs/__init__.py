"""The words of two panes side by side, aligned, and how far apart their rows are."""

from typing import Any

from ui.components.payload import mount, pack

_mount = mount("word_pairs")


def word_pairs(meta: dict[str, Any], *, key: str) -> Any:  # noqa: ANN401
    """Show a row for each pair of words; what differs is marked.

    Args:
        meta: `view`, `param`, `pinned`, `queries` and `keys` as in `token_links`: pointing at a row points at its query
            in the other pictures of the view; `linked` (whether rows are the view's queries); `rows`, each with `first`
            and `second` (a word or None), `same`, and `value` (0 to 1, or None); `words` (`first`, `second`, `value`,
            `none`, `alt`).
        key: Streamlit's key of this element.

    Returns:
        The mount's result; it carries no values.
    """
    return _mount(data=pack(meta), key=key)
