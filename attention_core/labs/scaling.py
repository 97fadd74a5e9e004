"""Why scores are divided by √dₖ: what dot products of random vectors do to the softmax, and to learning.

If the numbers of q and k are independent N(0, 1), q·k has variance dₖ. Without the factor 1/√dₖ the scores of a wide
head lie far apart, the softmax gives nearly everything to one key, its Jacobian diag(p) − ppᵀ is nearly zero, and with
it the gradient.

In every pair of results, place 0 is without the factor and place 1 with it.

Source: Vaswani et al. 2017, section 3.2.1 and footnote 4.
"""

import math
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from attention_core import compute
from attention_core.dot_product import AttentionTrace, trace_attention
from attention_core.formula import Formula

SIZES = tuple(2**n for n in range(13))
DRAWS = 4000
SEED = 29
BOTH = (Formula(scaled=False), Formula(scaled=True))
DEAD = 1e-3  # of a gradient that is at most about 0.8: so little moves nothing in a few hundred steps


@lru_cache(maxsize=16)  # for the other temperatures and sizes of the same draws
def draw_scores(keys: int, seed: int, draws: int = DRAWS) -> Float[Tensor, "S N K"]:
    """Return q·k for each of ``SIZES``, for many random queries with their keys, all numbers N(0, 1).

    The vectors grow: those of the next size are those of this one with numbers added. What numbers a to b add to q·k
    is, given q, normal with variance |q[a:b]|², and |q[a:b]|² is χ² with b − a degrees of freedom. So these two are
    drawn, not the numbers themselves: the same distribution, a thousand times cheaper for dₖ = 4096.

    Args:
        keys: How many keys each query has.
        seed: The same seed gives the same scores.
        draws: How many queries.
    """
    random = np.random.default_rng((seed, keys))
    grown = np.diff((0, *SIZES))
    lengths = np.sqrt(random.chisquare(grown[:, None, None], (len(SIZES), draws, 1))).astype(np.float32)
    parts = lengths * random.standard_normal((len(SIZES), draws, keys), dtype=np.float32)
    return torch.from_numpy(parts.cumsum(axis=0))


def draw_vectors(size: int, keys: int, seed: int) -> tuple[Float[Tensor, "1 D"], Float[Tensor, "K D"]]:
    """Return one random query and its keys. A wider head, or more keys, keep the numbers that were there."""
    random = np.random.default_rng(seed)
    numbers = random.standard_normal((keys + 1, SIZES[-1])).astype(np.float32)[:, :size]
    return torch.from_numpy(numbers[:1].copy()), torch.from_numpy(numbers[1:].copy())


def soften(
    scores: Float[Tensor, "*R K"], factor: float | Float[Tensor, "..."], temperature: float = 1.0
) -> Float[Tensor, "..."]:
    """Return the softmax of scores × factor ÷ temperature. It subtracts a row's largest score, so nothing overflows."""
    return (scores * factor / temperature).softmax(dim=-1)


def entropy(weights: Float[Tensor, "*R K"]) -> Float[Tensor, "*R"]:
    """Return how spread out each row is, in nats: 0 for one key alone, ln K for all alike."""
    return torch.special.entr(weights.double()).sum(dim=-1)


def gradient_norm(weights: Float[Tensor, "*R K"]) -> Float[Tensor, "*R"]:
    """Return the size ‖diag(p) − ppᵀ‖ (Frobenius) of the softmax's Jacobian, which every gradient must pass: at most ½.

    Written out, the square of it is Σp² − 2Σp³ + (Σp²)².
    """
    p = weights.double()  # the terms nearly cancel where one weight is nearly 1
    squares = p.square()
    square = squares.sum(dim=-1)
    return (square - 2 * (squares * p).sum(dim=-1) + square.square()).clamp_min(0).sqrt()


@dataclass(frozen=True)
class Curves:
    """What the softmax does on average over many random queries, for each of ``SIZES``.

    Attributes:
        spread: Standard deviation of the raw and of the scaled scores.
        largest: Mean of the largest weight.
        entropy: Mean entropy, in nats.
        gradient: Mean size of the softmax's Jacobian.
    """

    spread: Float[ndarray, "2 S"]
    largest: Float[ndarray, "2 S"]
    entropy: Float[ndarray, "2 S"]
    gradient: Float[ndarray, "2 S"]


def curves(keys: int, seed: int, temperature: float = 1.0, draws: int = DRAWS) -> Curves:
    """Draw scores for every size and average over them. In the compute thread."""
    raw = draw_scores(keys, seed, draws)
    factors = torch.tensor([[formula.multiplier(size) for size in SIZES] for formula in BOTH])
    measures = []
    for scores, factor in zip(raw, factors.T, strict=True):
        p = soften(scores, factor[:, None, None], temperature).double()
        measures.append(torch.stack([m.mean(dim=-1) for m in (p.amax(dim=-1), entropy(p), gradient_norm(p))]))
    spread = factors * raw.flatten(1).std(dim=-1, correction=0)
    return Curves(_array(spread.double()), *(_array(m) for m in torch.stack(measures, dim=-1)))


@dataclass(frozen=True)
class Histogram:
    """How often random scores of one size fall where.

    Attributes:
        edges: The bins' borders, for raw and for scaled scores: a quarter of √dₖ, and a quarter.
        shares: The share of all scores in each bin; each row sums to 1.
    """

    edges: Float[ndarray, "2 B1"]
    shares: Float[ndarray, "2 B"]


def histogram(size: int, keys: int, seed: int, draws: int = DRAWS) -> Histogram:
    """Count the random scores of one size. In the compute thread."""
    raw = draw_scores(keys, seed, draws)[SIZES.index(size)].double().numpy()
    scaled = raw / math.sqrt(size)
    bins = math.ceil(np.abs(scaled).max() * 4) + 1
    edges = np.arange(-bins, bins + 1) / 4
    counts, _ = np.histogram(scaled, edges)
    shares = counts / counts.sum()
    return Histogram(np.stack([edges * math.sqrt(size), edges]), np.stack([shares, shares]))


@dataclass(frozen=True)
class Row:
    """One row of scores and what the softmax makes of it.

    Attributes:
        scores: Raw and scaled.
        weights: Of the raw scores and of the scaled ones, after the temperature.
        cool: The weights of the scaled scores at temperature 1, to compare with.
        largest: The largest weight.
        entropy: In nats.
        gradient: Size of the softmax's Jacobian.
    """

    scores: Float[ndarray, "2 K"]
    weights: Float[ndarray, "2 K"]
    cool: Float[ndarray, " K"]
    largest: Float[ndarray, "2"]
    entropy: Float[ndarray, "2"]
    gradient: Float[ndarray, "2"]


def row(raw: Float[Tensor, " K"], size: int, temperature: float = 1.0) -> Row:
    """Return one row of scores, without and with the factor."""
    factors = [formula.multiplier(size) for formula in BOTH]
    p = torch.stack([soften(raw, factor, temperature) for factor in factors])
    return Row(
        scores=_array(torch.stack([raw * factor for factor in factors])),
        weights=_array(p),
        cool=_array(soften(raw, factors[1])),
        largest=_array(p.amax(dim=-1)),
        entropy=_array(entropy(p)),
        gradient=_array(gradient_norm(p)),
    )


def random_row(size: int, keys: int, seed: int, temperature: float) -> Row:
    """Draw a query and its keys, and return their row. In the compute thread."""
    query, key = draw_vectors(size, keys, seed)
    return row((query @ key.T)[0], size, temperature)


def hand_row(scores: tuple[float, ...], size: int, temperature: float) -> Row:
    """Return the row of scores that somebody made up. In the compute thread."""
    return row(torch.tensor(scores), size, temperature)


@dataclass(frozen=True)
class RealRow:
    """One query of a real head; place 0 is with the changed formula, place 1 as the model computes it.

    Attributes:
        labels: The keys.
        factors: What raw scores are multiplied by.
        raw: The raw scores.
        scores: What enters the softmax.
        weights: What comes out of it.
        largest: The largest weight.
        entropy: In nats.
        gradient: Size of the softmax's Jacobian.
    """

    labels: tuple[str, ...]
    factors: tuple[float, float]
    raw: Float[ndarray, " T"]
    scores: Float[ndarray, "2 T"]
    weights: Float[ndarray, "2 T"]
    largest: Float[ndarray, "2"]
    entropy: Float[ndarray, "2"]
    gradient: Float[ndarray, "2"]


@dataclass(frozen=True)
class RealHead:
    """Every row of a real head, measured; place 0 is with the changed formula, place 1 as the model computes it.

    Attributes:
        labels: The queries.
        entropy: In nats.
        gradient: Size of the softmax's Jacobian.
    """

    labels: tuple[str, ...]
    entropy: Float[ndarray, "2 T"]
    gradient: Float[ndarray, "2 T"]


def changed_formula(own: float, kind: str, times: float = 1.0, temperature: float = 1.0) -> Formula:
    """Return a learner's change to a head: its factor left "on", turned "off", or "other": its own × ``times``."""
    change = {"on": {}, "off": {"scaled": False}, "other": {"factor": own * times}}[kind]
    return Formula(temperature=temperature, **change)


def real_row(
    model: str,
    text: str,
    limit: int,
    layer: int,
    head: int,
    query: int,
    kind: str,
    times: float = 1.0,
    temperature: float = 1.0,
) -> RealRow:
    """Return one query of a real head with another factor, and as the model computes it. In the compute thread.

    Args:
        model: The model's name.
        text: What it reads.
        limit: How many tokens at most.
        layer: From 0.
        head: From 0.
        query: From 0.
        kind: What happens to the factor: "on", "off" or "other".
        times: For "other": the factor becomes the model's own × this.
        temperature: The scores are divided by it, in place 0 only.
    """
    seen = compute._seen(model, text, limit)
    own = seen.row(layer, head, query)
    changed = seen.row(layer, head, query, changed_formula(own.factor, kind, times, temperature))
    pair = (changed, own)
    shares = torch.cat([_shares(trace) for trace in pair])
    return RealRow(
        labels=tuple(seen.labels()[1]),
        factors=(changed.factor, own.factor),
        raw=_array(own.raw[0]),
        scores=_array(torch.cat([trace.final for trace in pair])),
        weights=_array(torch.cat([trace.weights for trace in pair])),
        largest=_array(torch.stack([trace.weights.max() for trace in pair])),
        entropy=_array(entropy(shares)),
        gradient=_array(gradient_norm(shares)),
    )


def real_head(
    model: str, text: str, limit: int, layer: int, head: int, kind: str, times: float = 1.0, temperature: float = 1.0
) -> RealHead:
    """Measure every row of a real head; arguments as in :func:`real_row`. In the compute thread."""
    seen = compute._seen(model, text, limit)
    own = seen.trace(layer, head)
    changed = seen.trace(layer, head, changed_formula(own.factor, kind, times, temperature))
    shares = [_shares(trace) for trace in (changed, own)]
    return RealHead(
        labels=tuple(seen.labels()[0]),
        entropy=_array(torch.stack([entropy(share) for share in shares])),
        gradient=_array(torch.stack([gradient_norm(share) for share in shares])),
    )


def _shares(trace: AttentionTrace) -> Float[Tensor, "Q K1"]:
    """Return each row's weights and the share of its sink, which is one more place that weight can go to."""
    return torch.cat([trace.weights, trace.sink[:, None]], dim=-1)


# Watch it learn: each of 64 words has one of 8 keys, and is to fetch the value that lies under it.
WORDS, KEYS = 64, 8
SEEDS = 3
STEPS, PIECE = 300, 15
MOST_RUNS = 32


@dataclass(frozen=True)
class Learned:
    """How far training has come.

    Attributes:
        steps: How many steps were taken.
        losses: Of each seed, before every step and after the last.
        gradient: Before the first step: the size of a word's gradient behind the softmax, mean over words and seeds.
        dead: Before the first step: the share of words for which practically none gets through.
        right: The share of words whose own key has the largest weight now.
    """

    steps: int
    losses: Float[ndarray, "2 R L"]
    gradient: Float[ndarray, "2"]
    dead: Float[ndarray, "2"]
    right: Float[ndarray, "2"]


@dataclass
class Training:
    """Two attention layers that begin alike and learn the same task, one without 1/√dₖ and one with it, for each seed.

    A word w is a one-hot vector, so that its query is row w of W_Q; the keys are the rows of W_K. Both begin N(0, 1),
    as in the rest of this file. The value under key j is the j-th unit vector. The loss is the squared distance between
    context and the value asked for, averaged over the words, and plain gradient descent goes down it.
    """

    size: int
    rate: float
    seed: int
    losses: list[Float[Tensor, "2 R"]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Draw the weights and the task, and measure both layers before the first step."""
        randoms = [np.random.default_rng((self.size, self.seed + n)) for n in range(SEEDS)]
        query, key = (
            torch.from_numpy(np.stack([r.standard_normal((n, self.size)) for r in randoms]).astype(np.float32))
            for n in (WORDS, KEYS)
        )
        self.targets = torch.from_numpy(np.stack([r.integers(KEYS, size=WORDS) for r in randoms]))
        self.weights = [(query.clone().requires_grad_(), key.clone().requires_grad_()) for _ in BOTH]
        self._measure()
        reach = [
            WORDS * torch.autograd.grad(loss, scores, retain_graph=True)[0].norm(dim=-1) for scores, loss in self.runs
        ]
        self.gradient = torch.stack([r.mean() for r in reach])
        self.dead = torch.stack([(r < DEAD).double().mean() for r in reach])

    def step(self) -> None:
        """Take one step of gradient descent in both layers."""
        for weights, (_, loss) in zip(self.weights, self.runs, strict=True):
            slopes = torch.autograd.grad(loss, weights)
            with torch.no_grad():
                for weight, slope in zip(weights, slopes, strict=True):
                    weight -= self.rate * slope
        self._measure()

    def learned(self) -> Learned:
        """Return how far it has come."""
        losses = torch.stack(self.losses, dim=-1)
        return Learned(len(self.losses) - 1, *(_array(x) for x in (losses, self.gradient, self.dead, self.right)))

    def _measure(self) -> None:
        """Run both layers: note each seed's loss, how many words find their key, and what the next step needs."""
        values = torch.eye(KEYS).expand(SEEDS, -1, -1)
        self.runs, losses, right = [], [], []
        for (query, key), formula in zip(self.weights, BOTH, strict=True):
            trace = trace_attention(query, key, values, formula)
            loss = (trace.context - values[0][self.targets]).square().sum(dim=-1).mean(dim=-1)
            self.runs.append((trace.final, loss.sum()))
            losses.append(loss.detach())
            right.append((trace.weights.argmax(dim=-1) == self.targets).double().mean())
        self.losses.append(torch.stack(losses))
        self.right = torch.stack(right)


_runs: "OrderedDict[tuple[int, float, int], tuple[Training, dict[int, Learned]]]" = OrderedDict()


def learn(size: int, rate: float, seed: int, steps: int) -> Learned:
    """Return training after ``steps`` steps, or a piece further than it was, where that is less. In the compute thread.

    What was learned is kept, so that everyone who asks for the same training shares it.
    """
    key = (size, rate, seed)
    if key not in _runs:
        training = Training(size, rate, seed)
        _runs[key] = training, {0: training.learned()}
    _runs.move_to_end(key)
    while len(_runs) > MOST_RUNS:
        _runs.popitem(last=False)
    training, found = _runs[key]
    done = max(found)
    if steps > done:
        for _ in range(min(PIECE, steps - done)):
            training.step()
        done = len(training.losses) - 1
        found[done] = training.learned()
    if steps not in found:
        return found[max(n for n in found if n <= steps)]
    return found[steps]


def _array(tensor: Tensor) -> ndarray:
    array = tensor.detach().numpy()
    array.setflags(write=False)  # shared by everyone who looks
    return array
