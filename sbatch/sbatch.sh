#!/usr/bin/env bash
# Train a base model from start to end and evaluate it, on the nodes of one job; no benchmark.
#
#   sbatch --nodes=2 --gpus-per-node=4 --cpus-per-task=288 sbatch/sbatch.sh
#   DEVICE=cpu DEPTH=2 SEQ_LEN=64 DEVICE_BATCH=1 ROWS_PER_RANK=1 STEPS=20 RANKS_PER_NODE=1 \
#       DATA_SOURCE=synthetic VOCAB=512 LEAST_SPLIT_TOKENS=65536 sbatch --nodes=2 sbatch/sbatch.sh
#
# Evaluation takes ten million tokens a split unless LEAST_SPLIT_TOKENS says otherwise: hours on a CPU.
# Data and tokenizer are prepared before (sbatch/e2e-interactive.txt): they lie on a file system that
# all nodes see, below NANOCHAT_BASE_DIR.
#SBATCH --job-name=nanochat
#SBATCH --ntasks-per-node=1
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.out
set -euo pipefail

: "${SLURM_JOB_ID:?this is a job script: sbatch --nodes=N $0}"
: "${NANOCHAT:=nanochat}" # the program, on PATH or with its path
: "${NANOCHAT_BASE_DIR:=$HOME/.cache/nanochat}"
: "${DEVICE:=cuda}" "${DEPTH:=20}" "${SEQ_LEN:=2048}" "${DEVICE_BATCH:=16}" "${STEPS:=-1}"
: "${DATA_SOURCE:=text}" "${DATA:=$NANOCHAT_BASE_DIR/base_data}" "${TOKENIZER:=$NANOCHAT_BASE_DIR/tokenizer}"
: "${VOCAB:=65536}"
: "${RANKS_PER_NODE:=${SLURM_GPUS_ON_NODE:-1}}"
export NANOCHAT_BASE_DIR
RANKS=$((SLURM_JOB_NUM_NODES * RANKS_PER_NODE))
# shellcheck source=sbatch/shape.sh
. "${SBATCH_DIR:-${SLURM_SUBMIT_DIR:-.}/sbatch}/shape.sh"

data=(--data-source="$DATA_SOURCE")
if [ "$DATA_SOURCE" = synthetic ]; then
    data+=(--vocab-size="$VOCAB")
else
    data+=(--data="$DATA" --tokenizer="$TOKENIZER")
fi

# One task a node; nanochat launch starts the ranks of its node and finds the others by what Slurm says.
ranks() {
    srun --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" --mpi=none \
        "$NANOCHAT" launch --rendezvous=slurm --nproc-per-node="$RANKS_PER_NODE" -- "$@"
}

echo "$SLURM_JOB_NUM_NODES nodes, $RANKS ranks, $TOTAL_BATCH tokens a step"
ranks base-train --device-type="$DEVICE" --depth="$DEPTH" --max-seq-len="$SEQ_LEN" --device-batch-size="$DEVICE_BATCH" \
    --total-batch-size="$TOTAL_BATCH" --num-iterations="$STEPS" --eval-tokens="$SPLIT_TOKENS" --model-tag="job$SLURM_JOB_ID" "${data[@]}"
ranks base-loss --device-type="$DEVICE" --device-batch-size="$DEVICE_BATCH" --split-tokens="$SPLIT_TOKENS" \
    --model-tag="job$SLURM_JOB_ID"
