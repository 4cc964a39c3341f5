#!/usr/bin/env bash
# Installs what is missing of tools/setup/packages.txt. Without the right to do so it prints the one line to run.
set -euo pipefail
cd "$(dirname "$0")/../.."
missing=()
while read -r package _; do
  case $package in ''|'#'*) continue ;; esac
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done < tools/setup/packages.txt
[ ${#missing[@]} -eq 0 ] && exit 0

line="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" = 0 ]; then
  run=()
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
  run=(sudo)
else
  echo "error: these Debian packages are missing; with an administrator's rights run:" >&2
  echo "  ${line/apt-get update && /sudo apt-get update && sudo }" >&2
  exit 2
fi
echo "installing ${#missing[@]} Debian packages: ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
"${run[@]}" apt-get update -q >&2
"${run[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}" >&2
