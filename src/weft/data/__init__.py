"""From files to batches: pairs, tokens, survey, corpus, batches."""
