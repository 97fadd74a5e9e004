"""A server on a free port, for browser tests."""

import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[2]


def serve(script, *options):
    """Start Streamlit on a free port; return its address and the process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", script, f"--server.port={port}", "--server.headless=true"]
    process = subprocess.Popen([*command, "--server.address=127.0.0.1", *options], cwd=ROOT)
    address = f"http://127.0.0.1:{port}"
    for _ in range(240):
        try:
            urllib.request.urlopen(f"{address}/_stcore/health", timeout=1).close()
            return address, process
        except OSError:
            time.sleep(0.5)
    process.kill()
    raise RuntimeError("the server did not start")
