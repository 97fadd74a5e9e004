"""From words to context, one step at a time: embeddings X, then Q, K, V, then the four steps of attention.

In the small world a word is four numbers, so that every sum can be followed by eye. The words of the running example,
and some more, have numbers made by hand, one for each of ``FEATURES``; any other word gets four numbers made of its
letters, so that equal words have equal numbers. The same steps are shown of a real head, whose words are long vectors.

Source: Vaswani et al. 2017, section 3.2.1.
"""

import hashlib
import unicodedata
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor
from torch.nn.functional import cosine_similarity

from attention_core import compute
from attention_core.dot_product import AttentionTrace, trace_attention
from attention_core.formula import Formula

FEATURES = ("food", "person", "action", "refers back")  # what the four numbers of a hand-made word say
ASKED = ("thing", "someone", "deed", "pointer")  # what the four numbers of a query ask for, and of a key offer
WORLDS = ("cake", "identity", "random", "equal")
MOST_WORDS = 8
MODEL, LAYER, HEAD = "minilm", 5, 11  # the real head, counted from 0
MOST_TOKENS = 16
Numbers = tuple[tuple[float, ...], ...]

_FOOD, _EATS, _PERSON, _THE, _IT = (
    (1.0, 0.0, 0.0, 0.0),
    (0.2, 0.0, 1.0, 0.0),
    (0.0, 1.0, 0.0, 0.0),
    (0.0, 0.0, 0.0, 0.2),
    (0.0, 0.0, 0.0, 1.0),
)
_AND, _WAS, _TASTY = (0.0, 0.0, 0.1, 0.1), (0.0, 0.0, 0.4, 0.1), (0.3, 0.0, 0.0, 0.5)
HAND_MADE = {
    **dict.fromkeys(("cake", "pizza", "bread", "apple", "케이크를", "케이크가", "피자를", "빵을", "사과를"), _FOOD),
    **dict.fromkeys(("ate", "eats", "eat", "먹었고", "먹었는데", "먹었다"), _EATS),
    **dict.fromkeys(("i", "she", "he", "we", "you", "나는", "내가", "우리는", "그녀는", "친구가"), _PERSON),
    **dict.fromkeys(("the", "a", "그"), _THE),
    **dict.fromkeys(("and", "but", "그리고"), _AND),
    **dict.fromkeys(("it", "그것은", "그것이", "그건"), _IT),
    **dict.fromkeys(("was", "is", "정말"), _WAS),
    **dict.fromkeys(("delicious", "tasty", "good", "맛있었다", "맛있다"), _TASTY),
}
POINTERS = {word for word, numbers in HAND_MADE.items() if numbers == _IT}

# Rows: FEATURES. Columns: ASKED. "What refers back" asks for a thing, and a little for someone; food is a thing.
QUERY_MADE = ((2.0, 0.0, 0.0, 1.0), (0.0, 0.0, 3.0, 0.0), (2.0, 2.0, 0.0, 0.0), (4.0, 1.0, 0.0, 0.0))
KEY_MADE = ((2.0, 0.0, 0.0, 0.0), (0.0, 2.0, 0.0, 0.0), (0.0, 0.0, 2.0, 0.0), (0.0, 0.0, 0.0, 2.0))
# Rows and columns: FEATURES. Each word hands over what it is; that it refers back, only half.
VALUE_MADE = ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 0.5))


class Projection(NamedTuple):
    """One of W_Q, W_K, W_V, and the bias that some models add: X becomes X · weight + bias."""

    weight: Float[Tensor, "M D"]
    bias: Float[Tensor, " D"]


class Made(NamedTuple):
    """A small world as numbers, before anybody changed it."""

    x: Numbers
    w_q: Numbers
    w_k: Numbers
    w_v: Numbers


@dataclass(frozen=True)
class Movement:
    """How one word's vector moves from what it would say by itself, its own value, to its context.

    Since the weights of a row sum to 1, the context is the centre of gravity of all values, and each word's pull on the
    start is its weight times the way from the start to its value: the pulls add up to the whole movement.

    Attributes:
        target: The other word with the largest weight.
        before: Cosine of the word's own value with the target's value; 0 where one of them is all zero.
        after: Cosine of the word's context with the target's value.
        places: The values of all words in a plane; its first axis points from the word's value to the target's.
        end: The context in the same plane; the start is ``places[word]``.
    """

    target: int
    before: float
    after: float
    places: Float[Tensor, "T 2"]
    end: Float[Tensor, " 2"]


@dataclass(frozen=True)
class Walk:
    """Every matrix on the way from words to context.

    Attributes:
        words: The names of the rows.
        x: The embeddings, a row a word.
        w_q: How X becomes Q.
        w_k: How X becomes K.
        w_v: How X becomes V.
        query: X · W_Q + bias.
        key: X · W_K + bias.
        value: X · W_V + bias.
        trace: Raw scores, scaled scores, weights and context.
    """

    words: tuple[str, ...]
    x: Float[Tensor, "T M"]
    w_q: Projection
    w_k: Projection
    w_v: Projection
    query: Float[Tensor, "T D"]
    key: Float[Tensor, "T D"]
    value: Float[Tensor, "T Dv"]
    trace: AttentionTrace


@dataclass(frozen=True)
class WalkView:
    """A walk as a page shows it: plain arrays, and the movement of every word. Rows of ``weights`` sum to 1.

    Attributes:
        words: The names of the rows.
        arrays: ``x``, ``w_q``, ``b_q`` … ``q``, ``k``, ``v``, ``raw``, ``scaled``, ``weights``, ``context``; and of the
            movements ``targets`` (T), ``cosines`` (T, 2), ``places`` (T, T, 2), ``ends`` (T, 2).
        factor: What raw scores were multiplied by.
        size: dₖ.
        focus: The word to look at first, and the other word that it looks at most.
        cut: How many words of the sentence were left out.
    """

    words: tuple[str, ...]
    arrays: dict[str, ndarray]
    factor: float
    size: int
    focus: tuple[int, int]
    cut: int


def split(text: str) -> tuple[tuple[str, ...], int]:
    """Return the words between spaces, at most ``MOST_WORDS``, and how many more there were."""
    words = [word for word in ("".join(c for c in part if c.isprintable()) for part in text.split()) if word]
    return tuple(words[:MOST_WORDS]), max(0, len(words) - MOST_WORDS)


def embed(word: str) -> tuple[float, ...]:
    """Return the four numbers of a word: those made by hand, or four from −1 to 1 made of its letters.

    The rule for the rest: the first four bytes of the SHA-256 of the word in small letters, each 0 to 255, spread
    evenly over −1 to 1 and rounded to one decimal. So they mean nothing, and equal words have equal numbers.
    """
    plain = _plain(word)
    if plain in HAND_MADE:
        return HAND_MADE[plain]
    drawn = hashlib.sha256(plain.encode("utf-8", "replace")).digest()[: len(FEATURES)]
    return tuple(round(byte / 127.5 - 1, 1) + 0.0 for byte in drawn)


def made(world: str, words: tuple[str, ...], draw: int = 0) -> Made:
    """Return the numbers of a small world.

    Args:
        world: "cake": all made by hand; "identity": each W leaves X as it is; "random": each W drawn at random, one
            decimal, from −2 to 2; "equal": every word has the numbers of the first.
        words: The sentence.
        draw: The seed of the random W.

    Raises:
        ValueError: If there is no such world.
    """
    if world not in WORLDS:
        raise ValueError(f"a world is one of {WORLDS}, not {world!r}")
    x = tuple(embed(words[0] if world == "equal" else word) for word in words)
    if world == "identity":
        return Made(x, *[tuple(map(tuple, np.eye(len(FEATURES)).tolist()))] * 3)
    if world == "random":
        drawn = np.random.default_rng(draw).integers(-20, 21, (3, len(FEATURES), len(ASKED))) / 10
        return Made(x, *(tuple(map(tuple, part.tolist())) for part in drawn))
    return Made(x, QUERY_MADE, KEY_MADE, VALUE_MADE)


def walk(
    words: tuple[str, ...],
    x: Float[Tensor, "T M"],
    w_q: Projection,
    w_k: Projection,
    w_v: Projection,
    formula: Formula = Formula(),
) -> Walk:
    """Go all the way from embeddings to context, and keep every matrix.

    Raises:
        ValueError: If the sizes do not fit, naming both.
    """
    if len(words) != len(x):
        raise ValueError(f"{len(words)} words need as many embeddings, not {len(x)}")
    for name, projection in {"W_Q": w_q, "W_K": w_k, "W_V": w_v}.items():
        if projection.weight.shape[0] != x.shape[1]:
            raise ValueError(f"{name} takes {projection.weight.shape[0]} numbers, and a word has {x.shape[1]}")
    query, key, value = (x @ projection.weight + projection.bias for projection in (w_q, w_k, w_v))
    trace = trace_attention(query[None], key[None], value[None], formula).head(0)
    return Walk(words, x, w_q, w_k, w_v, query, key, value, trace)


def movement(value: Float[Tensor, "T D"], weights: Float[Tensor, "T T"], word: int) -> Movement:
    """Say how one word's vector moves towards the word that it looks at most.

    Args:
        value: V, a row a word.
        weights: Each row sums to 1.
        word: The query.
    """
    start, context = value[word], weights[word] @ value
    others = weights[word].clone()
    if len(others) > 1:
        others[word] = -1.0
    target = int(others.argmax())
    before, after = (cosine_similarity(v, value[target], dim=0, eps=1e-12).item() for v in (start, context))
    axes = _plane(value, value[target] - start)
    return Movement(target, before, after, value @ axes.T, context @ axes.T)


def view(walked: Walk, cut: int = 0) -> WalkView:
    """Prepare a walk for showing."""
    trace = walked.trace
    moves = [movement(walked.value, trace.weights, word) for word in range(len(walked.words))]
    tensors = {
        "x": walked.x,
        **{f"w_{name}": part.weight for name, part in zip("qkv", (walked.w_q, walked.w_k, walked.w_v), strict=True)},
        **{f"b_{name}": part.bias for name, part in zip("qkv", (walked.w_q, walked.w_k, walked.w_v), strict=True)},
        "q": walked.query,
        "k": walked.key,
        "v": walked.value,
        "raw": trace.raw,
        "scaled": trace.scaled,
        "weights": trace.weights,
        "context": trace.context,
        "targets": torch.tensor([move.target for move in moves]),
        "cosines": torch.tensor([[move.before, move.after] for move in moves]),
        "places": torch.stack([move.places for move in moves]),
        "ends": torch.stack([move.end for move in moves]),
    }
    arrays = {name: tensor.numpy(force=True) for name, tensor in tensors.items()}
    for array in arrays.values():
        array.setflags(write=False)  # shared by everyone who looks at the same walk
    pointers = [n for n, word in enumerate(walked.words) if _plain(word) in POINTERS]
    first = pointers[0] if pointers else len(walked.words) - 1
    return WalkView(walked.words, arrays, trace.factor, walked.query.shape[-1], (first, moves[first].target), cut)


def small_world(
    words: tuple[str, ...],
    cut: int,
    world: str,
    draw: int,
    changed: tuple[Numbers | None, Numbers | None, Numbers | None, Numbers | None],
    scaled: bool,
) -> WalkView:
    """Walk through a small world. In the compute thread.

    Args:
        words: The sentence.
        cut: How many words of it were left out.
        world: One of ``WORLDS``.
        draw: The seed of the random one.
        changed: X, W_Q, W_K, W_V as a learner changed them; None means as they were made.
        scaled: Whether scores are divided by √dₖ.
    """
    numbers = [new or old for new, old in zip(changed, made(world, words, draw), strict=True)]
    x, *weights = (torch.tensor(part, dtype=torch.float32) for part in numbers)
    parts = [Projection(weight, torch.zeros(weight.shape[1])) for weight in weights]
    return view(walk(words, x, *parts, Formula(scaled=scaled)), cut)


def real_head(text: str, scaled: bool) -> WalkView:
    """Walk through the real head, MiniLM layer 6 head 12, on the beginning of a text. In the compute thread.

    Q, K and V are what the head was given when the model ran; X is the input of its layer, read from the same model,
    and W_Q, W_K, W_V are this head's share of the layer's 384 × 384.

    Raises:
        NoTokens: If the tokeniser leaves nothing of the text.
        ModelError: If the model can't be loaded.
    """
    walked = real_walk(text, Formula(scaled=scaled))
    _, _, cut = compute._fit(MODEL, text, MOST_TOKENS)
    return view(walked, cut)


def real_walk(text: str, formula: Formula = Formula()) -> Walk:
    """Return the real head's walk. In the compute thread."""
    seen = compute._seen(MODEL, text, MOST_TOKENS)
    module = compute._model(MODEL).module
    given = seen.layer(LAYER)
    with torch.no_grad():
        ids = torch.tensor([[token.id for token in seen.tokens]], device=module.device)
        x = module(input_ids=ids, output_hidden_states=True).hidden_states[LAYER][0]
    attention = module.encoder.layer[LAYER].attention.self
    size = given.query.shape[-1]
    rows = slice(HEAD * size, (HEAD + 1) * size)
    parts = [
        Projection(linear.weight[rows].detach().T, linear.bias[rows].detach())
        for linear in (attention.query, attention.key, attention.value)
    ]
    query, key, value = given.query[HEAD], given.key[HEAD], given.value[HEAD]
    words = tuple(token.label for token in seen.tokens)
    return Walk(words, x, *parts, query, key, value, seen.trace(LAYER, HEAD, formula))


def _plain(word: str) -> str:
    # A word's own letters: small, without the punctuation around it.
    folded = unicodedata.normalize("NFC", word).casefold()
    inside = [place for place, letter in enumerate(folded) if letter.isalnum()]
    return folded[inside[0] : inside[-1] + 1] if inside else folded


def _plane(value: Float[Tensor, "T D"], way: Float[Tensor, " D"]) -> Float[Tensor, "2 D"]:
    """Return two directions at right angles: along the way, and the one in which the rest of the values varies most."""
    size = value.shape[1]
    spread = value - value.mean(dim=0)
    if way.norm() < 1e-9:  # nowhere to go: the widest direction will do
        way = torch.linalg.svd(spread, full_matrices=False).Vh[0] if spread.any() else torch.eye(size)[0]
    first = way / way.norm()
    rest = spread - (spread @ first)[:, None] * first
    if rest.norm() > 1e-6 * max(1.0, float(spread.norm())):
        second = torch.linalg.svd(rest, full_matrices=False).Vh[0]
    else:
        axis = torch.eye(size)[int(first.abs().argmin())]
        second = axis - (axis @ first) * first
    second = second - (second @ first) * first
    second = second / second.norm().clamp_min(1e-12)
    return torch.stack([first, second * (1 if second[second.abs().argmax()] >= 0 else -1)])
