"""All heads at once: seconds on the server and bytes to the browser, beside BertViz's model view in the same run.

    PYTHONPATH=. .venv/bin/python benchmarks/wall.py [--quick]

Gaze, for a text that nobody has asked for yet: first the model reads it (capture), then every head is measured, judged,
drawn and packed, as the page does it (wall); the median of several rounds. The bytes are those of the wall with all its
statistics; a click then sends one head more. That a model reads random tokens twice, once a model, is left out.
BertViz, where `bertviz` is installed (it needs IPython): the model with eager attention, and model_view's HTML, once.
Where that would not fit into the memory of an ordinary machine, it is not run.
"""

import argparse
import importlib.util
import platform
import statistics
import time
import warnings
from importlib.metadata import version

SIZES, QUICK = (64, 256, 512), (64,)
MODELS = ("minilm", "smollm2")
WORDS = "The old sailor told us a long story, and we listened because it was cold outside; the fire was bright. "
MOST = 2**25  # weights that BertViz is given: each becomes some 20 bytes of HTML, and several times that in memory


def gaze(model: str, text: str) -> tuple[float, float, int]:
    """Do what the page does for a new text; return the seconds of both parts, and the bytes that go to the browser."""
    import numpy as np

    from attention_core import compute
    from attention_core.statistics import join, judge, piece, pieces, repeated_piece
    from ui.components.head_wall import wall_of

    start = time.perf_counter()
    read = compute.run(compute.read, model, text, SIZES[-1])
    seen = time.perf_counter()
    if model not in repeated:
        repeated[model] = [compute.run(repeated_piece, model, layer) for layer in range(read.layers)]
    layers = []
    for layer in range(read.layers):
        spans = pieces(read.heads, len(read.labels))
        layers.append(join([compute.run(piece, model, text, SIZES[-1], layer, span) for span in spans]))
    survey = judge(layers, repeated[model])
    pictures = np.stack([layer.pictures.numpy() for layer in layers])
    sent = wall_of(pictures, survey.values, survey.roles, survey.evidence).packed
    return seen - start, time.perf_counter() - seen, len(sent)


repeated: dict[str, list] = {}


def bertviz(model: str, text: str) -> tuple[float, int]:
    """Make BertViz's model view; return its seconds, the model's included, and the bytes of its HTML."""
    import torch
    from bertviz import model_view

    from attention_core import compute

    loaded = compute._model(model)
    module = getattr(loaded.module, "base_model", loaded.module)
    start = time.perf_counter()
    ids = loaded.tokenizer(text, return_tensors="pt")
    module.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            attention = module(**ids, output_attentions=True).attentions
    finally:
        module.set_attn_implementation("gaze")
    tokens = loaded.tokenizer.convert_ids_to_tokens(ids["input_ids"][0])
    html = model_view(attention, tokens, html_action="return").data.encode()
    return time.perf_counter() - start, len(html)


def size_of(count: float) -> str:
    """Write a number of bytes."""
    return f"{count / 1e6:,.2f} MB"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one size, one round")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")

    import torch

    from attention_core import compute
    from attention_core.tokens import fit

    peer = importlib.util.find_spec("bertviz") is not None and importlib.util.find_spec("IPython") is not None
    compute.run(lambda: None)
    about = f"{torch.get_num_threads()} torch threads · torch {torch.__version__}"
    print(f"{platform.machine()} · {about} · BertViz {version('bertviz') if peer else 'not installed'}\n")
    print("| model | heads | tokens | capture | wall | to the browser | BertViz | its HTML | bytes |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for model in MODELS:
        tokenizer = compute.run(compute._model, model).tokenizer
        gaze(model, WORDS)
        for size in QUICK if args.quick else SIZES:
            rounds = []
            for turn in range(1 if args.quick else args.rounds):
                text, _, _ = fit(tokenizer, f"{turn}. " + WORDS * 40, size)
                rounds.append(gaze(model, text))
            capture, wall, sent = (statistics.median(part) for part in zip(*rounds, strict=True))
            read = compute.run(compute.read, model, text, SIZES[-1])
            heads, tokens = read.layers * read.heads, len(read.labels)
            row = [model, heads, tokens, f"{capture:.2f} s", f"{wall:.2f} s", size_of(sent)]
            if not peer:
                row += ["not installed", "", ""]
            elif heads * tokens**2 > MOST:
                row += ["not run", "", ""]
            else:
                spent, html = compute.run(bertviz, model, text)
                row += [f"{spent:.2f} s", size_of(html), f"{html / sent:,.0f} ×"]
            print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
