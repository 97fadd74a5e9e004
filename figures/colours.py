"""The colours of both themes, equal to those in ``.streamlit/config.toml``, for figures outside the app."""

from typing import Literal, NamedTuple

Theme = Literal["light", "dark"]
# The names after the first are fonts of Windows, macOS and Linux that have Korean letters: a file embeds no font.
FONT = (
    "Pretendard Variable, Pretendard, system-ui, Apple SD Gothic Neo, Malgun Gothic, Noto Sans KR, Noto Sans CJK KR, "
    "NanumGothic, sans-serif"
)


class Palette(NamedTuple):
    """The colours of one theme.

    Attributes:
        background: The page.
        text: What is written on it.
        blocked: Where a query may not look: a grey that neither ramp contains.
        weights: From the page's background (no weight) to the accent (the largest).
        scores: Blue (negative), background, orange (positive).
    """

    background: str
    text: str
    blocked: str
    weights: tuple[str, ...]
    scores: tuple[str, ...]


LIGHT = Palette(
    background="#fdfcfb",
    text="#13121b",
    blocked="#dcdcdc",
    weights=(
        "#fdfcfb", "#e6e9fb", "#d0d7fb", "#bbc4f9", "#a6b1f7", "#929ef5", "#7f8af2", "#6d75ee", "#5d5fea", "#4f46e5"
    ),
    scores=(
        "#2563eb", "#5589f2", "#84abf7", "#b4ccfb", "#e4ecfc", "#fdeee5", "#fbd2b8", "#f7b68a", "#f1995a", "#ea7a0c"
    ),
)  # fmt: skip
DARK = Palette(
    background="#0f1220",
    text="#e9e8f2",
    blocked="#3a3a3a",
    weights=(
        "#0f1220", "#1a1d34", "#252949", "#303660", "#3d4377", "#49518f", "#565ea8", "#636dc2", "#717bdc", "#7f8af7"
    ),
    scores=(
        "#60a5fa", "#4d81c4", "#3b5e91", "#293e60", "#172034", "#251f27", "#543a32", "#88563a", "#c0743d", "#fb923c"
    ),
)  # fmt: skip
PALETTES: dict[Theme, Palette] = {"light": LIGHT, "dark": DARK}


def weight_scale(palette: Palette) -> list[tuple[float, str]]:
    """Return plotly's colour scale for weights."""
    return _even(palette.weights)


def score_scale(palette: Palette) -> list[tuple[float, str]]:
    """Return plotly's colour scale for scores; its ten colours have no middle one, so the background comes between."""
    return sorted([*_even(palette.scores), (0.5, palette.background)])


def _even(colours: tuple[str, ...]) -> list[tuple[float, str]]:
    return [(place / (len(colours) - 1), colour) for place, colour in enumerate(colours)]
