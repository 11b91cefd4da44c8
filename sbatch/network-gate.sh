#!/usr/bin/env bash
# Is the network what it should be, before anything is timed on it? An all-reduce between two nodes of
# this job must come out within a band, else the job ends here (exit 4), with the figure.
#
#   sbatch/network-gate.sh LEAST MOST [options of nanochat comm-perf…]     GB/s on the bus
#
# In a scenario, so that every job checks first:
#   launch: {slurm: {setup: ["sbatch/network-gate.sh 20 60 --device-type=cuda"]}}
# NANOCHAT: the program, on PATH or with its path. RANKS_PER_NODE: 1.
set -euo pipefail

[ "$#" -ge 2 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
: "${SLURM_JOB_NUM_NODES:?this runs inside a job}"
: "${NANOCHAT:=nanochat}" "${RANKS_PER_NODE:=1}"
least=$1 most=$2
shift 2
if [ "$SLURM_JOB_NUM_NODES" -lt 2 ]; then
    echo "network gate: one node, nothing to cross"
    exit 0
fi
# What the job was submitted with decides nothing here: every choice is in the line below.
job=$SLURM_JOB_ID cpus=${SLURM_CPUS_ON_NODE:-1}
for variable in $(compgen -v SLURM_; compgen -v SRUN_); do
    [ "$variable" = SLURM_CONF ] || unset "$variable"
done
srun --jobid="$job" --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task="$cpus" --cpu-bind=none --mem=0 --overlap \
    --mpi=none --export=ALL \
    "$NANOCHAT" launch --rendezvous=slurm --nproc-per-node="$RANKS_PER_NODE" -- \
    comm-perf --op=all_reduce --min-bytes=64MiB --max-bytes=64MiB --least-busbw="$least" --most-busbw="$most" "$@"
echo "network gate: passed"
