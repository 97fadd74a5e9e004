"""Serves the app as `streamlit run app.py` does, and loads libraries and the usual model before anybody comes."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from threading import Thread

import streamlit as st

from attention_core import compute, job_log
from attention_core.errors import ModelError
from attention_core.models.catalogue import misnamed, offered


def warm() -> None:
    """Load what the first visitor would wait for; what can't be loaded is said to whoever asks for it."""
    job_log.show()
    for name in misnamed():
        logging.getLogger(__name__).warning("GAZE_MODELS_ALLOWED names %r: no model here has this name", name)
    compute.warm()
    usual = next(iter(offered()))
    compute.prepare(usual)
    with suppress(ModelError):
        compute.run(compute.open_model, usual)


@asynccontextmanager
async def lifespan(_app: st.App) -> AsyncIterator[None]:
    """Begin to load when the server starts; it answers meanwhile."""
    Thread(target=warm, daemon=True).start()
    yield


app = st.App("app.py", lifespan=lifespan)
