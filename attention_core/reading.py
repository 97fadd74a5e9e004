"""From an :class:`Input` to tokens: pairs, targets, chats, cut where they are too long; and what a model writes."""

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from attention_core.errors import ModelHidden, NoTokens, TokeniserTooLarge
from attention_core.inputs import MOST_WRITTEN, Can, Input
from attention_core.models.loading import LoadedModel, Tokenizer
from attention_core.tokens import Token, clean, encode, fit, name_tokens, read_tokens, search

PROBE = "\ue000"  # a character that no template knows, to see where the text goes


class Prepared(NamedTuple):
    """What a model is given, and what its tokens stand for.

    Attributes:
        text: What the tokens stand in: both sentences of a pair with a line break between, a chat's whole template.
        tokens: The tokens of the text.
        target_text: What the decoder reads.
        target: The decoder's tokens: each is what it is fed at that position, the first one tells it to begin.
        written: Whether the model wrote the target itself.
        inputs: The model's own arguments.
    """

    text: str
    tokens: tuple[Token, ...]
    target_text: str
    target: tuple[Token, ...]
    written: bool
    inputs: dict[str, Tensor]


@runtime_checkable
class Reads(Protocol):
    """What it takes to tokenise and to cut a text: less than a model in memory."""

    title: str
    tokenizer: Tokenizer
    config: object


def has_target(model: Reads) -> bool:
    """Return whether a model has a decoder that reads a target."""
    return bool(getattr(model.config, "is_encoder_decoder", False))


def can_read(model: LoadedModel) -> Can:
    """Say in which ways a model can read, from its configuration and its tokeniser."""
    tokenizer, module = model.tokenizer, model.module
    both = has_target(model)
    # Models that only look back were not trained on pairs, even where their tokeniser would make one.
    back = any(getattr(part, "is_causal", False) for part in module.modules())
    pair = not both and not back and tokenizer.num_special_tokens_to_add(pair=True) > 2
    special = tuple(name for name in tokenizer.all_special_tokens if name != tokenizer.unk_token)
    return Can(pair, both, both and module.can_generate(), bool(tokenizer.chat_template), special)


def prepare(model: LoadedModel, asked: Input, written: Sequence[int] = ()) -> Prepared:
    """Tokenise what is to be read.

    Args:
        model: From :func:`load_model`.
        asked: What is read, and how.
        written: The tokens that the model wrote as its target, from :func:`written_by`; where there is neither a target
            nor these, its decoder reads only the token that tells it to begin.

    Raises:
        NoTokens: If the tokeniser leaves nothing of the text.
        ModelHidden: If the chat template can't be filled in.
        TokeniserTooLarge: If the model has no embedding for one of the tokens.
        ValueError: If the model can't read in this way, or takes fewer tokens.
    """
    tokenizer, both = model.tokenizer, has_target(model)
    text, second = clean(asked.text), clean(asked.second)
    inputs: dict[str, Tensor] = {}
    if asked.chat:
        text, tokens = _chat(model, text, parse_special=asked.special)
    elif second.strip() and not both:
        if not can_read(model).pair:
            raise ValueError(f"{model.title} takes one text, not a pair of sentences")
        text, tokens, types = _pair(model, text, second, parse_special=asked.special)
        if types and _takes_types(model):
            inputs["token_type_ids"] = _batch(types, model)
    else:
        tokens = read_tokens(tokenizer, text, parse_special=asked.special)
    if all(token.added for token in tokens):
        raise NoTokens("the text has no tokens: it is empty or blank")
    inputs["input_ids"] = _batch([token.id for token in tokens], model)
    target: tuple[Token, ...] = ()
    if both:
        second, target = _target(model, second, written, parse_special=asked.special)
        inputs["decoder_input_ids"] = _batch([token.id for token in target], model)
    known = model.embeddings
    if beyond := [token for token in (*tokens, *target) if known is not None and token.id >= known]:
        reason = f"{beyond[0].piece!r} = {beyond[0].id} > {known - 1}"
        raise TokeniserTooLarge(model.title, reason, "leave it out of the text, or choose another model")
    longest = max(len(tokens), len(target))
    if model.limit is not None and longest > model.limit:
        raise ValueError(f"the text has {longest} tokens; {model.name} takes {model.limit}")
    return Prepared(text, tokens, second if target else "", target, bool(written), inputs)


def fit_input(model: Reads, asked: Input, limit: int) -> tuple[Input, int, int]:
    """Cut what is read at a word, so that it has at most ``limit`` tokens; a source and its target each.

    Of a pair, each sentence may have half, and what the other leaves.

    Returns:
        What fits, how many tokens the whole has, and how many words were left out.
    """
    tokenizer, options = model.tokenizer, {"parse_special": asked.special}
    if asked.chat:
        if not asked.text.strip():
            return asked, 0, 0
        whole = len(_chat(model, clean(asked.text), parse_special=asked.special)[1])
        typed = len(encode(tokenizer, clean(asked.text), **options)[0])
        text, cut, room = clean(asked.text), 0, limit - (whole - typed)
        while whole > limit and text and len(_chat(model, text, parse_special=asked.special)[1]) > limit:
            text, _, cut = fit(tokenizer, asked.text, max(room, 0), **options)
            room -= 1
        return asked._replace(text=text), whole, cut
    if not asked.second.strip():
        text, tokens, cut = fit(tokenizer, asked.text, limit, **options)
        return asked._replace(text=text, second=""), tokens, cut
    if has_target(model):
        text, tokens, cut = fit(tokenizer, asked.text, limit, **options)
        # The token that tells the decoder to begin comes first, and the last one is not fed: as many as it adds.
        second, _, more = fit(tokenizer, asked.second, limit - 1, target=True, **options)
        return asked._replace(text=text, second=second), tokens, cut + more
    first, second = (len(encode(tokenizer, clean(side), add_special=False, **options)[0]) for side in asked[:2])
    added = tokenizer.num_special_tokens_to_add(pair=True)
    room = max(limit - added, 2)
    own = room - min(second, room // 2)
    sides = [(asked.text, own), (asked.second, room - min(first, own))]
    kept = [fit(tokenizer, side, most, add_special=False, **options) for side, most in sides]
    return asked._replace(text=kept[0][0], second=kept[1][0]), first + second + added, kept[0][2] + kept[1][2]


class Writing:
    """A target that an encoder-decoder model writes, a token at a time, always the most probable one.

    Attributes:
        ids: What its decoder was fed so far; the first token tells it to begin.
        done: Whether it has said that it is at the end, or has written ``MOST_WRITTEN`` tokens.
    """

    def __init__(self, model: LoadedModel, asked: Input, most: int = MOST_WRITTEN) -> None:
        source = prepare(model, asked._replace(second="")).inputs["input_ids"]
        with torch.no_grad():
            self._encoded = model.module.get_encoder()(input_ids=source)
        self._most = min(most, MOST_WRITTEN, (model.limit or most + 1) - 1)
        self.ids: list[int] = [_start(model)]
        self.done = self._most < 1

    def step(self, model: LoadedModel) -> None:
        """Write one token more."""
        told = model.module.generation_config
        with torch.no_grad():
            made = model.module(
                encoder_outputs=self._encoded, decoder_input_ids=_batch(self.ids, model), use_cache=False
            )
        ends = [told.eos_token_id] if isinstance(told.eos_token_id, int) else told.eos_token_id or []
        scores = made.logits[0, -1].float()
        scores[[n for n in {self.ids[0], told.pad_token_id} if n is not None and n not in ends]] = -torch.inf
        first = told.forced_bos_token_id if len(self.ids) == 1 else None  # such as the language to write in
        chosen = int(scores.argmax()) if first is None else first
        if chosen not in ends:
            self.ids.append(chosen)
        self.done = chosen in ends or len(self.ids) > self._most
        if self.done:
            self._encoded = None


def written_by(model: LoadedModel, asked: Input) -> tuple[int, ...]:
    """Let an encoder-decoder model write its target; nothing where it can't, or need not."""
    if asked.second.strip() or not can_read(model).writes:
        return ()
    writing = Writing(model, asked)
    while not writing.done:
        writing.step(model)
    return tuple(writing.ids)


def _chat(model: Reads, text: str, *, parse_special: bool) -> tuple[str, tuple[Token, ...]]:
    """Put a text into the chat template; the template's own tokens are ``added``, whatever they stand for."""
    tokenizer, options = model.tokenizer, {"tokenize": False, "add_generation_prompt": True}
    try:
        whole, probed = (
            str(tokenizer.apply_chat_template([{"role": "user", "content": content}], **options))
            for content in (text, PROBE)
        )
    except Exception as error:  # a template is a program of its own, and says what it does not like in its own way
        reason = f"its chat template: {str(error).partition(chr(10))[0]}"
        raise ModelHidden(model.title, reason, "read the text without the template") from error
    before, _, after = probed.partition(PROBE)
    start, end = len(before), len(whole) - len(after)
    typed = whole[start:end]  # some templates cut spaces off
    if not text.strip() or whole != before + typed + after or typed.strip() != text.strip():
        raise NoTokens("the chat template leaves nothing of the text")
    parts = [(0, len(whole), True)]
    if not parse_special and any(name in text for name in tokenizer.all_special_tokens):
        parts = [(0, start, True), (start, end, False), (end, len(whole), True)]  # the user's own are only text
    ids, spans = [], []
    for low, high, special in parts:
        found, places = encode(tokenizer, whole[low:high], parse_special=special, add_special=False)
        ids += found
        spans += [(low + a, low + b) for a, b in places]
    tokens = name_tokens(tokenizer, ids, spans, whole)
    return whole, tuple(replace(t, added=t.end <= start or t.start >= end) for t in tokens)


def _pair(
    model: LoadedModel, first: str, second: str, *, parse_special: bool
) -> tuple[str, tuple[Token, ...], Sequence[int]]:
    """Read two sentences; the last part says of each token whose it is, where the tokeniser has numbers for that."""
    tokenizer = model.tokenizer
    text, begins = f"{first}\n{second}", len(first) + 1
    options = {"split_special_tokens": not parse_special, "truncation": False, "verbose": False}
    if tokenizer.is_fast:
        found = tokenizer(first, second, return_offsets_mapping=True, **options)
        ids = found["input_ids"]
        spans = [
            (low + begins, high + begins) if side == 1 else (low, high)
            for side, (low, high) in zip(found.sequence_ids(), found["offset_mapping"], strict=True)
        ]
    else:
        found = tokenizer(first, second, **options)
        ids = found["input_ids"]
        spans = search(tokenizer, ids, text)
    types, segment, tokens = found.get("token_type_ids") or [], 0, []
    for token in name_tokens(tokenizer, ids, spans, text):
        if token.start < token.end:
            segment = int(token.start >= begins)
        elif types:
            segment = int(types[token.index] > 0)
        tokens.append(replace(token, segment=segment))
    return text, tuple(tokens), types


def _target(
    model: LoadedModel, typed: str, written: Sequence[int], *, parse_special: bool
) -> tuple[str, tuple[Token, ...]]:
    """Return what the decoder reads: the token that tells it to begin, and the target without its end."""
    tokenizer, start = model.tokenizer, _start(model)
    ids, spans = [], []
    if typed.strip():
        ids, spans = encode(tokenizer, typed, parse_special=parse_special, target=True)
        ids, spans = list(ids), list(spans)
        if ids and spans[-1][0] == spans[-1][1] and ids[-1] in tokenizer.all_special_ids:  # it is what comes out last
            ids.pop()
            spans.pop()
    elif written:
        ids = list(written[1:])
        typed = clean(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))
        again, places = encode(tokenizer, typed, target=True, add_special=False)
        real = [n for n, token_id in enumerate(ids) if token_id not in tokenizer.all_special_ids]
        spans = search(tokenizer, ids, typed)
        if again == [ids[n] for n in real]:
            for n, place in zip(real, places, strict=True):
                spans[n] = place
    else:
        typed = ""
    return typed, name_tokens(tokenizer, [start, *ids], [(0, 0), *spans], typed)


def _start(model: LoadedModel) -> int:
    config, told = model.module.config, getattr(model.module, "generation_config", None)
    for home in (config, told):
        for name in ("decoder_start_token_id", "bos_token_id"):
            if (found := getattr(home, name, None)) is not None:
                return found
    raise ValueError(f"{model.title} names no token with which its decoder begins")


def _takes_types(model: LoadedModel) -> bool:
    known = "token_type_ids" in inspect.signature(model.module.forward).parameters
    return known and getattr(model.module.config, "type_vocab_size", 2) > 1


def _batch(ids: Sequence[int], model: LoadedModel) -> Int[Tensor, "1 T"]:
    return torch.tensor([list(ids)], device=model.input_device)
