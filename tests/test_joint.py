"""CTC beside attention: prefix scores against enumeration, training, joint decoding, refusals."""

# B lines · S frames · V symbols

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import weft as package
from weft.compatibility import check
from weft.core.kinds import Batch
from weft.core.pair import END
from weft.core.shapes import Symbols
from weft.learn.backward import Backward
from weft.learn.objectives import CrossEntropy, Ctc, CtcBeside
from weft.nn.assemble import assemble
from weft.runs.report import Quiet
from weft.search.ctc import scored
from weft.search.decode import SearchPlan, decode
from weft.search.ensemble import Ensemble
from weft.search.joint import Prefixes
from weft.spec import Spec

CPU = torch.device("cpu")
SMALL: dict[str, Any] = {"encoder.width": 16, "embed.width": 16, "decoder.width": 16, "objective.ctc_share": 0.3}
SOURCES = [[5, 6, 7, 8, 9, 4], [4, 5], [9, 9, 9, 8, 7, 6, 5, 4]]


def some_frames(lengths: list[int], symbols: int = 7) -> tuple[Tensor, Tensor]:
    torch.manual_seed(3)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return torch.randn(len(lengths), max(lengths), symbols).log_softmax(-1), mask


def small_model(seed: int = 1) -> Any:
    torch.manual_seed(seed)
    return assemble(_spec(SMALL), Symbols(12), Symbols(12)).eval()


def _spec(settings: dict[str, Any]) -> Spec:
    tree: dict[str, Any] = {"encoder": {"kind": "recurrent"}, "decoder": {"kind": "recurrent"}}
    for key, value in settings.items():
        part, name = key.split(".")
        tree.setdefault(part, {})[name] = value
    return Spec.model_validate(tree)


def test_prefix_scores_are_the_chain_of_what_ctc_says_of_an_output() -> None:
    log_probs, mask = some_frames([4, 2])
    for row, length in enumerate([4, 2]):
        frames = log_probs[row, :length].double().numpy()
        for ids in itertools.chain.from_iterable(itertools.product((4, 5, 6), repeat=n) for n in range(4)):
            expected, prefixes, chain = scored(frames, ids), Prefixes.empty(log_probs, mask), []
            for symbol in (*ids, END):
                chain.append(float(prefixes.next()[row, symbol]))
                prefixes = prefixes.extended(torch.tensor([symbol, symbol]))
            if expected.score > -math.inf:
                assert chain == pytest.approx(expected.token_scores, abs=1e-9)
            else:
                assert min(chain) == -1e4


def test_prefix_scores_do_not_depend_on_padding() -> None:
    log_probs, mask = some_frames([3, 6])
    together = Prefixes.empty(log_probs, mask).extended(torch.tensor([4, 4])).next()[0]
    alone = Prefixes.empty(log_probs[:1, :3], mask[:1, :3]).extended(torch.tensor([4])).next()[0]
    assert torch.equal(together, alone)


@pytest.mark.parametrize("kind", ["greedy", "beam"])
def test_joint_decoding_does_not_depend_on_the_other_lines(kind: str) -> None:
    model, plan = small_model(), SearchPlan(kind=kind, ctc_weight=0.4)
    together = decode(model, SOURCES, plan, CPU)
    for source, found in zip(SOURCES, together):
        (alone,) = decode(model, [source], plan, CPU)
        assert alone[0].ids == found[0].ids
        assert alone[0].token_scores == pytest.approx(found[0].token_scores, abs=1e-5)


def test_scores_combine_decoder_and_ctc_by_the_weight() -> None:
    model = small_model()
    (found,) = decode(model, SOURCES[:1], SearchPlan(kind="beam", ctc_weight=0.4), CPU)[0]
    batch = Batch.of(SOURCES[:1], [list(found.ids)])
    with torch.inference_mode():
        emission = model(batch)
    written = (-emission.nll(batch.wanted))[0].tolist()
    aligned = scored(emission.frames.log_probs[0].double().numpy(), found.ids).token_scores
    expected = 0.6 * np.array(written) + 0.4 * np.maximum(aligned, -1e4)
    assert found.token_scores == pytest.approx(expected, abs=1e-4)


def test_weight_zero_and_sampling_use_the_decoder_alone() -> None:
    model = small_model()
    zero, one = (decode(model, SOURCES, SearchPlan(kind="greedy", ctc_weight=w), CPU) for w in (0.0, 1.0))
    assert [each[0].token_scores for each in zero] != [each[0].token_scores for each in one]
    samples = [decode(model, SOURCES, SearchPlan(kind="sample", ctc_weight=w), CPU) for w in (0.0, 0.9)]
    assert samples[0] == samples[1]


def test_an_ensemble_decodes_jointly() -> None:
    models = [small_model(1), small_model(1)]
    plan, rows = SearchPlan(ctc_weight=0.4), [(source, source) for source in SOURCES]
    alone, both = decode(models[0], SOURCES, plan, CPU), decode(Ensemble(models), rows, plan, CPU)
    assert [each[0].ids for each in both] == [each[0].ids for each in alone]
    assert both[0][0].score == pytest.approx(alone[0][0].score, abs=1e-4)


def test_the_loss_is_shared_and_every_parameter_gets_a_gradient() -> None:
    model = small_model().train()
    batch = Batch.of(SOURCES, [[4, 5], [6], [7, 7, 8]])
    emission, count = model(batch), batch.wanted.mask.sum()
    parts = CrossEntropy(0.1)(emission, batch).total, Ctc()(emission.frames, batch).total
    loss = CtcBeside(0.1, 0.3)(emission, batch)
    assert loss.total.item() == pytest.approx((0.7 * parts[0] + 0.3 * parts[1]).item(), rel=1e-5)
    assert int(loss.count) == int(count)
    Backward(model, CtcBeside(0.1, 0.3), "float32", CPU)(batch, count)
    assert not [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]


def test_a_run_that_is_loaded_predicts_the_same(tiny_pairs: Path, tmp_path: Path) -> None:
    whole = package.train(tiny_pairs, out=tmp_path / "whole", steps=4, settings=SMALL, reporter=Quiet())
    again = package.load(tmp_path / "whole")
    assert [p.text for p in again.predict(["ab", "ba"])] == [p.text for p in whole.predict(["ab", "ba"])]


REFUSED = [
    ({"objective.ctc_share": 0.0, "search.ctc_weight": 0.5}, "search.ctc_weight has no effect"),
    ({"head.kind": "copy"}, "head.kind=copy"),
    ({"encoder.reverse": True}, "encoder.reverse=true"),
    ({"decoder.reverse": True}, "decoder.reverse=true"),
    ({"data.context": 3}, "data.context=3"),
    ({"train.reversed_members": True, "train.members": 2}, "train.reversed_members=true"),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED)
def test_what_makes_no_sense_with_ctc_beside_attention_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check(_spec({**SMALL, **settings}))
