"""Trains the tiny model that sees, on drawn shapes: which shape is the red one?

    PYTHONPATH=. .venv/bin/python assets/pictures/train.py

On one thread of a CPU it takes about ten minutes. Seed 20261201, run on 2026-12-01 with torch 2.13.0; the accuracy on
pictures that it never saw stands in ``tiny_vit/accuracy.json``, and a test measures it again.
"""

import json
import random
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import ViTConfig, ViTForImageClassification

from assets.pictures.draw import SEED, SHAPES, SIDE, scene

FOLDER = Path(__file__).parent / "tiny_vit"
POOL, BATCH, STEPS, TESTED = 24_000, 128, 2600, 1000
SIZES = {"hidden_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 96}
MEAN, SPREAD = 0.5, 0.5


def pictures(seed: int, count: int) -> tuple[Tensor, Tensor]:
    """Draw ``count`` pictures: bytes (N, 3, 64, 64), and the number of each one's red shape."""
    draw = random.Random(seed)
    drawn = [scene(draw)[:2] for _ in range(count)]
    pixels = np.stack([np.asarray(picture).transpose(2, 0, 1) for picture, _ in drawn])
    return torch.from_numpy(pixels), torch.tensor([kind for _, kind in drawn])


def as_input(pixels: Tensor) -> Tensor:
    """Return pixels as the model takes them: from -1 to 1."""
    return (pixels.float() / 255 - MEAN) / SPREAD


def accuracy(model: ViTForImageClassification, pixels: Tensor, kinds: Tensor) -> float:
    """Return the share of pictures whose red shape is named right."""
    with torch.no_grad():
        said = torch.cat([model(pixel_values=as_input(part)).logits.argmax(-1) for part in pixels.split(250)])
    return (said == kinds).float().mean().item()


def main() -> None:
    """Train, and write the model beside this script."""
    torch.manual_seed(SEED)
    names = dict(enumerate(SHAPES))
    config = ViTConfig(
        **SIZES,
        image_size=SIDE,
        patch_size=8,
        id2label=names,
        label2id={v: k for k, v in names.items()},
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = ViTForImageClassification(config)
    pixels, kinds = pictures(SEED, POOL)
    unseen = pictures(SEED + 1, TESTED)
    draw = torch.Generator().manual_seed(SEED)
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=STEPS, pct_start=0.1)
    start = time.time()
    for step in range(STEPS):
        at = torch.randint(POOL, (BATCH,), generator=draw)
        given, right = as_input(pixels[at]), kinds[at]
        if torch.rand((), generator=draw) < 0.5:
            given = given.flip(-1)
        if torch.rand((), generator=draw) < 0.5:
            given = given.transpose(-1, -2)
        loss = torch.nn.functional.cross_entropy(model(pixel_values=given).logits, right)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 200 == 199:
            sys.stdout.write(
                f"{step + 1} {loss.item():.3f} {accuracy(model, *unseen):.3f} {time.time() - start:.0f} s\n"
            )
            sys.stdout.flush()
    model.eval().save_pretrained(FOLDER)
    processor = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": SIDE, "width": SIDE},
        "resample": 3,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [MEAN] * 3,
        "image_std": [SPREAD] * 3,
    }
    (FOLDER / "preprocessor_config.json").write_text(json.dumps(processor, indent=2) + "\n", encoding="utf-8")
    told = {"accuracy": accuracy(model, *unseen), "pictures": TESTED, "seed": SEED + 1, "steps": STEPS}
    (FOLDER / "accuracy.json").write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
