"""Opening a run: a new one is looked at, chosen for and written down; an old one is checked against what is asked."""

from __future__ import annotations

from weft.opening.again import go_on
from weft.opening.job import Job, Ready, asked_for, files_of, learn_tokenisers, named_files, speed_for
from weft.opening.new import start

__all__ = ["Job", "Ready", "asked_for", "files_of", "go_on", "learn_tokenisers", "named_files", "speed_for", "start"]
