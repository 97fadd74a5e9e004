"""What every head does with a text, in a few numbers and one word: its statistics, its role, and the evidence for it.

One head's weights are in memory at a time, never queries × keys for all heads. Induction and duplicate-token score are
measured on random tokens that come twice, since in a real text a head may look at the right place for other reasons.
"""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, UInt8
from numpy import ndarray
from torch import Tensor

from attention_core import compute
from attention_core.captured import Capture, capture
from attention_core.grouping import tiles
from attention_core.inputs import Input
from attention_core.models.loading import LoadedModel
from attention_core.reading import has_target, prepare
from attention_core.tokens import Token, read_tokens

ON_TEXT = ("entropy", "largest", "previous", "same", "next", "first", "separator", "punctuation", "distance")
ON_REPEATED = ("induction", "duplicate")
STATISTICS: tuple[str, ...] = (*ON_TEXT, *ON_REPEATED)

# The first that applies is the role: from the rare and telling to the common.
SHARES = ("induction", "duplicate", "previous", "next", "same", "first", "separator", "punctuation")
ROLES: tuple[str, ...] = (
    "previous",
    "same",
    "next",
    "first",
    "separator",
    "punctuation",
    *ON_REPEATED,
    "broad",
    "mixed",
)
HALF = 0.5  # a role needs half of the weight …
CLEARLY = 2.0  # … and twice as much as equal weights would give
BROAD = 0.9  # of the entropy of equal weights

REPEAT = 32  # random tokens, which then come again
PIECE = 2**20
TILE = 64  # a picture of the wall has at most so many rows and columns


@dataclass(frozen=True)
class Survey:
    """Every statistic of every head. S statistics, L layers, H heads; NaN where a statistic has no row that counts.

    Attributes:
        values: In the order of ``STATISTICS``.
        roles: Index into ``ROLES``.
        evidence: The number that made the role: the share of its weight; for "broad" its entropy as a share of that of
            equal weights; for "mixed" the largest share, which was not enough.
        even: What a head would have that looks at all allowed tokens equally.
    """

    values: Float[ndarray, "S L H"]
    roles: Int[ndarray, "L H"]
    evidence: Float[ndarray, "L H"]
    even: Float[ndarray, "S L"]


class Measured(NamedTuple):
    """What was measured of some heads of one layer.

    Attributes:
        values: In the order of ``ON_TEXT`` or ``ON_REPEATED``.
        even: The same for a head that looks at all allowed tokens equally.
        pictures: Each head in small: 255 is the largest weight of the picture. Empty where none was asked for.
    """

    values: Float[Tensor, "S H"]
    even: Float[Tensor, " S"]
    pictures: UInt8[Tensor, "P s z"]


def survey(seen: Capture, repeated: Capture | None = None) -> Survey:
    """Measure and judge every head.

    Args:
        seen: The text.
        repeated: Random tokens that come twice, from :func:`repeat`; without it, no head can be "induction" or
            "duplicate".
    """
    heads = range(seen.heads)
    values = [measure(seen, layer, heads) for layer in range(seen.layers)]
    again = [measure_repeated(repeated, layer, heads) for layer in range(seen.layers)] if repeated else []
    return judge(values, again)


def measure(seen: Capture, layer: int, heads: range, size: int = 0) -> Measured:
    """Measure some heads of a layer on a text; with ``size``, draw them as well.

    Args:
        seen: The text.
        layer: From 0.
        heads: From 0.
        size: The most rows and columns that a picture has; a longer text is grouped into tiles.
    """
    weights, allowed = _weights(seen, layer, heads)
    axes = seen.axes()
    pictures = draw(weights, size) if size else torch.zeros(0, 0, 0, dtype=torch.uint8)
    return Measured(on_text(weights, allowed, *axes).cpu(), _even(on_text, allowed, *axes), pictures.cpu())


def measure_repeated(repeated: Capture, layer: int, heads: range) -> Measured:
    """Measure some heads of a layer on tokens that come twice: induction and duplicate-token score."""
    weights, allowed = _weights(repeated, layer, heads)
    queries, keys = repeated.axes()
    nothing = torch.zeros(0, 0, 0, dtype=torch.uint8)
    if queries is not keys:  # of two texts, no token of one comes again in the other
        missing = torch.full((len(ON_REPEATED), 1), torch.nan)
        return Measured(missing.expand(-1, len(heads)), missing[:, 0], nothing)
    return Measured(on_repeated(weights, allowed, keys).cpu(), _even(on_repeated, allowed, keys), nothing)


def on_text(
    weights: Float[Tensor, "H Q K"], allowed: Bool[Tensor, "Q K"], queries: Sequence[Token], keys: Sequence[Token]
) -> Float[Tensor, "S H"]:
    """Return the statistics of ``ON_TEXT``: each a mean over the rows that count, NaN where none does.

    All rows count that may look anywhere at all, with these exceptions: for "previous", "same" and "next" a row counts
    where there is such a token that it may look at; for "first" it must be another token than the first; for separators
    (special tokens) and punctuation it must be none itself and may look at one. Where queries and keys are tokens of
    two texts (two sequences), no row counts for "previous", "same", "next" and the distance.

    Args:
        weights: Some heads'.
        allowed: Where a query may look, in all of them.
        queries: The tokens of the rows.
        keys: The tokens of the columns.
    """
    looks = allowed.any(dim=-1)
    entropy = -(weights * weights.clamp_min(1e-30).log()).sum(dim=-1)  # nats; 0 · log 0 = 0
    values = [entropy[:, looks], weights.amax(dim=-1)[:, looks]]
    crossed = queries is not keys
    near = [weights.diagonal(step, 1, 2)[:, allowed.diagonal(step)] for step in (-1, 0, 1)]
    values += [value[:, :0] for value in near] if crossed else near
    values.append(weights[:, 1:, 0][:, allowed[1:, 0]])
    for kind in (_special, _punctuation):
        own, marked = (torch.tensor([kind(token) for token in tokens]).to(weights.device) for tokens in (queries, keys))
        rows = ~own & (allowed & marked).any(dim=-1)
        values.append((weights @ marked.to(weights))[:, rows])
    q, k = (torch.arange(n, device=weights.device) for n in allowed.shape)
    steps = (weights * (q[:, None] - k).abs().to(weights)).sum(dim=-1)[:, looks]
    values.append(steps[:, :0] if crossed else steps)
    return torch.stack([value.mean(dim=-1) for value in values])


def on_repeated(
    weights: Float[Tensor, "H Q K"], allowed: Bool[Tensor, "Q K"], tokens: Sequence[Token]
) -> Float[Tensor, "2 H"]:
    """Return induction and duplicate-token score of tokens of which some come again.

    The rows of tokens that were there before count: the mean weight on the token after the first occurrence, and on the
    first occurrence itself.

    Source: Olsson et al. 2022, "In-context Learning and Induction Heads" (random tokens that come twice);
    duplicate-token heads: Wang et al. 2022, "Interpretability in the Wild".
    """
    first: dict[int, int] = {}
    pairs = [(n, place) for n, token in enumerate(tokens) if (place := first.setdefault(token.id, n)) < n]
    found = []
    for step in (1, 0):
        places = [
            (query, place + step) for query, place in pairs if place + step < query and allowed[query, place + step]
        ]
        query, key = torch.tensor(places, dtype=torch.long).reshape(-1, 2).T.to(weights.device)
        found.append(weights[:, query, key].mean(dim=-1))
    return torch.stack(found)


def draw(weights: Float[Tensor, "H Q K"], size: int = TILE) -> UInt8[Tensor, "H s z"]:
    """Draw heads in small, 255 for the largest weight of each: in tiles, the sum over keys and the mean over queries.

    The same as ``views.thumbnails``, for weights that are there already.
    """
    rows, columns = (-(-n // size) for n in weights.shape[1:])
    means = torch.nn.functional.avg_pool2d(weights, (rows, columns), ceil_mode=True)  # the last tile may be smaller
    grouped = means * tiles(weights.shape[2], size).bincount().to(weights)
    return (grouped / grouped.amax(dim=(1, 2), keepdim=True).clamp_min(1e-9) * 255).round().to(torch.uint8)


def join(parts: Sequence[Measured]) -> Measured:
    """Put the heads of one layer together that were measured piece by piece."""
    return Measured(torch.cat([p.values for p in parts], dim=1), parts[0].even, torch.cat([p.pictures for p in parts]))


def judge(values: Sequence[Measured], again: Sequence[Measured]) -> Survey:
    """Give every head its role, from what was measured of each layer.

    The rule: the first of ``SHARES`` that gets at least ``HALF`` of the weight and ``CLEARLY`` as much as equal weights
    would give it; else "broad", if the entropy is at least ``BROAD`` of that of equal weights; else "mixed".

    Args:
        values: From :func:`measure`, all heads of each layer.
        again: From :func:`measure_repeated`; or nothing.
    """
    found, even = (torch.stack([m[part] for m in values], dim=1) for part in (0, 1))
    twice = [torch.full((len(ON_REPEATED), *side.shape[1:]), torch.nan) for side in (found, even)]
    if again:
        twice = [torch.stack([m[part] for m in again], dim=1) for part in (0, 1)]
    found, even = torch.cat([found, twice[0]]), torch.cat([even, twice[1]])

    entropy, shares = STATISTICS.index("entropy"), [STATISTICS.index(name) for name in SHARES]
    roles = torch.full(found.shape[1:], ROLES.index("mixed"))
    evidence = found[shares].nan_to_num(0).amax(dim=0)
    breadth = found[entropy] / even[entropy][:, None]
    rules = [("broad", breadth, breadth >= BROAD)]
    for name, place in reversed(list(zip(SHARES, shares, strict=True))):
        chance = even[place][:, None]
        rules.append((name, found[place], (found[place] >= HALF) & (found[place] >= CLEARLY * chance)))
    for name, number, applies in rules:  # the last that applies has the word
        roles[applies], evidence[applies] = ROLES.index(name), number[applies]
    return Survey(found.numpy(), roles.numpy(), evidence.numpy(), even.numpy())


def repeat(model: LoadedModel, length: int = REPEAT, seed: int = 0) -> Capture:
    """Read random tokens twice in a row, between the special tokens that the tokeniser adds to any text.

    Only tokens of at least three plain letters are drawn, where there are enough; and none twice, so that each has one
    first occurrence. The decoder of an encoder-decoder model reads the same tokens, after the one that lets it begin.
    """
    added = read_tokens(model.tokenizer, "a")
    typed = next(n for n, token in enumerate(added) if not token.added)
    before, after = ([t.id for t in part if t.added] for part in (added[:typed], added[typed:]))
    if model.limit is not None:
        length = min(length, (model.limit - len(before) - len(after)) // 2)
    order = torch.randperm(len(model.tokenizer), generator=torch.Generator().manual_seed(seed)).tolist()
    specials = set(model.tokenizer.all_special_ids)
    usual = [n for n in order if n not in specials]
    plain = list(islice((n for n in usual if _letters(model.tokenizer.convert_ids_to_tokens(n))), length))
    drawn = plain if len(plain) == length else usual[:length]  # a vocabulary of another script
    given = {"input_ids": torch.tensor([before + 2 * drawn + after], device=model.module.device)}
    if has_target(model):
        start = prepare(model, Input("a")).target[0].id
        given["decoder_input_ids"] = torch.tensor([[start, *2 * drawn]], device=model.module.device)
    return capture(model, **given)


def pieces(heads: int, length: int) -> list[range]:
    """Cut the heads of a layer into pieces that nobody else has to wait for long: of at most ``PIECE`` weights."""
    size = max(1, PIECE // length**2)
    return [range(first, min(first + size, heads)) for first in range(0, heads, size)]


def piece(model: str, text: str | Input, limit: int, layer: int, heads: range) -> Measured:
    """Measure and draw some heads of a layer. In the compute thread."""
    return measure(compute._seen(model, text, limit), layer, heads, TILE)


def repeated_piece(model: str, layer: int, kind: str = "") -> Measured:
    """Measure a layer of a model (of one ``kind`` of attention) on tokens that come twice. In the compute thread."""
    repeated = _repeated(model).only(kind) if kind else _repeated(model)
    return measure_repeated(repeated, layer, range(repeated.heads))


@lru_cache(maxsize=4)
def _repeated(model: str) -> Capture:
    return repeat(compute._model(model))


def _letters(piece: str | None) -> bool:
    word = (piece or "").lstrip("Ġ▁#")
    return len(word) >= 3 and word.isascii() and word.isalpha()


def _punctuation(token: Token) -> bool:
    letters = token.text.strip()
    return bool(letters) and not token.special and all(unicodedata.category(c).startswith("P") for c in letters)


def _special(token: Token) -> bool:
    return token.special


def _weights(seen: Capture, layer: int, heads: range) -> tuple[Float[Tensor, "H Q K"], Bool[Tensor, "Q K"]]:
    """Return the weights of some heads, and where they may look: the same for all heads of a layer, in all models."""
    weights, _, allowed = seen.shares(layer, heads=heads)
    return weights, allowed[0]


def _even(
    statistics: Callable[..., Tensor], allowed: Bool[Tensor, "Q K"], *tokens: Sequence[Token]
) -> Float[Tensor, " S"]:
    weights = allowed / allowed.sum(dim=-1, keepdim=True).clamp_min(1)
    return statistics(weights[None], allowed, *tokens)[:, 0].cpu()
