# Sourced after lib.sh by the tests of `ncbench run`: scenarios of one command, and what records say.
#   scenario NAME 'ARGV, …' [line…]   $T/NAME.yaml: bare, one block, that foreign command
#   session …                         ncbench run … --blocks ${BLOCKS:-1} (all: as the scenario says), into $T/results; $S is the session's directory
#   newest NAME, stepping NAME        for wait_until: there is a session of it, $S; its rank 1 makes steps
#   field TRIAL-NUMBER EXPRESSION     of trials.jsonl, by jq
PAYLOAD=$PWD/$BUILD/payload
R=$T/results
S=

scenario() {
    local name=$1 argv=$2
    shift 2
    cat >"$T/$name.yaml" <<END
version: 1
name: $name
baseline: bare
workload: {exec: [$argv], events: none}
runtimes: [{name: bare, kind: bare}]
sampling: {looks: [2], discard_first_block: false, warmup: {steps: 1, detect: false}}
limits: {trial: 20s, kill_grace: 1s, max_failures: 1, disk_free: 64KiB}
END
    replace "$T/$name.yaml" "$@"
}

# replace FILE LINE…: each line takes the place of the one with its key
replace() {
    local file=$1 line
    shift
    for line in "$@"; do
        sed -i "/^${line%%:*}:/d" "$file"
        printf '%s\n' "$line" >>"$file"
    done
}

# session RC WHAT FILE [options…]
session() {
    local rc=$1 what=$2 file=$3 blocks=(--blocks "${BLOCKS:-1}")
    shift 3
    [ "${BLOCKS-}" != all ] || blocks=()
    check_rc "$rc" "$what" timeout 60 ncbench run "$T/$file.yaml" --out "$R" --progress none "${blocks[@]}" "$@"
    S=$(tail -n 1 "$OUT")
}

field() { sed -n "$1p" "$S/trials.jsonl" | jq -r "$2"; }

# training TOTAL-BATCH-SIZE ITERATIONS [', further: options']: the lines of such a workload
training() {
    cat <<END
workload:
  command: base-train
  model: {depth: 1, max_seq_len: 32, vocab_size: 256}
  train: {device_batch_size: 1, total_batch_size: $1, num_iterations: $2, eval_every: -1, sample_every: -1, save_every: 0, seed: 1${3-}}
  data: {source: synthetic}
END
}

# The newest session of NAME becomes $S.
newest() { S=$(find "$R/$1" -mindepth 1 -maxdepth 1 -type d 2>/dev/null | sort | tail -n 1) && [ -n "$S" ]; }
# Whether rank 1 of NAME's newest session has made three steps.
stepping() { newest "$1" && [ "$(cat "$S"/trials/*/events.rank00001.jsonl 2>/dev/null | grep -c '"event":"step"')" -ge 3 ]; }

# Processes whose environment holds the id of a trial of the session.
survivors() {
    local p
    for p in /proc/[0-9]*; do
        if { tr '\0' '\n' <"$p/environ"; } 2>/dev/null | grep -q "^NCBENCH_TRIAL_ID=${S##*/}"; then
            case $(sed 's/.*) //' "$p/stat" 2>/dev/null) in
            Z* | '') ;;
            *) echo "${p#/proc/}" ;;
            esac
        fi
    done
}

# "yes" if A < B; anything but two numbers (empty, null, nan) is not.
less() {
    awk -v a="$1" -v b="$2" 'function number(x) { return x ~ /^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$/ }
        BEGIN {
            if (!number(a) || !number(b)) print "not two numbers: \"" a "\", \"" b "\""
            else print (a + 0 < b + 0) ? "yes" : "no " a " >= " b
        }'
}
