"""Writing the target: one file a family, all behind start, step and unroll."""
