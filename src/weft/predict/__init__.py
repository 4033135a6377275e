"""A finished run that answers: the predictor behind `weft predict`, `Run.predict` and servers."""
