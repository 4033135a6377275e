"""Columns: which column or field is the source, the target, the tag, the features, the context.

A column is a number from 1, a name, or a name inside an object (`translation.en`). A source or target that nobody chose
is found by its name (`names`), or because no other column is left. Where that tells nothing, columns 1 and 2 of a TSV
or CSV are read, and among three and more fields of JSON or Parquet the user has to choose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.core.errors import UserError, did_you_mean
from weft.data.formats import BadRowPolicy
from weft.data.names import TARGETS, likely_source, numbers_rows, paired, whole

SIDES = ("source", "target")
PARTS = ("start", "end")  # of the recording that the source names
ROLES = (*SIDES, "tag", "features", "context", *PARTS)
LONGEST_NAME = 40  # characters of a name that is listed
ONLY_TARGETS = ("text", "notes", "target")  # names of the column of a task that has one
USUAL = {"source": "source", "target": "text"}  # a name that is always found, of a column that stands alone
MOST_NAMES = 12  # of columns that are listed


@dataclass(frozen=True)
class Columns:
    """Where each part of a pair stands: a number from 1 or a name; a source or target that is None is found."""

    source: str | int | None = None
    target: str | int | None = None
    features: str | int | None = None
    tag: str | int | None = None
    context: str | int | None = None
    tag_from: str = "column"  # or "extension": the tag is the ending of the target file, for files that are parallel
    swap: bool = False  # whether each pair is followed by the same pair the other way round
    start: str | int | None = None  # where the part of a recording begins that is meant, in seconds
    end: str | int | None = None
    trained: tuple[tuple[str, str], ...] = ()  # of a run: the names of the columns that it was trained with, by role

    def __post_init__(self) -> None:
        for role in ROLES:
            column = self.of(role)
            if column == "" or (isinstance(column, int) and column < 1):
                todo = "give a number, counted from 1, or a name in the header"
                raise UserError(f"{column!r} is not a column", f"--{role}", todo)

    def of(self, role: str) -> str | int | None:
        """Return the column that was chosen for a role."""
        chosen = {"source": self.source, "target": self.target, "tag": self.tag, "features": self.features}
        return {**chosen, "context": self.context, "start": self.start, "end": self.end}[role]

    def in_training(self, role: str) -> str | None:
        """Return the name that the column of a role had in training, if nobody chose another and it had one."""
        return dict(self.trained).get(role) if self.of(role) is None else None

    def present(self, roles: Sequence[str]) -> list[str]:
        """Return those of the given roles that a row has: others than source and target only if chosen."""
        return [role for role in roles if role in SIDES or self.of(role) is not None]

    @property
    def named(self) -> bool:
        """Return whether some column is chosen by its name."""
        return any(isinstance(self.of(role), str) for role in ROLES)


AUTOMATIC = Columns()


def names_of_roles(names: Sequence[str], columns: Columns, roles: Sequence[str]) -> dict[str, str]:
    """Return the names of the roles, as far as they were chosen or the names tell them."""
    known = {role: name for role in roles if (name := _chosen(columns.of(role), names)) is not None}
    known |= {role: name for role in roles if (name := columns.in_training(role)) in names and name is not None}
    if "source" not in roles:  # a task with one column
        return known if "target" in known else {**known, **only_target(names)}
    open_sides = [side for side in SIDES if side in roles and columns.of(side) is None and side not in known]
    extras = [known[role] for role in roles if role not in SIDES and role in known]
    if open_sides == ["source"] and "target" not in roles:  # inputs alone
        left = [name for name in names if name not in extras]
        others = [name for name in left if not numbers_rows(name) and whole(name) not in TARGETS]
        return {**known, "source": likely_source(left) or [*others, *left, *names][0]}
    if len(open_sides) == 2:
        pairable = [name for name in names if name != known.get("context")]  # of question and answer, one may be that
        return {**known, **dict(zip(SIDES, paired(pairable) or _only_two(names, extras)))}
    for side in open_sides:
        known |= _other(side, known, names, extras)
    return known


def only_target(names: Sequence[str]) -> dict[str, str]:
    """Return the column of a task that has one: the only one, or the first of these names; nothing where it is open."""
    usual = [name for name in ONLY_TARGETS if name in names]
    return {"target": names[0] if len(names) == 1 else usual[0]} if usual or len(names) == 1 else {}


def _chosen(column: str | int | None, names: Sequence[str]) -> str | None:
    """Return the name of a chosen column, if there is such a column."""
    if isinstance(column, int):
        return names[column - 1] if column <= len(names) else None
    return column


def _only_two(names: Sequence[str], extras: Sequence[str]) -> Sequence[str]:
    """Return the two columns that no other role takes; nothing where there are more."""
    left = [name for name in names if name not in extras]
    without_numbers = [name for name in left if not numbers_rows(name)]
    return next((both for both in (left, without_numbers) if len(both) == 2), ())


def _other(side: str, known: Mapping[str, str], names: Sequence[str], extras: Sequence[str]) -> dict[str, str]:
    """Return the side that nobody chose beside the other, that somebody did: its partner by name, or the only one."""
    at, chosen = SIDES.index(side), known.get(SIDES[1 - SIDES.index(side)])
    both = paired(names)
    if both and both[1 - at] == chosen:
        return {side: both[at]}
    left = [name for name in names if name not in (*extras, chosen) and not numbers_rows(name)]
    return {side: left[0]} if len(left) == 1 else {}


NO_CONTEXT = "or, if there are no questions or other contexts, add --context none"


def check_apart(
    columns: Columns, locations: Mapping[str, str], where: str, policy: BadRowPolicy, known: str = ""
) -> None:
    """Refuse a column with two roles, unless it was chosen as both source and target."""
    taken: dict[str, str] = {}
    for role, location in locations.items():
        other = taken.setdefault(location, role)
        both_sides = (other, role) == SIDES and columns.source == columns.target and columns.source is not None
        if other != role and not both_sides:
            flags = f" with --{other} and --{role}" if policy.training else ", as in the training data"
            todo = f"give each its own column{flags}{known}"
            raise UserError(f"{other} and {role} would both be {location}", where, todo)


def beyond(role: str, column: int, width: str, where: str, policy: BadRowPolicy) -> UserError:
    """Return the error of a column number that is too large."""
    todo = f"choose another column with --{role}, or add the column"
    if not policy.training:
        todo = f"give the {role} in column {column}, as in the data that the model was trained on"
    there_are = "there is" if width.startswith("1 ") else "there are"
    return UserError(f"the {role} should be in column {column}, but {there_are} only {width}", where, todo)


def unknown(role: str, column: str, names: Sequence[str], where: str, policy: BadRowPolicy) -> UserError:
    """Return the error of a column name that is not there."""
    known = [name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…" for name in names[:30]]
    todo = did_you_mean(column, known)
    if not policy.training:
        listed = ", ".join(map(repr, known))
        todo = f"the run was trained with this column: add it, or give another one this name (there are {listed})"
    elif role == "context":
        todo += f"; {NO_CONTEXT}"
    elif where.endswith(":1"):  # a line of a table, and not the names of a Parquet file
        number = f"give a number from 1 to {len(names)}: --{role} {len(names)}"
        todo += f" (the first line of the file); without a header, {number}"
    return UserError(f"there is no column {column!r} for the {role}", where, todo)


def unclear(names: Sequence[str], missing: Sequence[str], where: str, policy: BadRowPolicy) -> UserError:
    """Return the error of fields whose names do not tell which is the source and which the target."""
    listed = ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")
    candidates = [name for name in names if not numbers_rows(name)] or names
    example = " ".join(f"--{role} {name.removeprefix('column ')}" for role, name in zip(missing, candidates))
    what = f"it is not clear which column is the {' and which the '.join(missing)}: there are {listed}"
    if not policy.training:  # where there are no flags for columns
        todo = f"name the column of the {missing[-1]} `{USUAL[missing[-1]]}` in the first line or row of the file"
        return UserError(what, where, f"{todo}, or as in the training data")
    return UserError(what, where, f"choose {'it' if len(missing) == 1 else 'them'}, for example with {example}")


def choose_fields(
    names: Sequence[str],
    leaves: Mapping[str, bool],
    columns: Columns,
    roles: Sequence[str],
    file: str,
    policy: BadRowPolicy,
) -> dict[str, str]:
    """Return the field of each role among those of a JSON object or a Parquet file: `leaves` are also those inside."""
    present = columns.present(roles)
    fields = {role: name for role in present if (name := _by_number(role, columns.of(role), names, file, policy))}
    rest = [role for role in present if role not in fields]
    fields |= {role: name for role, name in names_of_roles(list(leaves), columns, present).items() if role in rest}
    missing = [role for role in present if role not in fields]
    texts = [
        name for name, is_text in leaves.items() if is_text and not numbers_rows(name) and name not in fields.values()
    ]
    if missing and len(texts) == len(missing):
        fields |= dict(zip(missing, texts))
    elif missing and len(leaves) > 1:
        raise unclear(list(leaves), missing, file, policy)
    elif missing:
        raise beyond(missing[0], 2, "1 field", file, policy)
    fields = {role: fields[role] for role in present}
    known = f"; there are: {', '.join(leaves)}"
    check_apart(columns, {role: f"the field {field!r}" for role, field in fields.items()}, file, policy, known)
    return fields


def _by_number(
    role: str, column: str | int | None, names: Sequence[str], file: str, policy: BadRowPolicy
) -> str | None:
    """Return the field with a number; runs of an earlier Weft wrote 1 and 2 for the fields `source` and `target`."""
    if not isinstance(column, int):
        return None
    if (role, column) in (("source", 1), ("target", 2)) and role in names:
        return role
    if column > len(names):
        raise beyond(role, column, "1 field" if len(names) == 1 else f"{len(names)} fields", file, policy)
    return names[column - 1]
