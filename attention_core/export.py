"""One head to take away: as a table for a spreadsheet, as arrays for NumPy, as the lines that compute it again."""

import csv
import io
from dataclasses import fields, is_dataclass
from itertools import product

import numpy as np

from attention_core.captured import Capture
from attention_core.formula import Formula
from attention_core.inputs import Input, as_input
from attention_core.models.catalogue import local
from attention_core.views import HeadView
from attention_core.weights_only import LayerWeights

SCORES = ("raw_score", "scaled_score")


def literal(text: str) -> str:
    """Return a text that spreadsheets take for a text: one that begins like a formula gets an apostrophe before it."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def head_csv(view: HeadView, number: str = "weight") -> str:
    """Return one head as a table, a line for each query and key.

    Positions are those in the text, from 0 and special tokens counted, whatever is hidden: tokens, or words.

    Of a head with a sink, the last lines say what of each row goes there: "sink" stands in place of a position.

    Args:
        view: The head, in tokens or words. Between words there are no scores, and no columns of them.
        number: What the weights are called, where they are none.
    """
    out = io.StringIO()
    write = csv.writer(out)
    place = "position" if view.pieces else "word_position"
    pair = (f"query_{place}", "query", f"key_{place}", "key", "allowed")
    write.writerow([*pair, *(SCORES if len(view.raw) else ()), number])
    queries, keys = ([literal(_written(label)) for label in side] for side in (view.queries, view.keys))
    for q, k in product(range(len(queries)), range(len(keys))):
        raw = view.raw[0, q, k] if len(view.raw) else None
        scores = () if raw is None else (_number(raw), _number(raw * np.float32(view.factor)))
        allowed = "yes" if view.allowed[q, k] else "no"
        places = (view.query_places[q], queries[q], view.key_places[k], keys[k])
        write.writerow([*places, allowed, *scores, _number(view.weights[q, k])])
    for q in range(len(queries)) if view.sink.any() else ():
        blank = ("", "") if len(view.raw) else ()
        write.writerow([view.query_places[q], queries[q], "sink", "", "yes", *blank, _number(view.sink[q])])
    return out.getvalue()


def head_npz(seen: Capture, layer: int, head: int, formula: Formula = Formula(), kind: str | None = None) -> bytes:
    """Return one head as a NumPy archive: query (Q, D), key (K, D), value (K, Dv), raw, scaled, weights (Q, K), tokens.

    Of a head with a sink, its share (Q,) as well: the rest of each row to 1.
    Of a model that hands out weights only, weights and tokens.

    Args:
        seen: The capture.
        layer: From 0.
        head: From 0.
        formula: What to change in the model's own formula.
        kind: Which attention, in encoder-decoder models.

    Returns:
        The archive; ``numpy.load`` reads it without pickles.
    """
    own, group = seen.layer(layer, kind), seen.group(layer, head, kind)
    if isinstance(own, LayerWeights):
        numbers, tensors = {}, {"weights": seen.weights(layer, head, formula, kind)}
    else:
        trace = seen.trace(layer, head, formula, kind)
        numbers = {"factor": np.float32(trace.factor)}
        tensors = {
            "query": own.query[head],
            "key": own.key[group],
            "value": own.value[group],
            "raw": trace.raw,
            "scaled": trace.scaled,
            "final": trace.final,
            "allowed": trace.allowed,
            "weights": trace.weights,
            **({"sink": trace.sink} if trace.sink.any() else {}),
        }
    labels = [np.array([_written(token.label) for token in tokens]) for tokens in seen.axes(kind)]
    out = io.BytesIO()
    np.savez_compressed(
        out,
        allow_pickle=False,
        queries=labels[0],
        keys=labels[1],
        **numbers,
        **{name: (t.float() if t.is_floating_point() else t).numpy(force=True) for name, t in tensors.items()},
    )
    return out.getvalue()


def map_npz(view: HeadView) -> bytes:
    """Return what is shown of a head as a NumPy archive: weights (Q, K), what is allowed, its sink (Q,), and labels."""
    out = io.BytesIO()
    labels = {name: np.array([_written(label) for label in getattr(view, name)]) for name in ("queries", "keys")}
    sink = {"sink": view.sink} if view.sink.any() else {}
    np.savez_compressed(out, allow_pickle=False, weights=view.weights, allowed=view.allowed, **labels, **sink)
    return out.getvalue()


def comment_on(model: str) -> str:
    """Return a line on where ``load_model`` finds a model of one's own; nothing for others."""
    return "# with GAZE_MODELS_DIR set as for the app\n" if model in local() else ""


def call_of(asked: Input) -> list[str]:
    """Return what ``capture`` is to be given, after the model, to read the same."""
    how = [repr(asked.text), *([f"second={asked.second!r}"] if asked.second else [])]
    return how + [f"{name}=True" for name, told in (("parse_special", asked.special), ("chat", asked.chat)) if told]


def made_by(made: object) -> str:
    """Return the call that makes a dataclass again, such as ``Formula(scaled=False)``: what is usual is left out."""
    told = [
        (field.name, getattr(made, field.name)) for field in fields(made) if getattr(made, field.name) != field.default
    ]
    given = (f"{name}={made_by(value) if is_dataclass(value) else repr(value)}" for name, value in told)
    return f"{type(made).__name__}({', '.join(given)})"


def as_python(
    model: str,
    text: str | Input,
    layer: int,
    head: int,
    query: int,
    key: int,
    formula: Formula = Formula(),
    unit: str = "token",
    *,
    scores: bool = True,
) -> str:
    """Return the lines that compute one weight again in a notebook.

    Args:
        model: Its name for ``load_model``.
        text: What was read, and how.
        layer: From 0.
        head: From 0.
        query: From 0, in tokens or words.
        key: From 0, in tokens or words.
        formula: What is changed in the model's own formula: numbers, switches and names.
        unit: "token", with its scores; or "word", which has weights only.
        scores: False for a model that hands out weights only.
    """
    asked = as_input(text)
    how = call_of(asked)
    changed = formula != Formula()
    names, given = ("Formula, capture", f", formula={made_by(formula)}") if changed else ("capture", "")
    kind = f"kind={asked.kind!r}" if asked.kind else ""
    given += f", {kind}" if kind else ""
    start = f"""\
{comment_on(model)}from attention_core import {names}, load_model

seen = capture(load_model({model!r}), {", ".join(how)})
layer, head = {layer}, {head}  # counted from 0: layer {layer + 1}, head {head + 1} on the page
query, key = {query}, {key}
"""
    looks = 'print(queries[query], "looks at", keys[key])\n'
    if unit == "word":
        by = ", ".join(part for part in ('"word"', kind) if part)
        return f"""\
{start}queries, keys = seen.labels({by})
weights = seen.grouped(layer, head, "word"{given})  # the sum over a word's keys, the mean over its queries
{looks}print("weight", weights[query, key].item())
"""
    if kind:
        start += f"queries, keys = seen.labels({kind})\n"
    else:
        looks = 'print(seen.tokens[query].label, "looks at", seen.tokens[key].label)\n'
    if not scores:
        return f"""\
{start}weights = seen.weights(layer, head{given})
{looks}print("weight", weights[query, key].item())
"""
    return f"""\
{start}trace = seen.trace(layer, head{given})
{looks}print("raw score", trace.raw[query, key].item(), "× factor", trace.factor)
print("scaled score", trace.scaled[query, key].item())
print("weight", trace.weights[query, key].item())
"""


def _written(label: str) -> str:
    """Return a label as a file can hold it: half a character (a lone surrogate) becomes a question mark."""
    return label.encode(errors="replace").decode()


def _number(value: np.floating) -> str:
    return np.format_float_positional(np.float32(value), trim="-")
