"""Does a validation file look like the training data? Its characters, lengths and tags, and which side is which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from weft.core.pair import Pair
from weft.data.scan import Scan
from weft.data.text.tokens import marks_of
from weft.data.text.unseen import UnknownShare

FEWEST = 10  # pairs whose lengths tell something
OTHER_LENGTH = 3.0  # times as long, or as short, as training pairs are
LISTED = 5  # tags and features that are shown


def differences(scan: Scan, pairs: Sequence[Pair], name: str) -> list[str]:
    """Return sentences on how validation pairs differ from the training pairs, where that is worth one.

    Columns that are not text have no characters to compare.
    """
    if list(scan.survey.kinds.values())[:2] != ["text", "text"]:
        return [*_labels(scan, name, pairs), *_marks(scan, name, pairs)]
    sources, targets = [pair.source for pair in pairs], [target for pair in pairs for target in pair.targets]
    if _swapped(scan, sources, targets):
        what = f"{name}: its sources look like the training targets, and its targets like the training sources"
        return [f"{what}: are the columns the other way round?"]
    return [
        *_characters(scan, name, sources, targets),
        *_lengths(scan, name, sources, targets),
        *_marks(scan, name, pairs),
    ]


def _unknown(texts: Iterable[str], known: Iterable[str]) -> UnknownShare:
    counted = UnknownShare(frozenset(known))
    for text in texts:
        counted.add(text)
    return counted


def _swapped(scan: Scan, sources: Sequence[str], targets: Sequence[str]) -> bool:
    """Return whether both sides have the characters of the other side, and not their own."""
    source, target = scan.characters["source"], scan.characters["target"]
    as_they_are = min(_unknown(sources, source).share, _unknown(targets, target).share)
    the_other_way = max(_unknown(sources, target).share, _unknown(targets, source).share)
    return as_they_are > 0.05 and the_other_way < as_they_are / 5


def _characters(scan: Scan, name: str, sources: Sequence[str], targets: Sequence[str]) -> list[str]:
    notes = []
    for side, texts in (("source", sources), ("target", targets)):
        counted = _unknown(texts, scan.characters[side])
        notes.append(counted.note(f"the {side}s of {name}", f"the training {side}s"))
    return [note for note in notes if note]


def _lengths(scan: Scan, name: str, sources: Sequence[str], targets: Sequence[str]) -> list[str]:
    notes = []
    for side, texts, survey in (("source", sources, scan.survey.source), ("target", targets, scan.survey.target)):
        mean, usual = fmean(map(len, texts)), max(1.0, survey.mean)
        if len(texts) >= FEWEST and not usual / OTHER_LENGTH <= mean <= usual * OTHER_LENGTH:
            how = f"{mean:.0f} characters on average, but those of the training pairs have {usual:.0f}"
            notes.append(f"the {side}s of {name} have {how}: is it the same kind of data?")
    return notes


def _marks(scan: Scan, name: str, pairs: Iterable[Pair]) -> list[str]:
    known = set(scan.survey.marks)
    unseen = sorted({mark for pair in pairs for mark in marks_of(pair)} - known)
    if not unseen:
        return []
    shown = " ".join(unseen[:LISTED]) + (" …" if len(unseen) > LISTED else "")
    return [f"{name} has tags or features that training never sees: {len(unseen):,}: {shown}"]


def _labels(scan: Scan, name: str, pairs: Iterable[Pair]) -> list[str]:
    """Return a note on labels that training never sees: no model can predict them."""
    kind = scan.survey.kind("target")
    if kind not in ("label", "labels"):
        return []
    known = scan.survey.columns["target"]["labels"]
    cells = [pair.target.split(" ") if kind == "labels" else [pair.target.strip()] for pair in pairs]
    unseen = sorted({label for labels in cells for label in labels} - set(known))
    if not unseen:
        return []
    shown = " ".join(unseen[:LISTED]) + (" …" if len(unseen) > LISTED else "")
    return [f"{name} has labels that training never sees, which count as wrong: {len(unseen):,}: {shown}"]
