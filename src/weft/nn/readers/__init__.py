"""From the values of a column to vectors: one file for each shape of values."""
