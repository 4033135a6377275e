"""Which settings go with a kind of source, target or context."""

from __future__ import annotations

from weft.compatibility.tables import (
    SERIES,
    WITHOUT_TOKENS,
    refuse_without_effect,
)
from weft.spec import (
    Context,
    Objective,
    RecurrentDecoder,
    RecurrentEncoder,
    Spec,
)


def check_series(spec: Spec) -> None:
    """Check what is predicted."""
    objective, decoder = spec.objective, spec.decoder
    known = spec.target.kind != "auto"
    for kind, objectives in SERIES.items():
        predicted = spec.head.kind == kind
        if predicted != (objective.kind in objectives) or (known and predicted != (spec.target.kind == kind)):
            raise ValueError(
                f"target.kind={spec.target.kind}, head.kind={spec.head.kind} and objective.kind={objective.kind} are "
                f"not compatible: a target of {kind} needs objective.kind={' or '.join(objectives)}; "
                f"set target.kind={kind} and leave head.kind out, or set none of them"
            )
    if objective.kind != "mixture" and objective.components != Objective().components:
        raise ValueError(
            f"objective.components={objective.components} has no effect with objective.kind={objective.kind}; "
            "leave objective.components out, or set objective.kind=mixture"
        )
    if not (spec.numbers.values or spec.numbers.differences):
        raise ValueError(
            "numbers.values=false and numbers.differences=false leave nothing of a source to read; "
            "leave one of them out"
        )
    if spec.numbers.momentum and not spec.numbers.differences:
        raise ValueError(
            "numbers.momentum=true has no effect with numbers.differences=false; set numbers.differences=true, or "
            "leave numbers.momentum out"
        )
    if spec.numbers.stop == "context" and (spec.data.context is None or spec.context.use == "attend"):
        raise ValueError(
            "numbers.stop=context needs a context that is as long as the target; "
            "name its column with --context, or leave numbers.stop out"
        )
    if spec.numbers.stop == "source" and spec.source.kind not in (*SERIES, "auto"):
        raise ValueError(
            f"numbers.stop=source needs a source of steps, but source.kind={spec.source.kind}; leave numbers.stop out"
        )
    if spec.head.kind not in SERIES:
        return
    idle = {
        "decoder.kind=none": decoder.kind == "none",
        "decoder.reverse=true": spec.backward,
        "train.reversed_members=true": spec.train.reversed_members,
        f"feeding.token_dropout={spec.feeding.token_dropout}": bool(spec.feeding.token_dropout),
        f"data.tag_at={spec.data.tag_at}": spec.data.prompted,
    }
    for setting in (name for name, is_set in idle.items() if is_set):
        raise ValueError(
            f"{setting} cannot be used with head.kind={spec.head.kind}, which is for series that a decoder continues "
            f"step by step; leave {setting.partition('=')[0]} out"
        )


def check_series_read(spec: Spec) -> None:
    """Check what is done with the source where it is a series or sound, which have no tokens."""
    if spec.source.kind not in WITHOUT_TOKENS:
        return
    idle = {
        "head.kind=copy": spec.head.kind == "copy",
        f"data.unseen={spec.data.unseen}": spec.data.unseen != "unknown",
        f"data.tag={spec.data.tag}": spec.data.tag is not None,
        "data.tag_from=extension": spec.data.tag_from == "extension",
        "data.swap_pairs=true": spec.data.swap_pairs,
        f"data.features={spec.data.features}": spec.data.features is not None,
    }
    for setting in (name for name, is_set in idle.items() if is_set):
        raise ValueError(
            f"{setting} needs a source that is split into tokens, but source.kind={spec.source.kind} has none; "
            f"leave {setting.partition('=')[0]} out"
        )


def check_audio(spec: Spec) -> None:
    kinds = (spec.source.kind, spec.context.kind)
    parts = [f"data.{name}" for name in ("start", "end") if getattr(spec.data, name) is not None]
    if parts and spec.source.kind not in ("audio", "auto"):
        raise ValueError(
            f"{parts[0]} selects part of a recording, but source.kind={spec.source.kind}; "
            f"leave {' and '.join(parts)} out"
        )
    if not {"audio", "auto"} & set(kinds):
        refuse_without_effect("audio", spec.audio, "source.kind=audio", f"source.kind={spec.source.kind}")


def check_image(spec: Spec) -> None:
    image, encoder = spec.image, spec.encoder
    if spec.source.kind not in ("image", "auto"):
        refuse_without_effect("image", image, "source.kind=image", f"source.kind={spec.source.kind}")
        return
    if spec.source.kind == "image" and isinstance(encoder, RecurrentEncoder) and encoder.reverse:
        raise ValueError("encoder.reverse=true would mirror pictures (source.kind=image); leave encoder.reverse out")
    if spec.source.kind == "image" and spec.head.kind == "ctc" and image.layout == "grid":
        raise ValueError(
            "head.kind=ctc writes from the left to the right, but image.layout=grid has no such order; "
            "set image.layout=columns, or leave head.kind out"
        )


def check_context(spec: Spec) -> None:
    context, decoder = spec.context, spec.decoder
    if spec.data.context is None:
        refuse_without_effect("context", context, "a column for it (--context)")
        return
    if context.use == "step" and context.kind in ("text", "audio"):
        raise ValueError(
            f"context.use=step reads numbers or notes in step with the target, but context.kind={context.kind}; "
            "set context.use=attend"
        )
    _check_read_together(spec)
    if decoder.kind == "none" and (context.use == "step" or spec.task not in ("classify", "answer")):
        raise ValueError(
            f"data.context={spec.data.context} with context.use={context.use} cannot be used: head.kind="
            f"{spec.head.kind} with task={spec.task} has no decoder to read the context; leave data.context out, "
            "or set context.use=attend with task=classify"
        )
    blind = isinstance(decoder, RecurrentDecoder) and decoder.attention.score == "none"
    if context.use == "attend" and blind:
        why = "decoder.attention.score=none attends to nothing"
        raise ValueError(f"context.use=attend, but {why}; choose another decoder.attention.score")


def _check_read_together(spec: Spec) -> None:
    """Check ways to read the context that change how the source is read."""
    context = spec.context
    texts = {"source.kind": spec.source.kind, "context.kind": context.kind}
    other = [f"{name}={kind}" for name, kind in texts.items() if kind not in ("text", "auto")]
    if context.shared and other:
        raise ValueError(
            f"context.shared=true needs a source and a context that are both text, but {other[0]}; "
            "leave context.shared out"
        )
    if context.shared and spec.task == "transduce":
        raise ValueError("context.shared=true is for task=classify and task=answer; leave context.shared out")
    _check_words(spec, other)
    in_attention = ("relative", "bucketed", "rotary", "alibi")
    if context.use == "joint" and spec.encoder.kind == "transformer" and spec.embed.positions in in_attention:
        raise ValueError(
            f"context.use=joint with embed.positions={spec.embed.positions}: distances between source and context "
            "would depend on padding; set embed.positions to sinusoid or learned, or context.use=flow"
        )


def _check_words(spec: Spec, other: list[str]) -> None:
    """Check ways to read the context that compare words or cut the source into sentences."""
    context = spec.context
    if context.use == "hops" and (spec.task != "classify" or other):
        why = other[0] if other else f"task={spec.task}"
        raise ValueError(
            f"context.use=hops finds a label in the sentences of a text, but {why}; set task=classify with two "
            "columns of text, or leave context.use out"
        )
    if context.use != "hops" and context.hops != Context().hops:
        raise ValueError(
            f"context.hops={context.hops} has no effect with context.use={context.use}; leave context.hops out, or set "
            "context.use=hops"
        )
    if context.lexical and not (context.use == "flow" and context.shared):
        raise ValueError(
            f"context.lexical=true compares the tokens of two texts, but context.use={context.use} and context.shared="
            f"{str(context.shared).lower()}; set context.use=flow and context.shared=true, or leave context.lexical out"
        )
