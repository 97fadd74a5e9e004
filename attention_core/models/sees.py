"""Which models see: told by what config.json says, without loading anything, so that any page may ask.

One stands beside the app, ``assets/pictures/tiny_vit``: trained on drawn shapes by the script there, so that something
can be seen without a network. The others are those of the catalogue whose config.json names a model of pictures.
"""

import json
from functools import cache, lru_cache
from pathlib import Path

from attention_core.errors import ModelError
from attention_core.models.catalogue import offered, source
from attention_core.models.embedded import EMBEDDED

TINY = "tiny-vit"
TINY_TITLE = "Gaze ViT"
# Hub models that are known to see, by name, before anything of them is there to be read.
KNOWN = {
    "google/vit-base-patch16-224": "ViT-B/16",
    "facebook/deit-tiny-patch16-224": "DeiT tiny",
    "facebook/dinov2-small": "DINOv2 small",
    "facebook/dinov2-with-registers-small": "DINOv2 small with registers",
    "microsoft/swin-tiny-patch4-window7-224": "Swin tiny",
    "openai/clip-vit-base-patch32": "CLIP ViT-B/32",
    "google/siglip-base-patch16-224": "SigLIP base",
    "facebook/sam-vit-base": "SAM ViT-B",
}
MORE_THAN_PICTURES = {
    "perceiver",
    "shieldgemma2",
    "llama4",
    "mllama",
}  # the library lists them among models of pictures


def sees(name: str) -> bool:
    """Return whether an offered model looks at pictures; nothing is loaded, its config.json is read.

    A model that looks at pictures and reads (CLIP) counts as well: its attention is that of two models.
    """
    if name in (TINY, *KNOWN):
        return True
    if name in EMBEDDED:
        return False
    from huggingface_hub import try_to_load_from_cache

    try:
        place = source(name)
        config = Path(place) / "config.json"
        if not config.is_file():
            config = Path(try_to_load_from_cache(place, "config.json") or "")
        return _looks_at_pictures(str(config), config.stat().st_mtime_ns)
    except (OSError, ValueError, TypeError, AttributeError, ModelError):
        return False


def that_see() -> dict[str, str]:
    """Return the title of each model that sees by its name: Gaze's own first, then those that are offered."""
    return {TINY: TINY_TITLE} | {name: title for name, title in offered().items() if name != TINY and sees(name)}


def that_read() -> dict[str, str]:
    """Return the title of each offered model that reads by its name."""
    return {name: title for name, title in offered().items() if not sees(name)}


@lru_cache(maxsize=256)
def _looks_at_pictures(config: str, changed: int) -> bool:
    kind = json.loads(Path(config).read_text(encoding="utf-8")).get("model_type", "")
    return kind in _kinds() or kind.endswith("vision_model")


@cache
def _kinds() -> frozenset[str]:
    from transformers.models.auto import modeling_auto as auto

    listed = (
        auto.MODEL_FOR_IMAGE_MAPPING_NAMES,
        auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES,
        auto.MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING_NAMES,
        auto.MODEL_FOR_MASKED_IMAGE_MODELING_MAPPING_NAMES,
    )
    return frozenset({kind for names in listed for kind in names} | {"sam", "sam_hq"}) - MORE_THAN_PICTURES
