"""What seeing costs: plain forward, capture, and eager attention that returns its weights, side by side in one run.

    PYTHONPATH=. .venv/bin/python benchmarks/capture.py [--quick]

Time: the three take turns in one process, with as many torch threads as the app has; the median of several rounds.
Memory: each measurement has a process of its own, in which the model is loaded and has read a short text; what is
counted is how far the peak of resident memory then rises, results held; the median of several processes.
"""

import argparse
import ctypes
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

METHODS = ("sdpa", "capture", "eager")
SIZES = {"minilm": (16, 64, 256, 512), "smollm2": (16, 64, 256, 1024, 2048)}
QUICK = {"minilm": (16, 256), "smollm2": (16, 256)}
WARM = 8  # tokens


def methods(name: str) -> dict[str, Callable[[int], object]]:
    """Load a model and return the three ways to run it on so many tokens; each returns what it leaves in memory."""
    import torch

    from attention_core import capture, compute, load_model

    compute._settle()  # the app's own rule for threads
    module = load_model(name, "cpu").module.base_model
    for weight in module.parameters():
        weight.sum()  # weights are mapped from their file: read all of it now, so that it does not count as extra
    ids = torch.randint(1000, 20_000, (1, max(SIZES[name])), generator=torch.Generator().manual_seed(0))
    cache = {"use_cache": False} if name == "smollm2" else {}

    def plain(kind: str, tokens: int, **options: bool) -> object:
        module.set_attn_implementation(kind)
        with torch.no_grad():
            return module(input_ids=ids[:, :tokens], **cache, **options)

    def seen(tokens: int) -> object:
        module.set_attn_implementation("gaze")  # as load_model leaves it
        return capture(module, input_ids=ids[:, :tokens])

    ways = (lambda n: plain("sdpa", n), seen, lambda n: plain("eager", n, output_attentions=True))
    return dict(zip(METHODS, ways, strict=True))


def measure_times(name: str, sizes: list[int], rounds: int) -> dict[str, dict[int, float]]:
    """Return the median seconds of each method and size."""
    ways = methods(name)
    taken: dict[str, dict[int, list[float]]] = {method: {size: [] for size in sizes} for method in METHODS}
    for size in sizes:
        for turn in range(rounds + 1):
            for method in METHODS:
                start = time.perf_counter()
                result = ways[method](size)
                spent = time.perf_counter() - start
                del result  # returning memory to the system is not timed
                if turn:  # the first round warms up
                    taken[method][size].append(spent)
    return {m: {size: statistics.median(spent) for size, spent in by.items()} for m, by in taken.items()}


def measure_memory(name: str, method: str, size: int) -> int:
    """Return by how many bytes the peak of resident memory rises."""
    way = methods(name)[method]
    way(WARM)
    _forget_peak()
    before = _peak()
    result = way(size)
    rise = _peak() - before
    del result
    return rise


def _forget_peak() -> None:
    # Loading takes more than the model itself and leaves free memory behind: both would hide what comes after.
    # Elsewhere than on Linux with glibc, small numbers are therefore too small.
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")


def _peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def ask(kind: str, *task: object) -> object:
    """Run one measurement in a process of its own."""
    command = [sys.executable, __file__, "--task", json.dumps([kind, *task])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def machine() -> str:
    """Name the machine, the number of torch threads, and the versions."""
    import torch
    import transformers

    from attention_core import compute

    compute._settle()
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    return (
        f"{name}, {os.cpu_count()} cores, torch {torch.__version__} with {torch.get_num_threads()} thread(s), "
        f"transformers {transformers.__version__}, float32, CPU"
    )


def table(sizes: dict[str, tuple[int, ...]], rounds: int, repeats: int) -> str:
    """Measure everything and write it as one table in Markdown."""
    lines = [
        "| model | tokens | SDPA ms | capture ms | eager ms | capture ÷ SDPA | capture ÷ eager "
        "| SDPA MiB | capture MiB | eager MiB | memory: capture ÷ eager |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, counts in sizes.items():
        times = ask("times", name, list(counts), rounds)
        for size in counts:
            sdpa, seen, eager = (1000 * times[method][str(size)] for method in METHODS)
            memory = [
                statistics.median(ask("memory", name, method, size) for _ in range(repeats)) / 2**20
                for method in METHODS
            ]
            share = f"1/{memory[2] / memory[1]:.1f}" if memory[1] > 8 else "–"  # a few MiB are noise
            lines.append(
                f"| {name} | {size:,} | {sdpa:.1f} | {seen:.1f} | {eager:.1f} | {seen / sdpa:.2f} | {seen / eager:.2f} "
                f"| {memory[0]:.1f} | {memory[1]:.1f} | {memory[2]:.1f} | {share} |"
            )
            print(f"{name}, {size} tokens: done", file=sys.stderr)
    return "\n".join(lines)


def main() -> None:
    """Print the table, or the result of one measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer sizes, rounds and repeats: whether it works")
    parser.add_argument("--rounds", type=int, help="rounds of the time measurement (default 7; quick 3)")
    parser.add_argument("--repeats", type=int, help="processes a memory measurement (default 3; quick 1)")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.task:
        kind, *rest = json.loads(args.task)
        print(json.dumps({"times": measure_times, "memory": measure_memory}[kind](*rest)))
        return
    rounds, repeats = args.rounds or (3 if args.quick else 7), args.repeats or (1 if args.quick else 3)
    print(f"{machine()}\nTime: median of {rounds} rounds; extra peak memory: median of {repeats} process(es).")
    print("The last row of MiniLM has 512 tokens: it takes no more.\n")
    print(table(QUICK if args.quick else SIZES, rounds, repeats))


if __name__ == "__main__":
    main()
