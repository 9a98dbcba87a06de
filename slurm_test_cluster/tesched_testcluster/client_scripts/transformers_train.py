"""A training with Transformers' Trainer and enable_jit_checkpoint: a tiny model of random weights.

    srun python transformers_train.py NAME [STATUS]

On SIGTERM the Trainer saves, ends its training early, and the script goes on behind it: to exit status 0, or to STATUS
if the training is not done. Slow until its second run. `NAME.events` ends with `done` only if every step was made.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer_utils import get_last_checkpoint

NAME = sys.argv[1]
UNFINISHED = int(sys.argv[2]) if len(sys.argv) > 2 else 0
STEPS = 100
#: from here on the first run hardly gets on
SLOW = 5


def say(what: str) -> None:
    """Note what this run has come to."""
    with Path(f"{NAME}.events").open("a") as out:
        out.write(f"{what}\n")


class Pace(TrainerCallback):
    """Says where a run is, and slows the first one down."""

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Say where a later run goes on."""
        if "SLURM_RESTART_COUNT" in os.environ:
            say("resumed" if state.global_step >= SLOW else "begun")

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Take a while."""
        if "SLURM_RESTART_COUNT" not in os.environ:
            if state.global_step == SLOW:
                say("begun")
            if state.global_step >= SLOW:
                time.sleep(6)


torch.set_num_threads(1)
model = GPT2LMHeadModel(GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=1))
tokens = torch.arange(8)
data = [{"input_ids": tokens, "labels": tokens}] * STEPS
arguments = TrainingArguments(
    output_dir=f"{NAME}.out",
    max_steps=STEPS,
    per_device_train_batch_size=1,
    use_cpu=True,
    report_to="none",
    save_strategy="no",
    enable_jit_checkpoint=True,
)
trainer = Trainer(model=model, args=arguments, train_dataset=data, callbacks=[Pace()])
folder = Path(f"{NAME}.out")
trainer.train(resume_from_checkpoint=get_last_checkpoint(str(folder)) if folder.exists() else None)
if trainer.state.global_step < STEPS:
    say("saved")
    sys.exit(UNFINISHED)
say("done")
