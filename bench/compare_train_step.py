#!/usr/bin/env python3
"""A GPT-2-124M training step of Sextant beside PyTorch eager and torch.compile, in alternating runs; prints medians.

    bench/compare_train_step.py --python PYTHON_WITH_TORCH [--bench build/release/bin/bench_train_step]
                                [--rounds 3] [--steps 5] [--threads 2] [--dtypes fp32,bf16] [--modes eager,compile]
"""
import statistics

import alternate


def tokens_per_s(command):
    return alternate.rows(command)[-1]["tokens_per_s"]


def main():
    parser = alternate.parser(__doc__, "bench_train_step")
    parser.add_argument("--steps", default="5")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--dtypes", default="fp32,bf16")
    parser.add_argument("--modes", default="eager,compile")
    args = parser.parse_args()
    options = ["--steps", args.steps, "--threads", args.threads]
    peer = [args.python, str(alternate.PEERS / "train_gpt2_124m.py"), *options]
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
