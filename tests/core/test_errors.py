"""What a library says of a model, as one whole sentence."""

import pytest

from attention_core.errors import MOST_LETTERS, whole_sentence

LIST = """Couldn't instantiate the backend tokenizer from one of:
(1) a `tokenizers` library serialization file,
(2) a slow tokenizer instance to convert or
(3) an equivalent slow tokenizer class to instantiate and convert.
You need to have sentencepiece or tiktoken installed."""


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("it is not there.\nTraceback: more", "it is not there"),
        (LIST, " ".join(LIST.splitlines()[:4]).rstrip(".")),
        ("two sizes differ:", "two sizes differ"),
        ("", "ValueError"),
    ],
)
def test_a_first_line_that_announces_a_list_is_told_with_it(said, expected):
    assert whole_sentence(ValueError(said)) == expected


def test_an_endless_one_is_cut_at_a_word():
    said = whole_sentence(ValueError("weights missing:\n" + "layer, \n" * 900))
    assert len(said) <= MOST_LETTERS + 2
    assert said.endswith("layer, …")
