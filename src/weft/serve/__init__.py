"""Trained runs over HTTP: dynamic batches, limits, three protocols and a page. `weft serve RUN…` starts it."""
