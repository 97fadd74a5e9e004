"""A small hub on this machine, for tests: it serves folders as the real one does, and can be slow, strict, or die."""

import hashlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

REVISION = "0123456789abcdef0123456789abcdef01234567"


class FakeHub:
    """Serves ``models``, folders by name.

    What may be set while it runs: ``slow``, seconds a piece takes; ``die_after``, bytes until a connection is cut;
    ``gated``, names that answer 403; ``lie``, names whose weights are not those announced. ``log`` has what was asked.
    """

    PIECE = 2**12

    def __init__(self):
        self.models: dict[str, Path] = {}
        self.slow, self.die_after, self.gated, self.lie = 0.0, None, set(), set()
        self.log: list[tuple[str, str, str | None]] = []
        self.open = threading.Event()  # cleared, weights wait
        self.open.set()
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                hub.answer(self, body=False)

            def do_GET(self):
                hub.answer(self, body=True)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.open.set()
        self.server.shutdown()
        self.server.server_close()

    def answer(self, request, *, body):
        path = unquote(urlsplit(request.path).path).lstrip("/")
        self.log.append((request.command, path, request.headers.get("Range")))
        if path.startswith("api/models/"):
            name = path.removeprefix("api/models/").partition("/revision/")[0]
            if name not in self.models:
                return self.refuse(request, 401, "RepoNotFound")
            return self.send(request, 200, json.dumps(self.about(name)).encode(), {}, body=body)
        name, found, rest = path.partition("/resolve/")
        file = self.models.get(name, Path("/nonexistent")) / rest.partition("/")[2]
        if not found or name not in self.models:
            return self.refuse(request, 401, "RepoNotFound")
        if name in self.gated:
            return self.refuse(request, 403, "GatedRepo")
        if not file.is_file():
            return self.refuse(request, 404, "EntryNotFound")
        data = file.read_bytes()
        headers = {"X-Repo-Commit": REVISION, "ETag": f'"{hashlib.sha256(data).hexdigest()}"'}
        if name in self.lie and file.suffix == ".safetensors":
            data = data[:-1] + bytes([data[-1] ^ 1])
        start = request.headers.get("Range")
        if start and body:
            first = int(start.removeprefix("bytes=").partition("-")[0])
            headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
            return self.send(request, 206, data[first:], headers, body=body, slow=True)
        return self.send(request, 200, data, headers, body=body, slow=file.suffix == ".safetensors")

    def about(self, name):
        siblings = []
        for file in sorted(self.models[name].iterdir()):
            data = file.read_bytes()
            told = {"rfilename": file.name, "size": len(data), "blobId": hashlib.sha1(data).hexdigest()}
            if file.suffix in (".safetensors", ".bin"):
                told["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
            siblings.append(told)
        gated = "manual" if name in self.gated else False
        return {"id": name, "sha": REVISION, "siblings": siblings, "gated": gated, "cardData": {"license": "mit"}}

    def refuse(self, request, status, code):
        self.send(request, status, b"", {"X-Error-Code": code}, body=True)

    def send(self, request, status, data, headers, *, body, slow=False):
        request.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(data))}.items():
            request.send_header(key, value)
        request.end_headers()
        if not body:
            return
        if not slow:
            request.wfile.write(data)
            return
        for start in range(0, len(data), self.PIECE):
            if self.die_after is not None and start >= self.die_after:
                request.close_connection = True
                request.connection.close()
                return
            self.open.wait(30)
            time.sleep(self.slow)
            try:
                request.wfile.write(data[start : start + self.PIECE])
            except OSError:  # nobody reads any more
                return
