"""Convert the embedded models ahead of time: ``python -m attention_core.models.prepare``."""

import sys

from attention_core.models.embedded import EMBEDDED, converted_folder, published_file

if __name__ == "__main__":
    for name in EMBEDDED:
        path = published_file(name)
        place = converted_folder(path) if path.suffix == ".gguf" else path.parent
        sys.stdout.write(f"{name}: {place or 'the cache folder can not be written'}\n")
