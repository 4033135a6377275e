"""Pages that are written from the code: commands with their options, settings, and the numbers of the autopilot."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, get_args

import typer

COMMANDS_INTRO = """\
# Commands

This page has the text of `weft COMMAND --help`. It is generated from the code.

Results go to stdout, everything else goes to stderr. The exit code is 0 when the command is done, 2 for a mistake in
the command, the data or the settings, 130 after Ctrl-C, and 1 for anything else.
"""
SETTINGS_INTRO = """\
# Settings

This page lists every setting of a run, as `weft config show` does. It is generated from `src/weft/spec.py`. Change a
setting with `--set KEY=VALUE`, or several in a YAML file with `--config FILE`. Values marked *autopilot* in the output
of `weft config show RUN` were chosen for your data. The [guide](../guides/settings.md) shows how to use them.
"""

AUTOPILOT_INTRO = """\
# Numbers of the autopilot

The autopilot chooses settings by rules. This table lists every number in these rules, its meaning, and its evidence:
the measurement that it comes from, or the remark that it was not measured. The table is generated from
`src/weft/choose/numbers.py`.
[Training](../guides/training.md#what-it-chooses) explains the rules.
"""


def commands_page() -> str:
    """Return the page of every command, in the order of `weft --help`."""
    from weft.cli.main import app

    group: Any = typer.main.get_command(app)
    return "\n".join([COMMANDS_INTRO, *_command("weft", group, level=2)])


def _command(path: str, command: Any, level: int) -> Iterator[str]:
    """Yield the section of a command, then those of the commands below it."""
    arguments = [parameter for parameter in command.params if not parameter.opts[0].startswith("-")]
    options = [parameter for parameter in command.params if parameter.opts[0].startswith("-") and not parameter.hidden]
    below = command.commands if "commands" in vars(command) else {}
    usage = " ".join([path, *map(_argument, arguments), *(["COMMAND"] if below else []), "[OPTIONS]"])
    yield f"{'#' * level} `{path}`\n\n{_help(command.help or '')}\n\n```text\n{usage}\n```\n"
    if arguments:
        yield _table(
            ["argument", "value", "meaning"], [[f"`{a.metavar or a.name.upper()}`", "", _meaning(a)] for a in arguments]
        )
    if options:
        yield _table(
            ["option", "value", "meaning"], [[f"`{'`, `'.join(o.opts)}`", _value(o), _meaning(o)] for o in options]
        )
    for name, inner in below.items():
        yield from _command(f"{path} {name}", inner, min(level + 1, 3) if path == "weft" else level + 1)


def _argument(argument: Any) -> str:
    name = (argument.metavar or argument.name.upper()).strip("[]")
    return name if argument.required else f"[{name}]"


def _value(option: Any) -> str:
    return "" if option.is_flag else f"`{option.metavar or 'PATH'}`"


def _meaning(parameter: Any) -> str:
    """Return the help of a parameter with its default, if it has one that helps."""
    default = parameter.show_default if isinstance(parameter.show_default, str) else parameter.default
    shown = parameter.show_default is not False and default not in (None, False, "")
    end = " *Required.*" if parameter.required else f" Default: {default}." if shown else ""
    return _cell(f"{parameter.help}{end}")


def _help(text: str) -> str:
    """Return a docstring as Markdown: examples and aligned lines become code blocks."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(re.sub(r"\[/?\w*\]|\x08", "", text)))
    return "\n\n".join(map(_paragraph, paragraphs))


def _paragraph(text: str) -> str:
    lines = text.strip("\n").split("\n")
    if lines[0].strip() == "Examples":
        return _code(lines[1:])
    return _code(lines) if all(line.startswith(("weft ", "  ")) for line in lines) else " ".join(map(str.strip, lines))


def _code(lines: list[str]) -> str:
    return "```bash\n" + inspect.cleandoc("\n".join(lines)) + "\n```"


def settings_page() -> str:
    """Return the page of every setting, section by section."""
    from weft.spec import Spec

    return "\n".join([SETTINGS_INTRO, *_section("", Spec)])


def _section(key: str, model: Any) -> Iterator[str]:
    """Yield the table of a model's own fields, then the sections of the models below it."""
    fields = model.model_fields
    plain = [name for name in fields if not _models(fields[name].annotation)]
    if plain:
        rows = [[f"`{key}{name}`", _default(fields[name]), _field_help(fields[name])] for name in plain]
        yield _table(["setting", "default", "meaning"], rows)
    for name, info in fields.items():
        models = _models(info.annotation)
        for inner in models:
            kind = f" ({_kind(inner)})" if len(models) > 1 else ""
            level = "##" if not key else "###"
            yield f"{level} {key}{name}{kind}\n\n{_cell(info.description or '')}\n"
            yield from _section(f"{key}{name}.", inner)


def _models(annotation: Any) -> list[Any]:
    """Return the branches of the tree that an annotation names: one, several of a union, or none."""
    from pydantic import BaseModel

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _kind(model: Any) -> str:
    return str(get_args(model.model_fields["kind"].annotation)[0])


def _default(info: Any) -> str:
    value = () if info.is_required() else info.default
    if value is None or value == ():
        return "—"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _field_help(info: Any) -> str:
    """Return the text under a field, with the values it may have if they are listed."""
    from weft.cli.config import _one_of, _values

    return _cell((info.description or "") + _one_of(_values(info.annotation)))


def autopilot_page() -> str:
    """Return the page of the numbers that the autopilot decides by; evidence links to the log."""
    from weft.choose.numbers import NOT_MEASURED, rows

    cells = [
        [f"`{row.name}`", f"`{row.value}`", _cell(row.meaning), _evidence(row.evidence, NOT_MEASURED)] for row in rows()
    ]
    return f"{AUTOPILOT_INTRO}\n{_table(['number', 'value', 'meaning', 'evidence'], cells)}"


def _evidence(evidence: str, not_measured: str) -> str:
    if evidence.startswith(not_measured):
        return _cell(evidence)
    anchor = re.sub(r"[^\w\- ]", "", evidence.lower()).replace(" ", "-")
    return f"[{_cell(evidence)}](../LOG.md#{anchor})"


def _table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table, without the columns that have no value."""
    kept = [place for place in range(len(heads)) if any(row[place] for row in rows)]
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line[place] for place in kept)} |\n" for line in lines)


def _cell(text: str) -> str:
    """Return text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


PAGES = {"commands.md": commands_page, "settings.md": settings_page, "autopilot.md": autopilot_page}
