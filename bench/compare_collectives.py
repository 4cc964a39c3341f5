#!/usr/bin/env python3
"""Sextant's rank threads against Gloo over loopback, in alternating runs; prints medians as a table.

    bench/compare_collectives.py --python PYTHON_WITH_TORCH [--bench build/release/bin/bench_collectives]
                                 [--rounds 3] [--ranks 2,4,8] [--kib 64,4096,32768] [--seconds 0.3] [--json FILE]

"of limit" is the measured time of reading and writing the same bytes over the time of the collective: of all ranks
together a reduce-scatter of N bytes reads WN and writes N, an all-gather (own part in place) reads and writes (W-1)N,
an all-reduce is both.
"""
import json
import pathlib
import statistics

import alternate


def main():
    parser = alternate.parser(__doc__, "bench_collectives")
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--kib", default="64,4096,32768")
    parser.add_argument("--seconds", default="0.3")
    parser.add_argument("--json")
    args = parser.parse_args()
    options = ["--ranks", args.ranks, "--kib", args.kib, "--seconds", args.seconds]

    rows = []
    for _ in range(args.rounds):
        rows += alternate.rows([args.bench, *options])
        rows += alternate.rows([args.python, str(alternate.PEERS / "gloo_collectives.py"), *options])
    times = {}
    for row in rows:
        if "ns" in row:
            times.setdefault((row["op"], row["bytes"], row["ranks"]), {}).setdefault(row["system"], []).append(row)

    print(f"medians of {args.rounds} alternating runs")
    print(f"{'call':15} {'bytes':>9} {'ranks':>5} {'sextant':>10} {'gloo':>10} {'ratio':>6} {'limit':>10} {'of limit':>8}")
    table = []
    for (op, size, ranks), systems in times.items():
        own = statistics.median(r["ns"] for r in systems["sextant"])
        limit = statistics.median(r["limit_ns"] for r in systems["sextant"])
        peer = statistics.median(r["ns"] for r in systems["gloo"]) if "gloo" in systems else None
        table.append({"op": op, "bytes": size, "ranks": ranks, "sextant_ns": own, "gloo_ns": peer, "limit_ns": limit})
        print(f"{op:15} {size // 1024:>6}KiB {ranks:>5} {own / 1e6:>8.3f}ms "
              + (f"{peer / 1e6:>8.3f}ms {peer / own:>5.1f}x" if peer else f"{'-':>10} {'-':>6}")
              + f" {limit / 1e6:>8.3f}ms {limit / own:>7.0%}", flush=True)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
