"""The fingerprint of the C sources, which ties the compiled library to them.

setup.py compiles it into the library, and `library.py` compares it with the files that are installed. Only the standard
library is imported here: setup.py runs this file by its path.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

FOLDER = Path(__file__).parent


def fingerprint(folder: Path = FOLDER) -> str:
    """Hash the names and contents of the C files of a folder, as a C identifier; empty if there are none."""
    files = sorted([*folder.glob("*.c"), *folder.glob("*.h")])
    digest = blake2b(digest_size=16)
    for file in files:
        content = file.read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{file.name} {len(content)}\n".encode() + content)
    return f"source_{digest.hexdigest()}" if files else ""
