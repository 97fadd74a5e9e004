"""A forward pass in pieces: put down whenever its time is up, taken up again later, so that nobody waits long for it.

Any job can be done so, as :class:`Pacing`. A very long text goes through a model :func:`in_pieces`, which never holds a
matrix of queries × keys: layers are computed a few queries at a time, and masks are said in words.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attention_core.dot_product import scores, softmax
from attention_core.formula import Formula
from attention_core.interface import Recording, _read_formula, attending, sdpa_mask

STEP = 0.05  # seconds that a paused job goes on for
PIECE = 2e9  # multiplications and additions in one piece: some hundredths of a second on one core
MOST_MATRIX = 2048**2  # numbers in a mask or bias that can't be said in words
ROWS = 256  # of a mask that are looked at together
# Only models call these: whoever pauses in the midst of an import would hold its lock, and all others would wait.
PRODUCTS = {functional.linear, torch.addmm, functional.softmax, torch.softmax, Tensor.softmax}


class Closed(BaseException):
    """Nobody needs a paused job any more; only raised inside it."""


class Paused:
    """A job that can be paused: it runs in a thread of its own, but only while someone waits in :meth:`step`.

    So of the thread that steps and the job itself, one alone works at a time.
    """

    def __init__(self, job: Callable[["Paused"], None]) -> None:
        self._job, self._until, self._closed = job, 0.0, False
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self.done = False

    def step(self, seconds: float | None = None) -> None:
        """Go on for so long (``STEP`` unless said), or a little longer; what goes wrong in the job is raised here.

        Raises:
            Exception: Whatever the job raises.
        """
        if self.done:
            return
        self._until = time.monotonic() + (STEP if seconds is None else seconds)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="gaze-paused", daemon=True)
            self._thread.start()
        self._go.release()
        self._back.acquire()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def pause(self) -> None:
        """Called by the job, as often as it can: if its time is up, wait for the next step."""
        if time.monotonic() >= self._until:
            self._back.release()
            self._go.acquire()
            if self._closed:
                raise Closed

    def close(self) -> None:
        """End the job where it stands, and let go of what it holds."""
        self._closed = True
        if self._thread is not None and not self.done:
            self._go.release()
            self._thread.join()
        self.done = True

    def _run(self) -> None:
        self._go.acquire()
        try:
            if not self._closed:
                self._job(self)
        except Closed:
            pass
        except BaseException as error:
            self._error = error
        self.done = True
        self._back.release()


class Pacing:
    """A job that is put down between products with weights; nothing else about it is changed.

    It may not change a model while it is put down: others use it meanwhile.

    Args:
        what: Its name.
        job: What is done.
        whole: Asked when it begins: whether it is done in one piece after all.

    Attributes:
        what: Its name.
        found: What it returned, once it is done.
    """

    def __init__(self, what: str, job: Callable[[], Any], whole: Callable[[], bool] = lambda: False) -> None:
        self.what, self.found = what, None
        self._job, self._whole, self._paused = job, whole, Paused(self._run)

    @property
    def done(self) -> bool:
        """Whether there is nothing more to do."""
        return self._paused.done

    def step(self) -> None:
        """Go on for a while.

        Raises:
            Exception: Whatever the job raises; then it is done.
        """
        self._paused.step()

    def close(self) -> None:
        """End it where it stands."""
        self._paused.close()

    def _run(self, paused: Paused) -> None:
        with nullcontext() if self._whole() else _Pauses(paused):
            self.found = self._job()


@contextmanager
def in_pieces(module: nn.Module, paused: Paused, keep: Callable[..., None]) -> Iterator[None]:
    """Run a model in pieces: the usual forward pass within this context, between which ``paused`` may pause.

    Args:
        module: The model, of transformers.
        paused: The job in which it runs.
        keep: Called with each layer's query, key (both without the batch) and formula before it is computed.

    Raises:
        TypeError: If the model's attention does not go through transformers' attention interface.
        ValueError: If a layer needs a matrix of queries × keys, of a mask or a bias, and the text is too long for one.
    """
    with torch.no_grad(), attending(module, _Layers(paused, keep)), _Pieces(paused):
        yield


class _Pauses(TorchFunctionMode):
    """Pauses before products with weights."""

    def __init__(self, paused: Paused) -> None:
        super().__init__()
        self._paused = paused

    def __torch_function__(self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None) -> Any:  # noqa: ANN401 - whatever torch's functions return
        if func in PRODUCTS:
            self._paused.pause()
        return self._call(func, args, kwargs or {})

    def _call(self, func: Callable, args: tuple, kwargs: dict) -> Any:  # noqa: ANN401
        return func(*args, **kwargs)


class _Pieces(_Pauses):
    """Cuts large products with weights into pieces as well."""

    def _call(self, func: Callable, args: tuple, kwargs: dict) -> Any:  # noqa: ANN401
        if func is not functional.linear or kwargs or len(args) < 2:
            return func(*args, **kwargs)
        given, weight, *rest = args
        rows = given.numel() // max(given.shape[-1], 1)
        most = max(1, int(PIECE / (2 * weight.numel())))
        if rows <= most:
            return func(*args)
        flat = given.reshape(rows, given.shape[-1])
        out = given.new_empty(rows, weight.shape[0])
        for start in range(0, rows, most):
            self._paused.pause()
            out[start : start + most] = func(flat[start : start + most], weight, *rest)
        return out.view(*given.shape[:-1], weight.shape[0])


class _Layers:
    """Computes attention a few queries at a time; of masks that can be said in words it only keeps the words."""

    def __init__(self, paused: Paused, keep: Callable[..., None]) -> None:
        self._paused, self._keep = paused, keep
        self._said: dict[int, tuple[Tensor, Formula]] = {}  # the mask is kept, so that its place stays its own

    def mask(self, *args: object, **kwargs: Any) -> Tensor | None:  # noqa: ANN401 - as transformers hands it over
        """Say a mask in words, if it is causal, a window, both or neither; what stands for it takes no memory."""
        queries, keys = (kwargs.get(name) for name in ("q_length", "kv_length"))
        padding, plain = kwargs.get("attention_mask"), not args and not kwargs.get("use_vmap")
        square = queries == keys and not kwargs.get("q_offset") and not kwargs.get("kv_offset")
        if plain and square and (padding is None or bool(padding.all())):
            formula = self._words(kwargs["mask_function"], int(queries), kwargs.get("device"))
            if formula is not None:
                stands = torch.ones(1, dtype=torch.bool, device=kwargs.get("device")).expand(1, 1, queries, keys)
                self._said[stands.data_ptr()] = stands, formula
                return stands
        _fits(int(queries or 0) * int(keys or 0), "a mask of its own kind")
        return sdpa_mask(*args, **kwargs)

    def attend(
        self,
        module: nn.Module,
        query: Float[Tensor, "1 H Q D"],
        key: Float[Tensor, "1 G K D"],
        value: Float[Tensor, "1 G K Dv"],
        mask: Tensor | None,
        kwargs: dict,
        record: Recording,
    ) -> Float[Tensor, "1 Q H Dv"]:
        """Keep what a layer was given, and compute it."""
        if len(query) != 1:
            raise ValueError(f"one sequence at a time: this batch has {len(query)}")
        bias = kwargs.get("position_bias")
        if bias is not None:
            _fits(bias.shape[-1] * bias.shape[-2], "a bias for each pair of positions")
        _, said = self._said.get(mask.data_ptr() if mask is not None else 0, (None, None))
        if said is None:
            if mask is not None:
                _fits(mask.shape[-1] * mask.shape[-2], "a mask of its own kind")
            formula = _read_formula(module, query, mask, kwargs, record)
        else:
            told = {**kwargs, "is_causal": False, "sliding_window": None}
            formula = _read_formula(module, query, None, told, record).changed(said)
        self._keep(query[0], key[0], formula)
        return self._attend(query[0], key[0], value[0], formula)

    def _attend(
        self,
        query: Float[Tensor, "H Q D"],
        key: Float[Tensor, "G K D"],
        value: Float[Tensor, "G K Dv"],
        formula: Formula,
    ) -> Float[Tensor, "1 Q H Dv"]:
        heads, share = len(query), len(query) // len(key)
        out = value.new_empty(query.shape[1], heads, value.shape[-1])
        cost = 2 * share * key.shape[1] * (query.shape[-1] + value.shape[-1])
        most = min(1024, max(32, int(PIECE / cost)))
        usual = not any(formula.term(name) is not None for name in ("softcap", "sink", "bias", "allowed"))
        attend = self._fused if usual and not isinstance(formula.factor, Tensor) else self._plain
        for group in range(len(key)):
            own = slice(group * share, (group + 1) * share)
            part = formula.heads(range(own.start, own.stop))
            for start in range(0, query.shape[1], most):
                self._paused.pause()
                rows = range(start, min(start + most, query.shape[1]))
                seen = _reach(formula, rows, key.shape[1])
                given = query[own, rows.start : rows.stop], *(of[group : group + 1, seen] for of in (key, value))
                context = attend(*given, part.block(rows, range(seen.start, seen.stop), query.device))
                out[rows.start : rows.stop, own] = context.transpose(0, 1).to(out.dtype)
        return out[None]

    @staticmethod
    def _fused(query: Tensor, key: Tensor, value: Tensor, formula: Formula) -> Tensor:
        key, value = (of.expand(len(query), -1, -1)[None] for of in (key, value))
        allowed = None if formula.allowed is None else formula.allowed[None]
        call = functional.scaled_dot_product_attention
        return call(query[None], key, value, attn_mask=allowed, scale=formula.multiplier(query.shape[-1]))[0]

    @staticmethod
    def _plain(query: Tensor, key: Tensor, value: Tensor, formula: Formula) -> Tensor:
        _, scaled, steps, allowed = scores(query, key, formula)
        weights, _ = softmax(steps[-1].scores if steps else scaled, allowed, formula.term("sink"))
        return weights @ value.to(weights.dtype)

    def _words(self, function: Callable, size: int, device: torch.device | None) -> Formula | None:
        """Say what a mask allows, and look at all of it, a few rows at a time, whether that is so."""
        place = torch.arange(size, device=device)
        zero = torch.zeros(1, 1, dtype=torch.long, device=device)

        def look(rows: Tensor) -> Tensor:
            return torch.as_tensor(function(zero, zero, rows[:, None], place[None])).expand(len(rows), size)

        first, last = look(place[:1])[0], look(place[-1:])[0]
        causal = size > 1 and not bool(first[1])
        ends = int((last if causal else first.flip(0)).float().argmax())  # how far the window leaves something out
        said = Formula(causal=causal, window=size - ends if ends else None)
        for start in range(0, size, ROWS):
            self._paused.pause()
            rows = range(start, min(start + ROWS, size))
            told = said.block(rows, range(size), device).allowed
            seen = look(place[start : start + ROWS])
            if not (bool(seen.all()) if told is None else torch.equal(seen, told[0])):
                return None
        return said


def _reach(formula: Formula, rows: range, keys: int) -> slice:
    """Return the keys that a few queries may see at all."""
    low, high = 0, keys
    if window := formula.term("window"):
        low = max(0, rows.start - window + 1)
        high = keys if formula.causal else min(keys, rows[-1] + window)
    if formula.term("causal"):
        high = min(high, rows.stop)
    return slice(low, max(high, low + 1))


def _fits(numbers: int, what: str) -> None:
    if numbers > MOST_MATRIX:
        side = int(MOST_MATRIX**0.5)
        raise ValueError(f"it has {what}, a matrix that grows with the square of the text: no more than {side} tokens")
