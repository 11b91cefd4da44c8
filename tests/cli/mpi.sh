#!/usr/bin/env bash
# --comm=mpi: what it says without MPI and of one that fails; then, under a real mpirun, the losses of shared memory to
# the last bit, and peers that die, stop or never come.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
command -v jq >/dev/null || { echo "jq is not installed"; exit 77; }
export OMP_NUM_THREADS=1 NANOCHAT_BASE_DIR=$T/base
tiny=(base-train "${TINY_TRAINING[@]}" --save-every=0)
never=1000000

# ---- no MPI where it is asked for ------------------------------------------------------------------
export NANOCHAT_MPI_LIB=$T/nanochat-mpi.so
check_rc 4 "without the library" nanochat "${tiny[@]}" --num-iterations=1 --comm=mpi
match "it is named" 'the MPI back end cannot be opened: .*nanochat-mpi\.so' "$ERR"
match "and how to get it" 'hint: .*install-deps mpi' "$ERR"
cc -shared -fPIC -x c -o "$NANOCHAT_MPI_LIB" - <<<'int nothing;'
check_rc 4 "a library of something else" nanochat "${tiny[@]}" --num-iterations=1 --comm=mpi
match "it is refused" 'nanochat-mpi\.so is no MPI back end' "$ERR"

# ---- an MPI that fails, to rank 0 of 2 -------------------------------------------------------------
# failing INIT RECEIVE POLL: each the C expression of an error, 0 for none; with WORLD=1 there is no other rank
WORLD=2
failing() {
    cc -shared -fPIC -I. -x c -o "$NANOCHAT_MPI_LIB" - <<END
#include "workload/mpi/transport.h"
#include <unistd.h>
static const char *start(int slots, int *rank, int *world) { return *rank = 0, *world = $WORLD, slots == 4 * $WORLD ? $1 : "slots"; }
static const char *end(void) { return 0; }
static const char *give(int slot, int rank, int tag, const void *from, int bytes) { return 0; }
static const char *take(int slot, int rank, int tag, void *to, int bytes) { return $2; }
static const char *poll(struct mpi_done *done, int *n) { *n = 0; return $3; }
static const struct mpi_transport t = {start, end, end, give, take, poll};
const struct mpi_transport *nanochat_mpi_transport_1(void) { return &t; }
END
    run env RANK=0 WORLD_SIZE="$WORLD" nanochat "${tiny[@]}" --num-iterations=1 --comm=mpi --comm-timeout=300ms
}
failing '"no network"' 0 0
equal "MPI does not start: exit 4" $? 4
match "with its words" 'MPI does not start: no network' "$ERR"
failing '(const char *)(long)sleep(100)' 0 0
equal "MPI_Init that never ends: exit 8" $? 8
match "by the deadline" 'MPI_Init of rank 0 did not end within 0\.3 s' "$ERR"
failing 0 'tag == 1 ? "link down" : 0' 0
equal "a transfer that fails: exit 8" $? 8
match "the peer and MPI's words" 'lost rank 1 in init before the first step: link down' "$ERR"
failing 0 0 '"card gone"'
equal "a poll that fails: exit 8" $? 8
match "the peer that was waited for" 'lost rank 1 in init before the first step: card gone' "$ERR"
failing 0 0 0
equal "silence: exit 8" $? 8
match "by the deadline of a collective" 'lost rank 1 in init before the first step: it did not arrive within 0\.3 s' "$ERR"
WORLD=1 failing 0 0 0
equal "a single rank needs nobody" $? 0
unset NANOCHAT_MPI_LIB

# ---- a real one ------------------------------------------------------------------------------------
library=$BIN/../lib/nanochat-mpi.so
if [ ! -e "$library" ] || ! command -v mpirun >/dev/null; then
    skip "ranks under mpirun" "no $library, or no mpirun (tools/install-deps mpi, then make)"
    finish
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Open MPI leaves memory behind, by modules that it has unloaded, which cannot be told from others. The MPI above leaves
# none: with it what nanochat leaks counts.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0

# training DIR "COMMAND" OPTION…: one training, its events in DIR; the words of the command start the ranks
training() {
    local dir=$1 launcher
    read -ra launcher <<<"$2"
    shift 2
    mkdir -p "$dir"
    NCBENCH_TRIAL_DIR=$dir timeout 120 "${launcher[@]}" "${tiny[@]}" "$@"
}
mpi() { echo mpirun --oversubscribe -n "$@" nanochat; }
launch() { echo nanochat launch --nproc-per-node="$1" --; }
last() { tail -n 1 "$1/events.rank0000$2.jsonl"; }
# Of every step, with all their digits.
losses() { jq -r 'select(.event == "step") | [.step, .loss, .grad_norm] | join(" ")' "$1/events.rank0000$2.jsonl"; }

for n in 1 2 4; do
    check "$n ranks over MPI" training "$T/mpi$n" "$(mpi "$n")" --num-iterations=5 --comm=mpi
    check "$n ranks over shared memory" training "$T/shm$n" "$(launch "$n")" --num-iterations=5
    equal "$n ranks: five steps" "$(losses "$T/mpi$n" 0 | wc -l)" 5
    equal "$n ranks: the same losses and norms, to the last bit" "$(losses "$T/mpi$n" 0)" "$(losses "$T/shm$n" 0)"
    equal "$n ranks: on all of them" "$(losses "$T/mpi$n" $((n - 1)))" "$(losses "$T/mpi$n" 0)"
    equal "$n ranks: by MPI" "$(jq -r 'select(.event == "env").rank | "\(.comm_backend) \(.world)"' \
        "$T/mpi$n/events.rank00000.jsonl")" "mpi $n"
done
check "over TCP" training "$T/tcp2" "$(launch 2)" --num-iterations=5 --comm=tcp
equal "the same losses, to the last bit" "$(losses "$T/mpi2" 0)" "$(losses "$T/tcp2" 0)"
check "mpirun's ranks over shared memory" training "$T/env2" "$(mpi 2)" --num-iterations=5
equal "the same losses" "$(losses "$T/mpi2" 0)" "$(losses "$T/env2" 0)"
for n in 2 3; do
    check "comm-perf, $n ranks" timeout 120 mpirun --oversubscribe -n "$n" nanochat comm-perf --comm=mpi -b 1000B -e 9000000B -f 30 -n 3 -w 1 --json
    equal "every element is right" "$(jq -c '[.results[].wrong] | unique' "$OUT")" '[0]'
    match "the library is named" '"library": *"(Open MPI|MPICH|Intel)' "$OUT"
done

# ---- two runs of one user at once -----------------------------------------------------------------
# Late ranks of either find the segment or the port of the other first.
for comm in shm tcp; do
    for seed in 1 2; do
        check "$comm: a run with seed $seed alone" training "$T/$comm-alone$seed" "$(mpi 2)" --num-iterations=5 --comm=$comm --seed=$seed
    done
    late() { # SEED RANK: a run whose rank comes a second late
        mkdir -p "$T/$comm-both$1"
        NCBENCH_TRIAL_DIR=$T/$comm-both$1 timeout 120 mpirun --oversubscribe -n 2 \
            sh -c '[ "$OMPI_COMM_WORLD_RANK" != "$0" ] || sleep 1; exec "$@"' "$2" nanochat "${tiny[@]}" --num-iterations=5 \
            --comm=$comm --seed="$1" >"$T/$comm-both$1.log" 2>&1
    }
    late 1 1 &
    late 2 0
    equal "$comm: two runs at once: the second ends well" "$?" 0
    wait $!
    equal "$comm: and so does the first" "$?" 0
    for seed in 1 2; do
        equal "$comm: seed $seed: the losses that it has alone" "$(losses "$T/$comm-both$seed" 0)" "$(losses "$T/$comm-alone$seed" 0)"
    done
    equal "$comm: which differ" "$([ "$(losses "$T/$comm-alone1" 0)" != "$(losses "$T/$comm-alone2" 0)" ] && echo yes)" yes
done

# ---- who is not what MPI thinks --------------------------------------------------------------------
check_rc 2 "ranks that mpirun has not started" nanochat launch --nproc-per-node=2 -- "${tiny[@]}" --num-iterations=1 --comm=mpi
match "are told what MPI sees" 'to MPI this is rank 0 of 1, to its environment rank [01] of 2' "$ERR"
match "and the way out" 'hint: .*started by mpirun' "$ERR"
check_rc 2 "ranks that do not know of each other" timeout 120 mpirun --oversubscribe -n 2 \
    env -u OMPI_COMM_WORLD_RANK -u PMI_RANK nanochat "${tiny[@]}" --num-iterations=1 --comm=mpi

# ---- peers that are lost ---------------------------------------------------------------------------
check_rc 8 "a rank that never comes" timeout 120 mpirun --oversubscribe -n 2 \
    sh -c '[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exec sleep 30; exec "$0" "$@"' \
    nanochat "${tiny[@]}" --num-iterations=1 --comm=mpi --comm-timeout=1s
match "is missed by MPI_Init" 'MPI_Init of rank 0 did not end within 1 s: not all of the 2 ranks have come' "$ERR"

# lose NAME SIGNAL MPIRUN-OPTION…: a training of 3 ranks whose rank 1 gets a signal; its pid is in $VICTIM
lose() {
    local name=$1 signal=$2
    shift 2
    training "$T/$name" "$(mpi 3 "$@")" --total-batch-size=96 --num-iterations=$never --comm=mpi --comm-timeout=2s \
        >"$OUT" 2>"$ERR" </dev/null &
    LAUNCHER=$!
    wait_until "$name: rank 1 makes a step" 60 grep -qs '"step":2,' "$T/$name/events.rank00001.jsonl"
    VICTIM=$(jq -r 'select(.event == "hello").pid' "$T/$name/events.rank00001.jsonl" 2>/dev/null | head -n 1)
    kill -s "$signal" "$VICTIM"
}
# Where mpirun would end the others itself, it is told not to, so that they can.
if mpirun --enable-recovery -n 1 true >/dev/null 2>&1; then
    lose killed KILL --enable-recovery
    wait "$LAUNCHER"
    for r in 0 2; do
        equal "killed: rank $r ends with 8" "$(last "$T/killed" $r | jq -c '[.event, .exit_code]')" '["done",8]'
        equal "killed: rank $r names the peer" \
            "$(jq 'select(.event == "peer_lost").rank' "$T/killed/events.rank0000$r.jsonl")" 1
    done
    match "killed: in words" 'lost rank 1 in [a-z_]+ of step [0-9]+: it did not arrive within 2 s' "$ERR"

    lose stopped STOP --enable-recovery
    wait_until "stopped: rank 0 gives up" 60 grep -qs '"event":"done"' "$T/stopped/events.rank00000.jsonl"
    wait_until "stopped: rank 2 gives up" 60 grep -qs '"event":"done"' "$T/stopped/events.rank00002.jsonl"
    kill -CONT "$VICTIM"
    wait "$LAUNCHER"
    for r in 0 1 2; do
        equal "stopped: rank $r ends with 8" "$(last "$T/stopped" $r | jq -c '[.event, .exit_code]')" '["done",8]'
    done
    # MPI on one host reads from the other's memory: what a rank sent that has ended since may never come, its last word
    # included.
    match "stopped: it says that it came too late, or whom it misses" \
        'the other ranks gave this rank \(1\) up|rank 1: error: lost rank [02] in' "$ERR"
else
    skip "what the ranks say of a lost one" "this mpirun ends them itself"
fi

lose ended KILL
wait "$LAUNCHER"
equal "mpirun left alone: no success, and no hang" "$(($? != 0 && $? != 124))" 1
finish
