"""What a model is given to read: a text; a pair of sentences; a source and its target; a chat; special tokens typed.

Wherever a text is asked for, an :class:`Input` may stand in its place; a plain text is one with nothing else said. How
it becomes tokens stands in ``reading.py``; here is nothing that takes seconds to import.
"""

from typing import NamedTuple

KINDS = ("encoder", "decoder", "cross")
BETWEEN = ("", "ab", "ba")
MOST_WRITTEN = 40  # tokens that a model writes by itself


class Input(NamedTuple):
    """A text, how it is read, and which part of what is read is looked at.

    Attributes:
        text: The text; of a pair the first sentence, in encoder-decoder models the source.
        second: Of a pair the second sentence; in encoder-decoder models the target. Empty: none, or written by the
            model.
        special: Whether special tokens typed in the text, such as ``[MASK]``, are read as such.
        chat: Whether the text is put into the tokeniser's chat template, as what the user says.
        kind: Which attention is looked at in an encoder-decoder model, one of ``KINDS``; empty for the first.
        between: Which part of a pair is looked at: "ab" for the first sentence looking at the second, "ba" for the
            other way round, empty for all.
    """

    text: str
    second: str = ""
    special: bool = False
    chat: bool = False
    kind: str = ""
    between: str = ""


class Can(NamedTuple):
    """In which ways a model can read.

    Attributes:
        pair: Whether it takes two sentences, as BERT does.
        target: Whether it has a decoder that reads a target.
        writes: Whether it can write that target itself.
        chat: Whether its tokeniser has a chat template.
        special: The special tokens that can be typed.
    """

    pair: bool
    target: bool
    writes: bool
    chat: bool
    special: tuple[str, ...]


def as_input(text: str | Input) -> Input:
    """Return what is to be read, where it may be a plain text."""
    return text if isinstance(text, Input) else Input(text)
