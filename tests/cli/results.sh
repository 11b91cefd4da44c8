# What lands in a results folder: strict JSON, whole files, many sessions side by side.
. tests/cli/lib.sh
. tests/cli/session_lib.sh
command -v jq >/dev/null || { echo "jq is not installed"; exit 77; }
command -v python3 >/dev/null || { echo "python3 is not installed"; exit 77; }

# A strict parser: no NaN, no Infinity, no key twice.
cat >"$T/strict.py" <<'END'
import json, sys
def bad(name): raise ValueError("constant " + name)
def once(pairs):
    keys = [k for k, _ in pairs]
    assert len(keys) == len(set(keys)), "a key twice"
    return dict(pairs)
for path in sys.argv[1:]:
    text = open(path, encoding="utf-8").read()
    for part in (text.splitlines() if path.endswith(".jsonl") else [text]):
        json.loads(part, parse_constant=bad, object_pairs_hook=once)
END
strict() { # WHAT: every JSON file of the session is strict, and holds no nan or inf
    local files
    files=$(find "$S" -name '*.json' -o -name '*.jsonl')
    # shellcheck disable=SC2086
    check "$1: a strict parser takes every file" python3 "$T/strict.py" $files
    # shellcheck disable=SC2086
    equal "$1: no nan, no inf" "$(grep -liE '[:[, ]-?(nan|inf(inity)?)[],} ]' $files)" ''
}

# ---- nothing was measured --------------------------------------------------------------------------
empty() { # NAME OUTCOME-RC 'payload commands'
    local argv="$PAYLOAD, $3"
    scenario "$1" "$argv" "workload: {exec: [$argv], events: required}"
    session "$2" "$1" "$1"
    strict "$1"
    equal "$1: the step time is null" "$(field 1 '.train.step_time_s.median')" null
    equal "$1: because there are no samples" "$(field 1 '.train.step_time_s.median_why')" 'no samples'
    check "$1: status" ncbench status "$S"
    check "$1: show" ncbench show "$S"
}
empty no-steps 0 "hello, done, '0', exit, '0'"
empty only-the-first-step 0 "hello, steps, '1', '0', done, '0', exit, '0'"
empty ended-early 5 "hello, exit, '3'"
argv="$PAYLOAD, hello, steps, '5', '0', done, '0', exit, '0'"
scenario no-time "$argv" "workload: {exec: [$argv], events: required}"
session 0 'steps that take no time' no-time
strict 'no time'
cat >"$T/zero.yaml" <<'END'
version: 1
name: zero
baseline: bare
workload:
  command: base-train
  model: {depth: 1, max_seq_len: 32, vocab_size: 256}
  train: {device_batch_size: 1, total_batch_size: 32, num_iterations: 1, eval_every: -1, sample_every: -1, save_every: 0}
  data: {source: synthetic}
runtimes: [{name: bare, kind: bare}]
sampling: {looks: [2], discard_first_block: false}
limits: {trial: 60s, disk_free: 64KiB}
END
session 0 'one iteration of nanochat' zero
strict 'one iteration'
equal 'one iteration has no steady step' "$(field 1 '.train.steady_steps')" 0
equal 'and no throughput' "$(field 1 '[.train.tokens_per_s, .train.tokens_per_s_why] | map(tostring) | join(" ")')" \
    'null no samples'

# ---- many at once ----------------------------------------------------------------------------------
scenario crowd "$PAYLOAD, sleep, '0.05', exit, '0'" \
    'runtimes: [{name: bare, kind: bare}, {name: other, kind: command, prefix: [env, "{argv}"]}]'
pids=
for i in $(seq 20); do
    ncbench run "$T/crowd.yaml" --out "$R" --blocks 1 --progress none >"$T/crowd.$i" 2>"$T/crowd.err.$i" &
    pids="$pids $!"
done
failed=0
for pid in $pids; do wait "$pid" || failed=$((failed + 1)); done
equal '20 parallel sessions end with 0' "$failed" 0
equal '20 folders' "$(find "$R/crowd" -mindepth 1 -maxdepth 1 -type d | wc -l)" 20
equal 'as many as were told' "$(cat "$T"/crowd.[0-9]* | sort -u | wc -l)" 20
lines=0 whole=0
for f in "$R"/crowd/*/trials.jsonl; do
    lines=$((lines + $(wc -l <"$f")))
    python3 "$T/strict.py" "$f" && whole=$((whole + 1))
done
equal 'every trials.jsonl is whole' "$whole $lines" '20 40'
equal 'trial ids are unique over all' \
    "$(cat "$R"/crowd/*/trials/*/launch.json | jq -r '.env[]' | grep -c ^NCBENCH_TRIAL_ID=)" \
    "$(cat "$R"/crowd/*/trials/*/launch.json | jq -r '.env[]' | grep ^NCBENCH_TRIAL_ID= | sort -u | wc -l)"
equal 'of two trials each' "$(cat "$R"/crowd/*/trials/*/launch.json | jq -r '.env[]' | grep -c ^NCBENCH_TRIAL_ID=)" 40
# A lock guards a session against a second ncbench on it, but no session needs one: some parallel
# file systems have none.
if command -v strace >/dev/null; then
    # LeakSanitizer cannot look at a program that strace holds.
    check 'a file system without locks is good enough' env ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" strace -f -o "$T/locks" \
        -e inject=flock:error=ENOLCK -e trace=flock \
        ncbench run "$T/crowd.yaml" --out "$R" --blocks 1 --progress none
    match 'the lock did fail' 'flock.*ENOLCK' "$T/locks"
else
    skip 'a file system without locks is good enough' 'strace is not installed'
fi

# ---- a folder that cannot take results -------------------------------------------------------------
scenario one "$PAYLOAD, exit, '0'"
touch "$T/file"
check_rc 8 'the results folder is a file' ncbench run "$T/one.yaml" --out "$T/file" --progress none
match 'it is named' "$T/file" "$ERR"
scenario greedy "$PAYLOAD, exit, '0'" 'limits: {disk_free: 1000000GiB}'
check_rc 8 'less free than limits.disk_free' ncbench run "$T/greedy.yaml" --out "$R" --progress none
match 'both are told' 'free, limits.disk_free asks for' "$ERR"
if [ "$(id -u)" -ne 0 ]; then
    mkdir -m 555 "$T/closed"
    check_rc 8 'a folder without write permission' ncbench run "$T/one.yaml" --out "$T/closed" --progress none
fi
check_rc 8 'status to a full device' sh -c "ncbench status '$S' >/dev/full"
check_rc 8 'show to a full device' sh -c "ncbench show '$S' >/dev/full"
check_rc 8 'the plan to a full device' sh -c "ncbench run '$T/one.yaml' --dry-run >/dev/full"

# ---- a full disk -----------------------------------------------------------------------------------
# A tmpfs of our own, which a filler leaves a few KiB of; everything inside one mount namespace.
if [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null; then
    scenario full "$PAYLOAD, exit, '0'" 'limits: {trial: 20s, kill_grace: 1s, disk_free: 1B}' \
        'sampling: {looks: [2], discard_first_block: false}'
    cat >"$T/full.sh" <<END
mkdir -p $T/tmpfs
mount -t tmpfs -o size=192k none $T/tmpfs || exit 77
ncbench run $T/full.yaml --out $T/tmpfs/results --blocks 200 --progress none >$T/full.out 2>$T/full.err
echo \$? >$T/full.rc
cp -r $T/tmpfs/results $T/kept
END
    run unshare -m sh "$T/full.sh"
    if [ -s "$T/full.rc" ]; then
        equal 'a disk that fills up is exit 8' "$(cat "$T/full.rc")" 8
        match 'the file that failed is named' 'tmpfs/results/full/[^:]*: (No space left on device|0 B free)' "$T/full.err"
        S=$(find "$T/kept/full" -mindepth 1 -maxdepth 1 -type d)
        check 'session.json is whole' jq -e .schema "$S/session.json"
        check 'every record is whole' python3 "$T/strict.py" "$S/trials.jsonl"
        equal 'no file aside is left' "$(find "$S" -name '*.tmp.*')" ''
        equal 'nothing survives' "$(survivors)" ''
    else
        skip 'a disk that fills up' 'no tmpfs can be mounted'
    fi
    # The record itself does not fit: the file is named, and no part of it stays.
    cat >"$T/last.sh" <<END
mkdir -p $T/tmpfs
mount -t tmpfs -o size=256k none $T/tmpfs || exit 77
cat >$T/fill.sh <<'FILL'
#!/bin/sh
dd if=/dev/zero of=$T/tmpfs/filler bs=1k 2>/dev/null
exit 0
FILL
chmod +x $T/fill.sh
ncbench run $T/last.yaml --out $T/tmpfs/results --blocks 1 --progress none >$T/last.out 2>$T/last.err
echo \$? >$T/last.rc
cp -r $T/tmpfs/results $T/kept2
END
    scenario last "$T/fill.sh" 'limits: {trial: 20s, kill_grace: 1s, disk_free: 1B}'
    run unshare -m sh "$T/last.sh"
    if [ -s "$T/last.rc" ]; then
        equal 'a record that does not fit is exit 8' "$(cat "$T/last.rc")" 8
        match 'trials.jsonl is named' 'cannot write .*/trials.jsonl: No space left on device' "$T/last.err"
        equal 'no half record stays' "$(wc -c <"$(find "$T/kept2" -name trials.jsonl)")" 0
        check 'session.json is whole' jq -e .schema "$(find "$T/kept2" -name session.json)"
    else
        skip 'a record that does not fit' 'no tmpfs can be mounted'
    fi
else
    skip 'a disk that fills up' 'needs root and mount namespaces'
fi
finish
