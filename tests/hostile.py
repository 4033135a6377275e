"""Run folders as a stranger might make them: a grammar of tricks, and what must hold whatever they are.

`HostileFolders` copies a good run, applies one to three tricks to the copy, signs it anew in most cases (a stranger's
checksums fit), and uses it as a person would. `tests/test_trust.py` tries some; `make audit` tries thousands.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import struct
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.core import manifest
from weft.learn import checkpoint

NUMBERS = (0, -1, 2, 7, 40_000, 10**6, 10**9, 10**20, 10**400, 1e308, float("nan"), float("inf"), 0.5)
TEXTS = ("", "x", "../outside/secret.txt", "/etc/passwd", "\0", "é" * 3000, "cuda:99", "true", "*", "&a", "{", "lstm")
DEEP = "[" * 100_000 + "]" * 100_000
ACTIONS = ("predict", "predict", "predict", "evaluate", "resume", "init", "export", "verify", "engine")
TRACEBACK = ("Traceback", "Weft failed")


@dataclass(frozen=True)
class Ground:
    """What every attempt copies: a good run, its pairs, and a folder outside that must stay as it is."""

    run: Path
    pairs: Path
    others: tuple[Path, ...] = ()  # further good runs
    lines: str = "abc\nfedcba\n"  # what they predict
    options: tuple[str, ...] = ()  # what their training needs besides the pairs

    @property
    def runs(self) -> tuple[Path, ...]:
        return (self.run, *self.others)


class Attempt:
    """One hostile folder; `tricks` says what was done to it."""

    def __init__(self, ground: Ground, number: int, folder: Path) -> None:
        self.draw, self.folder, self.ground = random.Random(number), folder, ground
        self.run, self.outside = folder / "run", folder / "outside"
        shutil.copytree(self.draw.choice(ground.runs), self.run, symlinks=True)
        self.outside.mkdir()
        (self.outside / "secret.txt").write_text("a secret\n", encoding="utf-8")
        self.tricks: list[str] = []

    def prepare(self) -> None:
        for _ in range(self.draw.choice((1, 1, 1, 2, 3))):
            trick = self.draw.choice(TRICKS)
            with contextlib.suppress(Exception):  # an earlier trick may have left nothing for this one
                self.tricks.append(f"{trick.__name__} {trick(self)}")
        if self.draw.random() < 0.8:
            self.sign()

    def files(self, *suffixes: str) -> list[Path]:
        paths = sorted(path for path in self.run.rglob("*") if path.is_file() and not path.is_symlink())
        return [path for path in paths if not suffixes or path.name.endswith(suffixes)]

    def pick(self, *suffixes: str) -> Path:
        return self.draw.choice(self.files(*suffixes))

    def sign(self) -> None:
        """Make every checksum fit, as who forges a folder would; not those of files that take hours to read."""
        if any(path.stat().st_size > 1 << 30 for path in self.files()):
            return
        for path in self.files(checkpoint.PROGRESS):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
                content = json.loads(path.read_text(encoding="utf-8"))
                names = (checkpoint.WEIGHTS, checkpoint.OPTIMISER)
                content["sums"] = {n: manifest.entry_of_file(path.parent, n).sha256 for n in names}
                content["sum"] = manifest.sum_of({k: v for k, v in content.items() if k != "sum"})
                path.write_text(json.dumps(content), encoding="utf-8")
        for home in [path.parent for path in self.files(manifest.NAME)]:
            with contextlib.suppress(OSError, manifest.Damaged):
                manifest.seal(home, [name for name in manifest.read(home) if (home / name).exists()])

    @property
    def must_refuse(self) -> bool:
        """Whether the folder holds what no run has: links elsewhere, pipes, or too much."""
        paths = list(self.run.rglob("*"))
        links = [path for path in paths if path.is_symlink()]
        own = [
            path
            for path in links
            if path.name in ("best", "last") and os.readlink(path).startswith("checkpoints/step-")
        ]
        odd = any(not path.is_symlink() and not path.is_file() and not path.is_dir() for path in paths)
        return len(links) > len(own) or odd or len(paths) > 20_000 or any(len(p.parts) > 40 for p in paths)

    def snapshot(self) -> dict[str, tuple[int, bytes]]:
        """What is outside, by name: size and content."""
        paths = [p for p in self.folder.rglob("*") if self.run not in p.parents and p.is_file() and not p.is_symlink()]
        return {str(path): (path.stat().st_size, path.read_bytes()[:100_000]) for path in paths}


# tricks: each changes the folder and returns what it did --------------------------------------------------------------


def link_outside(attempt: Attempt) -> str:
    """Move a file or a folder outside, and put a link in its place."""
    path = attempt.draw.choice([p for p in sorted(attempt.run.rglob("*")) if not p.is_symlink() and p.name != "lock"])
    target = attempt.outside / f"{len(list(attempt.outside.iterdir()))}-{path.name}"
    path.rename(target)
    path.symlink_to(target if attempt.draw.random() < 0.5 else os.path.relpath(target, path.parent))
    return str(path.relative_to(attempt.run))


def new_link(attempt: Attempt) -> str:
    """Add a link where Weft writes or reads."""
    names = (
        "log.jsonl",
        "README.md",
        "curves.png",
        "lock",
        ".spec.yaml.part",
        ".manifest.json.part",
        ".README.md.part",
    )
    names += (
        "checkpoints/.step-000099.part",
        "checkpoints/step-999999",
        "members",
        "ctranslate2",
        "tensorboard",
        "best",
    )
    name = attempt.draw.choice(names)
    path = attempt.run / name
    targets = (
        "/",
        "..",
        ".",
        name.split("/")[-1],
        str(attempt.outside),
        str(attempt.outside / "secret.txt"),
        "/dev/zero",
    )
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    target = attempt.draw.choice(targets)
    path.symlink_to(target)
    return f"{name} → {target}"


def special_file(attempt: Attempt) -> str:
    path = attempt.pick()
    path.unlink()
    os.mkfifo(path)
    return f"pipe {path.relative_to(attempt.run)}"


def file_for_folder(attempt: Attempt) -> str:
    name = attempt.draw.choice(
        ("checkpoints", "members", "ctranslate2", "spec.yaml", "source.json", "log.jsonl", "README.md")
    )
    path = attempt.run / name
    if path.is_dir():
        shutil.rmtree(path)
        path.write_text("not a folder", encoding="utf-8")
    else:
        path.unlink(missing_ok=True)
        path.mkdir()
    return name


def odd_members(attempt: Attempt) -> str:
    name = attempt.draw.choice(("2", "02", "-1", "x", "1e3", "²", "3", "99999", "2/members/2", "2/members/2/members/2"))
    home = attempt.run / "members" / name
    if attempt.draw.random() < 0.5:
        shutil.copytree(attempt.run, home, symlinks=True, ignore=shutil.ignore_patterns("members"), dirs_exist_ok=True)
    else:
        (home / "checkpoints" / "step-000012").mkdir(parents=True, exist_ok=True)
    set_setting(attempt, "train.members", attempt.draw.choice((1, 2, 3, 1000)))
    return name


def odd_checkpoints(attempt: Attempt) -> str:
    name = attempt.draw.choice(
        ("step-", "step-²", "step--1", "step-99999999999999999999", "step-1", "step-000012 (copy)")
    )
    newest = sorted((attempt.run / "checkpoints").glob("step-*"))[-1]
    shutil.copytree(newest, attempt.run / "checkpoints" / name, dirs_exist_ok=True)
    return name


def many_files(attempt: Attempt) -> str:
    if attempt.draw.random() < 0.5:
        for number in range(21_000):
            os.close(os.open(attempt.run / f"file-{number}", os.O_CREAT | os.O_WRONLY))
            return "21,000 files"
    path = attempt.run
    for _ in range(60):
        path = path / "deep"
    path.mkdir(parents=True)
    return "60 levels"


def hostile_spec(attempt: Attempt) -> str:
    """Replace a random setting."""
    import yaml

    path = attempt.run / "spec.yaml"
    tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    keys = [(group, key) for group, values in tree.items() if isinstance(values, dict) for key in values]
    group, key = attempt.draw.choice(keys)
    tree[group][key] = attempt.draw.choice((*NUMBERS, *TEXTS, None, [], {}, [1, 2], {"kind": "x"}, True))
    path.write_text(yaml.safe_dump(tree, allow_unicode=True), encoding="utf-8")
    return f"{group}.{key}={str(tree[group][key])[:30]}"


def set_setting(attempt: Attempt, key: str, value: Any) -> None:
    import yaml

    path = attempt.run / "spec.yaml"
    tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    *groups, leaf = key.split(".")
    branch = tree
    for group in groups:
        branch = branch[group]
    branch[leaf] = value
    path.write_text(yaml.safe_dump(tree, allow_unicode=True), encoding="utf-8")


def hostile_size(attempt: Attempt) -> str:
    """Ask for a model that no machine can hold, or that is never built."""
    keys = ("encoder.width", "decoder.width", "embed.width", "encoder.layers", "decoder.layers", "encoder.inner")
    keys += ("decoder.heads", "train.members", "train.batch_tokens", "search.width", "train.valid_pairs")
    key = attempt.draw.choice(keys)
    value = attempt.draw.choice((40_000, 10**5, 10**6, 10**9, 10**12))
    set_setting(attempt, key, value)
    return f"{key}={value}"


def hostile_names(attempt: Attempt) -> str:
    """Let the settings or the facts name files outside."""
    names = (str(attempt.outside / "secret.txt"), "/dev/zero", "/dev/stdin", "/", "../outside/secret.txt", "-")
    name = attempt.draw.choice(names)
    if attempt.draw.random() < 0.5:
        set_setting(attempt, attempt.draw.choice(("data.pairs", "data.valid")), [name])
        return f"data: {name}"
    path = attempt.run / "data.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content[attempt.draw.choice(("init", "cache", "pairs", "folder", "command"))] = attempt.draw.choice((name, [name]))
    path.write_text(json.dumps(content), encoding="utf-8")
    return f"data.json: {name}"


YAML_BOMBS = (
    "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{c}: &{c} [{','.join([f'*{p}'] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi")),
    "train: &a {steps: *a}\n",
    "a: " + "[" * 5000,
    "a: " + "{b: " * 5000,
    "format: " + "9" * 5000,
    "? " * 3000,
    "!!python/object/apply:os.system ['touch hacked']\n",
    "format: 1\ntrain: !!binary ////\n",
    "format: 1\n<<: [*x]\n",
    "format: 2020-99-99\n",
    "\0",
    "x" * 3_000_000,
    "- " * 2000 + "1\n",
    "",
    "format: 1\n",
    "format: true\n",
    "format: 1\ntrain: null\nencoder: 3\n",
)


def yaml_bomb(attempt: Attempt) -> str:
    bomb = attempt.draw.choice(YAML_BOMBS)
    (attempt.run / "spec.yaml").write_text(bomb, encoding="utf-8")
    return repr(bomb[:40])


def hostile_json(attempt: Attempt) -> str:
    """Replace or remove a random value of a random JSON file."""
    path = attempt.pick(".json")
    tree = json.loads(path.read_text(encoding="utf-8"))
    branches: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in list(pairs)[:200]:
            branches.append((node, key))
            walk(value)

    walk(tree)
    node, key = attempt.draw.choice(branches)
    value = attempt.draw.choice((*NUMBERS[:8], *TEXTS, None, [], {}, [[]], {"a": {}}, True, "remove"))
    if value == "remove":
        del node[key]
    else:
        node[key] = value
    path.write_text(json.dumps(tree), encoding="utf-8")
    return f"{path.relative_to(attempt.run)} {key!s:.20}={value!s:.20}"


def other_content(attempt: Attempt) -> str:
    """Replace the whole content of a file."""
    path = attempt.pick()
    contents = (
        b"",
        b"null",
        b"[]",
        b"{}",
        DEEP.encode(),
        b"\xff" * 100,
        b"0" * 6000,
        b'{"a": ' * 5000,
        os.urandom(3000),
    )
    content = attempt.draw.choice(contents)
    path.write_bytes(content)
    return f"{path.relative_to(attempt.run)} {content[:10]!r}"


def truncated(attempt: Attempt) -> str:
    path = attempt.pick()
    size = path.stat().st_size
    length = attempt.draw.choice((size // 2, max(0, size - 1), size + 10, 1 << 44))
    os.truncate(path, length)
    return f"{path.relative_to(attempt.run)} to {length}"


def hostile_weights(attempt: Attempt) -> str:
    """Change the tensors of a checkpoint: NaN, other shapes, other types, missing ones."""
    import torch
    from safetensors.torch import load_file, save_file

    path = attempt.pick(".safetensors")
    tensors = load_file(path)
    name = attempt.draw.choice(sorted(tensors))
    kind = attempt.draw.choice(("nan", "all nan", "inf", "shape", "type", "missing", "none", "more", "empty"))
    if kind in ("nan", "inf"):
        tensors[name] = torch.full_like(tensors[name].float(), float(kind))
    elif kind == "all nan":
        tensors = {n: torch.full_like(t.float(), float("nan")) for n, t in tensors.items()}
    elif kind == "shape":
        tensors[name] = torch.zeros(*tensors[name].shape, 2)
    elif kind == "type":
        tensors[name] = tensors[name].to(attempt.draw.choice((torch.int8, torch.bool, torch.float64, torch.complex64)))
    elif kind == "missing":
        del tensors[name]
    elif kind == "none":
        tensors = {}
    elif kind == "more":
        tensors |= {f"x.{number}": torch.zeros(1) for number in range(3000)}
    else:
        tensors[name] = torch.zeros(0)
    save_file(tensors, path)
    return f"{path.relative_to(attempt.run)} {kind} {name}"


def hostile_header(attempt: Attempt) -> str:
    """Change the header of a file of tensors."""
    path = attempt.pick(".safetensors")
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    kind = attempt.draw.choice(("length", "huge shape", "offsets", "deep", "garbage"))
    if kind == "length":
        content = struct.pack("<Q", attempt.draw.choice((0, 1, 2**40, 2**64 - 1))) + content[8:]
    else:
        name = attempt.draw.choice([n for n in header if n != "__metadata__"])
        if kind == "huge shape":
            header[name]["shape"] = [10**9, 10**9]
        elif kind == "offsets":
            header[name]["data_offsets"] = [0, 10**15]
        elif kind == "garbage":
            header[name] = "x"
        text = DEEP.encode() if kind == "deep" else json.dumps(header).encode()
        content = struct.pack("<Q", len(text)) + text + content[8 + length :]
    path.write_bytes(content)
    return f"{path.relative_to(attempt.run)} {kind}"


def hostile_log(attempt: Attempt) -> str:
    lines = ("{}", "[]", "3", '{"kind": "final"}', '{"kind": "final", "steps": 12}', '{"kind": "evaluation"}', DEEP)
    lines += (
        '{"kind": "evaluation", "step": "x", "loss": []}',
        '{"kind": "report", "step": 1e999}',
        "\0",
        '{"kind": []}',
    )
    chosen = attempt.draw.choices(lines, k=3)
    (attempt.run / "log.jsonl").write_text("\n".join(chosen) + "\n", encoding="utf-8")
    return repr([line[:30] for line in chosen])


TRICKS: tuple[Callable[[Attempt], str], ...] = (
    *(link_outside, link_outside, new_link, new_link, special_file, file_for_folder, odd_members, odd_checkpoints),
    *(hostile_spec, hostile_spec, hostile_spec, hostile_size, hostile_size, hostile_names, yaml_bomb, yaml_bomb),
    *(hostile_json, hostile_json, hostile_json, hostile_json, other_content, other_content, truncated),
    *(hostile_weights, hostile_weights, hostile_header, hostile_log, many_files),
)


# using the folder -----------------------------------------------------------------------------------------------------


def command(attempt: Attempt, action: str) -> tuple[list[str], str]:
    """The arguments of `weft`, and what it reads from stdin."""
    run, new = str(attempt.run), str(attempt.folder / "new")
    small = ["--steps", "14", "--set", "train.evaluations=1", *attempt.ground.options]
    return {
        "predict": (["predict", run], attempt.ground.lines),
        "engine": (["predict", run, "--engine", "ctranslate2"], attempt.ground.lines),
        "evaluate": (["evaluate", run, str(attempt.ground.pairs)], ""),
        "resume": (["train", "--out", run, "--resume"], ""),
        "init": (["train", str(attempt.ground.pairs), "--init", run, "--out", new, *small], ""),
        "export": (["export", run, "--to", "ctranslate2"], ""),
        "verify": (["verify", run], ""),
    }[action]


def run_weft(arguments: list[str], stdin: str) -> tuple[int, str, str]:
    """Call `weft` in this process; return its exit code and what it wrote."""
    from weft.cli import common
    from weft.cli import main as cli

    out, err = io.StringIO(), io.StringIO()
    before = os.dup(0)
    reader, writer = os.pipe()
    os.write(writer, stdin.encode())
    os.close(writer)
    os.dup2(reader, 0)
    os.close(reader)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            import sys

            sys.stdin = io.TextIOWrapper(os.fdopen(os.dup(0), "rb"), encoding="utf-8")
            warnings.showwarning = lambda message, *_: common.complain(str(message), label="note")
            warnings.filterwarnings("always", module=r"weft\b")
            code = cli._run(cli.hoist(arguments))
    finally:
        os.dup2(before, 0)
        os.close(before)
    return code, out.getvalue(), err.getvalue()


def tried(attempt: Attempt) -> tuple[str, str]:
    """Use the folder; return what was tried, and what fell short ("" if nothing did)."""
    attempt.prepare()
    action = attempt.draw.choice(ACTIONS)
    what = f"{action}: {'; '.join(attempt.tricks)}"
    (attempt.folder / "tried.txt").write_text(what, encoding="utf-8")  # for who finds this process stuck
    before, must_refuse = attempt.snapshot(), attempt.must_refuse
    code, out, err = run_weft(*command(attempt, action))
    if any(mark in err for mark in TRACEBACK):
        return what, f"an error that is not explained: {err[-600:]}"
    after = {name: value for name, value in attempt.snapshot().items() if not name.startswith(f"{attempt.folder}/new/")}
    if after != before:
        return what, f"something outside changed: {sorted(set(after.items()) ^ set(before.items()))[:2]!r:.300}"
    if "a secret" in out + err:
        return what, "something outside was read"
    if must_refuse and code == 0:
        return what, f"it was not refused: {(out + err)[-300:]}"
    if code not in (0, 1, 2):
        return what, f"exit code {code}: {err[-300:]}"
    if code != 0 and "to do: " not in err:
        return what, f"an error without three parts: {err[-300:]}"
    return what, ""
