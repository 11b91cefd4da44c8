# The image of the local build: same bytes, same digest, no registry; only our own images go.
. "$(dirname "$0")/lib.sh"

name=localhost/ncbench/test-image-$$:1
check_answer() { equal "with the same answer" "$(cat "$OUT")" "$(cat "$T/version")"; }
there() { if [ -e "$2" ]; then ok "$1"; else not_ok "$1" "$2 is absent"; fi; }
absent() { if [ -e "$2" ]; then not_ok "$1" "$2 exists"; else ok "$1"; fi; }
sha=$(sha256sum "$BIN/nanochat" | cut -d' ' -f1)

# ---- a directory: no podman needed -------------------------------------------------------------
check "build a directory" ncbench image build --no-cuda --dir "$T/root"
check "nanochat inside is the same file" cmp "$BIN/nanochat" "$T/root/usr/local/bin/nanochat"
"$BIN/nanochat" --version >"$T/version"
loader=$(find "$T/root" -name 'ld-linux*' -type f | head -n 1)
missing=0 libraries=0
while read -r lib; do
    libraries=$((libraries + 1))
    cmp -s "$lib" "$T/root$lib" || missing=$((missing + 1))
done < <(ldd "$BIN/nanochat" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p')
equal "every library of ldd is there, byte for byte" "$missing" 0
check "and ldd names some" test "$libraries" -gt 0
there "the dynamic loader is there" "$loader"
match "the manifest names the program" "$sha" "$T/root/etc/ncbench-image.json"
if [ "${CONFIG:-release}" = asan ]; then
    skip "it runs under chroot" "the leak checker needs /proc, which is not there"
elif [ "$(id -u)" -eq 0 ]; then
    check "it runs under chroot" chroot "$T/root" /usr/local/bin/nanochat --version
    check_answer
else
    skip "it runs under chroot" "not root"
fi
touch "$T/root/stale"
check "an earlier build is replaced" ncbench image build --no-cuda --dir "$T/root"
absent "wholly" "$T/root/stale"
mkdir "$T/empty" "$T/mine"
touch "$T/mine/precious"
check "an empty directory is taken" ncbench image build --no-cuda --dir "$T/empty"
check_rc 4 "a foreign directory is not" ncbench image build --no-cuda --dir "$T/mine"
match "and named" "$T/mine exists and is not an earlier image" "$ERR"
there "nor touched" "$T/mine/precious"
equal "nothing is left aside" "$(find "$T" -maxdepth 1 -name '*.tmp.*' | wc -l)" 0

# ---- the CUDA back end: a stand-in for it that links a library of its own -------------------------
mkdir -p "$T/gpu/bin" "$T/gpu/lib" "$T/gpu/deps"
cp "$BIN/nanochat" "$T/gpu/bin/"
check "an image without a CUDA back end" ncbench image build --dir "$T/gpu-root" --nanochat "$T/gpu/bin/nanochat" --json
match "says so" '"cuda_sha256": null' "$OUT"
library() { # its soname
    echo "int ${1%%.*}(void) { return 0; }" | cc -shared -fPIC -x c - -o "$T/gpu/deps/$1" -Wl,-soname,"$1"
}
library libcudnn_graph.so.9
library libcudnn_ops.so.8
library libnccl.so.2
library libcudnn.so.9
library libcuda.so.1
echo 'int backend(void) { return 0; }' | cc -shared -fPIC -x c - -o "$T/gpu/lib/nanochat-cuda.so" -x none -Wl,--no-as-needed \
    "$T/gpu/deps/libcudnn.so.9" "$T/gpu/deps/libcuda.so.1" -Wl,-rpath,"$T/gpu/deps"
check "with one" ncbench image build --dir "$T/gpu-root" --nanochat "$T/gpu/bin/nanochat"
check "or without one where there is one" ncbench image build --no-cuda --dir "$T/cpu-root" --nanochat "$T/gpu/bin/nanochat" --json
match "which is told" '"cuda_sha256_why": "left out by --no-cuda"' "$OUT"
absent "it is not there" "$T/cpu-root/usr/local/lib/nanochat-cuda.so"
check "with one, again" ncbench image build --dir "$T/gpu-root" --nanochat "$T/gpu/bin/nanochat"
match "it is told" "^cuda .*/usr/local/lib/nanochat-cuda.so" "$OUT"
check "it lies where the program looks" cmp "$T/gpu/lib/nanochat-cuda.so" "$T/gpu-root/usr/local/lib/nanochat-cuda.so"
match "the manifest has its hash" "\"cuda_sha256\": \"$(sha256sum "$T/gpu/lib/nanochat-cuda.so" | cut -c1-64)\"" \
    "$T/gpu-root/etc/ncbench-image.json"
there "its libraries are there" "$T/gpu-root$T/gpu/deps/libcudnn.so.9"
there "NCCL, which it opens itself" "$T/gpu-root$T/gpu/deps/libnccl.so.2"
there "the parts of cuDNN" "$T/gpu-root$T/gpu/deps/libcudnn_graph.so.9"
absent "but not those of another version" "$T/gpu-root$T/gpu/deps/libcudnn_ops.so.8"
absent "nor the driver's library" "$T/gpu-root$T/gpu/deps/libcuda.so.1"

# ---- an OCI archive, reproducible --------------------------------------------------------------
check "build an archive" ncbench image build --no-cuda --archive "$T/a.tar"
cp "$OUT" "$T/first"
(
    umask 077
    TMPDIR=$T ncbench image build --no-cuda --archive "$T/b.tar"
) >"$T/second" 2>&1
check "two builds give the same bytes" cmp "$T/a.tar" "$T/b.tar"
mkdir "$T/oci" "$T/layer"
tar -xf "$T/a.tar" -C "$T/oci"
tar -tf "$T/a.tar" >"$T/names"
no_match "no entry for the folder itself, which apptainer refuses" '^\./' "$T/names"
digest=$(sed -n 's/^digest *sha256://p' "$T/first")
check "the digest is that of the manifest" \
    sh -c "cd '$T/oci/blobs/sha256' && echo '$digest  $digest' | sha256sum -c -"
check "every blob has its name" \
    sh -c "cd '$T/oci/blobs/sha256' && for b in *; do echo \"\$b  \$b\"; done | sha256sum --quiet -c -"
layer=$(grep -o '"layers".*' "$T/oci/blobs/sha256/$digest" | grep -o 'sha256:[0-9a-f]*' | cut -c8-)
tar -xf "$T/oci/blobs/sha256/$layer" -C "$T/layer"
check "the layer holds the same file" cmp "$BIN/nanochat" "$T/layer/usr/local/bin/nanochat"
equal "owner 0, time 0" "$(tar --numeric-owner --full-time -tvf "$T/oci/blobs/sha256/$layer" |
    awk '{print $2, $4}' | sort -u)" "0/0 1970-01-01"
check "build with SOURCE_DATE_EPOCH" env SOURCE_DATE_EPOCH=86400 ncbench image build --no-cuda --archive "$T/c.tar"
no_match "SOURCE_DATE_EPOCH counts" "$digest" "$T/c.tar"
check_rc 2 "a bad SOURCE_DATE_EPOCH" env SOURCE_DATE_EPOCH=now ncbench image build --no-cuda --archive "$T/d"

# ---- an OCI layout and a squashfs --------------------------------------------------------------
check "build a layout" ncbench image build --no-cuda --layout "$T/layout"
match "with the archive's digest" "^digest *sha256:$digest" "$OUT"
check "the same files as in the archive" diff -r "$T/oci" "$T/layout"
check "again, over an earlier one" ncbench image build --no-cuda --layout "$T/layout"
check_rc 4 "not over something else" ncbench image build --no-cuda --layout "$T/mine"
if command -v mksquashfs >/dev/null; then
    check "build a squashfs" ncbench image build --no-cuda --nanochat "$BUILD/payload" --squashfs "$T/a.sqsh" --json
    match "with its hash" "\"squashfs_sha256\": \"$(sha256sum "$T/a.sqsh" | cut -c1-64)\"" "$OUT"
    (
        umask 077
        ncbench image build --no-cuda --nanochat "$BUILD/payload" --squashfs "$T/b.sqsh"
    ) >/dev/null
    check "two builds give the same squashfs" cmp "$T/a.sqsh" "$T/b.sqsh"
    unsquashfs -lln "$T/a.sqsh" >"$T/list"
    match "the program is in it" " 0/0 .* 1970-01-01 .*squashfs-root/usr/local/bin/nanochat" "$T/list"
    match "and a shell, for enroot" "squashfs-root(/usr)?/bin/sh" "$T/list"
else
    check_rc 4 "a squashfs without mksquashfs" ncbench image build --no-cuda --squashfs "$T/a.sqsh"
    skip "a squashfs" "mksquashfs is not installed"
fi

# ---- a SIF, by a stand-in for apptainer that behaves as the real one was seen to --------------------
mkdir -p "$T/apptainer/script"
cp tests/shims/apptainer "$T/apptainer/"
sif() { env PATH="$T/apptainer:$PATH" TMPDIR="$T/work" XDG_CACHE_HOME="$T/cache" "$BIN/ncbench" image build --no-cuda --nanochat "$BUILD/payload" "$@"; }
last_call() { ls "$T"/apptainer/log/*."$1" | tail -n 1; }
mkdir "$T/work"
payload_sha=$(sha256sum "$BUILD/payload" | cut -c1-64)
(
    umask 077
    check "build a SIF" sif --sif "$T/a.sif" --json
    match "with its hash" "\"sif_sha256\": \"$(sha256sum "$T/a.sif" | cut -c1-64)\"" "$OUT"
    match "with the builder's version" '"sif_builder": "apptainer 1.4.5"' "$OUT"
    match "and no digest of a manifest" '"digest": null' "$OUT"
    match "the archive's labels are in it" "\"ncbench.nanochat.sha256\": *\"$payload_sha\"" "$T/a.sif"
    match "both" '"ncbench.version": *"[0-9]' "$T/a.sif"
    match "so is the program" '^\./usr/local/bin/nanochat$' "$T/a.sif"
    equal "the command line" "$(tr '\0' ' ' <"$(last_call argv)" | sed -E 's/tmp\.[0-9]+/tmp.PID/')" \
        "--quiet build --force --disable-cache $T/a.sif.tmp.PID . "
    equal "its variables" "$(tr '\0' '\n' <"$(last_call env)" | sed -E 's/=.*(ncbench-image-).*/=\1/' |
        grep -vE '^(PATH|HOME|USER|PWD|SHLVL|_|OLDPWD)=' | sort | tr '\n' ' ')" "SOURCE_DATE_EPOCH=0 TMPDIR=ncbench-image- "
    check "a time of one's own" env SOURCE_DATE_EPOCH=86400 TMPDIR="$T/work" PATH="$T/apptainer:$PATH" \
        "$BIN/ncbench" image build --no-cuda --nanochat "$BUILD/payload" --sif "$T/a.sif"
    match "is handed on" '^SOURCE_DATE_EPOCH=86400$' <(tr '\0' '\n' <"$(last_call env)")
    match "words for people" "^sif +$T/a\.sif, sha256 [0-9a-f]{12}, by apptainer 1\.4\.5$" "$OUT"
    check_rc 2 "a bad time" env SOURCE_DATE_EPOCH=now PATH="$T/apptainer:$PATH" "$BIN/ncbench" image build --no-cuda --sif "$T/x.sif"
    (cd "$T" && env PATH="$T/apptainer:$PATH" "$OLDPWD/$BIN/ncbench" image build --no-cuda --nanochat "$OLDPWD/$BUILD/payload" --sif relative.sif >/dev/null 2>&1)
    there "a path from where one is" "$T/relative.sif"
    check "beside a directory" sif --sif "$T/a.sif" --dir "$T/sif-root"
    absent "which gets nothing of it" "$T/sif-root/.singularity.d"
    cp "$T/a.sif" "$T/a.was"

    # What fails leaves what was there, and nothing else.
    echo 255 >"$T/apptainer/script/build.rc"
    printf 'INFO:    Starting build...\n\033[31mFATAL:  \033[0m While performing build: while creating SIF: no space left on device\n\033[0m\n' \
        >"$T/apptainer/script/build.err"
    check_rc 4 "apptainer fails" sif --sif "$T/a.sif"
    match "in its own words" 'error: making a SIF: apptainer exit 255: FATAL: +While performing build: while creating SIF: no space left on device$' "$ERR"
    check "the file that was there stays" cmp "$T/a.sif" "$T/a.was"
    rm "$T"/apptainer/script/*
    check_rc 8 "a directory that is not there" sif --sif "$T/nosuch/a.sif"
    match "is named" "directory $T/nosuch does not exist" "$ERR"
    equal "nothing is left aside" "$(find "$T" -maxdepth 1 -name 'a.sif*' ! -name a.sif -printf '%f ')" "a.sif.lock "
    equal "nor in the folder for what passes" "$(ls -A "$T/work")" ""

    # Two jobs, one file: by turns.
    echo 0.5 >"$T/apptainer/script/build.sleep"
    sif --sif "$T/a.sif" >"$T/one.out" 2>&1 &
    check "one of two jobs" sif --sif "$T/a.sif"
    wait $!
    equal "and the other" $? 0
    rm "$T/apptainer/script/build.sleep"

    # Its sibling does as well; without either there is nothing to do it.
    mv "$T/apptainer/apptainer" "$T/apptainer/singularity"
    if command -v apptainer >/dev/null; then
        skip "without apptainer" "it is here"
    else
        check "singularity in its place" sif --sif "$T/a.sif" --json
        match "is named" '"sif_builder": "singularity 1.4.5"' "$OUT"
        rm "$T/apptainer/singularity"
        command -v singularity >/dev/null || check_rc 4 "neither of them" sif --sif "$T/a.sif"
        match "is told" 'error: apptainer not found on PATH' "$ERR"
        match "with a way" 'squashfs' "$ERR"
    fi
    exit $tap_failed
) || tap_failed=1

# The real one, where it is: the labels, the same files at the same times, and that it runs.
if command -v apptainer >/dev/null; then
    as_root=$(id -u | grep -x 0) # root may lack capabilities that apptainer would ask for
    check "apptainer builds a SIF" env TMPDIR="$T/work" "$BIN/ncbench" image build --no-cuda --sif "$T/r.sif" --json
    match "and tells its version" '"sif_builder": "apptainer [0-9]' "$OUT"
    equal "nothing is left of the build" "$(ls -A "$T/work")" ""
    check "its labels" apptainer inspect "$T/r.sif"
    match "are ours" "^ncbench.nanochat.sha256: $sha$" "$OUT"
    no_match "and name no folder of the build" 'ncbench-image-' "$OUT"
    if apptainer --quiet exec ${as_root:+--no-privs} "$T/r.sif" /usr/local/bin/nanochat --version >"$OUT" 2>"$ERR"; then
        check_answer
        check "a second build" "$BIN/ncbench" image build --no-cuda --sif "$T/s.sif"
        listing() {
            local at
            at=$(apptainer sif list "$1" | sed -nE 's/^([0-9]+) .*\|FS .*/\1/p')
            apptainer sif dump "$at" "$1" >"$T/fs.sqsh"
            unsquashfs -lln "$T/fs.sqsh" | grep -v 'labels\.json$'
        }
        equal "the same files, owners and times" "$(listing "$T/s.sif")" "$(listing "$T/r.sif")"
        match "which are those of an archive" '0/0 .* 1970-01-01 .*squashfs-root/usr/local/bin/nanochat$' <(listing "$T/r.sif")
        check "our archive becomes a SIF, too" "$BIN/ncbench" image import "$T/a.tar" --runtime apptainer --output "$T/o.sif"
        apptainer --quiet exec ${as_root:+--no-privs} "$T/o.sif" /usr/local/bin/nanochat --version >"$OUT" 2>"$ERR"
        check_answer
        # Since 1.5 it takes SOURCE_DATE_EPOCH; before, each SIF has its own date and identity.
        if dpkg --compare-versions "$(apptainer --version | sed 's/.*version //')" ge 1.5 2>/dev/null; then
            check "two builds give the same SIF" cmp "$T/r.sif" "$T/s.sif"
        else
            skip "two builds give the same SIF" "$(apptainer --version) is older than 1.5"
        fi
    else
        skip "a SIF runs" "not here: $(tail -n 1 "$ERR")"
    fi
else
    skip "a SIF by apptainer itself" "apptainer is not on PATH"
fi

# ---- what cannot be ----------------------------------------------------------------------------
check_rc 4 "no such program" ncbench image build --no-cuda --dir "$T/x" --nanochat "$T/nosuch"
check_rc 4 "not an ELF program" ncbench image build --no-cuda --dir "$T/x" --nanochat "$T/version"
match "and says so" "not a 64-bit ELF program" "$ERR"
absent "and leaves nothing" "$T/x"
check "a static program needs no library" ncbench image build --no-cuda --dir "$T/s" --nanochat "$BUILD/payload"
match "and gets none" "contents   0 libraries" "$OUT"
# The architecture is the program's, not that of the machine that packs it: byte 18 of an ELF header.
for machine in '\x3e amd64' '\xb7 arm64' '\xf3 riscv64'; do
    arch=${machine#* }
    cp "$BUILD/payload" "$T/$arch"
    printf '%b' "${machine% *}" | dd of="$T/$arch" bs=1 seek=18 conv=notrunc status=none
    check "an image of a program for $arch" ncbench image build --no-cuda --nanochat "$T/$arch" --layout "$T/oci-$arch"
    equal "says so" "$(cat "$T/oci-$arch"/blobs/sha256/* | grep -ao '"architecture": *"[a-z0-9]*"' | tr -d " ")" "\"architecture\":\"$arch\""
done
cp "$BUILD/payload" "$T/odd"
printf '\x01' | dd of="$T/odd" bs=1 seek=18 conv=notrunc status=none
check_rc 4 "an architecture without a name is refused" ncbench image build --no-cuda --nanochat "$T/odd" --layout "$T/oci-odd"
check_rc 2 "unknown sub-verb" ncbench image make
check_rc 2 "no sub-verb" ncbench image
check_rc 2 "rm without a name" ncbench image rm
while read -r verb option; do
    # shellcheck disable=SC2086
    check_rc 2 "image $verb $option" ncbench image $verb $option
    match "is told" "image ${verb%% *}: ${option%% *} is not for it" "$ERR"
done <<'END'
build --cold
build --runtime podman
build --output f
import --squashfs f
import --sif f
import --archive f
import --layout d
import --dir d
import --no-cuda
import --nanochat p
list --name x:1
list --cold
rm --json
rm --no-cuda
END
check_rc 8 "a full disk" sh -c "ncbench image build --no-cuda --dir \"$T/full\" >/dev/full"

# ---- import: timed, by one job at a time --------------------------------------------------------
mkdir -p "$T/shim/script"
cp tests/shims/enroot "$T/shim/"
imports() { ls "$T"/shim/log/*.argv 2>/dev/null | wc -l; }
(
    export PATH=$T/shim:$PATH TMPDIR=$T
    check "import into a file" ncbench image import reg.io/a/b:1 --runtime enroot --output "$T/i.sqsh" --json
    equal "the reference reached enroot" "$(cat "$T/i.sqsh")" "docker://reg.io#a/b:1"
    match "it is timed, and called warm" '"import_s": [0-9]' "$OUT"
    match "from where" '"from": "registry"' "$OUT"
    match "warm" '"state": "warm"' "$OUT"
    check "once more" ncbench image import reg.io/a/b:1 --runtime enroot --output "$T/i.sqsh"
    match "what is there is not imported again" 'is there; nothing was imported' "$OUT"
    equal "nothing was started" "$(imports)" 1
    check "cold" ncbench image import reg.io/a/b:1 --runtime enroot --output "$T/i.sqsh" --cold --json
    match "is said" '"state": "cold"' "$OUT"
    equal "it was imported anew" "$(imports)" 2
    equal "and its cache is gone" "$(ls -d "$T"/ncbench-import-* 2>/dev/null)" ""

    check_rc 4 "another source into the same file" ncbench image import reg.io/a/b:2 --runtime enroot --output "$T/i.sqsh"
    match "is told" 'i\.sqsh is there, and .*i\.sqsh\.source does not say that it is enroot of reg\.io/a/b:2' "$ERR"
    match "with the way out" 'cold imports it anew' "$ERR"
    mv "$T/i.sqsh.source" "$T/aside"
    check_rc 4 "a file of unknown origin" ncbench image import reg.io/a/b:1 --runtime enroot --output "$T/i.sqsh"
    equal "nothing was started" "$(imports)" 2
    echo 1 >"$T/shim/script/import.rc"
    mv "$T/aside" "$T/i.sqsh.source"
    check_rc 4 "a cold import that fails" ncbench image import reg.io/a/b:2 --runtime enroot --output "$T/i.sqsh" --cold
    equal "leaves the file that was there" "$(cat "$T/i.sqsh")" "docker://reg.io#a/b:1"
    match "and its origin" '^source reg\.io/a/b:1$' "$T/i.sqsh.source"
    rm "$T/shim/script/import.rc" "$T"/shim/log/*
    check "one that succeeds" ncbench image import reg.io/a/b:2 --runtime enroot --output "$T/i.sqsh" --cold
    equal "replaces it" "$(cat "$T/i.sqsh")" "docker://reg.io#a/b:2"
    check "which is known" ncbench image import reg.io/a/b:2 --runtime enroot --output "$T/i.sqsh" --json
    match "to be there" '"state": "present"' "$OUT"

    # Two jobs at once: the second waits, and finds the file.
    echo 1 >"$T/shim/script/import.sleep"
    rm "$T/i.sqsh"
    ncbench image import reg.io/a/b:1 --runtime enroot --output "$T/i.sqsh" --json >"$T/one.json" 2>/dev/null &
    first=$!
    check "another job" ncbench image import reg.io/a/b:1 --runtime enroot --output "$T/i.sqsh" --json
    wait $first
    equal "the first ended well" $? 0
    equal "one of two jobs imported" "$(cat "$T/one.json" "$OUT" | grep -c '"state": "present"')" 1
    equal "once" "$(imports)" 2
    rm "$T/shim/script/import.sleep"

    # A failed one leaves nothing that could be taken for an image.
    rm "$T/i.sqsh"
    echo 1 >"$T/shim/script/import.rc"
    echo "[ERROR] URL returned error code: 401 Unauthorized" >"$T/shim/script/import.err"
    check_rc 4 "a registry that refuses" ncbench image import reg.io/a/b:1 --runtime enroot --output "$T/i.sqsh"
    match "in its own words" 'importing reg.io/a/b:1: enroot exit 1: \[ERROR\] URL returned error code: 401' "$ERR"
    equal "no file" "$(find "$T" -maxdepth 1 -name 'i.sqsh*' ! -name '*.lock')" ""
    exit $tap_failed
) || tap_failed=1
check_rc 4 "no such archive" ncbench image import ./nosuch.tar --runtime podman
check_rc 2 "import without a runtime" ncbench image import x:1
match "names the option" 'runtime KIND is missing' "$ERR"
check_rc 2 "an unknown runtime" ncbench image import x:1 --runtime nosuch
match "names those that there are" 'expected one of podman, docker, apptainer, enroot' "$ERR"
check_rc 3 "a kind without an import" ncbench image import x:1 --runtime crun
match "and the way out" 'image build --dir' "$ERR"
check_rc 2 "a file where one is needed" ncbench image import x:1 --runtime apptainer
check_rc 2 "and none where not" ncbench image import x:1 --runtime podman --output "$T/x"
check_rc 2 "an archive's image is removed by its name" ncbench image import "$T/a.tar" --runtime podman --cold
check_rc 2 "a reference is its own name" ncbench image import x:1 --runtime podman --cold --name y:1
match "which is said" 'name is that of an archive' "$ERR"
check_rc 2 "a file has none" ncbench image import x:1 --runtime enroot --output "$T/x.sqsh" --name y:1
# A podman that knows the image "there" and no other.
printf '%s\n' '#!/bin/sh' 'case "$*" in *rmi*there | *image\ rm*there) exit 0 ;; *rm*) echo "Error: no such image" >&2; exit 1 ;; esac' \
    >"$T/shim/podman"
chmod +x "$T/shim/podman"
cold() { env PATH="$T/shim:$PATH" XDG_CACHE_HOME="$T/cache" "$BIN/ncbench" image import --runtime podman --cold "$@"; }
check "an archive whose image was there" cold "$T/a.tar" --name there --json
match "is cold" '"state": "cold"' "$OUT"
check "one whose image was not" cold "$T/a.tar" --name typo --json
match "is not called cold" '"state": null' "$OUT"
check "nor in words" cold "$T/a.tar" --name typo
match "but what happened is said" '^nothing was there to remove by the name typo' "$OUT"
check "a reference that was not there" cold x:1 --json
match "is cold" '"state": "cold"' "$OUT"
rm "$T/shim/podman"
check_rc 3 "enroot and an archive" ncbench image import "$T/a.tar" --runtime enroot --output "$T/x.sqsh"

# ---- podman's store ----------------------------------------------------------------------------
if ! command -v podman >/dev/null; then
    check_rc 4 "podman missing" ncbench image build --no-cuda
    match "and the way out" "needs no podman" "$ERR"
    skip "podman's store" "podman is not installed"
    finish
fi
if [ "$(id -u)" -ne 0 ]; then
    skip "podman's store" "not root"
    finish
fi
trap 'podman rmi -f "$name" "$name-second" "localhost/ncbench-foreign-$$:1" >/dev/null 2>&1; rm -rf "$T"' EXIT
export XDG_CACHE_HOME=$T/cache # for locks
check "an archive to import" ncbench image build --no-cuda --archive "$T/import.tar" --name "$name"
check "rm before its import" ncbench image rm "$name"
for state in "" --cold; do
    # shellcheck disable=SC2086
    check "import an archive $state" ncbench image import "$T/import.tar" --runtime podman --name "$name" $state --json
    match "timed" '"import_s": [0-9]' "$OUT"
    check "it is in the store" podman image exists "$name"
done
check "build into the store" ncbench image build --no-cuda --name "$name" --json
stored=$(podman image inspect --format '{{.Digest}}' "$name" 2>/dev/null)
equal "the digest is the archive's" "$stored" "sha256:$digest"
check "again" ncbench image build --no-cuda --name "$name"
equal "the same digest" "$(podman image inspect --format '{{.Digest}}' "$name")" "$stored"
export SOURCE_DATE_EPOCH=$((1000000000 + $$)) # an image that nobody else on this machine has
check "build one of our own" ncbench image build --no-cuda --name "$name"
old=$(podman image inspect --format '{{.Id}}' "$name")
check "the same under a second name" ncbench image build --no-cuda --name "$name-second"
check "another program, first name" ncbench image build --no-cuda --name "$name" --nanochat "$BUILD/payload"
check "what the second name holds stays" podman image exists "$name-second"
check "rm the second" ncbench image rm "$name-second"
check "and back to the first program" ncbench image build --no-cuda --name "$name"
check "another program, same name" ncbench image build --no-cuda --name "$name" --nanochat "$BUILD/payload"
check_rc 1 "the old one is gone" podman image exists "$old"
unset SOURCE_DATE_EPOCH
check "and back" ncbench image build --no-cuda --name "$name"
printf '[containers]\ndefault_ulimits = []\n' >"$T/containers.conf"
[ ! -e /sys/fs/cgroup/unified/cgroup.controllers ] ||
    printf '[engine]\nruntime = "runc"\n' >>"$T/containers.conf"
check "it runs" env CONTAINERS_CONF="$T/containers.conf" podman run --rm --network=host --pull=never \
    "$name" /usr/local/bin/nanochat --version
check_answer
check "list" ncbench image list
match "shows it, with the program's hash" "$name .*${sha:0:12}" "$OUT"
check "list as JSON" ncbench image list --json
match "holds the whole hash" "\"nanochat_sha256\": \"$sha\"" "$OUT"
tar -cf "$T/foreign.tar" -C "$T/mine" .
podman import -q "$T/foreign.tar" "localhost/ncbench-foreign-$$:1" >/dev/null 2>&1
check_rc 4 "rm refuses a foreign image" ncbench image rm "localhost/ncbench-foreign-$$:1"
match "and says why" "was not made by ncbench" "$ERR"
check "rm" ncbench image rm "$name"
check_rc 4 "rm again" ncbench image rm "$name"
ncbench image list >"$OUT"
no_match "list no longer shows it" "$name" "$OUT"
finish
