"""Which settings go together, and what settings of earlier versions are called and mean today.

Combinations that make no sense are refused; a message is `what; what to do`.
"""

from __future__ import annotations

from typing import Any

from weft.compatibility.kinds import check_kinds
from weft.compatibility.tables import WITHOUT_DECODER
from weft.spec import (
    SPELLED,
    Attention,
    Bridge,
    Feeding,
    NoDecoder,
    Part,
    RecurrentDecoder,
    RecurrentEncoder,
    Spec,
    Transformer,
    TransformerDecoder,
)

FORMAT = 2  # of spec.yaml
RENAMED = {  # settings of earlier versions, which run folders and settings files may still hold
    "data.invented": "data.augmented",
    "data.frequency": "data.repeat_power",
    "decoder.attention.moves": "decoder.attention.location_aware",
    "train.most_passes": "train.max_epochs",
    "train.both_ways": "train.reversed_members",
    "search.longest_ratio": "search.max_ratio",
    "search.longest_extra": "search.max_extra",
}
RENAMED_VALUES = {("data.unseen", "kin"): "nearest", ("train.select", "ter"): "token_error_rate"}
NEW_MEANINGS: dict[int, dict[str, Any]] = {  # by format: settings that came with it, as runs of earlier formats were
    2: {"bridge.state": "hidden", "embed.per_layer": False},
}


def earlier_values(made_by: int) -> dict[str, Any]:
    """Return the values, by dotted key, that a run of some format has of settings that did not exist then."""
    return {key: value for new, values in NEW_MEANINGS.items() if made_by < new for key, value in values.items()}


def check(spec: Spec) -> None:
    """Raise ValueError for the first combination that does not fit."""
    _check_tags(spec)
    check_kinds(spec)
    _check_unseen(spec)
    _check_head(spec)
    _check_joint(spec)
    _check_bridge(spec)
    _check_attention(spec)
    _check_positions(spec)
    _check_feeding(spec)
    _check_frozen(spec)
    if spec.embed.shared and spec.source != spec.target:
        raise ValueError(
            "embed.shared=true needs source and target to be split in the same way, but "
            f"source={spec.source.tokens}/{spec.source.size} and target={spec.target.tokens}/{spec.target.size}; make "
            "them equal or set embed.shared=false"
        )


def _check_tags(spec: Spec) -> None:
    data = spec.data
    if data.tag_at != "start" and not data.tagged:
        raise ValueError(
            f"data.tag_at={data.tag_at} needs a tag, but data.tag names no column; "
            "give the tag's column with --tag, or leave data.tag_at out"
        )
    if data.tag is not None and data.tag_from == "extension":
        raise ValueError(
            f"data.tag={data.tag} and data.tag_from=extension both say where the tag is; leave one of them out"
        )
    if data.tag_temperature != 1 and not data.tagged:
        raise ValueError(
            f"data.tag_temperature={data.tag_temperature:g} balances how often each tag is used, but the rows "
            "have no tags; name their column with --tag, or leave data.tag_temperature out"
        )
    if data.back_translate and not (data.tagged and data.tag_at == "start" and spec.task == "transduce"):
        raise ValueError(
            f"data.back_translate=true needs tags in front of the sources, but data.tag={data.tag} and "
            f"data.tag_at={data.tag_at}; give the tag's column with --tag, or leave data.back_translate out"
        )
    taken = {
        f"data.tag={data.tag}": data.tag is not None,
        f"data.features={data.features}": data.features is not None,
        f"data.context={data.context}": data.context is not None,
        f"data.augmented={data.augmented}": bool(data.augmented),
        "data.unseen=carried": data.unseen == "carried",
        f"task={spec.task}": spec.task != "transduce",
    }
    for setting in (name for name, is_set in taken.items() if is_set and data.swap_pairs):
        raise ValueError(
            f"data.swap_pairs=true trains in both directions, but {setting} applies to only one; leave "
            f"{setting.partition('=')[0]} out (to tag parallel files, use data.tag_from=extension)"
        )


def _check_unseen(spec: Spec) -> None:
    sides = {"unknown": (), "nearest": ("source",), "carried": ("source", "target")}[spec.data.unseen]
    fit = SPELLED if spec.data.unseen == "nearest" else ("characters",)
    cut = {name: getattr(spec, name).tokens for name in sides}
    other = [f"{name}.tokens={tokens}" for name, tokens in cut.items() if tokens not in fit]
    if other:
        raise ValueError(
            f"data.unseen={spec.data.unseen} needs single characters, but {' and '.join(other)}; "
            f"set {' and '.join(f'{name}.tokens=characters' for name in sides)}, or leave data.unseen out"
        )


def _check_head(spec: Spec) -> None:
    alone = [spec.head.kind == "ctc", spec.objective.kind == "ctc", spec.decoder.kind == "none"]
    if any(alone) and not all(alone) and spec.head.kind not in WITHOUT_DECODER:
        raise ValueError(
            f"head.kind={spec.head.kind}, objective.kind={spec.objective.kind} and decoder.kind={spec.decoder.kind} "
            "are not compatible: CTC has no decoder; set only head.kind=ctc, or leave all of these out"
        )
    if all(alone) and spec.data.prompted:
        raise ValueError(
            f"data.tag_at={spec.data.tag_at} with head.kind=ctc: no decoder reads the tag; "
            "set data.tag_at to start or end"
        )
    if all(alone) and spec.train.select == "accuracy":
        raise ValueError(
            "train.select=accuracy needs next-token predictions, but head.kind=ctc has none; choose exact, cer or loss"
        )
    if all(alone) and spec.train.members > 1:
        raise ValueError(
            f"train.members={spec.train.members}, but CTC models (head.kind=ctc) cannot be combined in an ensemble; "
            "leave train.members out, or use head.kind=tokens"
        )
    idle = ["bridge"] * _bridge_is_set(spec.bridge) + ["feeding"] * (spec.feeding != Feeding())
    if all(alone) and idle:
        what = f"{_no_effect(idle)} with head.kind=ctc, which has no decoder"
        raise ValueError(f"{what}; leave {' and '.join(idle)} out")
    unused = [f"search.{name}" for name in ("no_repeat", "length_penalty") if _differs(spec.search, name)]
    if all(alone) and unused:
        raise ValueError(
            f"{_no_effect(unused)} with head.kind=ctc, which ranks outputs by their probability; "
            f"leave {_it(unused)} out, or use head.kind=tokens"
        )


def _check_joint(spec: Spec) -> None:
    """Check CTC beside attention, which needs a decoder that writes in the order of the source."""
    share, encoder, decoder = spec.objective.ctc_share, spec.encoder, spec.decoder
    if not share and _differs(spec.search, "ctc_weight"):
        raise ValueError(
            f"{_no_effect(['search.ctc_weight'])} with objective.ctc_share=0; "
            "set objective.ctc_share, or leave search.ctc_weight out"
        )
    refused = {
        f"head.kind={spec.head.kind}": spec.head.kind != "tokens",
        f"task={spec.task}": spec.task != "transduce",
        "image.layout=grid": spec.source.kind == "image" and spec.image.layout == "grid",
        "encoder.reverse=true": isinstance(encoder, RecurrentEncoder) and encoder.reverse,
        "decoder.reverse=true": spec.backward,
        "train.reversed_members=true": spec.train.reversed_members,
        "decoder.attention.score=none": isinstance(decoder, RecurrentDecoder) and decoder.attention.score == "none",
        f"data.context={spec.data.context}": spec.data.context is not None,
    }
    for setting in (name for name, is_set in refused.items() if is_set and share):
        raise ValueError(
            f"objective.ctc_share={share:g} trains CTC beside a decoder that attends to the source and writes in its "
            f"order, which {setting} does not allow; leave objective.ctc_share out, or change "
            f"{setting.partition('=')[0]}"
        )


def _check_bridge(spec: Spec) -> None:
    decoder = spec.decoder
    if isinstance(decoder, TransformerDecoder) and _bridge_is_set(spec.bridge):
        raise ValueError(
            "bridge has no effect with decoder.kind=transformer, which sees the source by attention alone; "
            "leave bridge out or set decoder.kind=recurrent"
        )
    if not isinstance(decoder, RecurrentDecoder):
        return
    if decoder.attention.score == "none" and (spec.bridge.kind == "zeros" or spec.bridge.give == "none"):
        raise ValueError(
            f"decoder.attention.score=none with bridge.kind={spec.bridge.kind}, bridge.give={spec.bridge.give} gives "
            "the decoder no access to the source; choose an attention score or another bridge"
        )
    if spec.bridge.kind == "zeros" and spec.bridge.give == "every":
        raise ValueError(
            "bridge.give=every has no effect with bridge.kind=zeros; choose another bridge.kind, or leave bridge.give "
            "out"
        )
    if spec.bridge.kind in ("last", "mean") and spec.encoder.width != decoder.width:
        raise ValueError(
            f"bridge.kind={spec.bridge.kind} passes the encoder's state on unchanged, but "
            f"encoder.width={spec.encoder.width} and decoder.width={decoder.width}; make them equal or set "
            "bridge.kind=projected"
        )


def _bridge_is_set(bridge: Bridge) -> bool:
    """Whether kind or give are set; `state` is in every run of an earlier version."""
    return _differs(bridge, "kind") or _differs(bridge, "give")


def _check_attention(spec: Spec) -> None:
    """Check the attention of a recurrent decoder."""
    if not isinstance(spec.decoder, RecurrentDecoder):
        return
    look, own, memory = spec.decoder.attention, spec.decoder.width, spec.encoder.width
    if look.score == "none":
        _check_no_attention(look)
        return
    if look.score in ("dot", "scaled", "scaled-width", "rbf", "cosine") and look.project == "none" and memory != own:
        raise ValueError(
            f"decoder.attention.score={look.score} compares states as they are, but encoder.width={memory} and "
            f"decoder.width={own}; make them equal, set decoder.attention.project=linear, or use bilinear or additive"
        )
    if look.location_aware and not look.feed:
        raise ValueError(
            "decoder.attention.location_aware=true needs the attention weights of the previous step, but with "
            "decoder.attention.feed=false all steps are computed at once; set decoder.attention.feed=true, or leave "
            "decoder.attention.location_aware out"
        )
    if own % look.heads or memory % look.heads:
        raise ValueError(
            f"decoder.attention.heads={look.heads} must divide encoder.width={memory} and decoder.width={own}; "
            "choose a number that divides both"
        )
    if look.join == "context" and look.query == "before":
        raise ValueError(
            "decoder.attention.join=context with decoder.attention.query=before: the context is computed before "
            "the previous output symbol is read, so the next output could not depend on that symbol; "
            "set decoder.attention.query=after"
        )
    if look.join == "context" and look.weigh in ("nearest", "exact"):
        raise ValueError(
            f"decoder.attention.join=context with decoder.attention.weigh={look.weigh}: no gradient would reach the "
            "decoder's state; choose softmax, straight-through, sparsemax or kernel, or another join"
        )
    if look.weigh == "exact" and (look.score != "rbf" or look.project != "none"):
        raise ValueError(
            "decoder.attention.weigh=exact needs a score that shows when query and key are equal, which "
            f"decoder.attention.score={look.score} with decoder.attention.project={look.project} does not; set "
            "score=rbf and project=none"
        )


def _check_no_attention(look: Attention) -> None:
    names = ("weigh", "project", "heads", "query", "location_aware", "join")
    unused = [f"decoder.attention.{name}" for name in names if _differs(look, name)]
    if unused:
        raise ValueError(
            f"{_no_effect(unused)} with decoder.attention.score=none; leave {_it(unused)} out, or choose a score"
        )


def _no_effect(names: list[str]) -> str:
    return f"{' and '.join(names)} {'has' if len(names) == 1 else 'have'} no effect"


def _it(names: list[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _differs(part: Part, name: str) -> bool:
    return bool(getattr(part, name) != type(part).model_fields[name].default)


def _check_positions(spec: Spec) -> None:
    transformers = [p for p in (spec.encoder, spec.decoder) if isinstance(p, Transformer)]
    positions = spec.embed.positions
    if positions != "relative" and _differs(spec.embed, "max_distance"):
        raise ValueError(
            f"embed.max_distance belongs to embed.positions=relative, but embed.positions={positions}; "
            "set embed.positions=relative, or leave embed.max_distance out"
        )
    if positions in ("relative", "bucketed", "rotary", "alibi") and not transformers:
        raise ValueError(
            f"embed.positions={positions} acts within a Transformer's self-attention, but encoder.kind="
            f"{spec.encoder.kind} and decoder.kind={spec.decoder.kind} have none; "
            "set embed.positions to none, sinusoid, sinusoid-concat or learned"
        )
    for part in transformers if positions == "rotary" else []:
        if part.width // part.heads % 2:
            raise ValueError(
                f"embed.positions=rotary needs an even width per head, but width={part.width} / heads={part.heads} "
                f"is {part.width // part.heads}; choose fewer heads or embed.positions=sinusoid"
            )
    if positions == "sinusoid-concat" and min(_read_widths(spec)) < 4:
        raise ValueError(
            "embed.positions=sinusoid-concat keeps a quarter of each vector for the position, but width "
            f"{min(_read_widths(spec))} leaves no room; choose a width of 4 or more"
        )


def _read_widths(spec: Spec) -> list[int]:
    """Return the widths of the vectors that encoder and decoder read."""
    parts = (spec.encoder, spec.decoder)
    return [p.width if isinstance(p, Transformer) else spec.embed.width for p in parts if not isinstance(p, NoDecoder)]


def _check_frozen(spec: Spec) -> None:
    """Refuse to hold parts still that the model does not have."""
    absent = {"encoder": spec.encoder.kind == "none", "pool": spec.task != "classify"}
    absent |= dict.fromkeys(("decoder", "bridge"), spec.decoder.kind == "none")
    for part in spec.train.freeze:
        if absent.get(part):
            raise ValueError(
                f"train.freeze={part}, but with task={spec.task} and these settings there is no {part}; "
                f"leave {part} out of train.freeze"
            )


def _check_feeding(spec: Spec) -> None:
    feeding = spec.feeding
    unused = [f"feeding.{name}" for name in ("schedule", "least") if _differs(feeding, name)]
    if feeding.kind != "scheduled" and unused:
        raise ValueError(
            f"{_no_effect(unused)} with feeding.kind={feeding.kind}; "
            f"set feeding.kind=scheduled, or leave {_it(unused)} out"
        )
    if feeding.kind == "none" and spec.head.kind != "numbers":
        raise ValueError(
            f"feeding.kind=none works only for numbers, but head.kind={spec.head.kind}: any other output depends on "
            "what the decoder has already written; leave feeding.kind out"
        )
    if feeding.kind == "own" and feeding.token_dropout:
        raise ValueError(
            "feeding.token_dropout hides correct tokens, but with feeding.kind=own the decoder reads none; leave one "
            "of them out"
        )
