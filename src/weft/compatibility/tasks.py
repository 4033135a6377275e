"""Which settings go with a task."""

from __future__ import annotations

from weft.compatibility.tables import (
    LABELS,
    TOGETHER,
    refuse_without_effect,
)
from weft.spec import (
    Attention,
    Bridge,
    Corrupt,
    Pool,
    RecurrentDecoder,
    Side,
    Spec,
)
from weft.tasks import TASKS


def check_implied(spec: Spec) -> None:
    """Check the settings that a task implies: that they have its values, and that other tasks do not have them."""
    groups = ("source", "target", "head", "decoder", "objective")
    given = {f"{group}.kind": str(getattr(spec, group).kind) for group in groups}
    implied = {name: value for name, value in TASKS[spec.task].implied.items() if name in given}
    for name, value in given.items():
        if value != implied.get(name, value):
            raise ValueError(
                f"{name}={value} does not fit task={spec.task}, which sets {name}={implied[name]}; "
                f"leave {name} out, or choose another task"
            )
        tasks = [task for task, settings in TASKS.items() if settings.implied.get(name) == value]
        if tasks and name not in implied and name != "decoder.kind":  # CTC has no decoder either
            raise ValueError(
                f"{name}={value} needs task={' or task='.join(tasks)}, but task={spec.task}; "
                f"leave {name} out, or set only the task"
            )


def check_alone(spec: Spec) -> None:
    """Check tasks that have one column, the target."""
    alone = TASKS[spec.task].alone
    if spec.data.lines and not alone:
        raise ValueError(
            f"data.lines=true has no effect with task={spec.task}, which reads lines anyway; leave data.lines out"
        )
    if not alone:
        return
    if TASKS[spec.task].corrupts:
        _check_corrupted(spec)
        return
    look = spec.decoder.attention if isinstance(spec.decoder, RecurrentDecoder) else Attention()
    no_effect = {f"data.{role}": getattr(spec.data, role) for role in ("source", "context", "tag", "features")}
    set_ = [f"{name}={column}" for name, column in no_effect.items() if column is not None]
    set_ += ["bridge"] * (spec.bridge != Bridge()) + ["encoder.kind"] * (spec.encoder.kind != "none")
    set_ += ["decoder.attention"] * (look not in (Attention(), Attention(score="none")))
    set_ += ["decoder.kind=none"] * (spec.decoder.kind == "none") + ["decoder.reverse=true"] * spec.backward
    set_ += [f"feeding.kind={spec.feeding.kind}"] * (spec.feeding.kind != "teacher")
    set_ += ["train.reversed_members=true"] * spec.train.reversed_members
    set_ += [f"head.kind={spec.head.kind}"] * (spec.head.kind in ("copy", "ctc"))
    if set_:
        key = set_[0].partition("=")[0]
        raise ValueError(
            f"{set_[0]} cannot be used with task={spec.task}, which has one column and no source: a decoder continues "
            f"the target; leave {key.replace('data.', '--') if key in no_effect else key} out"
        )


def _check_corrupted(spec: Spec) -> None:
    """Check tasks that restore a text, whose source is the text itself, corrupted."""
    roles = {f"data.{role}": getattr(spec.data, role) for role in ("source", "context", "tag", "features")}
    for name, column in roles.items():
        if column is not None:
            raise ValueError(
                f"{name}={column} cannot be used with task={spec.task}, which has one column: the source is the "
                f"target, corrupted; leave {name.replace('data.', '--')} out"
            )
    no_effect = {
        "encoder.kind=none": spec.encoder.kind == "none",
        f"source.tokens={spec.source.tokens}": spec.source.tokens not in (Side().tokens, spec.target.tokens),
        f"source.size={spec.source.size}": spec.source.size not in (Side().size, spec.target.size),
        "embed.shared=true": spec.embed.shared,
        "decoder.reverse=true": spec.backward,
        "train.reversed_members=true": spec.train.reversed_members,
        f"train.members={spec.train.members}": spec.train.members > 1,
        f"data.unseen={spec.data.unseen}": spec.data.unseen != "unknown",
        f"data.augmented={spec.data.augmented}": spec.data.augmented > 0,
        f"head.kind={spec.head.kind}": spec.task == "denoise" and spec.head.kind not in ("tokens", "copy"),
    }
    for setting in (name for name, is_set in no_effect.items() if is_set):
        single = setting.startswith("train.members")
        why = "trains a single model" if single else "reads a corrupted copy of the target, split into the same tokens"
        raise ValueError(
            f"{setting} cannot be used with task={spec.task}, which {why}; leave {setting.partition('=')[0]} out"
        )
    if spec.corrupt.hidden + spec.corrupt.replaced > 1:
        raise ValueError(
            f"corrupt.hidden={spec.corrupt.hidden} and corrupt.replaced={spec.corrupt.replaced} add up to more "
            "than 1; lower one of them"
        )
    if spec.corrupt.positions == "hidden" and not (
        spec.encoder.kind == "transformer" and spec.embed.positions in ("sinusoid", "learned")
    ):
        raise ValueError(
            f"corrupt.positions=hidden with encoder.kind={spec.encoder.kind} and embed.positions="
            f"{spec.embed.positions}: only positions that are added to embeddings can be left out; "
            "set encoder.kind=transformer and embed.positions=sinusoid, or leave corrupt.positions out"
        )


def check_corrupt_settings(spec: Spec) -> None:
    """Refuse settings of a corruption that the task does not have."""
    of_task = {"masked-lm": ("share", "hidden", "replaced", "positions")}
    of_task["denoise"] = ("spans", "span", "dropped", "shuffled")
    used, usual = of_task.get(spec.task, ()), Corrupt()
    if spec.embed.latent and spec.task != "masked-lm":
        raise ValueError(
            f"embed.latent=true has no effect with task={spec.task}; leave embed.latent out, or set task=masked-lm"
        )
    for name in Corrupt.model_fields:
        if name not in used and getattr(spec.corrupt, name) != getattr(usual, name):
            tasks = " or ".join(task for task, names in of_task.items() if name in names)
            raise ValueError(
                f"corrupt.{name} has no effect with task={spec.task}; leave corrupt.{name} out, or set task={tasks}"
            )


def check_labels(spec: Spec) -> None:
    if spec.pool != Pool() and spec.task not in ("classify", "retrieve"):
        raise ValueError(
            f"pool.kind={spec.pool.kind} has no effect with task={spec.task}, which has no summary of the source; "
            "leave pool.kind out, or set task=classify or retrieve"
        )
    if spec.pool.parts != Pool().parts and spec.pool.kind != "parts":
        raise ValueError(
            f"pool.parts={spec.pool.parts} has no effect with pool.kind={spec.pool.kind}; leave pool.parts out, or set "
            "pool.kind=parts"
        )
    if spec.objective.class_power and spec.task not in LABELS:
        raise ValueError(
            f"objective.class_power={spec.objective.class_power} weighs labels, but target.kind={spec.target.kind}; "
            "leave objective.class_power out, or set task=classify"
        )


def check_answers(spec: Spec) -> None:
    if spec.task != "answer":
        refuse_without_effect("answer", spec.answer, "task=answer")
        return
    if spec.data.context is not None and spec.context.use not in TOGETHER:
        raise ValueError(
            f"context.use={spec.context.use} with task=answer: document and question are read together; "
            "set context.use to flow or joint"
        )
    if spec.source.tokens in ("parts", "bytes"):
        raise ValueError(
            f"with source.tokens={spec.source.tokens}, the position of a token in its document is not known; "
            "set source.tokens to characters, words, bpe or unigram"
        )
    marks = {f"data.tag={spec.data.tag}": spec.data.tagged, f"data.features={spec.data.features}": spec.data.features}
    for setting in (name for name, is_set in marks.items() if is_set):
        raise ValueError(f"{setting} has no effect with task=answer; leave {setting.partition('=')[0]} out")
    if spec.answer.stride > spec.answer.window:
        raise ValueError(
            f"answer.stride={spec.answer.stride} is larger than answer.window={spec.answer.window}, so words "
            "between the windows would not be read; lower answer.stride"
        )


def check_documents(spec: Spec) -> None:
    """Check what task=retrieve needs, and what belongs to it alone."""
    if spec.task != "retrieve":
        refuse_without_effect("retrieve", spec.retrieve, "task=retrieve")
        if "stems" in (spec.source.tokens, spec.target.tokens) and spec.task != "classify":
            raise ValueError(
                f"tokens=stems cannot be turned back into text, but task={spec.task} writes text; choose another "
                "value for source.tokens and target.tokens"
            )
        return
    given = {"encoder.kind": (spec.encoder.kind, "none"), "pool.kind": (spec.pool.kind, "mean")}
    for name in (name for name, (value, needed) in given.items() if spec.retrieve.latent and value != needed):
        value, needed = given[name]
        raise ValueError(
            f"retrieve.latent=true needs {name}={needed}, but {name}={value}; leave retrieve.latent out, or set "
            f"{name}={needed}"
        )
    for name in ("context", "tag", "features"):
        if getattr(spec.data, name) is not None:
            raise ValueError(f"data.{name} has no effect with task=retrieve; leave data.{name} out")
