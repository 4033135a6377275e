"""Kinds of columns: one file each, which reads cells, surveys them, learns a side, encodes and decodes."""
