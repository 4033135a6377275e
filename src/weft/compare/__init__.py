"""Compare settings: train every variant alike, score all on the same pairs, and rank them.

    weft.compare("pairs.tsv", vary={"decoder.cell": ["lstm", "gru"]}, budget="5m", out="cells")

This package can be called: the call is `weft.compare.compare.compare`, which is imported when it is first needed
because it loads torch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import Signature, signature
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.compare.compare import Compared


class _CallableModule(ModuleType):
    @property
    def __call__(self) -> Callable[..., Compared]:
        from weft.compare.compare import compare

        return compare

    @property
    def __signature__(self) -> Signature:
        """Show the arguments in notebooks and by `help`."""
        return signature(self.__call__)


sys.modules[__name__].__class__ = _CallableModule
