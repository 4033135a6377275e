"""`weft export`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import common


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    to: Annotated[str, typer.Option(help="The engine to export to.", metavar="ctranslate2")],
    out: Annotated[
        Path | None, typer.Option(help="The folder to create.", show_default="RUN/ctranslate2", metavar="FOLDER")
    ] = None,
    format: Annotated[
        str, typer.Option(help="The number format: float32, int8, bfloat16, …", metavar="FORMAT")
    ] = "float32",
) -> None:
    """Export the best weights of a run to another engine.

    CTranslate2 runs Transformers faster on a CPU. After a float32 export to RUN/ctranslate2, weft predict uses it
    automatically; for other number formats, add --engine ctranslate2 to weft predict.

    [bold]Examples[/]
      weft export my-run --to ctranslate2
      weft export my-run --to ctranslate2 --format int8
    """
    from weft.api import load
    from weft.export import ctranslate2
    from weft.predict.engines import FOLDER
    from weft.runs.folder import refuse_other_files

    if to != "ctranslate2":
        raise typer.BadParameter(f"Weft cannot export to '{to}'; the only engine is ctranslate2", param_hint="--to")
    if out is not None:
        refuse_other_files(out, ctranslate2.WRITTEN)
    with common.speaking_of_flags({"format": "--format"}):
        folder = ctranslate2.export(load(run, strict=common.strict()).predictor, run, out or run / FOLDER, format)
    size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    common.show(f"{folder} · {format} · {size / 1e6:.1f} MB")
