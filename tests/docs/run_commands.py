"""Runs the commands the documentation shows: python3 tests/docs/run_commands.py BIN_DIR

Fenced `sh` blocks of README.md and docs/ run as they stand, page by page, in a scratch folder that looks like the checkout
(build/release/bin is BIN_DIR). Two commands are not run here: `./sx demo` (test e2e.demo runs its line) and `./sx test`
(it runs this). Commands in running text and tables are parsed by the programs (with --help).
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

BIN = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOT_HERE = re.compile(r"^\./sx (demo|test)\b")
PAGES = [os.path.join(ROOT, "README.md"), *sorted(glob.glob(os.path.join(ROOT, "docs", "**", "*.md"), recursive=True))]
faults = []
counts = {"blocks": 0, "spans": 0}


def scratch_checkout(folder):
    for name in ("examples", "recipes", "tools", "docs", "sx"):
        os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
    os.makedirs(os.path.join(folder, "build", "release"))
    os.makedirs(os.path.join(folder, "runs"))
    os.symlink(BIN, os.path.join(folder, "build", "release", "bin"))


def run_page(page, text):
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines() if line and not NOT_HERE.match(line)]
    if not lines:
        return
    counts["blocks"] += len(blocks)
    with tempfile.TemporaryDirectory() as folder:
        scratch_checkout(folder)
        script = "set -e\n" + "".join(f"echo '+ '{subprocess.list2cmdline([line])!r}\n{line}\n" for line in lines)
        run = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True)
        if run.returncode != 0:
            faults.append(f"{page}: exit {run.returncode}\n{run.stdout[-800:]}\n{run.stderr[-1500:]}")


def parse_spans(page, text):
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    for span in re.findall(r"`(sextant(?:-train)? [a-z][^`\n]*)`", prose):
        words = span.replace("|", " ").split()
        if any(word in ("...", "<verb>") for word in words):
            continue
        counts["spans"] += 1
        run = subprocess.run([os.path.join(BIN, words[0]), *words[1:], "--help"], capture_output=True, text=True)
        if run.returncode != 0:
            faults.append(f"{page}: `{span}` is not understood\n{run.stderr[-400:]}")


for path in PAGES:
    with open(path) as file:
        content = file.read()
    name = os.path.relpath(path, ROOT)
    run_page(name, content)
    parse_spans(name, content)
print(f"{counts['blocks']} blocks run, {counts['spans']} commands parsed, {len(faults)} faults")
print("\n".join(faults))
sys.exit(1 if faults or counts["blocks"] == 0 else 0)
