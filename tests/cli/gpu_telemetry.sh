#!/usr/bin/env bash
# measure.gpu: what NVML tells of the node's GPUs around a trial, from a stand-in of the library; that a driver which
# stops to answer is told and never becomes a zero; that GPUs which others use or heat are a disturbance.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
command -v jq >/dev/null || { echo "jq is not installed"; exit 77; }
export NCBENCH_NVML=$PWD/${BUILD:-build/release}/libnvml-fake.so

cat >"$T/s.yaml" <<'Y'
version: 1
name: s
baseline: bare
workload: {exec: [sleep, "0.6"], events: none}
runtimes: [{name: bare, kind: bare}]
measure: {gpu: {interval: 50ms}, topology: false, counters: []}
sampling: {looks: [2], discard_first_block: false, stop: never}
limits: {disk_free: 1MiB}
output: {plots: [], report: []}
Y
n=0
# A session with these options; its first record, or a part of it, by `of`.
session() {
    n=$((n + 1))
    ncbench run --progress none --out "$T/r$n" "$T/s.yaml" "$@" >"$OUT" 2>"$ERR"
    code=$?
    S=$(cat "$OUT")
}
of() { jq -c "select(.seq == 0 or .block == 0) | $1" "$S/trials.jsonl" | head -n 1; }

# ---- all is well -----------------------------------------------------------------------------------
session
equal "a session" "$code" 0
equal "sampled more than once" "$(of '.gpu_telemetry | [.status, .samples > 2, .driver, (.devices | length)]')" '["ok",true,"570.00",2]'
equal "power as it was read" "$(of '.gpu_telemetry as $t | .gpu_telemetry.devices[1].power_w | [.min, .max == 200 + $t.samples - 1, .median > .min, .median < .max]')" \
    '[200,true,true,true]'
equal "energy of the whole trial" "$(of '[.gpu_telemetry.devices[].energy_j]')" '[5,5]'
equal "clocks, heat and limits" "$(of '.gpu_telemetry.devices[0] | [.sm_mhz.median, .sm_max_mhz, .memory_mhz.max, .temperature_c.max, .power_limit_w, .ecc_uncorrected]')" \
    '[1755,1980,3201,54,700,0]'
equal "a power cap is told and no disturbance" "$(of '[.gpu_telemetry.devices[0].held_back, .outcome]')" '[{"power_cap":1},"ok"]'

FAKE_NVML_BARE=1 session
equal "what a card does not count is null" "$(of '.gpu_telemetry.devices[0] | [.energy_j, .energy_j_why, .ecc_uncorrected]')" \
    '[null,"the device does not count it",null]'

# ---- the driver stops to answer in mid run ---------------------------------------------------------
FAKE_NVML_LOST_AFTER=6 session
equal "a lost driver ends nothing" "$code" 0
equal "it is told, with the time and the samples" "$(of '.gpu_telemetry | [.status, .reason, .samples, .lost_s > 0]')" \
    '["lost","GPU-00000000: Unknown Error",3,true]'
equal "no sample is made up" "$(of '.gpu_telemetry.devices[0] | [.power_w.min, .power_w.max, .energy_j, .energy_j_why]')" \
    '[100,102,null,"lost before the end"]'
equal "the trial is kept" "$(of .outcome)" '"ok"'
match "and flagged" '^"gpu_telemetry_incomplete: lost after [0-9.]+ s: GPU-00000000: Unknown Error"$' <(of '.flags[0]')
FAKE_NVML_LOST_AFTER=6 session -D measure.gpu.required=true
equal "where it is required the trial is invalid" "$code $(of '[.outcome, .reasons[0]]')" \
    '5 ["invalid","GPU telemetry is required and was lost: GPU-00000000: Unknown Error"]'

# ---- no driver -------------------------------------------------------------------------------------
FAKE_NVML_INIT=9 session
equal "no driver: said, and no number" "$code $(of '.gpu_telemetry | [.status, .reason, .samples, .devices, .lost_s]')" \
    '0 ["unavailable","nvmlInit: Driver Not Loaded",0,[],null]'
NCBENCH_NVML=$T/none.so session
match "no library: its name" '"no NVIDIA driver: .*none.so' <(of .gpu_telemetry.reason)
FAKE_NVML_DEVICES=0 session
equal "a driver without a GPU" "$(of .gpu_telemetry.reason)" '"the driver sees no GPU"'
NCBENCH_NVML=off check_rc 4 "required, and not there" ncbench check -D measure.gpu.required=true "$T/s.yaml"
match "says which and why" 'measure.gpu is required: NCBENCH_NVML=off' "$ERR"
check_rc 3 "too often" ncbench check -D measure.gpu.interval=10ms "$T/s.yaml"
match "says the least" 'measure.gpu.interval is 10 ms: at least 50 ms' "$ERR"

# ---- what doctor says --------------------------------------------------------------------------------
ncbench doctor >"$OUT" 2>"$ERR"
match "doctor sees the GPUs" '^OK +GPUs +2 x Fake GPU, driver 570.00' "$OUT"
NCBENCH_NVML=$T/none.so ncbench doctor >"$OUT" 2>"$ERR"
match "or why it sees none" '^OK +GPUs +no NVIDIA driver: .*none.so' "$OUT"

# ---- not asked for ---------------------------------------------------------------------------------
sed 's/gpu: {interval: 50ms}, //' "$T/s.yaml" >"$T/quiet.yaml" && mv "$T/quiet.yaml" "$T/s.yaml"
session
check "the record holds the schema" python3 tests/cli/schema.py results/schemas/trial.json "$T"/r*/s/*/trials.jsonl
equal "a workload without a GPU is not sampled" "$(of '[.gpu_telemetry, .gpu_telemetry_why]')" \
    '[null,"neither measure.gpu nor a workload on GPUs asks for it"]'
finish
