# measure.counters: counted by the ranks, never zero for want of a counter, compared only where every arm has it.
. "$(dirname "$0")/lib.sh"
command -v jq >/dev/null || { echo "jq is not installed"; exit 77; }

paranoid=$PWD/tests/fixtures/fsroot/perf-paranoid-4
cat >"$T/s.yaml" <<Y
version: 1
name: s
baseline: bare
workload:
  command: base-train
  model: {depth: 1, max_seq_len: 32, vocab_size: 256}
  train: {device_batch_size: 1, total_batch_size: 64, num_iterations: 8, eval_every: -1, sample_every: -1, save_every: 0}
  data: {source: synthetic}
  args: [--peak-time=0s]
runtimes:
  - {name: bare, kind: bare}
  - {name: low, kind: command, prefix: [env, "NCBENCH_FSROOT=$paranoid", "{argv}"]}
launch: {ranks_per_node: 2, bind: none}
measure: {counters: [PAPI_TOT_INS, "perf::CONTEXT-SWITCHES", "rusage::MINOR-FAULTS", NO_SUCH_EVENT]}
sampling: {looks: [2], order: sequential, discard_first_block: false, stop: never, warmup: {steps: 3, detect: false}}
limits: {disk_free: 1MiB}
output: {plots: [], report: []}
Y
check "a session" ncbench run --progress none --out "$T/r" "$T/s.yaml"
S=$(cat "$OUT")
of() { jq -c "select(.trial == \"c00.b00.$1\") | $2" "$S/trials.jsonl"; }
equal "some counters only" "$(of low .counters.status)" '"partial"'
match "the reason is named" '"reason": ?"PAPI_TOT_INS: .*perf_event_paranoid is 4 and CAP_PERFMON is missing' "$S/trials.jsonl"
equal "by a lower rung" "$(of low '.counters.sources["perf::CONTEXT-SWITCHES"]')" '"rusage"'
equal "what there is not has no count" "$(of low '.counters | [.PAPI_TOT_INS, .NO_SUCH_EVENT, (.unavailable | length)]')" \
    '[null,null,2]'
equal "a count a name: steady steps, both ranks" "$(of low '.train.steady_steps as $n | .counters
    | [(.per_step["rusage::MINOR-FAULTS"] | length), (.per_step["rusage::MINOR-FAULTS"][3:] | add) == .["rusage::MINOR-FAULTS"], $n]')" \
    '[8,true,5]'
equal "each rank tells each step" "$(cat "$S"/trials/c00.b00.bare/events.rank*.jsonl | grep -c '"event":"counters"')" 16
no_match "nothing is counted as nothing" '"(PAPI_TOT_INS|NO_SUCH_EVENT)":0' "$S/trials/c00.b00.low/events.rank00000.jsonl"
# ---- migrations, told at a rank's end
if grep -q nr_migrations /proc/self/sched 2>/dev/null; then
    equal "how often each rank was moved" "$(of bare '.cpu_migrations | [.source, (.per_rank | length), (.per_rank | add) == .total]')" '["proc",2,true]'
else
    skip "how often each rank was moved" "no nr_migrations here"
fi
# there is no /proc/self/task/N/sched in the fixture, and perf is forbidden
equal "where nobody counts it there is no zero" "$(of low '.cpu_migrations')" null
match "but every rung's reason" 'perf_event_paranoid is 4.*nr_migrations' <(of low '.cpu_migrations_why')
check "compare" ncbench compare "$S"
match "what both have from one source" '^ +all +rusage::MINOR-FAULTS +rusage +[0-9]' "$OUT"
match "what one lacks is not compared" 'NO_SUCH_EVENT is not compared: bare has none \(' "$OUT"
if [ "$(of bare '.counters.sources["perf::CONTEXT-SWITCHES"]')" = '"perf"' ]; then
    match "nor what comes from two sources" \
        'perf::CONTEXT-SWITCHES is not compared: low counts it by rusage, others by perf' "$OUT"
else
    skip "nor what comes from two sources" "perf events are forbidden here"
fi
check "as JSON" ncbench compare --json "$S"
equal "with the reason" "$(jq -c '.counters[] | select(.counter == "NO_SUCH_EVENT") | [.source, .per_step, (.per_step_why | length > 0)]' "$OUT")" \
    '[null,null,true]'

# ---- required --------------------------------------------------------------------------------------
check_rc 4 "required counters that are not there" ncbench check -D measure.require_counters=true "$T/s.yaml"
match "are named" 'counter NO_SUCH_EVENT is required: ' "$ERR"
check_rc 4 "run refuses too" ncbench run --progress none --out "$T/r2" -D measure.require_counters=true "$T/s.yaml"
sed 's/counters: .*/counters: ["rusage::MINOR-FAULTS", "sched::RUN-DELAY-NS"], require_counters: true}/' "$T/s.yaml" >"$T/need.yaml"
if [ -r /proc/self/schedstat ]; then
    check_rc 5 "a counter that one arm lacks" ncbench run --progress none --out "$T/r3" "$T/need.yaml"
    equal "makes its trials invalid" "$(jq -r '[.runtime, .outcome] | join(" ")' "$(cat "$OUT")/trials.jsonl" | sort -u | tr '\n' ' ')" \
        'bare ok low invalid '
    match "with the reason" 'counter sched::RUN-DELAY-NS is required, rank 0 has none: proc: no schedstat' "$(cat "$OUT")/trials.jsonl"
else
    skip "a counter that one arm lacks" "no schedstat in this kernel"
fi
sed 's/counters: .*/counters: []}/' "$T/s.yaml" >"$T/none.yaml"
check "none asked for" ncbench run --progress none --out "$T/r4" "$T/none.yaml"
equal "is said" "$(jq -c '[.counters.status, .counters.reason]' "$(cat "$OUT")/trials.jsonl" | sort -u)" \
    '["none","none was asked for"]'
check "check without a word about counters" ncbench check -D 'measure.counters=[]' "$T/s.yaml"

# ---- doctor, and nanochat by itself ----------------------------------------------------------------
check "doctor" ncbench doctor --runtime bare
equal "prints the ladder" "$(grep -c '^[A-Z]* *counters  *\(hardware events\|software events\|waiting for a CPU\|switches, faults, CPU time\): ' "$OUT")" 4
check "where it is forbidden" env NCBENCH_FSROOT="$paranoid" ncbench doctor --runtime bare
match "with the fix" '^WARN +counters +software events: .*paranoid is 4.*; fix: sysctl kernel.perf_event_paranoid=2' "$OUT"
match "the lowest rung is always there" '^OK +counters +switches, faults, CPU time: yes, by rusage$' "$OUT"
mkdir "$T/trial"
check "nanochat by itself" env NCBENCH_TRIAL_DIR="$T/trial" NANOCHAT_COUNTERS="rusage::MINOR-FAULTS, PAPI_NONSENSE" \
    nanochat base-train --depth=1 --max-seq-len=32 --vocab-size=256 --device-batch-size=1 --total-batch-size=32 \
    --num-iterations=2 --eval-every=-1 --sample-every=-1 --save-every=0 --data-source=synthetic --peak-time=0s
match "warns once" 'counter PAPI_NONSENSE is unavailable: ' "$ERR"
equal "and counts the other" "$(grep -c '"event":"counters".*"values":{"rusage::MINOR-FAULTS":[0-9]*}' "$T/trial/events.rank00000.jsonl")" 2
finish
