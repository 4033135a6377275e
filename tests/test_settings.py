"""Settings: every mistake is told with its key and the way out, and everyone can see where a value came from."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from weft.core.errors import UserError, did_you_mean
from weft.learn.budget import Budget, parse_seconds, rate_at
from weft.runs.folder import FORMAT, RunFolder, differences
from weft.runs.job import named_files
from weft.settings import Composed, Layer, compose, flatten, implied_kind, merge, put, read_file, read_overrides
from weft.spec import Side, Spec, TransformerDecoder, TransformerEncoder
from weft.tasks import TASKS

TRANSFORMER = ["encoder.kind=transformer", "decoder.kind=transformer", "embed.positions=sinusoid"]


def made(*overrides: str) -> Spec:
    return compose(("flag", read_overrides(overrides))).spec


def complaint(*overrides: str) -> UserError:
    with pytest.raises(UserError) as caught:
        made(*overrides)
    return whole(caught.value)


def whole(error: UserError) -> UserError:
    assert error.what
    assert error.where
    assert error.todo
    assert error.exit_code == 2
    return error


# unknown keys and names ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "hint"), [
    ("decoder.cel", "did you mean 'cell'?"),
    ("decoder.widht", "did you mean 'width'?"),
    ("decoder.attention.scor", "did you mean 'score'?"),
    ("train.batch_token", "did you mean 'batch_tokens'"),
    ("encoder.direction", "did you mean 'directions'?"),
    ("serach.width", "did you mean 'search'"),
    ("bridge.knd", "did you mean 'kind'?"),
])  # fmt: skip
def test_an_unknown_key_is_told_with_the_nearest_ones(key: str, hint: str) -> None:
    error = complaint(f"{key}=1")
    named = key if key.partition(".")[0] in Spec.model_fields else key.partition(".")[0]
    assert error.what.startswith(f"{named}: there is no such setting")
    assert hint in error.what
    assert "hoose from: " in error.what
    assert key in error.where
    assert "(from flag)" in error.where
    assert "weft config show" in error.todo


def test_an_unknown_key_of_a_transformer_shows_the_transformers_keys() -> None:
    error = complaint(*TRANSFORMER, "encoder.head=2")
    assert "did you mean 'heads'?" in error.what
    assert "directions" not in error.what


def test_a_setting_of_another_family_is_told_as_such() -> None:
    told = complaint(*TRANSFORMER, "decoder.cell=gru")
    assert told.what == "decoder.cell belongs to decoder.kind=recurrent, but this is decoder.kind=transformer"
    assert (
        "belongs to a decoder, but this run has none" in complaint("head.kind=ctc", "decoder.attention.score=dot").what
    )


def test_a_clash_does_not_name_what_nobody_gave() -> None:
    told = complaint("task=retrieve", "train.budget_seconds=20", "train.steps=5")
    assert told.where == "settings train.budget_seconds (from flag), train.steps (from flag)"


def test_a_clash_names_who_said_what_it_is_about_and_nothing_else() -> None:
    told = complaint("train.batch_tokens=300", "head.kind=ctc", "feeding.kind=scheduled", "train.evaluations=1")
    assert told.what.startswith("feeding has no effect with head.kind=ctc")
    assert told.where == "settings head.kind (from flag), feeding.kind (from flag)"


@pytest.mark.parametrize(("key", "name", "near"), [
    ("decoder.cell", "lsmt", "lstm"),
    ("encoder.cell", "elmann", "elman"),
    ("decoder.attention.score", "aditive", "additive"),
    ("embed.positions", "sinusiod", "sinusoid"),
    ("bridge.kind", "project", "projected"),
    ("bridge.give", "evry", "every"),
    ("source.tokens", "character", "characters"),
    ("train.select", "bleuu", "bleu"),
    ("train.schedule", "cosin", "cosine"),
    ("train.device", "cpuu", "cpu"),
    ("train.precision", "bfloat", "bfloat16"),
    ("search.kind", "beem", "beam"),
    ("encoder.kind", "recurent", "recurrent"),
    ("decoder.kind", "transfomer", "transformer"),
    ("encoder.directions", "bothe", "both"),
    ("data.on_bad_line", "skp", "skip"),
])  # fmt: skip
def test_a_misspelt_name_is_told_with_the_nearest_ones(key: str, name: str, near: str) -> None:
    error = complaint(f"{key}={name}")
    assert error.what.startswith(f"{key}: '{name}' is not known; did you mean '{near}'")
    assert "hoose from: " in error.what
    assert error.where == f"setting {key} (from flag)"


def test_the_message_of_the_design_is_said_word_for_word() -> None:
    said = "decoder.cell: 'lsmt' is not known; did you mean 'lstm'? Choose from: elman, lstm, "
    assert complaint("decoder.cell=lsmt").what.startswith(said)


def test_a_name_like_no_other_shows_what_is_known() -> None:
    assert did_you_mean("zzzz", ["lstm", "gru"]) == "choose from: lstm, gru"


# wrong values --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("override", "said"), [
    ("decoder.width=wide", "a whole number"),
    ("decoder.width=0", "at least 1"),
    ("decoder.width=-4", "at least 1"),
    ("decoder.width=2.5", "a whole number"),
    ("train.rate=0", "greater than 0"),
    ("train.rate=11", "less than 10"),
    ("train.rate=fast", "a number"),
    ("train.rate=.nan", "a finite number"),
    ("train.dropout=1", "less than 1"),
    ("train.dropout=-0.1", "at least 0"),
    ("train.batch_tokens=8", "at least 16"),
    ("train.budget_seconds=-1", "greater than 0"),
    ("train.steps=0", "at least 1"),
    ("train.epochs=0", "greater than 0"),
    ("train.seed=-1", "at least 0"),
    ("head.tied=maybe", "true or false"),
    ("source.size=10", "at least 300"),
    ("search.top_p=1.5", "at most 1"),
    ("search.width=0", "at least 1"),
    ("data.hold_out=1", "less than 1"),
])  # fmt: skip
def test_a_wrong_value_is_told_with_its_key_and_itself(override: str, said: str) -> None:
    key, _, value = override.partition("=")
    error = complaint(override)
    assert error.what.startswith(f"{key} must be {said}, but it is ")
    assert f"but it is {read_value(value)!r}" in error.what
    assert error.where == f"setting {key} (from flag)"


def read_value(text: str) -> Any:
    return dict(flatten(read_overrides([f"a={text}"])))["a"]


@pytest.mark.parametrize("key", [
    "train.budget_seconds", "train.epochs", "train.clip", "train.weight_decay", "search.temperature",
    "search.max_ratio",
])  # fmt: skip
@pytest.mark.parametrize("value", ["nan", ".inf", "-.inf", "1e999"])
def test_a_number_that_is_none_is_refused(key: str, value: str) -> None:
    assert complaint(f"{key}={value}").what.startswith(f"{key} must be ")


@pytest.mark.parametrize("override", ["decoder=5", "train=5", "source=characters", "decoder.attention=additive"])
def test_a_value_in_the_place_of_a_branch_is_an_error_in_three_parts(override: str) -> None:
    assert complaint(override).what.startswith(override.partition("=")[0])


# settings that do not go together -------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_heads_that_do_not_divide_the_width_are_refused_with_those_that_do(side: str) -> None:
    error = complaint(*TRANSFORMER, f"{side}.width=66", f"{side}.heads=4")
    assert error.what == f"{side}: width=66 cannot be divided by heads=4"
    assert error.todo == "choose heads that divide the width, such as 1, 2"
    assert f"{side}.heads (from flag)" in error.where


def test_an_odd_width_cannot_be_halved_between_two_directions() -> None:
    error = complaint("encoder.width=33")
    assert error.what == "encoder.width=33 is odd, but encoder.directions=both gives each direction half"
    assert error.todo == "choose an even width or encoder.directions=forward"
    assert made("encoder.width=33", "encoder.directions=forward").encoder.width == 33


@pytest.mark.parametrize("bridge", ["bridge.kind=zeros", "bridge.give=none"])
def test_a_decoder_that_cannot_see_the_source_is_refused(bridge: str) -> None:
    error = complaint("decoder.attention.score=none", bridge)
    assert "gives the decoder no access to the source" in error.what
    assert bridge in error.what
    assert error.todo == "choose an attention score or another bridge"
    assert made(bridge)  # with attention it sees the source
    assert made("decoder.attention.score=none")  # with a bridge too


def test_a_bridge_of_zeros_has_nothing_to_give_at_every_step() -> None:
    error = complaint("bridge.kind=zeros", "bridge.give=every")
    assert error.what == "bridge.give=every has no effect with bridge.kind=zeros"
    assert error.todo == "choose another bridge.kind, or leave bridge.give out"
    assert made("bridge.kind=zeros")


@pytest.mark.parametrize("kind", ["last", "mean"])
def test_a_state_handed_over_as_it_is_needs_equal_widths(kind: str) -> None:
    error = complaint(f"bridge.kind={kind}", "encoder.width=64", "decoder.width=32")
    assert error.what == (
        f"bridge.kind={kind} passes the encoder's state on unchanged, but encoder.width=64 and decoder.width=32"
    )
    assert error.todo == "make them equal or set bridge.kind=projected"
    assert made("bridge.kind=projected", "encoder.width=64", "decoder.width=32")


@pytest.mark.parametrize("score", ["dot", "scaled", "scaled-width", "rbf", "cosine"])
def test_a_score_without_weights_needs_equal_widths(score: str) -> None:
    widths = "encoder.width=64", "decoder.width=32"
    error = complaint(f"decoder.attention.score={score}", *widths)
    assert error.what.startswith(f"decoder.attention.score={score} compares states as they are")
    assert error.todo == "make them equal, set decoder.attention.project=linear, or use bilinear or additive"
    assert made(f"decoder.attention.score={score}", "decoder.attention.project=linear", *widths)
    assert made("decoder.attention.score=bilinear", *widths)


def test_attention_that_moves_on_needs_its_context_fed() -> None:
    error = complaint("decoder.attention.location_aware=true", "decoder.attention.feed=false")
    assert "all steps are computed at once" in error.what
    assert "decoder.attention.feed=true" in error.todo
    assert made("decoder.attention.location_aware=true")


@pytest.mark.parametrize("bridge", ["bridge.kind=last", "bridge.give=every"])
def test_a_bridge_to_a_transformer_is_refused(bridge: str) -> None:
    error = complaint(*TRANSFORMER, bridge)
    assert error.what.startswith("bridge has no effect with decoder.kind=transformer")
    assert error.todo == "leave bridge out or set decoder.kind=recurrent"


@pytest.mark.parametrize("positions", ["relative", "bucketed", "rotary", "alibi"])
def test_positions_within_self_attention_need_a_transformer(positions: str) -> None:
    error = complaint(f"embed.positions={positions}")
    assert error.what.startswith(f"embed.positions={positions} acts within a Transformer's self-attention")
    assert error.todo == "set embed.positions to none, sinusoid, sinusoid-concat or learned"
    assert made(f"embed.positions={positions}", "encoder.kind=transformer")


def test_rotary_positions_need_an_even_width_per_head() -> None:
    error = complaint(*TRANSFORMER[:2], "embed.positions=rotary", "encoder.width=12", "encoder.heads=4")
    assert "needs an even width per head, but width=12 / heads=4 is 3" in error.what
    assert error.todo == "choose fewer heads or embed.positions=sinusoid"


@pytest.mark.parametrize("other", ["source.tokens=bpe", "target.size=500"])
def test_one_tokeniser_for_both_sides_needs_equal_sides(other: str) -> None:
    error = complaint("embed.shared=true", other)
    assert error.what.startswith("embed.shared=true needs source and target to be split in the same way, but source=")
    assert error.todo == "make them equal or set embed.shared=false"
    assert made("embed.shared=true").embed.shared


@pytest.mark.parametrize(("first", "second"), [
    ("budget_seconds=60", "steps=5"), ("budget_seconds=60", "epochs=5"), ("steps=5", "epochs=5"),
])  # fmt: skip
def test_two_budgets_are_refused(first: str, second: str) -> None:
    error = complaint(f"train.{first}", f"train.{second}")
    names = [text.partition("=")[0] for text in (first, second)]
    assert error.what == f"train.{names[0]} and train.{names[1]} cannot be given together"
    assert error.todo == "keep one"


def length(name: str, value: float | None) -> Layer:
    return {"train": {name: value}}


@pytest.mark.parametrize("later", [length("epochs", 2.0), {"train.epochs": 2.0}], ids=["nested", "dotted"])
@pytest.mark.parametrize(
    "earlier", [length("steps", 5), length("budget_seconds", 60.0), length("epochs", 9.0)], ids=str
)
def test_how_long_a_later_layer_trains_takes_the_place_of_what_an_earlier_one_said(
    earlier: Layer, later: Layer
) -> None:
    composed = compose(("file", earlier), ("flag", later))
    train = composed.spec.train
    assert (train.budget_seconds, train.steps, train.epochs) == (None, None, 2.0)
    said = {name: composed.origins[f"train.{name}"] for name in ("budget_seconds", "steps", "epochs")}
    assert said == {"budget_seconds": "default", "steps": "default", "epochs": "flag"}
    assert merge(earlier, later) == length("epochs", 2.0)


def test_what_else_an_earlier_layer_says_of_training_stays_with_another_length() -> None:
    earlier = {"train": {"steps": 5, "rate": 0.1}}
    assert merge(earlier, length("epochs", 2.0)) == {"train": {"rate": 0.1, "epochs": 2.0}}
    assert compose(("file", earlier), ("flag", length("epochs", 2.0))).origins["train.rate"] == "file"
    assert earlier == {"train": {"steps": 5, "rate": 0.1}}


def test_two_lengths_of_one_layer_are_refused_whatever_the_layers_before_said() -> None:
    both = {"train": {"budget_seconds": 60.0, "epochs": 2.0}}
    assert merge(length("steps", 5), both) == both
    with pytest.raises(UserError) as caught:
        compose(("file", length("steps", 5)), ("flag", both))
    assert whole(caught.value).what == "train.budget_seconds and train.epochs cannot be given together"


def test_a_length_that_is_null_takes_the_place_of_no_other() -> None:
    composed = compose(("file", length("steps", 5)), ("flag", length("epochs", None)))
    assert (composed.spec.train.steps, composed.origins["train.steps"]) == (5, "file")


# overrides and files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("item", ["decoder.cell", "", "=5", "  =5", "decoder.cell gru"])
def test_an_override_that_is_not_key_and_value_is_refused(item: str) -> None:
    error = complaint(item)
    assert error.what == f"'{item}' is not of the form key=value"
    assert error.where == f"--set {item}"
    assert error.todo == "write key=value, such as --set train.rate=0.001"


@pytest.mark.parametrize("value", ["[1", "{", "'open", "a: b: c", "@x", "%y", "*z"])
def test_an_override_whose_value_is_not_yaml_is_refused(value: str) -> None:
    error = complaint(f"decoder.width={value}")
    assert error.what == f"'{value}' is not a value"
    assert error.where == f"--set decoder.width={value}"


@pytest.mark.parametrize(("text", "value"), [
    ("1e-3", 0.001), ("0.5", 0.5), ("7", 7), ("true", True), ("gru", "gru"), ("", None), ("a=b", "a=b"), (" x ", "x"),
    ("[1, 2]", [1, 2]), ("null", None),
])  # fmt: skip
def test_an_override_has_the_value_that_people_mean(text: str, value: Any) -> None:
    assert read_overrides([f"a.b={text}"]) == {"a": {"b": value}}


def test_the_last_of_several_overrides_wins() -> None:
    assert made("decoder.cell=gru", "decoder.cell=elman").decoder.cell == "elman"


def test_a_missing_settings_file_is_an_error_in_three_parts(tmp_path: Path) -> None:
    error = file_complaint(tmp_path / "no.yaml")
    assert error.what == "cannot read the settings file: No such file or directory"
    assert error.where == str(tmp_path / "no.yaml")
    assert error.todo == "check the file's name"


def test_what_a_run_has_behind_it_is_not_read_as_a_setting(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text("format: 2\ntrain: {raced: 90.0, rate: 0.01}\n", encoding="utf-8")
    assert read_file(tmp_path / "spec.yaml") == {"train": {"rate": 0.01}}


def test_a_folder_in_the_place_of_a_settings_file_is_an_error_in_three_parts(tmp_path: Path) -> None:
    assert "Is a directory" in file_complaint(tmp_path).what


def file_complaint(path: Path) -> UserError:
    with pytest.raises(UserError) as caught:
        read_file(path)
    return whole(caught.value)


@pytest.mark.parametrize("text", ["a: [1", "a: b: c", "\tx: 1", "a: 'open"])
def test_a_file_that_is_not_yaml_is_refused_with_the_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    error = file_complaint(tmp_path / "a.yaml")
    assert error.what.startswith("not valid YAML: ")
    assert "line 1" in error.what
    assert "\n" not in error.what
    assert error.todo == "correct it; the spec.yaml of any run is an example"


@pytest.mark.parametrize("text", ["- a\n- b\n", "just text\n", "5\n"])
def test_a_file_without_keys_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    assert file_complaint(tmp_path / "a.yaml").what == "a settings file must hold keys and values"


def test_a_settings_file_that_is_not_utf8_is_an_error_in_three_parts(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"decoder: {cell: \xff}\n")
    error = file_complaint(tmp_path / "a.yaml")
    assert error.what == "cannot read the settings file: it is not UTF-8 text"
    assert error.todo == "save it as UTF-8"


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}\n", "train:\ndecoder:\n", "decoder: {}\n"])
def test_an_empty_settings_file_changes_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    assert compose(("file", read_file(tmp_path / "a.yaml"))).spec == Spec()


@pytest.mark.parametrize("branch", ["source", "train", "decoder"])
def test_a_group_of_settings_that_is_none_is_an_error_in_three_parts(branch: str) -> None:
    flags = {"decoder": {"width": 64}, "source": {"size": 500}, "train": {"steps": 5}}
    with pytest.raises(UserError, match=f"{branch} is a group of settings") as caught:
        compose(("file", {branch: None}), ("flag", flags))
    whole(caught.value)


def test_an_empty_branch_in_a_file_takes_nothing_away_from_the_layers_below() -> None:
    below = {"decoder": {"kind": "recurrent", "cell": "gru"}}
    assert compose(("autopilot", below), ("file", {"decoder": {}})).spec.decoder.cell == "gru"


def test_dotted_keys_work_in_a_file_as_they_do_on_the_command_line() -> None:
    assert compose(("file", {"decoder.cell": "gru"})).spec.decoder.cell == "gru"


# where values come from ----------------------------------------------------------------------------------------------


def layered() -> Composed:
    return compose(
        ("autopilot", {"decoder": {"kind": "recurrent", "cell": "gru", "width": 64}, "train": {"rate": 0.1}}),
        ("file", {"decoder": {"width": 128}, "train": {"rate": 0.2}}),
        ("flag", {"train": {"rate": 0.3}}),
    )


def test_later_layers_win_over_earlier_ones() -> None:
    spec = layered().spec
    assert (spec.decoder.cell, spec.decoder.width, spec.train.rate) == ("gru", 128, 0.3)


def test_every_setting_knows_where_it_came_from() -> None:
    composed = layered()
    wanted = {"decoder.cell": "autopilot", "decoder.width": "file", "train.rate": "flag", "train.clip": "default"}
    assert {key: composed.origins[key] for key in wanted} == wanted
    assert set(composed.origins) == {key for key, _ in flatten(composed.spec.model_dump())}


@pytest.mark.parametrize(("key", "value"), [("train.budget_seconds", 600.0), ("train.rate", 0.1)])
def test_null_over_what_the_autopilot_chose_leaves_it(key: str, value: float) -> None:
    composed = compose(("autopilot", {key: value}), ("file", {key: None}), ("flag", {key: None}))
    assert dict(flatten(composed.spec.model_dump()))[key] == value
    assert composed.origins[key] == "autopilot"


def test_null_over_what_the_user_said_takes_it_away() -> None:
    composed = compose(
        ("autopilot", {"data": {"tag": 4}}), ("file", {"data": {"tag": 3}}), ("flag", {"data.tag": None})
    )
    assert (composed.spec.data.tag, composed.origins["data.tag"]) == (None, "flag")


NAMES_BOTH = {"data": {"pairs": ["/d/theirs.tsv", "/d/a.en:/d/a.de"], "valid": ["/d/dev.tsv"]}}


@pytest.mark.parametrize(("pairs", "file_layer", "valid"), [
    (["/d/mine.tsv"], NAMES_BOTH, ()),
    (["/d/theirs.tsv"], NAMES_BOTH, ()),
    (["/d/theirs.tsv", "/d/a.en:/d/a.de"], NAMES_BOTH, ("/d/dev.tsv",)),
    (["/d/x/../theirs.tsv", "/d/a.en:/d/a.de"], NAMES_BOTH, ("/d/dev.tsv",)),
    ([], NAMES_BOTH, ("/d/dev.tsv",)),
    (["/d/mine.tsv"], {"data": {"valid": ["/d/dev.tsv"]}}, ("/d/dev.tsv",)),
    (["/d/mine.tsv"], {"data.pairs": ["/d/theirs.tsv"], "data.valid": ["/d/dev.tsv"]}, ()),
])  # fmt: skip
def test_the_validation_pairs_of_a_settings_file_are_for_the_pairs_that_it_names(
    pairs: list[str], file_layer: Layer, valid: tuple[str, ...]
) -> None:
    found = named_files(tuple(pairs), (), file_layer, {})
    assert found == (tuple(pairs or NAMES_BOTH["data"]["pairs"]), valid)


def test_validation_pairs_that_are_given_are_taken_whatever_a_settings_file_names() -> None:
    mine = ("/d/mine.tsv",)
    assert named_files(mine, ("/d/my-dev.tsv",), NAMES_BOTH, {})[1] == ("/d/my-dev.tsv",)
    assert named_files(mine, (), NAMES_BOTH, {"data": {"valid": ["/d/my-dev.tsv"]}})[1] == ("/d/my-dev.tsv",)


def test_the_pairs_of_a_settings_file_are_known_by_a_shorter_name_too() -> None:
    named = {"data": {"pairs": ["theirs.tsv"], "valid": ["dev.tsv"]}}
    assert named_files(("theirs.tsv",), (), named, {})[1] == ("dev.tsv",)


def test_an_error_names_the_layer_that_said_so() -> None:
    with pytest.raises(UserError) as caught:
        compose(("file", {"decoder": {"cell": "lsmt"}}), ("flag", {"train": {"rate": 0.3}}))
    assert caught.value.where == "setting decoder.cell (from file)"


def test_composing_does_not_change_the_layers() -> None:
    layer = {"decoder": {"heads": 4}, "embed": {"positions": "sinusoid"}}
    compose(("flag", layer))
    assert layer == {"decoder": {"heads": 4}, "embed": {"positions": "sinusoid"}}


@pytest.mark.parametrize(("part", "kind"), [
    ({"cell": "gru"}, "recurrent"), ({"attention": {"score": "dot"}}, "recurrent"),
    ({"directions": "both"}, "recurrent"), ({"reverse": True}, None),
    ({"heads": 2}, "transformer"), ({"inner": 64}, "transformer"),
    ({"norm": "pre"}, "transformer"), ({"kind": "transformer"}, "transformer"), ({"width": 64}, None), ({}, None),
    ({"heads": 2, "attention": {"score": "dot"}}, "transformer"), ({"layer_norm": True}, "recurrent"),
])  # fmt: skip
def test_keys_imply_their_family(part: dict[str, Any], kind: str | None) -> None:
    assert implied_kind("decoder", {"decoder": part}) == kind


def test_attention_in_an_encoder_makes_it_a_transformer() -> None:
    assert implied_kind("encoder", {"encoder": {"attention": {"score": "dot"}}}) == "transformer"
    assert isinstance(made("encoder.attention.weigh=sparsemax").encoder, TransformerEncoder)


@pytest.mark.parametrize("rule", ["search.no_repeat=2", "search.length_penalty=0.5"])
def test_rules_that_ctc_cannot_follow_are_refused(rule: str) -> None:
    error = complaint("head.kind=ctc", rule)
    assert error.what.startswith(f"{rule.split('=')[0]} has no effect with head.kind=ctc")
    assert error.todo == "leave it out, or use head.kind=tokens"
    assert made(rule)


def test_heads_alone_make_a_transformer_and_a_width_alone_does_not() -> None:
    assert isinstance(made("encoder.heads=2", "embed.positions=sinusoid").encoder, TransformerEncoder)
    assert made("encoder.width=64").encoder.kind == "recurrent"


def test_a_width_alone_keeps_the_family_of_the_layer_below() -> None:
    below = {"decoder": {"kind": "transformer"}, "embed": {"positions": "sinusoid"}}
    composed = compose(("autopilot", below), ("flag", {"decoder": {"width": 64}}))
    assert isinstance(composed.spec.decoder, TransformerDecoder)
    assert composed.spec.decoder.width == 64
    assert composed.origins["decoder.kind"] == "autopilot"


@pytest.mark.parametrize("task", TASKS)
def test_every_pair_of_kinds_fits_a_task_or_is_refused_in_three_parts(task: str) -> None:
    kinds = get_args(Side.model_fields["kind"].annotation)
    for source, target in itertools.product(kinds, kinds):
        with contextlib.suppress(UserError):
            compose(("flag", {"task": task, "source.kind": source, "target.kind": target}))


@pytest.mark.parametrize(
    "setting", ["source.kind=label", "source.kind=document", "target.kind=none", "target.kind=audio"]
)
def test_a_kind_that_a_column_cannot_have_is_refused(setting: str) -> None:
    role = setting.partition(".")[0]
    with pytest.raises(UserError, match=f"a {role} cannot be of this kind") as error:
        compose(("flag", read_overrides([setting])))
    assert error.value.todo.startswith("choose one of text, numbers")


def test_a_spec_cannot_be_changed() -> None:
    with pytest.raises(ValueError):
        Spec().train.rate = 5  # type: ignore[misc]


def test_every_setting_has_a_text_that_says_what_it_is() -> None:
    from weft.cli.config import explain

    for spec in (Spec(), made(*TRANSFORMER)):
        helps = explain(spec)
        assert set(helps) == {key for key, _ in flatten(spec.model_dump())}
        assert [key for key, text in helps.items() if not text] == []


def test_flatten_and_put_undo_each_other() -> None:
    tree = {"a": {"b": {"c": 1}, "d": [1, 2]}, "e": None}
    again: dict[str, Any] = {}
    for key, value in flatten(tree):
        put(again, key, value)
    assert again == tree


# spec.yaml -----------------------------------------------------------------------------------------------------------

SPECS = [
    (),
    (*TRANSFORMER, "encoder.heads=2", "train.steps=5"),
    ("decoder.cell=gru", "encoder.directions=forward", "data.source=word", "data.features=3", "train.rate=1e-3"),
    ("source.tokens=bpe", "target.tokens=bpe", "embed.shared=true", "train.epochs=2.5", "data.pairs=[a.tsv, 'b: c']"),
]


@pytest.mark.parametrize("overrides", SPECS)
def test_a_spec_comes_back_from_spec_yaml(tmp_path: Path, overrides: tuple[str, ...]) -> None:
    composed = compose(("flag", read_overrides(overrides)))
    folder = RunFolder(tmp_path)
    folder.write_spec(composed.spec, composed.origins, [["a", "b", "c"]])
    assert folder.read_spec() == composed.spec
    assert folder.read_choices() == {"origins": composed.origins, "reasons": [["a", "b", "c"]]}
    assert yaml.safe_load(folder.spec_file.read_text(encoding="utf-8"))["format"] == FORMAT


@pytest.mark.parametrize(("text", "said"), [
    ("format: 3\n", "newer version of Weft (format 3; this version reads formats up to 2)"),
    ("a: [1", "the settings of this run cannot be read: "),
    ("format: 1\ndecoder: {cell: lsmt}\n", "did you mean 'lstm'?"),
    ("format: 1\nfuture: 5\n", "future: there is no such setting"),
])  # fmt: skip
def test_a_spec_yaml_that_cannot_be_used_is_an_error_in_three_parts(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "spec.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        RunFolder(tmp_path).read_spec()
    assert said in whole(caught.value).what


@pytest.mark.parametrize("text", ["", "just text\n", "decoder: {cell: gru}\n"])
def test_a_spec_yaml_without_a_format_is_not_said_to_be_from_a_newer_weft(tmp_path: Path, text: str) -> None:
    (tmp_path / "spec.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        RunFolder(tmp_path).read_spec()
    assert whole(caught.value).what == "this is not a spec.yaml that Weft wrote: it has no entry `format`"


def test_a_run_of_an_earlier_format_keeps_the_meaning_of_its_settings(tmp_path: Path) -> None:
    """What came with format 2: the whole state of an LSTM, and a table of relative positions for each layer."""
    text = "format: {}\nencoder: {{kind: recurrent}}\ndecoder: {{kind: recurrent}}\n"
    for made_by, state, per_layer in ((1, "hidden", False), (2, "whole", True)):
        (tmp_path / "spec.yaml").write_text(text.format(made_by), encoding="utf-8")
        spec = RunFolder(tmp_path).read_spec()
        assert (spec.bridge.state, spec.embed.per_layer) == (state, per_layer)
        as_file = compose(("file", read_file(tmp_path / "spec.yaml"))).spec
        assert (as_file.bridge.state, as_file.embed.per_layer) == (state, per_layer)


@pytest.mark.parametrize("kinds", ["encoder: {kind: transformer}\ndecoder: {kind: transformer}", "head: {kind: ctc}"])
def test_a_run_of_an_earlier_format_without_a_bridge_loads(tmp_path: Path, kinds: str) -> None:
    (tmp_path / "spec.yaml").write_text(f"format: 1\n{kinds}\n", encoding="utf-8")
    assert RunFolder(tmp_path).read_spec().bridge.state == "hidden"


OUT_OF_RANGE = {
    "train.seed": "9" * 23,
    "train.batch_tokens": "1" + "0" * 20,
    "train.evaluations": "1000000000",
    "train.steps": "1" + "0" * 13,
    "train.budget_seconds": "1e12",
    "train.valid_pairs": "1000000000",
    "encoder.layers": "100000",
    "encoder.width": "1000000000",
    "decoder.width": "100001",
    "embed.width": "1" + "0" * 30,
    "encoder.noise": "1e300",
    "decoder.attention.heads": "5000",
    "search.temperature": "1e-320",
    "search.width": "1001",
    "search.max_ratio": "1e9",
    "search.seconds": "-1",
    "data.longest": "1" + "0" * 12,
}


@pytest.mark.parametrize("key", OUT_OF_RANGE)
def test_a_value_out_of_range_is_refused_with_the_range(key: str) -> None:
    error = complaint(f"{key}={OUT_OF_RANGE[key]}")
    assert error.what.startswith(f"{key} must be ")
    assert len(str(error)) < 400


@pytest.mark.parametrize("column", ["0", "-1", "100001", "''"])
@pytest.mark.parametrize("role", ["source", "target", "features", "tag"])
def test_a_column_that_cannot_be_is_refused(role: str, column: str) -> None:
    error = complaint(f"data.{role}={column}")
    assert error.what.startswith(f"data.{role}: ")
    assert "column" in error.what
    assert "give" in error.todo


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 5000, "{a: " * 3000, "x" * 2_000_000])
def test_a_value_that_is_too_long_or_too_deep_is_refused(tmp_path: Path, value: str) -> None:
    if len(value) < 1_000_000:  # a long text is a value, but none that a number has
        error = complaint(f"train.seed={value}")
        assert len(str(error)) < 600
    (tmp_path / "mine.yaml").write_text(f"train:\n  seed: {value}\n", encoding="utf-8")
    with pytest.raises(UserError, match="not valid YAML: ") as caught:
        read_file(tmp_path / "mine.yaml")
    assert len(str(whole(caught.value))) < 600


def test_differences_show_the_old_and_the_new_value_of_each_key() -> None:
    old, new = {"train": {"rate": 0.002, "seed": 1}, "a": 1}, {"train": {"rate": 0.001, "seed": 1}, "b": 2}
    assert differences(old, new) == ["train.rate: 0.002 → 0.001", "a: 1 → None", "b: None → 2"]
    assert differences(old, old) == []


# budgets and schedules -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "seconds"), [
    ("90s", 90), ("10m", 600), ("1h30m", 5400), ("1.5h", 5400), ("1d", 86_400), ("0.5s", 0.5),
    (" 10m ", 600), ("1h30m15s", 5415),
])  # fmt: skip
def test_times_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "  ", "ten", "10x", "-5m", "m", "5m-", "1,5h", "1h 30m", "nan", "inf", "10 m", "1e3"]
)
def test_what_is_not_a_time_is_an_error_in_three_parts(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_seconds(text)
    assert whole(caught.value).what == f"'{text}' is not a time"
    assert caught.value.where == f"--budget {text}"
    assert caught.value.todo == "write it like 90s, 10m or 1h30m"


@pytest.mark.parametrize("text", ["10", "0", "1.5", " 30 "])
def test_a_budget_without_a_unit_is_asked_for_one(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_seconds(text)
    number = text.strip()
    assert whole(caught.value).what == f"the budget {number} has no unit"
    assert caught.value.todo == f"give the unit: {number}s, {number}m or {number}h"


@pytest.mark.parametrize("text", ["0s", "0m0s", "0.0h"])
def test_no_time_at_all_is_an_error_in_three_parts(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_seconds(text)
    assert whole(caught.value).what == "the budget must be a positive time"
    assert caught.value.where == f"--budget {text}"


@pytest.mark.parametrize(("budget", "share"), [
    (Budget(steps=100), 0.25), (Budget(epochs=5), 0.4), (Budget(seconds=10), 0.7),
])  # fmt: skip
def test_the_share_is_of_what_the_budget_counts(budget: Budget, share: float) -> None:
    assert budget.share(25, 2.0, 7.0) == share
    assert budget.share(0, 0.0, 0.0) == 0
    assert budget.share(1000, 1000.0, 1000.0) == 1
    assert budget.by_clock == (budget.seconds is not None)


@pytest.mark.parametrize(
    ("epochs", "seconds", "share"), [(1.0, 7.0, 0.7), (3.0, 1.0, 0.75), (4.0, 1.0, 1), (1.0, 10.0, 1)]
)
def test_of_a_time_with_a_limit_of_passes_what_is_spent_sooner_counts(
    epochs: float, seconds: float, share: float
) -> None:
    assert Budget(seconds=10, max_epochs=4).share(1, epochs, seconds) == share
    assert Budget(seconds=10, max_epochs=4).by_clock


@pytest.mark.parametrize(("budget", "share"), [
    (Budget(seconds=10, max_epochs=0), 0.7), (Budget(steps=100, max_epochs=1), 0.25),
    (Budget(epochs=5, max_epochs=1), 0.4),
])  # fmt: skip
def test_a_limit_of_no_passes_or_beside_another_length_counts_for_nothing(budget: Budget, share: float) -> None:
    assert budget.share(25, 2.0, 7.0) == share


SCHEDULES = ["cosine", "linear", "constant"]
SHARES = [i / 1000 for i in range(1001)]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("warmup", [0.0, 0.05, 0.5, 0.99])
def test_the_rate_rises_to_its_height_then_never_rises_again(schedule: str, warmup: float) -> None:
    rates = [rate_at(share, schedule, warmup) for share in SHARES]
    rising = [rate for share, rate in zip(SHARES, rates) if share < warmup]
    falling = [rate for share, rate in zip(SHARES, rates) if share >= warmup]
    assert all(0 < rate <= 1 for rate in rates)
    assert rising == sorted(rising)
    assert falling == sorted(falling, reverse=True)
    assert rate_at(warmup, schedule, warmup) == pytest.approx(1)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_every_budget_ends_annealed(schedule: str) -> None:
    assert rate_at(1.0, schedule, 0.05) <= 0.01


def test_a_constant_rate_stays_after_its_warm_up() -> None:
    assert {rate_at(share, "constant", 0.1) for share in SHARES if share >= 0.1} == {1.0}


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_half_way_through_the_fall_the_rate_is_half(schedule: str) -> None:
    assert rate_at(0.6, schedule, 0.2) == pytest.approx(0.5)


@pytest.mark.parametrize("items", [["train=5", "train.steps=2"], ["decoder=5", "decoder.cell=gru"]])
def test_a_group_of_settings_given_as_a_value_is_refused(items: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        read_overrides(items)
    assert "is a group of settings" in caught.value.what
    assert items[0] in caught.value.where
    assert items[1] in caught.value.todo
