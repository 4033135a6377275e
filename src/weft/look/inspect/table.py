"""The views by name: one line each. A new view is a file with a `VIEW`, and a line here."""

from __future__ import annotations

from collections.abc import Sequence

from weft.core.errors import UserError, did_you_mean
from weft.look.inspect import (
    attention,
    beam,
    bottleneck,
    cells,
    errors,
    faithful,
    field,
    gradients,
    heads,
    neighbours,
    storage,
    surprise,
    what_if,
)
from weft.look.inspect.views import View

VIEWS: dict[str, View] = {
    view.name: view
    for view in (
        attention.VIEW,
        beam.VIEW,
        what_if.VIEW,
        surprise.VIEW,
        errors.VIEW,
        faithful.VIEW,
        heads.VIEW,
        gradients.VIEW,
        field.VIEW,
        cells.VIEW,
        neighbours.VIEW,
        bottleneck.VIEW,
        storage.VIEW,
    )
}
ALL = "all"


def find(names: Sequence[str]) -> list[View]:
    """Return the views of these names, each once."""
    for name in names:
        if name not in VIEWS and name != ALL:
            what = f"there is no view {name!r}; {did_you_mean(name, [*VIEWS, ALL])}"
            raise UserError(what, f"view {name}", "give names of views, separated by commas")
    return list(VIEWS.values()) if ALL in names else [VIEWS[name] for name in dict.fromkeys(names)]
