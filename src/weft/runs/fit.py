"""Training one model: build it, restore what was saved, train to the end of the budget."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch

from weft.core.errors import UserError
from weft.core.reporting import Reporter
from weft.learn import checkpoint, snapshot
from weft.learn.checkpoint import Checkpoint
from weft.learn.latent import start_latent, start_reader
from weft.learn.loop import Trainer
from weft.learn.model import model_of
from weft.learn.validate import Validator
from weft.learn.world import World
from weft.nn.heads import Tokens
from weft.nn.model import Restorer, Towers, Writer
from weft.nn.readers.tokens import TokenReader
from weft.predict.plans import make_plan
from weft.runs.curves import Curves
from weft.runs.folder import RunFolder
from weft.runs.memory import check_memory_fits
from weft.runs.ready import Ready
from weft.runs.scalars import log_of
from weft.runs.transfer import transfer_weights
from weft.runs.weights import best_weights, check_fit


def fit(ready: Ready, folder: RunFolder, reporter: Reporter, world: World, models: int = 1) -> Trainer:
    """Train one model of so many that the run has, from its last checkpoint if there is one."""
    saved = checkpoint.load_last(folder.checkpoints, reporter.note, folder.entries())
    if saved is not None:
        check_fit(saved.weights, ready.spec, ready.sides, folder.path)
    trainer = _trainer(ready, folder, reporter, world, models)
    _restore(trainer, saved, folder, reporter)
    trainer.run(Curves(folder))
    return trainer


def _trainer(ready: Ready, folder: RunFolder, reporter: Reporter, world: World, models: int) -> Trainer:
    spec = ready.spec
    make = partial(model_of, spec, ready.sides)
    check_memory_fits(make, spec, world.device)
    torch.manual_seed(spec.train.seed)
    model = make().to(world.device)
    if isinstance(model, Writer | Restorer) and isinstance(model.head, Tokens):
        model.head.expect(torch.from_numpy(ready.corpus.target_counts(model.head.symbols)).to(world.device))
    if spec.embed.latent:
        assert isinstance(model, Restorer)
        assert isinstance(model.source_reader, TokenReader)
        start_reader(model.source_reader.table, ready.corpus, spec.train.seed)
    if spec.retrieve.latent:
        assert isinstance(model, Towers)
        start_latent(model, ready.corpus, spec.train.seed)
    validator = Validator.of(ready.valid, ready.sides, spec.train.batch_tokens)
    greedy = make_plan(spec.search.model_copy(update={"kind": "greedy"}), ready.sides)
    log = log_of(folder, spec.train.tensorboard)
    facts = folder.read_facts()
    slow = facts.get("init_taken", [name for name, _ in model.named_parameters()]) if facts.get("init") else []
    return Trainer(spec, model, ready.corpus, validator, greedy, folder.path, log, world, reporter, models, slow)


def _restore(trainer: Trainer, saved: Checkpoint | None, folder: RunFolder, reporter: Reporter) -> None:
    """Go on from the last checkpoint; a new run starts from the weights of the run that --init named, if any."""
    if saved is None:
        _start(trainer, folder, reporter)
    elif saved.progress.processes != trainer.world.size:
        count = saved.progress.processes
        raise UserError(
            f"the run was trained by {count} processes, but now there are {trainer.world.size}",
            str(folder.path),
            f"resume it with the same number: torchrun --nproc-per-node {count} -m weft train …",
        )
    else:
        trainer.restore(saved)


def _start(trainer: Trainer, folder: RunFolder, reporter: Reporter) -> None:
    if trainer.log.bytes:
        reporter.note(f"there is no checkpoint in {folder.checkpoints}: training starts from the beginning")
    if trainer.world.first:
        trainer.log.cut(0)
    init = folder.read_facts().get("init")
    if init is not None:
        if "init_taken" in folder.read_facts():
            transfer_weights(Path(init), trainer.spec, trainer.validator.sides, trainer.model)
        else:
            snapshot.put_weights(best_weights(RunFolder(Path(init))), trainer.model)
        trainer.average.reset()
