#!/bin/bash
# One worker of an elastic training: sbatch --array=0-499 elastic.sh FOLDER
#SBATCH --comment=elastic
#SBATCH --cpus-per-task=1
#SBATCH --mem=500M
#SBATCH --time=10
# exec: what Slurm and tesched send to the batch script (USR1, TERM) reaches Python.
exec python3 "${EXAMPLES:-$SLURM_SUBMIT_DIR}/logistic_regression.py" "$1"
