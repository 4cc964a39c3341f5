#!/usr/bin/env bash
# Captures real pages into WARC files: HTML books from Debian packages, served on loopback, fetched by wget.
#
#   tools/demo/capture_pages.sh OUT_DIR      writes OUT_DIR/pages-*.warc.gz (about 2,300 pages in ten languages)
#
# Nothing is installed: packages are downloaded and unpacked into .deps/pages. A capture that exists is kept.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:?output folder}
[ -e "$out/complete" ] && exit 0
root=$PWD/.deps/pages
packages="debian-handbook debian-policy debian-faq postgresql-doc-15
  debian-reference-en debian-reference-de debian-reference-es debian-reference-fr debian-reference-it
  debian-reference-ja debian-reference-pt debian-reference-zh-cn
  developers-reference developers-reference-de developers-reference-fr developers-reference-it
  developers-reference-ja developers-reference-ru"
# Of the handbook's editions those whose pages are mostly in their own language.
editions="en-US de-DE es-ES fr-FR it-IT nb-NO pt-BR"

mkdir -p "$root/deb" "$root/tree"
for package in $packages; do
  [ -d "$root/tree/$package" ] && continue
  echo "fetching $package" >&2
  (cd "$root/deb" && { apt-get download -q "$package" >/dev/null 2>&1 ||
     { ${SUDO:-} apt-get update -q >/dev/null 2>&1 && apt-get download -q "$package" >/dev/null; }; })
  dpkg-deb -x "$root"/deb/"$package"_*.deb "$root/tree/.$package"
  mv "$root/tree/.$package" "$root/tree/$package"
done

server_log=$(mktemp)
python3 tools/demo/serve_pages.py "$root/tree" > "$server_log" 2>/dev/null &
server=$!
trap 'kill $server 2>/dev/null; rm -f "$server_log"' EXIT
for _ in $(seq 100); do [ -s "$server_log" ] && break; sleep 0.05; done
address=$(cat "$server_log")
[ -n "$address" ] || { echo "error: the page server did not start" >&2; exit 1; }

rm -rf "$out"
mkdir -p "$out"
(cd "$root/tree" && find $packages -type f \( -name '*.html' -o -name '*.htm' \) | LC_ALL=C sort) |
  awk -v editions="$editions" 'BEGIN { n = split(editions, e, " "); for (i = 1; i <= n; i++) keep[e[i]] = 1 }
    !/^debian-handbook/ { print; next } { split($0, p, "/html/"); split(p[2], q, "/"); if (q[1] in keep) print }' |
  sed "s#^#$address/#" > "$out/urls.txt"
echo "capturing $(wc -l < "$out/urls.txt") pages from $address" >&2
wget --quiet --input-file="$out/urls.txt" --warc-file="$out/pages" --warc-max-size=8M --no-warc-keep-log \
     --output-document=/dev/null --tries=2 --timeout=20
touch "$out/complete"
