# Ranks of nanochat that fail under ncbench: who, how, and that nothing is left.
. tests/cli/lib.sh
. tests/cli/session_lib.sh
command -v jq >/dev/null || { echo "jq is not installed"; exit 77; }

# nano NAME RANKS ITERATIONS 'further: options'
nano() {
    cat >"$T/$1.yaml" <<END
version: 1
name: $1
baseline: bare
$(training $(($2 * 32)) "$3" "$4")
runtimes: [{name: bare, kind: bare}]
launch: {ranks_per_node: $2, bind: none}
sampling: {looks: [2], discard_first_block: false}
limits: {trial: 50s, kill_grace: 5s, max_failures: 1, disk_free: 64KiB}
END
}

# in_background NAME: until rank 1 has made three steps; its pid is in $RANK1
in_background() {
    local events
    env --default-signal=INT,TERM timeout 100 env --default-signal=INT,TERM \
        ncbench run "$T/$1.yaml" --out "$R" --progress none --blocks 1 >"$OUT" 2>"$ERR" &
    BACKGROUND=$!
    wait_until "$1: rank 1 makes three steps" 30 stepping "$1"
    events=$S/trials/c00.b00.bare/events.rank00001.jsonl
    RANK1=$(jq -r 'select(.event == "hello").pid' "$events" 2>/dev/null | head -n 1)
}
finished() { wait "$BACKGROUND"; rc=$?; }

# ---- a rank is killed ------------------------------------------------------------------------------
nano lost 4 100000 ''
in_background lost
memory=$(shm_of "$RANK1")
kill -9 "$RANK1"
finished
equal 'a rank that is killed: exit 5' "$rc" 5
equal 'workload_failed, with the code of nanochat' \
    "$(field 1 '.outcome + " " + (.exit.processes[0] | tostring)')" 'workload_failed 8'
equal 'the failed rank and its signal are named' "$(field 1 '[.exit.failed_rank, .exit.signal] | join(" ")')" '1 9'
match 'also in words' 'rank 1 failed by signal 9' "$S/trials.jsonl"
equal 'the steps so far are in the record' "$(field 1 '.train.steps >= 3')" true
equal 'it did not wait for the limit' "$(less "$(field 1 .wall_s)" 45)" yes
equal 'nothing survives' "$(survivors)" ''
check 'no shared memory either' test ! -e "$memory"

# ---- the whole is ended from outside ---------------------------------------------------------------
nano stopped 2 100000 ''
in_background stopped
kill -TERM "$(jq .pid "$S/session.json")"
finished
equal 'TERM: exit 143' "$rc" 143
equal 'cancelled, with the steps so far' "$(field 1 '.outcome == "cancelled" and .train.steps >= 3')" true
equal 'each rank wrote a last event' "$(cat "$S"/trials/*/events.rank*.jsonl | grep -c '"event":"done"')" 2
equal 'and was not killed' "$(field 1 .exit.killed)" false
equal 'nothing survives' "$(survivors)" ''

# ---- a loss that is no number ----------------------------------------------------------------------
small='--depth=1, --max-seq-len=32, --vocab-size=256, --device-batch-size=1, --total-batch-size=32'
never='--eval-every=-1, --sample-every=-1, --save-every=0'
argv="$PWD/$BIN/nanochat, base-train, $small, $never, --num-iterations=20, --data-source=synthetic, --debug-nan-at-step=5"
scenario nan "$argv" "workload: {exec: [$argv], events: required}"
session 5 'a NaN at step 5' nan
equal 'numeric_failed, exit 6' "$(field 1 '.outcome + " " + (.exit.processes[0] | tostring)')" 'numeric_failed 6'
equal 'the record is JSON without it' "$(jq -s length "$S/trials.jsonl")" 1
no_match 'no nan in it' '[:, ]-?nan[,} ]' "$S/trials.jsonl"

# ---- the program says that memory does not suffice, or that a plan is impossible -------------------
nano plan 2 5 ''
sed -i 's/total_batch_size: 64/total_batch_size: 65/' "$T/plan.yaml"
check_rc 3 'an impossible batch is refused before anything starts' ncbench run "$T/plan.yaml" --out "$R" --progress none
finish
