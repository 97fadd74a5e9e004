"""What heads are said to track, and our own sentences in which it is marked (``assets/relations.toml``)."""

import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

HOME = Path(__file__).parents[1] / "assets" / "relations.toml"
MARKED = ("pronoun", "object", "adjective")  # pronoun → noun, verb → object, adjective → noun: marked word by word
PLACES = ("previous", "first")  # the word before, the first token: known without marks
RELATIONS = (*MARKED, *PLACES)


class Sentence(NamedTuple):
    """A sentence with one pair of words marked.

    Attributes:
        text: The sentence.
        query: The place of the pronoun, verb or adjective in ``text.split()``, from 0.
        key: The place of its noun or object.
        glosses: What it means, by language.
    """

    text: str
    query: int
    key: int
    glosses: dict[str, str]


@cache
def sentences(relation: str) -> tuple[Sentence, ...]:
    """Return the sentences of one relation; those without marks use the sentences of all others.

    Raises:
        KeyError: If there is no such relation, naming those there are.
    """
    if relation not in RELATIONS:
        raise KeyError(f"there is no relation {relation!r}; there are {', '.join(RELATIONS)}")
    if relation in PLACES:
        return tuple(sentence for name in MARKED for sentence in sentences(name))
    entries = tomllib.loads(HOME.read_text(encoding="utf-8"))[relation]
    return tuple(Sentence(e["text"], e["query"], e["key"], {"ko": e["ko"]}) for e in entries)
