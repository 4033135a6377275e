"""The training loop: steps, reports, evaluations and checkpoints over a budget, by one process or several.

Everything that happens is a function of the progress and the share of the budget spent, so that a run of steps or
epochs that is killed anywhere and resumed goes the same way to the last bit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy.typing as npt
import torch

from weft.core.errors import Diverged, Interrupted, UserError
from weft.core.reporting import Log, Reporter
from weft.data.batches import EpochPlan
from weft.data.corpus import Corpus
from weft.learn import snapshot
from weft.learn.affordable import affordable_pairs
from weft.learn.ahead import BatchesAhead
from weft.learn.augmentation import Augmentation
from weft.learn.back_translation import BackTranslation
from weft.learn.backward import Backward
from weft.learn.budget import Budget, rate_at
from weft.learn.checkpoint import Checkpoint
from weft.learn.effort import Effort
from weft.learn.feeding import Feeding
from weft.learn.log_lines import evaluation_line, report_line
from weft.learn.model import objective_of
from weft.learn.objectives import predictions
from weft.learn.optimise import Average, adamw, clip_gradient, freeze, set_rate
from weft.learn.progress import Progress, Window
from weft.learn.retrieval import Mined
from weft.learn.selection import improves
from weft.learn.signals import Signals
from weft.learn.snapshot import Snapshots
from weft.learn.validate import Validator, examples
from weft.learn.world import World
from weft.nn.model import Model, Writer
from weft.score.evaluation import Evaluation
from weft.score.metrics import table_of
from weft.search.decode import SearchPlan
from weft.spec import Spec

REPORTS = 100  # reports in a run
SAVE_SECONDS = 120.0  # at least one checkpoint in so many
EVALUATION_SHARE = 0.15  # of a wall-clock budget, at most, for evaluations
ONE_EVALUATION = 0.05  # of a wall-clock budget, at most, for one evaluation
FINAL_SHARE = 0.1  # of a wall-clock budget, at most, for the final scores
EARLY = 0.9  # of the time for training: what ends before it is said to have ended early
BEAM_COST = 3.0  # time of decoding by beam, in multiples of greedy decoding
SEARCHED = ("tokens", "copy", "ctc")  # heads whose outputs are searched for, symbol by symbol


class _Stopped(Exception):
    """A signal came in the middle of an evaluation."""


def epoch_of(corpus: Corpus, spec: Spec, number: int) -> EpochPlan:
    """Return the batches of one epoch, as the settings have it."""
    train, data = spec.train, spec.data
    return corpus.epoch(
        number,
        train.batch_tokens,
        train.seed,
        aligned=spec.objective.kind == "ctc",
        factor=spec.factor,
        repeat_power=data.repeat_power,
        tag_temperature=data.tag_temperature,
    )


def epochs_per_pass(corpus: Corpus, spec: Spec) -> float:
    """Return how many epochs have as many rows as the corpus: more than one where data.repeat_power thins them."""
    as_they_are = spec.data.repeat_power == 1 and spec.data.tag_temperature == 1
    return 1.0 if as_they_are else corpus.pairs / max(1, len(epoch_of(corpus, spec, 0).rows))


class NotFinite(Exception):
    """The loss or its gradient is NaN or infinite."""


class Trainer:
    """One run's model, data and progress."""

    def __init__(
        self,
        spec: Spec,
        model: Model,
        corpus: Corpus,
        validator: Validator,
        greedy: SearchPlan,
        path: Path,
        log: Log,
        world: World,
        reporter: Reporter,
        models: int = 1,
        initialised: Collection[str] = (),
    ) -> None:
        """`validator` has all validation pairs; the run that is scored at the end has so many `models`.

        `initialised` are the names of the tensors that come from another run.
        """
        self.spec, self.model, self.corpus, self.world, self.reporter = spec, model, corpus, world, reporter
        self.validator, self._greedy = validator.part(spec.train.valid_pairs), greedy
        self._all_pairs, self._models = len(validator.pairs), models
        max_epochs = spec.train.max_epochs * epochs_per_pass(corpus, spec) if spec.train.max_epochs else 0.0
        self.budget = Budget(spec.train.budget_seconds, spec.train.steps, spec.train.epochs, max_epochs)
        objective = objective_of(spec, self._class_counts)
        running = validator.sides.running
        carries = running is not None and running.carried
        self.backward = Backward(model, objective, spec.train.precision, world.device, carries)
        self.feeding = Feeding(**spec.feeding.model_dump(exclude={"noise"}))
        freeze(model, spec.train.freeze)
        slow = {p for name, p in model.named_parameters() if name in initialised}
        train = spec.train
        self.optimiser = adamw(model, train.weight_decay, train.embed_rate, slow, train.init_rate)
        self.average = Average(model, spec.train.average)
        self.augmentation = Augmentation.of(spec, validator.sides)
        self.translation = BackTranslation(model, corpus, spec, validator.sides, greedy, world.device)
        self._batches = BatchesAhead(corpus, self.translation if self.translation.active else self.augmentation)
        self.effort = Effort(model, spec.train.precision)
        self.mined = Mined(model, corpus, spec.retrieve.negatives, world.device)
        self.progress = Progress(processes=world.size)
        self.log = log
        self.signals = Signals()
        self._snapshots = Snapshots(path, world.first)
        self._plan: EpochPlan | None = None
        self._mark = 0.0  # the clock when `progress.seconds` was brought up to date
        self._saved_at = 0.0
        torch.manual_seed(spec.train.seed * 1000 + world.rank)

    def _class_counts(self) -> torch.Tensor:
        return torch.from_numpy(self.corpus.target_counts(self.model.head.symbols)).to(self.world.device)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint."""
        snapshot.check_optimiser(checkpoint, self.model, self.world.rank, self._snapshots.path)
        snapshot.put(checkpoint, self.model, self.optimiser, self.average, self.world)
        self.progress = checkpoint.progress
        carried = snapshot.carried_of(checkpoint, self.world.rank)
        self.backward.carry_on(carried)
        self.mined.carry_on(carried)
        self.translation.carry_on(carried)
        self._snapshots.restored(self.progress)
        if self.progress.place >= len(self._epoch_plan()):
            what = f"the checkpoint was taken at batch {self.progress.place:,} of an epoch that has fewer batches"
            raise UserError(what, str(self._snapshots.path), "restore the folder from a copy, or train again")
        if self.progress.validation_pairs:
            self.validator = self.validator.part(self.progress.validation_pairs)
        if self.world.first:
            self.log.cut(self.progress.log_bytes)
            if self.progress.log_sum not in ("", self.log.checksum()):  # earlier versions kept none
                self.reporter.note("log.jsonl is damaged: some of its lines are not those that training wrote")

    # the loop -------------------------------------------------------------------------------------------------------

    def run(self, after_evaluation: Callable[[], None]) -> Progress:
        """Train to the end of the budget; return the progress. Interrupted and diverged runs are saved, and raise."""
        self.model.train()
        self._mark = self._saved_at = time.monotonic()
        with self.signals.caught():
            try:
                while not self._over():
                    if self.world.any(self.signals.received):
                        self._interrupted()
                    if self._evaluation_due():
                        self._evaluate(after_evaluation)
                        continue
                    self._step()
                    self._report_if_due()
                    self._save_if_due()
                if self.progress.evaluated_step < self.progress.step:
                    self._evaluate(after_evaluation)
            except NotFinite as reason:
                self._not_finite(str(reason))
            except _Stopped:
                self._interrupted()
        if self.world.any(self.signals.received):  # in the last step, or while the last evaluation was saved and drawn
            self._interrupted()
        return self.progress

    @property
    def share(self) -> float:
        seconds = self.progress.seconds
        if self.budget.seconds is not None:  # so that the schedule ends where training does
            seconds = seconds * self.budget.seconds / (self.budget.seconds - self._reserve())
        return self.budget.share(self.progress.step, self._epochs(), seconds)

    def _reserve(self) -> float:
        """Return the seconds of a wall-clock budget that are kept for the last evaluation and the final scores."""
        assert self.budget.seconds is not None
        if self.progress.evaluated_step < 0:
            return 0.05 * self.budget.seconds
        final = min(self.final_seconds(self._all_pairs), FINAL_SHARE * self.budget.seconds)
        return min(self.progress.evaluation_seconds + final, 0.2 * self.budget.seconds)

    def final_seconds(self, pairs: int) -> float:
        """Estimate how long the run's models take to predict so many validation pairs by the run's own search."""
        each = self.progress.evaluation_seconds / max(1, len(self.validator.pairs))
        by_beam = self.spec.search.kind == "beam" and self.spec.head.kind in SEARCHED
        return (BEAM_COST if by_beam else 1.0) * self._models * each * pairs

    @property
    def ended_by_epochs(self) -> bool:
        """Whether training ended, well before its time, because train.max_epochs were over."""
        budget = self.budget
        if budget.seconds is None or not 0 < budget.max_epochs <= self._epochs():
            return False
        return self.progress.seconds < EARLY * (budget.seconds - self._reserve())

    def _over(self) -> bool:
        return self.share >= 1 or self.progress.stopped_early or self._no_time_for_a_step()

    def _no_time_for_a_step(self) -> bool:
        """Whether less than half of a step would lie within a wall-clock budget: on a slow machine a step is long."""
        if self.budget.seconds is None or self.world.size > 1 or not self.progress.step:
            return False
        left = self.budget.seconds - self._reserve() - self.progress.seconds
        return left < 0.5 * self.progress.spent.get("steps", 0.0) / self.progress.step

    def _epochs(self) -> float:
        plan = self._epoch_plan()
        return self.progress.epoch + self.progress.place / max(1, len(plan))

    def _epoch_plan(self) -> EpochPlan:
        if self._plan is None:
            self._plan = epoch_of(self.corpus, self.spec, self.progress.epoch)
        return self._plan

    def _tick(self) -> None:
        """Update the time spent; the clock of the first process counts for all."""
        now = time.monotonic()
        self.progress.seconds += now - self._mark
        self._mark = now
        if self.world.size > 1 and self.budget.by_clock:
            self.progress.seconds = self.world.agree(self.progress.seconds)

    @contextmanager
    def _spending(self, on: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.progress.spent[on] = self.progress.spent.get(on, 0.0) + time.monotonic() - began

    # one step -------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        rows = self._epoch_plan()[self.progress.place]
        if self.progress.place == 0:
            self.backward.carried = None
        rate = self.spec.train.rate * rate_at(self.share, self.spec.train.schedule, self.spec.train.warmup)
        set_rate(self.optimiser, rate)
        self._tick()  # what an evaluation or a save took is not the step's
        before = self.progress.seconds
        total, count = self._gradients(rows)
        gradient = float(clip_gradient(self.model, self.spec.train.clip))
        if not math.isfinite(total) or not math.isfinite(gradient):
            raise NotFinite(f"the loss is {total / max(1, count)}, its gradient {gradient}")
        self.optimiser.step()
        self.average.update()
        self._advance(count)
        self._tick()
        taken = self.progress.seconds - before
        self.progress.window.add(total, count, gradient, taken)
        self.progress.spent["steps"] = self.progress.spent.get("steps", 0.0) + taken

    def _gradients(self, rows: npt.NDArray[Any]) -> tuple[float, int]:
        """Compute the gradients of the mean loss over the whole batch; return the sum of the loss and its count."""
        self.optimiser.zero_grad(set_to_none=True)
        own_rows = rows[self.world.rank :: self.world.size]
        with self._spending("batches"):
            batch = self._batches.take(self.progress.epoch, own_rows).to(self.world.device) if len(own_rows) else None
            self._begin_next()
        if batch is not None:
            batch = self.mined.added(batch, own_rows)
            operations = self.effort.operations(batch)
            self.progress.window.operations += operations
            self.progress.operations += operations
        none = torch.zeros((), device=self.world.device).long()
        tokens = none if batch is None else predictions(self.backward.objective, batch)
        count = self.world.sum(tokens.clone())
        total = torch.zeros((), device=self.world.device)
        if batch is not None:
            if isinstance(self.model, Writer):
                batch = self.feeding(self.model, batch, self.share)
            total = self.backward(batch, count)
        self.world.sum_gradients(self.model)
        return float(self.world.sum(total)), int(count)

    def _begin_next(self) -> None:
        """Begin to prepare the next batch of the epoch."""
        plan, place = self._epoch_plan(), self.progress.place + 1
        if place < len(plan):
            self._batches.begin(self.progress.epoch, plan[place][self.world.rank :: self.world.size])

    def _advance(self, count: int) -> None:
        self.progress.step += 1
        self.progress.tokens += count
        self.progress.place += 1
        if self.progress.place >= len(self._epoch_plan()):
            self.progress.epoch, self.progress.place, self._plan = self.progress.epoch + 1, 0, None

    # reports and evaluations ----------------------------------------------------------------------------------------

    def _report_if_due(self) -> None:
        due = int(self.share * REPORTS)
        if due <= self.progress.reports or not self.progress.window.steps:
            return
        window, self.progress.window = self.progress.window, Window()
        self.progress.reports = due
        share = self.share
        rate = self.optimiser.param_groups[0]["lr"]
        line = report_line(self.progress, window, self._epochs(), share, rate, self.effort.most)
        if self.world.first:
            self.log.write(line)
            self.reporter.report({**line, "left": self.progress.seconds * (1 - share) / share if share else None})

    def _evaluation_due(self) -> bool:
        if self.progress.evaluated_step == self.progress.step or self.progress.step == 0:
            return False
        if int(self.share * self.spec.train.evaluations) <= self.progress.evaluations:
            return False
        if not self.budget.by_clock:
            return True
        since = self.progress.seconds - self.progress.evaluated_seconds
        return since >= self.progress.evaluation_seconds / EVALUATION_SHARE

    def _evaluate(self, after_evaluation: Callable[[], None]) -> None:
        """Validate with the averaged weights, note whether they are the best, log, and save."""
        began, translating = time.monotonic(), self.progress.spent.get("translation", 0.0)
        evaluation = self.world.agree(self._validated() if self.world.first else None)
        if evaluation is None:
            raise _Stopped
        if self.budget.by_clock:  # the same pairs each time, so that scores can be compared
            self.progress.validation_pairs = evaluation.n
            self.validator = self.validator.part(evaluation.n)
        self._compare_with_best(evaluation)
        self._tick()
        kind = self.validator.sides.scored_as
        shown = examples(self.validator.pairs, evaluation.outputs, scored_as=kind)
        line = evaluation_line(
            self.progress, evaluation, self.spec.train.select, self._epochs(), self.share, self._all_pairs, shown, kind
        )
        if self.world.first:
            self.log.write(line)
            self.reporter.evaluation(line, shown)
        with self.average.in_place():
            self.mined.update()
            self._translate()
        self._save()
        if self.world.first:
            after_evaluation()
        now = time.monotonic()  # saving and drawing are a part of what it cost; translating is not, which is rare
        translating = self.progress.spent.get("translation", 0.0) - translating
        self.progress.evaluated_seconds = self.world.agree(self.progress.seconds + now - self._mark)
        self.progress.evaluation_seconds = self.world.agree(now - began - translating)

    def _validated(self) -> Evaluation | None:
        def tick(_: int) -> None:
            if self.signals.received:
                raise _Stopped

        def evaluate(validator: Validator) -> Evaluation:
            return validator.evaluate(self.model, self._greedy, self.world.device, tick, cut=True)

        try:
            with self.average.in_place(), self._spending("validation"):
                if self.budget.seconds is not None and not self.progress.validation_pairs:
                    seconds = ONE_EVALUATION * self.budget.seconds
                    count, evaluation = affordable_pairs(self.validator, evaluate, seconds)
                    return evaluation or evaluate(self.validator.part(count))
                return evaluate(self.validator)
        except _Stopped:
            return None

    def _compare_with_best(self, evaluation: Evaluation) -> None:
        """Note whether it is the best so far, and whether to stop early."""
        progress, metric = self.progress, self.spec.train.select
        progress.evaluated_step = progress.step
        progress.evaluations = int(self.share * self.spec.train.evaluations)
        score, loss, table = (
            evaluation.metrics[metric],
            evaluation.metrics["loss"],
            table_of(self.validator.sides.scored_as),
        )
        better = improves(table[metric], table["loss"], score, loss, progress.best_score, progress.best_loss)
        if better or progress.best_step < 0:
            progress.best_step, progress.best_score, progress.best_loss, progress.stale = progress.step, score, loss, 0
        else:
            progress.stale += 1
        patience = self.spec.train.patience
        progress.stopped_early = bool(patience) and progress.stale >= patience

    # saving and stopping --------------------------------------------------------------------------------------------

    def _translate(self) -> None:
        """Write sources that the data do not have; what was prepared of the next batch has none of them."""

        def tick(_: int) -> None:
            if self.signals.received:
                raise _Stopped

        if self.translation.active:
            with self._spending("translation"):
                seen = int(self._epochs() * len(self.corpus))
                if self.translation.update(self.share, seen, self.budget.seconds, tick):
                    self._batches.forget()

    def _save_if_due(self) -> None:
        if self.world.any(time.monotonic() - self._saved_at > SAVE_SECONDS):
            self._save()

    def _save(self) -> None:
        self._tick()
        self.progress.log_bytes, self.progress.log_sum = self.log.bytes, self.log.checksum()
        random_states = self.world.gather(snapshot.random_state(self.world.device))
        carried = self.world.gather(
            [*self.backward.carried_tensors(), *self.mined.tensors(), *self.translation.tensors()]
        )
        if self.world.first:
            with self._spending("saving"):
                taken = snapshot.take(self.model, self.optimiser, self.average, random_states, self.progress, carried)
                self._snapshots.save(taken)
        self._saved_at = time.monotonic()

    def _interrupted(self) -> None:
        self._save()
        raise Interrupted(
            f"stopped at step {self.progress.step:,}; everything is saved",
            str(self._snapshots.path),
            "continue with --resume",
        )

    def _not_finite(self, reason: str) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        self._save()
        raise Diverged(
            f"training stopped at step {self.progress.step:,}: {reason}; the last good weights are saved",
            str(self._snapshots.path),
            f"train again with a lower rate, such as --set train.rate={self.spec.train.rate / 4:g}",
        )
