"""Pictures that are given in memory: an array is kept as a file, which cells can name."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from weft.core.errors import UserError
from weft.core.files import write_whole
from weft.data.cache import cache_root, digest_of
from weft.data.pictures.files import library


def keep_picture(value: Any, where: str) -> str:
    """Write an array to a file in the cache, and return its name.

    It is (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), in integers from 0 to 255 or floats from 0 to 1.
    """
    if not isinstance(value, np.ndarray) or not _is_picture(value):
        todo = "give the name of a file, or an array: (height, width) or (height, width, channels)"
        raise UserError("this is neither a file name nor a picture", where, todo)
    if value.dtype.kind == "f":
        value = np.clip(np.rint(255 * value), 0, 255)
    content = io.BytesIO()
    squeezed = value[:, :, 0] if value.ndim == 3 and value.shape[2] == 1 else value
    library(where).fromarray(squeezed.astype(np.uint8)).save(content, format="PNG")
    folder, data = cache_root() / "given", content.getvalue()
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{digest_of(data.hex())}.png"
    write_whole(folder, name, data)
    return str(folder / name)


def _is_picture(value: Any) -> bool:
    layout = value.ndim == 2 or (value.ndim == 3 and value.shape[2] in (1, 3, 4))
    if not layout or not value.size or value.dtype.kind not in "uif":
        return False
    return value.dtype.kind == "f" or bool(value.min() >= 0 and value.max() <= 255)
