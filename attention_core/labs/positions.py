"""Ways to say where a word is: sinusoidal, learned, relative (Shaw, T5), ALiBi, RoPE.

Sources: Vaswani et al. 2017; Shaw et al. 2018; Raffel et al. 2020 (T5); Press et al. 2022 (ALiBi); Su et al. 2021
(RoPE); Chen et al. 2023 (position interpolation).
"""

import math

import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

KINDS = ("none", "sinusoidal", "learned", "shaw", "t5", "alibi", "rope")
BASE = 10_000.0
BUCKETS, FARTHEST = 32, 128  # of T5
CLIP = 16  # Shaw: distances beyond it count as it


def sinusoidal(positions: Float[Tensor, " T"], width: int, base: float = BASE) -> Float[Tensor, "T W"]:
    """Return a vector for each position: PE(pos, 2i) = sin(pos / base^(2i/W)), PE(pos, 2i + 1) = cos of the same.

    Its dot products depend on the distance alone: PE(m)·PE(n) is the sum over i of cos((m − n) / base^(2i/W)).
    """
    angles = positions[:, None] * speeds(width, base)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]


def speeds(width: int, base: float = BASE) -> Float[Tensor, " P"]:
    """Return θ of each pair of features, in radians a position: base^(−2i/W)."""
    return base ** (-torch.arange(0, width, 2, dtype=torch.float32) / width)


def rotated(x: Float[Tensor, "*H T D"], positions: Float[Tensor, " T"], base: float = BASE) -> Float[Tensor, "*H T D"]:
    """Turn each pair of features (i, i + D/2) by position · θ_i, as Llama does.

    Lengths stay, and ⟨R_m q, R_n k⟩ depends on m − n alone.

    Raises:
        ValueError: If the number of features is odd.
    """
    if x.shape[-1] % 2:
        raise ValueError(f"features are turned in pairs, and {x.shape[-1]} are odd")
    angles = positions[:, None] * speeds(x.shape[-1], base)
    one, two = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([one * cos - two * sin, two * cos + one * sin], dim=-1)


def turned_score(
    query: Float[Tensor, " D"], key: Float[Tensor, " D"], distances: Float[Tensor, " N"], base: float = BASE
) -> Float[Tensor, " N"]:
    """Return ⟨R_m q, R_n k⟩ for the distances m − n."""
    return rotated(query.expand(len(distances), -1), distances, base) @ key


def turned_scores(
    query: Float[ndarray, " D"], key: Float[ndarray, " D"], most: int, base: float
) -> Float[ndarray, " N"]:
    """Return :func:`turned_score` at every whole distance from −most to most."""
    far = torch.arange(-most, most + 1.0)
    return turned_score(torch.from_numpy(query), torch.from_numpy(key), far, base).numpy()


def buckets(
    distances: Int[Tensor, "*S"], *, both: bool, count: int = BUCKETS, farthest: int = FARTHEST
) -> Int[Tensor, "*S"]:
    """Return T5's bucket of each distance (key − query): near ones alone, far ones in groups that grow.

    Args:
        distances: Position of the key less that of the query.
        both: Whether queries look both ways, as in an encoder: half of the buckets are for later keys.
        count: How many buckets there are.
        farthest: From here on all are in the last one.
    """
    side = torch.zeros_like(distances)
    if both:
        count //= 2
        side = (distances > 0) * count
        far = distances.abs()
    else:
        far = (-distances).clamp(min=0)
    exact = count // 2
    grown = exact + (far.clamp(min=1).float() / exact).log() / math.log(farthest / exact) * (count - exact)
    return side + torch.where(far < exact, far, grown.long().clamp(max=count - 1))


def clipped(distances: Int[Tensor, "*S"], most: int = CLIP) -> Int[Tensor, "*S"]:
    """Return which of Shaw's 2·most + 1 vectors a distance has, from 0: those beyond ``most`` share the last one."""
    return distances.clamp(-most, most) + most


def slopes(heads: int) -> Float[Tensor, " H"]:
    """Return ALiBi's slope of each head: 2^(−8h/H) for h = 1 … H; of 8 heads 1/2, 1/4 … 1/256.

    Where H is no power of two, the heads beyond the next lower one get every second slope of twice as many.
    """
    whole = 2 ** int(math.log2(heads))
    first = 2.0 ** (-8 * torch.arange(1, whole + 1) / whole)
    more = 2.0 ** (-8 * torch.arange(1, 2 * whole, 2)[: heads - whole] / (2 * whole))
    return torch.cat([first, more])


def distances(length: int) -> Int[Tensor, "T T"]:
    """Return key − query for all pairs."""
    place = torch.arange(length)
    return place[None] - place[:, None]
