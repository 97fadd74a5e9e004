"""The video search: its controls, its cached doors, the wall of films, and the bridge to a sentence."""

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from attention_core import compute
from ui import controls, link
from ui.components.film_wall import film_wall
from ui.compute import door, head_view, reading
from ui.lesson import Table
from ui.pick import pick
from ui.show import factor_text, focus
from ui.text import language, note, plain, say, t, words

if TYPE_CHECKING:
    from attention_core.labs.video_search import Found

MODEL = "minilm"
LIMIT = 300  # characters of a query
EXAMPLES = (1, 2, 3, 4)
TAGS = 5
COLDEST, WARMEST, USUAL = 0.01, 1.0, 0.05
WRITTEN_OUT = 3
COLOURS = ("ground", "shape", "accent")


def query_box() -> str:
    """Ask what the reader would like to watch. An empty box keeps the last search, a very long text is cut and said."""
    state = st.session_state
    query = link.restore("q", t("video_search.example"), str)
    st.text_input(t("video_search.query"), key="q", live="300ms", placeholder=t("video_search.example"))
    with st.container(horizontal=True, gap="small"):
        for number in EXAMPLES:
            text = t(f"video_search.example_{number}")
            st.button(plain(text), key=f"ask_{number}", type="tertiary", on_click=_ask, args=(text,))
    if not query.strip():
        note("video_search.blank")
        query = state.get("_last_query", t("video_search.example"))
        link.keep("q", query)
        return query
    if len(query) > LIMIT:
        st.warning(t("video_search.cut", typed=len(query), limit=LIMIT))
        query = query[:LIMIT]
        link.keep("q", query)
    state["_last_query"] = query
    return query


def search_choice() -> tuple[int, float, bool]:
    """Ask how to search: how many tags make a key, the temperature, and whether there is one winner."""
    hard = pick("video_search.search", ("soft", "hard"), "soft") == "hard"
    temperature = link.restore("search_temperature", USUAL, _temperature)
    st.slider(
        t("video_search.search_temperature"),
        COLDEST,
        WARMEST,
        step=0.01,
        key="search_temperature",
        help=t("video_search.search_temperature_help"),
        width=170,
    )
    tags = link.restore("search_tags", TAGS, link.whole(1, TAGS))
    st.slider(
        t("video_search.search_tags"), 1, TAGS, key="search_tags", help=t("video_search.search_tags_help"), width=150
    )
    return tags, temperature, hard


def found(query: str, tags: int, temperature: float, hard: bool) -> "Found":
    """Search the films."""
    if not compute.loaded(MODEL):
        reading(MODEL, controls.EXAMPLE)  # says so while the model is being made ready
    return _found(query, tags, temperature, hard)


def wall(seen: "Found", tags: int, temperature: float, hard: bool) -> None:
    """Draw the films, as large as their weights, and what comes back."""
    from attention_core.labs.video_search import catalogue, opacities, poster

    films, lang = catalogue(), language()
    genres = list(dict.fromkeys(film.genre for film in films))
    meta = {
        "view": "films",
        "param": None,
        "pinned": None,
        "default": 0,
        "queries": [""],
        "keys": [film.title[lang] for film in films],
        "muted": [False] * len(films),
        "groups": [t(f"video_search.genre_{genre}") for genre in genres],
        "group": [genres.index(film.genre) for film in films],
        "posters": [poster(film.id) for film in films],
        "tags": [film.tags[lang] for film in films],
        "used": tags,
        "about": [film.description[lang] for film in films],
        "factor_text": f"1/{temperature:g}",
        "most": WRITTEN_OUT,
        "words": words("film_wall_films") | ({"weight": t("film_wall_films.weight_hard")} if hard else {}),
    }
    rows = {"weights": seen.weights, "raw": seen.raw, "scaled": seen.scaled, "opacity": opacities(seen.weights)}
    film_wall(meta, {name: row[None] for name, row in rows.items()} | {"colours": seen.context[None]}, key="films")


def understood_line(seen: "Found") -> None:
    """Say what the query was taken for."""
    read = seen.understood
    if not read.korean:
        note("video_search.read_english")
    elif not read.words:
        note("video_search.read_nothing")
    else:
        pairs = dict.fromkeys(f"{word.entry} → {word.english}" for word in read.words)
        said = t("video_search.read_korean", found=plain(", ".join(pairs)), sent=plain(read.sent))
        if read.unknown:
            said += " " + t("video_search.read_unknown", unknown=plain(", ".join(read.unknown)))
        st.caption(said)


def how(tags: int) -> None:
    """Say how the search works, and measure how well, if asked to."""
    with st.expander(t("video_search.how_title")):
        say("video_search.how")
        say("video_search.how_korean")
        link.restore("measure", False, link.switch)
        if st.toggle(t("video_search.measure"), key="measure"):
            for lang in ("en", "ko"):
                for part in ("seen", "held_out"):
                    hits = [_hit(part, lang, n, tags) for n in range(_queries(lang, part))]
                    st.markdown(
                        "- "
                        + t(
                            "video_search.measured_line",
                            language=t(f"video_search.{lang}"),
                            part=t(f"video_search.part_{part}"),
                            hits=sum(hits),
                            all=len(hits),
                            tags=tags,
                        )
                    )
            note("video_search.measured")


def bridge(text: str) -> None:
    """Draw the same picture with the words of a sentence in the place of films, in a real head."""
    from attention_core.labs.video_search import opacities

    layer, head = controls.BEST_HEAD[MODEL]
    view = head_view(MODEL, text, layer - 1, head - 1, "token", "shown")
    meta = {
        "view": "words",
        "param": "query",
        "pinned": link.pinned(len(view.queries)),
        "default": focus(view)[0],
        "queries": view.queries,
        "keys": view.keys,
        "muted": view.special_keys,
        "groups": [],
        "group": [],
        "posters": [],
        "tags": [],
        "used": 0,
        "about": [],
        "factor_text": factor_text(view).split(" = ")[0],
        "most": WRITTEN_OUT,
        "words": words("film_wall_words"),
    }
    arrays = {
        "weights": view.weights,
        "raw": view.raw[0],
        "scaled": view.raw[0] * view.factor,
        "opacity": opacities(view.weights),
        "colours": np.zeros((len(view.queries), 0, 3), np.float32),
    }
    film_wall(meta, arrays, key="words")


def tables(seen: "Found") -> dict[str, Table]:
    """Return the numbers behind the wall."""
    from attention_core.labs.video_search import catalogue

    columns = [t(f"video_search.column_{name}") for name in ("raw", "scaled", "soft", "weight")]
    values = np.stack([seen.raw, seen.scaled, seen.soft, seen.weights], axis=1)
    colours = [t(f"video_search.colour_{name}") for name in COLOURS]
    channels = [t(f"video_search.{name}") for name in ("red", "green", "blue")]
    titles = [film.title[language()] for film in catalogue()]
    return {
        t("video_search.table_films"): Table(titles, columns, values),
        t("video_search.table_context"): Table(colours, channels, seen.context),
    }


@door
def _found(query: str, tags: int, temperature: float, hard: bool) -> "Found":
    from attention_core.labs import video_search

    return compute.run(video_search.search, query, tags, temperature, hard)


@door
def _hit(part: str, lang: str, at: int, tags: int) -> bool:
    from attention_core.labs import video_search

    return compute.run(video_search.hits, part, lang, at, tags)  # one query a job: nobody waits for all of them


def _queries(lang: str, part: str) -> int:
    from attention_core.labs.video_search import queries

    return len(queries()[lang][part])


def _temperature(said: str) -> float:
    value = round(float(said), 2)
    if not COLDEST <= value <= WARMEST:
        raise ValueError(said)
    return value


def _ask(text: str) -> None:
    st.session_state["q"] = text
