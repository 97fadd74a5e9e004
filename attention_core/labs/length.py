"""Train on short texts, ask for long ones: one small model for each way to say where a word is.

The task: letters among blanks; at every place, name the last letter that was there. A model has one layer of causal
attention. All torch work belongs in the compute thread.
"""

from functools import cache
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_core.labs.positions import (
    BASE,
    BUCKETS,
    CLIP,
    buckets,
    clipped,
    distances,
    rotated,
    sinusoidal,
    slopes,
)

KINDS = ("sinusoidal", "learned", "shaw", "t5", "alibi", "rope")
FOLDER = Path(__file__).parents[2] / "assets" / "positions"
LETTERS, BLANK, OFTEN = 8, 8, 0.25  # a place has a letter so often
WIDTH, HEADS = 64, 8
TRAINED = 32  # the longest text in training
LONGEST = 512
ASKED = 16  # places at the end whose answers count


class Reader(nn.Module):
    """One layer of attention that names the last letter.

    Args:
        kind: The way to say where a word is.
    """

    def __init__(self, kind: str) -> None:
        """Draw the weights."""
        super().__init__()
        self.kind, size = kind, WIDTH // HEADS
        self.embed, self.out = nn.Embedding(LETTERS + 1, WIDTH), nn.Linear(WIDTH, LETTERS)
        self.into = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        if kind == "learned":
            self.table = nn.Parameter(torch.randn(LONGEST, WIDTH))
        if kind == "shaw":
            self.table = nn.Parameter(torch.zeros(2 * CLIP + 1, size))
        if kind == "t5":
            self.table = nn.Parameter(torch.zeros(BUCKETS, HEADS))

    def forward(
        self, text: Int[Tensor, "B T"], base: float = BASE, stretch: float = 1.0, last: int = LONGEST
    ) -> Float[Tensor, "B A L"]:
        """Answer at the last places.

        Args:
            text: Letters from 0, and blanks.
            base: Of RoPE's speeds.
            stretch: What positions are divided by (position interpolation), where they are numbers: RoPE, sinusoidal.
            last: How many places.
        """
        length = text.shape[1]
        places, apart = torch.arange(length) / stretch, distances(length)[-last:]
        x = self.embed(text)
        if self.kind == "sinusoidal":
            x = x + sinusoidal(places, WIDTH)
        if self.kind == "learned":
            x = x + self.table[:length]
        query, key, value = self.into(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        if self.kind == "rope":
            query, key = (rotated(of, places, base) for of in (query, key))
        query = query[:, :, -last:]
        scores = query @ key.mT
        if self.kind == "shaw":
            scores = scores + (query @ self.table.T).gather(-1, clipped(apart).expand_as(scores))
        scores = scores / query.shape[-1] ** 0.5
        if self.kind == "t5":
            scores = scores + self.table[buckets(apart, both=False)].permute(2, 0, 1)
        if self.kind == "alibi":
            scores = scores + slopes(HEADS)[:, None, None] * apart
        weights = scores.masked_fill(apart > 0, -torch.inf).softmax(dim=-1)
        return self.out((weights @ value).transpose(1, 2).flatten(2))


def texts(count: int, length: int, seed: int) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
    """Draw texts and their answers; −100 where there was no letter yet."""
    draw = torch.Generator().manual_seed(seed)
    letters = torch.randint(LETTERS, (count, length), generator=draw)
    text = torch.where(torch.rand(count, length, generator=draw) < OFTEN, letters, BLANK)
    last = torch.where(text < BLANK, torch.arange(length), -1).cummax(dim=1).values
    return text, torch.where(last >= 0, text.gather(1, last.clamp(min=0)), -100)


def accuracy(
    kind: str, length: int, *, base: float = BASE, stretch: float = 1.0, count: int = 32, seed: int = 7
) -> float:
    """Return how often a model's answers at the end of texts of this length are right."""
    text, answers = texts(count, length, seed)
    answers = answers[:, -ASKED:]
    with torch.no_grad():
        said = reader(kind)(text, base, stretch, ASKED).argmax(dim=-1)
    asked = answers >= 0
    return float((said == answers)[asked].double().mean())


@cache
def reader(kind: str) -> Reader:
    """Return the trained model."""
    from safetensors.torch import load_file

    model = Reader(kind)
    kept = load_file(FOLDER / "readers.safetensors")
    model.load_state_dict({name: kept[f"{kind}.{name}"].float() for name in model.state_dict()})
    return model.eval()
