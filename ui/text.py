"""Every word on screen, in the learner's language, from ``assets/text``."""

import tomllib
from functools import cache
from pathlib import Path

import streamlit as st

FOLDER = Path(__file__).parents[1] / "assets" / "text"
LANGUAGES = {"en": "English", "ko": "한국어"}
MARKUP = str.maketrans({c: f"\\{c}" for c in r"\`*_{}[]()<>#+-.!|$~:&@"})


def t(key: str, /, **values: object) -> str:
    """Return the text of a key, ``section.name``, with its {places} filled in.

    Raises:
        KeyError: If the key does not exist; the tests see to it that none is missing.
    """
    section, name = key.split(".")
    text = _texts(language())[section][name]
    return text.format(**values) if values else text


def say(key: str, /, **values: object) -> None:
    """Write a text on the page. Values are shown as they are, never taken for markup."""
    st.markdown(t(key, **{name: plain(value) for name, value in values.items()}))


def heading(key: str) -> None:
    """Write a heading within the page."""
    st.markdown(f"**{t(key)}**")


def note(key: str, /, **values: object) -> None:
    """Write a small remark."""
    st.caption(t(key, **{name: plain(value) for name, value in values.items()}))


def plain(value: object) -> str:
    """Return a value so that Markdown shows it literally."""
    return " ".join(str(value).translate(MARKUP).split())


def shortened(text: object, most: int = 240) -> str:
    """Return a text in one line of at most ``most`` characters, as it is shown where there is no room for all of it."""
    line = " ".join(str(text).split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def words(section: str) -> dict[str, str]:
    """Return a whole section, for a component in the browser."""
    return dict(_texts(language())[section])


def language() -> str:
    """Return the learner's language: "en" or "ko"."""
    return st.session_state.get("lang") or "en"


@cache
def _texts(lang: str) -> dict[str, dict[str, str]]:
    sections: dict[str, dict[str, str]] = {}
    for path in sorted((FOLDER / lang).glob("*.toml")):
        for name, texts in tomllib.loads(path.read_text(encoding="utf-8")).items():
            sections.setdefault(name, {}).update(texts)
    return sections
