"""Bytes to the browser: what each action sends, and where the bytes are.

    PYTHONPATH=. .venv/bin/python benchmarks/to_browser.py [--quick] [--all]

A visitor without a browser (`benchmarks/visitor.py`) says and keeps what Chromium says and keeps, over a real
WebSocket; the bytes are those of the messages, not of their frames. Counts, no times: one round. "code" is JavaScript,
CSS and HTML of our views, which Streamlit sends again whenever a view's numbers change; "arrays" are these numbers with
their words; "deflated" is what would travel if the server compressed its messages (server.enableWebsocketCompression).
The second table takes a change of head apart, view by view. Downloads are no part of an action.
"""

import argparse
import asyncio
from typing import NamedTuple

from benchmarks.server import served
from benchmarks.visitor import Answer, Visitor, sizes

SIZES, QUICK = (64, 512), (64,)
MODELS = {"minilm": 0, "smollm2": 1}  # by their places among the buttons
WORDS = "The old sailor told us a long story, and we listened because it was cold outside; the fire was bright. "
HEAD_BYTES, MOST_BYTES = 150_000, 2_000_000  # for a change of head at 64 tokens; for any action at 512
# What is done on each page, in this order: its name, then a control and its value, or a view, its event and its value.
ACTIONS: dict[str, dict[str, tuple]] = {
    "sentence": {
        "head": ("heads", "picked", 3),
        "layer": ("layer", 3),
        "four heads over it": ("also", [0, 1, 2, 4]),
        "one head again": ("also", []),
        "raw scores": ("show", 2),
        "special tokens hidden": ("special", 1),
        "special tokens shown": ("special", 0),
        "words": ("unit", 1),
        "tokens": ("unit", 0),
        "small weights": ("first", 1),
        "another head": ("heads", "picked", 5),
    },
    "all_heads": {
        "head": ("wall", "picked", [2, 3]),
        "order": ("wall_order", 1),
        "colour": ("wall_colour", 1),
        "layers": ("wall_layers", [2, 4]),
        "one map": ("one_map", True),
        "another head": ("wall", "picked", [3, 4]),
    },
}


class Sent(NamedTuple):
    """What an action sent."""

    action: str
    answer: Answer


async def measure(port: int, page: str, model: str, text: str) -> list[Sent]:
    """Open a page, type a text, choose a model, and do all there is to do; return what each action sent."""
    visitor = Visitor(port, deflate=True)
    await visitor.open(page, model=model)
    found = [Sent("text", await visitor.choose("text", text))]
    for action, done in ACTIONS[page].items():
        answer = await (visitor.pick(*done) if len(done) == 3 else visitor.choose(*done))
        found.append(Sent(action, answer))
    await visitor.leave()
    for action, answer in found:
        if answer.wrong:
            raise RuntimeError(f"{page}, {action}: {answer.wrong}")
    return found


def line(page: str, model: str, tokens: int, sent: Sent, bound: int | None, label: str = "") -> str:
    """Return one line of the table."""
    answer = sent.answer
    code, arrays = sum(answer.code.values()), sum(answer.arrays.values())
    counts = (answer.sent, code, arrays, answer.sent - code - arrays, answer.deflated)
    parts = (f"{count / 1000:,.0f}" for count in counts)
    against = (f"{bound / 1000:,.0f}", f"{answer.sent / bound:.2f} ×") if bound else ("", "")
    return "| " + " | ".join([page, model, str(tokens), label or sent.action, *parts, *against]) + " |"


def profile(page: str, model: str, tokens: int, sent: Sent) -> list[str]:
    """Return where the bytes of an action are: a line of the second table for each view that was drawn anew."""
    lines = []
    for view, count in sorted(sent.answer.arrays.items(), key=lambda pair: -pair[1]):
        arrays = sizes(sent.answer.data[view])
        parts = [f"{name} {size / 1000:,.1f} ({bits} bits)" for name, (size, bits) in arrays.items()]
        words = count - sum(size for size, _ in arrays.values())
        code = sent.answer.code[view]
        row = (page, model, tokens, sent.action, view, f"{code / 1000:,.1f}", f"{count / 1000:,.1f}")
        lines.append("| " + " | ".join(map(str, [*row, " · ".join([*parts, f"words {words / 1000:,.1f}"])])) + " |")
    return lines


def bound_for(action: str, tokens: int) -> int | None:
    """Return the most bytes an action may send; None where none was set."""
    return HEAD_BYTES if action == "head" and tokens <= 64 else MOST_BYTES if tokens > 64 else None


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one size")
    parser.add_argument("--all", action="store_true", help="every action, not the head and the largest alone")
    args = parser.parse_args()

    from attention_core import load_model
    from attention_core.tokens import fit

    print("| page | model | tokens | action | kB sent | code | arrays | all else | deflated | bound | of the bound |")
    print("|---|---|---:|---|---:|---:|---:|---:|---:|---:|---:|")
    profiles = []
    with served() as server:
        for model in MODELS:
            tokenizer = load_model(model, "cpu").tokenizer
            for size in QUICK if args.quick else SIZES:
                text, _, _ = fit(tokenizer, WORDS * 40, size)
                for page in ACTIONS:
                    found = asyncio.run(measure(server.port, page, model, text))
                    head = next(sent for sent in found if sent.action == "head")
                    largest = max(found, key=lambda sent: sent.answer.sent)
                    label = f"the largest of {len(found)}: {largest.action}"
                    for sent in found if args.all else [head]:
                        print(line(page, model, size, sent, bound_for(sent.action, size)))
                    print(line(page, model, size, largest, bound_for("any", size), label), flush=True)
                    if page == "sentence":
                        profiles += profile(page, model, size, head)
    print("\n| page | model | tokens | action | view | kB of code | of arrays | of them |")
    print("|---|---|---:|---|---|---:|---:|---|", *profiles, sep="\n")


if __name__ == "__main__":
    main()
