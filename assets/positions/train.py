"""Trains the six small readers of the page "Position" on texts of 32 places; writes readers.safetensors beside it.

    PYTHONPATH=. .venv/bin/python assets/positions/train.py

About three minutes on one core. Seed 0; last run on 2026-12-01 with torch 2.13. The weights are kept in 16 bits.
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch.nn import functional

from attention_core.labs import length as lab

SEED, STEPS, BATCH, RATE = 0, 1500, 64, 6e-3


def train(kind: str) -> lab.Reader:
    """Train one reader: cross-entropy of the last letter at every place, Adam, a rate that rises and falls."""
    torch.manual_seed(SEED)
    model = lab.Reader(kind)
    optimiser = torch.optim.Adam(model.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, STEPS)
    for step in range(STEPS):
        text, answers = lab.texts(BATCH, lab.TRAINED, 1000 + step)
        loss = functional.cross_entropy(model(text).flatten(0, 1), answers.flatten(), ignore_index=-100)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    sys.stdout.write(f"{kind}: loss {loss.item():.4f}\n")
    return model


def main() -> None:
    """Train all, and keep them."""
    torch.set_num_threads(1)
    kept = {f"{kind}.{name}": of.half() for kind in lab.KINDS for name, of in train(kind).state_dict().items()}
    save_file(kept, Path(__file__).with_name("readers.safetensors"))


if __name__ == "__main__":
    main()
