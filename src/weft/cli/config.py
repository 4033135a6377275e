"""`weft config show` and `weft config check`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from weft.cli import common

app = typer.Typer(cls=common.Group, no_args_is_help=True, help="Show every setting, or check a file of settings.")


@app.command(cls=common.Command)
def show(
    what: Annotated[
        Path | None,
        typer.Argument(metavar="[RUN|FILE]", help="A run folder or a YAML file; without it, the defaults are shown."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting that overrides the others; can be repeated.", metavar="KEY=VALUE"),
    ] = None,
) -> None:
    """Show every setting with its value, where the value came from, and its meaning.

    [bold]Examples[/]
      weft config show
      weft config show my-run
      weft config show my.yaml --set decoder.cell=gru
    """
    from weft.settings import compose, flatten, read_file, read_overrides

    if what is not None and what.is_dir():
        from weft.runs.folder import RunFolder

        folder = RunFolder(what)
        own, recorded = folder.read_spec().model_dump(mode="json"), folder.read_choices()["origins"]
        composed = compose(("run", own), ("flag", read_overrides(set_ or [])))
        origins = {key: recorded.get(key, "default") if o == "run" else o for key, o in composed.origins.items()}
    else:
        layers = [("file", read_file(what))] if what is not None else []
        composed = compose(*layers, ("flag", read_overrides(set_ or [])))
        origins = composed.origins
    spec, helps = composed.spec, explain(composed.spec)
    rows = [
        [key, _shown(value), str(origins.get(key, "default")), helps.get(key, "")]
        for key, value in flatten(spec.model_dump(mode="json"))
    ]
    if what is None:
        rows += _of_transformers({row[0] for row in rows})
    common.show(common.table(["setting", "value", "from", "meaning"], rows, words=True), width=common.READABLE)


def _of_transformers(known: set[str]) -> list[list[str]]:
    """Return the rows of settings that only a Transformer has."""
    from weft.settings import compose, flatten

    kinds = {side: {"kind": "transformer"} for side in ("encoder", "decoder")}
    spec = compose(("flag", {**kinds, "embed": {"positions": "sinusoid"}})).spec
    helps = explain(spec)
    return [
        [key, _shown(value), "default", f"With {key.split('.')[0]}.kind=transformer. {helps.get(key, '')}"]
        for key, value in flatten(spec.model_dump(mode="json"))
        if key not in known
    ]


@app.command(cls=common.Command)
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A YAML file of settings.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting that overrides the others; can be repeated.", metavar="KEY=VALUE"),
    ] = None,
) -> None:
    """Check a settings file for unknown names, wrong values and incompatible settings.

    [bold]Examples[/]
      weft config check mine.yaml
    """
    from weft.core.errors import UserError
    from weft.settings import Clash, compose, read_file, read_overrides

    layers = ("file", read_file(file)), ("flag", read_overrides(set_ or []))
    try:
        compose(*layers)
    except Clash as clash:
        try:
            compose(("autopilot", {side: {"kind": "transformer"} for side in ("encoder", "decoder")}), *layers)
        except UserError:
            raise clash from None
        typer.echo(f"{file}: the settings are valid for a Transformer, which the autopilot chooses for running text")
        return
    typer.echo(f"{file}: the settings are valid")


def explain(spec: Any, prefix: str = "") -> dict[str, str]:
    """Return the help of each setting, with its allowed values if they are listed, by dotted key."""
    from pydantic import BaseModel

    helps: dict[str, str] = {}
    for name, info in type(spec).model_fields.items():
        below, key = spec.__dict__[name], f"{prefix}{name}"
        if isinstance(below, BaseModel):
            helps |= explain(below, f"{key}.")
            families = [family.model_fields["kind"].annotation for family in get_args(info.annotation)]
            if families:
                helps[f"{key}.kind"] += _one_of([value for family in families for value in _values(family)])
        else:
            helps[key] = (info.description or "") + _one_of(_values(info.annotation))
    return helps


def _values(annotation: Any) -> list[str]:
    """Return the names that a type lists."""
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    return [value for part in get_args(annotation) for value in _values(part)]


def _one_of(values: list[str]) -> str:
    return f" One of: {', '.join(values)}." if len(values) > 1 else ""


def _shown(value: Any) -> str:
    if value is None:
        return "—"
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(str(v) for v in value) if isinstance(value, list) else str(value)
