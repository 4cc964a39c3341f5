#!/usr/bin/env python3
"""A GPT-2-124M training step of Sextant beside PyTorch eager and torch.compile, in alternating runs; prints medians.

    bench/compare_train_step.py --python PYTHON_WITH_TORCH [--bench build/release/bin/bench_train_step]
                                [--rounds 3] [--steps 5] [--threads 2] [--dtypes fp32,bf16] [--modes eager,compile]
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def tokens_per_s(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])["tokens_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--bench", default=str(HERE.parent / "build/release/bin/bench_train_step"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", default="5")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--dtypes", default="fp32,bf16")
    parser.add_argument("--modes", default="eager,compile")
    args = parser.parse_args()
    options = ["--steps", args.steps, "--threads", args.threads]
    peer = [args.python, str(HERE / "peers/train_gpt2_124m.py"), *options]
    modes = args.modes.split(",")

    print(f"tokens/s, median (smallest to largest) of {args.rounds} alternating runs of {args.steps} steps")
    for dtype in args.dtypes.split(","):
        seen = {name: [] for name in ["sextant", *modes]}
        for _ in range(args.rounds):
            seen["sextant"].append(tokens_per_s([args.bench, *options, "--dtype", dtype]))
            for mode in modes:
                seen[mode].append(tokens_per_s([*peer, "--dtype", dtype, "--mode", mode]))
        own = statistics.median(seen["sextant"])
        for name, values in seen.items():
            middle = statistics.median(values)
            print(f"{dtype}  {name:8}  {middle:7.1f}  ({min(values):.1f} to {max(values):.1f})"
                  + (f"  sextant is {own / middle:.2f}x" if name != "sextant" else ""), flush=True)


if __name__ == "__main__":
    main()
