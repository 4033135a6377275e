"""What differs on a GPU: the matrix speed, the random states, and float64, which MPS does not have.

Limits: there is no GPU here. The functions of torch that speak to one are replaced, and torch's "meta" device, which
computes nothing, stands in for it.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import weft
from weft.core import machine
from weft.core.shapes import Symbols
from weft.learn import effort, optimise
from weft.learn.snapshot import random_state, restore_random_state
from weft.nn.assemble import assemble
from weft.runs import job
from weft.settings import compose

ROOT = Path(weft.__file__).parent
MPS = torch.device("mps")


@pytest.fixture
def mps_state(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The random state of an MPS device, as the only item."""
    state = [torch.arange(20, dtype=torch.uint8)]
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: state[0].clone())
    monkeypatch.setattr(torch.mps, "set_rng_state", lambda new: state.__setitem__(0, new.clone()))
    return state


def test_the_random_state_of_mps_is_saved_and_restored(mps_state: list[Tensor]) -> None:
    saved = random_state(MPS)
    drawn, before = torch.rand(3), mps_state[0]
    mps_state[0] = before + 1
    restore_random_state(saved, MPS)
    assert torch.equal(mps_state[0], before)
    assert torch.equal(torch.rand(3), drawn)


def test_the_random_state_of_another_device_is_ignored(mps_state: list[Tensor]) -> None:
    of_cpu, drawn, before = random_state(torch.device("cpu")), torch.rand(3), mps_state[0].clone()
    restore_random_state(of_cpu, MPS)
    assert torch.equal(mps_state[0], before)
    assert torch.equal(torch.rand(3), drawn)
    of_mps, drawn = random_state(MPS), torch.rand(3)
    restore_random_state(of_mps, torch.device("cpu"))
    assert torch.equal(torch.rand(3), drawn)


def calls(path: Path, name: str) -> list[ast.Call]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [n for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == name]


def test_tensors_are_made_float64_on_the_cpu_only() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in ROOT.rglob("*.py")
        for call in calls(path, "double")
        if not ast.unparse(call.func).endswith(".cpu().double")
    ]
    text = "".join(path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py"))
    assert wrong == []
    assert "torch.float64" not in text
    assert "torch.double" not in text


def test_random_noise_reaches_the_device_in_its_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.search.sample import draws

    real, moved = torch.Tensor.to, []

    def to(x: Tensor, *where: Any, **more: Any) -> Tensor:
        moved.append((x.dtype, where))
        return real(x, *where, **more)

    monkeypatch.setattr(torch.Tensor, "to", to)
    draws(1, [0, 1], 0, 1.0, 0, 1.0)(torch.zeros(2, 5), [0, 1])
    assert all(dtype == torch.float32 for dtype, where in moved if isinstance(where[0], torch.device | Tensor))
    assert any(isinstance(where[0], torch.device) for _, where in moved)


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where the matrices were that were multiplied."""
    seen: list[str] = []
    real = torch.mm
    monkeypatch.setattr(torch, "mm", lambda a, b: seen.append(a.device.type) or real(a, b))
    machine.matrix_speed.cache_clear()
    return seen


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_matrix_speed_is_that_of_the_device(device: str, devices: list[str]) -> None:
    speed = machine.matrix_speed(device)
    assert set(devices) == {device}
    assert min(speed.float32, speed.bfloat16, speed.one_core) > 0
    if device != "cpu":
        assert (speed.cores, speed.one_core) == (1, speed.float32)


def test_a_device_without_bfloat16_has_no_speed_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch.ones

    def ones(*size: int, dtype: torch.dtype, device: str) -> Tensor:
        if dtype == torch.bfloat16:
            raise TypeError("BFloat16 is not supported on MPS")
        return real(*size, dtype=dtype, device=device)

    monkeypatch.setattr(torch, "ones", ones)
    machine.matrix_speed.cache_clear()
    speed = machine.matrix_speed("meta")
    assert speed.float32 > 0
    assert speed.halved == 0


def test_a_gpu_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[str] = []
    monkeypatch.setattr(torch.mps, "synchronize", lambda: waited.append("mps"))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append("cuda"))
    for device in ("cpu", "mps", "cuda"):
        machine._synchronise(device)
    assert waited == ["mps", "cuda"]


def test_training_is_measured_against_the_device_that_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    speed = machine.Speed(1e12, 2e12, 1e12, 1)
    for module in (effort, job):
        monkeypatch.setattr(module, "matrix_speed", lambda device: asked.append(device) or speed)
    spec = compose(("flag", {"train": {"budget_seconds": 60.0}})).spec
    model = assemble(spec, Symbols(20), Symbols(20))
    assert effort.Effort(model.to("meta"), "float32").most == 1e12
    monkeypatch.setattr(job, "pick_device", lambda name: MPS)
    assert job.speed_for(spec) == speed
    assert asked == ["meta", "mps"]


@pytest.mark.parametrize(("device", "fused"), [("cpu", True), ("meta", True), ("mps", False)])
def test_adamw_is_fused_where_every_torch_can(device: str, fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[bool] = []
    monkeypatch.setattr(torch.optim, "AdamW", lambda groups, betas, fused: chosen.append(fused))
    model: Any = assemble(compose(("flag", {})).spec, Symbols(20), Symbols(20))
    if device == "mps":

        class OnMps:
            device, dim = MPS, staticmethod(lambda: 2)

        model = type("Model", (), {"modules": lambda self: [], "parameters": lambda self: [OnMps()]})()
    else:
        model = model.to(device)
    optimise.adamw(model, 0.0, 1.0)
    assert chosen == [fused]
