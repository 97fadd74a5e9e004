"""One head's map of a long text in 256 × 256 tiles: beside one plain SDPA call, and beside the dense matrix.

    PYTHONPATH=. .venv/bin/python benchmarks/long_text.py [--quick] [--cpu]

Query, key and value are random, one head of 64 features, as SmolLM2 has them; in float32 on the CPU, with as many torch
threads as the app has. Time: the ways take turns in one process; the median of several rounds, and of the ratios of
each round. Memory: in a process of its own a row, in which the same was done for a short text; what is counted is how
far the peak of resident memory then rises, the result held; the median of several times. The dense matrix is not made
where it would have more than 2³⁰ bytes. With --cpu, the time that the processor spent is counted instead of the
clock's: for a machine that is busy with other things.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks.capture import _forget_peak, _peak, machine

SIZES, QUICK = (1024, 2048, 4096, 8192, 16_384, 32_768), (1024, 4096)
TILES, FEATURES, WARM = 256, 64, 512
KINDS = {"both ways": {}, "causal": {"causal": True}, "causal, window 1,024": {"causal": True, "window": 1024}}
MOST = 2**30  # bytes of one dense matrix
METHODS = ("sdpa", "gaze", "dense")


def methods(kind: str) -> dict[str, Callable[[int], object]]:
    """Return the ways to compute a text of so many tokens; each returns what it leaves in memory."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    from attention_core import Formula, compute, trace_attention
    from attention_core.grouping import group_weights, grouped_attention, tiles

    compute._settle()  # the app's own rule for threads
    torch.set_grad_enabled(False)
    formula = Formula(**KINDS[kind])
    made: dict[int, tuple] = {}

    def drawn(tokens: int) -> tuple:
        if tokens not in made:
            made.clear()
            made[tokens] = torch.randn(3, 1, 1, tokens, FEATURES, generator=torch.Generator().manual_seed(0)).unbind()
        return made[tokens]

    def sdpa(tokens: int) -> object:
        # With a window, too, as causal attention: with a mask it would be slower.
        return scaled_dot_product_attention(*drawn(tokens), is_causal=formula.causal)

    def gaze(tokens: int) -> object:
        query, key, _ = drawn(tokens)
        numbers = tiles(tokens, TILES)
        return grouped_attention(query[0], key[0], formula, numbers, numbers)

    def dense(tokens: int) -> object:
        query, key, value = drawn(tokens)
        numbers = tiles(tokens, TILES)
        return group_weights(trace_attention(query[0], key[0], value[0], formula).weights[0], numbers, numbers)

    return {"sdpa": sdpa, "gaze": gaze, "dense": dense, "draw": drawn}


def possible(method: str, size: int) -> bool:
    """Return whether a way is measured at a size."""
    return method != "dense" or 4 * size**2 <= MOST


def measure_times(kind: str, size: int, rounds: int, *, cpu: bool) -> dict[str, list[float]]:
    """Return the seconds of each round for each method."""
    ways, clock = methods(kind), time.process_time if cpu else time.perf_counter
    taken: dict[str, list[float]] = {method: [] for method in METHODS if possible(method, size)}
    ways["draw"](size)
    for turn in range(rounds + 1):
        for method, spent in taken.items():
            if method == "dense" and turn > 5:
                continue
            start = clock()
            result = ways[method](size)
            seconds = clock() - start
            del result
            if turn:  # the first round warms up
                spent.append(seconds)
    return taken


def measure_memory(kind: str, size: int, repeats: int) -> dict[str, list[int]]:
    """Return by how many bytes the peak of resident memory rises, each time, for each method."""
    ways = methods(kind)
    for method in METHODS:
        ways[method](WARM)
    ways["draw"](size)  # query, key and value are there in any case
    risen: dict[str, list[int]] = {method: [] for method in METHODS if possible(method, size)}
    for method, rises in risen.items():
        for _ in range(repeats):
            _forget_peak()
            before = _peak()
            result = ways[method](size)
            rises.append(_peak() - before)
            del result
    return risen


def ask(*task: object) -> object:
    """Run one measurement in a process of its own."""
    command = [sys.executable, __file__, "--task", json.dumps(task)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def row(kind: str, size: int, rounds: int, repeats: int, *, cpu: bool) -> str:
    """Measure one row of the table."""
    times, risen = ask("times", kind, size, rounds, cpu), ask("memory", kind, size, repeats)
    middle = {method: 1000 * statistics.median(spent) for method, spent in times.items()}
    ratio = statistics.median(gaze / sdpa for gaze, sdpa in zip(times["gaze"], times["sdpa"], strict=True))
    memory = {method: statistics.median(rises) / 2**20 for method, rises in risen.items()}
    dense = ["not run", ""]
    if "dense" in middle:
        dense = [f"{middle['dense']:,.1f}", f"{middle['gaze'] / middle['dense']:.2f}"]
    held = [f"{memory[method]:,.1f}" if method in memory else "not run" for method in METHODS]
    cells = [kind, f"{size:,}", f"{middle['sdpa']:,.1f}", f"{middle['gaze']:,.1f}", f"{ratio:.2f}", *dense, *held]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table, or the result of one measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer sizes, rounds and repeats: whether it works")
    parser.add_argument("--rounds", type=int, help="rounds of the time measurement (default 7; quick 3)")
    parser.add_argument("--repeats", type=int, help="times that memory is measured (default 5; quick 1)")
    parser.add_argument("--cpu", action="store_true", help="count the processor's time, not the clock's")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.task:
        what, *rest = json.loads(args.task)
        print(json.dumps(measure_memory(*rest) if what == "memory" else measure_times(*rest[:3], cpu=rest[3])))
        return
    rounds, repeats = args.rounds or (3 if args.quick else 7), args.repeats or (1 if args.quick else 5)
    clock = "the processor's" if args.cpu else "the clock's"
    print(f"{machine()}\nTime: {clock}, median of {rounds} rounds (dense: 5 at most); memory: median of {repeats}.\n")
    print(
        "| mask | tokens | SDPA ms | map ms | map ÷ SDPA | dense ms | map ÷ dense | SDPA MiB | map MiB | dense MiB |\n"
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    )
    for kind in KINDS:
        for size in QUICK if args.quick else SIZES:
            print(row(kind, size, rounds, repeats, cpu=args.cpu), flush=True)


if __name__ == "__main__":
    main()
