# Sourced by every CLI test: TAP output and a temporary directory that is removed at the end.
#
#   check "what must hold" command args…          exit 0
#   check_rc 3 "what" command args…               that exit code
#   match "what" 'regex' file                     grep -E finds it
#   skip "what" "why"
# $T is a fresh directory; $OUT and $ERR hold the last command's streams. `finish` ends the script.
set -u
T=$(mktemp -d "${TMPDIR:-/tmp}/ncbench-cli-XXXXXX")
OUT=$T/out.txt
ERR=$T/err.txt
export T OUT ERR
# Tests run on busy machines, side by side: whether a trial was disturbed is judged where a test is
# about that.
export NCBENCH_WATCH=off
tap_failed=0
trap 'rm -rf "$T"' EXIT

ok() { echo "ok $1"; }
not_ok() {
    echo "not ok $1"
    shift
    [ "$#" -eq 0 ] || printf '  %s\n' "$@"
    tap_failed=1
}
skip() { echo "ok $1 # SKIP $2"; }

run() { "$@" >"$OUT" 2>"$ERR" </dev/null; }

check_rc() {
    local want=$1 what=$2 rc
    shift 2
    run "$@"
    rc=$?
    if [ "$rc" -eq "$want" ]; then ok "$what"; else
        not_ok "$what" "exit $rc, expected $want: $*" "$(tail -n 5 "$ERR")"
    fi
}
check() {
    local what=$1
    shift
    check_rc 0 "$what" "$@"
}
match() {
    if grep -qE -- "$2" "$3"; then ok "$1"; else not_ok "$1" "no /$2/ in $3:" "$(head -n 10 "$3")"; fi
}
no_match() {
    if grep -qE -- "$2" "$3"; then not_ok "$1" "/$2/ in $3: $(grep -E -m1 -- "$2" "$3")"; else ok "$1"; fi
}
equal() {
    if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "got: $2" "expected: $3"; fi
}
finish() { exit "$tap_failed"; }
