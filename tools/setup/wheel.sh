# Sourced by the setup scripts: fetch_wheel REQUIREMENT prints the path of the verified wheel in the cache folder
# ${XDG_CACHE_HOME:-~/.cache}/sextant, which all checkouts share. Address and hash come from pip's report; a download that
# was cut is resumed.
wheel_cache=${XDG_CACHE_HOME:-$HOME/.cache}/sextant
wheel_progress=--silent
[ -t 2 ] && wheel_progress=--progress-bar

fetch_wheel() {
  local report url sha file
  mkdir -p "$wheel_cache"
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
  file=$wheel_cache/$(basename "${url%%#*}")
  if ! echo "$sha  $file" | sha256sum --check --status 2>/dev/null; then
    echo "fetching $(basename "$file")" >&2
    case $url in
      file://*) cp "${url#file://}" "$file.part" ;;
      *) curl --fail --location --show-error $wheel_progress --retry 3 --continue-at - --output "$file.part" "$url" >&2 || return 3 ;;
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
