# Ending a trial so that nothing survives, and what its end is called.
. tests/cli/lib.sh
. tests/cli/session_lib.sh
command -v jq >/dev/null || { echo "jq is not installed"; exit 77; }

# ---- a program that ignores TERM and hides a child behind setsid -----------------------------------
scenario stubborn "$PAYLOAD, ignore-term, fork-setsid, sleep, '600'" \
    'limits: {trial: 2s, kill_grace: 1s, max_failures: 1, disk_free: 64KiB}'
session 5 'a stubborn program is ended' stubborn
equal 'its outcome is timeout' "$(field 1 .outcome)" timeout
equal 'it was timed out and killed' "$(field 1 '[.exit.timed_out, .exit.killed] | join(" ")')" 'true true'
equal 'not before limit and grace' "$(less 2.99 "$(field 1 .wall_s)")" yes
equal 'soon after limit and grace' "$(less "$(field 1 .gone_s)" 6)" yes
equal 'no process of it is left' "$(survivors)" ''
child=$(head -n 1 "$S/trials/c00.b00.bare/rank00000.out")
case $child in
'' | *[!0-9]*) not_ok 'the payload told its child' "got: $child" ;;
*) if kill -0 "$child" 2>/dev/null; then not_ok 'the hidden child is gone'; else ok 'the hidden child is gone'; fi ;;
esac

# The same when it was the program's own end that left the child behind.
scenario leaver "$PAYLOAD, fork-setsid, exit, '0'"
session 0 'a program that leaves a child behind' leaver
equal 'is ok' "$(field 1 .outcome)" ok
equal 'and flagged' "$(field 1 '.flags[0] | startswith("strays_killed")')" true
equal 'the child it left is ended' "$(survivors)" ''

# ---- the next trial starts only when the last one is gone ------------------------------------------
scenario slow-death "sh, -c, 'trap \"sleep 0.5; exit 1\" TERM; while :; do sleep 0.05; done'" \
    'limits: {trial: 1s, kill_grace: 3s, max_failures: 9, disk_free: 64KiB}' \
    'sampling: {looks: [2], discard_first_block: false}'
BLOCKS=3 session 5 'three trials that need a while to die' slow-death
equal 'timeouts, each trial once' \
    "$(jq -r '.trial + " " + .outcome' "$S/trials.jsonl" | sort | uniq -d | wc -l)" 0
equal 'all of them' "$(jq -r .outcome "$S/trials.jsonl" | sort | uniq -c | xargs)" '4 timeout'
equal 'no trial was started before the last one was gone' "$(jq -s '
    [range(1; length) as $i
     | .[$i].mono_origin_s + .[$i].spawn_s > .[$i - 1].mono_origin_s + .[$i - 1].gone_s]
    | all' "$S/trials.jsonl")" true
equal 'each ended in its grace time' "$(jq -s '[.[] | .exit.killed == false] | all' "$S/trials.jsonl")" true

# ---- no output -------------------------------------------------------------------------------------
scenario silent "$PAYLOAD, sleep, '600'" \
    'limits: {trial: 50s, no_output: 1s, kill_grace: 1s, max_failures: 1, disk_free: 64KiB}'
session 5 'a program that says nothing' silent
match 'is a timeout that names its limit' '"timeout".*limits.no_output \(1 s\)' "$S/trials.jsonl"

# ---- signals to ncbench ----------------------------------------------------------------------------
# ready FILE: whether the program of its newest session has said so
ready() {
    newest "$1" && grep -qs ready "$S"/trials/*/rank00000.out
}
# start FILE: in the background, with the default action for INT (a shell's & ignores it).
start() {
    env --default-signal=INT,TERM timeout 60 env --default-signal=INT,TERM \
        ncbench run "$T/$1.yaml" --out "$R" --progress none --blocks 1 >"$OUT" 2>"$ERR" &
    BACKGROUND=$!
    wait_until "$1: its program is ready" 20 ready "$1"
    NCBENCH=$(jq .pid "$S/session.json")
}
finished() { wait "$BACKGROUND"; rc=$?; }

# That they are seen while they run: the program, its child behind setsid, and what kill -0 says of it.
scenario seen "$PAYLOAD, ignore-term, fork-setsid, print, ready, sleep, '600'" \
    'limits: {trial: 60s, kill_grace: 1s, disk_free: 64KiB}'
start seen
equal 'while it runs, the program and its hidden child are seen' "$(survivors | wc -l)" 2
child=$(head -n 1 "$S/trials/c00.b00.bare/rank00000.out")
check 'the hidden child among them' kill -0 "$child"
kill -TERM "$NCBENCH"
finished
equal 'after TERM none is' "$(survivors)" ''
check_rc 1 'nor the hidden child' kill -0 "$child"

events="$PAYLOAD, hello, steps, '3', '0.02', print, ready"
for sig in TERM INT HUP; do
    scenario "sig$sig" "$events, sleep, '600'" "workload: {exec: [$events, sleep, '600'], events: required}"
    start "sig$sig"
    kill -"$sig" "$NCBENCH"
    finished
    equal "$sig ends the session with 128+N" "$rc" "$((128 + $(kill -l $sig)))"
    equal "$sig: the record is cancelled, with its steps" \
        "$(field 1 '[.outcome, .train.steps] | join(" ")')" 'cancelled 3'
    equal "$sig: the program was asked, not killed" "$(field 1 .exit.killed)" false
    equal "$sig: nothing survives" "$(survivors)" ''
    equal "$sig: session.json tells" "$(jq -r .state "$S/session.json")" cancelled
done

scenario twice "$PAYLOAD, ignore-term, hello, steps, '2', '0.01', print, ready, sleep, '600'" \
    'limits: {trial: 60s, kill_grace: 50s, disk_free: 64KiB}'
start twice
begin=$(date +%s)
kill -INT "$NCBENCH"
sleep 0.5
kill -INT "$NCBENCH"
finished
equal "a second INT does not wait for the grace time" "$rc" 130
equal 'for it ended sooner' "$(less $(($(date +%s) - begin)) 50)" yes
equal 'and the results parse' "$(field 1 '[.outcome, .exit.killed] | join(" ")')" 'cancelled true'
equal 'nothing survives it' "$(survivors)" ''

# ---- the session's own limit -----------------------------------------------------------------------
session 124 'a session limit is exit 124' twice --timeout 1s
equal 'its trial is cancelled' "$(field 1 .outcome)" cancelled

# ---- what an end is called -------------------------------------------------------------------------
# name | payload | outcome | a jq expression that holds
while IFS='|' read -r name argv outcome holds; do
    scenario "$name" "$PAYLOAD, $argv"
    session 5 "$name" "$name"
    equal "$name: outcome" "$(field 1 .outcome)" "$outcome"
    equal "$name: $holds" "$(field 1 "$holds")" true
done <<'END'
killed|kill-self, '9'|signalled|.exit.signal == 9
segv|kill-self, '11'|signalled|.exit.signal == 11 and (.exit | has("core_dumped"))
abort|kill-self, '6'|signalled|.exit.signal == 6
exit137|exit, '137'|workload_failed|.exit.signal == null and .exit.processes == [137]
exit255|exit, '255'|workload_failed|.exit.processes == [255]
exit1|exit, '1'|workload_failed|.exit.processes == [1]
exit6|exit, '6'|workload_failed|.exit.processes == [6]
exit9|exit, '9'|workload_failed|.exit.processes == [9]
exit125|exit, '125'|runtime_failed|.exit.processes == [125]
exit126|exit, '126'|not_executable|.exit.processes == [126]
exit127|exit, '127'|not_found|.exit.processes == [127]
END

# Of gigabytes on standard error the end is kept, and no more than that is ever in memory.
scenario flood "sh, -c, 'truncate -s 3G /dev/stderr; (echo; echo the end) >&2; exit 3'"
(
    case $BUILD in *asan*) ;; *) ulimit -v 2000000 ;; esac # a sanitizer maps terabytes
    run timeout 60 ncbench run "$T/flood.yaml" --out "$R" --progress none --blocks 1
    exit $?
)
equal 'gigabytes on standard error' $? 5
S=$(tail -n 1 "$OUT")
equal 'its last line is told' "$(field 1 .hint)" 'the end'
rm -rf "$S"

# After hello the code is the program's, whatever it is.
for code in 1 2 6 9 125 126 127 137 255; do
    argv="$PAYLOAD, hello, steps, '2', '0.01', exit, '$code'"
    scenario "hello$code" "$argv" "workload: {exec: [$argv], events: required}"
    session 5 "hello, then exit $code" "hello$code"
    case $code in 6) want=numeric_failed ;; 9) want=oom ;; *) want=workload_failed ;; esac
    equal "hello, then exit $code: outcome and code" \
        "$(field 1 '.outcome + " " + (.exit.processes[0] | tostring)')" "$want $code"
done
argv="$PAYLOAD, hello, kill-self, '9'"
scenario hello-killed "$argv" "workload: {exec: [$argv], events: required}"
session 5 'hello, then killed' hello-killed
equal 'hello, then killed: signalled' "$(field 1 '.outcome + " " + (.exit.signal | tostring)')" 'signalled 9'

# Exit 0 is not enough.
while IFS='|' read -r name argv outcome reason; do
    scenario "$name" "$PAYLOAD, $argv" "workload: {exec: [$PAYLOAD, $argv], events: required}"
    session 5 "$name" "$name"
    equal "$name: outcome" "$(field 1 .outcome)" "$outcome"
    match "$name: says why" "$reason" "$S/trials.jsonl"
done <<'END'
never-done|hello, steps, '2', '0.01', exit, '0'|workload_failed|never wrote `done`
torn-event|hello, steps, '2', '0.01', torn, exit, '0'|workload_failed|never wrote `done`
done-says-no|hello, done, '3', exit, '0'|workload_failed|says exit_code 3
never-hello|print, x, exit, '0'|workload_failed|no rank ever said hello
END

# Two programs that both take themselves for rank 0 of 1.
argv="env, RANK=0, $PAYLOAD, hello, steps, '2', '0.01', done, '0', exit, '0'"
scenario twins "$argv" "workload: {exec: [$argv], events: required}" 'launch: {ranks_per_node: 2}'
session 5 'two processes that are both rank 0' twins
equal 'are invalid' "$(field 1 .outcome)" invalid
match 'and the record says it' 'processes said hello as rank 0' "$S/trials.jsonl"

# Two ranks; one dies, the other would wait for ever.
argv="sh, -c, 'if [ \$\$RANK = 1 ]; then exit 3; fi; sleep 600'"
scenario one-dies "$argv" 'launch: {ranks_per_node: 2}'
session 5 'one of two ranks dies' one-dies
equal 'its code is the reason' "$(field 1 '.outcome + " " + .reasons[0][0:6]')" 'workload_failed exit 3'
equal 'long before the limit' "$(less "$(field 1 .gone_s)" 10)" yes
equal 'the other one is gone' "$(survivors)" ''

# What cannot be executed.
echo text >"$T/not-executable"
scenario absent "$T/is-not-there"
session 5 'a program that is not there' absent
equal 'not_found' "$(field 1 .outcome)" not_found
scenario plain "$T/not-executable"
session 5 'a file that is no program' plain
equal 'not_executable' "$(field 1 .outcome)" not_executable

# Before hello: the tail of standard error is bounded text, and a hint is taken from it.
scenario garbage "$PAYLOAD, garbage, warn, 'Error: cannot find the thing', exit, '1'" \
    "workload: {exec: [$PAYLOAD, garbage, warn, 'Error: cannot find the thing', exit, '1'], events: required}"
session 5 'garbage on standard error' garbage
equal 'the record is one line of JSON' "$(jq -s length "$S/trials.jsonl")" 1
match 'the hint is the line that speaks of an error' '"hint":"Error: cannot find the thing"' "$S/trials.jsonl"

# ---- the OOM killer --------------------------------------------------------------------------------
# fixture NAME: a machine whose cgroup says oom_kill 0; the "program" makes it 1 and exits 0.
oom() { # what, evidence file below the root, text with 0, text with 1
    local root=$T/oom-$1 file=$2
    mkdir -p "$root/proc/self" "$(dirname "$root$file")"
    printf '%s' "$5" >"$root/proc/self/cgroup"
    printf %b "$3" >"$root$file"
    cat >"$T/oom-$1.sh" <<END
#!/bin/sh
printf '$4' >$root$file
exit 0
END
    chmod +x "$T/oom-$1.sh"
    scenario "oom-$1" "$T/oom-$1.sh"
    NCBENCH_FSROOT=$root session 5 "an OOM kill behind exit 0 ($1)" "oom-$1"
    equal "$1: oom, never ok" "$(field 1 .outcome)" oom
    equal "$1: the record names the file" "$(field 1 .cgroup.oom_file)" "$file"
    match "$1: so does the reason" "oom_kill in $file" "$S/trials.jsonl"
}
oom v2 /sys/fs/cgroup/job/memory.events 'low 0\noom 0\noom_kill 0\n' 'low 0\noom 1\noom_kill 1\n' \
    '0::/job
'
oom v1 /sys/fs/cgroup/memory/job/memory.oom_control 'under_oom 0\noom_kill 0\n' \
    'under_oom 0\noom_kill 2\n' '5:memory:/job
1:name=systemd:/x
'
oom inside /sys/fs/cgroup/memory.events 'oom 3\noom_kill 3\n' 'oom 4\noom_kill 4\n' '0::/not/visible/here
'

# ---- standard input --------------------------------------------------------------------------------
scenario reader "$PAYLOAD, print-stdin, exit, '0'"
printf 'a\nb\nc\n' | while read -r x; do
    ncbench run "$T/reader.yaml" --out "$R/$x" --progress none --blocks 1 >"$T/s.$x" 2>>"$ERR"
done
equal 'a surrounding loop of read sees all its lines' "$(cat "$T"/s.[abc] | wc -l)" 3
equal 'the program read nothing' "$(cat "$(cat "$T/s.a")"/trials/*/rank00000.out | wc -c)" 0
finish
