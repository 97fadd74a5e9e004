"""The page "Many heads": the small world of made-up heads, and the real heads that the core finds."""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import streamlit as st

from attention_core import compute
from attention_core.relations import MARKED, RELATIONS, Sentence, sentences
from ui import link
from ui.components.head_concat import head_concat
from ui.components.relation_table import relation_table
from ui.compute import LIMIT, door, head_view, reading
from ui.layers import untrained
from ui.lesson import Table
from ui.pick import pick
from ui.show import PRONOUNS, links
from ui.text import language, note, plain, say, t, words

if TYPE_CHECKING:
    from attention_core.heads import Finding, Marked
    from attention_core.labs.many_heads import World

MOST_HEADS, LARGEST, SEEDS = 12, 16, (1, 2, 3, 4, 5)
# Okabe-Ito; the eighth is the text's own colour, as black is in the original.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", None)
EXAMPLES, LONGEST = 12, 24
EDITABLE, MOST_EDITS, LARGEST_NUMBER = ("x", "q", "k", "v", "o"), 64, 1e6


class Found(NamedTuple):
    """What was found for one relation, in how many sentences, and whether its arrow had to be turned round."""

    finding: "Finding"
    hits: tuple[bool, ...]
    alone: tuple[tuple[int, int, float], ...]
    turned: bool


def size_controls() -> tuple[int, int]:
    """Ask for the number of heads and the size of one; d_model is their product, and can be typed too."""
    heads = link.restore("world_heads", 8, link.whole(1, MOST_HEADS))
    size = link.restore("world_size", 4, link.whole(1, LARGEST))
    width = link.restore("world_width", heads * size, link.whole(1, MOST_HEADS * LARGEST))
    refused = width % heads or width // heads > LARGEST
    if width != heads * size:
        size = size if refused else width // heads
        for key, value in {"world_size": size, "world_width": heads * size}.items():
            st.session_state[key] = value
            link.keep(key, value)
    st.slider(t("many_heads.heads"), 1, MOST_HEADS, key="world_heads", on_change=_multiply, width=220)
    st.slider(t("many_heads.size"), 1, LARGEST, key="world_size", on_change=_multiply, width=220)
    st.number_input(
        t("many_heads.width"),
        1,
        MOST_HEADS * LARGEST,
        step=1,
        key="world_width",
        width=150,
        help=t("many_heads.width_help"),
    )
    if width != heads * size:
        reason = "not_whole" if width % heads else "too_large"
        share = f"{width / heads:.2f}"
        st.session_state["_world_refused"] = t(
            f"many_heads.{reason}", width=width, heads=heads, share=share, size=size, kept=heads * size, most=LARGEST
        )
    return heads, size


def draw_controls() -> tuple[int, bool]:
    """Ask which random numbers the heads have, and whether all have the same."""
    seed = pick("many_heads.seed", SEEDS, SEEDS[0], key="world_seed", name=str)
    alike = link.restore("world_alike", False, link.switch)
    st.toggle(t("many_heads.alike"), key="world_alike", help=t("many_heads.alike_help"))
    return seed, alike


def edits() -> str:
    """Return the numbers that were changed by hand, as the link writes them: ``q.3.0.1_0.5`` and so on."""
    return link.restore("world_edits", "", _written)


def editor(made: "tuple[World, int]") -> None:
    """Offer every number of the small world to be changed."""
    here, _ = made
    heads = len(here.values)
    which = link.restore("world_matrix", "x", link.one_of(*EDITABLE))
    head = link.restore("world_head", 1, link.whole(1, heads)) if which in "qkv" else 1
    opened = link.restore("world_open", False, link.switch)
    box = st.expander(t("many_heads.edit"), expanded=opened, key="world_open", on_change="rerun")
    if not opened:
        return
    with box:
        with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
            st.segmented_control(
                t("many_heads.edit_which"),
                EDITABLE,
                key="world_matrix",
                format_func=lambda name: t(f"many_heads.edit_{name}"),
                required=True,
            )
            if which in "qkv":
                st.segmented_control(t("many_heads.edit_head"), range(1, heads + 1), key="world_head", required=True)
        matrix = {"x": here.x[None], "q": here.query, "k": here.key, "v": here.value, "o": here.out[None]}[which]
        now = matrix.numpy()[head - 1]
        state = st.session_state
        if state.get("_typed", "") != state["world_edits"]:  # undone, or another link: not typed into the grid
            state["_typed"], state["_renewed"] = state["world_edits"], state.get("_renewed", 0) + 1
        # The grid keeps what was typed into it: it gets new numbers only when it shows another matrix.
        grid = (
            which,
            head,
            now.shape,
            here.words,
            state.get("world_seed"),
            state.get("world_alike"),
            state.get("_renewed"),
        )
        if state.get("_grid", (None,))[0] != grid:
            state["_grid"] = (grid, now.copy(), f"world-grid-{state.get('_grids', 0)}")
            state["_grids"] = state.get("_grids", 0) + 1
        _, shown, key = state["_grid"]
        rows = here.words if which == "x" else range(1, len(shown) + 1)
        names = [str(n + 1) for n in range(shown.shape[1])]
        st.data_editor(
            # As texts: a column of numbers lets nobody type an e, and makes 130 of 1e30 without a word.
            {" ": [str(row) for row in rows]}
            | {name: [f"{x:.3f}" for x in shown[:, n]] for n, name in enumerate(names)},
            key=key,
            disabled=[" "],
            hide_index=True,
            height=min(38 + 35 * len(shown), 360),
            column_config={" ": st.column_config.TextColumn(t("many_heads.edit_row"))}
            | {name: st.column_config.TextColumn(alignment="right", max_chars=20) for name in names},
            on_change=_edit,
            args=(key, which, head - 1),
        )
        if changed := len(_parts(edits())):
            st.button(t("many_heads.edit_reset", count=changed), on_click=_undo, key="world_undo")


@st.cache_resource(max_entries=64, show_spinner=False)
def world(text: str, heads: int, size: int, seed: int, alike: bool, edits: str = "") -> "tuple[World, int]":
    """Compute the small world on a sentence; also say how many words the sentence has."""
    from attention_core.labs.many_heads import Edit, small_world, world_words

    shown, count = world_words(text)
    changed = [Edit(*place, value) for place, value in _parts(edits).items()]
    return compute.run(small_world, shown, heads, size, seed, alike=alike, edits=changed), count


def picture(made: "tuple[World, int]") -> None:
    """Draw each head's weights, the joined contexts of one word, and the output."""
    here, count = made
    if refused := st.session_state.pop("_world_refused", None):
        st.warning(refused)
    if st.session_state.pop("_edit_refused", False):
        st.warning(t("many_heads.edit_refused", largest=f"{LARGEST_NUMBER:,.0f}", most=MOST_EDITS))
    if count > len(here.words):
        note("many_heads.cut", words=len(here.words), count=count)
    last = len(here.words)
    usual = next((n for n, word in enumerate(here.words, 1) if word.lower() in PRONOUNS), last)
    word = link.restore("world_word", usual, link.whole(1, last))
    heads = len(here.values)
    meta = {
        "labels": [shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…" for shown in here.words],
        "chosen": word - 1,
        "colours": [COLOURS[n % len(COLOURS)] for n in range(heads)],
        "words": words("head_concat"),
    }
    arrays = {
        "weights": here.trace.weights.numpy(),
        "values": here.values.numpy(),
        "joined": here.joined.numpy(),
        "parts": here.parts.numpy(),
    }
    head_concat(meta, arrays, key="world", on_pick=_pick_word)


def facts(heads: int, size: int) -> None:
    """Say the shapes, and what the original model's are."""
    from attention_core.labs.many_heads import BASE

    base_heads, base_size = BASE
    width = base_heads * base_size
    note(
        "many_heads.base",
        heads=heads,
        size=size,
        width=heads * size,
        root=f"{size**0.5:.4g}",
        base_heads=base_heads,
        base_size=base_size,
        base_width=width,
        base_root=f"{base_size**0.5:.4g}",
        wrong_root=f"{width**0.5:.2f}",
    )


def findings(model: str) -> dict[str, Found]:
    """Find the best head for every relation: in pieces, once for everyone, with a bar where one has to wait."""
    untrained(reading(model, sentences("first")[0].text))  # a model that is not ready is made ready, or says why not
    if model not in _known():
        bar = st.progress(0.0)
        everything = sentences("first")
        for n, sentence in enumerate(everything, 1):
            bar.progress(n / len(everything), t("many_heads.searching", sentence=plain(sentence.text)))
            _marks(model, sentence.text)
        for relation in RELATIONS:
            _finding(model, relation)
        _known().add(model)
        bar.empty()
    return {relation: _finding(model, relation) for relation in RELATIONS}


@st.cache_resource
def _known() -> set[str]:
    return set()


@door
def _marks(model: str, text: str) -> "tuple[dict[str, Marked], bool, int]":
    from attention_core.labs.many_heads import sentence_marks

    return compute.run(sentence_marks, model, text, LIMIT)


@door
def _finding(model: str, relation: str) -> Found:
    from attention_core.labs.many_heads import relation_head

    seen = [_marks(model, sentence.text) for sentence in sentences(relation)]
    marks = [found[relation] for found, _, _ in seen]
    _, causal, heads = seen[0]
    found = compute.run(relation_head, relation, marks, heads)
    later = any(sentence.key > sentence.query for sentence in sentences(relation))
    return Found(found.finding, found.hits, found.alone, causal and relation in MARKED and later)


def relation_rows(found: dict[str, Found]) -> str:
    """Show every relation with its best head, and ask for one."""
    relation = link.restore("relation", RELATIONS[0], link.one_of(*RELATIONS))
    meta = {
        "chosen": RELATIONS.index(relation),
        "compared": [t(f"many_heads.{name}") for name in ("average", "chance", "shuffled", "stepped")],
        "words": words("relation_table"),
        "rows": [
            {
                "name": name_of(name, one),
                "head": t("many_heads.head", layer=one.finding.layer + 1, head=one.finding.head + 1),
                "weight": one.finding.weight,
                "hits": t("many_heads.hits", share=f"{one.finding.hit_rate:.0%}"),
                "verdict": t(f"many_heads.{one.finding.verdict}"),
                "kind": one.finding.verdict,
                "marks": [one.finding.average, one.finding.chance, one.finding.shuffled, one.finding.stepped],
            }
            for name, one in found.items()
        ],
    }
    relation_table(meta, key="relations", on_pick=_pick_relation)
    return relation


def name_of(relation: str, one: Found) -> str:
    """Name a relation, in the direction in which it was measured."""
    return t(f"many_heads.{relation}_turned" if one.turned else f"many_heads.{relation}")


def verdict(one: Found) -> None:
    """Say in words what was found, by which rule, and how many heads were tried."""
    from attention_core.heads import CLEARLY, HALF, SHUFFLES

    found = one.finding
    places = {
        "layer": found.layer + 1,
        "head": found.head + 1,
        "weight": f"{found.weight:.2f}",
        "average": f"{found.average:.2f}",
        "chance": f"{found.chance:.2f}",
        "shuffled": f"{found.shuffled:.2f}",
        "share": f"{found.hit_rate:.0%}",
        "stepped": "–" if found.stepped is None else f"{found.stepped:.2f}",
        "tried": found.tried,
    }
    say(f"many_heads.{found.verdict}_long", **places)
    if one.turned:
        note("many_heads.turned")
    with st.expander(t("many_heads.rule_title")):
        say(
            "many_heads.rule",
            tried=found.tried,
            shuffles=SHUFFLES,
            beaten=found.beaten,
            clearly=f"{CLEARLY:.0f}",
            half=f"{HALF:.0%}",
            pairs=found.pairs,
            sentences=len(one.hits),
        )


def example(model: str, relation: str, one: Found) -> None:
    """Show the head that was found on one of the sentences."""
    found, offered = one.finding, sentences(relation)[:EXAMPLES]
    hit = lambda n: f"{n} {'✓' if one.hits[n - 1] else '✗'}"  # noqa: E731
    which = pick("many_heads.example", range(1, len(offered) + 1), 1, name=hit, on_change=link.forget)
    sentence = offered[which - 1]
    query, key = _pair(model, sentence.text, relation, sentence.query, sentence.key)
    view = head_view(model, sentence.text, found.layer, found.head, "word", "shown")
    left, right = st.columns([3, 2], gap="large")
    with left:
        pinned = None if "query" in st.query_params else query
        links({found.head: view}, view=f"{model}-{relation}-{which}", pinned=pinned)
    with right:
        _sentence(sentence, relation)
        say(
            "many_heads.pair",
            query=view.queries[query],
            key=view.keys[key],
            weight=f"{view.weights[query, key]:.2f}",
            layer=found.layer + 1,
            head=found.head + 1,
        )
        if relation in MARKED:
            layer, head, weight = one.alone[which - 1]
            same = (layer, head) == (found.layer, found.head)
            text = "many_heads.alone_same" if same else "many_heads.alone"
            note(text, layer=layer + 1, head=head + 1, weight=f"{weight:.2f}")
        if view.groups < view.heads:
            note("many_heads.grouped", head=found.head + 1, group=view.group + 1, heads=view.heads, groups=view.groups)
        st.page_link(
            "pages/sentence.py",
            label=t("many_heads.open"),
            icon=":material/open_in_new:",
            query_params={
                "text": sentence.text,
                "model": model,
                "layer": str(found.layer + 1),
                "head": str(found.head + 1),
                "unit": "word",
                "query": str(query),
                "lang": language(),
            },
        )


def _sentence(sentence: Sentence, relation: str) -> None:
    shown = [plain(word) for word in sentence.text.split()]
    for place in (sentence.query, sentence.key) if relation in MARKED else ():
        shown[place] = f"**{shown[place]}**"
    st.markdown(" ".join(shown))
    if gloss := sentence.glosses.get(language()):
        st.caption(plain(gloss))


@door
def _pair(model: str, text: str, relation: str, query: int, key: int) -> tuple[int, int]:
    from attention_core.labs.many_heads import marked_words

    return compute.run(marked_words, model, text, relation, query, key, LIMIT)


def tables(made: "tuple[World, int]", found: dict[str, Found], relation: str) -> dict[str, Table]:
    """Return the exact numbers of both pictures."""
    here, _ = made
    heads, size = len(here.values), here.values.shape[-1]
    named = [t("show.head", head=n + 1) for n in range(heads)]
    blocks = [f"{name} · {d + 1}" for name in named for d in range(size)]
    width = [str(n + 1) for n in range(heads * size)]
    rows = [f"{name} · {word}" for name in named for word in here.words]
    values = np.array(
        [
            [
                f.layer + 1,
                f.head + 1,
                f.weight,
                f.hit_rate,
                f.average,
                f.chance,
                f.shuffled,
                _number(f.stepped),
                f.beaten,
            ]
            for f in (one.finding for one in found.values())
        ]
    )
    every = found[relation].finding.weights.numpy()
    columns = ("layer", "number", "weight", "hit_rate", "average", "chance", "shuffled", "stepped", "beaten")
    return {
        t("many_heads.table_x"): Table(width, here.words, here.x.numpy().T),
        t("many_heads.table_weights"): Table(rows, here.words, here.trace.weights.numpy().reshape(len(rows), -1)),
        t("many_heads.table_values"): Table(
            rows, [str(n + 1) for n in range(size)], here.values.numpy().reshape(len(rows), -1)
        ),
        t("many_heads.table_joined"): Table(blocks, here.words, here.joined.numpy().T),
        t("many_heads.table_out"): Table(blocks, width, here.out.numpy()),
        t("many_heads.table_output"): Table(width, here.words, here.output.numpy().T),
        t("many_heads.table_found"): Table(
            [name_of(name, one) for name, one in found.items()], [t(f"many_heads.column_{c}") for c in columns], values
        ),
        t("many_heads.table_heads", relation=name_of(relation, found[relation])): Table(
            [t("many_heads.column_layer") + f" {n + 1}" for n in range(len(every))],
            [t("show.head", head=n + 1) for n in range(every.shape[1])],
            every,
        ),
    }


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _multiply() -> None:
    state = st.session_state
    state["world_width"] = state["world_heads"] * state["world_size"]


def _parts(written: str) -> dict[tuple[str, int, int, int], float]:
    """Read changed numbers: (matrix, head, row, column), from 0, and the value.

    Raises:
        ValueError: If one is no number, too large, or there are too many.
    """
    found = {}
    for part in filter(None, written.split("~")):
        place, _, value = part.partition("_")
        matrix, head, row, column = place.split(".")
        number = float(value)
        if matrix not in EDITABLE or not all(at.isdecimal() for at in (head, row, column)):
            raise ValueError(part)
        if not abs(number) <= LARGEST_NUMBER:
            raise ValueError(part)
        found[matrix, int(head), int(row), int(column)] = number
    if len(found) > MOST_EDITS:
        raise ValueError(written)
    return found


def _written(said: str) -> str:
    return "~".join(f"{m}.{h}.{r}.{c}_{value:.6g}" for (m, h, r, c), value in _parts(said).items())


def _edit(key: str, matrix: str, head: int) -> None:
    state = st.session_state
    parts = _parts(state["world_edits"])
    for row, cells in state[key]["edited_rows"].items():
        for column, value in cells.items():
            parts[matrix, head, int(row), int(column) - 1] = _number(value)
    try:
        state["world_edits"] = _written("~".join(f"{m}.{h}.{r}.{c}_{v}" for (m, h, r, c), v in parts.items()))
    except ValueError:
        state["_edit_refused"] = True
        state["_renewed"] = state.get("_renewed", 0) + 1  # the grid shows the last valid numbers again
    else:
        state["_typed"] = state["world_edits"]


def _number(typed: object) -> float:
    try:
        return float(str(typed).strip().replace("−", "-").replace(",", "."))
    except ValueError:
        return math.nan  # refused like any other number that is none


def _undo() -> None:
    st.session_state["world_edits"] = ""


def _pick_word() -> None:
    st.session_state["world_word"] = st.session_state["world"].picked + 1


def _pick_relation() -> None:
    st.session_state["relation"] = RELATIONS[st.session_state["relations"].picked]
    link.forget("example")
