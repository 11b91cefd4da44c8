#!/usr/bin/env bash
# Compare container runtimes on growing numbers of nodes, in one job: all arms on the same nodes, in
# random order, in blocks. Not sbatch's to start: this submits.
#
#   sbatch/sbatch-compare-runtimes.sh SCENARIO "1 2 4 8" [further options of ncbench sbatch…]
#   sbatch/sbatch-compare-runtimes.sh configs/slurm-gh200.yaml "1 2 4" -D launch.slurm.account=g123
#
# The job asks for the largest number; smaller cells run on the first of its nodes. When the time is
# over, or a node dies, `sbatch compare.sbatch SESSION` goes on where it ended.
set -euo pipefail

[ "$#" -ge 2 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
scenario=$1
counts=$2
shift 2
for n in $counts; do
    case $n in '' | *[!0-9]* | 0*) echo "$0: error: \"$n\" is no number of nodes" >&2; exit 2 ;; esac
done
list=$(echo "$counts" | tr -s ' ' ',')
: "${NCBENCH:=ncbench}"

"$NCBENCH" check --portable "$scenario" -D "matrix.nodes=[$list]" >&2
exec "$NCBENCH" sbatch "$scenario" -D "matrix.nodes=[$list]" --submit -o compare.sbatch "$@"
