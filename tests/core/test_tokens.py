import pytest
from tokenizers import Tokenizer, decoders, models, normalizers
from transformers import PreTrainedTokenizerFast

from attention_core.tokens import clean, fit, group_labels, group_numbers, read_tokens, visible, word_starts


@pytest.fixture
def sentencepiece():
    """A SentencePiece-like tokeniser: ▁ for spaces, bytes for what it does not know."""
    pieces = ["<unk>", "<s>", "▁", "▁hello", "▁wor", "ld", "!", *(f"<0x{byte:02X}>" for byte in range(256))]
    core = Tokenizer(models.Unigram([(piece, -1.0) for piece in pieces], unk_id=0, byte_fallback=True))
    core.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    core.decoder = decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", unk_token="<unk>")


def labels(tokenizer, text):
    return [token.label for token in read_tokens(tokenizer, text)]


def test_sentencepiece(sentencepiece):
    assert labels(sentencepiece, "hello world!") == ["hello", "·wor", "ld", "!"]
    tokens = read_tokens(sentencepiece, "hello 은")
    assert {t.text.strip() for t in tokens[-3:]} == {"은"}
    assert [(t.part, t.parts) for t in tokens if "은" in t.text][-1] == (
        len([t for t in tokens if "은" in t.text]),
    ) * 2


def test_wordpiece(models_tokenizer):
    assert labels(models_tokenizer["minilm"], "embedding") == ["[CLS]", "em", "##bed", "##ding", "[SEP]"]


@pytest.fixture
def models_tokenizer(models):
    return {name: model.tokenizer for name, model in models.items()}


def test_case_is_kept_as_typed(models_tokenizer):
    assert labels(models_tokenizer["minilm"], "I LIKE Cake")[1:-1] == ["I", "LIKE", "Cake"]


def test_unknown_characters_show_what_was_typed(models_tokenizer):
    token = read_tokens(models_tokenizer["minilm"], "💩")[1]
    assert (token.piece, token.text, token.special) == ("[UNK]", "💩", False)


def test_letters_of_a_syllable_are_parts_of_it(models_tokenizer):
    assert labels(models_tokenizer["minilm"], "은")[1:-1] == ["은 ¹⁄₃", "은 ²⁄₃", "은 ³⁄₃"]


def test_a_family_is_one_character(models_tokenizer):
    tokens = read_tokens(models_tokenizer["smollm2"], "👨‍👩‍👧")
    assert {token.text for token in tokens} == {"👨‍👩‍👧"}
    assert [token.part for token in tokens] == list(range(1, len(tokens) + 1))


def test_typed_special_tokens_are_text_unless_asked(models_tokenizer):
    tokenizer = models_tokenizer["minilm"]
    literal = read_tokens(tokenizer, "a [MASK] b")
    assert [t.text for t in literal if not t.added] == ["a", "[", "MASK", "]", "b"]
    parsed = read_tokens(tokenizer, "a [MASK] b", parse_special=True)
    assert [(t.text, t.special, t.added) for t in parsed[2:3]] == [("[MASK]", True, False)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" a", "·a"),
        ("\n\t", "↵⇥"),
        ("\x00\x07", "␀␇"),
        ("\x7f", "‹007F›"),
        ("\u0301", "◌\u0301"),
        ("\u200d", "‹200D›"),
        ("a\u0301", "a\u0301"),
        ("مرحبا", "مرحبا"),
        ("</script>", "</script>"),
    ],
)
def test_visible(text, shown):
    assert visible(text) == shown


def test_lone_surrogates():
    assert clean("a\ud800b") == "a�b"
    assert clean("\ud83d\udca9") == "💩"
    assert clean("plain 은") == "plain 은"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I ate the cake", ["I", "ate", "the", "cake"]),
        ("나는 은행에서 돈을 찾았다.", ["나는", "은행에서", "돈을", "찾았다", "."]),
        ("我吃了蛋糕", ["我", "吃", "了", "蛋", "糕"]),
        ("don't stop", ["don't", "stop"]),
    ],
)
@pytest.mark.parametrize("name", ["minilm", "smollm2"])
def test_words(models_tokenizer, name, text, words):
    tokens = read_tokens(models_tokenizer[name], text)
    found = group_labels(tokens, group_numbers(tokens, "word"), text)
    assert [label for label in found if label not in ("[CLS]", "[SEP]")] == words


def test_word_numbers_cover_every_character():
    text = "a  b, 은행 東京メトロ"
    assert len(word_starts(text)) == len(text)


def test_sentences(models_tokenizer):
    text = "Really? Yes! 나는 갔다. 東京。大阪。\nOK then"
    tokens = read_tokens(models_tokenizer["smollm2"], text)
    found = group_labels(tokens, group_numbers(tokens, "sentence", text), text)
    assert found == ["Really?", "Yes!", "나는 갔다.", "東京。", "大阪。", "OK then"]


def test_fit_cuts_at_a_word(models_tokenizer):
    tokenizer = models_tokenizer["minilm"]
    text = "embedding tables " * 50
    kept, tokens, cut = fit(tokenizer, text, 20)
    assert tokens == len(read_tokens(tokenizer, text))
    assert text.startswith(kept)
    assert kept.split()[-1] in ("embedding", "tables")
    assert len(kept.split()) + cut == 100
    assert len(read_tokens(tokenizer, kept)) <= 20
    assert fit(tokenizer, "short text", 20) == ("short text", 4, 0)


def test_fit_cuts_inside_an_endless_word(models_tokenizer):
    kept, _, cut = fit(models_tokenizer["smollm2"], "x" * 3000, 16)
    assert kept
    assert set(kept) == {"x"}
    assert cut == 1


@pytest.mark.parametrize(
    "text", ["", " ", "\ud800", "\x00" * 5, "a\u0300\u0301\u0302", "\u202eabc", "ا" * 50, "\U0010ffff"]
)
@pytest.mark.parametrize("name", ["minilm", "smollm2"])
def test_odd_text_never_fails(models_tokenizer, name, text):
    tokens = read_tokens(models_tokenizer[name], text)
    assert [t.index for t in tokens] == list(range(len(tokens)))
    assert all(t.label for t in tokens)
    assert len(group_labels(tokens, group_numbers(tokens, "word"), clean(text))) == len({t.word for t in tokens})


def test_fit_never_leaves_nothing(models_tokenizer):
    kept, _, _ = fit(models_tokenizer["smollm2"], "\n" * 3000 + "cake", 512)
    assert kept
