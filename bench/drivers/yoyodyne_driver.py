"""yoyodyne's one-layer bidirectional LSTM with attention through its own `yoyodyne fit`; what is counted are pairs."""

from __future__ import annotations

import argparse

import measure
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from yoyodyne.cli.main import python_interface
from yoyodyne.data import Batch

NEVER = 1_000_000_000  # epochs


class Clock(Callback):
    """Ends the fit when the time is over."""

    meter: measure.Meter

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: Batch, place: int) -> None:
        self.meter.begin()

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: object, batch: Batch, place: int
    ) -> None:
        self.meter.add(len(batch))
        trainer.should_stop = self.meter.over


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)


def train(options: argparse.Namespace, meter: measure.Meter) -> None:
    Clock.meter = meter
    options.out.mkdir(parents=True, exist_ok=True)
    encoder = {
        "class_path": "yoyodyne.models.modules.LSTMEncoder",
        "init_args": {"hidden_size": options.width // 2, "embedding_size": options.width},  # of each direction
    }
    model = {"decoder_hidden_size": options.width, "decoder_layers": 1, "embedding_size": options.width}
    trainer = {"max_epochs": -1, "enable_progress_bar": False, "default_root_dir": str(options.out)}
    fit = {
        "seed_everything": 1,
        "data": {
            "train": str(options.data),
            "model_dir": str(options.out),
            "target_sep": " ",
            "batch_size": options.batch,
        },
        "model": {
            "class_path": "yoyodyne.models.SoftAttentionLSTMModel",
            "init_args": {**model, "source_encoder": encoder},
        },
        "checkpoint": {"dirpath": str(options.out), "every_n_epochs": NEVER},
        "trainer": {**trainer, "callbacks": [{"class_path": "__main__.Clock"}]},
    }
    python_interface({"subcommand": "fit", "fit": fit})


if __name__ == "__main__":
    measure.run(train, None, add_arguments)
