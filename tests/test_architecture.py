"""The table of ranks in DESIGN §1, held against the import statements."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import weft

ROOT = Path(weft.__file__).parent
MODULES = {
    ".".join(("weft", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}
# DESIGN §1: a module may import what has a lower rank; what it may import of its own rank is said below the table.
RANKS = {
    "weft.core": 0,
    "weft.bounded_yaml": 1,
    "weft.tasks": 1,
    "weft.spec": 1,
    "weft.compatibility": 1,
    "weft.implied": 1,
    "weft.settings": 1,
    "weft.data": 1,
    "weft.score": 1,
    "weft.nn": 1,
    "weft.nn.encoders": 2,
    "weft.nn.bridge": 2,
    "weft.nn.decoders": 2,
    "weft.nn.model": 3,
    "weft.search": 3,
    "weft.learn.objectives": 3,
    "weft.learn.feeding": 3,
    "weft.nn.assemble": 4,
    "weft.learn": 5,
    "weft.choose": 5,
    "weft.runs.folder": 6,
    "weft.runs.weights": 6,
    "weft.runs.log": 6,
    "weft.predict": 6,
    "weft.look.card": 6,
    "weft.look.commands": 6,
    "weft.look.curves": 6,
    "weft.look.compared": 6,
    "weft.look.confusion": 6,
    "weft.look.roll": 6,
    "weft.look.series": 6,
    "weft.look.seen": 6,
    "weft.look.inspect": 7,  # so that `Run.inspect` can call it
    "weft.runs": 7,
    "weft.compare": 8,
    "weft.look": 8,
    "weft.serve": 8,
    "weft.export": 8,
    "weft.recipes": 8,
    "weft.api": 8,
    "weft.cli": 9,
    "weft.__main__": 9,
    "weft": 9,  # the package itself: names that are imported when they are first used
}
ONLY_CORE = ("weft.core", "weft.data", "weft.score", "weft.nn.model", "weft.search", "weft.learn.objectives")
ONLY_CORE += ("weft.learn.feeding",)
SETTINGS = ("weft.bounded_yaml", "weft.tasks", "weft.spec", "weft.compatibility", "weft.implied", "weft.settings")
OF_SETTINGS = (("weft.spec", "weft.compatibility"), ("weft.compatibility", "weft.score"))  # names of metrics
OF_RANK_8 = {"weft.serve": ("weft.look",), "weft.recipes": ("weft.look", "weft.compare")}  # and all may use api


@dataclass(frozen=True)
class Import:
    """A module that is imported, at which line, and whether that happens when the importer is."""

    name: str
    line: int
    at_once: bool


def within(module: str, *homes: str) -> bool:
    return any(module == home or module.startswith(f"{home}.") for home in homes)


def imports_of(module: str, tree: ast.Module) -> list[Import]:
    """Every import statement, those in functions too; those for type checkers alone are never at once."""
    found: list[Import] = []

    def visit(node: ast.AST, at_once: bool) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.extend(Import(name, node.lineno, at_once) for name in targets(module, node))
        lazy = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or for_types(node)
        for child in ast.iter_child_nodes(node):
            visit(child, at_once and not lazy)

    visit(tree, True)
    return found


def for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def targets(module: str, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """`from weft.nn import cells` is an import of weft.nn.cells; `from .kinds import Pair` of the sibling."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    home = node.module or ""
    if node.level:
        package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        home = ".".join([*above, *([home] if home else [])])
    for alias in node.names:
        below = f"{home}.{alias.name}"
        yield below if below in MODULES else home


TREES = {module: ast.parse(path.read_text(encoding="utf-8")) for module, path in MODULES.items()}
IMPORTS = {module: imports_of(module, tree) for module, tree in TREES.items()}


def room_of(module: str) -> str:
    """The longest name in RANKS that a module is in; nothing for a room that has no rank."""
    rooms = [room for room in RANKS if (module == room if room == "weft" else within(module, room))]
    return max(rooms, key=len, default="")


def may_import(module: str, name: str) -> bool:
    """Whether DESIGN §1 lets one module of Weft import another."""
    own, other = room_of(module), room_of(name)
    if not own or not other:
        return False
    if own == other or other == "weft.core":
        return True
    if own in ONLY_CORE:
        return False
    if own in SETTINGS:
        return other in SETTINGS[: SETTINGS.index(own)] or (own, other) in OF_SETTINGS
    if within(own, "weft.nn"):
        allowed = within(other, "weft.nn") or (own == "weft.nn.assemble" and other == "weft.spec")
        return allowed and RANKS[other] < RANKS[own]
    if RANKS[own] == RANKS[other] == 8:
        return other == "weft.api" or other in OF_RANK_8.get(own, ())
    if other == "weft":  # its version
        return RANKS[own] >= 7
    return RANKS[other] <= RANKS[own]


def weft_imports(module: str) -> list[Import]:
    return [found for found in IMPORTS[module] if within(found.name, "weft")]


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_a_rank(module: str) -> None:
    assert room_of(module) in RANKS


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_its_rank_allows(module: str) -> None:
    wrong = [
        f"{MODULES[module].relative_to(ROOT)}:{found.line} imports {found.name}"
        for found in weft_imports(module)
        if not may_import(module, found.name)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("module", "name", "allowed"),
    [
        ("weft.core.masks", "weft.core.kinds", True),
        ("weft.core.masks", "weft.data.text.tokens", False),
        ("weft.data.text.tokens", "weft.spec", False),
        ("weft.data.text.tokens", "weft.learn.loop", False),
        ("weft.score.metrics", "weft.data.pairs", False),
        ("weft.spec", "weft.settings", False),
        ("weft.settings", "weft.spec", True),
        ("weft.nn.encoders", "weft.nn.decoders.recurrent", False),
        ("weft.nn.decoders.recurrent", "weft.nn.encoders", False),
        ("weft.nn.decoders.recurrent", "weft.nn.attention", True),
        ("weft.nn.attention", "weft.nn.encoders", False),
        ("weft.nn.cells", "weft.spec", False),
        ("weft.nn.assemble", "weft.spec", True),
        ("weft.nn.model", "weft.nn.heads", False),
        ("weft.search.beam", "weft.nn.model", False),
        ("weft.learn.objectives", "weft.nn.heads", False),
        ("weft.learn.loop", "weft.nn.assemble", True),
        ("weft.learn.loop", "weft.runs.train", False),
        ("weft.choose", "weft.api", False),
        ("weft.api", "weft.cli.train", False),
        ("weft.cli.train", "weft.api", True),
    ],
)
def test_the_rule_itself_says_what_the_design_says(module: str, name: str, allowed: bool) -> None:
    assert may_import(module, name) is allowed


def test_imports_are_seen_wherever_they_stand() -> None:
    text = (
        "import weft.api\nfrom weft.nn import cells as e\nfrom .kinds import Pair\nfrom . import masks\n"
        "def f():\n    from weft.cli.main import main\n"
        "class C:\n    import weft.spec\n"
        "if TYPE_CHECKING:\n    from weft.learn import loop\n"
    )
    assert [(i.name, i.at_once) for i in imports_of("weft.core.errors", ast.parse(text))] == [
        ("weft.api", True),
        ("weft.nn.cells", True),
        ("weft.core.kinds", True),
        ("weft.core.masks", True),
        ("weft.cli.main", False),
        ("weft.spec", True),
        ("weft.learn.loop", False),
    ]


def test_every_import_of_weft_is_of_a_module_that_exists() -> None:
    missing = [(m, i.name, i.line) for m in MODULES for i in weft_imports(m) if i.name not in MODULES]
    assert missing == []


@pytest.mark.parametrize("module", [m for m in MODULES if within(m, "weft.core")])
def test_core_needs_nothing_but_the_standard_library_numpy_and_torch(module: str) -> None:
    allowed = sys.stdlib_module_names | {"numpy", "torch", "weft"}
    assert [i.name for i in IMPORTS[module] if i.name.partition(".")[0] not in allowed] == []


@pytest.mark.parametrize("module", [m for m in MODULES if within(m, "weft.data")])
def test_data_imports_torch_only_where_a_batch_is_made(module: str) -> None:
    if any(within(i.name, "torch") for i in IMPORTS[module]):
        assert any(isinstance(node, ast.Name) and node.id == "Batch" for node in ast.walk(TREES[module]))


def test_assemble_is_the_only_part_of_nn_that_knows_the_settings() -> None:
    knowing = {m for m in MODULES if within(m, "weft.nn") and any(within(i.name, "weft.spec") for i in IMPORTS[m])}
    assert knowing == {m for m in MODULES if within(m, "weft.nn.assemble")}


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a ring, or nothing."""
    done: set[str] = set()

    def walk(module: str, path: list[str]) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return []
        for below in sorted(graph.get(module, ())):
            if ring := walk(below, [*path, module]):
                return ring
        done.add(module)
        return []

    return next((ring for module in graph if (ring := walk(module, []))), [])


def test_no_modules_import_each_other_in_a_ring() -> None:
    assert cycle({m: {i.name for i in weft_imports(m) if i.at_once} for m in MODULES}) == []


def test_a_ring_of_imports_would_be_found() -> None:
    assert cycle({"a": {"b", "d"}, "b": {"c"}, "c": {"a"}, "d": set()}) == ["a", "b", "c", "a"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_the_command_line_starts_without_the_heavy_libraries() -> None:
    code = (
        "import sys, weft.cli.main\n"
        "heavy = ('torch', 'numpy', 'pydantic', 'matplotlib', 'pyarrow', 'tokenizers')\n"
        "print([n for n in heavy if n in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.strip()) == (0, "[]"), ran.stderr


@pytest.mark.parametrize("modules", ["weft.choose, weft.data.prepare, weft.settings", "weft.recipes.book"])
def test_looking_at_data_or_at_recipes_does_not_wait_for_torch(modules: str) -> None:
    code = f"import sys, {modules}\nprint([n for n in ('torch', 'matplotlib') if n in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.strip()) == (0, "[]"), ran.stderr


@pytest.mark.parametrize("module", [m for m in MODULES if not within(m, "weft.cli", "weft.runs.report")])
def test_only_the_commands_and_the_reporter_print(module: str) -> None:
    calls = [node for node in ast.walk(TREES[module]) if isinstance(node, ast.Call)]
    assert [c.lineno for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"] == []


def test_there_is_no_utils() -> None:
    assert [str(path) for path in MODULES.values() if path.stem in ("utils", "util", "helpers", "misc")] == []


def test_every_folder_is_a_package() -> None:
    folders = {path.parent for path in MODULES.values()}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []
