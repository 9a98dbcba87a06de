"""A training with Lightning, by its recipe for Slurm: nothing in it knows how it is preempted.

    srun python lightning_train.py NAME

Slow until its second run. Its `NAME.events` ends with `done` only if every step was made.
"""

import os
import sys
import time
from pathlib import Path

import lightning as L  # noqa: N812 - as its documentation has it
import torch

NAME = sys.argv[1]
STEPS = 40
#: from here on the first run hardly gets on
SLOW = 5


def say(what: str) -> None:
    """Note what this run has come to."""
    with Path(f"{NAME}.events").open("a") as out:
        out.write(f"{what}\n")


class Line(L.LightningModule):
    """Learns a line."""

    def __init__(self) -> None:
        """Begin with random weights."""
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        if "SLURM_RESTART_COUNT" not in os.environ:
            if self.global_step == SLOW:
                say("begun")
            if self.global_step >= SLOW:
                time.sleep(60)
        return torch.nn.functional.mse_loss(self.layer(batch), 2 * batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.SGD(self.parameters(), lr=0.01)

    def on_train_start(self) -> None:
        """Say where a later run goes on."""
        if "SLURM_RESTART_COUNT" in os.environ:
            say("resumed" if self.global_step >= SLOW else "begun")


data = torch.utils.data.DataLoader(torch.arange(STEPS, dtype=torch.float32).reshape(-1, 1) / STEPS)
trainer = L.Trainer(
    accelerator="cpu", devices=1, num_nodes=1, max_steps=STEPS, default_root_dir=f"{NAME}.out", logger=False
)
trainer.fit(Line(), data)
say("done" if trainer.global_step == STEPS else f"left-at-step-{trainer.global_step}")
