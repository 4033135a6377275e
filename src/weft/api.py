"""The Python interface of Weft: `train`, `load` and `Run`.

run = weft.train("pairs.tsv", valid="dev.tsv", budget="10m")
run.predict(["a line"])[0].text
run.evaluate("test.tsv")["exact"]
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.core.reporting import Reporter
from weft.data.pairs import Columns, read_pairs
from weft.data.prepare import keep_given
from weft.data.text.tokens import Tokeniser
from weft.learn.budget import read_seconds
from weft.predict import engines
from weft.predict.engines import Detail
from weft.predict.plans import check_search
from weft.predict.predictions import Predictions
from weft.predict.predictor import Predictor
from weft.predict.stream import CHUNK, predict_stream
from weft.runs.folder import RunFolder
from weft.runs.job import Job, named_files
from weft.runs.log import LogFile
from weft.runs.report import reporter as speaking_reporter
from weft.runs.train import run_job
from weft.score.evaluation import Evaluation, html_rows
from weft.score.metrics import table_of
from weft.settings import Layer, compose, put, read_file, read_overrides
from weft.spec import Search, Spec

A_MARK = {"tag": "a tag", "features": "features"}  # in a sentence


class Run:
    """A trained run folder."""

    def __init__(self, path: str | Path, strict: bool = False) -> None:
        self.folder, self._strict = RunFolder(path), strict
        self.path = self.folder.path
        self.spec: Spec = self.folder.read_spec()
        self._predictor: Predictor | None = None

    @property
    def predictor(self) -> Predictor:
        """The model with its tokenisers, loaded when it is first needed."""
        if self._predictor is None:
            self._predictor = Predictor.load(self.path, strict=self._strict)
        return self._predictor

    @property
    def columns(self) -> Columns:
        """The columns of the training files that held source, target, features and tag."""
        data = self.spec.data
        return Columns(data.source, data.target, data.features, data.tag, data.context)

    def predict(
        self,
        lines: Sequence[str | Pair],
        *,
        search: Mapping[str, Any] | None = None,
        nbest: int = 1,
        prefix: str = "",
        engine: str = "auto",
        detail: Detail = "tokens",
    ) -> Predictions:
        """Predict for each line, in order; a notebook shows the result as a table.

        `search` overrides settings of the run: `{"kind": "greedy"}`, `{"width": 10}`. Each line gets `nbest` outputs,
        and every output begins with `prefix`. `engine` is torch, ctranslate2 or auto, which uses CTranslate2 if the run
        has a float32 export and CTranslate2 supports the search and the `detail` (it has no scores of single tokens).
        """
        if isinstance(lines, str):
            raise UserError(
                "a single text was given where a list of lines is expected", "lines", "give a list: predict([text])"
            )
        pairs = [self._input(line, number) for number, line in enumerate(lines, 1)]
        chunks = self.predictions(
            pairs, search=search, nbest=nbest, prefix=prefix, engine=engine, detail=detail, chunk=max(1, len(pairs))
        )
        predictions = Predictions()
        for chunk in chunks:
            predictions.extend(chunk)
        return predictions

    def predictions(
        self,
        inputs: Iterable[Pair],
        *,
        search: Mapping[str, Any] | None = None,
        nbest: int = 1,
        prefix: str = "",
        engine: str = "auto",
        detail: Detail = "tokens",
        chunk: int = CHUNK,
    ) -> Iterator[Predictions]:
        """Predict a stream of inputs, `chunk` at a time, as `predict` does; the settings are checked immediately."""
        plan = self.predictor.plan(self.search(search), nbest, prefix)
        translator = engines.choose(engine, self.folder, self.predictor, plan, detail)
        return predict_stream(self.predictor, inputs, plan, translator, chunk)

    def _input(self, line: str | Pair, number: int) -> Pair:
        """Return the line as a pair; it must have the tag and the features that the run was trained with."""
        where = f"line {number} of the list"
        if not isinstance(line, str | Pair):
            todo = "give texts, or weft.Pair(text, tag=…, features=(…))"
            raise UserError(f"{line!r} is neither a text nor a Pair", where, todo)
        pair = line if isinstance(line, Pair) else Pair(line)
        if isinstance(pair.features, str):
            raise UserError("features were given as a single text", where, "give a tuple: features=('V', 'PST')")
        for name in ("tag", "features"):
            trained_with = self.spec.data.tag if name == "tag" else self.spec.data.features
            if trained_with is not None and pair.source.strip() and not (pair.tag if name == "tag" else pair.features):
                raise UserError(
                    f"this run was trained with {A_MARK[name]}, but this line has none",
                    where,
                    f"give weft.Pair(…, {name}=…)",
                )
        return pair

    def _check_marks(self, pairs: Sequence[Pair]) -> None:
        """Refuse pairs without the tag or the features that the run was trained with: it could not do well."""
        data, source = self.spec.data, self.predictor.sides.source
        known = source.marks if isinstance(source, Tokeniser) else []
        for name, column in (("tag", data.tag), ("features", data.features)):
            if known and column is not None and not any(pair.tag if name == "tag" else pair.features for pair in pairs):
                raise UserError(
                    f"the run {self.path} was trained with {A_MARK[name]}, but none of the pairs has {A_MARK[name]}",
                    name,
                    f"name the {name} column, or give weft.Pair(…, {name}=…)",
                )

    def search(self, changes: Mapping[str, Any] | None = None) -> Search:
        """Return the search settings of the run, with changes."""
        check_search(changes or {}, self.predictor.sides.target_kind)
        try:
            return compose(("run", self.spec.model_dump()), ("flag", {"search": dict(changes or {})})).spec.search
        except UserError as error:
            raise type(error)(error.what, error.where.replace(" (from flag)", ""), error.todo) from None

    def evaluate(
        self,
        pairs: str | Path | Sequence[Pair] | Sequence[tuple[str, str]],
        *,
        search: Mapping[str, Any] | None = None,
        columns: Columns | None = None,
        on_bad_line: Literal["stop", "skip"] = "stop",
        tick: Callable[[int], None] | None = None,
    ) -> Evaluation:
        """Predict the sources of the pairs, and return scores that compare the outputs with the targets."""
        if isinstance(pairs, str | Path):
            longest = self.spec.data.longest
            columns, kinds = columns or self.columns, self.predictor.sides.kinds
            pairs = list(read_pairs([str(pairs)], columns, on_bad_line=on_bad_line, longest=longest, kinds=kinds))
        listed = as_pairs(pairs)
        if not listed:
            raise UserError("there are no pairs to evaluate", "pairs", "give a file, or a list with at least one pair")
        self._check_marks(listed)
        notes = self.predictor.input_notes()
        notes.see(listed)
        notes.tell()
        found = self.predictor.evaluate(listed, self.predictor.plan(self.search(search)), tick)
        return replace(
            found, signatures=table_of(self.predictor.sides.target_kind).signatures([pair.targets for pair in listed])
        )

    def __repr__(self) -> str:
        return f"<weft run {self.path}: {self._headline()}>"

    def _headline(self) -> str:
        line = _final_line(self.folder)
        metric = self.spec.train.select
        scored = f"{metric} {line[metric]:.2f} on {line['pairs']:,} validation pairs" if line else "not finished"
        return f"{self.spec.encoder.kind} → {self.spec.decoder.kind}, {scored}"

    def _repr_html_(self) -> str:
        line = _final_line(self.folder)
        rows = html_rows(line)
        title = f"<b>weft run</b> <code>{html.escape(str(self.path))}</code> {html.escape(self._headline())}"
        return f"{title}<table>{rows}</table>"


def _final_line(folder: RunFolder) -> dict[str, Any]:
    line = LogFile(folder.log).last()
    return line if line.get("kind") == "final" else {}


def load(run: str | Path, *others: str | Path, strict: bool = False) -> Run:
    """Load a run folder that `train` created; `others` are runs that predict together with it (as an ensemble).

    Damaged weights are reported, and older ones are used instead; `strict`: they are an error.
    """
    first = Run(run, strict)
    for other in others:
        first.predictor.join(Predictor.load(other, strict=strict), str(other))
    return first


def train(
    pairs: str | Path | Sequence[str | Path] | Sequence[Pair] | Sequence[tuple[str, str]] = (),
    *,
    out: str | Path | None = None,
    valid: str | Path | Sequence[str | Path] | Sequence[Pair] | Sequence[tuple[str, str]] | None = None,
    budget: str | float | None = None,
    steps: int | None = None,
    epochs: float | None = None,
    config: str | Path | None = None,
    settings: Mapping[str, Any] | Sequence[str] = (),
    seed: int | None = None,
    resume: bool = False,
    init: str | Path | None = None,
    task: str | None = None,
    source: str | int | None = None,
    target: str | int | None = None,
    context: str | int | None = None,
    features: str | int | None = None,
    tag: str | int | None = None,
    on_bad_line: Literal["stop", "skip"] | None = None,
    strict: bool = False,
    reporter: Reporter | None = None,
    command: str = "weft.train(…)",
) -> Run:
    """Train on pairs and return the run. `pairs` and `valid` are files or lists of pairs.

    What you do not set is chosen to suit the data. `settings` has dotted keys, as a mapping (`{"decoder.cell": "gru"}`)
    or as a list of what `--set` takes (`["decoder.cell=gru"]`). `budget` is a text such as "10m", or seconds. With
    `strict`, resuming from an older checkpoint because the newest is damaged is an error. Progress goes to stderr;
    `reporter=weft.runs.report.Quiet()` prints nothing.
    """
    roles = {"source": source, "target": target, "context": context, "features": features, "tag": tag}
    files, valid_files, columns = given_data(pairs, valid, roles)
    given = {
        "task": task,
        **columns,
        "data.on_bad_line": on_bad_line,
        "train.budget_seconds": read_seconds(budget) if budget is not None else None,
        "train.steps": steps,
        "train.epochs": epochs,
        "train.seed": seed,
    }
    file_layer, flag_layer = read_file(config) if config is not None else {}, flags_of(settings, given)
    files, validation = named_files(files, valid_files, file_layer, flag_layer)
    job = Job(
        pairs=files,
        valid=validation,
        out=None if out is None else Path(out),
        file_layer=file_layer,
        flag_layer=flag_layer,
        resume=resume,
        init=None if init is None else Path(init),
        command=command,
        strict=strict,
    )
    return Run(run_job(job, reporter or speaking_reporter()))


def given_data(
    pairs: Any, valid: Any, roles: Mapping[str, str | int | None]
) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, str | int | None]]:
    """The files of training and validation, and the settings of their columns, which `roles` may name.

    A list of pairs is written to a file, which can be read again.
    """
    files, listed = _files_or_pairs(pairs)
    valid_files, valid_listed = _files_or_pairs(valid or ())
    if valid_listed and files:
        what = "the validation pairs are given as a list, but the training pairs as files"
        raise UserError(what, "valid", "give both as files, or both as lists of pairs")
    if listed:
        have = [role for role in ("tag", "features", "context") if any(_has(pair, role) for pair in listed)]
        roles = {**roles, **{role: role if role in have else None for role in ("tag", "features", "context")}}
        files = (keep_given(listed),)
    if valid_listed:
        valid_files = (keep_given(valid_listed),)
    return files, valid_files, {f"data.{role}": column for role, column in roles.items()}


def _has(pair: Pair, role: str) -> bool:
    return bool({"tag": pair.tag, "features": pair.features, "context": pair.context}[role])


def flags_of(settings: Mapping[str, Any] | Sequence[str], given: Mapping[str, Any]) -> Layer:
    """Settings as Python takes them, and over them what else was given, as a layer."""
    layer = {} if isinstance(settings, Mapping) else read_overrides(settings)
    for key, value in settings.items() if isinstance(settings, Mapping) else ():
        put(layer, key, value)
    for key, value in given.items():
        if value is not None:
            put(layer, key, value)
    return layer


def _files_or_pairs(given: Any) -> tuple[tuple[str, ...], list[Pair]]:
    """What somebody gave as data: one file name or several, or else pairs."""
    items: list[Any] = [given] if isinstance(given, str | Path) else list(given)
    if all(isinstance(item, str | Path) for item in items):
        return tuple(map(str, items)), []
    return (), as_pairs(items)


def as_pairs(items: Iterable[Pair | tuple[str, str]]) -> list[Pair]:
    return [item if isinstance(item, Pair) else _pair(item, place) for place, item in enumerate(items, 1)]


def _pair(item: Any, place: int) -> Pair:
    if isinstance(item, tuple | list) and len(item) >= 2 and all(isinstance(text, str) for text in item[:2]):
        return Pair(*item)
    todo = "give (source, target) or weft.Pair(…); to read a file, give its name instead of a list"
    raise UserError(f"{item!r} is not a pair", f"item {place} of the list", todo)
