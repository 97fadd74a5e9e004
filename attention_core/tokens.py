"""Tokens that people can read, whatever the tokeniser: what was typed, with marks for what can't be seen.

A tokeniser's own pieces (``Ġcake``, ``▁cake``, ``##ed``, ``ðŁ``) are for machines. Here a token shows the characters
that it stands for. Where several tokens share one character, as the bytes of an emoji or the letters of a Korean
syllable do, each of them shows the whole character and which part of it it is: 은 ¹⁄₃.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import regex
from transformers import PreTrainedTokenizerBase

SPACES = {" ": "·", "\n": "↵", "\r": "␍", "\t": "⇥", "\u00a0": "⍽", "\u3000": "□"}
RAISED, LOWERED = (str.maketrans("0123456789", digits) for digits in ("⁰¹²³⁴⁵⁶⁷⁸⁹", "₀₁₂₃₄₅₆₇₈₉"))
SENTENCE_END = regex.compile(r"""(?<=[.!?…]["'”’)\]]*)\s+|(?<=[。！？]["'”’」』）]*)|\n+""")  # noqa: RUF001


@dataclass(frozen=True)
class Token:
    """One token of a text.

    Attributes:
        index: Its position in the sequence, from 0.
        id: Its number in the vocabulary.
        piece: Its name in the vocabulary, as the tokeniser writes it.
        text: The characters that it stands for, as typed; the piece, for a token that stands for none.
        start: Where these characters begin in the text, from 0.
        end: Where they end; start = end for a token that stands for none.
        special: Whether it is one of the tokeniser's special tokens.
        added: Whether the tokeniser added it, so that nobody typed it.
        word: The number of its word, from 0; a special token is a word of its own.
        part: Which part of shared characters it is, from 1.
        parts: How many tokens share these characters.
        segment: 1 in the second sentence of a pair, otherwise 0; a special token has that of the sentence it closes.
    """

    index: int
    id: int
    piece: str
    text: str
    start: int
    end: int
    special: bool
    added: bool
    word: int
    part: int = 1
    parts: int = 1
    segment: int = 0

    @property
    def label(self) -> str:
        """The text with visible marks for spaces, line breaks and control characters, and its part of the whole."""
        if self.parts > 1:
            return f"{visible(self.text)} {str(self.part).translate(RAISED)}⁄{str(self.parts).translate(LOWERED)}"
        continues = self.piece.startswith("##") and not self.special and self.text[:2] != "##"
        return f"##{visible(self.text)}" if continues else visible(self.text)


def visible(text: str) -> str:
    """Replace what can't be seen by a mark: · for a space, ↵ for a line break, ␀ for a control character."""
    shown = []
    for cluster in regex.findall(r"\X", text):
        first = unicodedata.category(cluster[0])
        if first in ("Cc", "Cf", "Cn", "Co", "Zs", "Zl", "Zp"):
            shown += [_mark(c) for c in cluster]
        else:
            shown.append("◌" + cluster if first.startswith("M") else cluster)  # a mark that has nothing to sit on
    return "".join(shown)


def _mark(character: str) -> str:
    control = chr(0x2400 + ord(character)) if ord(character) < 32 else f"‹{ord(character):04X}›"
    return SPACES.get(character, control)


def clean(text: str) -> str:
    """Replace lone surrogates, which no tokeniser takes, by the replacement character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def read_tokens(tokenizer: PreTrainedTokenizerBase, text: str, *, parse_special: bool = False) -> tuple[Token, ...]:
    """Tokenise a text, and say of each token what it stands for.

    Args:
        tokenizer: Any tokeniser of transformers.
        text: The text, taken as it is; lone surrogates become the replacement character.
        parse_special: Whether ``[MASK]`` or ``<s>`` typed in the text means the special token. If not, it is only text.

    Returns:
        The tokens with the ids that the model gets, special tokens included.
    """
    text = clean(text)
    return name_tokens(tokenizer, *encode(tokenizer, text, parse_special=parse_special), text)


def name_tokens(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], spans: Sequence[tuple[int, int]], text: str
) -> tuple[Token, ...]:
    """Say of each id what it stands for; ``spans`` are its characters in the text, as :func:`encode` gives them."""
    pieces = tokenizer.convert_ids_to_tokens(ids)
    specials = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    spans = _with_their_space(pieces, spans, text)
    words = word_starts(text)
    tokens = []
    for index, (token_id, piece, (start, end)) in enumerate(zip(ids, pieces, spans, strict=True)):
        special = token_id in specials
        shown = text[start:end] or (piece if special else piece.replace("▁", " ").replace("Ġ", " "))
        lead = len(shown) - len(shown.lstrip())  # a token's word is that of its first letter
        inside = start + (lead if lead < end - start else 0)
        word = -1 if special or start == end else words[inside]
        tokens.append(Token(index, token_id, piece, shown, start, end, special, special and start == end, word))
    return _number_words(_share_characters(tokens, text))


def word_starts(text: str) -> list[int]:
    """Return for each character the number of its word.

    Words are those of Unicode's text segmentation (UAX #29): between spaces for English and Korean, punctuation apart,
    one character each for Chinese, which has no spaces. Spaces are numbered too.
    """
    numbers = []
    for number, word in enumerate(part for part in regex.split(r"(?w)\b", text, flags=regex.V1) if part):
        numbers += [number] * len(word)
    return numbers


def fit(tokenizer: PreTrainedTokenizerBase, text: str, limit: int, **options: bool) -> tuple[str, int, int]:
    """Cut a text at a word, so that it has at most ``limit`` tokens.

    Args:
        tokenizer: The model's tokeniser.
        text: A text of any length.
        limit: How many tokens there may be, those that the tokeniser adds included.
        **options: Those of :func:`encode`.

    Returns:
        The text that fits, how many tokens the whole text has, and how many words were left out.
    """
    text = clean(text)
    ids, spans = encode(tokenizer, text, **options)
    if len(ids) <= limit:
        return text, len(ids), 0
    typed = [start for start, end in spans if start < end]
    room = limit - (len(ids) - len(typed))
    words = word_starts(text[: typed[max(room, 0)] + 1])
    while room > 0:
        end = typed[room]
        while end and words[end - 1] == words[end]:
            end -= 1
        end = end or typed[room]  # one endless word: cut inside it
        kept = text[:end].rstrip() or text[:end]
        if len(encode(tokenizer, kept, **options)[0]) <= limit:
            return kept, len(ids), len(text[end:].split())
        room -= 1  # the shorter text is split in another way
    return "", len(ids), len(text.split())


def group_numbers(tokens: Sequence[Token], by: str, text: str = "") -> list[int]:
    """Return the group of each token, as runs of numbers from 0.

    Args:
        tokens: The tokens.
        by: "token", "word" or "sentence"; special tokens are groups of their own.
        text: What was tokenised; needed for sentences.

    Raises:
        ValueError: If ``by`` is none of these.
    """
    if by == "token":
        return list(range(len(tokens)))
    if by == "word":
        return [token.word for token in tokens]
    if by == "sentence":
        ends = [match.end() for match in SENTENCE_END.finditer(text)]
        marks = [-1 - t.index if t.special else sum(end <= _first_letter(t) for end in ends) for t in tokens]
        return _runs(marks)
    raise ValueError(f"groups are by token, word or sentence, not by {by!r}")


def group_labels(tokens: Sequence[Token], numbers: Sequence[int], text: str) -> list[str]:
    """Return the readable text of each group: what was typed, or the names of its special tokens."""
    members: dict[int, list[Token]] = {}
    for token, number in zip(tokens, numbers, strict=True):
        members.setdefault(number, []).append(token)
    labels = []
    for group in members.values():
        typed = text[min(t.start for t in group) : max(t.end for t in group)]
        words = " ".join(visible(word) for word in typed.split())
        labels.append(words or visible(typed) or "".join(token.label for token in group))
    return labels


def encode(
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    *,
    parse_special: bool = False,
    target: bool = False,
    add_special: bool = True,
) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the ids of a text, and of each where its characters begin and end in it.

    Args:
        tokenizer: Any tokeniser of transformers.
        text: The text.
        parse_special: Whether special tokens that are typed in it are read as such.
        target: Whether it is what a decoder reads, for which some tokenisers have another vocabulary or language.
        add_special: Whether the tokeniser adds its special tokens.
    """
    options = {"split_special_tokens": not parse_special, "truncation": False, "verbose": False}
    options |= {"text_target" if target else "text": text, "add_special_tokens": add_special}
    if tokenizer.is_fast:
        encoding = tokenizer(return_offsets_mapping=True, **options)
        return encoding["input_ids"], encoding["offset_mapping"]
    ids = tokenizer(**options)["input_ids"]
    return ids, search(tokenizer, ids, text)


def search(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], text: str) -> list[tuple[int, int]]:
    """Find each token's characters where a tokeniser does not say: behind those of the token before it."""
    spans, place = [], 0
    for token_id in ids:
        piece = tokenizer.decode([token_id]).strip()
        found = text.find(piece, place) if piece and token_id not in tokenizer.all_special_ids else -1
        spans.append((found, found + len(piece)) if found >= 0 else (place, place))
        place = spans[-1][1]
    return spans


def _first_letter(token: Token) -> int:
    return token.start + len(token.text) - len(token.text.lstrip())


def _with_their_space(pieces: Sequence[str], spans: Sequence[tuple[int, int]], text: str) -> list[tuple[int, int]]:
    # Some tokenisers leave the space that a piece begins with out of its span.
    found, last = [], 0
    for piece, (start, end) in zip(pieces, spans, strict=True):
        if piece.startswith(("Ġ", "▁")) and last < start < end and text[start - 1].isspace():
            start -= 1
        found.append((start, end))
        last = max(last, end)
    return found


def _share_characters(tokens: list[Token], text: str) -> list[Token]:
    # Whole characters as people see them: letter and accent, the members of a family emoji.
    edges = [0, *(match.end() for match in regex.finditer(r"\X", text))]
    starts = {place: low for low, high in pairwise(edges) for place in range(low, high)}
    ends = {place: high for low, high in pairwise(edges) for place in range(low, high)}
    clusters: list[list[Token]] = []
    reach = 0
    for token in tokens:
        typed = token.start < token.end
        if typed and clusters and starts[token.start] < reach:
            clusters[-1].append(token)
        else:
            clusters.append([token])
        reach = max(reach, ends[token.end - 1]) if typed else reach
    shared = []
    for cluster in clusters:
        if cluster[0].start == cluster[0].end:
            shared += cluster
            continue
        low, high = min(t.start for t in cluster), ends[max(t.end for t in cluster) - 1]
        shared += [
            replace(token, text=text[low:high], start=low, end=high, part=part, parts=len(cluster))
            for part, token in enumerate(cluster, 1)
        ]
    return shared


def _number_words(tokens: list[Token]) -> tuple[Token, ...]:
    numbers = _runs([-1 - token.index if token.word < 0 else token.word for token in tokens])
    return tuple(replace(token, word=number) for token, number in zip(tokens, numbers, strict=True))


def _runs(marks: Sequence[int]) -> list[int]:
    numbers = [0] * len(marks)
    for place in range(1, len(marks)):
        numbers[place] = numbers[place - 1] + (marks[place] != marks[place - 1])
    return numbers
