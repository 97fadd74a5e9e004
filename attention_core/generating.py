"""Writing, a token at a time: what the model says comes next, what is chosen, and the row of attention that led to it.

A text that is being written is a sequence of steps. Step n has read the prompt and n new tokens, and says what comes
next. One step is one piece of work, with the model's own cache of keys and values; the query of the token just read is
recorded on the way, so that every head's whole triangle is there at any time. Rows never change once they are there,
since no token sees a later one.
"""

import inspect
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from attention_core import compute, job_log
from attention_core.captured import Capture, capture
from attention_core.dot_product import trace_attention
from attention_core.formula import Formula
from attention_core.interface import Attended, LayerAttention, changing, recording
from attention_core.models.loading import LoadedModel
from attention_core.store import Key
from attention_core.tokens import Token, _number_words, _share_characters, read_tokens, visible, word_starts

if TYPE_CHECKING:
    from attention_core.views import HeadView

MOST = 200  # new tokens
MOST_WRITINGS = 256  # whose steps are kept
BEST = 10  # candidates that a step shows
LONGEST_CHEAT = 64  # tokens that are read without a mask, every head densely
BLIND = Formula(without=("causal",))
PIECE = 16  # tokens that are read at a time where nobody else should wait for long


class Sampling(NamedTuple):
    """How the next token is chosen.

    Attributes:
        how: "greedy", the most probable; or "sample", drawn by its chance.
        temperature: Scores are divided by it; 0 is greedy.
        top_k: Only so many of the most probable are left to draw from; 0 leaves all.
        top_p: Only the most probable are left that together have this probability; 1 leaves all.
        seed: Of the draws: the same text again.
    """

    how: str = "greedy"
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1

    @property
    def draws(self) -> bool:
        """Whether anything is left to chance."""
        return self.how == "sample" and self.temperature > 0


class Candidate(NamedTuple):
    """A token that could come next.

    Attributes:
        id: Its number in the vocabulary.
        label: Readable.
        probability: What the model gives it.
        chance: With what chance it is chosen, after temperature, top-k and top-p.
        rank: Its place by probability, from 1.
    """

    id: int
    label: str
    probability: float
    chance: float
    rank: int


@dataclass(frozen=True)
class Step:
    """One step of writing.

    Attributes:
        number: How many new tokens had been written before it.
        prompt: How many tokens the prompt has.
        best: The most probable next tokens, most probable first, and the chosen one after them if it is none of them.
        chosen: The token that is chosen.
        left: From how many tokens it was chosen.
        over: Why nothing more is written after this step: "end" if the model ends the text, "limit" or "context" if
            there is no room; else empty.
    """

    number: int
    prompt: int
    best: tuple[Candidate, ...]
    chosen: Candidate
    left: int
    over: str


@dataclass(frozen=True)
class Written:
    """The text at a step.

    Attributes:
        text: Prompt and new tokens, as a string.
        before: The prompt, as a string.
        new: What each new token adds to it; of tokens that share a character the last adds it.
        labels: The tokens, readable.
        prompt: How many of them are the prompt's.
        again: Whether the tokeniser would read the text as these tokens; drawn ones can be others.
    """

    text: str
    before: str
    new: tuple[str, ...]
    labels: tuple[str, ...]
    prompt: int
    again: bool


@dataclass(frozen=True)
class Cheat:
    """What a model says of the token that comes next, when it may look at it and when not.

    Attributes:
        labels: The tokens, readable: T of them.
        masked: The probability of each next token with the causal mask, T − 1 of them.
        open: The same, with all heads' causal mask off.
    """

    labels: tuple[str, ...]
    masked: tuple[float, ...]
    open: tuple[float, ...]


def chances(logits: Float[Tensor, " V"], sampling: Sampling) -> Float[Tensor, " V"]:
    """Return with what chance each token is chosen; they sum to 1. The warpers are those of ``generate``."""
    if not sampling.draws:
        return torch.nn.functional.one_hot(logits.argmax(), len(logits)).double()
    warpers = LogitsProcessorList([TemperatureLogitsWarper(float(sampling.temperature))])
    if sampling.top_k:
        warpers.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        warpers.append(TopPLogitsWarper(sampling.top_p))
    scores = (logits.double() - logits.max())[None]  # so that no temperature, however low, makes them overflow
    return warpers(torch.empty(1, 0, dtype=torch.long), scores)[0].softmax(dim=-1)


@torch.no_grad()
def read_on(model: LoadedModel, ids: Sequence[int], cache: Any = None, *, keep: bool = True) -> tuple[Tensor, Any]:  # noqa: ANN401
    """Read tokens, after those in a cache, and return the scores of what comes next, (V), in float32 at least.

    Args:
        model: A model that writes.
        ids: The tokens to read.
        cache: What the last call gave back.
        keep: Whether keys and values are kept.

    Returns:
        The scores, and the cache: the model's own.
    """
    logits, cache = scores_of(model, torch.tensor([ids], device=model.module.device), cache, keep=keep)
    return logits[0, -1], cache


def scores_of(
    model: LoadedModel,
    ids: Int[Tensor, "B T"],
    cache: Any = None,  # noqa: ANN401
    *,
    keep: bool = True,
    last: bool = True,
) -> tuple[Float[Tensor, "B t V"], Any]:
    """Read tokens, after those in a cache; return the scores of what comes next, in float32 at least, and the cache.

    Where only the ``last`` place is asked for, there may be others before it.
    """
    module = model.module
    inputs = {"input_ids": ids, "use_cache": keep}
    takes = inspect.signature(module.forward).parameters
    if cache is not None:
        inputs["cache" if "cache" in takes else "past_key_values"] = cache
    if last and "logits_to_keep" in takes:
        inputs["logits_to_keep"] = 1
    out = module(**inputs)
    cache = (out["cache"] if "cache" in out else out["past_key_values"]) if keep else None
    return out.logits.to(torch.promote_types(out.logits.dtype, torch.float32)), cache


@dataclass
class Writing:
    """A text that a model writes on, a step a call. It belongs to one thread.

    Attributes:
        model: What writes; None while it is not in memory.
        text: The prompt.
        sampling: How tokens are chosen.
        prompt: The prompt's tokens.
        ids: The prompt's ids, and those that have been read since.
        steps: What has been computed.
    """

    model: LoadedModel | None
    text: str
    sampling: Sampling
    prompt: tuple[Token, ...] = ()
    ids: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    cache: Any = None
    layers: list[LayerAttention] = field(default_factory=list)  # as one forward pass of the whole text would leave them

    def __post_init__(self) -> None:
        self.prompt = self.prompt or read_tokens(self.model.tokenizer, self.text)
        self.ids = [token.id for token in self.prompt]

    def step(self) -> Step:
        """Read the token that was chosen last, and choose the next one.

        Raises:
            ValueError: If the writing is over.
        """
        if self.steps:
            if self.steps[-1].over:
                raise ValueError(f"the writing is over: {self.steps[-1].over}")
            self.ids.append(self.steps[-1].chosen.id)
        self.steps.append(self._choose(self._read(), len(self.steps)))
        return self.steps[-1]

    def rest(self) -> None:
        """Let go of what takes memory; the steps stay, and the next one reads the whole text again."""
        self.cache, self.layers = None, []

    def wake(self) -> None:
        """Read the text again if what was kept of it is gone."""
        if self.cache is None and self.steps:
            self._read()

    def _read(self) -> Float[Tensor, " V"]:
        seen = self.ids if self.cache is None else self.ids[-1:]
        module = self.model.module
        with recording(module) if module._can_set_attn_implementation() else nullcontext() as record:
            logits, self.cache = read_on(self.model, seen, self.cache)
        self._record([] if record is None else record.layers, len(seen))
        return logits

    def _record(self, layers: Sequence[LayerAttention], new: int) -> None:
        if new == len(self.ids):
            # Terms that are matrices do not grow by themselves, and one token has no triangle to read a mask from.
            plain = all(a.formula.causal and a.formula.allowed is None and a.formula.bias is None for a in layers)
            self.layers = list(layers) if plain else []
        elif self.layers:
            self.layers = [
                replace(
                    old,
                    query=torch.cat([old.query, now.query], dim=1),
                    key=torch.cat([old.key, now.key[:, -new:]], dim=1),
                    value=torch.cat([old.value, now.value[:, -new:]], dim=1),
                )
                for old, now in zip(self.layers, layers, strict=True)
            ]

    def _choose(self, logits: Float[Tensor, " V"], number: int) -> Step:
        probabilities, chance = logits.double().softmax(dim=-1).cpu(), chances(logits, self.sampling).cpu()
        if self.sampling.draws:
            dice = torch.Generator().manual_seed(self.sampling.seed * (MOST + 1) + number)  # each step by itself
            chosen = int(torch.multinomial(chance, 1, generator=dice))
        else:
            chosen = int(chance.argmax())

        def candidate(id: int) -> Candidate:
            rank = int((probabilities > probabilities[id]).sum()) + 1
            label = token_label(self.model.tokenizer, id)
            return Candidate(id, label, float(probabilities[id]), float(chance[id]), rank)

        best = probabilities.topk(min(BEST, len(probabilities))).indices.tolist()
        shown = best if chosen in best else [*best, chosen]
        over = ""
        if chosen in _ends(self.model):
            over = "end"
        elif number >= MOST:
            over = "limit"
        elif self.model.limit is not None and len(self.ids) >= self.model.limit:
            over = "context"
        best = tuple(candidate(id) for id in shown)
        left = int((chance > 0).sum())
        return Step(number, len(self.prompt), best, candidate(chosen), left, over)

    def seen(self, number: int) -> Capture:
        """Return the capture of the text at a step, without another forward pass where the recording suffices."""
        ids = self._ids(number)
        text, tokens = self._tokens(ids)
        if self.layers:
            cut = {name: slice(len(ids)) for name in ("query", "key", "value")}
            layers = tuple(replace(a, **{n: getattr(a, n)[:, at] for n, at in cut.items()}) for a in self.layers)
            return Capture(text, tokens, (), {"self": layers}, self.model.pretrained)
        found = capture(self.model.module, input_ids=torch.tensor([ids], device=self.model.module.device))
        return replace(found, text=text, tokens=tokens, pretrained=self.model.pretrained)

    def written(self, number: int) -> Written:
        """Return the text at a step."""
        ids = self._ids(number)
        text, tokens = self._tokens(ids)
        ends = _ends_of(self.model.tokenizer, ids, len(self.prompt))
        new = tuple(_decoded(self.model.tokenizer, ids)[start:end] for start, end in pairwise(ends))
        again = [token.id for token in read_tokens(self.model.tokenizer, text)] == list(ids)
        return Written(text, self.text, new, tuple(token.label for token in tokens), len(self.prompt), again)

    @property
    def bytes(self) -> int:
        """How much memory the recording and the cache take, counted as if they shared nothing."""
        kept = sum(t.numel() * t.element_size() for a in self.layers for t in (a.query, a.key, a.value))
        return kept + held_bytes(self.cache)

    def _ids(self, number: int) -> list[int]:
        if not 0 <= number < len(self.steps):
            raise IndexError(f"step {number} does not exist: there are {len(self.steps)}, counted from 0")
        return self.ids[: len(self.prompt) + number]

    def _tokens(self, ids: Sequence[int]) -> tuple[str, tuple[Token, ...]]:
        count = len(self.prompt)
        if len(ids) == count:
            return self.text, self.prompt
        tokenizer = self.model.tokenizer
        whole = _decoded(tokenizer, ids)
        text = self.text + whole[len(_decoded(tokenizer, ids[:count])) :]
        tokens = read_tokens(tokenizer, text)
        if [token.id for token in tokens] == list(ids):
            return text, tokens
        return text, (*self.prompt, *_new_tokens(tokenizer, text, ids, count, self.prompt[-1].word + 1))


def token_label(tokenizer: Any, id: int) -> str:  # noqa: ANN401
    """Return a token as people can read it: its characters; its bytes, where they are only part of a character."""
    text, piece = _decoded(tokenizer, [id]), tokenizer.convert_ids_to_tokens(id)
    if "\ufffd" not in text:
        return visible(text) or piece
    known = _byte_letters()
    return " ".join(f"{known[c]:02X}" for c in piece) if all(c in known for c in piece) else piece


def held_bytes(cache: Any) -> int:  # noqa: ANN401
    """Return how many bytes the keys and values in a model's cache really take."""
    layers = getattr(cache, "layers", [])
    tensors = [t for layer in layers for t in (getattr(layer, "keys", None), getattr(layer, "values", None))]
    return sum(t.numel() * t.element_size() for t in tensors if t is not None)


@torch.no_grad()
def next_probabilities(model: LoadedModel, ids: Sequence[int], *, masked: bool) -> tuple[float, ...]:
    """Return the probability of each next token of a text, as the model gives it at the token before.

    Args:
        model: What reads.
        ids: T tokens.
        masked: False switches the causal mask of every head off.

    Returns:
        T − 1 probabilities.
    """
    given = torch.tensor([list(ids)], device=model.module.device)
    with nullcontext() if masked else changing(model.module, _unmasked):
        logits, _ = scores_of(model, given, keep=False, last=False)
    return tuple(_of_next(logits[0, :-1], given[0, 1:]))


def _unmasked(seen: Attended, output: Float[Tensor, "B Q H Dv"]) -> Float[Tensor, "B Q H Dv"]:
    each = enumerate(zip(seen.query, seen.key, seen.value, strict=True))
    contexts = [trace_attention(*one, seen.formula(n).changed(BLIND)).context.transpose(0, 1) for n, one in each]
    return torch.stack(contexts).to(output.dtype)


def _of_next(logits: Float[Tensor, "T V"], ids: Int[Tensor, " T"]) -> list[float]:
    return logits.double().softmax(dim=-1).gather(1, ids[:, None])[:, 0].tolist()


@dataclass(eq=False)
class Guesses:
    """The probability of each next token of a text, as :func:`next_probabilities`, but read on in pieces.

    Attributes:
        model: What reads.
        ids: T tokens.
        within: Gives a context in which it reads.
        found: What is known so far: T − 1 probabilities in the end.
    """

    model: LoadedModel
    ids: Sequence[int]
    within: Callable[[], AbstractContextManager] = nullcontext
    found: list[float] = field(default_factory=list)
    cache: Any = None

    @property
    def done(self) -> bool:
        """Whether all are found."""
        return len(self.found) >= len(self.ids) - 1

    @torch.no_grad()
    def step(self) -> None:
        """Read a piece more."""
        start = len(self.found)
        ids = torch.tensor([list(self.ids[start : min(start + PIECE, len(self.ids) - 1) + 1])])
        ids = ids.to(self.model.module.device)
        with self.within():
            logits, self.cache = scores_of(self.model, ids[:, :-1], self.cache, last=False)
        self.found += _of_next(logits[0], ids[0, 1:])
        if self.done:
            self.cache = None


# What pages ask for, in the compute thread: each call does one piece of work at most


def advance(model: str, text: str, limit: int, sampling: Sampling, number: int) -> Step | None:
    """Return a step; None where it is not there yet: then one more has been computed, and asking again goes on.

    Raises:
        IndexError: If the writing is over before it.
    """
    writing = _writing(model, text, limit, sampling)
    if number >= len(writing.steps):
        if writing.steps and writing.steps[-1].over:
            raise IndexError(f"the writing is over after step {writing.steps[-1].number}")
        writing.step()
        key, device = _key(model, text, limit, sampling), str(writing.model.module.device)
        compute._keep(key, writing, writing.bytes, device, writing.rest)
    return writing.steps[number] if number < len(writing.steps) else None


def text_at(model: str, text: str, limit: int, sampling: Sampling, number: int) -> Written | None:
    """Return the text at a step; None as in :func:`advance`."""
    there = advance(model, text, limit, sampling, number)
    return None if there is None else _writing(model, text, limit, sampling).written(number)


def head_at(
    model: str,
    text: str,
    limit: int,
    sampling: Sampling,
    number: int,
    layer: int,
    head: int,
    without: tuple[str, ...] = (),
) -> "HeadView | None":
    """Return a head (from 0) of the text at a step, its formula ``without`` some terms; None as in :func:`advance`."""
    from attention_core.views import view_head

    if advance(model, text, limit, sampling, number) is None:
        return None
    seen = _writing(model, text, limit, sampling).seen(number)
    return view_head(seen, layer, head, formula=compute._changes(without, 1.0))


def strip_at(model: str, text: str, limit: int, sampling: Sampling, number: int, layer: int) -> Any:  # noqa: ANN401
    """Return the thumbnails of a layer's heads at a step; None as in :func:`advance`."""
    from attention_core.views import thumbnails

    if advance(model, text, limit, sampling, number) is None:
        return None
    return thumbnails(_writing(model, text, limit, sampling).seen(number), layer)


def guesses_at(model: str, text: str, limit: int, sampling: Sampling, number: int) -> Guesses | None:
    """Return what is to be read, in pieces, for :func:`cheat_at`; None as above."""
    if advance(model, text, limit, sampling, number) is None:
        return None
    writing = _writing(model, text, limit, sampling)
    return Guesses(writing.model, writing._ids(number)[:LONGEST_CHEAT])


def cheat_at(
    model: str, text: str, limit: int, sampling: Sampling, number: int, masked: Sequence[float] | None = None
) -> Cheat | None:
    """Return what the model says of each next token of the text at a step, with and without mask; None as above.

    What it says with the mask can be given: found in pieces, from :func:`guesses_at`.
    """
    if advance(model, text, limit, sampling, number) is None:
        return None
    writing = _writing(model, text, limit, sampling)
    ids = writing._ids(number)[:LONGEST_CHEAT]
    labels = writing.written(number).labels[: len(ids)]
    if len(ids) < 2:
        return Cheat(labels, (), ())
    masked = next_probabilities(writing.model, ids, masked=True) if masked is None else tuple(masked)
    return Cheat(labels, masked, next_probabilities(writing.model, ids, masked=False))


_writings: "OrderedDict[tuple[str, str, int, Sampling], Writing]" = OrderedDict()  # what is large is in the store


def _key(model: str, text: str, limit: int, sampling: Sampling) -> Key:
    return Key(model, text, what=("writing", limit, sampling))


def _writing(model: str, text: str, limit: int, sampling: Sampling) -> Writing:
    key = (model, text, limit, sampling)
    stored = compute._store.get(_key(*key)) is not None  # and so the last to go
    if key not in _writings:
        loaded = compute._model(model)
        if not _writes(loaded):
            raise TypeError(f"{loaded.title} does not write")
        kept = compute._fit(model, text, min(limit, loaded.limit or limit))[0].text
        _writings[key] = Writing(loaded, kept, sampling)
    _writings.move_to_end(key)
    while len(_writings) > MOST_WRITINGS:
        gone = _key(*_writings.popitem(last=False)[0])
        compute._store.drop(gone.__eq__)
    if (writing := _writings[key]).model is None:
        writing.model = compute._model(model)
    job_log.note(model, len(writing.ids), text, stored=stored)
    return writing


def _let_go(model: str) -> None:
    """Let a model leave memory; the steps stay."""
    for key in [key for key in _writings if key[0] == model]:
        _writings[key].rest()
        _writings[key].model = None


compute._users.append(_let_go)


def _writes(model: LoadedModel) -> bool:
    return bool(model.module.can_generate()) and not model.module.config.is_encoder_decoder


def _ends(model: LoadedModel) -> set[int]:
    told = getattr(model.module.generation_config, "eos_token_id", None)
    return set(told) if isinstance(told, list) else set() if told is None else {told}


def _decoded(tokenizer: Any, ids: Sequence[int]) -> str:  # noqa: ANN401
    return tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)


def _new_tokens(tokenizer: Any, text: str, ids: Sequence[int], count: int, word: int) -> list[Token]:  # noqa: ANN401
    """Return the tokens after the first ``count``, for ids that the tokeniser itself would not make of the text."""
    whole = _decoded(tokenizer, ids)
    before = len(text) - len(whole)  # what the tokeniser's own tokens add to the text
    grown = [_decoded(tokenizer, ids[:n]) for n in range(count, len(ids) + 1)]
    ends = [before + end for end in _ends_of(tokenizer, ids, count)]
    specials, words, tokens = set(tokenizer.all_special_ids), word_starts(text), []
    for n, id in enumerate(ids[count:]):
        start, end = ends[n], ends[n + 1]
        if start == end and grown[n] == grown[n + 1]:  # one more part of a character that never becomes whole
            start -= 1
        elif start == end:  # part of a character that later tokens complete
            end = min(start + 1, len(text))
        special, piece = id in specials, tokenizer.convert_ids_to_tokens(id)
        shown = text[start:end] or piece
        if "\ufffd" in shown:  # the character is not whole yet
            shown = token_label(tokenizer, id)
        inside = min(start + len(shown) - len(shown.lstrip()), len(text) - 1)
        own = -1 if special or start == end else words[inside]
        tokens.append(Token(count + n, id, piece, shown, start, end, special, False, own))
    numbered = _number_words(_share_characters(tokens, text))
    return [replace(token, word=token.word + word) for token in numbered]


def _ends_of(tokenizer: Any, ids: Sequence[int], count: int) -> list[int]:  # noqa: ANN401
    """Return how much of the decoded text is settled after the first ``count`` ids, and after each one more."""
    whole = _decoded(tokenizer, ids)
    return [_agree(_decoded(tokenizer, ids[:n]), whole) for n in range(count, len(ids) + 1)]


def _agree(one: str, other: str) -> int:
    """Return how many letters two texts have in common before they part."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _byte_letters() -> dict[str, int]:
    """Return the byte that each letter of a byte-level tokeniser stands for (Radford et al. 2019)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(rest)}
