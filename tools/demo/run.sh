#!/usr/bin/env bash
# The main job on real pages: archive -> documents -> vocabulary -> tokens -> a small language model -> report pages.
#
#   tools/demo/run.sh [--warc FILE...] [--steps N] [--vocab N] [--out DIR]
#
# Without --warc the archive is captured from HTML books of Debian packages (tools/demo/capture_pages.sh). Replaces its
# own earlier output folder (default runs/demo). Called by `./sx demo`, which builds first.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${SX_BIN:-build/release/bin}
out=runs/demo
steps=
vocab=4096
warcs=()
given=no
while [ $# -gt 0 ]; do
  case $1 in
    --warc) shift; given=yes; while [ $# -gt 0 ] && [[ $1 != --* ]]; do warcs+=("$1"); shift; done ;;
    --steps) steps=$2; shift 2 ;;
    --vocab) vocab=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    *) echo "error: unknown option '$1' (--warc FILE..., --steps N, --vocab N, --out DIR)" >&2; exit 2 ;;
  esac
done
if [ $given = yes ] && [ ${#warcs[@]} -eq 0 ]; then
  echo "error: --warc needs at least one file" >&2
  exit 2
fi
if [ -e "$out" ]; then
  [ -e "$out/stages.tsv" ] || { echo "error: $out exists and is no earlier demo; choose another --out" >&2; exit 2; }
  rm -rf "$out"
fi
mkdir -p "$out"
: > "$out/stages.tsv"

# stage NAME COMMAND...: runs it and notes its seconds.
stage() {
  local name=$1 begin end
  shift
  printf '\n-- %s\n' "$name" >&2
  begin=$(date +%s.%N)
  "$@"
  end=$(date +%s.%N)
  printf '%s\t%s\n' "$name" "$(awk -v a="$begin" -v b="$end" 'BEGIN { printf "%.3f", b - a }')" >> "$out/stages.tsv"
}

if [ ${#warcs[@]} -eq 0 ]; then
  stage capture tools/demo/capture_pages.sh .deps/pages/warc
  warcs=(.deps/pages/warc/pages-0*.warc.gz)
fi
stage crawl "$bin/sextant" crawl "${warcs[@]}" --out "$out/crawl"
stage vocabulary "$bin/sextant" tokenize train "$out"/crawl/docs-*.jsonl.zst --vocab-size "$vocab" --out "$out/vocab"
stage pack "$bin/sextant" tokenize pack "$out"/crawl/docs-*.jsonl.zst --tokenizer "$out/vocab" \
  --output-prefix "$out/tokens/train" --heldout-prefix "$out/tokens/heldout" --heldout-share 0.04 --out "$out/pack"
stage train "$bin/sextant" train recipes/demo.toml --set "data.paths=$out/tokens/train" \
  --set "data.eval_paths=$out/tokens/heldout" --set "tokenizer.path=$out/vocab" \
  ${steps:+--set training.steps=$steps --set lr_scheduler.warmup_steps=$((steps / 20))} --out "$out/train"
stage sample "$bin/sextant" sample "$out/train" --prompt "The package" --max-tokens 80 --seed 1 --json > "$out/sample.json"
"$bin/sextant" _demo-report "$out"
