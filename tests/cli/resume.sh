# Going on with a session: after a kill at any byte, and not with something else.
. tests/cli/lib.sh
. tests/cli/session_lib.sh
command -v jq >/dev/null || { echo "jq is not installed"; exit 77; }

# ---- a small session of the fake runtime, cut at every byte ----------------------------------------
cat >"$T/fake.yaml" <<'END'
version: 1
name: fake
baseline: left
workload: {exec: [nothing], events: none}
runtimes:
  - {name: left, kind: fake, script: {step_time_s: 0.1, noise_sd: 0.001, steps: 3}}
  - {name: right, kind: fake, script: {step_time_s: 0.1, noise_sd: 0.001, steps: 3}}
sampling: {looks: [2], stop: never, discard_first_block: false, seed: 7, warmup: {steps: 1, detect: false}}
limits: {disk_free: 64KiB}
END
session 0 'a session of the fake runtime' fake --blocks 2
full=$S
# what must come out again: which trial had which outcome, by attempt
trials() { jq -r '.trial + " " + .outcome' "$1/trials.jsonl" | sed 's/\.a[0-9]* / /' | sort -u; }
trials "$full" >"$T/want"
equal 'two blocks of two arms' "$(wc -l <"$T/want")" 4

# Every byte that matters: around each end of a line, and a spread between.
cp -r "$full" "$T/copy"
size=$(stat -c %s "$full/trials.jsonl")
cuts=$(awk -v size="$size" '
    { end += length($0) + 1; for (d = -2; d <= 2; d++) print end + d }
    END { for (i = 0; i < size; i += int(size / 40)) print i; print size - 1 }' "$full/trials.jsonl" |
    awk -v size="$size" '$1 >= 0 && $1 <= size' | sort -nu)
broken=
for cut in $cuts; do
    rm -rf "$T/cut"
    cp -r "$T/copy" "$T/cut"
    head -c "$cut" "$full/trials.jsonl" >"$T/cut/trials.jsonl"
    whole=$(grep -c '' <"$T/cut/trials.jsonl")
    tail -c 1 "$T/cut/trials.jsonl" | grep -q '^$' || whole=$((whole - 1))
    [ "$cut" -gt 0 ] || whole=0
    head -n "$whole" "$T/cut/trials.jsonl" >"$T/kept"
    if ! ncbench run --resume "$T/cut" --progress none >"$OUT" 2>"$ERR"; then
        broken="$broken [$cut: exit $?: $(tail -n 1 "$ERR")]"
        continue
    fi
    cmp -s "$full/plan.jsonl" "$T/cut/plan.jsonl" || broken="$broken [$cut: another plan]"
    trials "$T/cut" | cmp -s - "$T/want" || broken="$broken [$cut: other records]"
    head -n "$whole" "$T/cut/trials.jsonl" | cmp -s - "$T/kept" || broken="$broken [$cut: a record was lost]"
    jq -e . "$T/cut/trials.jsonl" >/dev/null 2>&1 || broken="$broken [$cut: not JSON]"
    # every block is whole in one attempt
    jq -rs 'group_by([.cell.id, .block, .attempt]) | map(select(length == 2)) | map(.[0].block) | unique | length' \
        "$T/cut/trials.jsonl" | grep -qx 2 || broken="$broken [$cut: a block is not whole]"
done
equal "cut at $(echo "$cuts" | wc -w) bytes: same plan, no record lost, whole blocks" "$broken" ''
rm -rf "$T/cut"
cp -r "$T/copy" "$T/cut"
head -c $((size - 5)) "$full/trials.jsonl" >"$T/cut/trials.jsonl"
check 'a torn last line' ncbench run --resume "$T/cut" --progress none
equal 'is set aside' "$(head -n 1 "$T/cut/trials.torn")" "$(tail -n 1 "$full/trials.jsonl" | head -c -5)"

# ---- kill -9 in the middle -------------------------------------------------------------------------
cat >"$T/real.yaml" <<END
version: 1
name: real
baseline: bare
workload: {exec: [$PAYLOAD, print, ready, sleep, '0.3', exit, '0'], events: none}
runtimes:
  - {name: bare, kind: bare}
  - {name: other, kind: command, prefix: [env, '{argv}']}
sampling: {looks: [2], stop: never, discard_first_block: false, warmup: {steps: 1, detect: false}}
limits: {trial: 20s, kill_grace: 1s, disk_free: 64KiB}
END
ncbench run "$T/real.yaml" --out "$R" --progress none --blocks 2 >/dev/null 2>&1 &
background=$!
recorded() { newest real && [ -s "$S/trials.jsonl" ]; }
wait_until "a first trial is recorded" 20 recorded
kill -9 "$background"
wait "$background" 2>/dev/null
left() { [ "$(survivors | wc -l)" -eq "$1" ]; }
wait_until 'what ncbench started dies with it' 10 left 0 && ok 'what ncbench started dies with it'
check 'status of a session whose process is gone' ncbench status "$S"
match 'calls it lost' ': lost$' "$OUT"
check 'it is resumed by its directory' ncbench run --resume "$S" --progress none
check 'status of the resumed session' ncbench status "$S" --json
equal 'complete' "$(jq -r .state "$OUT")" complete
equal 'with all trials' "$(jq -r '[.cells[].ok >= 2] | all' "$OUT")" true
check 'a complete session has nothing left to do' ncbench run --resume "$S" --progress none
check 'FILE --resume takes the newest session' ncbench run "$T/real.yaml" --out "$R" --resume --progress none
equal 'which is that one' "$(cat "$OUT")" "$S"

# What a killed ncbench left running is ended first: here a child that hid from its death.
scenario hidden "$PAYLOAD, fork-setsid, print, ready, sleep, '600'"
ncbench run "$T/hidden.yaml" --out "$R" --progress none --blocks 1 >/dev/null 2>&1 &
background=$!
real=$S
ready() { newest hidden && grep -qs ready "$S"/trials/*/rank00000.out; }
wait_until "it is ready" 20 ready
H=$S
kill -9 "$background"
wait "$background" 2>/dev/null
wait_until 'a hidden child alone survives kill -9' 10 left 1 && ok 'a hidden child alone survives kill -9'
sed -i "s/fork-setsid, print, ready, sleep, '600'/exit, '0'/" "$T/hidden.yaml" "$H/scenario.yaml"
check 'resuming' ncbench run --resume "$H" --allow-drift --progress none
match 'says so' 'ending 1 process that the session left running' "$ERR"
equal 'and ends it' "$(survivors)" ''
S=$real

# A session that is still being run is not taken over.
jq '.state = "running" | .pid = '$$' | .pid_start_ticks = '"$(sed 's/.*) //' /proc/$$/stat | cut -d' ' -f20)" \
    "$S/session.json" >"$T/s.json" && cp "$T/s.json" "$S/session.json"
check_rc 4 'a running session is not resumed' ncbench run --resume "$S" --progress none
match 'its process is named' "still being run by process $$" "$ERR"
jq '.pid = 999999999' "$T/s.json" >"$S/session.json"

# Two at once: the second is refused before it touches anything of the first.
cat >"$T/both.yaml" <<END
version: 1
name: both
baseline: bare
workload: {exec: [$PAYLOAD, sleep, '0.2', exit, '0'], events: none}
runtimes: [{name: bare, kind: bare}]
sampling: {looks: [2], discard_first_block: false, warmup: {steps: 1, detect: false}}
limits: {trial: 20s, kill_grace: 1s, disk_free: 64KiB}
END
check 'a session to resume twice at once' ncbench run "$T/both.yaml" --out "$R" --progress none --blocks 2
B=$(cat "$OUT")
: >"$B/trials.jsonl"
rm -r "$B/trials"
exec 8<"$B/trials.jsonl"
flock 8
check_rc 4 'a session that another ncbench holds' ncbench run --resume "$B" --progress none
match 'is said to be held' 'another ncbench is running this session' "$ERR"
equal 'and nothing was run in it' "$(wc -c <"$B/trials.jsonl")" 0
exec 8<&-
ncbench run --resume "$B" --progress none >"$T/one.out" 2>"$T/one.err" &
first=$!
ncbench run --resume "$B" --progress none >"$T/two.out" 2>"$T/two.err" &
second=$!
wait "$first"
codes=$?
wait "$second"
case "$codes $?" in "0 0" | "0 4" | "4 0") ok 'of two at once one is refused, or comes after the other' ;;
*) not_ok 'of two at once one is refused, or comes after the other' "$(cat "$T/one.err" "$T/two.err")" ;; esac
equal 'each trial is recorded once' "$(jq -r .trial "$B/trials.jsonl" | sort | uniq -d)" ''
equal 'and all of them' "$(jq -r .outcome "$B/trials.jsonl" | uniq -c | tr -s ' ')" ' 2 ok'

# ---- drift -----------------------------------------------------------------------------------------
# drift WHAT PATTERN: refused with 4 and the pattern, allowed with --allow-drift as a new stratum
drift() {
    local before
    before=$(jq .stratum "$S/session.json")
    head -n 3 "$S/trials.jsonl" >"$T/three" && cp "$T/three" "$S/trials.jsonl"
    check_rc 4 "$1: refused" ncbench run --resume "$S" --progress none
    match "$1: said" "$2" "$ERR"
    check "$1: allowed when told to" ncbench run --resume "$S" --allow-drift --progress none
    equal "$1: a new stratum" "$(jq .stratum "$S/session.json")" "$((before + 1))"
    equal "$1: in the records" "$(tail -n 1 "$S/trials.jsonl" | jq .stratum)" "$((before + 1))"
}
cp "$PAYLOAD" "$T/program"
sed -i "s|$PAYLOAD|$T/program|; s/^name: real/name: drift/" "$T/real.yaml"
check 'a session to change under' ncbench run "$T/real.yaml" --out "$R" --progress none --blocks 2
S=$(cat "$OUT")
echo '# another line' >>"$T/real.yaml"
drift 'another scenario' 'not what it was: .*real.yaml: [0-9a-f]+, now'
sed -i '$d' "$T/real.yaml"
printf x >>"$T/program"
drift 'another program' "not what it was: .*the workload's program"
jq '.host = "elsewhere"' "$S/session.json" >"$T/s.json" && cp "$T/s.json" "$S/session.json"
drift 'another host' 'not what it was: .*host: elsewhere, now'
jq '.runtimes["c00.bare"].image = {digest: "sha256:old"}' "$S/session.json" >"$T/s.json" && cp "$T/s.json" "$S/session.json"
drift 'another image' 'not what it was: .*c00.bare: sha256:old, now none'

# ---- usage -----------------------------------------------------------------------------------------
check_rc 8 'no such session' ncbench run --resume "$T/nowhere/x"
check_rc 2 'a resumed session keeps its plan' ncbench run --resume "$S" --blocks 3
check_rc 2 'nothing to resume' ncbench run --resume
check_rc 2 "a job's session, outside of Slurm" env -u SLURM_JOB_ID ncbench run --resume=job "$T/real.yaml"
match '… says so' 'this is no job of Slurm' "$ERR"
check_rc 2 "a job's session of no scenario" env SLURM_JOB_ID=7 ncbench run --resume=job
finish
