# tools/quickstart around programs that only say what they are told to: every verdict is exit 0.
. tests/cli/lib.sh
unset MAKEFLAGS MAKELEVEL

tree=$T/tree
mkdir -p "$tree/tools" "$tree/bin" "$tree/session/plots"
cp tools/quickstart "$tree/tools/"
printf '#!/bin/sh\n' >"$tree/tools/install-deps"
printf 'all:\n' >"$tree/Makefile"
cat >"$tree/bin/nanochat" <<'END'
#!/bin/sh
while [ $# -gt 0 ]; do
    if [ "$1" = --out ]; then mkdir -p "$2" && echo trained >"$2/tokenizer.json"; fi
    shift
done
END
cat >"$tree/bin/ncbench" <<'END'
#!/bin/sh
case $1 in
run) echo "$@" >>arguments; echo session; exit "${RUN:-0}" ;;
export)
    echo trial,outcome,runtime
    echo t0,ok,bare
    echo "t1,${PODMAN:-ok},podman"
    ;;
compare | report) exit "${VERDICT:-0}" ;;
esac
END
chmod +x "$tree/tools/install-deps" "$tree/bin/nanochat" "$tree/bin/ncbench"
export QUICKSTART_DATA=$tree/Makefile NANOCHAT_BASE_DIR=$T

check 'a verdict that holds' "$tree/tools/quickstart"
VERDICT=7 check 'not comparable or untrustworthy' "$tree/tools/quickstart"
match 'the report is named to the end' '^report +session/report.html' "$OUT"
match 'and the plots' '^plots +session/plots/' "$OUT"
VERDICT=8 check_rc 8 'a session that cannot be read is an error' "$tree/tools/quickstart"
RUN=5 check_rc 5 'a session that failed is one' "$tree/tools/quickstart"
PODMAN=runtime_failed check_rc 5 'so is one without a good Podman trial' "$tree/tools/quickstart"

tokenizer_of() { sed -n 's/.* tokenizer=\([^ ]*\).*/\1/p' "$tree/arguments" | tail -n 1; }
first=$(tokenizer_of)
export QUICKSTART_DATA=$T/other.txt
echo 'another text' >"$QUICKSTART_DATA"
check 'another text' "$tree/tools/quickstart"
match 'has its own tokenizer trained' '^== training a tokenizer' "$OUT"
if [ "$(tokenizer_of)" = "$first" ]; then not_ok 'and is not read with that of the first' "$first"; else
    ok 'and is not read with that of the first'
fi
check 'the same text again' "$tree/tools/quickstart"
match 'takes the one that is there' 'trained before' "$OUT"
finish
