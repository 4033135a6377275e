"""Damage is noticed, a folder from a stranger is data, and the cache is never believed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

import hostile
from commands import Weft, refused
from weft.api import Run
from weft.bounded_yaml import MOST_CHARACTERS, parse_yaml
from weft.core import files, manifest
from weft.core.errors import UserError
from weft.data.cache import cache_root
from weft.data.prepare import Files, Prepared
from weft.data.sides.sides import Sides
from weft.learn import checkpoint
from weft.learn.progress import Progress
from weft.learn.snapshot import Snapshots
from weft.runs.folder import RunFolder
from weft.runs.verify import accept, verify


@pytest.fixture
def copied(tiny_run: Run, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_run.path, tmp_path / "run", symlinks=True))


def flip(path: Path, place: int = -1) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if place < 0 else place] ^= 1
    path.write_bytes(content)


def states(run: Path) -> dict[str, str]:
    return {state.name: state.state for state in verify(RunFolder(run)) if not state.name.startswith("/")}


# manifests ------------------------------------------------------------------------------------------------------------


def test_the_manifest_of_a_finished_run_lists_every_file(tiny_run: Run) -> None:
    listed = set(manifest.read(tiny_run.path))
    paths = [path.relative_to(tiny_run.path) for path in tiny_run.path.rglob("*") if path.is_file()]
    there = {str(path) for path in paths if path.parts[0] not in ("best", "last")}
    assert there - listed == {"manifest.json", "lock"}
    assert listed <= there


def test_verify_calls_every_file_of_a_good_run_whole(weft: Weft, copied: Path) -> None:
    done = weft("verify", copied)
    assert (done.code, done.err) == (0, "")
    assert {line.split()[0] for line in done.lines} == {"whole"}
    names = [line.split()[1] for line in done.lines]
    assert "spec.yaml" in names
    assert any(name.endswith("pairs.spool") for name in names), "the cache entries that it uses"
    assert any(name.endswith("source.ids") for name in names)


@pytest.mark.parametrize(
    "name", ["spec.yaml", "source.json", "data.json", "choices.json", "log.jsonl", "README.md", "manifest.json"]
)
def test_verify_finds_one_changed_bit(weft: Weft, copied: Path, name: str) -> None:
    flip(copied / name)
    done = weft("verify", copied)
    assert done.code == 1
    assert f"damaged  {name}" in done.out
    assert "are damaged" in done.err
    assert "  to do: restore" in done.err


def test_verify_finds_a_missing_file_and_a_changed_weight(copied: Path) -> None:
    step = checkpoint.name_of(checkpoint.steps(copied / "checkpoints")[-1])
    flip(copied / "checkpoints" / step / "weights.safetensors")
    (copied / "target.json").unlink()
    found = states(copied)
    assert found["target.json"] == found[f"checkpoints/{step}/weights.safetensors"] == "damaged"
    assert found["spec.yaml"] == "whole"


def test_a_run_without_a_manifest_predicts_and_its_files_are_unknown(weft: Weft, copied: Path) -> None:
    (copied / "manifest.json").unlink()
    assert weft("predict", copied, stdin="abc\n").err == ""
    found = states(copied)
    assert found["spec.yaml"] == found["source.json"] == "unknown"
    assert {state for name, state in found.items() if name.startswith("checkpoints/")} == {"whole"}, "by their own sums"
    assert found["log.jsonl"] == "whole", "by the checkpoint's"


def test_an_edited_spec_is_refused_until_it_is_accepted(weft: Weft, copied: Path) -> None:
    path = copied / "spec.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("no_repeat: 0", "no_repeat: 2"), encoding="utf-8")
    for command in (
        ["predict", copied],
        ["train", "--out", copied, "--resume"],
        ["export", copied, "--to", "ctranslate2"],
    ):
        refused(
            weft(*command, stdin="abc\n"), "spec.yaml is not as training wrote it", f"weft verify {copied} --accept"
        )
    assert "or, if you have edited it, add --accept" in weft("verify", copied).err
    done = weft("verify", copied, "--accept")
    assert (done.code, done.err) == (0, "note: spec.yaml is accepted as it is now\n")
    assert weft("predict", copied, stdin="abc\n").code == 0
    assert Run(copied).spec.search.no_repeat == 2


def test_a_spec_that_cannot_be_read_is_not_accepted(weft: Weft, copied: Path) -> None:
    (copied / "spec.yaml").write_text("format: 1\nencoder: {width: much}\n", encoding="utf-8")
    refused(weft("verify", copied, "--accept"), "encoder.width")


def test_a_damaged_manifest_is_told_and_can_be_accepted(weft: Weft, copied: Path) -> None:
    flip(copied / "manifest.json")
    refused(weft("predict", copied, stdin="abc\n"), "the manifest of this run is damaged", "--accept")
    accept(RunFolder(copied))
    assert weft("predict", copied, stdin="abc\n").code == 0


@pytest.mark.parametrize("name", ["source.json", "target.json", "data.json"])
def test_one_changed_bit_of_a_small_file_stops_a_prediction(weft: Weft, copied: Path, name: str) -> None:
    flip(copied / name)
    refused(weft("predict", copied, stdin="abc\n"), "the file is damaged, its checksum does not match", name)


def test_strict_makes_an_older_checkpoint_an_error(weft: Weft, copied: Path) -> None:
    best = checkpoint.best_step(copied / "checkpoints")
    assert best is not None
    flip(copied / "checkpoints" / checkpoint.name_of(best) / "weights.safetensors")
    done = weft("predict", copied, stdin="abc\n")
    assert done.code == 0
    assert "is used instead" in done.err
    refused(weft("predict", copied, "--strict", stdin="abc\n"), "is damaged", "leave --strict out")


def test_a_checkpoint_that_cannot_tell_which_is_the_best_is_said(weft: Weft, copied: Path) -> None:
    newest = checkpoint.steps(copied / "checkpoints")[-1]
    flip(copied / "checkpoints" / checkpoint.name_of(newest) / "progress.json")
    done = weft("predict", copied, stdin="abc\n")
    assert (done.code, len(done.lines)) == (0, 1)
    assert "progress.json" in done.err
    assert "is used instead" in done.err
    refused(weft("predict", copied, "--strict", stdin="abc\n"), "is damaged", "leave --strict out")


def test_strict_makes_resuming_from_an_older_checkpoint_an_error(weft: Weft, copied: Path) -> None:
    flip(copied / "last" / "optimiser.safetensors")
    refused(weft("train", "--out", copied, "--resume", "--strict"), "is damaged", "leave --strict out")


def test_the_best_checkpoint_does_not_depend_on_the_link(copied: Path) -> None:
    best = checkpoint.best_step(copied / "checkpoints")
    (copied / "best").unlink()
    assert checkpoint.best_step(copied / "checkpoints") == best


def test_a_manifest_that_is_one_step_behind_is_no_damage(copied: Path) -> None:
    newest = checkpoint.steps(copied / "checkpoints")[-1]
    manifest.update(copied, {}, drop=lambda name: checkpoint.step_of(name) == newest)
    assert set(states(copied).values()) == {"whole"}
    Run(copied).predict(["abc"])


# checkpoints after a resume -------------------------------------------------------------------------------------------


def saved(step: int) -> checkpoint.Checkpoint:
    return checkpoint.Checkpoint({"w": torch.zeros(2)}, {"m": torch.zeros(2)}, Progress(step=step, best_step=step))


def test_the_spare_checkpoint_is_kept_after_a_resume_until_two_newer_ones_are_written(tmp_path: Path) -> None:
    before = Snapshots(tmp_path, True)
    for step in (1, 2, 3):
        before.save(saved(step))
    assert checkpoint.steps(tmp_path / "checkpoints") == [2, 3]
    after = Snapshots(tmp_path, True)
    after.restored(saved(3).progress)
    assert checkpoint.steps(tmp_path / "checkpoints") == [2, 3], "the spare one is not pruned"
    after.save(saved(4))
    assert checkpoint.steps(tmp_path / "checkpoints") == [3, 4]
    assert {checkpoint.step_of(name) for name in manifest.read(tmp_path)} == {3, 4}


def test_what_the_manifest_lists_is_there_at_any_instant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, seen = manifest.write, []

    def watched(folder: Path, entries: manifest.Entries) -> None:
        real(folder, entries)
        seen.append([name for name in entries if not (folder / name).exists()])

    monkeypatch.setattr(manifest, "write", watched)
    snapshots = Snapshots(tmp_path, True)
    for step in (1, 2, 3, 3, 4):
        snapshots.save(saved(step))
    assert len(seen) >= 5
    assert not any(seen)


# the cache ------------------------------------------------------------------------------------------------------------


def encoded(pairs: Path, cache: Path) -> dict[str, bytes]:
    """The files of encoded pairs, as a run would have them made or read them."""
    prepared = Prepared(Files((str(pairs),)), cache)
    source, target = prepared.tokenisers(("characters", 0), ("characters", 0), False)
    folder = prepared.corpus(Sides(source, target)).folder
    return {path.name: path.read_bytes() for path in folder.iterdir()}


CACHED = ["scan.json", "pairs.spool", "source.json", "target.ids", "source.rows", "corpus.json"]


@pytest.mark.parametrize("name", CACHED)
def test_a_damaged_cache_is_made_again_and_told_in_one_line(tiny_pairs: Path, tmp_path: Path, name: str) -> None:
    first = encoded(tiny_pairs, tmp_path)
    assert encoded(tiny_pairs, tmp_path) == first
    flip(next(tmp_path.rglob(name)))
    if name == "pairs.spool":  # which is read only where something must be made of it
        shutil.rmtree(next(tmp_path.rglob("corpus-*")))
    with pytest.warns(UserWarning, match="the cache is damaged and will be rebuilt") as notes:
        assert encoded(tiny_pairs, tmp_path) == first
    assert len(notes) == 1


def test_what_the_cache_holds_is_sealed_and_named_by_the_run(tiny_run: Run) -> None:
    entry, corpus = (cache_root() / "corpora" / name for name in tiny_run.folder.read_facts()["cache"])
    assert set(manifest.read(entry)) == {"scan.json", "pairs.spool"}
    assert {"corpus.json", "source.ids", "source.rows"} <= set(manifest.read(corpus))


# folders from a stranger ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["log.jsonl", "checkpoints", "README.md", "source.json", "lock", ".spec.yaml.part"])
def test_a_link_in_a_run_folder_is_refused_and_nothing_outside_changes(weft: Weft, copied: Path, name: str) -> None:
    outside = copied.parent / "outside"
    (copied / name).rename(outside) if (copied / name).exists() else outside.write_text("mine", encoding="utf-8")
    (copied / name).symlink_to(outside)
    before = sorted(outside.rglob("*")) if outside.is_dir() else outside.read_bytes()
    for command in (["predict", copied], ["train", "--out", copied, "--resume"], ["verify", copied]):
        refused(weft(*command, stdin="abc\n"), "this folder holds a link, and links are not followed", "cp -RL")
    assert before == (sorted(outside.rglob("*")) if outside.is_dir() else outside.read_bytes())


def test_best_may_lead_to_a_checkpoint_and_nowhere_else(weft: Weft, copied: Path) -> None:
    (copied / "best").unlink()
    (copied / "best").symlink_to("../outside")
    refused(weft("predict", copied, stdin="abc\n"), "this folder holds a link", "best")


def test_what_training_renames_or_removes_while_a_folder_is_checked_is_no_fault(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copied / ".last.part").symlink_to("checkpoints/step-000001")
    (copied / "checkpoints" / "step-000000").mkdir()
    readlink, scandir = os.readlink, os.scandir

    def renamed(path: str) -> str:
        (copied / ".last.part").unlink(missing_ok=True)
        return readlink(path)

    def removed(path: str | Path) -> object:
        if str(path).endswith("step-000000"):
            shutil.rmtree(path)
        return scandir(path)

    monkeypatch.setattr(files.os, "readlink", renamed)
    monkeypatch.setattr(files.os, "scandir", removed)
    files.check_plain(copied)


def test_a_pipe_in_a_run_folder_is_refused(weft: Weft, copied: Path) -> None:
    os.mkfifo(copied / "extra")
    refused(weft("predict", copied, stdin="abc\n"), "neither a file nor a folder", "remove it")


def test_a_folder_of_too_many_levels_is_refused(weft: Weft, copied: Path) -> None:
    copied.joinpath(*["deep"] * (files.MOST_LEVELS + 1)).mkdir(parents=True)
    refused(weft("predict", copied, stdin="abc\n"), "nests them deeper than")


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a//b", "", ".", "a/../../b"])
def test_a_name_that_leads_outside_is_not_opened(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError, match="leads out of its folder"):
        files.open_regular(tmp_path, name)


def test_only_regular_files_of_bounded_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    for name, reason in (("pipe", "not a regular file"), ("folder", "not a regular file"), ("link", "it is a link")):
        with pytest.raises(OSError, match=reason):
            files.read_regular(tmp_path, name)
    with pytest.raises(OSError, match="more than 4 bytes"):
        files.read_regular(tmp_path, "file", 4)
    assert files.read_regular(tmp_path, "file", 5) == b"12345"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 5000, "nested deeper"),
        ("a: &a [*a]", "contains itself"),
        (f"a: &a 1\nb: [{', '.join(['*a'] * 40)}]", "more than 32 aliases"),
        ("x" * (MOST_CHARACTERS + 1), "longer than"),
        (f"a: {'9' * 5000}", "4300 digits"),
        ("a: 2020-99-99", "month"),
    ],
)
def test_yaml_beyond_the_bounds_is_an_error(text: str, reason: str) -> None:
    with pytest.raises(yaml.YAMLError, match=reason):
        parse_yaml(text)


def test_yaml_within_the_bounds_is_as_it_was() -> None:
    text = "a: &x {k: 1, l: [1, 2.5, null, true]}\nb: {<<: *x, m: text}\n"
    assert parse_yaml(text) == yaml.safe_load(text)


def test_json_that_is_nested_too_deeply_is_an_error() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        files.parse_json(hostile.DEEP)


@pytest.mark.parametrize("key", ["encoder.width", "decoder.layers", "embed.width"])
def test_sizes_that_the_weights_do_not_have_are_refused_before_anything_is_allocated(
    weft: Weft, copied: Path, key: str
) -> None:
    spec = yaml.safe_load((copied / "spec.yaml").read_text(encoding="utf-8"))
    group, leaf = key.split(".")
    spec[group][leaf] = 4096 if leaf == "width" else 60
    (copied / "spec.yaml").write_text(yaml.safe_dump(spec), encoding="utf-8")
    accept(RunFolder(copied))
    refused(weft("predict", copied, stdin="abc\n"), "the weights do not fit the settings")


def test_weights_that_are_not_numbers_are_said(weft: Weft, copied: Path) -> None:
    for path in (copied / "checkpoints").glob("step-*/weights.safetensors"):
        save_file({name: torch.full_like(weight, torch.nan) for name, weight in load_file(path).items()}, path)
        content = json.loads((path.parent / "progress.json").read_text(encoding="utf-8"))
        content["sums"][path.name] = manifest.entry_of_file(path.parent, path.name).sha256
        content["sum"] = manifest.sum_of({key: value for key, value in content.items() if key != "sum"})
        (path.parent / "progress.json").write_text(json.dumps(content), encoding="utf-8")
    (copied / "manifest.json").unlink()
    refused(weft("predict", copied, stdin="abc\n"), "of this run hold NaN or infinity")


@pytest.mark.parametrize("change", [{"step": "x"}, {"place": None}, {"log_bytes": -5}, {"window": []}, {"seconds": []}])
def test_progress_of_other_types_is_damage(change: dict[str, object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        Progress.from_dict({**Progress().to_dict(), **change})


def test_members_are_known_by_their_number_alone(copied: Path) -> None:
    for name in ("x", "02", "-1", "²", "9"):
        (copied / "members" / name / "checkpoints" / "step-000001").mkdir(parents=True)
    assert RunFolder(copied).trained_members() == []


def test_a_run_that_names_a_device_as_its_data_is_refused(weft: Weft, copied: Path) -> None:
    spec = yaml.safe_load((copied / "spec.yaml").read_text(encoding="utf-8"))
    spec["data"]["pairs"] = ["/dev/zero"]
    (copied / "spec.yaml").write_text(yaml.safe_dump(spec), encoding="utf-8")
    accept(RunFolder(copied))
    refused(weft("train", "--out", copied, "--resume"), "the run was trained on /dev/zero, which is not a regular file")


def test_hostile_folders_are_refused_or_harmless(tiny_run: Run, tiny_pairs: Path, tmp_path: Path) -> None:
    ground, problems = hostile.Ground(tiny_run.path, tiny_pairs), []
    for number in range(24):
        (tmp_path / str(number)).mkdir()
        attempt = hostile.Attempt(ground, number, tmp_path / str(number))
        what, problem = hostile.tried(attempt)
        if problem:
            problems.append((number, what, problem))
        shutil.rmtree(tmp_path / str(number))
    assert problems == []


def test_an_export_with_one_changed_bit_is_not_used(tmp_path: Path) -> None:
    from weft.core.manifest import Damaged
    from weft.predict import engines

    run = RunFolder(tmp_path)
    (tmp_path / engines.FOLDER).mkdir()
    facts = tmp_path / engines.FOLDER / engines.FACTS
    facts.write_text('{"checkpoint": "step-000001", "format": "float32"}', encoding="utf-8")
    manifest.seal(facts.parent, [facts.name])
    flip(facts)
    with pytest.raises(Damaged):
        engines._facts(run)
    assert not engines.is_fresh(run)
    with pytest.raises(UserError, match="the exported model is damaged"):
        engines.exported_format(run)
