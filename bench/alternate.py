"""What the comparing scripts share: their first options, and one run of a program that prints JSON lines."""
import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PEERS = HERE / "peers"


def parser(doc, bench, rounds=3):
    """Options --python, --bench and --rounds; `bench` is the file name of Sextant's side."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--python", default=sys.executable, help="a Python that has the peer's packages")
    made.add_argument("--bench", default=str(HERE.parent / "build/release/bin" / bench))
    made.add_argument("--rounds", type=int, default=rounds, help="alternating runs, of which the median is shown")
    return made


def rows(command):
    """The JSON objects that the command prints, one a line; leaves with its error text if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
