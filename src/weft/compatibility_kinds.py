"""Which kinds of columns, tasks, heads and objectives go together; called by `compatibility.check`."""

from __future__ import annotations

from weft.score.metrics import table_of
from weft.spec import Bridge, Context, Feeding, Objective, Pool, RecurrentDecoder, Spec

LABELS = ("classify", "classify-tokens")  # the tasks whose target is a label
DENSITIES = ("squared", "gaussian", "mixture")  # the objectives of numbers
TARGETS = {"classify": ("label",), "classify-tokens": ("labels",)}  # the kind of target that a task fixes


def metrics_of(task: str, target_kind: str = "auto") -> list[str]:
    """Return the metrics that a checkpoint can be chosen by, the first by default."""
    usual = ("text", "numbers") if target_kind == "auto" else (target_kind,)
    tables = [table_of(kind) for kind in TARGETS.get(task, usual)]
    return list(dict.fromkeys(metric.name for table in tables for metric in table.values() if metric.selects))


def check_kinds(spec: Spec) -> None:
    """Raise ValueError for the first combination that is not compatible."""
    _check_labels(spec)
    _check_numbers(spec)
    _check_numbers_read(spec)
    _check_context(spec)
    _check_selection(spec)
    _check_without_decoder(spec)
    _check_text_only(spec)


def _check_labels(spec: Spec) -> None:
    if spec.source.kind == "label":
        raise ValueError("source.kind=label: only a target can be a label; set source.kind=text")
    labels = [spec.task in LABELS, spec.target.kind == "label", spec.head.kind == "label"]
    if any(labels) and not (all(labels) and spec.decoder.kind == "none"):
        raise ValueError(
            f"task={spec.task}, target.kind={spec.target.kind}, head.kind={spec.head.kind} and decoder.kind="
            f"{spec.decoder.kind} are not compatible: labels are predicted without a decoder; "
            "set task=classify or task=classify-tokens and leave the others out, or set none of them"
        )
    if spec.pool != Pool() and spec.task != "classify":
        raise ValueError(
            f"pool.kind={spec.pool.kind} has no effect with task={spec.task}, which has no summary of the source; "
            "leave pool.kind out, or set task=classify"
        )
    if spec.objective.class_power and not all(labels):
        raise ValueError(
            f"objective.class_power={spec.objective.class_power} weighs labels, but target.kind={spec.target.kind}; "
            "leave objective.class_power out, or set task=classify"
        )


def _check_numbers(spec: Spec) -> None:
    """Check what is predicted."""
    numbers, objective, decoder = spec.head.kind == "numbers", spec.objective, spec.decoder
    known = spec.target.kind != "auto"
    if numbers != (objective.kind in DENSITIES) or (known and numbers != (spec.target.kind == "numbers")):
        raise ValueError(
            f"target.kind={spec.target.kind}, head.kind={spec.head.kind} and objective.kind={objective.kind} are not "
            f"compatible: numbers are learned by {', '.join(DENSITIES)}; "
            "set target.kind=numbers and leave head.kind out, or set none of them"
        )
    if objective.kind != "mixture" and objective.components != Objective().components:
        raise ValueError(
            f"objective.components={objective.components} has no effect with objective.kind={objective.kind}; "
            "leave objective.components out, or set objective.kind=mixture"
        )
    if spec.numbers.stop == "context" and (spec.data.context is None or spec.context.use == "attend"):
        raise ValueError(
            "numbers.stop=context needs a context that is as long as the target; "
            "name its column with --context, or leave numbers.stop out"
        )
    if not numbers:
        return
    idle = {
        "decoder.kind=none": decoder.kind == "none",
        "decoder.reverse=true": spec.backward,
        "train.reversed_members=true": spec.train.reversed_members,
        f"feeding.token_dropout={spec.feeding.token_dropout}": bool(spec.feeding.token_dropout),
        "data.tag_at=decoder": spec.data.tag_at == "decoder",
    }
    for setting in (name for name, is_set in idle.items() if is_set):
        raise ValueError(
            f"{setting} cannot be used with head.kind=numbers, which is for series that a decoder continues step by "
            f"step; leave {setting.partition('=')[0]} out"
        )


def _check_numbers_read(spec: Spec) -> None:
    """Check what is done with the source where it is numbers, which have no tokens."""
    if spec.source.kind != "numbers":
        return
    idle = {
        "head.kind=copy": spec.head.kind == "copy",
        f"data.unseen={spec.data.unseen}": spec.data.unseen != "unknown",
        f"data.tag={spec.data.tag}": spec.data.tag is not None,
        f"data.features={spec.data.features}": spec.data.features is not None,
    }
    for setting in (name for name, is_set in idle.items() if is_set):
        raise ValueError(
            f"{setting} is about the tokens of the source, but source.kind=numbers has none; "
            f"leave {setting.partition('=')[0]} out"
        )


def _check_context(spec: Spec) -> None:
    context, decoder = spec.context, spec.decoder
    if spec.data.context is None:
        if context != Context():
            raise ValueError(
                "context has no effect without a column for it; name the column with --context, or leave context out"
            )
        return
    if context.use == "step" and context.kind == "text":
        raise ValueError(
            "context.use=step reads numbers in step with the target, but context.kind=text; set context.use=attend"
        )
    if decoder.kind == "none" and (context.use == "step" or spec.task != "classify"):
        raise ValueError(
            f"data.context={spec.data.context} with context.use={context.use}: no decoder reads the context with "
            f"head.kind={spec.head.kind} and task={spec.task}; leave data.context out, or set context.use=attend with "
            "task=classify"
        )
    blind = isinstance(decoder, RecurrentDecoder) and decoder.attention.score == "none"
    if context.use == "attend" and (blind or spec.head.kind == "copy"):
        why = "decoder.attention.score=none attends to nothing" if blind else "head.kind=copy attends to the source"
        raise ValueError(f"context.use=attend, but {why}; choose another decoder.attention.score or head.kind")


def _check_selection(spec: Spec) -> None:
    known = metrics_of(spec.task, "numbers" if spec.head.kind == "numbers" else spec.target.kind)
    if spec.train.select not in known:
        raise ValueError(
            f"train.select={spec.train.select} is not measured with task={spec.task} and head.kind={spec.head.kind}; "
            f"choose one of {', '.join(known)}"
        )


def _check_without_decoder(spec: Spec) -> None:
    """Refuse settings of a decoder where labels are predicted without one; CTC is checked in `compatibility`."""
    if spec.head.kind != "label":
        return
    why = f"head.kind={spec.head.kind}"
    if spec.data.tag_at == "decoder":
        raise ValueError(f"data.tag_at=decoder with {why}: no decoder reads the tag; set data.tag_at to start or end")
    idle = [name for name, part in (("bridge", Bridge()), ("feeding", Feeding())) if getattr(spec, name) != part]
    if idle:
        names = " and ".join(idle)
        has = "has" if len(idle) == 1 else "have"
        raise ValueError(f"{names} {has} no effect with {why}, which has no decoder; leave {names} out")
    if spec.train.reversed_members:
        raise ValueError(
            f"train.reversed_members=true has no effect with {why}: no decoder writes from the end; "
            "leave train.reversed_members out"
        )


def _check_text_only(spec: Spec) -> None:
    """Refuse what is about the characters of source and target where one of them is not text."""
    other = [f"{name}.kind={kind}" for name, kind in _kinds(spec).items() if kind not in ("text", "auto")]
    if not other:
        return
    wanted = {"embed.shared=true": spec.embed.shared, "data.unseen=carried": spec.data.unseen == "carried"}
    wanted[f"data.augmented={spec.data.augmented}"] = bool(spec.data.augmented)
    for setting in (name for name, is_set in wanted.items() if is_set):
        raise ValueError(
            f"{setting} needs text on both sides, but {' and '.join(other)}; leave {setting.partition('=')[0]} out"
        )


def _kinds(spec: Spec) -> dict[str, str]:
    return {"source": spec.source.kind, "target": spec.target.kind}
