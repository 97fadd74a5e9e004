"""A server of its own for a benchmark: started by the command people use, timed, weighed, stopped."""

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
PATIENCE = 120  # seconds


@dataclass(frozen=True)
class Server:
    """A server that answers.

    Attributes:
        port: Where, on loopback.
        ready: Seconds from the command to the first health check that was answered.
        process: The process, without the children that convert models.
        log: What it prints.
    """

    port: int
    ready: float
    process: psutil.Process
    log: Path

    @property
    def address(self) -> str:
        """The address for a browser."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def memory(self) -> int:
        """Resident bytes."""
        return self.process.memory_info().rss

    @property
    def complaints(self) -> int:
        """How many tracebacks it has printed."""
        return self.log.read_text(errors="replace").count("Traceback (most recent call last)")


@contextmanager
def served(**settings: str) -> Iterator[Server]:
    """Start the app on a free port, wait until it answers, and end it afterwards.

    Args:
        settings: Variables of its environment beside those of this process.

    Raises:
        RuntimeError: If it ends early, or does not answer in two minutes.
    """
    port = free_port()
    options = [
        f"--server.port={port}",
        "--server.headless=true",
        "--server.address=127.0.0.1",
        "--logger.enableRich=false",
    ]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("w") as printed:
            start = time.perf_counter()
            process = subprocess.Popen(
                [sys.executable, "-m", "streamlit", "run", "serve.py", *options],
                cwd=ROOT,
                env=os.environ | settings,
                stdout=printed,
                stderr=subprocess.STDOUT,
            )
            try:
                while not healthy(port):
                    if process.poll() is not None or time.perf_counter() - start > PATIENCE:
                        raise RuntimeError(f"the server did not start: {log.read_text(errors='replace')[-2000:]}")
                    time.sleep(0.01)
                ready = time.perf_counter() - start
                yield Server(port, ready, psutil.Process(process.pid), log)
            finally:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def healthy(port: int) -> bool:
    """Return whether the health check is answered."""
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        asked.request("GET", "/_stcore/health")
        return asked.getresponse().status == 200
    except OSError:
        return False
    finally:
        asked.close()


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
