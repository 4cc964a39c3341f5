#!/usr/bin/env bash
# Puts lexbor (HTML parser, Apache-2.0) as a static library into .deps/lexbor/, unless the system has 3.1 or newer.
#
#   tools/setup/lexbor.sh
#   SX_LEXBOR_SOURCE=/path/to/lexbor tools/setup/lexbor.sh     builds that tree instead
#
# Debian 12 has no lexbor. The source distribution of the Python package selectolax 1.0.2 carries lexbor 3.1.0 complete
# with its CMake files; pip fetches it into the cache folder ${XDG_CACHE_HOME:-~/.cache}/sextant, which all checkouts
# share. A second call does nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
package=selectolax
package_version=1.0.2
package_sha256=f0508ad927aa426425d4aa7a2bb2f8b21c01412534465bd227e241d4d0a6a418
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sextant
target=.deps/lexbor
source=${SX_LEXBOR_SOURCE:-}
stamp=${source:-$package-$package_version}

[ "$(cat $target/.version 2>/dev/null)" = "$stamp" ] && [ -e $target/lib/liblexbor_static.a ] && exit 0
if [ -z "$source" ] && pkg-config --exists 'lexbor >= 3.1' 2>/dev/null; then exit 0; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "$source" ]; then
  archive=$cache/$package-$package_version.tar.gz
  if ! echo "$package_sha256  $archive" | sha256sum --check --status 2>/dev/null; then
    echo "fetching the source of lexbor" >&2
    mkdir -p "$cache"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary "$package" \
      --dest "$work" "$package==$package_version" >&2
    if ! echo "$package_sha256  $work/$(basename "$archive")" | sha256sum --check --status; then
      echo "error: $(basename "$archive") does not have the expected hash" >&2
      exit 3
    fi
    mv "$work/$(basename "$archive")" "$archive.part.$$"
    mv "$archive.part.$$" "$archive"
  fi
  tar -xzf "$archive" -C "$work"
  source=$work/$package-$package_version/lexbor
fi
[ -e "$source/CMakeLists.txt" ] || { echo "error: $source holds no CMakeLists.txt of lexbor" >&2; exit 2; }

echo "building lexbor" >&2
mkdir -p .deps
rm -rf "$target.new"
{
  cmake -S "$source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    -DCMAKE_INSTALL_PREFIX="$PWD/$target.new" -DCMAKE_INSTALL_LIBDIR=lib -DLEXBOR_BUILD_SHARED=OFF \
    -DLEXBOR_BUILD_STATIC=ON
  cmake --build "$work/build"
  cmake --install "$work/build"
} >"$work/log" 2>&1 || { tail -30 "$work/log" >&2; echo "error: lexbor does not build" >&2; exit 1; }
echo "$stamp" > "$target.new/.version"
rm -rf "$target"
mv "$target.new" "$target"
