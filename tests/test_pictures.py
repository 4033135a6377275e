"""Pictures: formats, bad files, sizes, augmentation, the reader and its norm, whole runs."""

from __future__ import annotations

import json
import os
import shutil
import struct
import sys
import zlib
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from safetensors.torch import load_file

from commands import Weft, refused
from processes import Started
from weft.api import Run, train
from weft.core.errors import UserError
from weft.core.kinds import Column
from weft.core.pair import Pair
from weft.core.shapes import Picture
from weft.data.cells import Kinds
from weft.data.pairs import ReadReport, read_pairs
from weft.data.pictures.augment import PictureAugmentation
from weft.data.pictures.files import decoded, facts_of
from weft.data.sides.image import Image, ImageKind
from weft.look.inspect import attention
from weft.look.inspect.sources import pooled, source_picture
from weft.look.inspect.subject import Subject
from weft.look.inspect.views import DoesNotApply, check_attributed
from weft.look.seen import beside_each_other, draw_seen
from weft.nn.dropout import Dropout
from weft.nn.positions import NoPositions
from weft.nn.readers.pictures import BatchNorm, Columns, Grid, PictureNetwork, PictureReader
from weft.predict.looks import look
from weft.runs.report import Quiet
from weft.search.ctc import aligned, merged

PIL = pytest.importorskip("PIL.Image", reason="pictures need weft[image]")
Pixels = npt.NDArray[np.uint8]
SMALL: dict[str, Any] = {
    "encoder.width": 24, "embed.width": 24, "image.filters": 4, "train.rate": 0.01, "train.evaluations": 2,
    "train.dropout": 0.0, "train.batch_tokens": 300,
}  # fmt: skip
SIGNS = {
    "a": np.eye(8, dtype=np.uint8), "b": np.pad(np.ones((8, 2), np.uint8), ((0, 0), (3, 3))),
    "c": np.pad(np.ones((2, 8), np.uint8), ((3, 3), (0, 0))),
}  # fmt: skip


def strip(letters: str, seed: int) -> Pixels:
    """A sign of 8 × 8 pixels for each letter, with some noise."""
    noise = np.random.default_rng(seed).integers(0, 40, (10, 10 * len(letters) + 4))
    for number, letter in enumerate(letters):
        noise[1:9, 10 * number + 2 : 10 * number + 10] += 200 * SIGNS[letter]
    return noise.astype(np.uint8)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of signs, their letters, a sentence, and whether it is right."""
    folder = tmp_path_factory.mktemp("pictures")
    (folder / "strips").mkdir()
    random, rows = np.random.default_rng(1), ["image\tletters\tquestion\tanswer"]
    for number in range(64):
        letters = "".join(random.choice(list(SIGNS), size=random.integers(2, 5)))
        PIL.fromarray(strip(letters, number)).save(folder / "strips" / f"{number:02}.png")
        asked = "abc"[number % 3]
        rows.append(f"strips/{number:02}.png\t{letters}\tis there {asked}\t{'yes' if asked in letters else 'no'}")
    path = folder / "strips.tsv"
    path.write_text("\n".join(rows) + "\n")
    return path


ROLES = {"source": "image", "target": "letters"}


@pytest.fixture(scope="module")
def run(table: Path) -> Run:
    return train(table, **ROLES, out=table.with_name("run"), steps=80, settings=SMALL, reporter=Quiet(), seed=1)


# --- files ------------------------------------------------------------------------------------------------------------


def photo(height: int = 12, width: int = 20) -> Pixels:
    """A coloured picture: red grows to the right, green downwards."""
    down, right = np.mgrid[0:height, 0:width]
    return np.stack([255 * right // width, 255 * down // height, 0 * down + 40], axis=2).astype(np.uint8)


@pytest.mark.parametrize("ending", ["png", "jpg", "jpeg", "webp"])
@pytest.mark.parametrize("coloured", [False, True])
def test_every_format_is_read_in_grey_and_in_colour(ending: str, coloured: bool, tmp_path: Path) -> None:
    path = tmp_path / f"photo.{ending}"
    PIL.fromarray(photo()).save(path)
    values = np.asarray(decoded(str(path), 50, coloured), dtype=np.int64)
    assert values.shape == ((12, 20, 3) if coloured else (12, 20))
    expected = photo() if coloured else np.asarray(PIL.fromarray(photo()).convert("L"))
    assert np.abs(values - expected).mean() < 12
    assert facts_of(str(path), 50).coloured


def test_unusual_pictures_are_read(tmp_path: Path) -> None:
    grey = np.asarray(PIL.fromarray(photo()).convert("L"))
    PIL.fromarray(photo()).convert("CMYK").save(tmp_path / "cmyk.jpg", quality=100)
    PIL.fromarray(photo()).quantize(64).save(tmp_path / "palette.png")
    PIL.fromarray(grey.astype(np.uint16) * 256).save(tmp_path / "deep.png")
    clear = np.dstack([photo(), np.full((12, 20), 255, np.uint8)])
    clear[:6, :, 3] = 0
    PIL.fromarray(clear).save(tmp_path / "clear.png")
    frames = [PIL.fromarray(np.full((12, 20, 3), level, np.uint8)) for level in (0, 255)]
    frames[0].save(tmp_path / "animated.webp", save_all=True, append_images=frames[1:], lossless=True)
    for path in tmp_path.iterdir():
        assert ImageKind().fault("source", str(path), 0) is None
    values = {path.stem: np.asarray(decoded(str(path), 50, False), dtype=np.int64) for path in tmp_path.iterdir()}
    assert np.abs(values["deep"] - grey).max() <= 1
    assert np.abs(values["palette"] - grey).mean() < 8
    assert np.abs(values["cmyk"] - grey).mean() < 12
    assert (values["clear"][:6] == 255).all()
    assert values["animated"].max() == 0
    assert facts_of(str(tmp_path / "animated.webp"), 50).frames == 2


@pytest.mark.parametrize("number", range(1, 9))
def test_pictures_are_turned_as_their_exif_orientation_says(number: int, tmp_path: Path) -> None:
    from PIL import ImageOps

    image = PIL.fromarray(photo())
    exif = image.getexif()
    exif[0x0112] = number
    image.save(tmp_path / "turned.png", exif=exif)
    expected = np.asarray(ImageOps.exif_transpose(PIL.open(tmp_path / "turned.png")))
    assert np.array_equal(np.asarray(decoded(str(tmp_path / "turned.png"), 50, True)), expected)
    assert facts_of(str(tmp_path / "turned.png"), 50).turned == (number > 1)


def huge_png(width: int, height: int) -> bytes:
    """The header of a picture that would fill the memory, and nothing of it."""
    chunk = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"IDAT" + zlib.compress(bytes(100))
    parts = [struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in (chunk, data)]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def bad_file(name: str, folder: Path) -> Path:
    """Write a file that cannot be used; its name says why."""
    path = folder / f"{name}.png"
    if name == "empty":
        path.write_bytes(b"")
    elif name == "text":
        path.write_text("this is no picture, whatever its name says\n" * 20)
    elif name == "tiny":
        PIL.new("L", (1, 1)).save(path)
    elif name == "huge":
        path.write_bytes(huge_png(20_000, 20_000))
    elif name == "large":
        path.write_bytes(huge_png(9_000, 9_000))
    elif name == "truncated":
        PIL.fromarray(np.random.default_rng(1).integers(0, 255, (60, 60)).astype(np.uint8)).save(path)
        path.write_bytes(path.read_bytes()[:1500])
    elif name == "half":
        path = folder / "half.jpg"
        PIL.fromarray(np.random.default_rng(1).integers(0, 255, (60, 60)).astype(np.uint8)).save(path)
        path.write_bytes(path.read_bytes()[:900])
    elif name == "gif":
        PIL.new("L", (9, 9)).save(path, format="GIF")
    return path


BAD = {
    "missing": "there is no file 'missing.png' for the source, looked for in",
    "empty": "is an empty file",
    "text": "is not a PNG, JPEG or WebP picture",
    "gif": "is not a PNG, JPEG or WebP picture",
    "tiny": "has 1 × 1 pixels, but at least 4 × 4 are needed",
    "huge": "has 400.0 million pixels, but the limit is 50 million",
    "large": "has 81.0 million pixels (9,000 × 9,000), but the limit is 50 million",
    "truncated": "is damaged or truncated",
    "half": "is damaged or truncated",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_picture_is_told_with_its_line(name: str, tmp_path: Path) -> None:
    PIL.fromarray(photo()).save(tmp_path / "good.png")
    bad = bad_file(name, tmp_path)
    path = tmp_path / "table.tsv"
    path.write_text(f"good.png\ta\n{bad.name}\tb\n")
    with pytest.raises(UserError) as error:
        list(read_pairs([str(path)], kinds=Kinds(None, "text")))
    assert error.value.where == f"{path}:2"
    assert BAD[name] in error.value.what
    assert error.value.todo


def test_bad_pictures_are_counted_and_left_out(tmp_path: Path) -> None:
    PIL.fromarray(photo()).save(tmp_path / "good.png")
    rows = ["good.png", *(bad_file(name, tmp_path).name for name in BAD)]
    path = tmp_path / "table.tsv"
    path.write_text("".join(f"{name}\tx\n" for name in rows))
    report = ReadReport()
    kinds = Kinds("image", "text")
    assert len(list(read_pairs([str(path)], kinds=kinds, on_bad_line="skip", report=report))) == 1
    assert report.skipped == len(BAD)
    assert [told.split(":")[1] for told in report.bad] == [str(line) for line in range(2, 2 + len(BAD))]


def test_without_the_extra_the_command_that_installs_it_is_told(
    table: Path, weft: Weft, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    shutil.copytree(table.parent / "strips", "strips")
    Path("copy.tsv").write_text(table.read_text())
    flags = ("--source", "image", "--target", "letters")
    refused(weft("train", "copy.tsv", *flags), "Pillow", "pip install 'weft[image]'")


def test_sizes_and_what_cannot_be_read_are_told(weft: Weft) -> None:
    folder = Path("data")
    folder.mkdir()
    PIL.fromarray(photo()).save(folder / "photo.jpg")
    PIL.fromarray(photo(30, 10)).quantize(16).save(folder / "palette.png")
    (folder / "t.tsv").write_text("photo.jpg\ta\npalette.png\tb\nmissing.png\tc\n")
    told = " ".join(weft("data", folder / "t.tsv").out.split())
    for words in ("2 of 2 different sizes", "10 to 20", "12 to 30", "P: 1, RGB: 1"):
        assert words in told
    assert "t.tsv:3: there is no file 'missing.png' for the source, looked for in" in told
    assert "the rest of pictures of another ratio is padded" in told


# --- sizes ------------------------------------------------------------------------------------------------------------


def test_a_picture_keeps_its_ratio_is_padded_or_stretched(tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    PIL.fromarray(np.pad(np.full((20, 60), 200, np.uint8), 4, constant_values=50)).save(path)
    free, padded, stretched = (
        Image(height=14, width=width, fit=fit).pixels(str(path)).T
        for width, fit in ((0, "pad"), (20, "pad"), (20, "stretch"))
    )
    assert free.shape == (14, 34)
    assert padded.shape == stretched.shape == (14, 20)
    assert (padded[0] == padded[0, 0]).all()  # the colour of the border
    assert abs(int(padded[0, 0]) - 50) < 15
    assert stretched[6].max() == padded[6].max() == 200
    assert (stretched == 200).sum() > (padded == 200).sum()
    side = Image(14, 30, True, "stretch")
    assert ImageKind().load(json.loads(side.to_json())) == side
    assert side.pixels(str(path)).shape == (30, 14 * 3)


# --- augmentation -----------------------------------------------------------------------------------------------------

CHANGES: dict[str, dict[str, Any]] = {
    "shift": {"shift": 0.2}, "scale": {"scale": 0.3}, "rotate": {"rotate": 20.0}, "brightness": {"brightness": 0.3},
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("channels", [1, 3])
def test_augmentation_depends_on_the_generator_alone(name: str, channels: int) -> None:
    columns = np.random.default_rng(1).integers(0, 255, (30, 12 * channels)).astype(np.uint8)
    before = columns.copy()
    change = PictureAugmentation(12, channels, **CHANGES[name])
    first, again, other = (change(columns, np.random.default_rng((1, 2, row))) for row in (7, 7, 8))
    assert np.array_equal(columns, before)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert first.dtype == np.uint8
    assert first.shape == columns.shape


def test_no_augmentation_changes_nothing_and_a_flip_mirrors() -> None:
    columns = np.random.default_rng(1).integers(0, 255, (30, 12 * 3)).astype(np.uint8)
    assert np.array_equal(PictureAugmentation(12, 3)(columns, np.random.default_rng(1)), columns)
    mirrored = {
        bool((PictureAugmentation(12, 3, flip=True)(columns, np.random.default_rng(n)) == columns[::-1]).all())
        for n in range(8)
    }
    assert mirrored == {True, False}


def test_a_shift_moves_what_is_in_a_picture() -> None:
    picture = np.zeros((21, 21), np.uint8)
    picture[9:12, 9:12] = 255
    random = np.random.default_rng(3)
    right, down = random.uniform(-1, 1, 6)[:2]
    moved = PictureAugmentation(21, 1, shift=0.3)(picture.T.copy(), np.random.default_rng(3)).T.astype(float)
    rows, columns = (np.average(np.arange(21), weights=moved.sum(axis)) for axis in (1, 0))
    assert rows == pytest.approx(10 + 0.3 * 21 * down, abs=0.6)
    assert columns == pytest.approx(10 + 0.3 * 21 * right, abs=0.6)


# --- the reader -------------------------------------------------------------------------------------------------------


def reader(layout: str) -> PictureReader:
    torch.manual_seed(1)
    shape = Picture(2, 9, 0 if layout == "columns" else 26)
    network = Columns(shape, 4, 3, 16, 4) if layout == "columns" else Grid(shape, 4, 2, 16)
    made = PictureReader(network, 16, NoPositions(), Dropout(0.0))
    for module in made.modules():
        if isinstance(module, BatchNorm):  # as after some training
            torch.nn.init.normal_(module.mean, std=0.1)
            torch.nn.init.uniform_(module.variance, 0.5, 2.0)
    return made


@pytest.mark.parametrize("layout", ["columns", "grid"])
def test_padding_changes_nothing_that_a_reader_returns(layout: str) -> None:
    widths = (26, 15, 3) if layout == "columns" else (26, 26)
    rows = [np.random.default_rng(n).integers(0, 255, (width, 18)) for n, width in enumerate(widths)]
    network = reader(layout).eval()
    together, mask = network.read(Column.of_vectors(rows))
    for number, row in enumerate(rows):
        alone, own = network.read(Column.of_vectors([row]))
        assert int(mask[number].sum()) == int(own.sum()) == (-(-len(row) // 4) if layout == "columns" else 7 * 3)
        torch.testing.assert_close(together[number][mask[number]], alone[0], atol=1e-5, rtol=1e-4)


def test_only_safe_numbers_of_filters_are_convolved_with_channels_last() -> None:
    orders = {filters: PictureNetwork(Picture(1, 8), filters, 2, 2).order for filters in (4, 8, 16, 24, 32)}
    assert [filters for filters, order in orders.items() if order == torch.channels_last] == [16, 32]


def test_statistics_are_those_of_real_columns() -> None:
    torch.manual_seed(1)
    rows = [np.random.default_rng(n).integers(0, 255, (width, 18)) for n, width in enumerate((24, 16))]
    plain, spoilt = (reader("columns").train() for _ in range(2))
    column = Column.of_vectors(rows)
    wide = Column(torch.nn.functional.pad(column.values, (0, 0, 0, 8)), torch.nn.functional.pad(column.mask, (0, 8)))
    (first, mask), (second, wider) = plain.read(column), spoilt.read(wide)
    torch.testing.assert_close(first[mask], second[wider], atol=1e-4, rtol=1e-4)
    for one, other in zip(plain.parameters(), spoilt.parameters()):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_masked_batch_norm_equals_that_of_torch_on_what_is_real() -> None:
    x = torch.randn(3, 5, 4, 6, generator=torch.Generator().manual_seed(1))
    real = torch.ones(3, 1, 1, 6)
    real[1, ..., 4:] = 0
    real[2, ..., 1:] = 0
    ours, torchs = BatchNorm(5).train(), torch.nn.BatchNorm1d(5).train()
    out = ours(x * real, real)
    kept = real.expand(3, 1, 4, 6)[:, 0] > 0
    expected = torchs(x.permute(0, 2, 3, 1)[kept])
    torch.testing.assert_close(out.permute(0, 2, 3, 1)[kept], expected, atol=1e-5, rtol=1e-4)
    assert torchs.running_mean is not None
    assert torchs.running_var is not None
    torch.testing.assert_close(ours.mean.data, torchs.running_mean)
    torch.testing.assert_close(ours.variance.data, torchs.running_var)


# --- runs -------------------------------------------------------------------------------------------------------------


def test_a_run_learns_to_write_what_stands_in_a_picture(run: Run, table: Path) -> None:
    assert (run.spec.source.kind, run.spec.head.kind, run.spec.image.layout) == ("image", "ctc", "columns")
    assert run.evaluate(table)["cer"] < 30


def test_the_card_shows_pictures_with_outputs_and_where_they_stand(run: Run, table: Path) -> None:
    card = (run.path / "README.md").read_text()
    assert "![pictures and outputs, with positions](seen.png)" in card
    assert "what the model wrote, each symbol below the position where it was emitted:" in card
    assert "a residual CNN over columns with a bidirectional LSTM" in card
    assert (run.path / "seen.png").exists()
    picture = Pair(str(table.parent / "strips" / "05.png"), "x")
    seen = look(run.predictor, picture, run.predict([picture])[0].text)
    assert "".join(seen.symbols) == seen.output
    assert seen.picture.shape[0] == 10
    assert (np.diff(seen.weights.argmax(1)) > 0).all()  # letters stand one after the other


def test_an_alignment_by_ctc_is_the_best_of_all_paths() -> None:
    random, ids = np.random.default_rng(1), [1, 2, 2]
    frames = np.log(random.dirichlet(np.ones(3), 6))
    paths = [path for path in product(range(3), repeat=6) if merged(np.array(path)) == tuple(ids)]
    best = max(paths, key=lambda path: frames[np.arange(6), list(path)].sum())
    begins = [at for at in range(6) if best[at] and (at == 0 or best[at] != best[at - 1])]
    assert aligned(frames, ids) == begins
    assert aligned(frames[:3], ids) == []
    assert aligned(frames, []) == []


def test_views_that_are_left_out_speak_of_positions_and_of_ctc(run: Run) -> None:
    subject = Subject(run.predictor)
    assert attention.why_not(subject).endswith("each position of its encoder emits a symbol or a blank (CTC)")
    with pytest.raises(DoesNotApply, match="the input has 61 positions"):
        check_attributed(subject, 61, 2)
    with pytest.raises(DoesNotApply, match="the output has 61 symbols"):
        check_attributed(subject, 60, 61)


def test_attention_over_a_grid_is_a_grid(table: Path, tmp_path: Path, rendered: None) -> None:
    settings = {**SMALL, "image.layout": "grid"}
    trained = train(table, **ROLES, out=tmp_path / "run", steps=2, settings=settings, reporter=Quiet(), seed=1)
    seen = look(trained.predictor, Pair(str(table.parent / "strips" / "05.png"), "x"), "ab")
    assert len(seen.symbols) == len(seen.weights) == 3  # a, b and the end
    assert seen.height > 1
    np.testing.assert_allclose(seen.weights.sum(1), 1, atol=1e-4)
    draw_seen([seen] * 3, tmp_path / "seen.png", "three")
    assert PIL.open(tmp_path / "seen.png").size[0] > 800
    assert seen.weights.shape[1] % seen.height == 0
    plots = trained.inspect(Pair(str(table.parent / "strips" / "05.png")), force="ab", views="attention").numbers
    heat = plots["lines"][0]["views"]["attention"]["cross"]
    assert heat["grid_rows"] == seen.height
    assert len(heat["columns"]) == seen.weights.shape[1]
    grey = np.array(heat["picture"])  # what the page draws below the attention
    assert (grey.shape[0], grey.min() >= 0, grey.max() <= 1, np.ptp(grey) > 0.3) == (10, True, True, True)


def test_columns_of_pixels_stand_above_the_positions_that_read_them(run: Run, table: Path) -> None:
    picture = Pair(str(table.parent / "strips" / "05.png"))
    (line,) = Subject(run.predictor).written([picture], ["ab"])
    positions = look(run.predictor, picture, "ab").weights.shape[1]
    assert source_picture(line).track.shape == (10, positions)
    ramp = np.arange(12.0).reshape(2, 6)
    assert pooled(ramp, 40, 3).tolist() == [[0.5, 2.5, 4.5], [6.5, 8.5, 10.5]]
    assert pooled(ramp, 1, 2).tolist() == [[4, 7]]


def test_a_file_a_folder_a_table_and_arrays_are_predicted_alike(run: Run, table: Path, weft: Weft) -> None:
    strips = table.parent / "strips"
    every = [line.split("\t") for line in weft("predict", run.path, strips, "--format", "tsv").lines]
    assert [cells[0] for cells in every] == [f"{n:02}.png" for n in range(64)]
    assert weft("predict", run.path, strips / "05.png").lines == [every[5][1]]
    rows = weft("predict", run.path, table, "--format", "tsv").lines
    assert [row.split("\t")[:2] for row in rows] == [[f"strips/{cells[0]}", cells[1]] for cells in every]
    os.chdir(strips)
    assert weft("predict", run.path, stdin="05.png\n07.png\n").lines == [every[5][1], every[7][1]]
    pixels = np.asarray(PIL.open(strips / "05.png"))
    outputs = run.predict([str(strips / "05.png"), pixels, pixels[..., None] / 255])
    assert [output.text for output in outputs] == [every[5][1]] * 3


def test_inputs_that_are_no_pictures_are_refused(run: Run, weft: Weft, tmp_path: Path) -> None:
    refused(weft("predict", run.path, tmp_path), "no file in this folder that ends in .png")
    refused(weft("predict", run.path, stdin="nowhere.png\n"), "there is no file 'nowhere.png'", "looked for in")
    with pytest.raises(UserError, match="neither a file name nor a picture"):
        run.predict([np.zeros(3)])


def test_a_prediction_does_not_depend_on_its_batch_mates(run: Run, table: Path) -> None:
    strips = [str(path) for path in sorted((table.parent / "strips").iterdir())[:12]]
    for picture, prediction in zip(strips, run.predict(strips)):
        alone = run.predict([picture])[0]
        assert alone.text == prediction.text
        assert alone.outputs[0].log_prob == pytest.approx(prediction.outputs[0].log_prob, abs=1e-4)


def test_a_run_of_pictures_that_is_killed_and_resumed_ends_with_the_same_weights(table: Path, tmp_path: Path) -> None:
    settings = {**SMALL, "image.shift": 0.1, "image.rotate": 5.0, "train.evaluations": 10}
    flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    flags += ["--source", "image", "--target", "letters"]
    whole, killed, threads = tmp_path / "whole", tmp_path / "killed", str(torch.get_num_threads())
    process = Started(
        tmp_path / "streams", "train", table, "--out", killed, "--steps", 40, *flags, OMP_NUM_THREADS=threads
    )
    process.wait_for(lambda: any((killed / "checkpoints").glob("step-*")))
    process.kill()
    assert not (killed / "README.md").exists(), "the run was over before it was killed: make it longer"
    train(out=killed, resume=True, reporter=Quiet())
    train(table, **ROLES, out=whole, steps=40, settings=settings, reporter=Quiet())
    weights = [load_file(run / "last" / "weights.safetensors") for run in (killed, whole)]
    assert any(name.endswith("variance") for name in weights[0])
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


VARIANTS: dict[str, dict[str, Any]] = {
    "attention over the grid": {"image.layout": "grid"},
    "the summary alone": {"image.layout": "grid", "decoder.attention.score": "none"},
    "a Transformer over the grid": {
        "image.layout": "grid", "encoder.kind": "transformer", "encoder.layers": 1, "encoder.heads": 2,
        "decoder.kind": "transformer", "decoder.layers": 1, "decoder.heads": 2, "embed.positions": "sinusoid",
    },
    "a decoder over columns": {"image.layout": "columns", "head.kind": "tokens", "decoder.width": 24},
    "members": {"image.layout": "grid", "train.members": 2},
}  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
def test_other_models_read_pictures_too(name: str, table: Path, tmp_path: Path) -> None:
    settings = {**SMALL, **VARIANTS[name]}
    trained = train(table, **ROLES, out=tmp_path / "run", steps=4, settings=settings, reporter=Quiet(), seed=1)
    strips = [str(path) for path in sorted((table.parent / "strips").iterdir())[:3]]
    together, alone = trained.predict(strips), [trained.predict([picture])[0] for picture in strips]
    assert [output.text for output in together] == [output.text for output in alone]


@pytest.mark.parametrize("use", ["attend", "flow", "joint"])
def test_a_sentence_beside_a_picture_is_read(use: str, table: Path, tmp_path: Path) -> None:
    roles = {"source": "image", "target": "answer", "context": "question"}
    settings = {**SMALL, "context.use": use}
    out = tmp_path / "run"
    trained = train(table, **roles, task="classify", out=out, steps=4, settings=settings, reporter=Quiet(), seed=1)
    assert trained.spec.image.layout == "grid"
    assert set(trained.evaluate(table)) >= {"accuracy", "macro_f1"}


def test_symbols_at_the_same_place_do_not_cover_each_other() -> None:
    symbols = [(0.1, "3"), (0.5, "7"), (0.505, "<end>"), (0.12, "4"), (0.9, "1")]
    assert beside_each_other(symbols) == [(0.1, "3 4"), (0.5, "7 <end>"), (0.9, "1")]
    grown = [(0.5, "3"), (0.53, "9"), (0.51, "<end>")]
    assert beside_each_other(grown) == [(0.5, "3 <end> 9")]
