"""Every table in one run, written to RESULTS.md beside this file, with the machine named.

    PYTHONPATH=. .venv/bin/python benchmarks/results.py [--quick] [NAME ...]

With ``--quick``, or for some tables alone, they are printed and nothing is written: RESULTS.md is always one whole run.
A table that fails says so in its place, and the others are made all the same.
"""

import argparse
import datetime
import os
import platform
import subprocess
import sys
import timeit
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import psutil

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("RESULTS.md")
NOTES = Path(__file__).with_name("notes.md")  # what was missed, and why; goes along at the end
PACKAGES = ("streamlit", "torch", "transformers", "numpy", "playwright")


class Table(NamedTuple):
    """What a benchmark printed, and whether it ended well."""

    path: Path
    printed: str
    well: bool


def benchmarks() -> list[Path]:
    """Return the files of this folder that are commands, this one aside."""
    files = sorted(set(Path(__file__).parent.glob("*.py")) - {Path(__file__)})
    return [file for file in files if '__name__ == "__main__"' in file.read_text(encoding="utf-8")]


def run(path: Path, *options: str) -> Table:
    """Run a benchmark in a process of its own; what it prints is shown as it comes."""
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, str(path), *options]
    lines = []
    with subprocess.Popen(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": paths}, stdout=subprocess.PIPE, text=True
    ) as process:
        for printed in process.stdout:
            print(printed, end="", flush=True)
            lines.append(printed)
    return Table(path, "".join(lines).replace(f"{ROOT}{os.sep}", ""), process.returncode == 0)


def machine() -> str:
    """Name the machine and the versions, and say how busy it is."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    memory = psutil.virtual_memory().total / 2**30
    versions = [f"{package} {installed}" for package in PACKAGES if (installed := _installed(package))]
    return (
        f"{name}, {os.cpu_count()} cores, {memory:.0f} GiB of memory, {platform.system()} {platform.machine()}; "
        f"Python {platform.python_version()}, {', '.join(versions)}. "
        f"Load when the run began: {os.getloadavg()[0]:.1f} (1 is one busy core). "
        f"Ten million additions in a Python loop: {_additions():.1f} s."
    )


def _additions() -> float:
    """Say how fast one core runs Python: what serving people comes down to."""
    return timeit.timeit("for i in range(10_000_000): total += i", "total = 0", number=1)


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def page(about: str, day: str, tables: Sequence[Table]) -> str:
    """Return RESULTS.md: the machine, then each table under what it says it is."""
    parts = ["# Benchmarks", f"Made by `make bench` on {day}, all in one run.", about]
    for table in tables:
        heading, _, rest = doc_of(table.path).partition("\n")
        parts += [f"## {table.path.stem}", heading, "\n".join(rest.strip().splitlines()[1:]).strip()]
        parts.append(table.printed.strip() or "It printed nothing.")
        if not table.well:
            parts.append("**It failed before its end**: see what `make bench` said.")
    parts.append(NOTES.read_text(encoding="utf-8").strip() if NOTES.exists() else "")
    return "\n\n".join(part for part in parts if part) + "\n"


def doc_of(path: Path) -> str:
    """Return a file's docstring."""
    return path.read_text(encoding="utf-8").split('"""')[1]


def main() -> int:
    """Run the tables, and write them down; 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    found = {path.stem: path for path in benchmarks()}
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(found))
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds, where a table knows how")
    args = parser.parse_args()
    if unknown := set(args.names) - found.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(found)}")
    about, day = machine(), f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    print(about)
    tables = []
    for path in [found[name] for name in args.names] or found.values():
        print(f"\n## {path.stem}\n", flush=True)
        quick = args.quick and "--quick" in path.read_text(encoding="utf-8")
        tables.append(run(path, *(["--quick"] if quick else [])))
    if not args.names and not args.quick:
        RESULTS.write_text(page(about, day, tables), encoding="utf-8")
    return 0 if all(table.well for table in tables) else 1


if __name__ == "__main__":
    sys.exit(main())
