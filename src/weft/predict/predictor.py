"""A trained run that turns pairs into predictions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from weft.compatibility.tables import POINTS
from weft.core.batching import batch_of
from weft.core.errors import UserError
from weft.core.kinds import Hypothesis, Rollout
from weft.core.pair import Pair
from weft.core.trace import trace
from weft.data.sides.corrupted import Corrupted, HiddenSymbols
from weft.data.sides.label import Label
from weft.data.sides.side import HasBaseline, Side
from weft.data.sides.sides import Sides
from weft.data.sides.span import Span
from weft.data.sides.table import shown
from weft.data.text.tokens import Tokeniser
from weft.learn import snapshot
from weft.learn.at_once import search_at_once
from weft.learn.model import model_of
from weft.learn.retrieval import evaluate_pairs
from weft.learn.validate import Validator
from weft.learn.world import pick_device
from weft.nn.model import Aligned, Model, Seq2Seq, Towers
from weft.nn.packed import pack
from weft.predict.directions import DirectionEnsemble, by_direction, search_both_directions
from weft.predict.input_notes import InputNotes
from weft.predict.plans import make_plan
from weft.predict.predictions import Output, Prediction
from weft.runs.folder import RunFolder
from weft.runs.weights import best_weights, check_fit
from weft.score.evaluation import Baseline, Evaluation
from weft.score.metrics import table_of
from weft.search.decode import SearchPlan, decode, deduplicate
from weft.spec import Search, Spec, TransformerDecoder
from weft.tasks import TASKS

MOST_OUTPUTS = 1000  # of one line, as of search.width


class Engine(Protocol):
    """Searches with a copy of a run's model; it may know only the score of a hypothesis, not that of each symbol."""

    def takes(self, source: Any, plan: SearchPlan) -> bool:
        """Return whether it can search for this source; torch searches for the others."""
        ...

    def decode(
        self, sources: Sequence[Any], plan: SearchPlan, batch_lines: int, tick: Callable[[int], None] | None
    ) -> Iterable[tuple[int, list[Hypothesis]]]:
        """Yield the hypotheses of each source with its position, in any order: texts are made while it searches on."""
        ...


class Predictor:
    """A trained model with its sides and its search settings, alone or as the first of an ensemble."""

    def __init__(self, spec: Spec, sides: Sides, model: Model, device: torch.device) -> None:
        self.spec, self.sides, self.model, self.device = spec, sides, model, device
        self.others: list[Predictor] = []  # that predict together with this one

    @classmethod
    def load(cls, run: str | Path, alone: bool = False, strict: bool = False) -> Predictor:
        """Load the best weights of a run folder and of its other members, or of the first model `alone`.

        `strict`: damaged weights are an error; by default, older ones are used instead, with a warning.
        """
        folder = RunFolder(run)
        spec = folder.read_spec()
        sides = folder.read_sides()
        device = _device_here(spec.train.device)
        weights = best_weights(folder, strict)
        check_fit(weights, spec, sides, folder.path)
        model = model_of(spec, sides)
        snapshot.put_weights(weights, model)
        predictor = cls(spec, sides, model.to(device).eval(), device)
        pack(model)
        for member in [] if alone else folder.trained_members():
            predictor.join(cls.load(member.path, alone=True, strict=strict), str(member.path))
        return predictor

    @property
    def source(self) -> Tokeniser:
        """The tokeniser of the sources, which are text."""
        source = self.sides.source
        if isinstance(source, Corrupted):
            return source.tokeniser
        assert isinstance(source, Tokeniser)
        return source

    @property
    def target(self) -> Tokeniser:
        """The tokeniser of the targets, which are text."""
        assert isinstance(self.sides.target, Tokeniser)
        return self.sides.target

    def input_notes(self) -> InputNotes:
        """Watch for inputs that are unlike those of training."""
        sources = [p.sides.target if p.sides.alone else p.sides.source for p in (self, *self.others)]
        training = "the training data" if TASKS[self.spec.task].alone else "the training sources"
        return InputNotes([source for source in sources if isinstance(source, Tokeniser)], training)

    def join(self, other: Predictor, where: str) -> None:
        """Add another run to the ensemble: from now on the mean of the probabilities counts."""
        if any(isinstance(p.model, Aligned) for p in (self, other)):
            what = "CTC models cannot be combined in an ensemble"
            raise UserError(what, where, "leave the run out, or use runs with head.kind=tokens or copy")
        ours, theirs = self.sides.target, other.sides.target
        if not same_outputs(ours, theirs):
            kinds = other.sides.kinds.of("target"), self.sides.kinds.of("target")
            what = f"the target of this run is of kind {kinds[0]}, and that of the first run of kind {kinds[1]}"
            if isinstance(ours, Tokeniser) and isinstance(theirs, Tokeniser):
                sizes = f"{len(theirs):,} and {len(ours):,} tokens"
                what = f"the target vocabulary of this run differs from that of the first run ({sizes})"
            elif kinds[0] == kinds[1]:
                what = "the target of this run is encoded in another way than that of the first run"
            todo = "use runs that were trained on the same pairs with the same target settings and data.unseen"
            raise UserError(what, where, todo)
        self.others += [other, *other.others]

    def plan(self, search: Search | None = None, nbest: int = 1, prefix: str = "") -> SearchPlan:
        """Plan a search by these settings, or else by the run's own; what the model cannot do is refused."""
        search = search or self.spec.search
        if nbest < 1:
            raise UserError("there must be at least one output for each line", f"nbest={nbest}", "give 1 or more")
        if nbest > MOST_OUTPUTS:
            what = f"a line has at most {MOST_OUTPUTS:,} outputs"
            raise UserError(what, f"nbest={nbest}", f"give {MOST_OUTPUTS} or fewer")
        if nbest > 1 and search.kind == "greedy" and self.sides.target_kind == "text":
            todo = "use beam search or sampling to get several outputs"
            raise UserError("greedy search finds only one output", f"nbest={nbest}", todo)
        if prefix and isinstance(self.model, Aligned):
            what = "a CTC model has no decoder, so it cannot use a prefix"
            raise UserError(what, "prefix", "leave it out, or use a run with head.kind=tokens")
        objective = self.spec.objective.kind
        if (search.kind == "sample" or nbest > 1) and objective in POINTS:
            what = f"this run predicts the mean (objective.kind={objective}), so it has only one output for each input"
            where = "search.kind sample" if search.kind == "sample" else f"nbest={nbest}"
            raise UserError(what, where, "leave it out, or train with objective.kind=gaussian or mixture")
        plan = make_plan(search, self._by_direction()[0].sides, nbest, prefix)
        return replace(plan, seconds=search.seconds, symbol_bytes=sum(map(_symbol_bytes, (self, *self.others))))

    def predict(
        self,
        pairs: Sequence[Pair],
        plan: SearchPlan | None = None,
        *,
        first_line: int = 0,
        lines: Sequence[int] | None = None,
        batch_lines: int = 64,
        tick: Callable[[int], None] | None = None,
        engine: Engine | None = None,
    ) -> list[Prediction]:
        """Predict for each pair's source, in order; an empty source has an empty output, unless it is a prompt.

        `lines` numbers the pairs, for sampling; by default they are counted from `first_line`. `engine` searches
        instead of torch for the sources that it takes.
        """
        plan = plan or self.plan()
        filled = [i for i, pair in enumerate(pairs) if plan.continues or pair.source.strip()]
        groups = deduplicate([_input_of(pairs[i]) for i in filled], plan)
        firsts = [filled[group[0]] for group in groups]
        kind = self.sides.target_kind
        predictions = [Prediction(shown(pair.source), (Output("", 0.0, 0.0, (), ()),), kind) for pair in pairs]
        if tick is not None and len(groups) < len(filled):
            tick(len(filled) - len(groups))
        # sampling depends on the line numbers of the input, which count empty lines
        numbers = range(first_line, first_line + len(pairs)) if lines is None else lines
        sides, drawn = self._by_direction()[0].sides, [numbers[i] for i in firsts]
        for number, hypotheses in self._hypotheses([pairs[i] for i in firsts], drawn, plan, batch_lines, tick, engine):
            pair = pairs[firsts[number]]
            if isinstance(sides.target, Span):  # several spans of a sentence are the same output
                rows = [hypothesis.row for hypothesis in hypotheses]
                hypotheses = [hypotheses[i] for i in sides.target.first_of_each(rows, pair)[: plan.nbest]]
            outputs = tuple(self._output(pair, sides, h) for h in hypotheses)
            prediction = Prediction(shown(pair.source), outputs, kind, shown(pair.context))
            for position in groups[number]:
                predictions[filled[position]] = prediction
        return predictions

    def _hypotheses(
        self,
        pairs: Sequence[Pair],
        lines: Sequence[int],
        plan: SearchPlan,
        batch_lines: int,
        tick: Callable[[int], None] | None,
        engine: Engine | None,
    ) -> Iterator[tuple[int, Sequence[Hypothesis | Rollout]]]:
        """Yield the hypotheses of each source with its position, in any order; `lines` are numbers in the input."""
        lead, *other = self._by_direction()
        if not isinstance(lead.sides.target, Tokeniser):
            rows = lead.inputs(pairs)
            yield from enumerate(
                search_at_once(lead.models, rows, lead.sides, plan, self.device, lines=lines, tick=tick)
            )
            return
        if other and plan.kind == "beam":
            yield from enumerate(search_both_directions(lead, other[0], pairs, plan, self.device, batch_lines, tick))
            return
        sources = lead.sources(pairs)
        taken = [] if engine is None else [i for i, source in enumerate(sources) if engine.takes(source, plan)]
        if engine is not None:
            for position, hypotheses in engine.decode([sources[i] for i in taken], plan, batch_lines, tick):
                yield taken[position], hypotheses
        left = sorted(set(range(len(sources))) - set(taken))
        contexts = lead.contexts(pairs)
        decoded = decode(
            lead.searched,
            [sources[i] for i in left],
            plan,
            self.device,
            contexts=None if contexts is None else [contexts[i] for i in left],
            lines=[lines[i] for i in left],
            batch_lines=batch_lines,
            tick=tick,
        )
        yield from zip(left, decoded)

    def _by_direction(self) -> list[DirectionEnsemble]:
        return by_direction([self, *self.others], self.spec.train.batch_tokens, self.device)

    def evaluate(
        self, pairs: Sequence[Pair], plan: SearchPlan | None = None, tick: Callable[[int], None] | None = None
    ) -> Evaluation:
        """Decode the pairs' sources and score the outputs against their targets, beside a baseline if there is one."""
        if isinstance(self.model, Towers):
            return self._evaluate_ranked(pairs, tick)
        return replace(self._evaluate_decoded(pairs, plan or self.plan(), tick), baseline=self._baseline(pairs))

    def _baseline(self, pairs: Sequence[Pair]) -> Baseline | None:
        """Return the scores of predictions without a model, of targets that can be predicted so."""
        target = self.sides.target
        if self.sides.alone or not isinstance(target, HasBaseline):
            return None
        outputs = [target.baseline(pair) for pair in pairs]
        scores = table_of(self.sides.scored_as).score(outputs, [pair.targets for pair in pairs])
        return Baseline(target.baseline_name, scores)

    def _evaluate_decoded(
        self, pairs: Sequence[Pair], plan: SearchPlan, tick: Callable[[int], None] | None
    ) -> Evaluation:
        if not self.others:
            validator = Validator.of(pairs, self.sides, self.spec.train.batch_tokens)
            return validator.evaluate(self.model, plan, self.device, tick)
        if table_of(self.sides.scored_as).of_likelihood:
            return self.score(pairs, self._by_direction()[0].likelihoods(pairs, tick))
        sources = self.sides.with_sources(pairs)
        return self.score(pairs, [prediction.text for prediction in self.predict(sources, plan, tick=tick)])

    def _evaluate_ranked(self, pairs: Sequence[Pair], tick: Callable[[int], None] | None) -> Evaluation:
        """Rank the different targets for each source, by the vectors of all models."""
        models = [p.model for p in (self, *self.others) if isinstance(p.model, Towers)]
        sides = [p.sides for p in (self, *self.others)]
        rows = [each.inputs(pairs) for each in sides]
        rankings, loss = evaluate_pairs(models, rows, pairs, sides, self.device, tick)
        scores = table_of(self.sides.scored_as).score(rankings, [pair.targets for pair in pairs])
        return Evaluation({"loss": loss, **scores}, len(pairs), rankings, scored_as=self.sides.scored_as)

    def score(self, pairs: Sequence[Pair], outputs: list[Any]) -> Evaluation:
        """Score outputs that were found before."""
        table = table_of(self.sides.scored_as)
        forced = {} if table.of_likelihood or isinstance(self.model, Towers) else self.teacher_forced(pairs)
        metrics = {**forced, **table.score(outputs, [pair.targets for pair in pairs])}
        return Evaluation(metrics, len(pairs), outputs, scored_as=self.sides.scored_as)

    def teacher_forced(self, pairs: Sequence[Pair]) -> dict[str, float]:
        """Return `loss` and `accuracy` of all models together under teacher forcing; of both directions the mean."""
        each = [ensemble.teacher_forced(pairs) for ensemble in self._by_direction()]
        return {name: fmean(measured[name] for measured in each) for name in each[0]}

    def log_probs(self, pairs: Sequence[Pair]) -> list[float]:
        """Return the log-probability of each pair's (first) target; of both directions the mean."""
        if isinstance(self.model, Towers):
            return [math.nan] * len(pairs)  # only defined among candidates
        each = [ensemble.log_probs(pairs) for ensemble in self._by_direction()]
        return [fmean(log_probs) for log_probs in zip(*each)]

    def step_scores(self, pairs: Sequence[Pair]) -> list[tuple[float, ...]]:
        """Return the log-probability of every step of each pair's target, by the models of the first direction."""
        return self._by_direction()[0].step_scores(pairs)

    def _output(self, pair: Pair, sides: Sides, hypothesis: Hypothesis | Rollout) -> Output:
        token_scores, names = hypothesis.token_scores, tuple[str, ...]()
        if isinstance(sides.target, Tokeniser):
            names = (*self.shown(pair.source, sides.target, hypothesis.row), "<end>")
        elif isinstance(sides.target, Label | HiddenSymbols):
            names = tuple(sides.target.names[int(i)] for i in hypothesis.row)
        nothing_hidden = isinstance(sides.target, HiddenSymbols)  # where there are no scores
        log_prob = hypothesis.log_prob if token_scores or nothing_hidden else math.nan
        return Output(sides.text(hypothesis.row, pair), hypothesis.score, log_prob, names, token_scores)

    def shown(self, source: str, tokeniser: Tokeniser, ids: Iterable[int]) -> list[str]:
        """Return a readable name for each id, with the source's own characters for stand-ins."""
        names, read = tokeniser.show(ids), self.sides.source
        if not isinstance(read, Tokeniser):
            return names
        return [read.unseen_characters.restore(source, name) for name in names]

    @torch.inference_mode()
    def alignment(self, pair: Pair, target: str) -> tuple[list[str], list[str], npt.NDArray[np.float32]]:
        """Return the attention while the model writes `target`: source tokens, target tokens, weights (T, S).

        A Transformer's weights are the mean over the heads of its last block.
        """
        rows = self.sides.encode([replace(pair, target=target)])
        batch = batch_of(rows.source, rows.target, rows.context, self.sides.shapes).to(self.device)
        with trace() as traced:
            self.model(batch)
        if not traced["decode.cross"]:
            raise UserError(
                "this model has no attention to show",
                "setting decoder.attention.score",
                "train a model with an attention score",
            )
        read = batch.source.values[0, 1 if isinstance(self.model, Seq2Seq) and self.model.prompted else 0 :]
        sides = (self.source, read), (self.target, batch.wanted.values[0])
        names = [self.shown(pair.source, tokeniser, ids.tolist()) for tokeniser, ids in sides]
        return names[0], names[1], attention_weights(traced["decode.cross"], len(names[1]))


def _device_here(name: str) -> torch.device:
    """Return the device of the training; on a machine without it, the best there is."""
    try:
        return pick_device(name)
    except UserError as error:
        device = pick_device("auto")
        warnings.warn(f"{error.what}: {device.type} is used instead", stacklevel=2)
        return device


def attention_weights(traced: list[torch.Tensor], length: int) -> npt.NDArray[np.float32]:
    """Return (T, S), the mean over the heads, of one (1, H, 1, S) for each step or one (1, H, T, S) for each block."""
    last = traced[-1] if traced[-1].shape[2] == length else torch.cat(traced, dim=2)
    weights: npt.NDArray[np.float32] = last[0].mean(0).float().cpu().numpy()
    return weights


def _symbol_bytes(predictor: Predictor) -> int:
    """Return the memory that a search needs for each symbol of a hypothesis: ids, scores, keys and values."""
    decoder = predictor.spec.decoder
    of_cache = 12 * decoder.layers * decoder.width if isinstance(decoder, TransformerDecoder) else 0
    return 24 + of_cache  # the cache has two numbers for each, and is copied to half as much again where it grows


def same_outputs(first: Side, second: Side) -> bool:
    """Return whether two models write the same symbols, or numbers of the same scale."""
    if isinstance(first, Tokeniser) and isinstance(second, Tokeniser):
        return first.names == second.names
    return first.to_json() == second.to_json()


def _input_of(pair: Pair) -> tuple[str, str, tuple[str, ...], str]:
    """Return all that an output depends on."""
    return pair.source, pair.tag, tuple(pair.features), pair.context
