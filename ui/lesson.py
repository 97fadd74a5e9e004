"""What every lesson page has: a question at the top, the numbers behind the picture, and things to try at the end."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import streamlit as st

from ui.text import language, plain, t, words


class Table(NamedTuple):
    """A matrix with the names of its rows and columns, as it is shown and downloaded.

    Attributes:
        rows: R names.
        columns: C names.
        values: (R, C).
    """

    rows: Sequence[str]
    columns: Sequence[str]
    values: np.ndarray


class Look(NamedTuple):
    """What a chart depends on besides its numbers.

    Attributes:
        language: Of the names in it.
        theme: "light" or "dark".
        size: Of its letters, in pixels.
    """

    language: str
    theme: str
    size: int

    @property
    def style(self) -> dict:
        """As figures want it."""
        return {"theme": self.theme, "size": self.size}


def look() -> Look:
    """Return how charts look now: larger in presenter mode."""
    return Look(language(), theme(), 18 if st.session_state.get("present") else 13)


def legend(names: Sequence[str]) -> None:
    """Name the colours of several charts at once, in the order of :func:`figures.curves.line_colours`."""
    from figures.colours import PALETTES
    from figures.curves import line_colours

    colours = line_colours(PALETTES[theme()])
    spots = (f'<span><i style="background:{c}"></i>{n}</span>' for c, n in zip(colours, names, strict=False))
    st.html(f'<p class="gaze-legend">{"".join(spots)}</p>')


def chart(figure: object, key: str) -> None:
    """Draw a chart."""
    st.plotly_chart(figure, key=key, theme=None, config={"displayModeBar": False})


def redraw(seed: str) -> None:
    """Take the next seed, of the control with this key, so that a link brings the draw back."""
    st.session_state[seed] = st.session_state[seed] % 9999 + 1


def question(section: str) -> None:
    """Write the one question that the page answers."""
    st.markdown(f"##### {t(f'{section}.question')}")


def theme() -> str:
    """Return the page's colour scheme, for figures: "light" or "dark"."""
    return st.context.theme.type or "light"


def tries(section: str) -> None:
    """Write the page's "try this" prompts, the texts ``try_1``, ``try_2`` … of its section."""
    prompts = [text for key, text in words(section).items() if key.startswith("try_")]
    st.markdown(f"**{t('lesson.try')}**\n" + "\n".join(f"- {prompt}" for prompt in prompts))


def numbers(tables: Callable[[], Mapping[str, Table]], *, file: str) -> None:
    """Offer the exact numbers behind the pictures: each as a table, all as one CSV file.

    Args:
        tables: Gives them by title, in the reader's language; asked only while somebody looks at them.
        file: The downloaded file's name, without its ending.
    """
    place = st.expander(t("lesson.numbers"), key=f"{file}_numbers", on_change="rerun")
    if not place.open:
        return
    found = tables()
    with place:
        for title, table in found.items():
            st.markdown(f"**{plain(title)}** · {table.values.shape[0]} × {table.values.shape[1]}")
            st.dataframe(
                {"": list(table.rows)}
                | {f"{n + 1} · {name}": table.values[:, n] for n, name in enumerate(table.columns)},
                hide_index=True,
                key=f"{file}-{title}-{language()}",
            )
        st.download_button(t("lesson.download"), _csv(found).encode("utf-8-sig"), f"{file}.csv", "text/csv")


def _number(value: float) -> str:
    """Write a number exactly; a whole one, such as a token's, without decimals."""
    value = float(value)
    return str(int(value)) if value.is_integer() else repr(value)


def _csv(tables: Mapping[str, Table]) -> str:
    from attention_core.export import literal

    out = io.StringIO()
    write = csv.writer(out)
    for title, table in tables.items():
        write.writerow([literal(title), *map(literal, table.columns)])
        for name, row in zip(table.rows, table.values, strict=True):
            write.writerow([literal(name), *map(_number, row)])
        write.writerow([])
    return out.getvalue()
