"""The life of a run folder: how a run is opened, trained, resumed and finished."""
