#!/usr/bin/env bash
# Puts LibTorch (the wheel `torch`, no Python needed at run time) into .deps/libtorch/.
#
#   tools/setup/libtorch.sh [VERSION]      default 2.15.0
#
# Address and hash come from pip's report, the file is fetched with curl (resumed if cut) into the cache folder
# ${XDG_CACHE_HOME:-~/.cache}/sextant, which all checkouts share, verified and unzipped. A second call does nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=${1:-2.15.0}
cuda_version=13.2.86   # libcupti and libcudart, which libtorch_cpu.so of that wheel needs to load
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sextant
target=.deps/libtorch

if [ "$(cat $target/.version 2>/dev/null)" = "$version" ] && [ -e $target/torch/lib/libtorch_cpu.so ]; then
  exit 0
fi
mkdir -p "$cache" .deps
progress=--silent
[ -t 2 ] && progress=--progress-bar

# fetch REQUIREMENT: prints the path of the verified wheel in the cache.
fetch() {
  local report url sha file
  report=$(mktemp)
  if ! python3 -m pip install --quiet --dry-run --no-deps --ignore-installed --report "$report" "$1" >&2; then
    rm -f "$report"
    echo "error: pip does not find $1; is the package index reachable?" >&2
    return 3
  fi
  read -r url sha < <(python3 -c '
import json, sys
info = json.load(open(sys.argv[1]))["install"][0]["download_info"]
print(info["url"], info["archive_info"]["hashes"]["sha256"])' "$report")
  rm -f "$report"
  file=$cache/$(basename "${url%%#*}")
  if ! echo "$sha  $file" | sha256sum --check --status 2>/dev/null; then
    echo "fetching $(basename "$file")" >&2
    case $url in
      file://*) cp "${url#file://}" "$file.part" ;;
      *) curl --fail --location --show-error $progress --retry 3 --continue-at - --output "$file.part" "$url" >&2 || return 3 ;;
    esac
    if ! echo "$sha  $file.part" | sha256sum --check --status; then
      rm -f "$file.part"
      echo "error: $(basename "$file") does not have the announced hash; run the same command again" >&2
      return 3
    fi
    mv "$file.part" "$file"
  fi
  echo "$file"
}

rm -rf $target.new
mkdir -p $target.new
for requirement in "torch==$version" "nvidia-cuda-cupti==$cuda_version" "nvidia-cuda-runtime==$cuda_version"; do
  wheel=$(fetch "$requirement") || exit 3
  echo "unpacking $(basename "$wheel")" >&2
  unzip -q -o "$wheel" -d $target.new
done
echo "$version" > $target.new/.version
rm -rf $target
mv $target.new $target
