#!/usr/bin/env bash
# nanochat comm-perf between 1, 2 and 4 ranks over shared memory: figures that fit together.
. "$(dirname "$0")/lib.sh"

perf() {
    local ranks=$1
    shift
    nanochat launch --nproc-per-node="$ranks" -- comm-perf --device-type=cpu -n 5 -w 1 "$@"
}
# Every figure of a document follows from the others.
judge() {
    python3 - "$1" "$2" "$3" <<'PY'
import json, sys
doc, ranks = json.load(open(sys.argv[1])), int(sys.argv[2])
factor = {"all_reduce": 2 * (ranks - 1) / ranks, "reduce_scatter": (ranks - 1) / ranks,
          "all_gather": (ranks - 1) / ranks, "broadcast": 1}
assert doc["schema"] == "comm-perf/1.0" and doc["world"] == ranks, doc
assert doc["comm"]["backend"] == sys.argv[3], doc["comm"]
sizes = [1000, 3000, 9000, 27000]
assert [(r["op"], r["bytes"]) for r in doc["results"]] == [(o, s) for o in factor for s in sizes]
for r in doc["results"]:
    assert r["count"] * 4 == r["bytes"] and r["wrong"] == 0, r
    assert r["min_us"] <= r["p50_us"] <= r["p95_us"] <= r["p99_us"] <= r["max_us"], r
    assert 0 <= r["transfer_us"] and 0 <= r["skew_us"], r
    if r["time_us"] > 0.01:
        assert abs(r["algbw_gb_s"] * r["time_us"] * 1e3 / r["bytes"] - 1) < 0.1, r
    if ranks == 1:
        assert r["busbw_gb_s"] is None and r["busbw_gb_s_why"] == "one rank has no bus", r
    else:
        assert abs(r["busbw_gb_s"] / r["algbw_gb_s"] - factor[r["op"]]) < 1e-9, r
    assert (r["redop"] == "sum") == ("reduce" in r["op"]) and r["in_place"] is True, r
    assert r["root"] == (0 if r["op"] == "broadcast" else None), r
PY
}

# ---- a gate before timing ------------------------------------------------------------------------
small=(--op=all_reduce -b 64KiB -e 64KiB)
check "within a wide band" perf 2 "${small[@]}" --least-busbw=0.000001 --most-busbw=1000000
check_rc 4 "too slow" perf 2 "${small[@]}" --least-busbw=1000000
match "says what, how much and what was expected" \
    'all_reduce of 65536 bytes: [0-9.]+ GB/s on the bus, expected at least 1e\+06' "$ERR"
check_rc 4 "too fast to be true" perf 2 "${small[@]}" --least-busbw=0.0000001 --most-busbw=0.000001
match "says both bounds" 'expected at least 1e-07 and at most 1e-06' "$ERR"
check_rc 3 "one rank has no bus" perf 1 "${small[@]}" --least-busbw=1
check_rc 2 "a band that holds nothing" perf 2 "${small[@]}" --least-busbw=2 --most-busbw=1

for ranks in 1 2 4; do
    check "$ranks ranks" perf $ranks -b 1000B -e 27000B -f 3 --json
    cp "$OUT" "$T/$ranks.json"
    check "$ranks ranks: the figures fit together" judge "$T/$ranks.json" $ranks "$([ $ranks = 1 ] && echo self || echo shm)"
done

check "a table" perf 2 -b 4B -e 64B -f 4 --op=all_gather
match "with nccl-tests' columns" '^# op +size +count +type +redop +root +time +algbw +busbw +#wrong$' "$OUT"
equal "a row a size" "$(grep -c '^  all_gather' "$OUT")" 3
match "nothing wrong" '^  all_gather +4 +1 +float32 +none +-1 +[0-9.]+ +[0-9.]+ +[0-9.]+ +0$' "$OUT"
check "one rank in the table" perf 1 -b 1KiB -e 1KiB --op=all_reduce
match "has no bus bandwidth" ' n/a +0$' "$OUT"
check "without the check" perf 2 -b 1KiB -e 1KiB --op=broadcast --check=false --json
match "wrong is null with a reason" '"wrong_why": "not checked' "$OUT"

check "over TCP on one node" perf 2 -b 1000B -e 27000B -f 3 --comm=tcp --json
cp "$OUT" "$T/tcp.json"
check "over TCP: the figures fit together" judge "$T/tcp.json" 2 tcp

mkdir "$T/trial"
check "in a trial" env NCBENCH_TRIAL_DIR="$T/trial" nanochat launch --nproc-per-node=2 -- \
    comm-perf --device-type=cpu -n 5 -w 2 -b 4KiB -e 8KiB --op=reduce_scatter
equal "the timed calls are comm events" "$(grep -c '"event":"comm".*"reduce_scatter","bytes":8192' "$T/trial/events.rank00001.jsonl")" 5
match "and it says done" '"event":"done"' "$T/trial/events.rank00001.jsonl"

mkdir -p "$T/profiled"
NCBENCH_TRIAL_DIR=$T/profiled perf 1 --nccl-profile -e 1KiB >/dev/null
match "without NCCL the profile says so" '"event":"nccl_profile".*"calls":null' "$T/profiled/events.rank00000.jsonl"
match "the mode is in the recorded environment" '"NCCL_PROFILER_PLUGIN":"/' "$T/profiled/events.rank00000.jsonl"
NANOCHAT_NCCL_PROFILER=/nonexistent check_rc 4 "a profiler that is not there" perf 1 --nccl-profile

check_rc 2 "sizes are whole floats" perf 1 -b 6B
check_rc 2 "an empty range" perf 1 -b 2KiB -e 1KiB
check_rc 2 "a size needs its unit" perf 1 -b 8
check_rc 2 "no such op" perf 1 --op=alltoall
finish
