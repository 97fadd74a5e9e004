"""Loading a model that sees, with what prepares its pictures: its own resizing, cropping and normalising."""

from dataclasses import dataclass
from pathlib import Path

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModel,
    AutoModelForImageClassification,
    BitImageProcessorPil,
    PreTrainedModel,
    ViTImageProcessorPil,
)
from transformers import BaseImageProcessor as Processor

from attention_core.errors import FilesBroken, FolderBroken, ModelHidden
from attention_core.models import hub
from attention_core.models.catalogue import offered, source
from attention_core.models.loading import _reason, best_device
from attention_core.models.sees import TINY, TINY_TITLE

TINY_FOLDER = Path(__file__).parents[2] / "assets" / "pictures" / "tiny_vit"
PREPARING = ("size", "crop_size", "resample", "image_mean", "image_std", "rescale_factor")
PREPARING += ("do_resize", "do_center_crop", "do_rescale", "do_normalize")
VISION_PARTS = ("vision_model", "vision_encoder", "vision_tower")


@dataclass(frozen=True)
class SeeingModel:
    """A model that sees, in memory.

    Attributes:
        name: What it was asked for by.
        title: What people call it.
        module: The model, or the part of it that sees; in evaluation mode.
        processor: What makes pixels of a picture, with the model's own resizing, cropping and normalising.
        pretrained: False where weights that attention rests on were not among the files, and so are random.
        own_processor: False where the library has the model's own preparation for torchvision only: then the picture is
            resized, cropped and normalised by the same numbers, from preprocessor_config.json, but by PIL.
    """

    name: str
    title: str
    module: PreTrainedModel
    processor: Processor
    pretrained: bool
    own_processor: bool = True


def load_seeing(name: str, device: torch.device | str | None = None) -> SeeingModel:
    """Load a model that sees.

    Args:
        name: ``tiny-vit``, an offered model's name, the path of a folder, or the name of a model on the hub.
        device: Where to; by default that of :func:`attention_core.models.loading.best_device`.

    Returns:
        The model, in the precision in which it is stored. Its processor works on PIL and NumPy alone.

    Raises:
        FolderBroken: If its files are not there or can't be read.
        FilesBroken: If what was fetched from the hub can't be read.
        ModelUnknown: If there is no such model on the hub, or it can't be fetched.
        ModelHidden: If it is none that looks at pictures.
    """
    device = best_device() if device is None else torch.device(device)
    place = TINY_FOLDER if name == TINY else Path(source(name) if name in offered() else name)
    title = TINY_TITLE if name == TINY else place.name
    if fetched := not place.is_dir():
        place = hub.cached(name) or hub.download(name)
    if not (place / "preprocessor_config.json").is_file():
        reason = "there is no preprocessor_config.json, which says how it wants its pictures"
        raise FolderBroken(title, reason, "put config.json, preprocessor_config.json and model.safetensors there")
    options = {"local_files_only": True, "trust_remote_code": False}
    try:
        config = AutoConfig.from_pretrained(place, **options)
        processor, own = _processor(place, options)
        classes = any(kind.endswith("ForImageClassification") for kind in config.architectures or [])
        # SAM chooses its attention when it is made and knows only the library's; capturing sets Gaze's for all others.
        module, report = (AutoModelForImageClassification if classes else AutoModel).from_pretrained(
            place, config=config, dtype="auto", use_safetensors=True, output_loading_info=True, **options
        )
    except (OSError, ValueError, ImportError, KeyError, RuntimeError, StrictDataclassError, SafetensorError) as error:
        reason = _reason(error).replace(str(place), title)
        if fetched:
            raise FilesBroken(title, reason, "get it again") from error
        raise FolderBroken(
            title, reason, "put config.json, preprocessor_config.json and model.safetensors there"
        ) from error
    if module.main_input_name != "pixel_values" or _both(module):
        parts = [getattr(module, part) for part in VISION_PARTS if hasattr(module, part)]
        if not parts:
            raise ModelHidden(title, f"{type(module).__name__} does not look at pictures alone", "choose another model")
        module = parts[0]
    missing = [key for key in report["missing_keys"] if not any(p in key for p in ("pooler", "head", "classifier"))]
    return SeeingModel(name, title, module.to(device).eval(), processor, not missing, own)


def _processor(place: Path | str, options: dict[str, bool]) -> tuple[Processor, bool]:
    """Return what prepares a model's pictures, and whether it is the model's own."""
    told, _ = Processor.get_image_processor_dict(place, **options)  # one that is missing is an error of its own
    try:
        return AutoImageProcessor.from_pretrained(place, backend="pil", **options), True
    except (ImportError, ValueError):
        if not isinstance(size := told.get("size"), dict):
            raise
        plain = {name: told[name] for name in PREPARING if told.get(name) is not None}
        return (BitImageProcessorPil if "shortest_edge" in size else ViTImageProcessorPil)(**plain), False


def _both(module: PreTrainedModel) -> bool:
    return any(hasattr(module, part) for part in ("text_model", "language_model", "mask_decoder"))
