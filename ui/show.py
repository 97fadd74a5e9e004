"""From a core's HeadView to the components: which numbers, which words."""

import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from attention_core.layers import ranges
from ui import link
from ui.components import heatmap, row_in_full, token_links
from ui.components.payload import LARGE
from ui.text import note, plain, shortened, t, words

if TYPE_CHECKING:
    from attention_core.views import HeadView

PRONOUNS = {"it", "he", "she", "they", "him", "her", "them", "그것", "그는", "그녀는"}
LEAST = 0.01  # a line for less than a hundredth can't be seen
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00")  # Okabe-Ito
Drawn = tuple[dict, dict[str, np.ndarray]]  # the words and the numbers of a component


def links(views: "dict[int, HeadView]", *, view: str, pinned: int | None = None) -> None:
    """Draw who looks at whom, for one head or several (numbers from 0) over one another."""
    token_links(*drawn_links(views, view=view, pinned=pinned), key=f"links-{view}")


def heat(
    head: "HeadView",
    show: str,
    *,
    view: str,
    log: bool = False,
    key: str = "",
    name: str = "",
    several: bool = False,
) -> None:
    """Draw one head's raw scores, scaled scores or weights (words have weights only); ``log`` shows small weights.

    What is pointed at and pinned is shared by all pictures of a ``view``; maps of the same view have keys of their own.
    Where the numbers are no weights, they have another ``name``; where it is one of ``several`` maps on a page and
    large, it has no more numbers than are shown.
    """
    if show != "weights" and head.only:
        note("show.weights_only", reason=head.only)
    elif show != "weights" and not len(head.raw):
        note("show.words_have_weights")
    meta, arrays = drawn_heat(head, show, view=view, log=log, several=several)
    meta["words"] |= {"weights": name} if name else {}
    meta |= {} if several else {"lends": _name_of(head)}
    heatmap(meta, arrays, key=f"heat-{key or view}")


def row(head: "HeadView", *, view: str) -> None:
    """Write one query's row out in full: raw score, × factor, softmax, weight, and the sum; below the head's map."""
    meta, arrays = drawn_row(head, view=view)
    own = {name: array for name, array in arrays.items() if name not in _arrays(head)}
    row_in_full(meta | {"borrows": _name_of(head)}, own, key=f"row-{view}")


def drawn_links(
    views: "dict[int, HeadView]", *, view: str, pinned: int | None = None, param: str | None = "query"
) -> Drawn:
    """Return what :func:`links` draws; without ``param`` its pin is no part of the link."""
    first = next(iter(views.values()))
    edges = [np.nonzero(v.weights >= LEAST) for v in views.values()]
    several = len(views) > 1
    meta = {
        "view": view,
        "param": param,
        "pinned": link.pinned(len(first.queries)) if pinned is None and param else pinned,
        "queries": first.queries,
        "keys": first.keys,
        "muted_queries": first.special_queries,
        "muted_keys": first.special_keys,
        "titles": first.pieces or None,
        "key_titles": first.key_pieces or None,
        "heads": [
            {"name": t("show.head", head=head + 1), "colour": COLOURS[n] if several else None}
            for n, head in enumerate(views)
        ],
        "least": LEAST,
        "down": level(first),
        "words": words("token_links") | _sides(first, ("queries", "keys")),
    }
    arrays = {
        "query": np.concatenate([q for q, _ in edges]),
        "key": np.concatenate([k for _, k in edges]),
        "weight": np.concatenate([v.weights[at] for v, at in zip(views.values(), edges, strict=True)]),
        "head": np.concatenate([np.full(len(q), n) for n, (q, _) in enumerate(edges)]),
    }
    return meta, arrays


def drawn_heat(
    head: "HeadView", show: str, *, view: str, log: bool = False, param: str | None = "query", several: bool = False
) -> Drawn:
    """Return what :func:`heat` draws; without ``param`` its pin is no part of the link."""
    show = show if len(head.raw) else "weights"
    sink = show == "weights" and bool(head.sink.any())  # a column of its own, so that each row sums to 1
    arrays = _arrays(head) | ({"sink": head.sink} if sink else {})
    shown = {"weights": head.weights[None], "raw": head.raw, "scaled": head.raw * head.factor}[show][0]
    inside = shown[head.allowed] if head.allowed.any() else np.zeros(1)
    inside = np.concatenate([inside, head.sink]) if sink else inside
    meta = _meta(head, view, param) | {
        "keys": head.keys + ((t("show.sink_key"),) if sink else ()),
        "sink": sink,
        "show": show,
        "lo": float(inside.min()),
        "hi": float(inside.max()),
        "log": log,
        "words": words("heatmap") | _masks(head) | _sides(head, ("query", "key")),
    }
    if several and shown.size > LARGE:
        arrays = {show: shown} | {name: array for name, array in arrays.items() if name in ("allowed", "sink")}
        meta["factor"] = None
    return meta, arrays


def drawn_row(head: "HeadView", *, view: str) -> Drawn:
    """Return what :func:`row` writes."""
    meta = _meta(head, view) | {
        "default": focus(head)[0],
        "steps": [t(f"show.step_{name}") for name in head.step_names],
        "words": words("row_in_full") | _masks(head),
    }
    if not math.isnan(score := dict(head.terms).get("sink", math.nan)):
        meta["words"]["sink"] = t("show.sink_score", score=f"{score:.4f}")
    arrays = _arrays(head) | {"total": head.weights.sum(axis=1, dtype=np.float64)}
    if head.hidden.any():
        arrays["hidden"] = head.hidden
    if head.sink.any():
        arrays["sink"] = head.sink
    return meta, arrays


def shape_line(head: "HeadView") -> None:
    """Say the shapes, dₖ, the factor, the layer's own number and the key-value head, and how much is hidden."""
    queries, keys = head.weights.shape
    kind = "shapes_only" if head.only else "shapes" if len(head.raw) else "shapes_words"
    note(f"show.{kind}", queries=queries, keys=keys, size=head.size, factor=factor_text(head))
    if shared := sharing(head):
        note("show.group", **shared)
    if head.hidden.any():
        note("show.hidden", share=f"{head.hidden.mean():.0%}")
    sink_line(head)


def sink_line(view: "HeadView", whose: str = "sink") -> None:
    """Say how much weight goes to the head's sink, where it has one; or to the "sinks" that a map adds up."""
    if view.sink.any():
        note(f"show.{whose}", share=f"{view.sink.mean():.0%}")


def sharing(head: "HeadView") -> dict[str, object]:
    """Return which query heads, from 1, read the same key-value head; nothing where each has its own."""
    if head.groups >= head.heads:
        return {}
    share = head.heads // head.groups
    heads = ranges(range(head.group * share + 1, (head.group + 1) * share + 1))
    return {"heads": heads, "group": head.group + 1, "groups": head.groups, "count": head.heads}


def with_sink(head: "HeadView", arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return a head's arrays with one more column, the sink's: it has a weight, and no score."""
    blank = np.full((len(head.queries), 1), np.nan, dtype=np.float32)
    columns = {"weights": head.sink[:, None], "allowed": np.ones_like(blank, dtype=bool)}
    return {name: np.concatenate([array, columns.get(name, blank)], axis=1) for name, array in arrays.items()}


def focus(head: "HeadView") -> tuple[int, int]:
    """Return the query to look at first, and the other word that it looks at most.

    That is a pronoun where there is one, since that is what people look for; else the strongest link of two different
    words. Special tokens count only where there is nothing else.
    """
    weights = head.weights.copy()
    real = ~np.asarray(head.special_queries)[:, None] & ~np.asarray(head.special_keys)[None]
    if head.square and _left_out(head) in (0, 1):
        real &= ~np.eye(*weights.shape, -_left_out(head), dtype=bool)
    if real.any():
        weights[~real] = -1
    pronouns = [n for n, label in enumerate(head.queries) if label.strip("·").lower() in PRONOUNS and real[n].any()]
    query = pronouns[0] if pronouns else int(weights.max(axis=1).argmax())
    return query, int(weights[query].argmax())


def sentence_of(view: "HeadView", query: int, key: int, **values: object) -> None:
    """Say in one sentence that a query looks at a key, with the weight."""
    number = f"{view.weights[query, key]:.2f}"
    st.markdown(
        t(
            "show.looks",
            query=plain(view.queries[query].strip("·")),
            key=plain(view.keys[key].strip("·")),
            weight=number,
            **{name: plain(value) for name, value in values.items()},
        )
    )


def mention(labels: Sequence[str], n: int, most: int = 240) -> str:
    """Return a label, and which of its mentions it is where there are several: "the (2/3)"."""
    bare = [label.strip("·") or label for label in labels]
    same = [place for place, label in enumerate(bare) if label == bare[n]]
    text = shortened(bare[n], most) or bare[n]
    return text if len(same) == 1 else f"{text} ({same.index(n) + 1}/{len(same)})"


def few(value: float, places: int = 2) -> str:
    """Write a number with so many decimals, or with two digits where these would all be 0."""
    text = f"{value:.{places}f}"
    return text if float(text) or not value else np.format_float_positional(value, 2, fractional=False, trim="-")


def apart(one: float, two: float, places: int = 2) -> tuple[str, str]:
    """Write two numbers with so many decimals, or as many more as tell them apart; tiny ones as 2.8e-14."""
    one, two = float(one), float(two)
    while one != two and f"{one:.{places}f}" == f"{two:.{places}f}" and places < 12:
        places += 1
    tiny = places == 12 and max(abs(one), abs(two)) < 1e-6
    return tuple(f"{number:.1e}" if tiny and number else f"{number:.{2 if tiny else places}f}" for number in (one, two))


def factor_text(head: "HeadView") -> str:
    """Write the factor as people know it: 1/√32 = 0.1768, or the bare number where it is another."""
    if head.size and math.isclose(head.factor, 1 / math.sqrt(head.size), rel_tol=1e-6):
        return f"1/√{head.size} = {head.factor:.4g}"
    return f"{head.factor:.4g}"


def _masks(head: "HeadView") -> dict[str, str]:
    """Return what is said of a key that is not allowed: it comes later, is out of the window, or is masked."""
    local = "window" in dict(head.terms)
    far = {"too_far": t("show.too_far")} if head.causal and local else {}
    return {"not_allowed": t(f"show.{'future' if head.causal else 'too_far' if local else 'masked'}")} | far


def _left_out(head: "HeadView") -> int:
    """Return how many tokens at the beginning are queries but no keys: 1 where the first token is hidden."""
    return len(head.queries) - len(head.keys)


def _sides(head: "HeadView", names: tuple[str, str]) -> dict[str, str]:
    """Name both sides where they are two texts: target and source, or one sentence and the other."""
    sides = {"cross": "target source", "ab": "a b", "ba": "b a"}.get(head.between or head.kind)
    if not sides:
        return {}
    query, key = (t(f"inputs.side_{side}") for side in sides.split())
    if names[0] == "queries":
        query, key = t("inputs.looking", side=query), t("inputs.looked_at", side=key)
    return dict(zip(names, (query, key), strict=True))


def level(head: "HeadView") -> int:
    """Return how many rows lower the keys begin, so that a word stands level with itself: the first is hidden."""
    if _left_out(head) != 1 or not head.key_places:
        return 0
    return int(head.key_places[0] == head.query_places[0] + 1)


def _meta(head: "HeadView", view: str, param: str | None = "query") -> dict:
    return {
        "view": view,
        "param": param,
        "pinned": link.pinned(len(head.queries)) if param else None,
        "queries": head.queries,
        "keys": head.keys,
        "factor": head.factor if len(head.raw) else None,
        "factor_text": factor_text(head),
    }


def _arrays(head: "HeadView") -> dict[str, np.ndarray]:
    arrays = {"weights": head.weights, "allowed": head.allowed}
    arrays |= {"raw": head.raw[0]} if len(head.raw) else {}
    return arrays | ({"steps": head.steps} if len(head.steps) else {})


def _name_of(head: "HeadView") -> str:
    """Return a name that other numbers do not have."""
    told = blake2b(digest_size=8)
    for array in (head.weights, head.raw, head.steps):
        told.update(np.ascontiguousarray(array))
    return told.hexdigest()
