"""The page "Compare": panes side by side, what is between two of them, and the map of all heads."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import streamlit as st

from attention_core import compute
from attention_core.errors import ModelError
from attention_core.models.catalogue import offered
from attention_core.models.sees import that_read
from ui import link
from ui.components import head_strip, heatmap, token_links
from ui.components.head_map import head_map as map_of_dots
from ui.components.payload import LARGE
from ui.components.word_pairs import word_pairs
from ui.compute import LIMIT, door, failed, head_thumbnails, head_view, reading, trouble
from ui.controls import BEST_HEAD, EXAMPLE, FIRST_HEAD, first_choice, sentence_box, show_choice, unit_choice
from ui.explorer.all_heads import COLOURS
from ui.inputs import encoder_note
from ui.layers import layer_line, layers_note, untrained
from ui.lesson import Table
from ui.models import picker
from ui.pick import pick
from ui.show import drawn_heat, drawn_links, few, mention, sink_line
from ui.take_away import take_away, take_map
from ui.text import note, plain, say, t, words

if TYPE_CHECKING:
    from attention_core.distance import HeadMap, Slot
    from attention_core.statistics import Survey
    from attention_core.views import HeadView

PANES, LAST = "abcd", "_last_pane_"
BANK = ("the bank and the money", "the bank of the river")
# The head that comes second from "it" to "cake" after BEST_HEAD; tests/core/test_distance.py finds it again.
SECOND_HEAD = {"minilm": (4, 2), "smollm2": (18, 1)}
COOLEST, WARMEST = 0.1, 5.0  # temperatures
NEAREST = 6


class Pane(NamedTuple):
    """What one pane shows; layer and head from 0.

    Attributes:
        letter: Of ``PANES``.
        text: Its sentence.
        model: The model that reads it.
        layer: From 0.
        head: From 0.
        scaled: Whether raw scores are multiplied by the head's factor.
        temperature: What the scores are divided by.
        mask: Whether a model that only looks back does so.
    """

    letter: str
    text: str
    model: str
    layer: int
    head: int
    scaled: bool
    temperature: float
    mask: bool

    @property
    def without(self) -> tuple[str, ...]:
        """The terms of the formula that are left out."""
        return tuple(name for name, there in (("factor", self.scaled), ("causal", self.mask)) if not there)

    @property
    def name(self) -> str:
        """The letter, as it stands on the page."""
        return self.letter.upper()


class Asked(NamedTuple):
    """What a pane's own controls say, before its model has read anything.

    Attributes:
        letter: Of ``PANES``.
        text: Its sentence.
        model: The model that is to read it.
        changes: Scaled, temperature and mask, as in a pane.
        layer_at: Where the choice of a layer goes.
    """

    letter: str
    text: str
    model: str
    changes: tuple[bool, float, bool]
    layer_at: object


def presets() -> None:
    """Offer three comparisons that are worth a look."""
    for name, change in _presets().items():
        st.button(t(f"compare.preset_{name}"), key=f"compare_{name}", on_click=_set, kwargs=change)


def count_choice() -> int:
    """Ask how many panes there are."""
    return pick("compare.panes", range(2, len(PANES) + 1), 2, key="compare_panes", name=str)


def display() -> tuple[str, str, str, str]:
    """Ask for units, special tokens, the first token and scores, for all panes: the page's words in one place."""
    link.remind("unit", "special", "first", "show")
    with st.popover(t("compare.display"), icon=":material/tune:"):
        unit, special = unit_choice()
        first, show = first_choice(), show_choice()
    return unit, special, first, show


def places(count: int) -> list:
    """Return a column for each pane; four stand two by two."""
    if count < 4:
        return st.columns(count, gap="small")
    return [*st.columns(2, gap="small"), *st.columns(2, gap="small")]


def panes(columns: Sequence) -> list[Pane]:
    """Draw each pane's controls, and return what they say."""
    asked: list[Asked] = []
    for letter, column in zip(PANES, columns, strict=False):
        with column:
            asked.append(_asked(letter, asked[0] if asked else None))
    found: list[Pane] = []  # only now: where a model can't be opened, the page ends, and another one can be chosen
    for one, column in zip(asked, columns, strict=False):
        with column:
            found.append(_pane(one, found[0] if found else None))
    return found


def view(pane: Pane, unit: str, special: str, first: str) -> "HeadView":
    """Compute what a pane shows."""
    place = (pane.model, pane.text, pane.layer, pane.head)
    return head_view(*place, unit, special, first != "hidden", pane.without, pane.temperature)


def pictures(columns: Sequence, panes: Sequence[Pane], views: "Sequence[HeadView]", show: str, *, log: bool) -> None:
    """Draw lines and map of each pane. Panes of the same size share what is pointed at."""
    for column, pane, head in zip(columns, panes, views, strict=True):
        with column:
            param = "query" if head.weights.shape == views[0].weights.shape else None
            token_links(*drawn_links({pane.head: head}, view=_shared(head), param=param), key=f"links-{pane.letter}")
            drawn = drawn_heat(head, show, view=_shared(head), log=log, param=param, several=True)
            heatmap(*drawn, key=f"heat-{pane.letter}")
            sink_line(head)
            if head.hidden.any():
                note("show.hidden", share=f"{head.hidden.mean():.0%}")
    if show != "weights":
        reasons = [("show.weights_only", head.only) if head.only else ("show.words_have_weights", "") for head in views]
        for key, reason in dict.fromkeys(r for r, head in zip(reasons, views, strict=True) if not len(head.raw)):
            note(key, reason=reason)


def give_away(panes: Sequence[Pane], views: "Sequence[HeadView]", unit: str, show: str, *, log: bool) -> None:
    """Offer each pane as files and as Python."""
    for pane, head in zip(panes, views, strict=True):
        what = {"show": show, "log": log, "unit": unit, "changes": (pane.without, pane.temperature)}
        take_away(pane.model, pane.text, pane.layer, {pane.head: head}, pane=pane.name, **what)


def pair_choice(count: int) -> tuple[int, int]:
    """Ask which two panes are compared; with two there is nothing to ask."""
    pairs = ["".join(pair) for pair in combinations(PANES[:count], 2)]
    pair = pairs[0]
    if count > 2:
        pair = pick("compare.pair", pairs, pair, key="compare_pair", name=lambda ids: " – ".join(ids.upper()))
    return PANES.index(pair[0]), PANES.index(pair[1])


def between(
    panes: Sequence[Pane], views: "Sequence[HeadView]", pair: tuple[int, int], shown: tuple[str, str, str]
) -> None:
    """Show the difference of two panes' weights, and how far apart their rows are.

    Args:
        panes: All of them.
        views: What they show.
        pair: Which two.
        shown: Units, special tokens and first token, as all panes show them.
    """
    (one, other), (first, second) = ([all_of_them[n] for n in pair] for all_of_them in (panes, views))
    queries, distances = _apart(one, other, first, second)
    pinned = link.pinned(len(first.queries)) if first.weights.shape == views[0].weights.shape else None
    looked = {"view": _shared(first), "param": None, "pinned": pinned}
    left, right = st.columns(2, gap="large")
    with left:
        if _fit(one, other, first, second):
            _difference(one, other, first, second, looked)
        else:
            _no_difference(one, other, first, second, shown, paired=bool((~np.isnan(distances)).any()))
    with right:
        _mean(one, other, distances, queries, first)
        _pairs(one, other, first, second, queries, distances, looked)


def tables(panes: Sequence[Pane], views: "Sequence[HeadView]", pair: tuple[int, int]) -> dict[str, Table]:
    """Return the distance of every row of two panes, and every head's place on the map and distance to pane A's."""
    (one, other), (first, second) = ([all_of_them[n] for n in pair] for all_of_them in (panes, views))
    queries, distances = _apart(one, other, first, second)
    sides = [
        ["–" if n is None else mention(head.queries, n) for n in column]
        for head, column in zip((first, second), zip(*queries, strict=True), strict=True)
    ]
    names = [f"{a} ∣ {b}" for a, b in zip(*sides, strict=True)]
    pane, count = panes[0], reading(panes[0].model, panes[0].text).heads
    places, far = _map(pane.model).places, _distances(pane.model)[pane.layer * count + pane.head]
    heads = [t("compare.head", layer=n // count + 1, head=n % count + 1) for n in range(len(far))]
    own = t("compare.table_to", layer=pane.layer + 1, head=pane.head + 1)
    return {
        t("compare.table_rows", first=one.name, second=other.name): Table(
            names, [t("compare.table_distance")], distances[:, None]
        ),
        t("compare.table_heads", model=offered()[pane.model]): Table(
            heads, [own, "x", "y"], np.column_stack([far, places])
        ),
    }


def colour_choice() -> str:
    """Ask what the colours of the map mean."""
    return pick("compare.colour", ("layer", "role"), "layer", key="compare_colour")


def all_heads(panes: Sequence[Pane], colour: str) -> None:
    """Draw the map of all heads of the first pane's model, and list those nearest to its head."""
    from attention_core.distance import nearest, shipped
    from attention_core.statistics import ROLES

    pane = panes[0]
    read = reading(pane.model, pane.text)
    total, title = read.layers * read.heads, plain(offered()[pane.model])
    with st.spinner(t("compare.comparing", heads=total, model=title, sentences=len(shipped()))):
        distances, found, roles = _distances(pane.model), _map(pane.model), _survey(pane.model)

    def name(head: int) -> str:
        return t("compare.head", layer=head // read.heads + 1, head=head % read.heads + 1)

    def role(head: int) -> str:
        return t(f"roles.{ROLES[roles.roles.flat[head]]}")

    by_role = colour == "role"
    meta = {
        "names": [name(n) for n in range(total)],
        "notes": [f"{role(n)} · {roles.evidence.flat[n]:.2f}" for n in range(total)],
        "groups": roles.roles.ravel().tolist() if by_role else [n // read.heads for n in range(total)],
        "colours": [COLOURS[role] for role in ROLES] if by_role else None,
        "legend": [t(f"roles.{role}") for role in ROLES]
        if by_role
        else [t("compare.layer", layer=layer) for layer in (1, read.layers)],
        "marks": [{"letter": p.name, "head": p.layer * read.heads + p.head} for p in panes if p.model == pane.model],
        "words": words("head_map"),
    }
    left, right = st.columns([3, 2], gap="large")
    with left:
        map_of_dots(meta, {"places": found.places}, key="map", on_pick=partial(_pick_on_map, read.heads))
        _faith(found)
    with right:
        here = pane.layer * read.heads + pane.head
        say("compare.near_title", layer=pane.layer + 1, head=pane.head + 1)
        for n, (head, distance) in enumerate(nearest(distances, here, NEAREST)):
            st.button(
                f"{name(head)} · **{distance:.2f}** · {role(head)}",
                key=f"compare_near_{n}",
                width="stretch",
                on_click=_set,
                kwargs=_values("b", pane.text, pane.model, head // read.heads + 1, head % read.heads + 1),
            )
        note("compare.near_help")
    with st.expander(t("compare.how")):
        say("compare.how_long", sentences=len(shipped()))
        st.markdown("\n".join(f"- {plain(sentence)}" for sentence in shipped()))


def _asked(letter: str, first: Asked | None) -> Asked:
    key = partial(_key, letter=letter)
    usual = BANK[0] if first is None else dict([BANK]).get(first.text, first.text)
    text = sentence_box(key("text"), t("compare.sentence", pane=letter.upper()), usual)
    models = that_read()
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        layer_at = st.container(width=160)
        usual = first.model if first else "minilm"
        model = _opened(letter, link.restore(key("model"), usual, link.one_of(*models)), text, usual)
        changes = _formula(letter, model, text, models)
    return Asked(letter, text, model, changes, layer_at)


def _opened(letter: str, model: str, text: str, usual: str) -> str:
    """Return a pane's model; where it can't be opened, say why, and go back to what the pane showed before."""
    if not isinstance(error := trouble(model, text), ModelError):
        return model
    failed(error)
    key, state = _key("model", letter), st.session_state
    shown = state.get(f"{LAST}{letter}", {key: usual})
    if (back := shown[key]) != model:
        link.choose(shown)
        state[key] = back
        link.keep(key, back)
    return back


def _pane(asked: Asked, first: Pane | None) -> Pane:
    letter, text, model, changes, layer_at = asked
    key, read = partial(_key, letter=letter), reading(model, text)
    usual_layer, usual_head = _usual_head(letter, text, model, read.heads, first)
    layer = link.restore(key("layer"), usual_layer, link.whole(1, read.layers))
    with layer_at:
        if read.layers > 1:
            st.slider(t("controls.layer"), 1, read.layers, key=key("layer"))
    head = link.restore(key("head"), usual_head, link.whole(1, read.heads))
    st.session_state[f"{LAST}{letter}"] = {key("model"): model, key("layer"): str(layer), key("head"): str(head)}
    groups = head_view(model, text, layer - 1, head - 1, "token", "shown").groups
    names = [str(n) for n in range(1, read.heads + 1)]
    meta = {"chosen": head - 1, "names": names, "groups": groups, "words": words("head_strip")}
    tiles = {"tiles": head_thumbnails(model, text, layer - 1)}
    head_strip(meta, tiles, key=f"heads_{letter}", on_pick=partial(_pick_head, letter))
    if read.cut:
        st.warning(t("reading.cut", tokens=read.tokens, limit=read.limit, cut=read.cut))
    untrained(read)
    layers_note(model, text)
    layer_line(model, text, layer - 1)
    encoder_note(model)
    return Pane(letter, text, model, layer - 1, head - 1, *changes)


def _formula(letter: str, model: str, text: str, models: dict[str, str]) -> tuple[bool, float, bool]:
    key = partial(_key, letter=letter)
    scaled = link.restore(f"scaled_{letter}", True, link.switch)
    temperature = link.restore(f"temperature_{letter}", 1.0, _temperature)
    causal = trouble(model, text) is None and head_view(model, text, 0, 0, "token", "shown").causal
    mask = link.restore(f"mask_{letter}", True, link.switch) if causal else True
    changes = {
        "compare.no_factor": not scaled,
        "compare.divided": temperature != 1,
        "compare.no_mask": not mask,
    }
    said = [t(name, temperature=temperature) for name, made in changes.items() if made]
    label = " · ".join([plain(models[model]), t("compare.changed")] if said else [plain(models[model])])
    link.remind(key("model"), f"scaled_{letter}", f"temperature_{letter}", f"mask_{letter}")
    with st.popover(label, key=f"compare_settings_{letter}", help=", ".join(said) or None):
        picker(key("model"), models, key("layer"), key("head"))
        st.toggle(t("compare.scaled"), key=f"scaled_{letter}", help=t("compare.scaled_help"))
        st.slider(
            t("compare.temperature"),
            COOLEST,
            WARMEST,
            step=0.1,
            key=f"temperature_{letter}",
            help=t("compare.temperature_help"),
        )
        if causal:
            st.toggle(t("compare.mask"), key=f"mask_{letter}", help=t("compare.mask_help"))
    return scaled, temperature, mask


def _usual_head(letter: str, text: str, model: str, heads: int, first: Pane | None) -> tuple[int, int]:
    best = BEST_HEAD.get(model, FIRST_HEAD)
    if first is None or model != first.model:
        return best
    if text != first.text:
        return first.layer + 1, first.head + 1
    if letter == "b" and (first.layer + 1, first.head + 1) == best:
        return SECOND_HEAD.get(model, (1, 1 + 1 % heads))
    return first.layer + 1, 1 + (first.head + PANES.index(letter)) % heads


def _slots(one: Pane, other: Pane, first: "HeadView", second: "HeadView") -> "list[list[Slot]]":
    """Return which rows belong together, and which columns."""
    from attention_core.distance import align

    bare = [[[word.strip("·") for word in side] for side in (v.queries, v.keys)] for v in (first, second)]
    alike = one.model == other.model or all(
        reading(one.model, text).labels == reading(other.model, text).labels for text in (one.text, other.text)
    )
    return [align(a, b, by_place=alike) for a, b in zip(*bare, strict=True)]


def _fit(one: Pane, other: Pane, first: "HeadView", second: "HeadView") -> bool:
    """Return whether every weight has a partner in its place."""
    return first.weights.shape == second.weights.shape and all(
        a == b for side in _slots(one, other, first, second) for a, b in side
    )


def _apart(one: Pane, other: Pane, first: "HeadView", second: "HeadView") -> "tuple[list[Slot], np.ndarray]":
    """Return which rows belong together and their distances; NaN where there is no partner, or nothing to compare."""
    from attention_core.distance import row_distances

    queries, keys = _slots(one, other, first, second)
    distances = row_distances(first.weights, second.weights, queries, keys)
    for side, head in enumerate((first, second)):  # a row may have lost all that it could look at
        empty = head.weights.sum(axis=1) + head.hidden + head.sink == 0
        distances[[slot[side] is not None and bool(empty[slot[side]]) for slot in queries]] = np.nan
    return queries, distances


def _difference(one: Pane, other: Pane, first: "HeadView", second: "HeadView", looked: dict) -> None:
    seen = first.allowed | second.allowed
    difference = np.where(seen, first.weights - second.weights, np.nan)
    inside = difference[seen] if seen.any() else np.zeros(1)
    letters = {"first": one.name, "second": other.name}
    meta = looked | {
        "queries": _both(first.queries, second.queries),
        "keys": _both(first.keys, second.keys),
        "show": "raw",
        "factor": None,
        "lo": float(inside.min()),
        "hi": float(inside.max()),
        "words": words("heatmap")
        | {
            "raw": t("compare.difference_bar", **letters),
            "final": one.name,
            "weights": other.name,
            "not_allowed": t("show.masked"),
            "alt": t("compare.difference_alt", **letters),
        },
    }
    arrays = {"raw": difference, "allowed": seen}
    if difference.size <= LARGE:  # said of a cell that is pointed at
        arrays |= {"final": first.weights, "weights": second.weights}
    say("compare.difference", **letters)
    heatmap(meta, arrays, key="difference")
    places = {
        name: tuple(_both([str(n) for n in getattr(first, name)], [str(n) for n in getattr(second, name)]))
        for name in ("query_places", "key_places")
    }
    both = replace(first, queries=tuple(meta["queries"]), keys=tuple(meta["keys"]), allowed=seen, **places)
    take_map(both, t("compare.difference_bar", **letters), "gaze-difference", difference)


def _no_difference(
    one: Pane, other: Pane, first: "HeadView", second: "HeadView", shown: tuple[str, str, str], *, paired: bool
) -> None:
    rows, columns = zip(first.weights.shape, second.weights.shape, strict=True)
    sizes = [f"{r} × {c}" for r, c in zip(rows, columns, strict=True)]
    letters = {"first": one.name, "second": other.name}
    reason = t("compare.no_difference", **letters, size_first=sizes[0], size_second=sizes[1])
    if sizes[0] == sizes[1]:
        reason = t("compare.other_tokens", **letters)
    if change := _fitting(one, other, shown):
        choices = ", ".join(f"{t(f'controls.{key}')}: {t(f'controls.{key}_{value}')}" for key, value in change.items())
        reason += " " + t("compare.fitting", choices=choices)
    elif paired:
        reason += " " + t("compare.distances_even_so")
    st.info(reason)


def _fitting(one: Pane, other: Pane, shown: tuple[str, str, str]) -> dict[str, str]:
    """Return the fewest choices under "View" with which two panes have weights of one size; none if nothing helps."""
    now = dict(zip(("unit", "special", "first"), shown, strict=True))
    others = {"unit": "word", "special": "renormalised", "first": "shown"}
    same = {"special": ("hidden", "renormalised"), "first": ("shown", "log")}  # as good as the other choice
    left = [key for key in others if now[key] not in same.get(key, (others[key],))]
    for count in range(1, len(left) + 1):
        for keys in combinations(left, count):
            change = {key: others[key] for key in keys}
            if _fit(one, other, *(view(pane, **(now | change)) for pane in (one, other))):
                return change
    return {}


def _mean(one: Pane, other: Pane, distances: np.ndarray, queries: "Sequence[Slot]", first: "HeadView") -> None:
    paired = distances[~np.isnan(distances)]
    letters = {"first": one.name, "second": other.name}
    missing = sum(None in slot for slot in queries)
    empty = len(distances) - len(paired) - missing
    if not len(paired):
        say("compare.no_rows" if empty else "compare.no_pairs", **letters)
    elif not paired.any():
        say("compare.same", **letters)
    else:
        farthest = int(np.nanargmax(distances))
        word = mention(first.queries, queries[farthest][0])
        say("compare.mean", mean=few(paired.mean()), word=word, largest=few(paired.max()), **letters)
    if missing and len(paired):
        note("compare.unpaired", count=missing)
    if empty:
        note("compare.empty", count=empty)


def _pairs(
    one: Pane,
    other: Pane,
    first: "HeadView",
    second: "HeadView",
    queries: "Sequence[Slot]",
    distances: np.ndarray,
    looked: dict,
) -> None:
    linked = len(first.queries) == len(second.queries)
    sides = [
        [None if n is None else head.queries[n].strip("·") for n in column]
        for head, column in zip((first, second), zip(*queries, strict=True), strict=True)
    ]
    rows = [
        {"first": a, "second": b, "same": a == b, "value": None if np.isnan(value) else float(value)}
        for a, b, value in zip(*sides, distances, strict=True)
    ]
    meta = (looked if linked else {"view": "compare-pairs", "param": None, "pinned": None}) | {
        "queries": first.queries if linked else [],
        "keys": first.keys if linked else [],
        "linked": linked,
        "rows": rows,
        "words": words("word_pairs") | {"first": one.name, "second": other.name},
    }
    word_pairs(meta, key="pairs")


def _both(first: Sequence[str], second: Sequence[str]) -> list[str]:
    return [a if a.strip("·") == b.strip("·") else f"{a} ∣ {b}" for a, b in zip(first, second, strict=True)]


def _faith(found: "HeadMap") -> None:
    if np.isnan(found.correlation):
        note("compare.faith_none")
    else:
        note("compare.faith", correlation=f"{found.correlation:.2f}", stress=f"{found.stress:.0%}")


def _shared(head: "HeadView") -> str:
    # Pictures of one size share their pin, so that a word is looked at in all of them.
    return "compare-{}-{}".format(*head.weights.shape)


@door
def _distances(model: str) -> np.ndarray:
    from attention_core.distance import all_distances, distances_of, sentence_rows, shipped

    rows = [compute.run(sentence_rows, model, sentence, LIMIT) for sentence in shipped()]
    return all_distances(rows, partial(compute.run, distances_of))


@door
def _map(model: str) -> "HeadMap":
    from attention_core.distance import head_map, scale

    return head_map(_distances(model), partial(compute.run, scale))


@door
def _survey(model: str) -> "Survey":
    from attention_core.distance import shipped
    from attention_core.statistics import judge, piece, repeated_piece

    text = ". ".join(shipped()) + "."
    read = reading(model, text)
    layers, heads = range(read.layers), range(read.heads)
    values = [compute.run(piece, model, text, LIMIT, layer, heads) for layer in layers]
    return judge(values, [compute.run(repeated_piece, model, layer) for layer in layers])


def _key(name: str, letter: str) -> str:
    # The first pane has the keys that all pages share, so that a head comes along from page to page.
    return name if letter == PANES[0] else f"{name}_{letter}"


def _temperature(said: str) -> float:
    value = round(float(said), 1)
    if not COOLEST <= value <= WARMEST:
        raise ValueError(said)
    return value


def _values(letter: str, text: str, model: str, layer: int, head: int) -> dict[str, object]:
    return {
        _key(name, letter): value
        for name, value in {"text": text, "model": model, "layer": layer, "head": head}.items()
    }


def _presets() -> dict[str, dict[str, object]]:
    mini, smol = (BEST_HEAD[model] for model in ("minilm", "smollm2"))
    usual = {"compare_panes": 2, "unit": "token", "special": "shown", "first": "shown", "show": "weights"}
    for letter in "ab":
        usual |= {f"scaled_{letter}": True, f"temperature_{letter}": 1.0, f"mask_{letter}": True}
    return {
        "sentences": usual | _values("a", BANK[0], "minilm", *mini) | _values("b", BANK[1], "minilm", *mini),
        "heads": usual
        | _values("a", EXAMPLE, "minilm", *mini)
        | _values("b", EXAMPLE, "minilm", *SECOND_HEAD["minilm"]),
        "models": usual
        | {"unit": "word", "special": "renormalised"}
        | _values("a", EXAMPLE, "minilm", *mini)
        | _values("b", EXAMPLE, "smollm2", *smol),
    }


def _set(**values: object) -> None:
    for key, value in values.items():
        st.session_state[key] = value


def _pick_head(letter: str) -> None:
    st.session_state[_key("head", letter)] = st.session_state[f"heads_{letter}"].picked + 1


def _pick_on_map(heads: int) -> None:
    picked = st.session_state["map"].picked
    _set(layer=picked // heads + 1, head=picked % heads + 1)
