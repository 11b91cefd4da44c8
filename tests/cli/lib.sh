# Sourced by every CLI test: TAP output and a temporary directory that is removed at the end.
#
#   check "what must hold" command args…          exit 0
#   check_rc 3 "what" command args…               that exit code
#   match "what" 'regex' file                     grep -E finds it; no_match: it is there, and grep -E does not
#   wait_until "what" SECONDS command args…       not ok, and 1, if the command never succeeds
#   skip "what" "why"
#   free_port                                     a TCP port that nobody has
#   shm_name PORT [TRIAL-ID]                      of the ranks that meet at 127.0.0.1:PORT
#   shm_of PID                                    of a rank that runs
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
no_match() { # what cannot be read holds nothing, and proves nothing
    local found
    found=$(grep -E -m1 -- "$2" "$3" 2>&1)
    case $? in
        0) not_ok "$1" "/$2/ in $3: $found" ;;
        1) ok "$1" ;;
        *) not_ok "$1" "cannot be searched for /$2/: $found" ;;
    esac
}
equal() {
    if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "got: $2" "expected: $3"; fi
}
wait_until() {
    local what=$1 end=$((SECONDS + $2 + 1))
    shift 2
    until "$@"; do
        if [ "$SECONDS" -ge "$end" ]; then
            not_ok "$what" "not within its time: $*"
            return 1
        fi
        sleep 0.05
    done
}
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'; }
# Other runs of this machine have shared memory too: only a name of our own says anything.
shm_name() { echo "/dev/shm/nanochat-$(id -u)-$(printf '127.0.0.1|%s|%s' "$1" "${2-}" | sha256sum | head -c 16)"; }
shm_of() {
    local variables
    variables=$(tr '\0' '\n' <"/proc/$1/environ") || return
    shm_name "$(sed -n 's/^MASTER_PORT=//p' <<<"$variables")" "$(sed -n 's/^NCBENCH_TRIAL_ID=//p' <<<"$variables")"
}
# Options of base-train for the smallest training there is.
# shellcheck disable=SC2034
TINY_TRAINING=(--data-source=synthetic --vocab-size=256 --depth=1 --max-seq-len=32 --device-batch-size=1
    --total-batch-size=128 --eval-every=-1 --sample-every=-1 --peak-time=0s)
finish() { exit "$tap_failed"; }
