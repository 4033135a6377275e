"""From a Batch to an Emission: the parts of a model, and `assemble`, which turns their names into classes."""
