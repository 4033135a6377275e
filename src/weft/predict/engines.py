"""Predict with CTranslate2, which a run was exported to: greedy and beam search, ids in and ids out."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch

from weft.core import manifest
from weft.core.errors import UserError, did_you_mean
from weft.core.files import parse_json, read_regular
from weft.core.kinds import Hypothesis
from weft.core.manifest import Damaged
from weft.core.pair import END
from weft.data.text.tokens import Tokeniser
from weft.learn import checkpoint
from weft.predict.predictor import Predictor
from weft.runs.folder import RunFolder
from weft.search.decode import SearchPlan
from weft.spec import Spec

Detail = Literal["text", "score", "tokens"]  # what is wanted of an output besides its text
ENGINES = ("auto", "torch", "ctranslate2")
FOLDER, FACTS = "ctranslate2", "weft.json"  # within a run; within that folder
MOST_BYTES, MOST_VOCABULARY_BYTES = 1 << 20, 1 << 28  # of the facts of an export, and of its vocabularies
POSITIONS_IN_TABLE = 2048  # CTranslate2 takes no longer sequence
LIMITED = ("none", "sinusoid", "learned")  # the kinds of positions that are in that table
POSITIONS = ("none", "sinusoid", "learned", "rotary")
PATIENCE, MANY_SYMBOLS = 2.0, 1000  # with fewer symbols END is often a second guess (docs/LOG.md, "Patience")


class Translator:
    """An exported model; as many lines at once as there are threads, one thread each (docs/LOG.md, "Engines")."""

    def __init__(self, folder: Path, predictor: Predictor, scored: bool = True) -> None:
        """Load the model. Unless `scored`, hypotheses have no score, which greedy search then need not compute."""
        self._scored = scored
        package, threads = the_package(), torch.get_num_threads()
        self._package = package.Translator(str(folder), device="cpu", inter_threads=threads, intra_threads=1)
        self._source, self._target = (names_of(t) for t in (predictor.source, predictor.target))
        self._ids = {name: symbol for symbol, name in enumerate(self._target)}
        self._patience = PATIENCE if len(self._target) < MANY_SYMBOLS else 1.0  # ends a beam about where Weft does
        self._limited = predictor.spec.embed.positions in LIMITED
        self._never = [[name] for symbol, name in enumerate(self._target[: predictor.target.first]) if symbol != END]
        _check_vocabularies(folder, self._source, self._target)

    def takes(self, source: Sequence[int], plan: SearchPlan) -> bool:
        """Return whether CTranslate2 has enough positions for the source and its output; rotary ones have no limit."""
        return not self._limited or max(len(source) + 1, plan.longest(len(source))) < POSITIONS_IN_TABLE

    def decode(
        self,
        sources: Sequence[Sequence[int]],
        plan: SearchPlan,
        batch_lines: int = 64,
        tick: Callable[[int], None] | None = None,
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield the hypotheses of each source, the best first; only their whole score is known, not each symbol's.

        Long sources come first, as CTranslate2 takes them. It has one limit for the outputs of a call, so lines go in
        groups of similar limits: a model that does not end its outputs is stopped soon after a line's own limit.
        """
        limits = [plan.longest(len(ids)) for ids in sources]
        groups: dict[int, list[int]] = {}
        for position in sorted(range(len(sources)), key=lambda i: -len(sources[i])):
            groups.setdefault(limits[position].bit_length(), []).append(position)
        calls = [
            (group, self._call([sources[i] for i in group], max(limits[i] for i in group), plan, batch_lines))
            for group in groups.values()
        ]
        for group, results in calls:
            for position, result in zip(group, results):
                yield position, self._hypotheses(result.result(), limits[position])
                if tick is not None:
                    tick(1)

    def _call(self, sources: Sequence[Sequence[int]], longest: int, plan: SearchPlan, batch_lines: int) -> list[Any]:
        """Start a search and return CTranslate2's futures, one for each source."""
        lines = [[*(self._source[i] for i in ids), self._source[END]] for ids in sources]
        width = 1 if plan.kind == "greedy" else max(plan.width, plan.nbest)
        prefix = [self._target[i] for i in plan.rules.prefix]
        futures: list[Any] = self._package.translate_batch(
            lines,
            target_prefix=[prefix] * len(lines) if prefix else None,
            max_batch_size=batch_lines,
            beam_size=width,
            patience=self._patience,
            num_hypotheses=plan.nbest,
            length_penalty=plan.length_penalty if width > 1 else 1.0,
            no_repeat_ngram_size=plan.rules.no_repeat,
            suppress_sequences=self._never,
            max_input_length=0,
            max_decoding_length=longest,
            min_decoding_length=0,
            return_scores=self._scored,
            asynchronous=True,
        )
        return futures

    def _hypotheses(self, result: Any, limit: int) -> list[Hypothesis]:
        """Return the hypotheses of a line, cut at its own limit: the call had that of its longest line."""
        both = zip(result.hypotheses, result.scores or [math.nan] * len(result.hypotheses), strict=True)
        return [Hypothesis(tuple(self._ids[name] for name in names[:limit]), (), float(score)) for names, score in both]


def _check_vocabularies(folder: Path, source: list[str], target: list[str]) -> None:
    """Raise Damaged if the exported vocabularies are not those of the run: every token would mean another."""
    for name, tokens in {"source": source, "target": target, "shared": target}.items():
        path = folder / f"{name}_vocabulary.json"
        if path.exists() and parse_json(read_regular(folder, path.name, MOST_VOCABULARY_BYTES)) != tokens:
            raise Damaged(f"{path.name} does not hold the tokens of this run")


def why_not(predictor: Predictor, plan: SearchPlan, detail: Detail) -> tuple[str, str] | None:
    """Return why CTranslate2 cannot predict this, and what to do; None where it can."""
    unknown = unknown_part(predictor.spec)
    if unknown is not None:
        return f"CTranslate2 does not support {unknown[0]}", f"train with {unknown[1]}, or use the torch engine"
    if predictor.others:
        return "CTranslate2 runs a single model, but this is an ensemble of several", "use the torch engine"
    if plan.kind == "sample":
        return (
            "CTranslate2 cannot reproduce the random draws of Weft's sampling",
            "do not sample, or use the torch engine",
        )
    if plan.rules.joining:
        return "CTranslate2 would change the end of this prefix", "leave the prefix out, or use the torch engine"
    if detail == "tokens":
        return (
            "CTranslate2 does not return the score of each token",
            "use a format without token scores (text or tsv), or use the torch engine",
        )
    return None


def is_fresh(folder: RunFolder) -> bool:
    """Return whether the run has been exported with the weights that are its best now."""
    try:
        return bool(_facts(folder).get("checkpoint") == best_checkpoint(folder.path))
    except Damaged:
        return False


def exported_format(folder: RunFolder) -> str:
    """Return the number format of the run's export, or the one that a new export would have."""
    try:
        return str(_facts(folder).get("format", "float32"))
    except Damaged as reason:
        raise _damaged(folder, reason) from None


def _facts(folder: RunFolder) -> dict[str, Any]:
    """Return what is known of the run's export; nothing where there is none. Damaged if it is not whole."""
    path = folder.path / FOLDER
    try:
        content = read_regular(path, FACTS, MOST_BYTES)
        manifest.check(manifest.read(path), FACTS, content)
        facts = parse_json(content)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Damaged(f"{FACTS} cannot be read: {error}") from None
    return facts if isinstance(facts, dict) else {}


def _damaged(folder: RunFolder, reason: object) -> UserError:
    todo = "export it again: weft export RUN --to ctranslate2"
    return UserError(f"the exported model is damaged: {reason}", str(folder.path / FOLDER), todo)


class NotExported(UserError):
    """CTranslate2 is asked for, and the run has no export of its best weights."""


def choose(engine: str, folder: RunFolder, predictor: Predictor, plan: SearchPlan, detail: Detail) -> Translator | None:
    """Open the run's exported model if CTranslate2 is to search; None where torch is.

    `auto` takes CTranslate2 where the run has been exported in the format that it was trained in, so that nothing is
    lost by it, and where it can answer. UserError where the user asks for what it cannot do.
    """
    if not is_wanted(engine, folder, predictor, plan, detail):
        return None
    if not is_fresh(folder):
        exported_format(folder)  # an error if the export is damaged
        todo = "export it: weft export RUN --to ctranslate2"
        raise NotExported("this run has no export of its best weights", f"engine={engine}", todo)
    return _opened(engine, folder, predictor, detail)


def is_wanted(engine: str, folder: RunFolder, predictor: Predictor, plan: SearchPlan, detail: Detail) -> bool:
    """Return whether CTranslate2 is to search, and not torch."""
    if engine not in ENGINES:
        raise UserError(
            f"'{engine}' is not known; {did_you_mean(engine, ENGINES)}", f"engine={engine}", "use one of them"
        )
    if engine == "torch":
        return False
    problem = why_not(predictor, plan, detail)
    if engine == "auto":
        return problem is None and is_installed() and _has_same_weights(folder)
    if problem is not None:
        raise UserError(problem[0], f"engine={engine}", problem[1])
    return True


def _has_same_weights(folder: RunFolder) -> bool:
    """Return whether the run has a fresh export that loses nothing; a damaged one is told, and not used."""
    try:
        return _facts(folder).get("format") == "float32" and is_fresh(folder)
    except Damaged as reason:
        _warn_of(_damaged(folder, reason))
        return False


def _warn_of(error: UserError) -> None:
    warnings.warn(f"{error.what} ({error.where}); torch is used instead", stacklevel=2)


def _opened(engine: str, folder: RunFolder, predictor: Predictor, detail: Detail) -> Translator | None:
    """Open the run's exported model; None where it is damaged and `auto` may use torch instead."""
    try:
        manifest.check_files(folder.path / FOLDER)
        return Translator(folder.path / FOLDER, predictor, scored=detail != "text")
    except (
        Damaged,
        RuntimeError,
        ValueError,
        MemoryError,
    ) as reason:  # what CTranslate2 raises for files of other kinds
        error = _damaged(folder, reason)
        if engine != "auto":
            raise error from None
        _warn_of(error)
        return None


def unknown_part(spec: Spec) -> tuple[str, str] | None:
    """Return the first setting that CTranslate2 does not know, and what it takes instead; None if it knows all."""
    for side in ("encoder", "decoder"):
        part: Any = getattr(spec, side)
        if part.kind != "transformer":
            return f"{side}.kind={part.kind}", f"{side}.kind=transformer"
        if part.attention.score != "scaled":
            return f"{side}.attention.score={part.attention.score}", f"{side}.attention.score=scaled"
        if part.attention.weigh != "softmax":
            return f"{side}.attention.weigh={part.attention.weigh}", f"{side}.attention.weigh=softmax"
        if part.width != spec.embed.width:
            return (
                f"{side}.width={part.width} together with embed.width={spec.embed.width}",
                f"{side}.width={spec.embed.width}",
            )
    encoder, decoder = spec.encoder, spec.decoder
    for name in ("width", "heads", "norm"):
        if getattr(encoder, name) != getattr(decoder, name):
            return (
                f"decoder.{name}={getattr(decoder, name)}",
                f"decoder.{name}={getattr(encoder, name)}, as in the encoder",
            )
    if spec.embed.positions not in POSITIONS:
        return f"embed.positions={spec.embed.positions}", f"embed.positions={' or '.join(POSITIONS)}"
    if spec.backward:
        return "decoder.reverse=true", "decoder.reverse=false"
    if spec.head.kind != "tokens":
        return f"head.kind={spec.head.kind}", "head.kind=tokens"
    if spec.objective.ctc_share:
        return f"objective.ctc_share={spec.objective.ctc_share:g}", "objective.ctc_share=0"
    if spec.data.prompted:
        return f"data.tag_at={spec.data.tag_at}", "data.tag_at=start or end"
    return None


def best_checkpoint(run: Path) -> str:
    """Return the name of the run's best checkpoint; of the newest where none is the best yet."""
    folder = run / checkpoint.FOLDER
    best = checkpoint.best_step(folder)
    return checkpoint.name_of(max(checkpoint.steps(folder), default=0) if best is None else best)


def is_installed() -> bool:
    return find_spec("ctranslate2") is not None


def the_package() -> Any:
    try:
        import ctranslate2
    except ImportError as reason:
        what = "CTranslate2 is not installed"
        raise UserError(what, "the Python package ctranslate2", "pip install ctranslate2") from reason
    return ctranslate2


def names_of(tokeniser: Tokeniser) -> list[str]:
    """Return the name of each symbol, with its number where several share a name."""
    names = list(tokeniser.names)
    counts = Counter(names)
    return [name if counts[name] == 1 and name.strip() else f"{name}#{symbol}" for symbol, name in enumerate(names)]
