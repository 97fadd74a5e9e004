"""One of a few, side by side: a choice that is part of the link."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import streamlit as st

from ui import link
from ui.text import t, words

V = TypeVar("V", str, int)


def pick(
    text: str, ids: Iterable[V], usual: V, *, key: str = "", name: Callable[[V], str] | None = None, **more: object
) -> V:
    """Ask for one of a few.

    Args:
        text: Where the words are, ``section.label``: the label. Each choice's name is at ``section.label_ID``, and
            where there is a ``section.label_help``, it is the help.
        ids: What can be chosen, as the link has it.
        usual: What is chosen at first.
        key: The widget's key, which is its query parameter; else the label's.
        name: Gives a choice's name, where the words have none.
        **more: For the widget.

    Returns:
        The choice.
    """
    section, _, label = text.partition(".")
    choices = list(ids)
    chosen = link.restore(key or label, usual, link.one_of(*choices))
    about = {"required": True, "width": "content", "wrap": True, "help": words(section).get(f"{label}_help")} | more
    named = name or (lambda one: t(f"{text}_{one}"))
    st.segmented_control(t(text), choices, key=key or label, format_func=named, **about)
    return chosen
