"""Folders with tiny random models and a tokeniser of ten words, as someone may bring one along."""

from pathlib import Path

from transformers import BertTokenizerFast

from benchmarks.families import FAMILIES, Family, build

TYPED = "i ate the cake and it was delicious"


def family(name: str) -> Family:
    """Return a family of the benchmark by its name."""
    return next(family for family in FAMILIES if family.name == name)


def save(root: Path, name: str) -> str:
    """Write a family's tiny model into a folder of its own, and return the folder's name."""
    folder = root / f"tiny-{name.lower().replace(' ', '-')}"
    folder.mkdir(parents=True)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *TYPED.split()]
    (folder / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    build(family(name)).save_pretrained(folder)
    return folder.name
