# shellcheck shell=bash
# The rules by which batch and evaluation follow the number of ranks, in one place. Sourced.
#   RANKS DEVICE_BATCH SEQ_LEN  →  TOTAL_BATCH SPLIT_TOKENS
# Each rank has the same work at every scale (weak scaling), and sizes divide evenly.
: "${ROWS_PER_RANK:=32}" # sequences of a step on each rank, in micro-batches of DEVICE_BATCH
TOTAL_BATCH=$((RANKS * ROWS_PER_RANK * SEQ_LEN))
# About ten million tokens a split, as upstream evaluates, rounded up to whole steps.
: "${LEAST_SPLIT_TOKENS:=10485760}"
step_tokens=$((RANKS * DEVICE_BATCH * SEQ_LEN))
SPLIT_TOKENS=$(((LEAST_SPLIT_TOKENS + step_tokens - 1) / step_tokens * step_tokens))
export TOTAL_BATCH SPLIT_TOKENS
