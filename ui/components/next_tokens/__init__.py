"""What a model says comes next: the most probable tokens with their probabilities, and the one that is chosen."""

from typing import Any

from ui.components.payload import mount, pack

_mount = mount("next_tokens")


def next_tokens(meta: dict[str, Any], *, key: str) -> Any:  # noqa: ANN401
    """Show candidates as bars.

    Args:
        meta: `labels`, `ranks`, `probabilities` and `chances` of the candidates, `chosen` (which of them), `sampled`
            (whether chances are shown), `words` (`probability`, `chance`, `chosen`, `alt`).
        key: Streamlit's key of this element.

    Returns:
        The mount's result.
    """
    return _mount(data=pack(meta), key=key)
