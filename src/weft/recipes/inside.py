"""Recipes that look inside a model, and compare no runs."""

from __future__ import annotations

from pathlib import Path

from weft.recipes.study import Options, Recipe


def _field(folder: Path, options: Options) -> list[str]:
    from weft.recipes import field  # loads torch, which `weft recipe list` does not need

    return field.run(folder, options)


def _vanishing(folder: Path, options: Options) -> list[str]:
    from weft.recipes import vanishing

    return vanishing.run(folder, options)


LEARNED_OF_GRADIENTS = (
    "Before training, the product of an LSTM's forget gates follows σ(b_f)ᵏ at every lag, for each of the three "
    "biases, and the gradient of an Elman network falls by its spectral radius at each step. What a cell can learn "
    "in 300 updates follows from the gradient that it starts with: with b_f = 0 it has fallen to 0.0006 after 20 "
    "steps, and the LSTM stays at chance (24 %); with b_f = 1 it is 0.12 (96 % right), with b_f = 2 it is above 1 "
    "(100 %). Without a forget gate (lstm-f) nothing fades, before or after. GRU, MUT2 and MUT3 start as low as the "
    "LSTM with b_f = 0 but have begun to keep their states open after training (39 to 57 %); the Elman networks and "
    "MUT1 have not."
)


def vanishing() -> Recipe:
    return Recipe(
        "vanishing",
        "How far do gradients reach back through each recurrent cell, before and after training, and does theory "
        "predict it?",
        "The recipe draws random symbols, of which a cell has to remember the first one for 20 steps.",
        LEARNED_OF_GRADIENTS,
        by_hand=_vanishing,
    )


def field() -> Recipe:
    return Recipe(
        "field",
        "How many positions can a node of a Transformer know after n layers, if each of its k heads hands on one "
        "position alone?",
        "Heads look where the recipe says: so that no two paths meet, anywhere, or at their neighbours. The sets are "
        "counted node by node.",
        "Where no two paths end at the same position, every node holds exactly (k+1)ⁿ positions: 625 of 700 with "
        "four heads and four layers. Heads that look anywhere come near to it while (k+1)ⁿ is small against the "
        "number of positions (75 of 81 with two heads and four layers), and then lose to paths that meet (392 of "
        "625 with four heads). Heads that look at their neighbours hold k·n + 1: their field grows with depth only "
        "as that of a convolution does.",
        by_hand=_field,
    )
