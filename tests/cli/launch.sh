#!/usr/bin/env bash
# nanochat launch with real training runs: codes, streams, signals, losses, and that nothing is left.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
unset OMP_NUM_THREADS MASTER_ADDR MASTER_PORT NCBENCH_TRIAL_DIR
export NCBENCH_TRIAL_ID="launch-test-$$-$RANDOM"
export NANOCHAT_BASE_DIR=$T/base

tiny=(base-train --depth=2 --max-seq-len=32 --vocab-size=300 --device-batch-size=1
    --total-batch-size=128 --data-source=synthetic --eval-every=0 --save-every=0 --sample-every=0
    --threads=1)

trial() { # a fresh trial directory
    export NCBENCH_TRIAL_DIR=$T/$1
    mkdir "$NCBENCH_TRIAL_DIR"
}
# Processes of this test, by the mark in their environment (the shell itself has not got it).
left_over() {
    grep -lsazF "NCBENCH_TRIAL_ID=$NCBENCH_TRIAL_ID" /proc/[0-9]*/environ | tr -dc '0-9\n' |
        grep -vxF "$$" | while read -r pid; do [ -d "/proc/$pid" ] && cat "/proc/$pid/comm" 2>/dev/null; done |
        grep -cxF "${TEST_EMULATOR:-nanochat}"
}
# Wait until a rank has finished a step.
wait_for_step() { wait_until "rank $1 makes step $2" 120 grep -qs "\"step\":$2," "$NCBENCH_TRIAL_DIR/events.rank0000$1.jsonl"; }
pid_of_rank() { sed -n '1s/.*"pid": *\([0-9]*\).*/\1/p' "$NCBENCH_TRIAL_DIR/events.rank0000$1.jsonl"; }
done_of_rank() { tail -n 1 "$NCBENCH_TRIAL_DIR/events.rank0000$1.jsonl"; }

# ---- usage ---------------------------------------------------------------------------------------
check_rc 2 "no verb is a usage error" nanochat launch --nproc-per-node=2
check_rc 2 "a foreign program is a usage error" nanochat launch -- /bin/true
match "… that names it" '"/bin/true"' "$ERR"
check_rc 2 "launch cannot launch itself" nanochat launch -- launch
check_rc 2 "a node rank beyond the nodes" nanochat launch --nnodes=2 --node-rank=2 --master-port=1 -- info
check_rc 2 "several nodes need a port" nanochat launch --nnodes=2 -- info
check_rc 2 "no rank at all" nanochat launch --nproc-per-node=0 -- info

# ---- streams -------------------------------------------------------------------------------------
check "without a trial directory the streams are shared" nanochat launch --nproc-per-node=1 -- info
match "… and standard output is the rank's" . "$OUT"
match "the number of threads is said" 'OMP_NUM_THREADS is not set: [0-9]+ for each rank' "$ERR"
# C28: a rank that read standard input would eat the rest of the list
n=0
while read -r _; do
    nanochat launch --nproc-per-node=1 -- info >/dev/null 2>&1
    n=$((n + 1))
done < <(printf 'a\nb\nc\n')
equal "standard input is left alone" "$n" 3

# ---- a good run ----------------------------------------------------------------------------------
trial good
check "two ranks train" nanochat launch --nproc-per-node=2 -- "${tiny[@]}" --num-iterations=4
for r in 0 1; do
    match "rank $r: hello first" '^1:.*"event": ?"hello"' <(grep -n . "$NCBENCH_TRIAL_DIR/events.rank0000$r.jsonl")
    match "rank $r: done with 0" '"event": ?"done".*"exit_code": ?0' <(done_of_rank $r)
    check "rank $r: has its files" ls "$NCBENCH_TRIAL_DIR/rank0000$r.out" "$NCBENCH_TRIAL_DIR/rank0000$r.err"
done
comm_id_of() { grep -o '"comm_id": *"[0-9a-f]*"' "$NCBENCH_TRIAL_DIR/events.rank0000$1.jsonl"; }
equal "both ranks share one communicator" "$(comm_id_of 0)" "$(comm_id_of 1)"
match "… that has an id" '[0-9a-f]{8}' <(comm_id_of 0)
match "the env event names the data's file system" '"trial_dir": ?\{"path".*"fs_type"' \
    <(grep '"env"' "$NCBENCH_TRIAL_DIR/events.rank00000.jsonl")
if command -v jq >/dev/null; then
    check "every line is strict JSON" jq -e . "$NCBENCH_TRIAL_DIR"/events.rank0000{0,1}.jsonl
else
    skip "every line is strict JSON" "no jq"
fi

# ---- files that the ranks of a node share ----------------------------------------------------------
trial shared
export NCBENCH_TRIAL_FILES=node
check "three ranks train into shared files" nanochat launch --nproc-per-node=3 -- "${tiny[@]}" --total-batch-size=384 --num-iterations=40
unset NCBENCH_TRIAL_FILES
equal "three files, and the topology" "$(cd "$NCBENCH_TRIAL_DIR" && echo [!t]*)" "events.node00000.jsonl node00000.err node00000.out"
if command -v jq >/dev/null; then
    events=$NCBENCH_TRIAL_DIR/events.node00000.jsonl
    check "every line is strict JSON" jq -e . "$events"
    equal "every rank's events are whole" "$(jq -r 'select(.event == "hello" or .event == "step" or .event == "done") | "\(.by_rank) \(.event)"' "$events" |
        sort | uniq -c | tr -s ' ' | tr '\n' ';')" " 1 0 done; 1 0 hello; 40 0 step; 1 1 done; 1 1 hello; 40 1 step; 1 2 done; 1 2 hello; 40 2 step;"
fi
trial shared_failure
NCBENCH_TRIAL_FILES=node check_rc 5 "a failing rank's messages are in the node's file" \
    nanochat launch --nproc-per-node=2 -- "${tiny[@]}" --data-source=text --data=/nonexistent
match "… which is named" "its messages are in $NCBENCH_TRIAL_DIR/node00000.err" "$ERR"
match "… and they are there, both ranks'" 'rank 1: error: cannot open .*tokenizer' "$NCBENCH_TRIAL_DIR/node00000.err"

# ---- binding, read back from inside --------------------------------------------------------------
if [ "$(nproc)" -ge 2 ]; then
    trial bound
    check "bound ranks train" nanochat launch --bind=cores --nproc-per-node=2 -- "${tiny[@]}" --num-iterations=1
    binding_of() { grep -o '"cpubind": *"[^"]*"' "$NCBENCH_TRIAL_DIR/events.rank0000$1.jsonl"; }
    if [ -n "$(binding_of 0)" ] && [ "$(binding_of 0)" != "$(binding_of 1)" ]; then
        ok "their bindings differ"
    else
        not_ok "their bindings differ" "$(binding_of 0) $(binding_of 1)"
    fi
else
    skip "bound ranks train" "one usable PU"
fi
# C23: what taskset leaves is what there is
first=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
check_rc 3 "more bound ranks than usable PUs" taskset -c "$first" nanochat launch --bind=cores --nproc-per-node=2 -- info
match "… says how many and which" "2 ranks to cores: 1 usable PU \\($first\\)" "$ERR"

# ---- failing ranks -------------------------------------------------------------------------------
trial plan
check_rc 3 "the ranks' code comes through" nanochat launch --nproc-per-node=2 -- "${tiny[@]}" --total-batch-size=100
match "… with the rank" 'rank [01] ended with exit code 3' "$ERR"

# C33: a rank is killed at work
trial killed
nanochat launch --nproc-per-node=4 -- "${tiny[@]}" --num-iterations=1000000 --comm-timeout=60s >"$OUT" 2>"$ERR" </dev/null &
launcher=$!
wait_for_step 1 3
equal "launcher and ranks are seen by their mark" "$(left_over)" 5
memory=$(shm_of "$(pid_of_rank 1)")
kill -KILL "$(pid_of_rank 1)"
wait "$launcher"
equal "a killed rank: exit 8" $? 8
match "… names rank, signal and step" 'rank 1 was ended by signal 9 \(Killed\) at step [0-9]+' "$ERR"
match "… an event of another rank names it" '"event": ?"peer_lost".*"rank": ?1,"step": ?[0-9]+' "$NCBENCH_TRIAL_DIR/events.rank00000.jsonl"
match "… and its done has 8" '"event": ?"done".*"exit_code": ?8' <(done_of_rank 0)
no_match "… the killed one has no done" '"event": ?"done"' "$NCBENCH_TRIAL_DIR/events.rank00001.jsonl"
equal "… no process is left" "$(left_over)" 0
check "… no shared memory is left" test ! -e "$memory"

trial stopped
nanochat launch --nproc-per-node=4 --grace=1s -- "${tiny[@]}" --num-iterations=1000000 --comm-timeout=2s >"$OUT" 2>"$ERR" </dev/null &
launcher=$!
wait_for_step 1 3
memory=$(shm_of "$(pid_of_rank 1)")
kill -STOP "$(pid_of_rank 1)"
wait "$launcher"
equal "a stopped rank: exit 8" $? 8
match "… an event names it" '"event": ?"peer_lost".*"rank": ?1,"step": ?[0-9]+' <(cat "$NCBENCH_TRIAL_DIR"/events.rank0000[023].jsonl)
equal "… no process is left" "$(left_over)" 0
check "… no shared memory is left" test ! -e "$memory"

# ---- C16: SIGTERM reaches the ranks --------------------------------------------------------------
trial cancelled
nanochat launch --nproc-per-node=2 -- "${tiny[@]}" --num-iterations=1000000 >"$OUT" 2>"$ERR" </dev/null &
launcher=$!
wait_for_step 0 2
wait_for_step 1 2
kill -TERM "$launcher"
wait "$launcher"
equal "SIGTERM: the ranks' own exit code" $? 8
for r in 0 1; do match "rank $r wrote a final event" '"event": ?"done"' <(done_of_rank $r); done
equal "… no process is left" "$(left_over)" 0

# Two at once are one: a runtime's client hands on what the whole group gets. The step is long, so that
# the second comes while the ranks still work.
trial doubled
nanochat launch --nproc-per-node=2 --grace=1m -- "${tiny[@]}" --total-batch-size=16384 --num-iterations=1000000 >"$OUT" 2>"$ERR" </dev/null &
launcher=$!
wait_for_step 0 1
kill -TERM "$launcher"
sleep 0.05
kill -TERM "$launcher" 2>/dev/null
wait "$launcher"
equal "SIGTERM twice at once: the ranks' own exit code" $? 8
for r in 0 1; do match "… rank $r wrote a final event" '"event": ?"done"' <(done_of_rank $r); done

# One that comes later does not wait for the grace time.
trial insisted
nanochat launch --nproc-per-node=2 --grace=10m -- "${tiny[@]}" --total-batch-size=16384 --num-iterations=1000000 >"$OUT" 2>"$ERR" </dev/null &
launcher=$!
wait_for_step 0 1
wait_for_step 1 1
rank=$(pid_of_rank 1)
kill -TERM "$launcher"
for ((i = 0; i < 20; i++)); do # the launcher wakes it once, when it asks
    kill -STOP "$rank"
    sleep 0.01
done 2>/dev/null
sleep 2.1
kill -TERM "$launcher" 2>/dev/null
wait "$launcher"
equal "a SIGTERM that comes later kills" $? 8
no_match "… before a final event" '"event": ?"done"' <(done_of_rank 1)
equal "… no process is left" "$(left_over)" 0

# ---- the launcher itself is killed ---------------------------------------------------------------
trial orphaned
nanochat launch --nproc-per-node=2 -- "${tiny[@]}" --num-iterations=1000000 >"$OUT" 2>"$ERR" </dev/null &
launcher=$!
wait_for_step 0 1
memory=$(shm_of "$(pid_of_rank 0)")
kill -KILL "$launcher"
wait "$launcher" 2>/dev/null
gone() { [ "$(left_over)" -eq 0 ]; }
wait_until "ranks die with the launcher" 10 gone && ok "ranks die with the launcher"
check "… and leave no shared memory" test ! -e "$memory"

# what is looked for has the name that the ranks take: a rank that waits for another
trial waits
port=$(free_port)
RANK=0 WORLD_SIZE=2 MASTER_PORT=$port nanochat "${tiny[@]}" --num-iterations=1 >"$OUT" 2>"$ERR" </dev/null &
alone=$!
memory=$(shm_name "$port" "$NCBENCH_TRIAL_ID")
wait_until "a rank that waits has its shared memory's name" 30 test -e "$memory" && ok "a rank that waits has its shared memory's name"
equal "… which its environment tells" "$(shm_of "$alone")" "$memory"
kill -TERM "$alone"
wait "$alone"
check "… and takes it with it" test ! -e "$memory"

# ---- a full disk: C31 ----------------------------------------------------------------------------
# shellcheck disable=SC2016 # expanded by the inner shell
full() { unshare -m sh -c 'mkdir -p "$0" && mount -t tmpfs -o size=64k tmpfs "$0" && exec "$@"' "$@"; }
export NCBENCH_TRIAL_DIR=$T/full
if unshare -m true 2>/dev/null && full "$NCBENCH_TRIAL_DIR" true 2>/dev/null; then
    check_rc 10 "events that cannot be written: exit 10" full "$NCBENCH_TRIAL_DIR" \
        nanochat launch --nproc-per-node=2 --log-dir="$T" -- "${tiny[@]}" --num-iterations=100000
    equal "… no process is left" "$(left_over)" 0
else
    skip "events that cannot be written: exit 10" "cannot mount a tmpfs (needs root)"
fi
unset NCBENCH_TRIAL_DIR
check_rc 10 "logs that cannot be written: exit 10" nanochat launch --log-dir=/proc/nowhere -- info

# ---- two "nodes" of one rank each, over TCP: bitwise what two ranks of one node compute -------------
steps() { jq -c 'select(.event=="step") | [.loss, .grad_norm]' "$T/$1/events.rank00000.jsonl"; }
for comm in shm tcp; do
    trial $comm
    check "two ranks of a node over $comm" nanochat launch --nproc-per-node=2 -- "${tiny[@]}" --num-iterations=4 --comm=$comm
    equal "… say so" "$(jq -r 'select(.event=="config").comm_backend' "$T/$comm/events.rank00000.jsonl")" $comm
done
trial nodes
port=$(free_port)
# as srun would start them
node() {
    SLURM_NODEID=$1 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST='localhost,n2' \
        nanochat launch --rendezvous=slurm --master-port=$port --nproc-per-node=1 -- "${tiny[@]}" --num-iterations=4
}
node 0 >/dev/null 2>&1 &
check "two nodes" node 1
wait $!
equal "… both" $? 0
equal "… over tcp" "$(jq -r 'select(.event=="config").comm_backend' "$T/nodes/events.rank00001.jsonl")" tcp
equal "four steps of both" "$(steps tcp | wc -l) $(steps nodes | wc -l)" "4 4"
equal "tcp computes what shm does, to the bit" "$(steps tcp)" "$(steps shm)"
equal "two nodes compute it too" "$(steps nodes)" "$(steps shm)"
check_rc 2 "a rendezvous without Slurm" env -u SLURM_NODEID nanochat launch --rendezvous=slurm -- info
match "… says what is missing" 'SLURM_NODEID' "$ERR"
finish
