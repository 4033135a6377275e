"""From a model to hypotheses. A search calls `begin`, `advance` and `select`, and never asks for the model's family."""
