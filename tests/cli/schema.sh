# The JSON Schemas that ship describe what is written: real sessions of every kind of end.
. tests/cli/lib.sh
. tests/cli/session_lib.sh
command -v python3 >/dev/null || { echo "python3 is not installed"; exit 77; }

holds() { # SCHEMA FILES…
    local schema=$1
    shift
    check "$schema.json holds for $# file(s)" python3 tests/cli/schema.py "results/schemas/$schema.json" "$@"
}

scenario good "$PAYLOAD, hello, steps, '4', '0.01', done, '0', exit, '0'" \
    "workload: {exec: [$PAYLOAD, hello, steps, '4', '0.01', done, '0', exit, '0'], events: required}" \
    'runtimes: [{name: bare, kind: bare}, {name: other, kind: command, prefix: [env, "{argv}"]}]'
session 0 'a session that is ok' good
scenario silent "$PAYLOAD, exit, '0'"
session 0 'a session without events' silent
scenario bad "$PAYLOAD, kill-self, '11'"
session 5 'a session that failed' bad
scenario absent "$T/none"
session 5 'a program that is not there' absent
cat >"$T/verb.yaml" <<'END'
version: 1
name: verb
baseline: bare
workload:
  command: base-train
  model: {depth: 1, max_seq_len: 32, vocab_size: 256}
  train: {device_batch_size: 1, total_batch_size: 32, num_iterations: 4, eval_every: -1, sample_every: -1, save_every: 0}
  data: {source: synthetic}
runtimes: [{name: bare, kind: bare}]
sampling: {looks: [2], discard_first_block: false}
limits: {trial: 60s, disk_free: 64KiB}
END
session 0 'nanochat' verb
cat >"$T/fake.yaml" <<'END'
version: 1
name: fake
baseline: left
workload: {exec: [nothing], events: none}
runtimes:
  - {name: left, kind: fake, script: {step_time_s: 0.1, steps: 3}}
  - {name: right, kind: fake, script: {step_time_s: 0.1, steps: 3, fail_every: 1, outcome: oom}}
sampling: {looks: [2], discard_first_block: false}
limits: {disk_free: 64KiB}
END
session 5 'the fake runtime' fake

# shellcheck disable=SC2046
holds trial $(find "$R" -name trials.jsonl)
# shellcheck disable=SC2046
holds session $(find "$R" -name session.json)
# shellcheck disable=SC2046
holds plan $(find "$R" -name plan.jsonl)
# shellcheck disable=SC2046
holds launch $(find "$R" -name launch.json)
# and the checker does find faults
sed 's/"outcome":"ok"/"outcome":"fine"/' "$R"/good/*/trials.jsonl >"$T/wrong.jsonl"
check_rc 1 'a wrong record is found' python3 tests/cli/schema.py results/schemas/trial.json "$T/wrong.jsonl"
finish
