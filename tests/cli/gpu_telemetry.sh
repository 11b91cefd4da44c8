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
    '[null,"the device does not tell",null]'

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

FAKE_NVML_LOST_END=1 session -D measure.gpu.required=true
equal "lost in the last moment is lost" "$code $(of '[.gpu_telemetry.status, .outcome, .gpu_telemetry.devices[0].energy_j_why]')" \
    '5 ["lost","invalid","lost before the end"]'
FAKE_NVML_FORBIDDEN=1 session
equal "what may not be read is not told, and no loss" "$(of '.gpu_telemetry | [.status, .devices[0].sm_mhz, .devices[0].sm_mhz_why, .devices[0].power_w.min]')" \
    '["ok",null,"the device does not tell",100]'

# ---- the driver does not come back -----------------------------------------------------------------
FAKE_NVML_HANG_AFTER=6 session --blocks 2
equal "a driver that hangs holds nothing up" "$code" 0
equal "it is told from when on" "$(jq -c 'select(.block == 0).gpu_telemetry | [.status, .reason, .samples, .lost_s > 0]' "$S/trials.jsonl")" \
    '["lost","the driver did not answer within 3 s",3,true]'
equal "and not asked again" "$(jq -r 'select(.block == 1).gpu_telemetry.reason' "$S/trials.jsonl")" \
    'the driver did not answer in an earlier trial, and hangs'
sed 's/sleep, "0.6"/sleep, "30"/' "$T/s.yaml" >"$T/long.yaml"
FAKE_NVML_HANG_AFTER=6 ncbench run --progress none --out "$T/long" "$T/long.yaml" --blocks 1 -D limits.trial=1s >"$OUT" 2>"$ERR"
equal "limits are kept meanwhile" "$(jq -r .outcome "$(tail -n 1 "$OUT")/trials.jsonl" | sort -u)" timeout

# ---- short trials ----------------------------------------------------------------------------------
sed 's/sleep, "0.6"/sleep, "0"/; s/interval: 50ms/interval: 5s/' "$T/s.yaml" >"$T/short.yaml"
ncbench run --progress none --out "$T/short" "$T/short.yaml" --blocks 1 >"$OUT" 2>"$ERR"
equal "over before the first sample: no telemetry" \
    "$(jq -c '.gpu_telemetry | [.status, .reason, .samples, .devices[0].power_w_why]' "$(tail -n 1 "$OUT")/trials.jsonl" | sort -u)" \
    '["unavailable","the trial was over before the first sample",0,"no sample was taken"]'

# ---- others on the GPUs, and heat: a disturbance ---------------------------------------------------
export -n NCBENCH_WATCH
FAKE_NVML_PROCESS=4711 FAKE_NVML_PROCESSES=200 session
match "a process of others" '"process 4711, not of the trial, computes on GPU GPU-00000001"' <(of .reasons)
equal "however many they are" "$(of '.gpu_telemetry.devices[1].foreign | length')" 200
FAKE_NVML_PROCESS=4711 session -D disturbance.gpu_processes=false
no_match "which the site may allow" 'computes on GPU' <(of .reasons)
FAKE_NVML_REASONS=0x44 session
match "heat" 'clocks of GPU GPU-00000000 were held back \(hw_thermal\) in 100 % of the samples; 5 % are allowed' <(of .reasons)
FAKE_NVML_REASONS=0x44 session -D disturbance.gpu_clocks=100%
no_match "as much of it as is allowed" 'held back' <(of .reasons)
export NCBENCH_WATCH=off

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
FAKE_NVML_DEVICES=0 check_rc 4 "required, and no GPU" ncbench check -D measure.gpu.required=true "$T/s.yaml"
match "says so" 'measure.gpu is required: the driver sees no GPU' "$ERR"
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
