"""What a host can set: every ``GAZE_*`` variable of the environment, with its meaning, its bounds and its default.

A value that makes no sense is reported once, and the default used; of the public mode, what keeps the host safe.
``make config`` prints what holds.
"""

import logging
import os
import sys
from functools import cache, lru_cache

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX = "GAZE_"
SAFE = {"public": True}  # in place of the default, where what is told makes no sense


class Settings(BaseSettings):
    """What holds; a field is the variable of its name in capitals, after ``GAZE_``."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True, str_strip_whitespace=True
    )

    device: str = Field(
        "",
        pattern=r"^([a-z]+(:\d+)?)?$",
        description="cuda, mps or cpu; auto splits a large model over all GPUs, CPU and disk; unset: the first of them",
    )
    max_memory: str = Field("", description="bounds for auto, such as 0=10GiB,cpu=20GiB; unset: what is free")
    max_tokens: int = Field(512, ge=3, description="how many tokens of a text are shown")
    max_long_tokens: int = Field(32_768, ge=3, description="how many tokens of a long text are read")
    long_mb: float = Field(1024, gt=0, allow_inf_nan=False, description="memory for long texts, in MiB")
    models_dir: str = Field("", description="a folder with models of your own: folders and .gguf files")
    models: int = Field(1, ge=1, description="how many models beside the embedded two stay in memory")
    models_allowed: str = Field(
        "", description="which models there are beside the embedded two, as names with commas between; unset: all"
    )
    max_model_mb: float = Field(4000, gt=0, allow_inf_nan=False, description="the largest model that is fetched, in MB")
    max_upload_mb: int = Field(5, ge=1, le=200, description="the largest file that a visitor may give, in MB")
    public: bool = Field(
        False, description="1: for anybody on a network: no hub, no folders of own models, no files from visitors"
    )
    cache_dir: str = Field("", description="where converted models are kept (0.5 GB); unset: gaze in the user's cache")
    cache_mb: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="memory for what was computed, on each device, in MiB; unset: a quarter of what is free",
    )
    threads: int | None = Field(None, ge=1, description="torch's threads; unset: half the cores")
    log_text: bool = Field(False, description="1: the log may show what visitors typed")

    @property
    def allowed(self) -> frozenset[str]:
        """The names in ``GAZE_MODELS_ALLOWED``; empty, too, where it is unset."""
        return frozenset(name.strip() for name in self.models_allowed.split(",") if name.strip())

    def allows(self, model: str) -> bool:
        """Return whether a model, if it is here, may be shown; the embedded ones always may."""
        return not self.models_allowed or model in self.allowed

    def fetches(self, model: str) -> bool:
        """Return whether a model may be fetched from the hub."""
        return not self.public and self.allows(model)


def settings() -> Settings:
    """Return what the environment says now."""
    return _read(tuple((name, told) for name, told in os.environ.items() if name.upper().startswith(PREFIX)))


@lru_cache(maxsize=8)
def _read(told: tuple[tuple[str, str], ...]) -> Settings:
    try:
        return Settings()
    except ValidationError as error:
        wrong = {str(one["loc"][0]): one for one in error.errors()}
        instead = {field: SAFE.get(field, Settings.model_fields[field].default) for field in wrong}
        for field, one in wrong.items():
            _report(_variable(field), str(one["input"]), one["msg"], str(instead[field]))
        return Settings(**instead)  # what is given goes before the environment


@cache
def _report(name: str, told: str, reason: str, instead: str) -> None:
    reason = reason[:1].lower() + reason[1:]
    usual = "using the default" if instead in ("", "None") else f"using {instead}"
    logging.getLogger(__name__).warning("%s=%s makes no sense (%s); %s", name, told, reason, usual)


def _variable(field: str) -> str:
    return f"{PREFIX}{field.upper()}"


def table() -> str:
    """Return every variable with its value, whether that is the default, and what it means."""
    holds, rows = settings(), []
    for field, about in Settings.model_fields.items():
        value = getattr(holds, field)
        shown = "unset" if value in ("", None) else f"{value:g}" if isinstance(value, float) else str(value)
        usual = "" if value == about.default else "  (set)"
        rows += [f"{_variable(field)} = {shown}{usual}", f"    {about.description}"]
    return "\n".join(rows)


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s")
    sys.stdout.write(f"{table()}\n")
