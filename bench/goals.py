"""The goals of issue 5, held against what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from figures import Line, number, ratio, shown, table

OPERATIONS = {"transformer": 55.6e6, "lstm": 52.6e6, "gru": 47.1e6}  # a target symbol; issue 5


@dataclass(frozen=True)
class Goal:
    """What issue 5 asks for, what it would like beyond that, and what there is."""

    what: str
    measured: float | None
    asked: float | None
    beyond: float | None = None
    most: bool = False  # the figure should be low
    form: str = ".2f"
    unit: str = " ×"

    def row(self) -> list[str]:
        sign = "≤ " if self.most else "≥ "
        return [self.what, self._told(self.asked, sign), self._told(self.beyond, sign), self._told(self.measured),
                self.verdict]  # fmt: skip

    def _told(self, figure: float | None, sign: str = "") -> str:
        return "" if figure is None else f"{sign}{figure:{self.form}}{self.unit}"

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "not measured yet"
        if self._reaches(self.beyond):
            return "**reached, and beyond**"
        if self.asked is None:
            return "not beyond"
        return "**reached**" if self._reaches(self.asked) else "missed"

    def _reaches(self, wanted: float | None) -> bool:
        if wanted is None or self.measured is None:
            return False
        return self.measured <= wanted if self.most else self.measured >= wanted


def goals_table(goals: Iterable[Goal]) -> str:
    return table(["goal", "to reach", "beyond", "measured", ""], (goal.row() for goal in goals))


def limit_share(model: str, line: Line | None) -> float | None:
    """Of the speed that matrix products alone would allow."""
    speed, products = number(line, "tokens_per_second"), number(line, "gflops")
    operations = OPERATIONS.get(model)
    return None if not (speed and products and operations) else speed * operations / products / 1e9


def training_goals(found: Mapping[tuple[Any, ...], Line]) -> list[Goal]:
    def against(model: str, system: str, field: str = "tokens_per_second", ours: str = "weft") -> float | None:
        return ratio(number(found.get((model, ours)), field), number(found.get((model, system)), field))

    goals = []
    for how, ours in (("as it comes, peers in float32", "weft"), ("all in float32", "weft, in float32")):
        for system, asked in (("joeynmt", 3.5), ("opennmt", 1.4), ("transformers", 1.1)):
            ahead = against("transformer", system, ours=ours)
            goals.append(Goal(f"Transformer ({how}), against {shown(system)}", ahead, asked))
    share = limit_share("transformer", found.get(("transformer", "weft, in float32")))
    goals.append(Goal("Transformer in float32, share of the matrix limit", share, None, 0.75, form=".0%", unit=""))
    for model in ("lstm", "gru"):
        share = limit_share(model, found.get((model, "weft")))
        goals.append(Goal(f"{model.upper()}, against OpenNMT-py", against(model, "opennmt"), 1.7))
        goals.append(Goal(f"{model.upper()}, share of the matrix limit", share, 0.7, 0.8, form=".0%", unit=""))
    memory = against("transformer", "opennmt", "peak_megabytes")
    return [*goals, Goal("Transformer, peak memory against OpenNMT-py", memory, 1.0, most=True)]


def bleu_goals(found: Mapping[tuple[Any, ...], Line]) -> list[Goal]:
    """Only what had ten minutes and two cores counts: others give less."""
    bleu = {key[:2]: line["bleu"] for key, line in found.items() if key[2:] == (10, 2) and line.get("bleu") is not None}
    peers = [score for (model, system), score in bleu.items() if model == "transformer" and system != "weft"]

    def goal(what: str, model: str, asked: float | None, beyond: float) -> Goal:
        ours = bleu.get((model, "weft"))
        ahead = ours - max(peers) if ours is not None and len(peers) == 3 else None  # all of them, or none
        return Goal(f"BLEU after ten minutes, {what}, above the best peer", ahead, asked, beyond, form="+.1f", unit="")

    return [goal("the same Transformer", "transformer", 0, 3), goal("the autopilot's choice", "autopilot", None, 6)]


def decoding_goals(found: Mapping[tuple[Any, ...], Line]) -> list[Goal]:
    def against(model: str, ours: str, theirs: str, beam: int, batch: int) -> float | None:
        field = "milliseconds" if batch == 1 else "sentences_per_second"
        return ratio(*(number(found.get((model, system, beam, batch)), field) for system in (ours, theirs)))

    goals = []
    for beam, label in ((1, "greedy"), (5, "beam 5")):
        for theirs, *asked in (("opennmt", 1.2), ("transformers", 2.5), ("ctranslate2, float32, 2 threads", None, 1.0)):
            what = f"Transformer, {label}, torch engine against {shown(theirs)}"
            goals.append(Goal(what, against("transformer", "weft", theirs, beam, 64), *asked))
        for kind in ("float32", "int8"):
            own = against("transformer", f"weft, {kind}", f"ctranslate2, {kind}", beam, 64)
            what = f"Transformer, {label}, Weft by CTranslate2 {kind} against its own translator"
            goals.append(Goal(what, own, 0.95, form=".3f"))
    goals.append(Goal("LSTM, beam 5, against OpenNMT-py", against("lstm", "weft", "opennmt", 5, 64), 2.0, 4.0))
    for theirs, *asked in (("transformers", 0.5), ("ctranslate2, float32", None, 1.0)):
        own = against("transformer", "weft", theirs, 1, 1)
        goals.append(
            Goal(f"Transformer, one line, greedy: milliseconds against {shown(theirs)}", own, *asked, most=True)
        )
    return goals
