"""Weft: sequence-to-sequence learning for people with a file of pairs.

>>> import weft
>>> run = weft.train("pairs.tsv", budget="10m")   # doctest: +SKIP
>>> run.predict(["a source line"])                # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "Compared",
    "Evaluation",
    "Pair",
    "Prediction",
    "Predictions",
    "Run",
    "UserError",
    "WeftError",
    "__version__",
    "compare",
    "compare_settings",
    "load",
    "train",
]

if TYPE_CHECKING:
    from weft.api import Run, load, train
    from weft.compare.compare import Compared, compare, compare_settings
    from weft.core.errors import UserError, WeftError
    from weft.core.pair import Pair
    from weft.predict.predictions import Prediction, Predictions
    from weft.score.evaluation import Evaluation

_HOMES = {
    "train": "weft.api",
    "load": "weft.api",
    "Run": "weft.api",
    "Evaluation": "weft.score.evaluation",
    "compare_settings": "weft.compare.compare",
    "Compared": "weft.compare.compare",
    "Prediction": "weft.predict.predictions",
    "Predictions": "weft.predict.predictions",
    "Pair": "weft.core.pair",
    "UserError": "weft.core.errors",
    "WeftError": "weft.core.errors",
}


def __getattr__(name: str) -> Any:
    """Import on first use, so that `weft --help` does not wait for torch."""
    if name == "compare":  # the package, which can be called
        return import_module("weft.compare")
    if name not in _HOMES:
        raise AttributeError(f"module 'weft' has no attribute '{name}'")
    return import_module(_HOMES[name]).__dict__[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
