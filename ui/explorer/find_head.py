"""The page "Find a head": what is asked, every head's answer, and how much of it is luck."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import urlencode

import numpy as np
import streamlit as st

from attention_core import compute
from attention_core.relations import PLACES, RELATIONS, sentences
from ui import controls, link
from ui.components.head_ranking import head_ranking
from ui.compute import LIMIT, door, head_view, reading
from ui.explorer.upload import uploader
from ui.layers import untrained
from ui.lesson import Table
from ui.lessons import many_heads as many
from ui.pick import pick
from ui.show import PRONOUNS, apart, few, links, mention
from ui.take_away import take_away
from ui.text import language, note, plain, say, shortened, t, words

if TYPE_CHECKING:
    from attention_core.heads import Finding
    from attention_core.minimal_pairs import MinimalPair, Switches
    from attention_core.ranking import Looks, Marks, Ranking, Words

T = TypeVar("T")
WHERE = ("sentence", "lines", "file", "set", "pairs")
WHAT = ("words", *PLACES)
WHICH = ("nearest", "first", "last")
ASKED = ("pronoun", "adjective")
TOP, MOST_WORDS, MOST_LETTERS, SEGMENTS = 10, 60, 1000, 16
MOST_SHOWN = 40  # letters of a word in a sentence of ours
CLEARLY, HALF = 2.0, 0.5
FEW = 20  # with fewer other pairs, 1 in 20 can't be told
TICK, PIECE = 0.4, 0.35  # seconds: a file's lines are asked for a third of a second, then the page is drawn
RUN = "_find_run"
LINES = """\
I ate the cake and it was delicious
The cake fell and it broke
She cut the cake because it was ready
We bought a cake and it was cheap
He dropped the cake and it was ruined
They hid the cake but it was found"""


class Shown(NamedTuple):
    """All heads by one number, ready to be shown. N heads.

    Attributes:
        heads: How many heads a layer has.
        order: From best to worst, layer · heads + head.
        values: What they are ranked by, (N,), from 0 to 1.
        name: What that is called.
        columns: What else is said of a head, names.
        cells: The texts for a head.
        compared: What the value is compared with, names.
        marks: Those values for a head.
        link: The parameters with which the sentence page shows a head; empty where the text is too long to travel.
        draw: Draws one head on one of the sentences.
        tables: The numbers of every head.
    """

    heads: int
    order: np.ndarray
    values: np.ndarray
    name: str
    columns: Sequence[str]
    cells: Callable[[int], list[str]]
    compared: Sequence[str]
    marks: Callable[[int], list[float | None]]
    link: Mapping[str, str]
    draw: Callable[[int], None]
    tables: Callable[[], Mapping[str, Table]]


class Example(NamedTuple):
    """A sentence in which a pair of words is marked; the words count special tokens."""

    text: str
    query: int
    key: int
    gloss: str | None = None


@dataclass
class Run:
    """How far a file has been asked.

    Attributes:
        asked: The file, the model and what is marked.
        lines: The file's lines.
        marks: What is marked.
        running: Whether it goes on.
        done: How many lines were asked.
        total: The sums over those that could be used.
        used: Which these were.
        left: How many could not be used, by reason.
        cut: Of how many used ones the end did not fit.
    """

    asked: tuple
    lines: tuple[str, ...]
    marks: "Marks"
    running: bool = False
    done: int = 0
    total: "Looks | None" = None
    used: list[int] = field(default_factory=list)
    left: Counter = field(default_factory=Counter)
    cut: int = 0


def where_choice() -> str:
    """Ask in what to search."""
    return pick("find_head.find_in", WHERE, WHERE[0], on_change=_afresh)


def answer(where: str, model: str) -> Shown | None:
    """Ask for what the choice needs, and find it; None where there is nothing to show."""
    return {"sentence": _one, "lines": _lines, "file": _file, "set": _set, "pairs": _pairs}[where](model)


def table(shown: Shown) -> int:
    """Show the ranking, and ask for a head, layer · heads + head from 0."""
    last = len(shown.order)
    place = link.restore("find_place", 1, link.whole(1, last))
    heads = shown.heads
    places = [*range(min(TOP, last)), *([place - 1] if place > TOP else [])]
    meta = {
        "chosen": places.index(place - 1),
        "value": shown.name,
        "columns": list(shown.columns),
        "compared": list(shown.compared),
        "words": words("head_ranking"),
        "rows": [
            {
                "place": n + 1,
                "head": head,
                "name": t("head_ranking.head", layer=head // heads + 1, head=head % heads + 1),
                "value": float(shown.values[head]),
                "cells": shown.cells(head),
                "marks": shown.marks(head),
                "href": f"sentence?{urlencode(_link(shown.link, head, heads))}" if shown.link else None,
            }
            for n, head in ((n, int(shown.order[n])) for n in places)
        ],
    }
    st.session_state["_find_order"] = shown.order
    head_ranking(meta, shown.values.reshape(-1, heads), key="find_heads", on_pick=_pick)
    return int(shown.order[place - 1])


# One sentence


def _one(model: str) -> Shown | None:
    text = controls.sentence_box()
    read = reading(model, text)
    if read.cut:
        st.warning(t("reading.cut", tokens=read.tokens, limit=read.limit, cut=read.cut))
    untrained(read)
    seen = _words(model, text)
    if not seen.labels:
        st.info(t("errors.NoTokens"))
        return None
    query, key = _pair_choice(seen)
    said = {"query": mention(seen.labels, query, MOST_SHOWN), "key": mention(seen.labels, key, MOST_SHOWN)}
    st.markdown(f"##### {t('find_head.question', **{name: plain(word) for name, word in said.items()})}")
    if seen.back and key > query:
        st.info(t("find_head.later", **{name: plain(word) for name, word in said.items()}))
        st.button(t("find_head.turn"), key="find_turn", on_click=_turn)
        return None
    at = Example(text, seen.places[query], seen.places[key])
    found = _ranking(_pair(model, text, at.query, at.key))
    if not found.weight.any():
        st.info(t("find_head.far", **{name: plain(word) for name, word in said.items()}))
        return None
    best = int(found.order[0])
    say(
        "find_head.best",
        **said,
        layer=best // read.heads + 1,
        head=best % read.heads + 1,
        tried=len(found.order),
        weight=f"{found.weight[best]:.3f}",
        place=f"{found.rank[best]:.0f}",
        row=round(found.row[best]),
        chance=few(found.chance[best]),
    )
    columns = [t(f"find_head.{name}") for name in ("place", "others_short", "back_short")]
    shown = _weights(
        found,
        read.heads,
        model,
        [at],
        columns,
        lambda head: [f"{found.rank[head]:.0f}", _number(found.controls[0, head]), _number(found.controls[1, head])],
    )

    def draw(head: int) -> None:
        if query == key:
            note("find_head.itself", **said)
        _swapped(found, head, read.heads, **said)
        reached, pairs = _elsewhere(model, text, at.query, at.key)
        if pairs:
            numbers = {"tried": len(found.order), "reached": reached, "pairs": pairs}
            kind = "one" if reached else "none" if pairs >= FEW else "few"
            said_luck = t(f"find_head.luck_{kind}", **numbers)
            st.warning(said_luck, icon=":material/casino:")
        shown.draw(head)

    return shown._replace(draw=draw)


def _swapped(found: "Ranking", head: int, heads: int, query: str, key: str) -> None:
    """Say what a head, layer · heads + head, does if one of the two words is exchanged for others."""
    weight, others, back = found.weight[head], *found.controls[:2, head]
    if np.isnan(others) or np.isnan(back):
        return
    kind = "both"
    if max(others, back) * CLEARLY >= weight:
        kind = "key" if back >= others else "query"
    where = {"layer": head // heads + 1, "head": head % heads + 1}
    note(f"find_head.swapped_{kind}", **where, query=query, key=key, others=few(others, 3), back=few(back, 3))


def _pair_choice(seen: "Words") -> tuple[int, int]:
    """Ask for the two words, by clicking them; places in the sentence's words, from 0."""
    labels = seen.labels[:MOST_WORDS]
    count = len(labels)
    query = next((n for n, label in enumerate(labels) if label.lower() in PRONOUNS), count - 1)
    before = range(query) or [n for n in range(count) if n != query] or [query]
    key = max(before, key=lambda n: (len(labels[n]) if labels[n].isalnum() else 0, -n))
    chosen = []
    for name, usual, place in zip(("find_query", "find_key"), (query, key), st.columns(2, gap="large"), strict=True):
        _follow(name, labels)
        n = link.restore(name, usual + 1, link.whole(1, count))
        with place:
            st.pills(
                t(f"find_head.{name}"),
                range(1, count + 1),
                key=name,
                format_func=lambda n: _numbered(labels, n - 1),
                required=True,
                wrap=True,
                on_change=_afresh,
            )
        chosen.append(n - 1)
    if count < len(seen.labels):
        note("find_head.first_words", most=count, count=len(seen.labels))
    return chosen[0], chosen[1]


def _follow(name: str, labels: tuple[str, ...]) -> None:
    """When the sentence changes, stay with the word that was chosen, or let it go."""
    state = st.session_state
    before, state[f"_{name}"] = state.get(f"_{name}", labels), labels
    at = state.get(name)
    if before == labels or at is None or name in state[link.FRESH] or at > len(before):
        return
    places = [n for n, label in enumerate(labels, 1) if label == before[at - 1]]
    if places:
        state[name] = min(places, key=lambda n: abs(n - at))
    else:
        link.forget(name)


def _numbered(labels: Sequence[str], n: int) -> str:
    return plain(mention(labels, n, 24))


@door
def _words(model: str, text: str) -> "Words":
    from attention_core.ranking import sentence_words

    return sentence_words(model, text, LIMIT)


@door
def _pair(model: str, text: str, query: int, key: int) -> "Looks":
    from attention_core.ranking import pair_looks

    return pair_looks(model, text, LIMIT, query, key)


@door
def _elsewhere(model: str, text: str, query: int, key: int) -> tuple[int, int]:
    from attention_core.ranking import elsewhere

    return elsewhere(_reach(model, text), _words(model, text), query, key)


@st.cache_resource(max_entries=32, show_spinner=False)
def _reach(model: str, text: str) -> np.ndarray:
    from attention_core.ranking import sentence_reach

    return sentence_reach(model, text, LIMIT)


# Several sentences


def _lines(model: str) -> Shown | None:
    text = link.restore("find_lines", LINES, _short)
    st.text_area(t("find_head.find_lines"), key="find_lines", height=170, max_chars=MOST_LETTERS, on_change=_afresh)
    lines = [" ".join(line.split()) for line in text.split("\n") if line.strip()]
    marks = _marks_choice()
    if not lines:
        note("find_head.no_lines")
        return None
    read = reading(model, controls.EXAMPLE)  # a model that is not ready yet is made ready, or says why it can't
    untrained(read)
    total, used, left, cut = None, [], Counter(), 0
    for n, line in _patiently(lines):
        looks = _line(model, line, *marks)
        if isinstance(looks, str):
            left[looks] += 1
        else:
            total, used = looks if total is None else total + looks, [*used, n]
            cut += _cut(model, line)
    return _several(model, read.heads, lines, marks, total, used, left, cut)


@door
def _cut(model: str, text: str) -> bool:
    from attention_core.ranking import line_cut

    return line_cut(model, text, LIMIT)


@door
def _line(model: str, text: str, what: str, query: str, key: str, which: str) -> "Looks | str":
    from attention_core.ranking import Marks, line_looks

    return line_looks(model, text, LIMIT, Marks(what, query, key, which))


def _marks_choice() -> "Marks":
    """Ask what is looked for in every sentence."""
    from attention_core.ranking import Marks

    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        what = pick("find_head.find_what", WHAT, WHAT[0], on_change=_afresh)
        if what != "words":
            return Marks(what)
        asked = []
        for name, usual in (("find_from", "it"), ("find_to", "cake")):
            asked.append(link.restore(name, usual, _word))
            st.text_input(
                t(f"find_head.{name}"),
                key=name,
                max_chars=40,
                width=150,
                help=t("find_head.word_help"),
                on_change=_afresh,
            )
        which = pick("find_head.find_which", WHICH, WHICH[0], on_change=_afresh)
    return Marks(what, asked[0].strip(), asked[1].strip(), which)


def _several(
    model: str,
    heads: int,
    lines: Sequence[str],
    marks: "Marks",
    total: "Looks | None",
    used: Sequence[int],
    left: Mapping[str, int],
    cut: int,
) -> Shown | None:
    """Say what was found in several sentences, which could not be used, and how many of the others were cut."""
    said = {"query": marks.query, "key": marks.key}
    limit = reading(model, controls.EXAMPLE).limit
    for reason in ("missing", "beyond", "later", "far", "unread"):
        if left.get(reason):
            named = "short" if reason == "missing" and marks.what != "words" else reason
            note(f"find_head.left_{named}", **said, count=left[reason], limit=limit)
    if cut:
        note("find_head.cut", count=cut, limit=limit)
    if total is None:
        which = "none" if marks.what == "words" else "none_places"
        st.info(t(f"find_head.{which}", **{name: plain(word) for name, word in said.items()}))
        if marks.what == "words":
            common, most = _common(lines)
            note("find_head.common" if most > 1 else "find_head.words", words=", ".join(common))
        return None
    title = t("find_head.question", **{name: plain(word) for name, word in said.items()})
    st.markdown(f"##### {title if marks.what == 'words' else t(f'find_head.question_{marks.what}')}")
    found = _ranking(total)
    judged = _found(total, heads, marks.what != "words")
    many.verdict(many.Found(judged, (True,) * found.sentences, (), turned=False))
    if marks.what == "words" and marks.query.casefold() == marks.key.casefold():
        note("find_head.itself", key=marks.key)
    if marks.what == "words" and judged.verdict == "found":  # of a head that does it, not of the best of none
        _swapped(found, int(found.order[0]), heads, **said)
    return _weights(found, heads, model, _Lazy(model, [lines[n] for n in used], marks), *_columns(found))


def _columns(found: "Ranking") -> tuple[list[str], Callable[[int], list[str]]]:
    names = [t(f"find_head.{name}") for name in ("place", "largest", "spread")]
    count = found.sentences
    whole = found.pairs == count

    def cells(head: int) -> list[str]:
        hits = found.hits[head]
        often = f"{round(hits * count)}/{count}" if whole else f"{hits:.0%}"
        return [f"{found.rank[head]:.1f}", often, f"±{found.spread[head]:.2f}"]

    return names, cells


class _Lazy:
    """The lines that were used, as examples; a line's words are looked up only when it is shown."""

    def __init__(self, model: str, lines: Sequence[str], marks: "Marks") -> None:
        self.model, self.lines, self.marks = model, lines, marks

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, n: int) -> Example:
        return Example(self.lines[n], *_line_pair(self.model, self.lines[n], *self.marks))


@door
def _line_pair(model: str, text: str, what: str, query: str, key: str, which: str) -> tuple[int, int]:
    from attention_core.ranking import Marks, sentence_pair

    return sentence_pair(model, text, LIMIT, Marks(what, query, key, which))


def _common(lines: Sequence[str]) -> tuple[list[str], int]:
    """Return words that stand in several lines, or else some of the words; and in how many the most frequent stands."""
    from attention_core.ranking import typed_words

    counts = Counter(word for line in lines for word in {w.casefold() for w in typed_words(line) if w[0].isalpha()})
    most = max(counts.values(), default=0)
    return [word for word, count in counts.most_common(8) if count > 1 or most == 1], most


def _found(total: "Looks", heads: int, by_distance: bool) -> "Finding":
    from attention_core.ranking import finding

    return compute.run(finding, total, heads, by_distance=by_distance)


def _ranking(total: "Looks") -> "Ranking":
    from attention_core.ranking import ranking

    return ranking(total)


# A file


def _file(model: str) -> Shown | None:
    given = uploader("find_file")
    state = st.session_state
    if given is None:
        state.pop(RUN, None)
        return None
    name, found = given
    _pick_line(found.lines)
    marks = _marks_choice()
    read = reading(model, controls.EXAMPLE)
    untrained(read)
    run = state.get(RUN)
    if run is None or run.asked != (name, model, marks):
        run = state[RUN] = Run((name, model, marks), found.lines, marks)
    with st.container(horizontal=True, gap="small"):
        start = "find_head.go_on" if 0 < run.done < len(run.lines) else "find_head.start"
        ended = run.done >= len(run.lines)
        st.button(t(start), key="find_start", type="primary", on_click=_start, disabled=run.running or ended)
        st.button(t("find_head.stop"), key="find_stop", on_click=_stop, disabled=not run.running)
    st.fragment(_advance, run_every=TICK if run.running else None)(model)
    if run.running or not run.done:
        return None
    return _several(model, read.heads, run.lines, run.marks, run.total, run.used, run.left, run.cut)


def _advance(model: str) -> None:
    """Draw how far the file is; while it runs, each tick takes it a piece further."""
    from attention_core.ranking import line_cut, line_looks

    run: Run = st.session_state[RUN]
    until = time.monotonic() + PIECE
    while run.running and run.done < len(run.lines) and time.monotonic() < until:
        number = run.done
        looks = line_looks(model, run.lines[number], LIMIT, run.marks, keep=False)
        cut = not isinstance(looks, str) and line_cut(model, run.lines[number], LIMIT)
        if not run.running:  # stopped meanwhile: the count that the reader sees stays true
            break
        if run.done != number:  # a run that this one overtook was still at the same line, and has counted it
            continue
        run.done += 1
        if isinstance(looks, str):
            run.left[looks] += 1
        else:
            run.total = looks if run.total is None else run.total + looks
            run.used.append(number)
            run.cut += cut
    if run.done or run.running:
        done = run.done / len(run.lines)
        st.progress(done, t("find_head.progress", done=run.done, lines=len(run.lines), used=len(run.used)))
    if run.running and run.done >= len(run.lines):
        run.running = False
        st.rerun()


def _pick_line(lines: Sequence[str]) -> None:
    """Offer one of the file's lines as the sentence."""
    left, right = st.columns([1, 4], vertical_alignment="bottom")
    with left:
        n = link.restore("_find_row", 1, link.whole(1, len(lines)))
        st.session_state[link.SHOWN].pop("_find_row")  # a file does not travel in the link, nor does its line
        st.number_input(t("find_head.line", lines=len(lines)), 1, len(lines), step=1, key="_find_row")
    with right:
        st.markdown(plain(shortened(lines[n - 1])))
        st.button(t("find_head.use"), key="find_use", on_click=_use, args=(lines[n - 1],))


def _use(line: str) -> None:
    link.forget("find_query", "find_key", "find_place")
    st.session_state["text"] = line
    st.session_state["find_in"] = "sentence"


def _start() -> None:
    st.session_state[RUN].running = True
    link.forget("find_place")


def _stop() -> None:
    st.session_state[RUN].running = False


# The shipped sets


def _set(model: str) -> Shown:
    found = many.findings(model)
    relation = link.restore("find_set", RELATIONS[0], link.one_of(*RELATIONS))
    st.pills(
        t("find_head.find_set"),
        RELATIONS,
        key="find_set",
        format_func=lambda name: many.name_of(name, found[name]),
        required=True,
        on_change=_afresh,
    )
    st.markdown(f"##### {t('find_head.question_set', relation=plain(many.name_of(relation, found[relation])))}")
    many.verdict(found[relation])
    heads = reading(model, sentences(relation)[0].text).heads
    ranked = _ranking(_set_looks(model, relation))
    return _weights(ranked, heads, model, _Set(model, relation), *_columns(ranked))


class _Set:
    """The sentences of a relation, as examples."""

    def __init__(self, model: str, relation: str) -> None:
        self.model, self.relation = model, relation

    def __len__(self) -> int:
        return len(sentences(self.relation))

    def __getitem__(self, n: int) -> Example:
        one = sentences(self.relation)[n]
        pair = many._pair(self.model, one.text, self.relation, one.query, one.key)
        return Example(one.text, *pair, one.glosses.get(language()))


@door
def _set_looks(model: str, relation: str) -> "Looks":
    from attention_core.ranking import marked_looks

    total = None
    for one in sentences(relation):
        looks = marked_looks(model, one.text, LIMIT, relation, one.query, one.key)
        total = looks if total is None else total + looks
    return total


# Minimal pairs


def _pairs(model: str) -> Shown | None:
    from attention_core.minimal_pairs import CHANCE, SHUFFLES, minimal_pairs

    asked = pick("find_head.find_asked", ASKED, ASKED[0], on_change=_afresh)
    pairs = minimal_pairs()
    read = reading(model, pairs[0].texts[0])
    untrained(read)
    weights = _pair_weights(model, asked)
    found = _switches(model, asked)
    back = _words(model, pairs[0].texts[0]).back
    st.markdown(f"##### {t('find_head.question_pairs')}")
    best = int(found.order[0])
    share = found.share[best]
    places = {
        "layer": best // read.heads + 1,
        "head": best % read.heads + 1,
        "count": round(share * len(pairs)),
        "pairs": len(pairs),
        "tried": len(found.order),
        "chance": f"{CHANCE:.0%}",
        "luck": round(found.shuffled * len(pairs)),
        "beaten": found.beaten,
        "shuffles": SHUFFLES,
        "half": f"{HALF:.0%}",
    }
    blind = back and asked == "pronoun"
    if blind:
        largest = max(float(np.abs(pair[:, 0] - pair[:, 1]).max()) for pair in weights)
        st.info(t("find_head.pairs_back", **places, largest=f"{largest:.2g}"))
    elif share >= HALF and share > found.shuffled:
        say("find_head.pairs_found", **places)
    else:
        say("find_head.pairs_none", **places)

    def draw(head: int) -> None:
        say("find_head.pairs_what")
        if not blind:
            say("find_head.pairs_rule", **places)
        _draw_pair(model, head, read.heads, asked, weights, found)

    columns = [t(f"find_head.{name}") for name in ("switches", "right", "margin")]

    def cells(head: int) -> list[str]:
        return [
            f"{round(found.share[head] * len(pairs))}/{len(pairs)}",
            f"{found.right[head]:.0%}",
            _signed(found.margin[head]),
        ]

    return Shown(
        heads=read.heads,
        order=found.order,
        values=found.share,
        name=t("find_head.share"),
        columns=columns,
        cells=cells,
        compared=[t("find_head.wrong"), t("find_head.coins"), t("find_head.lucky")],
        marks=lambda head: [float(found.wrong[head]), CHANCE, found.shuffled],
        link=_params(model, Example(pairs[0].texts[0], _noun_places(model, pairs[0].texts[0], pairs[0].pronoun), 0)),
        draw=draw,
        tables=lambda: _pair_tables(found, read.heads, pairs),
    )


def _pair_weights(model: str, asked: str) -> list[np.ndarray]:
    from attention_core.minimal_pairs import minimal_pairs

    return [_one_pair(model, n, asked) for n, _ in _patiently(minimal_pairs())]


@door
def _one_pair(model: str, n: int, asked: str) -> np.ndarray:
    from attention_core.minimal_pairs import minimal_pairs, pair_weights

    return pair_weights(model, minimal_pairs()[n], asked, LIMIT)


@door
def _switches(model: str, asked: str) -> "Switches":
    from attention_core.minimal_pairs import minimal_pairs, switches

    return switches([_one_pair(model, n, asked) for n in range(len(minimal_pairs()))])


@door
def _noun_places(model: str, text: str, word: int) -> int:
    from attention_core.minimal_pairs import place_of

    return place_of(model, text, word, LIMIT)


def _draw_pair(model: str, head: int, heads: int, asked: str, weights: Sequence[np.ndarray], found: "Switches") -> None:
    """Show one head on both sentences of a pair."""
    from attention_core.minimal_pairs import minimal_pairs

    pairs = minimal_pairs()
    marks = {1: "✓", 0: "–", -1: "✗"}
    marked = lambda n: f"{n} {marks[int(found.pairs[n - 1, head])]}"  # noqa: E731
    which = pick("find_head.find_pair", range(1, len(pairs) + 1), 1, name=marked, on_change=link.forget)
    pair = pairs[which - 1]
    word, given = pair.pronoun if asked == "pronoun" else pair.adjective, []
    for n, (place, text) in enumerate(zip(st.columns(2, gap="large"), pair.texts, strict=True)):
        split = text.split()
        first, second = (plain(split[noun]) for noun in pair.nouns)
        with place:
            _marked(text, (word, pair.nouns[n]), pair.glosses.get(language(), (None, None))[n])
            one, two = weights[which - 1][head, n]
            said = apart(one, two, 3)
            st.markdown(
                t(
                    "find_head.prefers" if one != two else "find_head.prefers_none",
                    query=plain(split[word]),
                    first=first,
                    second=second,
                    one=said[0],
                    two=said[1],
                    noun=first if one > two else second,
                    mark="✓" if (one > two, two > one)[n] else "✗",
                )
            )
            view = head_view(model, text, head // heads, head % heads, "word", "shown")
            query = _noun_places(model, text, word)
            links({head % heads: view}, view=f"find-{model}-{asked}-{which}-{n}", pinned=query)
            _open(_params(model, Example(text, query, 0)), head, heads)
        given.append((text, view, (query, _noun_places(model, text, pair.nouns[n]))))
    for n, (text, view, marked) in enumerate(given, 1):
        take_away(model, text, head // heads, {head % heads: view}, unit="word", pair=marked, pane=f"{which}.{n}")


def _pair_tables(found: "Switches", heads: int, pairs: "Sequence[MinimalPair]") -> dict[str, Table]:
    names = _head_names(found.order, heads)
    columns = [t(f"find_head.{name}") for name in ("share", "wrong", "right", "margin")]
    every = np.stack([found.share, found.wrong, found.right, found.margin], axis=1)[found.order]
    texts = [pair.texts[0] for pair in pairs]
    return {
        t("find_head.table"): Table(names, columns, every),
        t("find_head.table_pairs"): Table(names, texts, found.pairs.T[found.order].astype(float)),
    }


# What all of them show


def _weights(
    found: "Ranking",
    heads: int,
    model: str,
    examples: "Sequence[Example]",
    columns: Sequence[str],
    cells: Callable[[int], list[str]],
) -> Shown:
    """Make ready a ranking by weights."""

    def marks(head: int) -> list[float | None]:
        return [None if np.isnan(value) else float(value) for value in (*found.controls[:2, head], found.chance[head])]

    def tables() -> dict[str, Table]:
        names = ("weight", "spread", "rank", "hits", "others", "back", "stepped")
        every = np.stack([found.weight, found.spread, found.rank, found.hits, *found.controls], axis=1)
        return {
            t("find_head.table"): Table(
                _head_names(found.order, heads), [t(f"find_head.column_{name}") for name in names], every[found.order]
            )
        }

    return Shown(
        heads=heads,
        order=found.order,
        values=found.weight,
        name=t("find_head.weight") if len(examples) == 1 else t("find_head.mean_weight"),
        columns=columns,
        cells=cells,
        compared=[t(f"find_head.{name}") for name in ("others", "back", "chance")],
        marks=marks,
        link=_params(model, _chosen(examples)),
        draw=lambda head: _draw(model, head, heads, examples),
        tables=tables,
    )


def _chosen(examples: "Sequence[Example]") -> Example:
    return examples[link.restore("find_line", 1, link.whole(1, len(examples))) - 1]


def _draw(model: str, head: int, heads: int, examples: "Sequence[Example]") -> None:
    """Show one head on one of the sentences."""
    count = len(examples)
    one = _chosen(examples)
    if count > 1:
        options = {"key": "find_line", "on_change": link.forget}
        if count <= SEGMENTS:
            st.segmented_control(t("find_head.find_line"), range(1, count + 1), required=True, wrap=True, **options)
        else:
            st.number_input(t("find_head.find_line"), 1, count, step=1, width=160, **options)
    view = head_view(model, one.text, head // heads, head % heads, "word", "shown")
    left, right = st.columns([3, 2], gap="large")
    with left:
        pinned = None if "query" in st.query_params else one.query
        links({head % heads: view}, view=f"find-{model}-{count}-{hash(one) % 10**9}", pinned=pinned)
    with right:
        if count > 1:
            st.markdown(plain(shortened(one.text)))
        if one.gloss:
            st.caption(plain(one.gloss))
        say(
            "find_head.looks",
            layer=head // heads + 1,
            head=head % heads + 1,
            query=mention(view.queries, one.query, MOST_SHOWN),
            key=mention(view.keys, one.key, MOST_SHOWN),
            weight=f"{view.weights[one.query, one.key]:.3f}",
        )
        _open(_params(model, one), head, heads)
    pair = (one.query, one.key)
    take_away(model, one.text, head // heads, {head % heads: view}, unit="word", pair=pair)


def _marked(text: str, places: Sequence[int], gloss: str | None) -> None:
    shown = [plain(word) for word in text.split()]
    for place in places:
        shown[place] = f"**{shown[place]}**"
    st.markdown(" ".join(shown))
    if gloss:
        st.caption(plain(gloss))


def _open(params: Mapping[str, str], head: int, heads: int) -> None:
    if not params:
        return
    query = _link(params, head, heads)
    st.page_link("pages/sentence.py", label=t("many_heads.open"), icon=":material/open_in_new:", query_params=query)


def _params(model: str, one: Example) -> dict[str, str]:
    text = {"text": one.text}
    if len(one.text.encode(errors="replace")) > link.LONG:  # as the sentence page's own link has it
        packed = link.packed_text(one.text)
        if packed is None:
            return {}
        text = {"packed": packed}
    return {**text, "model": model, "unit": "word", "query": str(one.query), "lang": language()}


def _link(params: Mapping[str, str], head: int, heads: int) -> dict[str, str]:
    return {**params, "layer": str(head // heads + 1), "head": str(head % heads + 1)}


def _head_names(order: np.ndarray, heads: int) -> list[str]:
    return [t("head_ranking.head", layer=head // heads + 1, head=head % heads + 1) for head in order.tolist()]


def _patiently(items: Sequence[T]) -> Iterator[tuple[int, T]]:
    """Number the items; whoever has to wait for them sees a bar."""
    place, began = st.empty(), time.monotonic()
    for n, item in enumerate(items):
        if time.monotonic() - began > 0.3:
            place.progress(n / len(items), t("find_head.asking", done=n, lines=len(items)))
        yield n, item
    place.empty()


def _short(said: str) -> str:
    if len(said) > MOST_LETTERS:
        raise ValueError(said)
    return said


def _word(said: str) -> str:
    if not said.strip() or len(said) > 40:
        raise ValueError(said)
    return said


def _signed(value: float) -> str:
    text = f"{value:+.3f}"
    return text.replace("-", "−") if float(text) else "0.000"


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2f}"


def _afresh() -> None:
    link.forget("find_place", "find_line")


def _turn() -> None:
    state = st.session_state
    state["find_query"], state["find_key"] = state["find_key"], state["find_query"]


def _pick() -> None:
    state = st.session_state
    places = np.flatnonzero(state["_find_order"] == state["find_heads"].picked)
    if len(places):
        state["find_place"] = int(places[0]) + 1
