"""From a model to hypotheses. A search speaks `begin`, `advance` and `select` and never asks what family it has."""
