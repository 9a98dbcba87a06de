#!/bin/bash
# One worker of an elastic training: sbatch --array=0-499 elastic.sh FOLDER
#SBATCH --comment=elastic
#SBATCH --cpus-per-task=1
#SBATCH --mem=500M
#SBATCH --time=10
# Declared, so that it is sent before the end. exec: what is sent to the batch script (USR1, TERM) reaches Python.
#SBATCH --signal=B:USR1@30
exec python3 "${EXAMPLES:-$SLURM_SUBMIT_DIR}/logistic_regression.py" "$1"
