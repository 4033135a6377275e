"""What the documents say is what the program does: the tour's blocks, the README's commands and settings."""

from __future__ import annotations

import contextlib
import functools
import io
import re
import shlex
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)


def without_fractions(text: str) -> str:
    """Digits after the point may differ between machines."""
    return re.sub(r"\d+\.\d+", "#", text)


def test_every_block_of_the_tour_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {}
    blocks = BLOCK.findall((ROOT / "docs/tour.md").read_text(encoding="utf-8"))
    assert len(blocks) > 8
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, space)
        assert without_fractions(printed.getvalue()) == without_fractions(shown), code


def readme_commands() -> list[str]:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    commands = [line.strip().split("   #")[0].strip() for line in lines if line.startswith("    weft ")]
    return [command for command in commands if "…" not in command]


@pytest.mark.parametrize("command", readme_commands())
def test_every_command_of_the_readme_is_understood(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every flag is known and every value is of its kind: what is called is not the command but a stand-in for it."""
    from typer.testing import CliRunner

    from weft.cli.main import app, hoist

    called: list[object] = []
    groups = [group.typer_instance.registered_commands for group in app.registered_groups]
    for registered in chain(app.registered_commands, *groups):
        real = registered.callback
        assert real is not None

        @functools.wraps(real)
        def stand_in(**given: object) -> None:
            called.append(given)

        monkeypatch.setattr(registered, "callback", stand_in)
    result = CliRunner().invoke(app, hoist(shlex.split(command)[1:]))
    assert result.exit_code == 0, result.output
    assert len(called) == 1


def test_the_readme_names_every_setting_value_it_lists() -> None:
    from weft.learn.feeding import SCHEDULES
    from weft.learn.objectives import OBJECTIVES
    from weft.nn import assemble as parts

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    tables = [parts.BRIDGES, parts.CELLS, parts.POSITIONS, parts.SCORES, parts.WEIGHERS, parts.PROJECTIONS]
    for table in (*tables, parts.JOINS, parts.HEADS, SCHEDULES, OBJECTIVES):
        for name in table:
            assert re.search(rf"(?<![\w-]){name}(?![\w-])", text), name
