# Sourced by the GPU tests: TAP lines and their count. $1 of the script is the program; events, tables and logs stay in $OUT
# where that is set.
#   judge WHAT CONDITION…    a test(1) expression; ok and not_ok where that is not enough
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
NANOCHAT=${1:-bin/nanochat}
T=${OUT:-$(mktemp -d)}
mkdir -p "$T"
passed=0 failed=0

ok() { echo "ok $1" && passed=$((passed + 1)); }
not_ok() {
    echo "not ok $1" && failed=$((failed + 1))
    shift
    printf '  %s\n' "$@"
}
judge() {
    local what=$1
    shift
    if [ "$@" ]; then ok "$what"; else not_ok "$what" "$*"; fi
}
