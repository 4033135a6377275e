"""A notebook as a page of the site: its text, its code, and the outputs that are stored in it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def write_page(file: Path, page: Path) -> None:
    """Write the notebook as Markdown, with its pictures beside it."""
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    parts = [part for number, cell in enumerate(cells) for part in _cell(cell, number, page)]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _cell(cell: dict[str, Any], number: int, page: Path) -> Iterator[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield text
        return
    yield f"```python\n{text}\n```"
    for place, output in enumerate(cell["outputs"]):
        yield _output(output, page.parent / f"{page.stem}-{number}-{place}.png")


def _output(output: dict[str, Any], picture: Path) -> str:
    """Return an output as Markdown: printed text, a picture, a table in HTML, or the value as text."""
    if output["output_type"] == "stream":
        return f"```text\n{''.join(output['text'])}```"
    data = output["data"]
    if "image/png" in data:
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(base64.b64decode("".join(data["image/png"])))
        return f"![output of the cell above]({picture.name})"
    if "text/html" in data:
        return f'<div class="output">{"".join(data["text/html"])}</div>'
    return f"```text\n{''.join(data['text/plain'])}\n```"


def execute(file: Path, folder: Path) -> Any:
    """Run every cell in a fresh kernel, in `folder`; return the notebook with its outputs."""
    import nbformat
    from nbclient import NotebookClient

    content = nbformat.read(file, as_version=4)
    NotebookClient(
        content,
        timeout=120,
        coalesce_streams=True,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    return content


def main() -> None:
    """Execute every notebook and store its outputs."""
    import tempfile

    import nbformat

    for file in sorted(Path(__file__).parents[1].glob("notebooks/*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            content = execute(file, Path(folder))
        for cell in content.cells:
            cell.metadata.pop("execution", None)  # clock times, which change with every run
        nbformat.write(content, file)


if __name__ == "__main__":
    main()
