"""Recipes of columns that are not text: trajectories with and without a context, classes, labels in step."""

from __future__ import annotations

from typing import Any

from weft.recipes import makers, tracks
from weft.recipes.study import PUBLIC, Recipe, Study, generated
from weft.recipes.yardsticks import beside_kilometres, beside_rules

ROLES = {"data.source": "past", "data.target": "future"}
STEPS = {"source.kind": "numbers", "target.kind": "numbers", "numbers.differences": True, "numbers.values": False}
GRU = {"encoder.kind": "recurrent", "encoder.cell": "gru", "decoder.kind": "recurrent", "decoder.cell": "gru"}
SIZE = {"encoder.width": 96, "decoder.width": 96, "embed.width": 64, "train.dropout": 0.0, "train.batch_tokens": 512}
NO_ATTENTION = {"decoder.attention.score": "none"}
NEAR = {"objective.kind": "distance", "feeding.kind": "none"}
PLAIN: dict[str, Any] = {"objective.kind": "squared", "numbers.rotate": False, "numbers.mirror": False}
TURNS = {"numbers.rotate": True, "numbers.mirror": True}


def robot() -> Recipe:
    settings = {**ROLES, **STEPS, **GRU, **SIZE, **NO_ATTENTION, **PLAIN, "numbers.momentum": False}
    settings["train.select"] = "ade"
    feedings: dict[str, dict[str, Any]] = {
        "teacher forcing": {"feeding.kind": "teacher"},
        "scheduled": {"feeding.kind": "scheduled", "feeding.schedule": "linear"},
        "free running": {"feeding.kind": "own"},
    }
    with_sensors = {"data.context": "sensors", "context.kind": "numbers", "context.use": "step"}
    with_sensors["numbers.stop"] = "context"
    return Recipe(
        "robot",
        "A vehicle moves in the plane, and its course depends on sensor readings that come while it moves. How much "
        "does it help to give the readings to the decoder as a third sequence, and should the decoder read the true "
        "course in training (teacher forcing), its own (free running), or a mixture of both (scheduled)?",
        "The recipe simulates 4,400 courses of 25 steps: speed and heading follow the readings of two sensors, a slope "
        "and a pull to the side, which change at random. The model knows the first 5 positions and predicts the other "
        "20. The loss is the squared error of the displacements between positions. With the context, step *t* of the "
        "decoder reads the sensors at step *t*, and no later reading. `ade` is the mean distance from the true course; "
        "a step is about 1 long.",
        ROBOT_LEARNS,
        (
            Study("sensors", tracks.plant(True), feedings, {**settings, **with_sensors}, "200ktokens"),
            Study("blind", tracks.plant(False), feedings, {**settings, "numbers.stop": "fixed"}, "200ktokens"),
        ),
    )


def pedestrians() -> Recipe:
    teacher = {"feeding.kind": "teacher", **PLAIN, "numbers.momentum": False}
    variants: dict[str, dict[str, Any]] = {
        "positions": {**teacher, "numbers.differences": False, "numbers.values": True},
        "steps": teacher,
        "steps, all at once, by distance": {**teacher, **NEAR},
        "and as changes of the last step": {**teacher, **NEAR, "numbers.momentum": True},
        "and turned and mirrored": {**teacher, **NEAR, "numbers.momentum": True, **TURNS},
    }
    return Recipe(
        "pedestrians",
        "Where will a pedestrian be in the next 4.8 seconds? Going on at constant velocity is hard to beat. How should "
        "a trajectory be encoded, learned and augmented so that a network does better in a scene that it has never "
        "seen?",
        "The data are walks from seven recordings (ETH, Pellegrini 2009; UCY, Lerner 2007), 8 positions known and 12 "
        "to be predicted, 0.4 seconds apart, in metres; the models learn from six of them and are validated on the "
        f"hotel scene. They are in eth_ucy/*.txt: frame, pedestrian, x and y in each line. {PUBLIC}",
        PEDESTRIANS_LEARN,
        (
            Study(
                "pedestrians",
                tracks.pedestrians("biwi_hotel"),
                variants,
                {**ROLES, **STEPS, **GRU, **SIZE, **NO_ATTENTION, "numbers.stop": "fixed", "train.select": "ade"},
                "200ktokens",
                also=beside_rules,
            ),
        ),
    )


def storms() -> Recipe:
    context: dict[str, Any] = {"data.context": "past_state", "context.kind": "numbers", "context.use": "attend"}
    context |= {"numbers.missing": "mask", "decoder.attention.feed": False}
    base = {**ROLES, **STEPS, **GRU, **SIZE, **NEAR, "numbers.momentum": True, "train.dropout": 0.1}
    settings = {**base, **context, "numbers.stop": "fixed", "train.select": "ade"}
    variants: dict[str, dict[str, Any]] = {"changes": {}, "changes and values": {"numbers.values": True}}
    data = tracks.storms("pacific")
    about = (
        "The data are best tracks of storms in the eastern Pacific since 1949 (HURDAT2, NOAA, public domain; the CSV "
        "files of github.com/ResidentMario/hurdat2), in hurdat2/pacific.csv: 48 hours are known and the next 72 are "
        "predicted, one position every 6 hours; one storm in ten is for validation. "
    )
    return Recipe(
        "storms",
        "Where will a tropical storm be in 24, 48 and 72 hours? The decoder attends to a context: the storm's wind and "
        "pressure, and the day of the year. Does it help to read values (where the storm is, how strong, in which "
        "season), or are their changes enough?",
        about + PUBLIC,
        STORMS_LEARN,
        (Study("storms", data, variants, settings, "80ktokens", also=beside_kilometres("pacific")),),
    )


def sentiment() -> Recipe:
    words = {"source.tokens": "words"}
    variants: dict[str, dict[str, Any]] = {
        "bag of words": {**words, "encoder.kind": "none", "pool.kind": "mean"},
        "lstm, last state": {**words, "pool.kind": "last"},
        "lstm, mean state": {**words, "pool.kind": "mean"},
        "lstm, learned query": {**words, "pool.kind": "query"},
    }
    settings = {
        "task": "classify",
        "data.source": "text",
        "data.target": "label",
        "encoder.width": 128,
        "embed.width": 128,
        "train.dropout": 0.5,
        "train.batch_tokens": 1024,
        "train.select": "accuracy",
    }
    data = tracks.labelled("classification/sst2.train", "classification/sst2.dev")
    return Recipe(
        "sentiment",
        "Is a sentence of a film review positive or negative? Which summary of an encoder's states makes the best "
        "classifier, and is an encoder needed at all?",
        "The data are 6,920 sentences of the Stanford Sentiment Treebank with two classes, and 872 others "
        f"(Socher 2013), in classification/sst2.train and sst2.dev: a label, a space and the text. {PUBLIC}",
        SENTIMENT_LEARNS,
        (Study("sentiment", data, variants, settings, "7ktokens"),),
    )


def in_step() -> Study:
    """Return the study of `case` in which every character has a label: its upper or lower form."""
    variants: dict[str, dict[str, Any]] = {
        "forwards": {"encoder.directions": "forward"},
        "both directions": {"encoder.directions": "both"},
    }
    settings = {"task": "classify-tokens", "encoder.kind": "recurrent", "encoder.cell": "elman", "encoder.width": 128}
    settings |= {"embed.width": 64, "train.dropout": 0.0, "train.select": "exact"}
    return Study("step", generated(makers.cased_in_step(5, 60), 8_000, 600), variants, settings, "500ktokens")


ROBOT_LEARNS = (
    "With the sensor readings, the mean distance from the true course over 20 steps is 1.85 to 1.93, about a quarter "
    "of what it is without them (7.03 to 7.17): most of the course cannot be known from its beginning. With the "
    "readings, scheduled sampling is slightly but significantly better than teacher forcing: errors of the heading add "
    "up when a model goes on from its own output, and teacher forcing never shows it that. Free running is not "
    "significantly different from scheduled sampling. Without the readings, free running is last. Training in which "
    "the decoder reads its own output takes up to twice as long as teacher forcing."
)
PEDESTRIANS_LEARN = (
    "Positions mean nothing in another scene: a model of them is 5.3 m off. Predicting the displacement from each "
    "position to the next (the variant `steps`) is far better (0.48), but with this small budget still well behind "
    "constant velocity (0.319). Predicting all steps at once, with the distance between the paths as the loss, does "
    "not help by itself (0.53). If the model learns how each step differs from the last known one, so that an "
    "untrained model goes on at constant velocity, the mean distance is 0.33. If the training data are also rotated "
    "and mirrored at random, it is 0.316, significantly better than every other variant, and slightly ahead of "
    "constant velocity."
)
STORMS_LEARN = (
    "Values help: with positions, wind, pressure and the day of the year, the error after 72 hours is 511 km, "
    "significantly less than with changes alone (520 km). Both are well ahead of constant velocity (593 km), but after "
    "less than one pass over the data they are only as good as a linear regression on the changes of position (507 "
    "km), and behind one that also knows position and season (473 km). To train longer, add `--budget 2Mtokens`."
)
SENTIMENT_LEARNS = (
    "After one pass over the data, a bag of words, the mean of the embeddings without any encoder, is right in 72.8 "
    "% of the sentences. The mean of an LSTM's states reaches 71.3 %, a learned query that attends to them 69.0 %, "
    "and the last state alone 59.2 %. These are early scores: four models with the mean of LSTM states reach 80.4 % "
    "after four minutes of `weft train` (docs/LOG.md)."
)
