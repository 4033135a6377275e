"""What the documents say is what the program does: README, guides, tour, notebook and log."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from itertools import chain
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from commands import Weft
from conftest import made_up_pairs
from weft.data.sides.table import KINDS
from weft.runs.ready import LEARN

if TYPE_CHECKING:
    from weft.api import Run

ROOT = Path(__file__).parents[1]
GUIDES = sorted((ROOT / "docs/guides").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs/recipes/index.md", *GUIDES]
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)
FENCE = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"(?:^|\| |\$ |    )(weft [^|#>\n]+)")
RUN_FOR_REAL = ("data", "config", "predict", "evaluate", "recipe list")
OTHER_KINDS = (
    "harmony-run",
    "tunes-run",
    "book-run",
    "wave-run",
    "clip.wav",
    "recordings/",
    "strip.png",
    "pictures/",
    "--among",
)  # elsewhere


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def without_fractions(text: str) -> str:
    """Digits after the point may differ between machines."""
    return re.sub(r"\d+\.\d+", "#", text)


@pytest.mark.parametrize(("page", "count"), [("tour", 8), ("add-a-kind", 2)])
def test_every_block_of_a_page_prints_what_the_page_shows(
    page: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for table in (KINDS, LEARN):
        monkeypatch.setitem(table, "clock", table["text"])  # what a page puts there is taken out again
    space: dict[str, object] = {"__name__": page}
    blocks = BLOCK.findall(text_of(ROOT / f"docs/{page}.md"))
    assert len(blocks) > count
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, space)
        assert without_fractions(printed.getvalue()) == without_fractions(shown), code


WALKS = {
    "Following one pair through the code": [
        "train",
        "pairs.tsv",
        "--steps",
        "2",
        "--set",
        "train.evaluations=1",
        "--out",
        "new-run",
    ],
    "Following one predicted line through the code": ["predict", "my-run"],
}


@pytest.mark.parametrize("title", WALKS)
def test_the_walks_of_the_tour_are_the_calls_that_are_made(
    title: str, weft: Weft, tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = text_of(ROOT / "docs/tour.md").split(f"\n## {title}\n")[1].split("\n## ")[0]
    listed = re.findall(r"^\d+\. `([\w/]+\.py): ([\w.]+)`", section, re.MULTILINE)
    assert len(listed) > 10
    fill_folder(tmp_path, tiny_run)
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))  # nothing has been read or encoded before
    called: dict[tuple[str, str], None] = {}  # each once, in the order of their first calls
    source = str(ROOT / "src/weft") + "/"

    def watch(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(source):
            called[frame.f_code.co_filename.removeprefix(source), frame.f_code.co_qualname] = None

    sys.setprofile(watch)
    try:
        done = weft(*WALKS[title], stdin="abcd\n")
    finally:
        sys.setprofile(None)
    assert done.code == 0, done.err
    assert [call for call in called if call in listed] == listed


# commands -------------------------------------------------------------------------------------------------------------


def commands_of(page: Path) -> list[str]:
    """The `weft` commands in the code blocks and in the tables of a page."""
    text = text_of(page)
    blocks = [block for kind, block in FENCE.findall(text) if kind in ("bash", "console")]
    indented = [line for line in text.splitlines() if line.startswith("    weft ")]
    cells = [cell for line in text.splitlines() if line.startswith("|") for cell in re.findall(r"`(weft [^`]+)`", line)]
    lines = [line for block in blocks for line in block.splitlines()] + indented + cells
    return [match[1].strip() for line in lines for match in COMMAND.finditer(line)]


COMMANDS = sorted({command for page in PAGES for command in commands_of(page)})


def test_the_pages_show_commands() -> None:
    assert len(COMMANDS) > 40
    assert {command.split()[1] for command in COMMANDS} >= {"train", "predict", "evaluate", "compare", "data", "config"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_pages_is_understood(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert len(called) == (0 if command == "weft --version" else 1)


CHEAP = [
    c for c in COMMANDS if c.removeprefix("weft ").startswith(RUN_FOR_REAL) and not any(n in c for n in OTHER_KINDS)
]


@pytest.mark.parametrize("command", CHEAP)
def test_every_cheap_command_of_the_pages_works(
    command: str, weft: Weft, tiny_run: Run, tiny_languages: Run, tiny_answers: Run, tmp_path: Path
) -> None:
    fill_folder(tmp_path, tiny_run)
    (tmp_path / "languages").symlink_to(tiny_languages.path.resolve())
    (tmp_path / "answers").symlink_to(tiny_answers.path.resolve())
    shutil.copy(tiny_answers.path.with_name("questions.jsonl"), tmp_path)
    (tmp_path / "songs.jsonl").write_text('{"melody": [[72], []], "harmony": [[48, 64], []]}\n' * 8, encoding="utf-8")
    stdin = "Ann is here.\tWho?\n" if "answers" in command else "abcd\n"
    assert weft(*shlex.split(command)[1:], stdin=stdin).code == 0


def fill_folder(folder: Path, run: Run) -> None:
    """Write the files and runs that the pages speak of."""
    pairs = made_up_pairs(60)
    for name in ("pairs", "words", "test", "dev"):
        (folder / f"{name}.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    table = "".join(f"{source}\t{target}\t{'en' if len(source) % 2 else 'de'}\n" for source, target in pairs)
    (folder / "languages.tsv").write_text(f"source\ttarget\tlanguage\n{table}")
    (folder / "test.en").write_text("".join(f"{source}\n" for source, _ in pairs))
    (folder / "test.de").write_text("".join(f"{target}\n" for _, target in pairs))
    (folder / "test.fr").write_text("".join(f"{target.upper()}\n" for _, target in pairs))
    (folder / "flickr2016.tsv").write_text("source\ttarget\ttag\tdirection\nabcd\tdcba\tde\ten-de\n")
    (folder / "new.tsv").write_text("source\ttag\nabcd\tde\n")
    for name in ("new.txt", "new.en", "new.de"):
        (folder / name).write_text("abcd\nefgh\n")
    (folder / "mine.yaml").write_text("decoder:\n  cell: gru\n")
    for name in ("my-run", "my-run-2", "my-run-3", "other-run", "roman-run"):
        (folder / name).symlink_to(run.path.resolve())


CONSOLES = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in GUIDES
    for number, (kind, block) in enumerate(FENCE.findall(text_of(page)))
    if kind == "console"
]


@pytest.mark.parametrize("block", CONSOLES)
def test_every_console_of_the_guides_shows_what_the_commands_print(block: str, weft: Weft, tmp_path: Path) -> None:
    for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
        if command.startswith("weft "):
            done = weft(*shlex.split(command)[1:])
            assert done.out + done.err == shown, command
        else:
            subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True, timeout=60)


# Python ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [page for page in GUIDES if BLOCK.search(text_of(page))], ids=lambda page: page.stem)
def test_python_in_the_guides_works(page: Path, tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What trains or loads is called with arguments that it takes, and returns a run that is there already."""
    import weft

    def stand_in(real: Any, result: object) -> Any:
        def called(*arguments: object, **named: object) -> object:
            inspect.signature(real).bind(*arguments, **named)
            return result

        return called

    comparison = SimpleNamespace(leaders=[SimpleNamespace(name="lstm", score=1.0)])
    for name, result in (("train", tiny_run), ("load", tiny_run), ("compare", comparison)):
        monkeypatch.setattr(weft, name, stand_in(weft.__getattr__(name), result), raising=False)
    fill_folder(tmp_path, tiny_run)
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {}
    warnings.simplefilter("ignore", UserWarning)  # the tiny run does not know all letters
    for code, _ in BLOCK.findall(text_of(page)):
        exec(code, space)


def test_the_notebook_runs_and_shows_what_it_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs/tools"))
    import notebook

    file = ROOT / "docs/notebooks/first-model.ipynb"
    stored = json.loads(text_of(file))["cells"]
    executed = notebook.execute(file, tmp_path).cells
    for before, after in zip(stored, executed, strict=True):
        kinds = [[output["output_type"] for output in cell.get("outputs", [])] for cell in (before, after)]
        assert kinds[0] == kinds[1], after["source"]
    scores = next(cell for cell in executed if "run.evaluate(test)" in cell["source"])["outputs"][0]["data"]
    exact = re.search(r"'exact': ([\d.]+)", scores["text/plain"])
    assert exact is not None
    assert float(exact[1]) > 70


# figures, lists and titles --------------------------------------------------------------------------------------------


def test_the_readme_is_short() -> None:
    assert len(text_of(ROOT / "README.md").splitlines()) <= 150


@pytest.mark.parametrize("page", ["quality", "performance"])
def test_the_figures_of_the_readme_stand_on_the_page_that_it_names(page: str) -> None:
    section = next(part for part in text_of(ROOT / "README.md").split("\n## ") if f"docs/{page}.md" in part)
    figures = [f for line in section.splitlines() if line.startswith("|") for f in re.findall(r"\d+[.,]\d+", line)]
    assert len(figures) > 8
    there = set(re.findall(r"\d+(?:[.,]\d+)*", text_of(ROOT / f"docs/{page}.md")))
    numbers_of_pairs = {"29,000", "16,000"}  # which the files of the data sets have
    assert set(figures) - numbers_of_pairs <= there


def test_the_settings_guide_names_every_value_of_the_tables() -> None:
    from weft.learn.feeding import SCHEDULES
    from weft.learn.objectives import OBJECTIVES
    from weft.nn import assemble as parts

    text = text_of(ROOT / "docs/guides/settings.md")
    tables = [parts.BRIDGES, parts.CELLS, parts.POSITIONS, parts.SCORES, parts.WEIGHERS, parts.PROJECTIONS]
    for table in (*tables, parts.JOINS, parts.HEADS, SCHEDULES, OBJECTIVES):
        for name in table:
            assert re.search(rf"(?<![\w-]){name}(?![\w-])", text), name


def test_the_guide_to_evaluation_explains_every_metric() -> None:
    from weft.score.text import TEXT

    section = text_of(ROOT / "docs/guides/predicting.md").split("\n## Evaluate\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(TEXT)


def test_every_setting_that_the_pages_name_exists() -> None:
    from weft.settings import Clash, compose, flatten, read_overrides
    from weft.spec import Spec

    kinds = [{side: {"kind": "transformer"} for side in ("encoder", "decoder")}, {}]
    specs = [compose(("flag", {**layer, "embed": {"positions": "sinusoid"}})).spec for layer in kinds]
    known = {key for spec in specs for key, _ in flatten(spec.model_dump(mode="json"))}
    code = [text for page in PAGES for text in re.findall(r"`([^`\n]+)`", text_of(page))]
    given = {item for text in code for item in re.findall(r"\b[a-z]+(?:\.[a-z_]+)+=[\w.-]+", text)}
    named = {
        name for text in code if (name := text.partition("=")[0]).split(".")[0] in Spec.model_fields and "." in name
    }
    assert min(len(given), len(named)) > 10
    assert named - {"source.json", "target.json", "train.en:train.de"} <= known
    for item in given:
        with contextlib.suppress(Clash):  # with a default; the autopilot chooses what goes with it
            compose(("flag", read_overrides([item])))


def test_every_file_that_the_pages_name_exists() -> None:
    for page in (ROOT / "CONTRIBUTING.md", ROOT / "docs/tour.md", ROOT / "docs/guides/settings.md"):
        named = re.findall(r"`((?:[\w.-]+/)+[\w-]+\.(?:py|c|md))`", text_of(page))
        assert named
        for name in named:
            assert (ROOT / name).exists() or (ROOT / "src/weft" / name).exists(), f"{page.name}: {name}"


def test_every_recipe_has_a_page_and_stands_in_the_list() -> None:
    from weft.recipes.book import RECIPES

    listed = re.findall(r"^\| \[([\w-]+)\]\(([\w-]+)\.md\)", text_of(ROOT / "docs/recipes/index.md"), re.MULTILINE)
    assert [name for name, _ in listed] == [page for _, page in listed] == list(RECIPES)
    assert all((ROOT / f"docs/recipes/{name}.md").exists() for name in RECIPES)


def test_every_entry_of_the_log_stands_in_its_contents() -> None:
    contents, *entries = text_of(ROOT / "docs/LOG.md").split("\n## ")[1:]
    for entry in entries:
        title = entry.splitlines()[0]
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        assert f"](#{anchor})" in contents, f"add a line with this link to the contents of docs/LOG.md: #{anchor}"


def test_what_the_code_quotes_of_the_log_is_there() -> None:
    titles = set(re.findall(r"^### (.*)$", text_of(ROOT / "docs/LOG.md"), re.MULTILINE))
    sources = " ".join(" ".join(text_of(file).split()) for file in sorted(ROOT.glob("src/weft/**/*.py")))
    quoted = re.findall(r'docs/LOG\.md, ("[^"]+"(?: and "[^"]+")*)', sources)
    assert quoted
    assert {title for titles_ in quoted for title in re.findall(r'"([^"]+)"', titles_)} <= titles


def test_the_citation_is_of_this_version() -> None:
    import yaml

    import weft

    citation = yaml.safe_load(text_of(ROOT / "CITATION.cff"))
    assert citation["version"] == weft.__version__
    assert {"cff-version", "message", "title", "authors", "license"} <= set(citation)
