"""The door to the compiled code: what C would misread is handled or refused; a library of other sources is not used."""

from __future__ import annotations

import ast
import ctypes
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import weft
from weft.core import native
from weft.core.emissions import Choice
from weft.core.kinds import Batch, Memory
from weft.core.native import library
from weft.core.native.decoding import Block, Blocks, Norm, Panels, StepInputs
from weft.core.native.door import address, optional, output
from weft.core.native.recurrence import Problem
from weft.core.native.source import FOLDER, fingerprint
from weft.core.pair import PAD
from weft.core.shapes import Symbols
from weft.learn.objectives import CrossEntropy
from weft.nn import fused
from weft.nn.assemble import CELLS, assemble
from weft.nn.lstm import Lstm
from weft.nn.unroll import over_time
from weft.settings import compose, put

recurrence, pointwise, decoding = (
    import_module(f"weft.core.native.{name}") for name in ("recurrence", "pointwise", "decoding")
)
compiled = pytest.mark.skipif(native.recurrence() is None, reason=f"compiled code is {native.state()}")


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


# one door -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (torch.zeros(2, 3, dtype=torch.float64), "float64"),
        (torch.zeros(2, 3, dtype=torch.int64), "int64"),
        (torch.zeros(3, 2), r"shape \(3, 2\)"),
        (torch.zeros(6), r"shape \(6,\)"),
        (torch.zeros(3, 2).t(), r"strides \(1, 2\)"),
        (torch.zeros(2, 6)[:, ::2], r"strides \(6, 2\)"),
        (torch.zeros(1, 3).expand(2, 3), r"strides \(0, 1\)"),
        (torch.zeros(2, 3, device="meta"), "on meta"),
    ],
    ids=str,
)
def test_a_tensor_that_c_would_misread_is_refused_with_what_it_is(tensor: Tensor, reason: str) -> None:
    with pytest.raises(ValueError, match=rf"keys must be torch.float32 of shape \(2, 3\) on the CPU.*{reason}"):
        address("keys", tensor, (2, 3))


def test_a_tensor_that_fits_passes_with_its_address() -> None:
    x = torch.zeros(2, 3)
    assert address("x", x, (2, 3)) == optional("x", x, (2, 3)) == output(x) == x.data_ptr()
    assert optional("x", None, (2, 3)) is None
    view = torch.zeros(4, 5)[:, 2:]
    assert address("view", view, (4, 3), strides=(5, 1)) == view.data_ptr()
    row = torch.zeros(7, 1).t()  # the stride of a dimension with one index does not matter
    assert address("row", row, (1, 7), strides=(7, 1)) == row.data_ptr()
    with pytest.raises(ValueError, match="strides"):
        address("view", view, (4, 3), strides=(3, 1))
    with pytest.raises(ValueError, match="an output"):
        output(view)


def test_addresses_are_taken_at_the_door_only() -> None:
    root = Path(weft.__file__).parent
    callers = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "data_ptr"
    }
    assert callers == {"core/native/door.py"}


X, TRANSPOSED, IDS = torch.zeros(4, 8), torch.zeros(8, 4).t(), torch.zeros(4, dtype=torch.int64)
REFUSED: dict[str, Callable[[Any], Any]] = {
    "dropout of doubles": lambda passes: passes.dropout(X.double(), 0.5, 1, torch.float32),
    "dropout to doubles": lambda passes: passes.dropout(X, 0.5, 1, torch.float64),
    "dropout of a transposed matrix": lambda passes: passes.dropout(TRANSPOSED, 0.5, 1, torch.float32),
    "dropout added to another shape": lambda passes: passes.dropout(X, 0.5, 1, torch.float32, torch.zeros(3, 8)),
    "dropout added in half precision": lambda passes: passes.dropout(X, 0.5, 1, torch.bfloat16, X),
    "cross-entropy of doubles": lambda passes: passes.cross_entropy(X.double(), IDS, PAD, 0.0),
    "cross-entropy of a transposed matrix": lambda passes: passes.cross_entropy(TRANSPOSED, IDS, PAD, 0.0),
    "cross-entropy with too few targets": lambda passes: passes.cross_entropy(X, IDS[:3], PAD, 0.0),
    "cross-entropy with int32 targets": lambda passes: passes.cross_entropy(X, IDS.int(), PAD, 0.0),
    "cross-entropy of three dimensions": lambda passes: passes.cross_entropy(X[None], IDS, PAD, 0.0),
    "keys of fewer lines": lambda passes: passes.additive_scores(X[:, None], X[:1, None], X[0]),
    "keys of another width": lambda passes: passes.additive_scores(X[:, None], X[:, None, :4], X[0]),
    "an LSTM step with three gates": lambda passes: passes.lstm_step(X[:, :6], X[:, :6], X[:, :2]),
    "an LSTM step in half precision": lambda passes: passes.lstm_step(X, X.bfloat16(), X[:, :2]),
    "log-softmax of a transposed matrix": lambda passes: passes.log_softmax_(TRANSPOSED),
    "sums of too few rows": lambda passes: passes.top_sums(torch.zeros(2, 3), X, 3, 4, 2),
    "sums with an end that is no symbol": lambda passes: passes.top_sums(torch.zeros(2, 2), X, 8, 4, 2),
    "no sums at all": lambda passes: passes.top_sums(torch.zeros(2, 2), X, 3, 4, 0),
}  # would read or write out of bounds, or read values in another format


@compiled
@pytest.mark.parametrize("name", REFUSED)
def test_a_pass_over_values_refuses(name: str) -> None:
    with pytest.raises(ValueError, match="compiled code: "):
        REFUSED[name](native.pointwise())


# class ids ----------------------------------------------------------------------------------------------------------


@compiled
@pytest.mark.parametrize("format", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("wrong", [7, 8, 10**9, 2**40, -1, -(2**40)])
def test_a_class_id_beyond_the_vocabulary_is_an_index_error_as_in_torch(
    wrong: int, format: torch.dtype, threads: int
) -> None:
    batch = Batch.of([[5, 6]] * 3000, [[4, 5]] * 3000)
    batch.wanted.values[2000, 1] = wrong
    for logits in (torch.randn(3000, 3, 7), torch.randn(3000, 3, 7, requires_grad=True)):  # torch, and compiled
        with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
            CrossEntropy(0.1)(Choice(logits.to(format)), batch)


@compiled
def test_a_target_that_is_ignored_may_be_any_number() -> None:
    passes = native.pointwise()
    assert passes is not None
    total, gradient = passes.cross_entropy(torch.randn(2, 5), torch.tensor([-100, -100]), -100, 0.0)
    assert float(total) == 0
    assert not gradient.any()


# layouts of weights -------------------------------------------------------------------------------------------------


def transposed_in_memory(parameter: Tensor) -> nn.Parameter:
    """The same values, laid out so that they are not contiguous."""
    values = parameter.detach()
    if values.dim() > 1:
        return nn.Parameter(values.t().contiguous().t())
    return nn.Parameter(torch.stack([values, values], dim=1)[:, 0])


def outcome(cell: Any, x: Tensor) -> list[Tensor]:
    out, after = over_time(cell, x, cell.start(x.shape[0]))
    loss = out.square().sum() + sum(part.sum() for part in after)
    return [out, *torch.autograd.grad(loss, [x, *cell.parameters()])]


@compiled
@pytest.mark.parametrize("name", CELLS)
def test_weights_that_are_not_contiguous_give_the_same_result(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lstm, "faster", False)
    torch.manual_seed(1)
    cell, x = CELLS[name](5, 6), torch.randn(3, 4, 5, requires_grad=True)
    expected = outcome(cell, x)
    for path, parameter in list(cell.named_parameters()):
        *parents, last = path.split(".")
        setattr(cell.get_submodule(".".join(parents)), last, transposed_in_memory(parameter))
    assert not any(parameter.is_contiguous() for parameter in cell.parameters())
    torch.testing.assert_close(outcome(cell, x), expected, rtol=1e-5, atol=1e-5)


@compiled
@pytest.mark.parametrize("outputs", [16, 20])
def test_panels_of_a_transposed_matrix_are_those_of_the_matrix(outputs: int) -> None:
    products = native.decoding()
    assert products is not None
    weight, x = torch.randn(8, outputs).t(), torch.randn(3, 8)
    torch.testing.assert_close(products.product(x, Panels(weight, None)), x @ weight.t(), rtol=1e-5, atol=1e-5)


@compiled
def test_an_lstm_step_whose_matrix_product_is_in_half_precision_falls_back_to_torch() -> None:
    """As under autocast, if only one of the two matrices is packed."""
    cell, inputs = Lstm(6, 6), torch.randn(2, 24)
    state = torch.randn(2, 6), torch.randn(2, 6)
    with torch.no_grad():
        expected, _ = cell.step(inputs, state)
        with torch.autocast("cpu", torch.bfloat16):
            h, _ = cell.step(inputs, state)
    torch.testing.assert_close(h.float(), expected, rtol=0.05, atol=0.05)


# masks with holes ---------------------------------------------------------------------------------------------------


def model_of(settings: dict[str, Any]) -> Any:
    tree: dict[str, Any] = {"encoder": {"width": 12}, "decoder": {"width": 12}, "embed": {"width": 10}}
    for key, value in {"train.dropout": 0.0, **settings}.items():
        put(tree, key, value)
    torch.manual_seed(5)
    model = assemble(compose(("flag", tree)).spec, Symbols(14), Symbols(14))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


MASK = torch.tensor([[1, 0, 1, 1, 0, 1], [0, 1, 0, 1, 0, 0], [1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1]], dtype=torch.bool)


@compiled
@pytest.mark.parametrize("located", [False, True], ids=["", "location-aware"])
@pytest.mark.parametrize("score", ["dot", "scaled", "scaled-width", "bilinear", "additive", "concat"])
def test_holes_in_the_mask_are_not_attended_to(score: str, located: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    attention = "decoder.attention"
    model = model_of({f"{attention}.score": score, f"{attention}.location_aware": located})
    batch = Batch.of([[5, 6, 7, 8, 9]] * 4, [[5, 6, 7], [8], [9, 10, 4, 5, 6], [5]])
    states = torch.randn(4, 6, 12, requires_grad=True)

    def decoded() -> list[Tensor]:
        memory = Memory(states, MASK, (states[:, 0],), batch.source.values)
        out = model.decoder.unroll(model.target_reader(batch.given.values), model.decoder.start(memory))
        used = [*model.target_reader.parameters(), *model.decoder.parameters()]
        return [out, *torch.autograd.grad(out.square().sum(), [states, *used])]

    ours = decoded()
    monkeypatch.setattr(fused, "available", lambda x: False)
    torch.testing.assert_close(ours, decoded(), rtol=1e-4, atol=1e-4)


# a decoder's step ---------------------------------------------------------------------------------------------------

WIDTH, ROWS, SOURCE = 8, 3, 5


def blocks_of(width: int = WIDTH, heads: int = 2) -> Blocks:
    def panels(outputs: int, inputs: int) -> Panels:
        return Panels(torch.randn(outputs, inputs), torch.randn(outputs))

    linears = [panels(3 * width, width), *(panels(width, width) for _ in range(3)), panels(20, width)]
    norm = Norm(torch.ones(width), torch.zeros(width))
    return Blocks([Block([*linears, panels(width, 20)], [norm] * 3)], None, heads, norm_first=True, epsilon=1e-5)


def inputs_of(**changes: Any) -> StepInputs:
    keys = torch.randn(ROWS, 2, SOURCE, 4)
    fields: dict[str, Any] = {
        "source": [(keys, keys)],
        "mask": torch.ones(ROWS, 1, 1, SOURCE, dtype=torch.bool),
        "line_of": None,
        "rows_per_line": 1,
        "cache": torch.zeros(4, ROWS, 2 * WIDTH),
        "length": 2,
        "row_of": torch.tensor([[0, 2, 1], [0, 1, 2]]),
    }
    return StepInputs(**{**fields, **changes})


WRONG_STEPS: dict[str, dict[str, Any]] = {
    "keys for two blocks": {"source": [(torch.zeros(ROWS, 2, SOURCE, 4),) * 2] * 2},
    "values shorter than keys": {"source": [(torch.zeros(ROWS, 2, SOURCE, 4), torch.zeros(ROWS, 2, 4, 4))]},
    "values laid out otherwise": {
        "source": [(torch.zeros(ROWS, 2, SOURCE, 4), torch.zeros(ROWS, SOURCE, 2, 4).transpose(1, 2))]
    },
    "keys that are not contiguous in a head": {"source": [(torch.zeros(ROWS, 2, 4, SOURCE).transpose(2, 3),) * 2]},
    "a mask of bytes": {"mask": torch.ones(ROWS, 1, 1, SOURCE, dtype=torch.uint8)},
    "a mask of another length": {"mask": torch.ones(ROWS, 1, 1, SOURCE - 1, dtype=torch.bool)},
    "rows that no line has": {"rows_per_line": 2},
    "lines in int32": {"line_of": torch.zeros(ROWS, dtype=torch.int32)},
    "a cache that is full": {"length": 5, "row_of": torch.zeros(5, ROWS, dtype=torch.int64)},
    "a cache with fewer rows": {"cache": torch.zeros(4, ROWS - 1, 2 * WIDTH)},
    "a cache for two blocks": {"cache": torch.zeros(4, ROWS, 4 * WIDTH)},
    "rows of the cache for another length": {"row_of": torch.zeros(3, ROWS, dtype=torch.int64)},
    "a rotation of the whole head": {"rotation": (torch.zeros(1, 4), torch.zeros(1, 4))},
    "a bias of another length": {"bias": torch.zeros(2, 1, 3)},
}


@compiled
@pytest.mark.parametrize("name", WRONG_STEPS)
def test_a_decoder_step_refuses(name: str) -> None:
    step = native.decoding()
    assert step is not None
    with pytest.raises(ValueError, match="compiled code: "):
        step.step(torch.zeros(ROWS, WIDTH), blocks_of(), inputs_of(**WRONG_STEPS[name]))


@compiled
@pytest.mark.parametrize("x", [torch.zeros(ROWS, WIDTH).double(), torch.zeros(ROWS, WIDTH + 1)], ids=["dtype", "width"])
def test_a_decoder_step_refuses_an_input_of_another(x: Tensor) -> None:
    step = native.decoding()
    assert step is not None
    with pytest.raises(ValueError, match="compiled code: x must be"):
        step.step(x, blocks_of(), inputs_of())


@compiled
@pytest.mark.parametrize("wrong", [ROWS, -1, 2**40])
@pytest.mark.parametrize("name", ["line_of", "row_of"])
def test_a_decoder_step_refuses_an_index_out_of_range(name: str, wrong: int, threads: int) -> None:
    step = native.decoding()
    assert step is not None
    right = {"line_of": torch.tensor([2, 0, 1]), "row_of": torch.tensor([[0, 2, 1], [0, 1, 2]])}
    assert step.step(torch.zeros(ROWS, WIDTH), blocks_of(), inputs_of(**right)).isfinite().all()
    right[name].view(-1)[1] = wrong
    with pytest.raises(IndexError, match=name):
        step.step(torch.zeros(ROWS, WIDTH), blocks_of(), inputs_of(**right))


@compiled
def test_blocks_whose_matrices_do_not_fit_are_refused() -> None:
    square, norm = Panels(torch.zeros(8, 8), None), Norm(torch.ones(8), torch.zeros(8))
    with pytest.raises(ValueError, match="the matrices of a block must be"):
        Blocks([Block([square] * 6, [norm] * 3)], None, 2, norm_first=True, epsilon=1e-5)
    with pytest.raises(ValueError, match="3 heads do not divide the width 8"):
        blocks_of(heads=3)


# a recurrence -------------------------------------------------------------------------------------------------------


@compiled
@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("score", recurrence.SCORES)
@pytest.mark.parametrize("cell", recurrence.CELLS)
def test_a_recurrence_refuses_every_array_that_is_missing_or_wrong(cell: str, score: str, backward: bool) -> None:
    unrolled = native.recurrence()
    assert unrolled is not None
    problem = Problem(cell, 3, 2, 4, score, 5, 4, 6, 6) if score != "none" else Problem(cell, 3, 2, 4)
    names = recurrence.arrays_of(cell, score, score != "none", backward)
    arrays = {n: torch.zeros(problem.shapes()[n], dtype=recurrence.DTYPES[n]) for n in names}
    call = unrolled.backward if backward else unrolled.forward
    call(problem, arrays)
    for name in names:
        array = arrays[name]
        for wrong in (array.to(torch.float16), array[:-1], array[..., None], array.to("meta")):
            with pytest.raises(ValueError, match=f"{name} must be"):
                call(problem, {**arrays, name: wrong})
        if name not in ("location",):
            with pytest.raises(ValueError, match=f"needs the array {name}"):
                call(problem, {**arrays, name: None})


def test_dot_products_need_keys_as_wide_as_the_state() -> None:
    unrolled = native.recurrence()
    if unrolled is not None:
        with pytest.raises(ValueError, match="keys of its width 4, not 5"):
            unrolled.forward(Problem("gru", 3, 2, 4, "dot", 5, 5), {})


# the library and its sources ----------------------------------------------------------------------------------------


@pytest.fixture
def _loaded_anew() -> Iterator[None]:
    """The library is loaded again inside the test, and again after it."""
    caches = (library._attempt, native.recurrence, native.pointwise, native.decoding)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


def nothing_is_used() -> bool:
    return (native.recurrence(), native.pointwise(), native.decoding()) == (None, None, None)


@compiled
def test_a_library_that_was_built_from_these_sources_is_used() -> None:
    assert native.state() == "used"


@compiled
@pytest.mark.usefixtures("_loaded_anew")
def test_a_library_of_other_sources_is_not_used_and_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(library, "fingerprint", lambda: "source_of_tomorrow")
    with caplog.at_level(logging.DEBUG, "weft"):
        assert nothing_is_used()
    (record,) = caplog.records
    assert "was built from other sources" in record.message
    assert "setup.py build_ext" in record.message
    assert native.state().startswith("not used: ")


@compiled
@pytest.mark.usefixtures("_loaded_anew")
def test_a_library_without_a_fingerprint_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_NATIVE_LIBRARY", str(library._torch_library()))
    assert nothing_is_used()
    assert "was built from other sources" in native.state()


@compiled
@pytest.mark.usefixtures("_loaded_anew")
def test_where_the_sources_are_not_installed_the_library_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "fingerprint", lambda: "")
    assert native.state() == "used"


@pytest.mark.parametrize("name", ["common.h", "pointwise.c"])
def test_a_change_of_any_c_file_changes_the_fingerprint(name: str, tmp_path: Path) -> None:
    for path in [*FOLDER.glob("*.c"), *FOLDER.glob("*.h")]:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert fingerprint(tmp_path) == fingerprint()
    (tmp_path / name).write_text((tmp_path / name).read_text() + "\n")
    assert fingerprint(tmp_path) != fingerprint()
    assert fingerprint(tmp_path / "nowhere") == ""


@pytest.mark.usefixtures("_loaded_anew")
def test_without_a_library_there_is_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WEFT_NATIVE", "WEFT_NATIVE_LIBRARY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    assert nothing_is_used()
    assert "it was not built" in native.state()


@pytest.mark.usefixtures("_loaded_anew")
def test_a_file_that_is_no_library_leaves_plain_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "broken.so").write_bytes(b"no library")
    monkeypatch.delenv("WEFT_NATIVE", raising=False)
    monkeypatch.setenv("WEFT_NATIVE_LIBRARY", str(tmp_path / "broken.so"))
    assert nothing_is_used()
    assert "it cannot be loaded" in native.state()


@pytest.mark.parametrize(
    ("platform", "name"), [("linux", "libtorch_cpu.so"), ("darwin", "libtorch_cpu.dylib"), ("win32", "torch_cpu.dll")]
)
def test_torchs_library_has_the_name_of_the_platform(platform: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert library._torch_library().name == name


@compiled
@pytest.mark.usefixtures("_loaded_anew")
@pytest.mark.parametrize("missing", ["sgemm_", "GOMP_parallel", "GOMP_barrier"])
def test_what_torch_does_not_have_is_done_without_and_logged(
    missing: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = library._address
    monkeypatch.setattr(library, "_address", lambda handle, name: None if name == missing else found(handle, name))
    with caplog.at_level(logging.DEBUG, "weft"):
        assert (native.recurrence() is None) == (missing == "sgemm_")
    assert missing in caplog.text
    passes, loaded = native.pointwise(), library.load()
    assert passes is not None
    assert loaded is not None
    assert (loaded.functions["parallel"] is None) == missing.startswith("GOMP")
    torch.testing.assert_close(passes.log_softmax_(torch.ones(300, 200)), torch.log_softmax(torch.ones(300, 200), -1))


def test_the_log_is_shown_with_debug_and_only_then(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("abc\tcba\nabd\tdba\n" * 10, encoding="utf-8")
    command = [sys.executable, "-m", "weft", "train", "pairs.tsv", "--steps", "1", "--out"]
    env = {**os.environ, "WEFT_NATIVE": "0", "WEFT_CACHE": str(tmp_path / "cache")}
    for more, shown in (([], False), (["--debug"], True)):
        run = [*command, f"run{len(more)}", *more]
        done = subprocess.run(run, env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert ("compiled code is not used" in done.stderr) is shown, done.stderr


# structs ------------------------------------------------------------------------------------------------------------

TEAM_FIELDS = list(library.TEAM)


def fields_in_c(text: str, name: str) -> list[str]:
    """The names of a struct's fields in order, those of a Team one by one."""
    (body,) = re.findall(r"typedef struct \{([^{}]*)\} " + name + ";", text)
    fields: list[str] = []
    for declaration in re.sub(r"/\*.*?\*/", "", body, flags=re.S).split(";"):
        names = re.findall(r"(\w+)\)?\s*(?:\(void\))?\s*(?:,|$)", declaration.strip())
        fields += TEAM_FIELDS if names == ["team"] else names
    return fields


JOBS = [
    ("recurrence.c", "Job", recurrence._Job),
    *(
        ("pointwise.c", job.__name__[1:], job)
        for job in vars(pointwise).values()
        if isinstance(job, type(recurrence._Job))
    ),
    *(
        ("decoding.c", job.__name__[1:], job)
        for job in vars(decoding).values()
        if isinstance(job, type(recurrence._Job))
    ),
]


@pytest.mark.parametrize(("file", "name", "job"), JOBS, ids=[name for _, name, _ in JOBS])
def test_a_struct_has_the_same_fields_in_c_and_in_python(file: str, name: str, job: type[ctypes.Structure]) -> None:
    text = (FOLDER / file).read_text(encoding="utf-8")
    assert fields_in_c(text, name) == [field[0] for field in job._fields_]


@pytest.mark.parametrize("names", ["CELLS", "SCORES"])
def test_cells_and_scores_are_numbered_alike_in_c_and_in_python(names: str) -> None:
    text = (FOLDER / "recurrence.c").read_text(encoding="utf-8")
    enums = [[one.strip() for one in found.split(",")] for found in re.findall(r"enum \{([A-Z_0-9, ]+)\}", text)]
    ours = [name.upper().replace("-", "_") for name in getattr(recurrence, names)]
    assert ["NO_SCORE" if name == "NONE" else name for name in ours] in enums
