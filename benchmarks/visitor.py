"""A visitor without a browser: what a tab says to the server and hears from it, over a real WebSocket.

As in Streamlit's own frontend, what a visitor has chosen is said again with every action; messages of the last two runs
are kept and named, so that the server need not send them again; and a widget that the server sets forgets what was
chosen.
"""

import asyncio
import json
import math
import struct
import time
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

import numpy as np
import websockets
from google.protobuf.message import Message
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Delta_pb2 import Delta
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState

PATIENCE = 60.0  # seconds until an answer counts as none
DONE = (ForwardMsg.FINISHED_SUCCESSFULLY, ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY)
ERROR_BOX = 1  # Alert.Format.ERROR
NAN = 65535  # in 16 bits
BITS = {"f4": 32, "i4": 32, "u2": 16, "u1": 8, "b1": 1}
WIDGETS = ("slider", "text_input", "text_area", "button_group", "checkbox", "bidi_component")


@dataclass(frozen=True)
class Answer:
    """What came back after an action.

    Attributes:
        finished: Seconds until the script had finished.
        came: Seconds until each of our views was there, by its name.
        data: The block of bytes that each of our views got, by its name.
        sent: Bytes on the wire.
        code: Of them, JavaScript, CSS and HTML of each of our views that was drawn anew.
        arrays: Of them, the block of bytes of each of these.
        deflated: Bytes on the wire if the server compressed them (permessage-deflate).
        wrong: What the page complained about.
    """

    finished: float
    came: Mapping[str, float]
    data: Mapping[str, bytes]
    sent: int
    code: Mapping[str, int]
    arrays: Mapping[str, int]
    deflated: int
    wrong: tuple[str, ...]


@dataclass
class Hearing:
    """What has come so far."""

    came: dict[str, float] = field(default_factory=dict)
    data: dict[str, bytes] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    sent: int = 0
    code: Counter[str] = field(default_factory=Counter)
    arrays: Counter[str] = field(default_factory=Counter)
    deflated: int = 0


class Visitor:
    """One tab. Every action waits for its answer."""

    def __init__(self, port: int, *, deflate: bool = False) -> None:
        self.port = port
        self.widgets: dict[str, Message] = {}  # by key, as last drawn
        self._pages: dict[str, str] = {}
        self._fragments: dict[str, str] = {}  # by a widget's id, where it redraws a part of the page alone
        self._chosen: dict[str, WidgetState] = {}  # by id
        self._kept: dict[str, tuple[int, ForwardMsg]] = {}  # by hash: the run that last used a message, and the message
        self._wire: websockets.ClientConnection | None = None
        self._run = 0
        self._query = self._page = self._hash = ""
        self._ticks: tuple[float, str] | None = None  # a part of the page that asks to be redrawn: how often, and which
        self._deflate = zlib.compressobj(wbits=-15) if deflate else None

    async def open(self, page: str = "", **query: str) -> Answer:
        """Open a page by its link, in a new tab."""
        self._wire = await websockets.connect(
            f"ws://127.0.0.1:{self.port}/_stcore/stream",
            subprotocols=["streamlit"],
            max_size=None,
            max_queue=None,
            open_timeout=PATIENCE,
            ping_interval=None,
        )
        self._page, self._query = page, urlencode(query)
        return await self._ask()

    async def follow(self, page: str) -> Answer:
        """Follow the menu to another page."""
        self._hash, self._query = self._pages[page], ""
        self.widgets.clear()
        self._chosen.clear()
        return await self._ask()

    async def choose(self, key: str, value: object) -> Answer:
        """Set a control: a number for a slider, a text, a place in a row of buttons, a switch; or a list of them."""
        self._note(key, value)
        return await self._ask(within=self._fragments.get(self.widgets[key].id, ""))

    async def pick(self, key: str, event: str, value: object) -> Answer:
        """Fire an event of one of our views."""
        return await self._ask(self._event(key, event, value), within=self._fragments.get(self.widgets[key].id, ""))

    async def watch(self) -> Answer | None:
        """Let a part of the page that redraws itself do so until it has nothing more to do; return the last answer."""
        answer = None
        while self._ticks:
            every, part = self._ticks
            await asyncio.sleep(every)
            answer = await self._ask(within=part, alone=True)
        return answer

    async def leave(self) -> None:
        """Close the tab, if it is open."""
        if self._wire:
            await self._wire.close()

    async def vanish(self, key: str, event: str, value: object) -> None:
        """Fire an event, and be gone before the answer: no farewell, as where a network fails."""
        if not self._wire:
            return
        await self._wire.send(self._request(self._event(key, event, value)))
        self._wire.transport.abort()

    def _note(self, key: str, value: object) -> None:
        widget = self.widgets[key]
        state, values = WidgetState(id=widget.id), value if isinstance(value, list) else [value]
        if isinstance(value, bool):
            state.bool_value = value
        elif isinstance(value, str):
            state.string_value = value
        elif widget.DESCRIPTOR.name == "ButtonGroup":
            state.string_array_value.data.extend(widget.options[place].content for place in values)
        else:
            state.double_array_value.data.extend(values)
        self._chosen[widget.id] = state

    def _event(self, key: str, event: str, value: object) -> WidgetState:
        said = json.dumps([{"event": event, "value": value}])
        return WidgetState(id=f"$$STREAMLIT_INTERNAL_KEY_{self.widgets[key].id}__events", json_trigger_value=said)

    def _request(self, *events: WidgetState, within: str = "", alone: bool = False) -> bytes:
        message = BackMsg()
        asked = message.rerun_script
        asked.fragment_id, asked.is_auto_rerun = within, alone
        asked.query_string, asked.page_script_hash = self._query, self._hash
        asked.page_name = "" if self._hash else self._page
        asked.widget_states.widgets.extend([*self._chosen.values(), *events])
        asked.cached_message_hashes.extend(self._kept)
        asked.context_info.locale, asked.context_info.timezone = "en-US", "UTC"
        asked.context_info.url = f"http://127.0.0.1:{self.port}/{self._page}"
        return message.SerializeToString()

    async def _ask(self, *events: WidgetState, within: str = "", alone: bool = False) -> Answer:
        start, heard = time.perf_counter(), Hearing()
        await self._wire.send(self._request(*events, within=within, alone=alone))
        ticks = None
        async with asyncio.timeout(PATIENCE):
            while True:
                raw = await self._wire.recv()
                now = time.perf_counter() - start
                heard.sent += len(raw)
                if self._deflate:
                    packed = self._deflate.compress(raw) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
                    heard.deflated += len(packed) - 4  # the empty block at the end does not travel
                message = ForwardMsg.FromString(raw)
                kind = message.WhichOneof("type")
                if kind == "ref_hash":
                    self._element(self._again(message.ref_hash), heard, now, sent=False)
                elif kind == "delta" and message.delta.WhichOneof("type") == "new_element":
                    if message.metadata.cacheable:
                        self._kept[message.hash] = self._run, message
                    self._element(message.delta, heard, now, sent=True)
                elif kind == "navigation":
                    self._hash = message.navigation.page_script_hash
                    self._pages |= {page.url_pathname: page.page_script_hash for page in message.navigation.app_pages}
                elif kind == "new_session":
                    ticks = None
                elif kind == "auto_rerun":
                    ticks = message.auto_rerun.interval, message.auto_rerun.fragment_id
                elif kind == "page_info_changed":
                    self._query = message.page_info_changed.query_string
                elif kind == "script_finished" and message.script_finished in DONE:
                    if ticks or message.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY:
                        self._ticks = ticks
                    break
                elif kind == "script_finished" and message.script_finished == ForwardMsg.FINISHED_WITH_COMPILE_ERROR:
                    raise RuntimeError("the page's script can't be compiled")
        self._run += 1
        self._kept = {name: (run, what) for name, (run, what) in self._kept.items() if run > self._run - 3}
        return Answer(
            now, heard.came, heard.data, heard.sent, heard.code, heard.arrays, heard.deflated, (*heard.wrong,)
        )

    def _again(self, name: str) -> Delta:
        _, message = self._kept[name]
        self._kept[name] = self._run, message
        return message.delta

    def _element(self, delta: Delta, heard: Hearing, now: float, *, sent: bool) -> None:
        element = delta.new_element
        kind = element.WhichOneof("type")
        body = getattr(element, kind) if kind else None
        if kind in WIDGETS:
            self.widgets[body.id.split("-", 2)[-1]] = body
            self._fragments[body.id] = delta.fragment_id
            if getattr(body, "set_value", False):
                self._chosen.pop(body.id, None)
        if kind == "bidi_component":
            name = body.component_name.removeprefix("gaze.")
            heard.came[name], heard.data[name] = now, body.bytes
            if sent:
                code = (body.js_content, body.css_content, body.html_content)
                heard.code[name] += sum(len(part.encode()) for part in code)
                heard.arrays[name] += len(body.bytes)
        elif kind == "exception":
            heard.wrong.append(body.message)
        elif kind == "alert" and body.format == ERROR_BOX:
            heard.wrong.append(body.body)


def unpack(block: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    """Return the words and the numbers that one of our views was sent: the other side of ``ui.components.payload``."""
    told, start = _header(block)
    arrays = {}
    for name, one in told["arrays"].items():
        count = math.prod(one["shape"])
        if one["dtype"] == "b1":
            bits = np.frombuffer(block, np.uint8, -(-count // 8), start + one["offset"])
            array = np.unpackbits(bits, count=count, bitorder="little").astype(bool)
        else:
            array = np.frombuffer(block, f"<{one['dtype']}", count, start + one["offset"])
        if "step" in one:
            array = np.where(array == NAN, np.nan, one["low"] + array * one["step"]).astype(np.float32)
        arrays[name] = array.reshape(one["shape"])
    return told["meta"], arrays


def sizes(block: bytes) -> dict[str, tuple[int, int]]:
    """Return how many bytes each array in it has, and in how many bits a number travels."""
    return {
        name: (-(-math.prod(one["shape"]) * BITS[one["dtype"]] // 8), BITS[one["dtype"]])
        for name, one in _header(block)[0]["arrays"].items()
    }


def _header(block: bytes) -> tuple[dict, int]:
    (length,) = struct.unpack_from("<I", block)
    return json.loads(block[4 : 4 + length]), 4 + length
