#!/usr/bin/env python3
"""Checkpoints of Sextant against torch.distributed.checkpoint on the same tensors, in alternating runs; medians.

    bench/compare_checkpoint.py --python PYTHON_WITH_TORCH [--bench build/release/bin/bench_checkpoint]
                                [--rounds 3] [--mib 512] [--ranks 2] [--dir /var/tmp]

"of raw" is the speed over that of plain files of as many bytes and threads, written and read in the same run.
"""
import statistics

import alternate


def main():
    parser = alternate.parser(__doc__, "bench_checkpoint")
    parser.add_argument("--mib", default="512")
    parser.add_argument("--ranks", default="2")
    parser.add_argument("--dir", default="/var/tmp")
    args = parser.parse_args()
    options = ["--rounds", "1", "--mib", args.mib, "--ranks", args.ranks, "--dir", args.dir]
    own, peer = [], []
    for _ in range(args.rounds):
        own += alternate.rows([args.bench, *options])
        peer += alternate.rows([args.python, str(alternate.PEERS / "dcp_checkpoint.py"), *options])

    def median(rows, key):
        return statistics.median(row[key] for row in rows)

    print(f"medians of {args.rounds} alternating runs, {args.ranks} ranks, {own[0]['bytes'] / 1e6:.0f} MB")
    print(f"{'':24} {'sextant':>10} {'dcp':>10}")
    for name, key in [("save MB/s", "save_mb_s"), ("load MB/s", "load_mb_s"), ("max over mean bytes", "max_over_mean"),
                      ("async: blocked s", "blocked_s"), ("async: until saved s", "async_s")]:
        print(f"{name:24} {median(own, key):>10.3f} {median(peer, key):>10.3f}")
    for name, key in [("save of raw", "save_of_raw"), ("load of raw", "load_of_raw"), ("raw write MB/s", "raw_write_mb_s"),
                      ("raw read MB/s", "raw_read_mb_s"), ("first async: blocked s", "first_blocked_s"),
                      ("copy beside: blocked s", "blocked_background_s")]:
        print(f"{name:24} {median(own, key):>10.3f}")
    print(f"blocked of a save        {median(own, 'blocked_s') / median(own, 'save_s'):>10.3f} "
          f"{median(peer, 'blocked_s') / median(peer, 'save_s'):>10.3f}")


if __name__ == "__main__":
    main()
