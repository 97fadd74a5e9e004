"""A class on one server: fifty people at once, over real WebSockets, and what happens to them when some misbehave.

    PYTHONPATH=. .venv/bin/python benchmarks/classroom.py [--sessions 50] [--seconds 180] [--faults 30] [--quick]

Starts the server on loopback and drives it without browsers (`benchmarks/visitor.py`). The teacher opens the home page
on the fresh server; then everybody does, goes to the sentence page, types an own sentence (half of them, in two pieces)
or pastes the teacher's (the others), and changes layer or head every two seconds. "picture" is the time from sending an
action until the numbers of its heat map (on the home page: of its lines) are there, "finished" until the script has
finished; who still waits does not click. "asked before" is the share of pictures that somebody had asked for before, so
that they need not be computed; whether they were kept can't be told from outside. Every different picture is compared
with attention_core's own afterwards.
Then come the faults, one after the other, while the class goes on: tabs that vanish in the middle of an answer and come
back, somebody who pastes 10,000 words, somebody who goes to and fro between the two models with new sentences, somebody
who maps texts of more than 16,384 tokens (of which SmolLM2 reads as many as its context holds: half).
All of it shares the cores with the server: what the driver takes itself is said below the tables.
"""

import argparse
import asyncio
import math
import os
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import psutil
import websockets

from benchmarks.server import Server, served
from benchmarks.visitor import Answer, Visitor, unpack

TEACHERS = "The trophy did not fit into the suitcase because it was too big."
NAMES = ["Anna", "Ben", "Clara", "David", "Emma", "Finn", "Grace", "Henry", "Iris", "Jonas"]
THINGS = ["ball", "book", "cake", "drum", "egg", "flute", "glass", "hat", "kite", "lamp"]
PLACES = ["bag", "box", "car", "chair", "desk", "garden", "house", "kitchen", "river", "shelf"]
LAYERS, HEADS, FIRST = 6, 12, (6, 12)  # MiniLM's, and where the page begins
BEAT, ARRIVAL = 2.0, 5.0  # seconds: between two actions of one person, and until everybody is there
WORDS = 10_000
CLASS, KILLED, PASTED, SWITCHED = "class", "tabs vanish", f"one pastes {WORDS:,} words", "one changes models"
MAPPED, LONG = "one maps 16,384 tokens", 17_000  # each of the words is a token of SmolLM2's or more
FIRST_VISIT, ARRIVING = "home page, the first visitor", ("home page", "sentence page", "typing")
CULPRIT, BACK, CHANGE = "who does it", "coming back", "layer or head"
BOUNDS = {CLASS: 1.0, KILLED: 1.5, PASTED: 1.5, SWITCHED: 1.5, MAPPED: 1.5}  # seconds, for 95 of 100 pictures
GONE = (OSError, TimeoutError, RuntimeError, KeyError, websockets.WebSocketException)


class Asked(NamedTuple):
    """A picture: layer and head from 1, as on screen."""

    text: str
    layer: int
    head: int


class Done(NamedTuple):
    """An action, and what came of it: seconds, bytes, and whether its picture had been asked for before."""

    phase: str
    what: str
    picture: float
    finished: float
    sent: int
    before: bool
    wrong: bool


class Room:
    """The class: what was done, which pictures came, and what is going on."""

    def __init__(self, port: int, sessions: int) -> None:
        self.port, self.sessions = port, sessions
        self.phase, self.over = CLASS, False
        self.done: list[Done] = []
        self.pictures: dict[Asked, bytes] = {}
        self.asked: set[Asked] = set()
        self.doomed: set[int] = set()
        self.complaints: list[str] = []

    async def note(
        self, what: str, asked: Asked | None, action: Awaitable[Answer], view: str = "heatmap", phase: str = ""
    ) -> None:
        """Do something and write down how it went.

        Raises:
            ConnectionError: If there was no answer.
        """
        before, phase = asked in self.asked, phase or self.phase
        self.asked |= {asked} if asked else set()
        try:
            answer = await action
        except GONE as error:
            self.complaints.append(f"{what}: {type(error).__name__} {error}")
            self.done.append(Done(phase, what, math.nan, math.nan, 0, before, wrong=True))
            raise ConnectionError from error
        wrong = [*answer.wrong] or ([] if view in answer.came else ["no picture"])
        if asked and not wrong and answer.data[view] != self.pictures.setdefault(asked, answer.data[view]):
            wrong = [*same_numbers(answer.data[view], self.pictures[asked])]
        self.complaints += [f"{what}: {one}" for one in wrong]
        came = answer.came.get(view, math.nan)
        self.done.append(Done(phase, what, came, answer.finished, answer.sent, before, bool(wrong)))

    def times(self, phase: str, *what: str) -> list[Done]:
        """Return what was done of a sort in a phase."""
        return [one for one in self.done if one.phase == phase and one.what in what]


def same_numbers(one: bytes, other: bytes) -> list[str]:
    """Return what differs between two answers to the same question; a pin may."""
    (_, here), (_, there) = unpack(one), unpack(other)
    return [name for name in here if here[name].tobytes() != there[name].tobytes()]


def sentence_of(number: int) -> str:
    """Return a sentence of one's own; the first thousand differ."""
    name, thing, place = NAMES[number % 10], THINGS[number // 10 % 10], PLACES[number // 100 % 10]
    return f"{name} took the {thing} out of the {place} because it was old."


async def attend(room: Room, number: int) -> None:
    """Be one of the class until it is over."""
    draw = random.Random(number)
    text = sentence_of(number) if number % 2 else TEACHERS
    await asyncio.sleep(ARRIVAL * number / room.sessions)
    visitor, at = Visitor(room.port), list(FIRST)
    try:
        await room.note(ARRIVING[0], None, visitor.open(), view="token_links")
        await room.note(ARRIVING[1], None, visitor.follow("sentence"))
        half = text[: len(text) // 2].rpartition(" ")[0]
        for typed in (half, text) if number % 2 else (text,):
            await room.note(ARRIVING[2], Asked(typed, *at), visitor.choose("text", typed))
    except ConnectionError:
        room.doomed.add(number)
    beat = time.perf_counter()
    while not room.over:
        beat = max(beat + BEAT, time.perf_counter())
        await asyncio.sleep(beat - time.perf_counter())
        which = draw.randrange(2)
        at[which] = draw.choice([n for n in range(1, (LAYERS, HEADS)[which] + 1) if n != at[which]])
        try:
            if number in room.doomed:
                room.doomed.discard(number)
                await disappear(visitor, at[1])
                visitor = Visitor(room.port)
                link = {"text": text, "layer": str(at[0]), "head": str(at[1])}
                await room.note(BACK, Asked(text, *at), visitor.open("sentence", **link))
            else:
                change = visitor.pick("heads", "picked", at[1] - 1) if which else visitor.choose("layer", at[0])
                await room.note(CHANGE, Asked(text, *at), change)
        except ConnectionError:
            room.doomed.add(number)
    await visitor.leave()


async def disappear(visitor: Visitor, head: int) -> None:
    """Ask for a head, and be gone before the answer; a tab that is gone already is gone."""
    try:
        await visitor.vanish("heads", "picked", head - 1)
    except GONE:
        return


async def kill(room: Room) -> None:
    """Let a tenth of the tabs vanish every second."""
    draw = random.Random(0)
    while True:
        room.doomed |= set(draw.sample(range(room.sessions), max(1, room.sessions // 10)))
        await asyncio.sleep(1)


async def paste(room: Room) -> None:
    """Paste 10,000 words, and other ones whenever these are there."""
    draw, words = random.Random(0), [*NAMES, *THINGS, *PLACES, *TEACHERS.split()]
    await misbehave(room, lambda visitor, _: visitor.choose("text", " ".join(draw.choices(words, k=WORDS))))


async def switch(room: Room) -> None:
    """Go to and fro between the two models, with a new sentence each time."""

    async def another(visitor: Visitor, turn: int) -> Answer:
        await visitor.choose("text", sentence_of(999 - turn))
        return await visitor.choose("model", 1 - turn % 2)

    await misbehave(room, another)


async def map_long(room: Room) -> None:
    """Send a long text through SmolLM2, as its page does it, and another one when its map is there."""
    draw, words = random.Random(0), [*NAMES, *THINGS, *PLACES, *TEACHERS.split()]

    async def another(visitor: Visitor, _: int) -> Answer:
        first = await visitor.choose("passage", " ".join(draw.choices(words, k=LONG)))
        return await visitor.watch() or first

    await misbehave(room, another, "long_text", "long_map", model="smollm2")


async def misbehave(
    room: Room,
    what: Callable[[Visitor, int], Awaitable[Answer]],
    page: str = "sentence",
    view: str = "heatmap",
    **link: str,
) -> None:
    """Do something expensive again and again, every two seconds or as soon as it is done."""
    visitor, turn, phase = Visitor(room.port), 0, room.phase
    await visitor.open(page, **link)
    while True:
        start = time.perf_counter()
        await room.note(CULPRIT, None, what(visitor, turn), view, phase)
        turn += 1
        await asyncio.sleep(max(0, start + BEAT - time.perf_counter()))


async def weigh(server: Server, taken: list[int]) -> None:
    """Weigh the server every second."""
    while True:
        taken.append(server.memory)
        await asyncio.sleep(1)


async def teach(server: Server, room: Room, seconds: float, faults: float, taken: list[int]) -> tuple[float, float]:
    """Hold the class, then the faults; return how many cores the server and this process took in the class."""
    teacher = Visitor(room.port)
    await room.note(FIRST_VISIT, None, teacher.open(), view="token_links")
    scale = asyncio.create_task(weigh(server, taken))
    people = [asyncio.create_task(attend(room, number)) for number in range(room.sessions)]
    own, start = psutil.Process(), time.perf_counter()
    before = [sum(process.cpu_times()[:2]) for process in (server.process, own)]
    await asyncio.sleep(seconds)
    spent = time.perf_counter() - start
    shares = [
        (sum(process.cpu_times()[:2]) - was) / spent for process, was in zip((server.process, own), before, strict=True)
    ]
    for phase, fault in ((KILLED, kill), (PASTED, paste), (SWITCHED, switch), (MAPPED, map_long)) if faults else ():
        room.phase = phase
        task = asyncio.create_task(fault(room))
        await asyncio.sleep(faults)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    room.over = True
    await teacher.leave()
    await asyncio.gather(*people)
    taken.append(server.memory)
    scale.cancel()
    return shares[0], shares[1]


def wrong_pictures(pictures: dict[Asked, bytes]) -> int:
    """Return how many pictures do not have the weights of their head (to a thousandth), or not its tokens."""
    from attention_core import compute

    count = 0
    for (text, layer, head), block in pictures.items():
        meta, arrays = unpack(block)
        view = compute.run(compute.view, "minilm", text, 512, layer - 1, head - 1, "token", "shown")
        same = arrays["weights"].shape == view.weights.shape and tuple(meta["queries"]) == tuple(view.queries)
        count += not (same and abs(arrays["weights"] - view.weights).max() < 1e-3)
    return count


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that so large a share of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def line(name: str, done: Sequence[Done], bound: float | None = None) -> str:
    """Return one line of the table of times."""
    good = [one for one in done if not one.wrong]
    if not good:
        return f"| {name} | {len(done)} | {len(done)} |" + " |" * 9
    times = [
        f"{percentile([getattr(one, which) for one in good], share):.2f}"
        for which in ("picture", "finished")
        for share in (0.5, 0.95, 0.99)
    ]
    sent = percentile([one.sent for one in good], 0.5) / 1000
    before = f"{sum(one.before for one in good) / len(good):.0%}" if name.endswith(CHANGE) else ""
    target = f"p95 ≤ {bound:g}: {percentile([one.picture for one in good], 0.95) / bound:.2f} ×" if bound else ""
    cells = [name, len(done), len(done) - len(good), *times, f"{sent:,.0f}", before, target]
    return "| " + " | ".join(map(str, cells)) + " |"


def memory_line(taken: Sequence[int], seconds: float) -> str:
    """Return the line of the table of memory; the server is weighed every second."""
    at = [0, ARRIVAL + BEAT, 60, seconds / 2, seconds - 1, len(taken) - 1]
    cells = [
        taken[min(int(second), len(taken) - 1)] if second <= seconds or n == 5 else 0 for n, second in enumerate(at)
    ]
    return "| " + " | ".join(f"{cell / 2**20:,.0f}" if cell else "–" for cell in [*cells, max(taken)]) + " |"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=180, help="how long the class is undisturbed")
    parser.add_argument("--faults", type=float, default=30, help="how long each fault lasts; 0 for none")
    parser.add_argument("--quick", action="store_true", help="ten people, ten seconds, five seconds a fault")
    args = parser.parse_args()
    if args.quick:
        args.sessions, args.seconds, args.faults = 10, 15, 5

    taken: list[int] = []
    with served() as server:
        room = Room(server.port, args.sessions)
        theirs, own = asyncio.run(teach(server, room, args.seconds, args.faults, taken))
        tracebacks = server.complaints
    head = "picture p50 | p95 | p99 | finished p50 | p95 | p99"
    print(
        f"{args.sessions} people for {args.seconds:g} s, then {args.faults:g} s a fault. Seconds; kB to each browser.\n"
    )
    print(f"| what | actions | errors | {head} | kB an action | asked before | target, of it |")
    print("|---|" + "---:|" * 10 + "---|")
    for what in (FIRST_VISIT, *ARRIVING):
        print(line(f"arriving: {what}", room.times(CLASS, what)))
    for phase, bound in BOUNDS.items():
        if done := room.times(phase, CHANGE):
            print(line(f"{phase}: {CHANGE}", done, bound))
        for what in (BACK, CULPRIT):
            if done := room.times(phase, what):
                print(line(f"{phase}: {what}", done))
    print("\n| server memory, MiB: ready | everybody there | after a minute | middle | end | after the faults | most |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    print(memory_line(taken, args.seconds))
    wrong, load = wrong_pictures(room.pictures), os.getloadavg()[0]
    print(f"\nDifferent pictures: {len(room.pictures)}, of them wrong: {wrong}. Tracebacks in the log: {tracebacks}.")
    print(
        f"In the class the server took {theirs:.2f} cores of {os.cpu_count()}, "
        f"{1000 * theirs * args.seconds / len(room.times(CLASS, *ARRIVING, CHANGE)):.0f} ms of one an action, and this "
        f"driver {own:.2f}; load of the whole machine at the end: {load:.1f}."
    )
    for complaint in sorted(set(room.complaints))[:5]:
        print(f"- {room.complaints.count(complaint)} × {complaint[:200]}")


if __name__ == "__main__":
    main()
