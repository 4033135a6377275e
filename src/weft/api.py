"""The Python interface of Weft: `train`, `load` and `Run`.

run = weft.train("pairs.tsv", valid="dev.tsv", budget="10m")
run.predict(["a line"])[0].text
run.evaluate("test.tsv")["exact"]
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from weft.core.errors import UserError, did_you_mean
from weft.core.pair import Pair
from weft.core.reporting import Reporter
from weft.data.cells import CELLS, InputChecks, cell_of, with_cells
from weft.data.formats import ReadReport
from weft.data.pairs import Columns, read_pairs
from weft.data.pictures.given import keep_picture
from weft.data.prepare import keep_given
from weft.data.sides.document import body
from weft.data.sound.given import keep_sound
from weft.data.text.tokens import Tokeniser
from weft.learn.budget import read_seconds
from weft.look.inspect.limits import MOST_SECONDS, MOST_TRAINING_LINES
from weft.look.inspect.report import Report, inspect
from weft.look.inspect.views import Options
from weft.predict import engines
from weft.predict.engines import Detail
from weft.predict.lexicon import Lexicon
from weft.predict.plans import check_search
from weft.predict.predictions import Predictions
from weft.predict.predictor import Predictor
from weft.predict.retriever import Found, Retriever
from weft.predict.stream import CHUNK, predict_stream
from weft.runs.folder import MOST_BYTES, WORDS, RunFolder, unreadable
from weft.runs.job import Job, columns_of, named_files
from weft.runs.log import LogFile
from weft.runs.report import reporter as speaking_reporter
from weft.runs.train import run_job
from weft.score.evaluation import Evaluation, html_rows
from weft.score.metrics import table_of
from weft.settings import Layer, compose, put, read_file, read_overrides
from weft.spec import Search, Spec

GIVEN: dict[str, Callable[[Any, str], str]] = {  # what keeps values given in memory, by kind
    "audio": keep_sound,
    "image": keep_picture,
    "numbers": cell_of,
    "notes": cell_of,
}
USUAL_WEIGHT = 1.0  # of BM25, where a run is not finished
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
        """The columns of the training files that held source, target, features, tag and context, and their names."""
        trained = tuple(self.folder.known_facts().get("columns", {}).items())
        return replace(columns_of(self.spec.data), swap=False, trained=trained)

    def input_columns(self, tag: str = "") -> Columns:
        """Return the columns of what to predict: without a tag if one is given for all lines."""
        columns = self.columns
        if tag:
            self._check_tag(tag)
            return replace(columns, tag=None, tag_from="column")
        return replace(columns, tag="tag", tag_from="column") if columns.tag_from == "extension" else columns

    def _check_tag(self, tag: str) -> None:
        """Refuse a tag for all lines that training never saw."""
        source = self.predictor.sides.source
        marks = source.marks if isinstance(source, Tokeniser) else []
        known = [mark[1:-1] for mark in marks if not mark.startswith("<+")]
        if not self.spec.data.tagged:
            raise UserError("this run was trained without tags", f"tag={tag}", "leave the tag out")
        if tag not in known:
            raise UserError(f"training never saw the tag {tag!r}", f"tag={tag}", did_you_mean(tag, known))

    def predict(
        self,
        lines: Sequence[str | Pair | tuple[Any, int]],
        *,
        search: Mapping[str, Any] | None = None,
        nbest: int = 1,
        prefix: str = "",
        engine: str = "auto",
        detail: Detail = "tokens",
    ) -> Predictions:
        """Predict for each line, in order; a notebook shows the result as a table.

        A line is a text or a Pair; where the run reads sound, the name of a file or (samples, rate), and where it
        reads pictures, the name of a file or an array (height, width[, channels]).

        `search` overrides settings of the run: `{"kind": "greedy"}`, `{"width": 10}`. Each line gets `nbest` outputs,
        and every output begins with `prefix`. `engine` is torch, ctranslate2 or auto, which uses CTranslate2 if the run
        has a float32 export and CTranslate2 supports the search and the `detail` (it has no scores of single tokens).
        """
        if isinstance(lines, str):
            raise UserError(
                "a single text was given where a list of lines is expected", "lines", "give a list: predict([text])"
            )
        pairs = [self.as_input(line, number) for number, line in enumerate(lines, 1)]
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
        if self.spec.task == "retrieve":
            what = "this run finds documents for queries, but no documents to search were given"
            raise UserError(what, "among", "give a file with one document per line, or a table with a column `text`")
        plan = self.predictor.plan(self.search(search), nbest, prefix)
        translator = engines.choose(engine, self.folder, self.predictor, plan, detail)
        return predict_stream(self.predictor, inputs, plan, translator, chunk)

    @cached_property
    def retriever(self) -> Retriever:
        """What finds documents; its weight of BM25 is the setting, or the one that validation found."""
        if self.spec.task != "retrieve":
            needs = "searching documents needs a run of --task retrieve"
            what = f"{needs}, but this run was trained with --task {self.spec.task}"
            raise UserError(what, "among", "use a run of --task retrieve, or leave the documents out")
        weight = self.spec.retrieve.lexical
        if weight is None:
            weight = float(LogFile(self.folder.log).final().get("lexical", {}).get("weight", USUAL_WEIGHT))
        return Retriever(self.predictor, weight, self._lexicon())

    def _lexicon(self) -> Lexicon:
        """Return what BM25 knows of words; nothing, where the run is not finished or of an earlier version."""
        path = self.folder.path / WORDS
        if not path.exists():
            return Lexicon()
        try:
            return Lexicon.from_json(self.folder.read(WORDS, "what BM25 knows of words", MOST_BYTES))
        except ValueError as error:
            raise unreadable("what BM25 knows of words", path, error) from None

    def retrieve(self, queries: Sequence[str], among: str | Path | Sequence[str], nbest: int = 10) -> list[list[Found]]:
        """Return the best documents of each query; `among` is a file, which is indexed once, or a list of texts."""
        retriever = self.retriever
        if isinstance(among, str | Path):
            return list(retriever.search(queries, retriever.index(str(among), ReadReport()), nbest))
        index = retriever.listed(list(among))
        return list(retriever.search(queries, index, nbest))

    def evaluate_rankings(self, rankings: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """Return the scores of rankings, and under `alone` those of each part."""
        table = table_of(self.predictor.sides.scored_as)
        scores = {name: table.score(each, [["relevant"]] * len(each)) for name, each in rankings.items()}
        both = scores.pop("both")
        return {**both, "n": len(rankings["both"]), **({"alone": scores} if scores else {})}

    def _ranked(self, pairs: Sequence[Pair], evaluation: Evaluation) -> Evaluation:
        """Return an evaluation of rankings by vectors and BM25 together."""
        first = {text: Pair(pair.source, text) for pair in reversed(pairs) for text in pair.targets}
        numbers = {text: row for row, text in enumerate(first)}
        index = self.retriever.listed([body(pair) for pair in first.values()])
        relevant = [{numbers[text]: 1.0 for text in pair.targets} for pair in pairs]
        rankings = self.retriever.rankings([pair.source for pair in pairs], relevant, index)
        scores = self.evaluate_rankings(rankings)
        return replace(evaluation, metrics={**evaluation.metrics, **scores}, outputs=rankings["both"])

    def as_input(self, line: Any, number: int) -> Pair:
        """Return the line as a pair; it must have the tag and the features that the run was trained with."""
        where = f"line {number} of the list"
        keep = GIVEN.get(self.predictor.sides.source.kind)
        if keep is not None and not isinstance(line, str | Pair):
            line = keep(line, where)
        if keep is not None and isinstance(line, Pair) and not isinstance(line.source, str):
            line = replace(line, source=keep(line.source, where))
        if not isinstance(line, str | Pair):
            todo = "give texts, or weft.Pair(text, tag=…, features=(…))"
            raise UserError(f"{line!r} is neither a text nor a Pair", where, todo)
        pair = with_cells(line, where) if isinstance(line, Pair) else Pair(line)
        if isinstance(pair.features, str):
            raise UserError("features were given as a single text", where, "give a tuple: features=('V', 'PST')")
        data = self.spec.data
        for name in ("tag", "features"):
            trained_with = data.tagged if name == "tag" else data.features is not None
            if trained_with and pair.source.strip() and not (pair.tag if name == "tag" else pair.features):
                raise UserError(
                    f"this run was trained with {A_MARK[name]}, but this line has none",
                    where,
                    f"give weft.Pair(…, {name}=…)",
                )
        return self._checks(pair, where)

    @cached_property
    def _checks(self) -> InputChecks:
        return InputChecks(self.predictor.sides.kinds, self.spec.data.longest)

    def _check_decoding(self, search: Mapping[str, Any] | None) -> None:
        """Refuse settings of a search where nothing is decoded."""
        if search and table_of(self.predictor.sides.scored_as).of_likelihood:
            what = "a language model is scored by the probability of the text, and nothing is decoded"
            raise UserError(what, f"search.{'width' if 'width' in search else next(iter(search))}", "leave it out")

    def _check_marks(self, pairs: Sequence[Pair]) -> None:
        """Refuse pairs without the tag or the features that the run was trained with: it could not do well."""
        data, source = self.spec.data, self.predictor.sides.source
        known = source.marks if isinstance(source, Tokeniser) else []
        for name, trained_with in (("tag", data.tagged), ("features", data.features is not None)):
            if known and trained_with and not any(pair.tag if name == "tag" else pair.features for pair in pairs):
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
            pairs = self._read(pairs, columns, on_bad_line)
        listed = as_pairs(pairs)
        if not listed:
            raise UserError("there are no pairs to evaluate", "pairs", "give a file, or a list with at least one pair")
        self._check_decoding(search)
        self._check_marks(listed)
        notes = self.predictor.input_notes()
        notes.see(listed)
        notes.tell()
        evaluation = self.predictor.evaluate(listed, self.predictor.plan(self.search(search)), tick)
        if self.spec.task == "retrieve":
            evaluation = self._ranked(listed, evaluation)
        table, references = table_of(self.predictor.sides.scored_as), [pair.targets for pair in listed]
        without = tuple(table.not_applicable(references))
        return replace(evaluation, signatures=table.signatures(references), not_applicable=without)

    def inspect(
        self,
        inputs: str | Pair | Sequence[str | Pair] = (),
        *,
        table: str | Path | Sequence[Pair] | None = None,
        force: str | None = None,
        views: Sequence[str] | str = (),
        what_if: Sequence[str] = (),
        units: Sequence[str] = (),
        labels: Sequence[float] = (),
        seconds: float = MOST_SECONDS,
    ) -> Report:
        """Look inside: what the model did with some inputs, or with a table of pairs; a notebook shows the page.

        `views` are names such as "attention" or ["attention", "errors"]; without them, those that fit are shown.
        `what_if` are changes such as "input:3=x", `units` names such as "decode.1.c.17", which `cells` and `neighbours`
        show, `labels` numbers, one for each symbol, that `cells` looks for. After `seconds`, what has not begun is left
        out, with a note. The report has `numbers` (what --json writes), `page`, `save(path)` and `save_json(path)`.
        """
        given = [inputs] if isinstance(inputs, str | Pair) else inputs
        pairs = [self.as_input(line, number) for number, line in enumerate(given, 1)]
        rows = self._read(table) if isinstance(table, str | Path) else as_pairs(table or ())
        names = [views] if isinstance(views, str) else list(views)
        options = Options(edits=what_if, units=units, labels=labels, seconds=seconds)
        return inspect(
            self.predictor,
            self.folder,
            pairs,
            table=rows,
            force=force,
            views=names,
            options=options,
            training=self.training_lines,
        )

    def training_lines(self, most: int = MOST_TRAINING_LINES) -> list[Pair]:
        """Return the first lines that the run was trained on; none if its files are not there any more."""
        files, kinds = self.folder.known_facts().get("pairs", []), self.predictor.sides.kinds
        try:
            rows = read_pairs(files, self.columns, on_bad_line="skip", longest=self.spec.data.longest, kinds=kinds)
            return list(islice(rows, most if files else 0))
        except UserError:
            return []

    def _read(
        self, path: str | Path, columns: Columns | None = None, on_bad_line: Literal["stop", "skip"] = "stop"
    ) -> list[Pair]:
        """Return the pairs of a file, with the columns and kinds of the training data."""
        columns, kinds, longest = columns or self.columns, self.predictor.sides.kinds, self.spec.data.longest
        return list(read_pairs([str(path)], columns, on_bad_line=on_bad_line, longest=longest, kinds=kinds))

    def __repr__(self) -> str:
        return f"<weft run {self.path}: {self._headline()}>"

    def _headline(self) -> str:
        line = LogFile(self.folder.log).final()
        metric = self.spec.train.select
        scored = f"{metric} {line[metric]:.2f} on {line['pairs']:,} validation pairs" if line else "not finished"
        return f"{self.spec.encoder.kind} → {self.spec.decoder.kind}, {scored}"

    def _repr_html_(self) -> str:
        line = LogFile(self.folder.log).final()
        rows = html_rows(line, line.get("target", "text"), line.get("baseline"))
        title = f"<b>weft run</b> <code>{html.escape(str(self.path))}</code> {html.escape(self._headline())}"
        return f"{title}<table>{rows}</table>"


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
    return [_pair(item, f"item {number} of the list") for number, item in enumerate(items, 1)]


def _pair(item: Any, where: str) -> Pair:
    if isinstance(item, tuple | list) and len(item) >= 2 and all(isinstance(cell, CELLS) for cell in item[:2]):
        item = Pair(*item)
    if isinstance(item, Pair):
        return with_cells(item, where)
    todo = "give (source, target) or weft.Pair(…); to read a file, give its name instead of a list"
    raise UserError(f"{item!r} is not a pair of texts or of lists", where, todo)
