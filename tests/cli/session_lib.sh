# Sourced after lib.sh by the tests of `ncbench run`: scenarios of one command, and what records say.
#   scenario NAME 'ARGV, …' [line…]   $T/NAME.yaml: bare, one block, that foreign command
#   session …                         ncbench run … --blocks ${BLOCKS:-1}, into $T/results; $S is the session's directory
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
    # a line given here replaces the one with the same key
    local line key
    for line in "$@"; do
        key=${line%%:*}
        sed -i "/^$key:/d" "$T/$name.yaml"
        printf '%s\n' "$line" >>"$T/$name.yaml"
    done
}

# session RC WHAT FILE [options…]
session() {
    local rc=$1 what=$2 file=$3
    shift 3
    check_rc "$rc" "$what" timeout 60 ncbench run "$T/$file.yaml" --out "$R" --progress none --blocks "${BLOCKS:-1}" "$@"
    S=$(tail -n 1 "$OUT")
}

field() { sed -n "$1p" "$S/trials.jsonl" | jq -r "$2"; }

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
