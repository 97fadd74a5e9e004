"""What is seen of each model family, and how far it is from the library's own eager attention, as a Markdown table.

    PYTHONPATH=. .venv/bin/python benchmarks/architectures.py

Each family is a tiny model with random weights (``benchmarks/families.py``), so nothing is downloaded.
"""

import warnings
from importlib.metadata import version

import torch
from transformers.utils import logging

from attention_core import capture
from benchmarks.families import (
    FAMILIES,
    WINDOWED,
    Family,
    build,
    eager_weights,
    inputs,
    pairs,
    window_pairs,
    window_weights,
)

HEAD = "| family | what is seen | kinds | largest difference from eager |\n|---|---|---|--:|"


def line(family: Family) -> str:
    """Capture one family and return its line of the table."""
    module, given = build(family), inputs(family)
    try:
        seen = capture(module, **given)
    except (TypeError, ValueError) as error:
        return f"| {family.name} | refused: {error} | | |"
    if family in WINDOWED:
        differences = [
            (own - theirs).abs().max().item() for own, theirs in window_pairs(seen, window_weights(family, given))
        ]
        what = "scores and weights" if seen.scores else "weights only"
        return f"| {family.name} | {what}, in windows | self | {f'{max(differences):.0e}' if seen.scores else '–'} |"
    kinds = ", ".join(seen.kinds) + (f"; not seen: {', '.join(seen.skipped)}" if seen.skipped else "")
    if not seen.scores:  # they are eager's
        return f"| {family.name} | weights only | {kinds} | – |"
    differences = [(own - theirs).abs().max().item() for own, theirs in pairs(seen, eager_weights(module, given))]
    return f"| {family.name} | scores and weights | {kinds} | {max(differences):.0e} |"


def main() -> None:
    """Print how many families there are of each sort, and the table."""
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    lines = [line(family) for family in (*FAMILIES, *WINDOWED)]
    counts = [sum(f"| {what}" in one for one in lines) for what in ("scores", "weights only", "refused")]
    print(
        f"{len(lines)} families, transformers {version('transformers')}: scores and weights of {counts[0]}, "
        f"weights only of {counts[1]}, {counts[2]} refused with the reason.\n"
    )
    print(HEAD, *lines, sep="\n")


if __name__ == "__main__":
    main()
