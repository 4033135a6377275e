"""The picture of a run's curves, drawn now and then while it trains."""

from __future__ import annotations

import time

from weft.runs.folder import RunFolder

SECONDS_BETWEEN_PICTURES = 30.0  # a picture takes as long as many steps of a small model


class Curves:
    """Draws RUN/curves.png; when called, only if the last picture is old enough."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder, self._drawn = folder, time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self._drawn >= SECONDS_BETWEEN_PICTURES:
            self.draw()
            self._drawn = time.monotonic()

    def draw(self) -> None:
        from weft.look.curves import draw_curves  # matplotlib takes half a second to load

        name, members = self._folder.path.name, self._folder.read_spec().train.members
        title = f"{name}: model 1 of {members}" if members > 1 else name
        draw_curves(self._folder.log, self._folder.path / "curves.png", title)
