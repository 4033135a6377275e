"""Which kinds of columns, tasks, heads and objectives go together; called by `compatibility.check`."""

from __future__ import annotations

from weft.compatibility.columns import check_audio, check_context, check_image, check_series, check_series_read
from weft.compatibility.tables import (
    READ,
    SERIES,
    WITHOUT_DECODER,
    WRITTEN,
    metrics_of,
)
from weft.compatibility.tasks import (
    check_alone,
    check_answers,
    check_corrupt_settings,
    check_documents,
    check_implied,
    check_labels,
)
from weft.spec import (
    Bridge,
    Feeding,
    Spec,
)


def check_kinds(spec: Spec) -> None:
    """Raise ValueError for the first combination that is not compatible."""
    _check_roles(spec)
    check_implied(spec)
    check_labels(spec)
    check_answers(spec)
    check_documents(spec)
    check_series(spec)
    check_series_read(spec)
    check_audio(spec)
    check_image(spec)
    check_context(spec)
    _check_selection(spec)
    _check_without_decoder(spec)
    _check_length(spec)
    _check_text_only(spec)
    check_alone(spec)
    check_corrupt_settings(spec)


def _check_roles(spec: Spec) -> None:
    """Refuse kinds that are read but not written, and kinds that are written but not read."""
    for role, kind, known in (("source", spec.source.kind, READ), ("target", spec.target.kind, WRITTEN)):
        if kind not in ("auto", *known):
            raise ValueError(f"{role}.kind={kind}: a {role} cannot be of this kind; choose one of {', '.join(known)}")


def _check_selection(spec: Spec) -> None:
    known = metrics_of(spec.task, spec.head.kind if spec.head.kind in SERIES else spec.target.kind)
    if spec.train.select not in known:
        raise ValueError(
            f"train.select={spec.train.select} is not measured with task={spec.task} and head.kind={spec.head.kind}; "
            f"choose one of {', '.join(known)}"
        )


def _check_without_decoder(spec: Spec) -> None:
    """Refuse settings of a decoder where labels are predicted without one; CTC is checked in `compatibility`."""
    if spec.head.kind not in WITHOUT_DECODER:
        return
    why = f"head.kind={spec.head.kind}"
    if spec.data.prompted:
        raise ValueError(
            f"data.tag_at={spec.data.tag_at} with {why}: no decoder reads the tag; set data.tag_at to start or end"
        )
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


def _check_length(spec: Spec) -> None:
    if spec.search.length is not None and spec.decoder.kind == "none":
        raise ValueError(
            f"search.length={spec.search.length} has no effect with decoder.kind=none: without a decoder, the source "
            "decides how long an output is; leave search.length out"
        )


def _check_text_only(spec: Spec) -> None:
    """Refuse what is about the characters of source and target where one of them is not text."""
    other = [f"{name}.kind={kind}" for name, kind in _kinds(spec).items() if kind not in ("text", "auto")]
    if not other:
        return
    wanted = {"embed.shared=true": spec.embed.shared, "data.unseen=carried": spec.data.unseen == "carried"}
    wanted[f"data.augmented={spec.data.augmented}"] = bool(spec.data.augmented)
    wanted["data.back_translate=true"] = spec.data.back_translate
    for setting in (name for name, is_set in wanted.items() if is_set):
        raise ValueError(
            f"{setting} needs text on both sides, but {' and '.join(other)}; leave {setting.partition('=')[0]} out"
        )


def _kinds(spec: Spec) -> dict[str, str]:
    return {"source": spec.source.kind, "target": spec.target.kind}
