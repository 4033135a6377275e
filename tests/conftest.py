"""What the tests share: a cache of their own, a small trained run, and the way to the real data.

What makes short runs slow and is tested elsewhere is left out: pictures are not rendered (but with the fixture
`rendered`), nothing waits for the disk, and the garbage collector leaves alone what was imported.
"""

from __future__ import annotations

import gc
import io
import json
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest

from commands import Done, Weft

if TYPE_CHECKING:
    from weft.api import Run

SMALL = {"encoder.width": 32, "decoder.width": 32, "embed.width": 32, "train.evaluations": 2}


def pytest_collection_finish() -> None:
    """Runs collect garbage between their stages: spare them everything that was imported and collected."""
    gc.collect()
    gc.freeze()


def made_up_pairs(count: int = 200, seed: int = 1) -> list[tuple[str, str]]:
    """Words of four to eight letters and the same words reversed, no word twice."""
    draw = random.Random(seed)
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(draw.choices("abcdefgh", k=draw.randint(4, 8)))] = None
    return [(word, word[::-1]) for word in words]


@pytest.fixture(autouse=True)
def _signal_handlers() -> Iterator[None]:
    """Put the handlers of signals back after a test: a command that ends by Ctrl-C ignores them from then on."""
    before = {kind: signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)}
    yield
    for kind, handler in before.items():
        signal.signal(kind, handler)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or fills the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _blank_pictures() -> Iterator[pytest.MonkeyPatch]:
    """Figures are made but not rendered: that takes longer than all else in a short run."""
    from matplotlib.figure import Figure

    def save_blank(figure: Figure, target: str | Path | BinaryIO, **_: Any) -> None:
        blank = b"\x89PNG, not rendered"
        Path(target).write_bytes(blank) if isinstance(target, str | Path) else target.write(blank)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", save_blank)
        yield patch


@pytest.fixture
def rendered(_blank_pictures: pytest.MonkeyPatch) -> Iterator[None]:
    """Pictures as users get them."""
    from matplotlib.figure import Figure

    blank = Figure.savefig
    _blank_pictures.undo()
    yield
    _blank_pictures.setattr(Figure, "savefig", blank)


@pytest.fixture(scope="session")
def tiny_pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pairs of `tiny_run`, as a TSV file."""
    path = tmp_path_factory.mktemp("tiny") / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in made_up_pairs()), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tiny_answers(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that selects answers; it has hardly learned anything."""
    import weft
    from weft.runs.report import Quiet

    table = tmp_path_factory.mktemp("answers") / "questions.jsonl"
    rows = [{"document": f"{s} met {t}.", "question": f"Who met {t}?", "answer": s} for s, t in made_up_pairs(60)]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    settings = {"encoder.width": 16, "embed.width": 16, "train.evaluations": 1}
    return weft.train(table, task="answer", out=table.with_name("run"), steps=2, settings=settings, reporter=Quiet())


@pytest.fixture(scope="session")
def tiny_languages(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that writes three «languages», as their tags say; it has hardly learned anything."""
    import weft
    from weft.runs.report import Quiet

    folder, pairs = tmp_path_factory.mktemp("languages"), made_up_pairs(60)
    texts = {"en": [s for s, _ in pairs], "de": [t for _, t in pairs], "fr": [t.upper() for _, t in pairs]}
    for name, lines in texts.items():
        (folder / f"train.{name}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files = [f"{folder}/train.en:{folder}/train.{name}" for name in ("de", "fr")]
    settings = {**SMALL, "data.tag_from": "extension", "data.swap_pairs": True}
    return weft.train(files, out=folder / "run", steps=2, settings=settings, reporter=Quiet())


@pytest.fixture(scope="session")
def tiny_run(tiny_pairs: Path) -> Run:
    """A run of a few steps on made-up pairs. It is shared: copy its folder (`shutil.copytree`) to change anything."""
    import weft

    return weft.train(tiny_pairs, out=tiny_pairs.with_name("run"), steps=12, settings=SMALL)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data that WEFT_DATA names."""
    given = os.environ.get("WEFT_DATA")
    if not given:
        pytest.skip("WEFT_DATA is not set: it names the folder that holds multi30k and the other data sets")
    return Path(given)


@pytest.fixture
def weft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Weft:
    """`weft` as it is typed in an empty folder."""
    from weft.cli import main as cli

    monkeypatch.chdir(tmp_path)

    def call(*arguments: object, stdin: str | bytes = b"") -> Done:
        raw = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "argv", ["weft", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            cli.main()
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return Done(int(end.value.code or 0), said.out, said.err)

    return call
