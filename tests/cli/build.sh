# The build finds out what a machine has, says it in a line, and never needs a GPU.
# Each case runs make in a copy of the tree with its own PATH, and only asks for its plan (-n).
# shellcheck source=tests/cli/lib.sh
. tests/cli/lib.sh
unset MAKEFLAGS MFLAGS MAKELEVEL CUDA CUDA_HOME NVCC # of the make that runs the tests

# A PATH without nvcc: links to every program that the build needs.
mkdir -p "$T/bin"
for p in bash sh make cc gcc ar pkg-config python3 printf sed find cmp mkdir rm cat echo readlink \
    dirname basename uname nproc head tail grep awk tr sort ld as install ls test env; do
    q=$(type -P "$p") && ln -sf "$q" "$T/bin/$p"
done
build() { # PATH is the first argument, the rest goes to make
    local path=$1
    shift
    [ "$path" != "$T/bin" ] || set -- CUDA_HOME="$T/none" "$@" # no toolkit of this machine
    run env PATH="$path" make --no-print-directory BUILD="$T/build" BIN="$T/build/bin" "$@"
}

build "$T/bin" -n programs
equal "make without nvcc has a plan" $? 0
match "it says so in one line" "CUDA.*nvcc not found" "$OUT"
no_match "nothing CUDA is built" '^  LD .*nanochat-cuda\.so|-shared -o [^ ]*nanochat-cuda' "$OUT"

build "$T/bin" CUDA=1 -n programs
equal "CUDA=1 without nvcc is an error of make" $? 2
match "it says what is missing" 'CUDA=1 but nvcc was not found' "$ERR"

build "$PATH" CUDA=0 -n programs
equal "CUDA=0 has a plan" $? 0
match "CUDA=0 is said" 'CUDA.*CUDA=0' "$OUT"
no_match "CUDA=0 never calls nvcc" 'nvcc -|nvcc" -' "$OUT"

# MPI: a wrapper that finds its header, or a line that says what is missing.
wrapper() { # STATUS: a mpicc that ends so when it looks for mpi.h
    mkdir -p "$T/mpi"
    printf '#!/bin/sh\ncase "$*" in *mpi.h*) exit %d ;; esac\nexec cc "$@"\n' "$1" >"$T/mpi/mpicc"
    chmod +x "$T/mpi/mpicc"
}
build "$T/bin" -n programs
match "make without mpicc says so in one line" 'MPI.* no .*mpicc not found' "$OUT"
no_match "nothing of MPI is built" 'LD .*nanochat-mpi\.so' "$OUT"
build "$T/bin" MPI=1 -n programs
equal "MPI=1 without mpicc is an error of make" $? 2
match "that says what to do" 'MPI=1 but mpicc not found; run tools/install-deps mpi' "$ERR"
wrapper 1
build "$T/mpi:$T/bin" -n programs
match "a wrapper without a header is none" "MPI.* no .*$T/mpi/mpicc finds no mpi\.h" "$OUT"
wrapper 0
build "$T/mpi:$T/bin" -n programs
match "one with a header is taken" "MPI.* yes .*$T/mpi/mpicc" "$OUT"
match "the library goes beside BIN" "$T/build/lib/nanochat-mpi\.so" "$OUT"
mkdir -p "$T/build/lib" && touch "$T/build/lib/nanochat-mpi.so"
build "$T/mpi:$T/bin" MPI=0 -n programs
match "MPI=0: the built one stays, in so many words" 'MPI.*nanochat-mpi\.so of an earlier build stays' "$OUT"
no_match "and nothing removes it" 'rm -f .*nanochat-mpi\.so' "$OUT"
rm "$T/build/lib/nanochat-mpi.so"

# A toolkit that records its calls, and no GPU.
make_toolkit() {
    mkdir -p "$1/bin" "$1/include" "$1/lib64"
    cat >"$1/bin/nvcc" <<'SH'
#!/bin/sh
echo "$@" >>"$NVCC_LOG"
while [ $# -gt 0 ]; do
    if [ "$1" = -o ]; then : >"$2"; fi
    shift
done
SH
    chmod +x "$1/bin/nvcc"
    touch "$1/include/cublasLt.h" "$1/lib64/libcublasLt.so" "$1/lib64/libcudart.so"
}
printf '#!/bin/sh\ntouch "$SMI_LOG"\n' >"$T/bin/nvidia-smi"
chmod +x "$T/bin/nvidia-smi"
export NVCC_LOG=$T/nvcc.log SMI_LOG=$T/smi.log
make_toolkit "$T/toolkit"
build "$T/toolkit/bin:$T/bin" "$T/build/cuda/kernels/cuda/norm.o"
match "without a GPU it builds for the default architectures" 'compute_80.*sm_80.*compute_90.*sm_90' "$NVCC_LOG"
build "$T/toolkit/bin:$T/bin" CUDA_ARCHS=86 "$T/build/cuda/kernels/cuda/norm.o"
match "CUDA_ARCHS chooses others" 'sm_86' "$NVCC_LOG"
if [ -e "$SMI_LOG" ]; then not_ok "the build never asks nvidia-smi" "it was called"; else
    ok "the build never asks nvidia-smi"
fi

# A change of flags rebuilds what it concerns, whatever the goal was; no change rebuilds nothing.
object=$T/build/kernels/peaks.o
build "$T/bin" V=1 "$object"
match "an object is compiled" '-c -o .*/kernels/peaks\.o' "$OUT"
build "$T/bin" V=1 "$object" "$T/build/common/mem.o"
no_match "and not again, for another goal" 'kernels/peaks\.o.*kernels/peaks\.c' "$OUT"
build "$T/bin" V=1 NATIVE=1 "$object"
match "NATIVE=1 compiles it again" '-march=native.*kernels/peaks\.o' "$OUT"
build "$T/toolkit/bin:$T/bin" CUDA_ARCHS=86 V=1 "$object" "$T/build/cuda/kernels/cuda/norm.o"
no_match "CUDA objects keep through a build without CUDA" 'nvcc' "$OUT"
build "$T/toolkit/bin:$T/bin" CUDA_ARCHS='86 90' "$T/build/cuda/kernels/cuda/norm.o"
match "other architectures compile them again" 'NVCC' "$OUT"

# The library of CUDA lies beside the programs of the same build; a build that makes none leaves it there.
build "$T/toolkit/bin:$T/bin" -n programs
match "the library goes beside BIN" "-o $T/build/lib/nanochat-cuda\.so|LD +$T/build/lib/nanochat-cuda\.so" "$OUT"
make_toolkit "$T/home"
build "$T/bin" CUDA_HOME="$T/home" -n programs
match "nvcc is found in CUDA_HOME" 'CUDA +yes' <(tr -d "'" <"$OUT" | sed 's/.*%s.n //')
mkdir -p "$T/build/lib" && echo built >"$T/build/lib/nanochat-cuda.so"
mkdir -p "$T/build/bin" && printf '#!/bin/sh\n' | tee "$T/build/bin/nanochat" >"$T/build/bin/ncbench"
chmod +x "$T/build/bin/nanochat" "$T/build/bin/ncbench"
installed=$T/dest/lib/nanochat-cuda.so
# Only what concerns the library: the programs are taken as they are.
install_it() { build "$T/bin" PREFIX=/ DESTDIR="$T/dest" -o programs "$@" install; }
install_it
equal "without nvcc, make install works" $? 0
check "the library of an earlier build is installed" cmp "$T/build/lib/nanochat-cuda.so" "$installed"
mv "$T/build/lib/nanochat-cuda.so" "$T/aside"
install_it
check "where there is none, the installed one stays" test -e "$installed"
mv "$T/aside" "$T/build/lib/nanochat-cuda.so"
install_it CUDA=0
check_rc 1 "with CUDA=0 it goes" test -e "$installed"
for cuda in auto 0; do
    build "$T/bin" CUDA=$cuda -n programs
    match "CUDA=$cuda without nvcc: the built one stays, in so many words" 'CUDA.*nanochat-cuda\.so of an earlier build stays' "$OUT"
    no_match "and nothing removes it" 'rm -f .*nanochat-cuda\.so' "$OUT"
done
check "it is there" test -e "$T/build/lib/nanochat-cuda.so"

# make cannot hold a path with a space: said, and the rest still builds.
make_toolkit "$T/my toolkit"
build "$T/my toolkit/bin:$T/bin" -n programs
equal "a toolkit in a folder with a space does not break the build" $? 0
match "it is said" 'CUDA.*has a space in it' "$OUT"
build "$T/my toolkit/bin:$T/bin" CUDA=1 -n programs
equal "with CUDA=1 it is an error" $? 2
match "that tells the way out" 'has a space in it; give a link' "$ERR"

# On a machine that has nothing yet: what installs must not ask for libraries before it has installed them.
for target in test quickstart test-aarch64; do
    check "make $target begins without a library" env PKG_CONFIG_LIBDIR="$T/none" make -n "$target" MAKE=:
done
run env PKG_CONFIG_LIBDIR="$T/none" make -n programs
match "the build names the first that is missing" 'yaml-0.1 is missing; run tools/install-deps run' "$ERR"

for target in test test-aarch64 quickstart lint bench asan fuzz install clean; do
    run make -s help
    match "make help tells of make $target" "^make $target( |$)" "$OUT"
done
finish
