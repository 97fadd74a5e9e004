"""Before and after some edits: what a model says next, what a text means to it, and how its heads look then.

Edits are told here as links and pages tell them, in words of the text and without tensors, so that one result serves
everybody who asks the same.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from cachetools import LRUCache
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from attention_core import compute
from attention_core.captured import Capture
from attention_core.distance import js_distance, layer_rows
from attention_core.edits import OFF, Edit, Edits, edited_weights, editing
from attention_core.export import call_of, comment_on, made_by
from attention_core.formula import Formula
from attention_core.importance import KnockedOut, batch_tokens, gradient_times_weight, outcome_of
from attention_core.inputs import Input
from attention_core.models.loading import LoadedModel
from attention_core.outcomes import Outcome, Similarity, Token, divergence, embedding, log_probabilities, predicts
from attention_core.relations import MARKED, sentences
from attention_core.views import HeadView, view_head

TOP = 10
KINDS = ("off", "scale", "uniform", "key", "cut", "instead", "unscaled", "temperature", "unmasked", "unbiased", "wide")
FORMULAS = {
    "unscaled": Formula(scaled=False),
    "unmasked": Formula(without=("causal",)),
    "unbiased": Formula(without=("bias",)),
    "wide": Formula(without=("window",)),
}


class Told(NamedTuple):
    """An edit, in words.

    Attributes:
        layer: From 0; None for every layer.
        head: From 0; None for every head.
        kind: One of ``KINDS``.
        to: What the kind needs: a number for scale and temperature; a word's number, from 0, for key; for cut the
            query's number (or "all") and after it the keys', with "-" between ("5-3-4"); for instead a sentence.
    """

    layer: int | None
    head: int | None
    kind: str
    to: str = ""


@dataclass(frozen=True)
class Said:
    """The next token, before and after.

    Attributes:
        labels: The tokens that are among the most probable before or after, the most probable before first.
        ids: Their numbers.
        before: (N) probabilities.
        after: (N) probabilities.
        divergence: Kullback–Leibler, before against after, in nats.
    """

    labels: tuple[str, ...]
    ids: tuple[int, ...]
    before: Float[ndarray, " N"]
    after: Float[ndarray, " N"]
    divergence: float


@dataclass(frozen=True)
class Meant:
    """The text's embedding, before and after.

    Attributes:
        cosine: Between the two.
        sentences: The shipped sentences that are nearest before or after, the nearest before first.
        before: (N) cosines.
        after: (N) cosines.
    """

    cosine: float
    sentences: tuple[str, ...]
    before: Float[ndarray, " N"]
    after: Float[ndarray, " N"]


class LengthsDifferError(ValueError):
    """The other sentence has another number of tokens, so its weights do not fit."""

    def __init__(self, here: int, there: int) -> None:
        super().__init__(f"the sentence has {here} tokens and the other one {there}")
        self.here, self.there = here, there


def changes(model: str, text: str | Input, limit: int, told: Sequence[Told]) -> Edits:
    """Return the edits that are told; what is told of one head goes before what is told of many. In the compute thread.

    Raises:
        LengthsDifferError: If weights come from a sentence of another length.
        ValueError: If an edit says what does not exist.
    """
    seen = compute._seen(model, text, limit)
    found: dict[tuple[int, int], Edit] = {}
    for one in sorted(told, key=_particular):
        for layer in range(seen.layers) if one.layer is None else (one.layer,):
            for head in range(seen.heads) if one.head is None else (one.head,):
                found[layer, head] = _edit(one._replace(layer=layer, head=head), seen, model, limit)
    return found


def _edit(one: Told, seen: Capture, model: str, limit: int) -> Edit:
    if one.kind == "off":
        return OFF
    if one.kind == "scale":
        return Edit(scale=float(one.to))
    if one.kind == "uniform":
        return Edit(weights="uniform")
    if one.kind == "temperature":
        return Edit(Formula(temperature=float(one.to)))
    if one.kind in FORMULAS:
        return Edit(FORMULAS[one.kind])
    if one.kind == "instead":
        other = compute._seen(model, one.to, limit)
        here, there = len(seen.tokens), len(other.tokens)
        if here != there:
            raise LengthsDifferError(here, there)
        return Edit(weights=other.weights(one.layer, one.head))
    if one.kind == "key":
        return Edit(weights=_first_token(one, seen))
    if one.kind == "cut":
        return Edit(cut=_links(one, seen))
    raise ValueError(f"there is no edit {one.kind!r}; there are {', '.join(KINDS)}")


@torch.no_grad()
def said(model: str, text: str | Input, limit: int, told: Sequence[Told], aim: int | None = None) -> Said | None:
    """Return what comes next, or in the masked place, before and after. In the compute thread.

    Args:
        model: The model's name.
        text: What it reads.
        limit: At how many tokens that is cut.
        told: The edits.
        aim: A token that is wanted besides, however improbable; one that the vocabulary lacks is left out.

    Returns:
        None for a model that predicts nothing here.
    """
    loaded, ids = compute._model(model), _ids(model, text, limit)
    if not predicts(loaded) or (at := place(loaded, ids)) is None:
        return None
    before = log_probabilities(loaded, ids, at)[0]
    with editing(loaded.module, changes(model, text, limit, told)):
        after = log_probabilities(loaded, ids, at)[0]
    wanted = [aim] if aim is not None and 0 <= aim < len(before) else []
    best = list(dict.fromkeys([*before.topk(TOP).indices.tolist(), *after.topk(TOP).indices.tolist(), *wanted]))
    best.sort(key=lambda n: -float(before[n]))
    labels = tuple(loaded.tokenizer.decode([n]) for n in best)
    probabilities = (side.exp()[best].double().numpy() for side in (before.cpu(), after.cpu()))
    return Said(labels, tuple(best), *probabilities, divergence(before, after))


@torch.no_grad()
def meant(model: str, text: str | Input, limit: int, told: Sequence[Told], most: int = 5) -> Meant:
    """Return what the text means before and after, and the nearest shipped sentences. In the compute thread."""
    loaded, ids = compute._model(model), _ids(model, text, limit)
    before = embedding(loaded, ids)[0].cpu()
    with editing(loaded.module, changes(model, text, limit, told)):
        after = embedding(loaded, ids)[0].cpu()
    while shelve(model, limit):
        pass
    shelf = _shelf[model]
    texts = [other for other in shelf if other != text]
    sides = [{other: float(side @ shelf[other]) for other in texts} for side in (before, after)]
    near = [sorted(texts, key=lambda other, of=side: -of[other])[:most] for side in sides]
    names = sorted(dict.fromkeys(near[0] + near[1]), key=lambda other: -sides[0][other])
    columns = (np.array([side[name] for name in names]) for side in sides)
    return Meant(float(before @ after), tuple(names), *columns)


_shelf: LRUCache[str, dict[str, Tensor]] = LRUCache(8)  # what the shipped sentences mean to some models


@torch.no_grad()
def shelve(model: str, limit: int) -> int:
    """Read one more of the shipped sentences for :func:`meant`; return how many are left. In the compute thread."""
    shelf = _shelf.setdefault(model, {})
    shipped = dict.fromkeys(sentence.text for relation in MARKED for sentence in sentences(relation))
    left = [other for other in shipped if other not in shelf]
    if left:
        shelf[left[0]] = embedding(compute._model(model), _ids(model, left[0], limit))[0].cpu()
    return max(0, len(left) - 1)


def moved(model: str, text: str | Input, limit: int, told: tuple[Told, ...], layer: int) -> Float[ndarray, " H"]:
    """Return how differently each head of a layer looks after the edits: its rows' mean Jensen–Shannon distance.

    A row in which every link is cut has nothing in common with what it was: 1. In the compute thread.
    """
    seen, after = compute._seen(model, text, limit), edited(model, text, limit, told)
    before, rows = layer_rows(seen, layer), layer_rows(after, layer)
    for (at, head), edit in changes(model, text, limit, told).items():
        if at == layer and not edit.scales_only:
            rows[head] = _row_and_sink(after, layer, head, edit)
    distances = js_distance(before, rows)
    distances[(rows.sum(axis=-1) == 0) & (before.sum(axis=-1) > 0)] = 1.0
    return distances.mean(axis=-1)


def view(model: str, text: str | Input, limit: int, told: tuple[Told, ...], layer: int, head: int) -> HeadView:
    """Prepare a head of the edited model for showing, with the weights that its own edit leaves."""
    seen = edited(model, text, limit, told)
    shown = view_head(seen, layer, head)
    edit = changes(model, text, limit, told).get((layer, head), Edit())
    rows = _row_and_sink(seen, layer, head, edit).astype(np.float32)
    weights, sink = rows[:, :-1], rows[:, -1]
    open_ = shown.allowed | (weights > 0)
    return replace(shown, weights=weights, sink=sink, allowed=open_, raw=shown.raw[:0], final=shown.final[:0])


def as_python(
    model: str, text: str | Input, limit: int, told: tuple[Told, ...], layer: int, head: int, query: int, key: int
) -> str:
    """Return the lines that compute a weight of the edited model again in a notebook. In the compute thread.

    Args:
        model: Its name for ``load_model``.
        text: What is read.
        limit: At how many tokens it is cut.
        told: The edits.
        layer: From 0.
        head: From 0.
        query: A token, from 0.
        key: A token, from 0.
    """
    asked, seen = compute._kept(model, text, limit), compute._seen(model, text, limit)
    lines = [_line(one, seen, model, limit) for one in sorted(told, key=_particular)]
    formula = "Formula, " if any("Formula(" in line for line in lines) else ""
    given, edited = ", ".join(call_of(asked)), "\n".join(lines)
    return f"""\
{comment_on(model)}from attention_core import {formula}capture, load_model
from attention_core.edits import Edit, edited_weights, editing

model = load_model({model!r})
layers, heads = range({seen.layers}), range({seen.heads})
edits = {{}}
{edited}
with editing(model.module, edits):
    seen = capture(model, {given})
layer, head = {layer}, {head}  # counted from 0: layer {layer + 1}, head {head + 1} on the page
query, key = {query}, {key}
weights = edited_weights(seen, layer, head, edits.get((layer, head), Edit()))
print(seen.tokens[query].label, "looks at", seen.tokens[key].label)
print("weight", weights[query, key].item())
"""


def _line(one: Told, seen: Capture, model: str, limit: int) -> str:
    if one.kind == "instead":
        edit = f"Edit(weights=capture(model, {one.to!r}).weights(layer, head))"
    else:
        edit = made_by(_edit(one, seen, model, limit))
    layers, heads = (
        "" if n is None else f" if {name} == {n}" for name, n in (("layer", one.layer), ("head", one.head))
    )
    if one.layer is not None and one.head is not None and one.kind != "instead":
        return f"edits[{one.layer}, {one.head}] = {edit}"
    return f"edits |= {{(layer, head): {edit} for layer in layers{layers} for head in heads{heads}}}"


def _particular(one: Told) -> int:
    return (one.layer is not None) + (one.head is not None)


def _first_token(one: Told, seen: Capture) -> int:
    return seen.group_numbers("word")[1].tolist().index(int(one.to))


def _links(one: Told, seen: Capture) -> tuple[tuple[int, int], ...]:
    word = seen.group_numbers("word")[1].tolist()
    query, *keys = one.to.split("-")
    keys = {int(key) for key in keys}
    rows = [n for n, of in enumerate(word) if query == "all" or of == int(query)]
    return tuple((q, k) for q in rows for k, of in enumerate(word) if of in keys)


def _row_and_sink(seen: Capture, layer: int, head: int, edit: Edit) -> Float[ndarray, "Q L"]:
    """Return the weights that an edit leaves in a head, and as one more key what is then left to its sink, if any."""
    weights = edited_weights(seen, layer, head, edit).cpu().numpy().astype(float)
    has = seen.layer(layer).formula.term("sink") is not None
    sink = np.clip(1 - weights.sum(axis=-1), 0, 1) if has else np.zeros(len(weights))
    return np.column_stack([weights, sink])


def edited(model: str, text: str | Input, limit: int, told: tuple[Told, ...]) -> Capture:
    """Return a capture of the edited model. In the compute thread."""

    def edits() -> AbstractContextManager:
        return editing(compute._model(model).module, changes(model, text, limit, told))

    # The limit is that of a sentence whose weights come instead.
    return compute._capture(model, compute._kept(model, text, limit), edits=(limit, *told), editing=edits)[0]


@torch.no_grad()
def outcome(model: str, limit: int, aim: int | str, text: str | Input) -> Outcome:
    """Return what is asked: the log-probability of a token, or the cosine with a sentence's embedding."""
    loaded = compute._model(model)
    if isinstance(aim, str):
        return Similarity(embedding(loaded, _ids(model, aim, limit))[0])
    return Token(aim, place(loaded, _ids(model, text, limit)) or 0)


def without_each(
    model: str, text: str | Input, limit: int, aim: int | str, heads: Sequence[tuple[int, int]]
) -> KnockedOut:
    """Return what is to be read, in pieces, for the outcome without each of some heads. In the compute thread."""
    asked = outcome(model, limit, aim, text)
    most = batch_tokens(compute._seen(model, text, limit).layers)
    return KnockedOut(compute._model(model), _ids(model, text, limit), asked, heads, most)


def outcomes(read: KnockedOut) -> Float[ndarray, " N"]:
    """Return the outcomes once that has been read."""
    return read.found.double().cpu().numpy()


def without_all(model: str, text: str | Input, limit: int, aim: int | str, heads: Sequence[tuple[int, int]]) -> float:
    """Return the outcome without some heads at once; with none, the outcome as it is. In the compute thread."""
    asked = outcome(model, limit, aim, text)
    return outcome_of(compute._model(model), _ids(model, text, limit), asked, dict.fromkeys(heads, OFF))


def slopes(model: str, text: str | Input, limit: int, aim: int | str) -> Float[ndarray, "L H"]:
    """Return gradient × weight of each head for the outcome. In the compute thread."""
    asked = outcome(model, limit, aim, text)
    return gradient_times_weight(compute._model(model), _ids(model, text, limit), asked).double().cpu().numpy()


def looks(model: str, text: str | Input, limit: int, word: int) -> Float[ndarray, "L H"]:
    """Return the weight that each head gives to a word (from 0): from where the outcome is read, else on average.

    In the compute thread.
    """
    seen, loaded = compute._seen(model, text, limit), compute._model(model)
    keys = seen.group_numbers("word")[1] == word
    at = place(loaded, _ids(model, text, limit)) if predicts(loaded) else None
    rows = slice(None) if at is None else [at]
    found = [seen.shares(layer).weights[:, rows][:, :, keys].sum(dim=-1).mean(dim=-1) for layer in range(seen.layers)]
    return torch.stack(found).double().cpu().numpy()


def fills(model: str) -> bool:
    """Return whether a model fills in words, where ``[MASK]`` stands. In the compute thread."""
    return _fills(compute._model(model))


def place(loaded: LoadedModel, ids: Tensor) -> int | None:
    """Return where a model predicts: after the last token, or in the first masked place; None where there is none."""
    if not _fills(loaded):
        return -1
    masked = (ids[0] == loaded.tokenizer.mask_token_id).nonzero().flatten().tolist()
    return masked[0] if masked else None


def _fills(loaded: LoadedModel) -> bool:
    return type(loaded.module).__name__.endswith("ForMaskedLM")


def _ids(model: str, text: str | Input, limit: int) -> Tensor:
    seen = compute._seen(model, text, limit)
    return torch.tensor([[token.id for token in seen.tokens]], device=compute._model(model).input_device)
