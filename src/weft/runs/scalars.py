"""Scalars for TensorBoard beside the log, for those who watch many runs there (`train.tensorboard=true`)."""

from __future__ import annotations

from typing import Any

from weft.core.errors import UserError
from weft.core.reporting import Log
from weft.runs.folder import RunFolder
from weft.runs.log import LogFile

FOLDER = "tensorboard"  # within a run
SKIPPED = ("step", "pairs", "seconds", "share")  # numbers of a log line that are no curves


def log_of(folder: RunFolder, tensorboard: bool) -> Log:
    """Return the log of a run, which also writes for TensorBoard if it is asked to."""
    return ScalarLog(folder) if tensorboard else LogFile(folder.log)


class ScalarLog(LogFile):
    """A log that also writes its numbers as TensorBoard events: report/loss, evaluation/exact, …"""

    def __init__(self, folder: RunFolder) -> None:
        super().__init__(folder.log)
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError as error:
            todo = "pip install tensorboard, or leave train.tensorboard out"
            raise UserError("TensorBoard is not installed", "setting train.tensorboard", todo) from error
        self._writer: Any = SummaryWriter(str(folder.path / FOLDER))

    def write(self, line: dict[str, Any]) -> None:
        super().write(line)
        for name, value in line.items():
            if isinstance(value, int | float) and not isinstance(value, bool) and name not in SKIPPED:
                self._writer.add_scalar(f"{line['kind']}/{name}", value, line["step"])
        self._writer.flush()
