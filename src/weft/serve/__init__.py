"""Using a trained run: the predictor behind `weft predict`, `Run.predict` and servers."""
