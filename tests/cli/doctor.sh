# doctor: one line a check, against fixture machines and a scripted podman; and the real one.
. "$(dirname "$0")/lib.sh"

shim=$T/shim
mkdir -p "$shim/script"
cp tests/shims/podman "$shim/podman"
printf '#!/bin/sh\necho "runc version 1.1.5"\n' >"$shim/runc"
chmod +x "$shim/runc"
fixture() { # NAME COMMAND…: on that machine, with the scripted podman
    local name=$1
    shift
    env NCBENCH_FSROOT="$PWD/tests/fixtures/fsroot/$name" PATH="$shim:$PATH" "$@"
}

check "nothing fails with the scripted podman" fixture hybrid ncbench doctor
match "one line a check" '^(OK|WARN|FAIL) +PUs ' "$OUT"
no_match "and nothing else" '^[^OWF]' "$OUT"
match "podman's version" '^OK +podman +podman 4.3.1' "$OUT"
match "hybrid cgroups, and what follows" '^OK +cgroups +v1\+v2 hybrid.*runc is used' "$OUT"
match "a container was started" '^OK +start +podman runs a program' "$OUT"
match "limits of that machine" '^OK +limits +no CAP_SYS_RESOURCE' "$OUT"
match "nofile is low there" '^WARN +nofile +soft 1024, hard 20000; fix: ' "$OUT"
match "memlock" '^WARN +memlock +soft 8.0 MiB, hard 8.0 MiB; fix: ' "$OUT"
check "a machine with cgroup v2" fixture v2-root ncbench doctor
match "is told" '^OK +cgroups +v2, controllers for us: cpuset cpu io memory hugetlb pids$' "$OUT"
match "its capability too" '^OK +limits +CAP_SYS_RESOURCE' "$OUT"
check "as a user there" fixture v2-user ncbench doctor
match "only what is delegated" 'controllers for us: cpu io memory pids$' "$OUT"

mkdir -p "$T/root/sys/devices/system/cpu/cpu0/cpufreq" "$T/root/proc" \
    "$T/root/sys/devices/system/clocksource/clocksource0" "$T/root/run"
echo powersave >"$T/root/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
echo acpi_pm >"$T/root/sys/devices/system/clocksource/clocksource0/current_clocksource"
echo "cpu  100 0 100 700 0 0 0 100 0 0" >"$T/root/proc/stat"
echo "9.50 1 1 1/1 1" >"$T/root/proc/loadavg"
touch "$T/root/run/.containerenv"
check "a machine with trouble still can" env NCBENCH_FSROOT="$T/root" PATH="$shim:$PATH" ncbench doctor
match "governor" '^WARN +governor +powersave; fix: cpupower' "$OUT"
match "clocksource" '^WARN +clocksource +acpi_pm: .*; fix: ' "$OUT"
match "steal" '^WARN +steal +10.00 % ' "$OUT"
match "load" '^WARN +load +9.50: ' "$OUT"
match "nested" '^WARN +nested +/run/.containerenv' "$OUT"

echo 126 >"$shim/script/run.rc"
echo "Error: crun: setrlimit RLIMIT_NOFILE: Operation not permitted: OCI permission denied" \
    >"$shim/script/run.err"
check_rc 4 "a podman that starts nothing" fixture hybrid ncbench doctor
match "with its own words" '^FAIL +start +podman: runtime_failed: exit 126: Error: crun: setrlimit' "$OUT"
rm "$shim"/script/*
echo 1 >"$shim/script/image-exists.rc"
check "an image that is not there" fixture hybrid ncbench doctor --image localhost/ncbench/x:1
match "is a warning, with the command" \
    '^WARN +image .*x:1" not found locally; fix: ncbench image build --name localhost/ncbench/x:1' "$OUT"

bin=$(readlink -f "$BIN/ncbench")
check "without podman" env PATH=/nosuch "$bin" doctor
match "a warning" '^WARN +podman +podman not found on PATH' "$OUT"
check_rc 4 "without podman, asked for" env PATH=/nosuch "$bin" doctor --runtime podman
match "a failure" '^FAIL +podman +podman not found on PATH' "$OUT"
check_rc 2 "an unknown runtime" ncbench doctor --runtime podmann
match "with the nearest" 'did you mean "podman"' "$ERR"
check "bare needs nothing" ncbench doctor --runtime bare
no_match "so nothing is asked of podman" podman "$OUT"
check_rc 8 "a full disk" sh -c 'ncbench doctor --runtime bare >/dev/full'

if command -v jq >/dev/null; then
    fixture hybrid ncbench doctor --json >"$OUT"
    check "JSON" jq -e 'map(select(.check == "podman")) | .[0].level == "OK"' "$OUT"
else
    skip "JSON" "jq is not installed"
fi

if command -v podman >/dev/null && [ "$(id -u)" -eq 0 ]; then
    check "the real podman starts a container" ncbench doctor --runtime podman
    match "in some time" '^OK +start +podman runs a program and ends in [0-9.]+ m?s' "$OUT"
    equal "and leaves none" "$(podman ps -a --noheading --filter name=ncbench-doctor | wc -l)" 0
else
    skip "the real podman starts a container" "podman or root is missing"
fi
finish
