"""Convert models ahead of time: ``python -m attention_core.models.prepare``, for the embedded ones or those named."""

import sys
from pathlib import Path

from attention_core.models.catalogue import source
from attention_core.models.embedded import EMBEDDED, converted_folder, published_file
from attention_core.models.optional import OPTIONAL, optional_folder

if __name__ == "__main__":
    for name in sys.argv[1:] or EMBEDDED:
        path = optional_folder(name) if name in OPTIONAL else published_file(name) if name in EMBEDDED else source(name)
        place = converted_folder(Path(path)) if str(path).endswith(".gguf") else path
        sys.stdout.write(f"{name}: {place or 'the cache folder can not be written'}\n")
