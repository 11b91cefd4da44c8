#!/usr/bin/env bash
# A thousand ranks on one machine: planned, launched, read. Time and memory are told; files are counted.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/contract_lib.sh"
command -v jq >/dev/null || { echo "jq is not installed"; exit 77; }
[ "$(ulimit -u)" = unlimited ] || [ "$(ulimit -u)" -gt 4000 ] || { echo "no room for a thousand processes"; exit 77; }
RANKS=1000
payload=$(readlink -f "$BUILD/payload")
cat >"$T/scale.yaml" <<END
version: 1
name: scale
baseline: left
workload: {exec: [$payload, hello, steps, '5', '0.05', done, '0'], events: required}
runtimes: [{name: left, kind: bare}, {name: right, kind: bare}]
launch: {ranks_per_node: $RANKS, bind: none}
sampling: {looks: [2], stop: never, discard_first_block: false, warmup: {steps: 1}}
limits: {trial: 60s, kill_grace: 5s}
output: {dir: $T/results}
END
measure() { # OPTIONS of ncbench run: sets code, mib, seconds, S, files
    local begin=$SECONDS
    python3 - "$(command -v ncbench)" "$T" "$@" <<'END'
import resource, subprocess, sys
ncbench, directory = sys.argv[1:3]
with open(directory + "/err", "w") as err, open(directory + "/session", "w") as out:
    code = subprocess.run([ncbench, "run", "--blocks", "1", "--progress=none", directory + "/scale.yaml"] + sys.argv[3:], stdout=out, stderr=err).returncode
with open(directory + "/usage", "w") as out:
    print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, file=out)
END
    read -r code mib <"$T/usage"
    S=$(tail -n 1 "$T/session")
    files=$(find "$S/trials/c00.b00.left" -type f | wc -l)
    echo "# $RANKS ranks: $((SECONDS - begin)) s for two trials, $mib MiB at most in one process, $files files a trial"
}
measure
equal "a session of two trials" "$code" 0
equal "both are ok" "$(jq -r .outcome "$S/trials.jsonl" | sort | uniq -c | tr -s ' ')" " 2 ok"
equal "every rank has told its end" "$(grep -ls '"done"' "$S"/trials/c00.b00.left/events.* | wc -l)" "$RANKS"
equal "and the record knows of all" "$(field left '"\(.ranks) \(.events.files)"')" "$RANKS $RANKS"
equal "three files a rank, and the launcher's" "$files" $((3 * RANKS + 1))
equal "memory is bounded" "$((mib < 512))" 1
measure -D output.trial_files=per-node
equal "sharing a file: a session of two trials" "$code" 0
equal "sharing a file: both are ok" "$(jq -r .outcome "$S/trials.jsonl" | sort | uniq -c | tr -s ' ')" " 2 ok"
equal "sharing a file: the record knows of all ranks, by one file, and of no bad line" \
    "$(field left '"\(.ranks) \(.events.files) \(.events.lines) \(.events.bad_lines) \(.events.torn_files)"')" "$RANKS 1 $((7 * RANKS)) 0 0"
equal "no process is left" "$(processes_left)" ""
finish
