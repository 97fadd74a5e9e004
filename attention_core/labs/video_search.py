"""Query, Key and Value as a video service: the words are the query, a film's tags make its key.

A sentence model turns words into vectors of length 1: that of the query is q, the mean of a film's tag vectors, scaled
to length 1, is its key k, the colours of its poster are its value. Then it is attention: weights = softmax(q·k / T).

The model reads English. A Korean query is first looked up, word by word, in a small dictionary whose other side is the
English of the tags; inflected words are found by their stems, misspelt ones by the letters that they share.

Source of the vectors: the mean over the last layer of all-MiniLM-L6-v2, scaled to length 1, as its authors use it
(Reimers & Gurevych 2019, "Sentence-BERT").
"""

import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from attention_core import compute
from attention_core.dot_product import AttentionTrace, trace_attention
from attention_core.formula import Formula
from attention_core.models.loading import LoadedModel

FOLDER = Path(__file__).parents[2] / "assets" / "films"
MODEL = "minilm"
MOST_PIECES = 256  # the sentence model was trained on no more
MOST_CHARACTERS = 300
CLOSE = 0.7  # two words that share so many of their letters are taken for one
MOST_GUESSED = 12  # words that are not in the dictionary; a text with more of them is no query
HANGUL = re.compile("[가-힣ㄱ-ㅣ]")
WORD = re.compile(r"[가-힣ㄱ-ㅣ]+|[^\W가-힣ㄱ-ㅣ]+(?:['’+&-][^\W가-힣ㄱ-ㅣ]+)*")
PARTICLE = re.compile(
    "(은|는|이|가|을|를|의|도|만|와|과|랑|이랑|하고|에|에서|로|으로|한테|물|이나|나|요|인|같은|들|들이)?"
)


@dataclass(frozen=True)
class Film:
    """A film of the catalogue.

    Attributes:
        id: Its name in links and files; its poster is the SVG file of that name.
        genre: The genre's id.
        title: By language.
        tags: By language, in one order: tag n in one language is tag n in the other.
        description: By language.
        colours: Ground, shape and accent of its poster, each red, green and blue from 0 to 1.
    """

    id: str
    genre: str
    title: Mapping[str, str]
    tags: Mapping[str, tuple[str, ...]]
    description: Mapping[str, str]
    colours: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True)
class Word:
    """A word of a query as it was typed, the entry of the dictionary it was taken for, and that entry's English."""

    typed: str
    entry: str
    english: str


@dataclass(frozen=True)
class Understood:
    """What a query was taken for.

    Attributes:
        sent: What the sentence model is given.
        words: The words that were found in the dictionary; empty for a query without Korean.
        unknown: The words that were not, and so count for nothing.
        korean: Whether there was Korean in it.
    """

    sent: str
    words: tuple[Word, ...]
    unknown: tuple[str, ...]
    korean: bool


@dataclass(frozen=True)
class Found:
    """A search, as a page shows it.

    Attributes:
        understood: What the query was taken for.
        raw: q·k of each film.
        scaled: raw ÷ temperature.
        soft: The softmax of ``scaled``: every film above 0, together 1.
        weights: ``soft``, or for a hard search 1 for the best film and 0 for all others.
        context: weights · V: the blended colours, (3, 3).
    """

    understood: Understood
    raw: Float[ndarray, " K"]
    scaled: Float[ndarray, " K"]
    soft: Float[ndarray, " K"]
    weights: Float[ndarray, " K"]
    context: Float[ndarray, "C 3"]


@cache
def catalogue() -> tuple[Film, ...]:
    """Read the films, in the order in which they are shown: genre by genre."""
    films = tomllib.loads((FOLDER / "films.toml").read_text(encoding="utf-8"))["film"]
    languages = ("en", "ko")
    return tuple(
        Film(
            id=film["id"],
            genre=film["genre"],
            title={lang: film[lang]["title"] for lang in languages},
            tags={lang: tuple(film[lang]["tags"]) for lang in languages},
            description={lang: film[lang]["description"] for lang in languages},
            colours=tuple(_rgb(colour) for colour in film["colours"]),
        )
        for film in films
    )


@cache
def most_tags() -> int:
    """Return how many tags the films have."""
    return max(len(film.tags["en"]) for film in catalogue())


@cache
def poster(film: str) -> str:
    """Return the poster of a film of the catalogue, as SVG."""
    return (FOLDER / f"{film}.svg").read_text(encoding="utf-8")


@cache
def queries() -> dict[str, dict[str, list[list[str]]]]:
    """Read the queries that the search is measured with: by language and part, each with the genre it should find."""
    return tomllib.loads((FOLDER / "queries.toml").read_text(encoding="utf-8"))


@lru_cache(maxsize=512)
def understand(query: str) -> Understood:
    """Turn a query into what the sentence model can read.

    A query without Korean letters goes to the model as it is. In one with them, each Korean word is looked up and
    replaced by the English of its entry, words in other letters stay, and words that ask rather than name ("영화",
    "추천해 줘") are left out. Where nothing is found, the query goes as it is, for want of anything better.

    Example:
        >>> understand("오늘은 멜로가 좋아").sent
        'romance'
    """
    query = unicodedata.normalize("NFC", query)
    if not HANGUL.search(query):
        return Understood(" ".join(query.split()), (), (), False)
    words: list[Word] = []
    unknown: list[str] = []
    typed = WORD.findall(query)
    at = 0
    while at < len(typed):
        word = typed[at]
        found, used = [Word(word, word, word)], len(word)
        if PARTICLE.fullmatch(word):
            found = []
        elif HANGUL.search(word):
            found, used = _look_up(" ".join(typed[at : at + 2]), len(word))
        if not used and len(unknown) < MOST_GUESSED and (close := _closest(word)):
            found = [Word(word, close, _dictionary()[0][close])]
        elif not used:
            unknown.append(word)
        words += found
        at += 2 if used > len(word) + 1 else 1
    sent = ", ".join(dict.fromkeys(word.english for word in words))
    return Understood(sent or " ".join(query.split()), tuple(words), tuple(unknown), True)


def embed(model: LoadedModel, texts: Sequence[str]) -> Float[Tensor, "N D"]:
    """Turn texts into vectors of length 1: the mean of the last layer over each text's tokens."""
    batch = model.tokenizer(list(texts), return_tensors="pt", padding=True, truncation=True, max_length=MOST_PIECES)
    batch = batch.to(model.module.device)
    with torch.inference_mode():
        hidden = model.module(**batch).last_hidden_state.float()
    real = batch["attention_mask"][..., None].to(hidden.dtype)
    mean = (hidden * real).sum(dim=1) / real.sum(dim=1)
    return torch.nn.functional.normalize(mean, dim=-1).cpu()


def key_of(tags: Float[Tensor, "N D"]) -> Float[Tensor, " D"]:
    """Return the key of a film: the mean of its tags' vectors, scaled to length 1."""
    return torch.nn.functional.normalize(tags.mean(dim=0), dim=-1)


def attend(
    query: Float[Tensor, " D"],
    keys: Float[Tensor, "K D"],
    values: Float[Tensor, "K V"],
    temperature: float,
    *,
    hard: bool = False,
) -> tuple[AttentionTrace, Float[Tensor, " K"], Float[Tensor, " V"]]:
    """Search: softly, as attention does, or for the one best key, as a database does.

    Args:
        query: What is looked for.
        keys: What each film is filed under.
        values: What each film hands over.
        temperature: The scores are divided by it. The vectors have length 1, so that 1/√D would make all scores alike.
        hard: The best film gets weight 1, all others 0; of equally good ones the first.

    Returns:
        The soft search with every intermediate; the weights; the context, which is weights · values.
    """
    trace = trace_attention(query[None, None], keys[None], values[None], Formula(factor=1 / temperature))
    soft = trace.weights[0, 0]
    if not hard:
        return trace, soft, trace.context[0, 0]
    weights = torch.nn.functional.one_hot(trace.raw[0, 0].argmax(), len(keys)).to(soft.dtype)
    return trace, weights, weights @ values


def opacities(weights: Float[ndarray, "*Q K"]) -> Float[ndarray, "*Q K"]:
    """Return how opaque each picture must be, painted one over the other, for the pile to be their weighted mean.

    Picture n covers what lies below by its share of all weights so far: wₙ / (w₁ + … + wₙ).
    """
    total = np.cumsum(weights, axis=-1)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)


def search(query: str, tags: int, temperature: float, hard: bool) -> Found:
    """Search the catalogue. In the compute thread.

    Args:
        query: In any words, English or Korean; not blank.
        tags: How many tags of each film make its key, the genre first.
        temperature: See :func:`attend`.
        hard: See :func:`attend`.
    """
    understood = understand(query[:MOST_CHARACTERS])
    values = torch.tensor([film.colours for film in catalogue()])
    trace, weights, context = attend(_query(understood.sent), _keys(tags), values.flatten(1), temperature, hard=hard)
    arrays = (trace.raw[0, 0], trace.scaled[0, 0], trace.weights[0, 0], weights, context.reshape(-1, 3))
    return Found(understood, *(_kept(array) for array in arrays))


def hits(part: str, lang: str, at: int, tags: int, first: int = 3) -> bool:
    """Say whether one of the queries to measure with finds a film of its genre among the first. In the compute thread.

    Args:
        part: "seen" while the method was chosen, or "held_out".
        lang: "en" or "ko".
        at: Which query, from 0.
        tags: See :func:`search`.
        first: How many films count as found.
    """
    query, genre = queries()[lang][part][at]
    scores = _keys(tags) @ _query(understand(query).sent)
    return genre in [catalogue()[film].genre for film in scores.topk(first).indices.tolist()]


@lru_cache(maxsize=512)
def _query(text: str) -> Float[Tensor, " D"]:
    return embed(compute._model(MODEL), [text])[0]


@lru_cache(maxsize=16)
def _keys(tags: int) -> Float[Tensor, "K D"]:
    return torch.stack([key_of(torch.stack([_tag(tag) for tag in film.tags["en"][:tags]])) for film in catalogue()])


@lru_cache(maxsize=512)
def _tag(text: str) -> Float[Tensor, " D"]:
    return embed(compute._model(MODEL), [text])[0]


@cache
def _dictionary() -> tuple[dict[str, str], tuple[str, ...]]:
    """Read what Korean words mean: the stems with their English, and the words that say nothing about a film."""
    lexicon = tomllib.loads((FOLDER / "lexicon.toml").read_text(encoding="utf-8"))
    entries = {stem: english for english, stems in lexicon["words"].items() for stem in stems}
    for film in catalogue():  # the films' own tags are a dictionary already
        entries |= {ko: en for en, ko in zip(film.tags["en"], film.tags["ko"], strict=True) if HANGUL.search(ko)}
    return entries, tuple(lexicon["filler"]["words"])


@cache
def _index(kind: int) -> dict[str, list[str]]:
    """Sort the stems (0) or the filler (1) by their first two letters, the longest first."""
    index: dict[str, list[str]] = {}
    for stem in sorted(_dictionary()[kind], key=lambda stem: -len(_letters(stem))):
        index.setdefault(_letters(stem)[:2], []).append(stem)
    return index


def _look_up(text: str, end: int) -> tuple[list[Word], int]:
    """Find the longest entries in the first word of a text; an entry of two words may reach into the second.

    Args:
        text: The word, or it and the next one.
        end: Where the word ends.

    Returns:
        What was found, and how many characters of the text are spoken for, by entries or filler.
    """
    found: list[Word] = []
    at = used = 0
    while at < end:
        stem = _first(_index(0), text[at:], alone=at == 0)
        if stem is None:
            if at == 0 and _first(_index(1), text[:end], alone=True):
                used = end
            at += 1
            continue
        found.append(Word(text[:end] if at + len(stem) <= end else text, stem, _dictionary()[0][stem]))
        at = used = at + len(stem)
    return found, used


def _first(index: Mapping[str, Sequence[str]], rest: str, *, alone: bool) -> str | None:
    """Return the longest stem that a text begins with. One of one syllable counts only alone or with a particle."""
    letters = _letters(rest)
    for stem in index.get(letters[:2], ()):
        if len(stem) > 1 and letters.startswith(_letters(stem)):
            return stem
        if len(stem) == 1 and alone and rest[:1] == stem and PARTICLE.fullmatch(rest.split()[0][1:]):
            return stem
    return None


@lru_cache(maxsize=1024)
def _closest(word: str) -> str | None:
    """Return the entry whose letters are most like those of a word's beginning, if they are like enough."""
    best, most = None, CLOSE
    for entry in _dictionary()[0]:
        if min(len(word), len(entry)) < 2 or " " in entry:
            continue
        for size in {min(len(word), len(entry) + more) for more in (0, 1)}:
            likeness = _likeness(word[:size], entry)
            if likeness > most:
                best, most = entry, likeness
    return best


def _likeness(one: str, other: str) -> float:
    """Return the share of pairs of neighbouring letters that two words have in common (Dice)."""
    a, b = _pairs(one), _pairs(other)
    return 2 * len(a & b) / (len(a) + len(b))


@lru_cache(maxsize=4096)
def _pairs(text: str) -> frozenset[str]:
    letters = f"^{_letters(text)}$"
    return frozenset(letters[n : n + 2] for n in range(len(letters) - 1))


@lru_cache(maxsize=4096)
def _letters(text: str) -> str:
    """Take syllables apart, so that a stem is the beginning of its inflected forms: 웃긴 begins with 웃기."""
    return unicodedata.normalize("NFD", text.lower())


def _kept(tensor: Tensor) -> np.ndarray:
    array = tensor.numpy(force=True)
    array.setflags(write=False)  # shared by everyone who asks the same
    return array


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red / 255, green / 255, blue / 255
