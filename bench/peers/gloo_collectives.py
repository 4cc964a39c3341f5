"""The collectives of bench_collectives on torch.distributed's Gloo back end over loopback: one process a rank.

    python gloo_collectives.py [--ranks 2,4,8] [--kib 64,4096,32768] [--seconds 0.3]

Prints the same JSON lines. Needs `torch` from PyPI.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

REPETITIONS = 7


def time_calls(seconds, call):
    """Median time of one call in ns; calls back to back, as in the C++ program."""
    for _ in range(2):
        call()
    dist.barrier()
    start = time.perf_counter_ns()
    for _ in range(3):
        call()
    one = max((time.perf_counter_ns() - start) / 3, 1.0)
    count = torch.tensor([max(1, min(100_000, int(seconds * 1e9 / REPETITIONS / one)))])
    dist.broadcast(count, 0)
    times = []
    for _ in range(REPETITIONS):
        dist.barrier()
        start = time.perf_counter_ns()
        for _ in range(int(count)):
            call()
        times.append((time.perf_counter_ns() - start) / int(count))
    return statistics.median(times)


def work(rank, world, args, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    for op in ("all_reduce", "reduce_scatter", "all_gather"):
        for kib in args.kib:
            elements = kib * 1024 // 4
            whole = torch.zeros(elements)
            part = torch.zeros(elements // world)
            own = whole.narrow(0, rank * (elements // world), elements // world)
            call = {
                "all_reduce": lambda: dist.all_reduce(whole),
                "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole),
                "all_gather": lambda: dist.all_gather_into_tensor(whole, own),
            }[op]
            try:
                ns = time_calls(args.seconds, call)
            except (RuntimeError, ValueError, NotImplementedError) as error:
                if rank == 0:
                    print(json.dumps({"bench": "collectives", "system": "gloo", "op": op, "bytes": kib * 1024,
                                      "ranks": world, "error": str(error)[:200]}), flush=True)
                continue
            if rank == 0:
                print(json.dumps({"bench": "collectives", "system": "gloo", "op": op, "bytes": kib * 1024,
                                  "ranks": world, "ns": round(ns)}), flush=True)
    dist.destroy_process_group()


def main():
    numbers = lambda text: [int(x) for x in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=numbers, default=[2, 4, 8])
    parser.add_argument("--kib", type=numbers, default=[64, 4096, 32768])
    parser.add_argument("--seconds", type=float, default=0.3)
    args = parser.parse_args()
    for i, world in enumerate(args.ranks):
        mp.spawn(work, args=(world, args, 29_611 + i + os.getpid() % 1000), nprocs=world)


if __name__ == "__main__":
    main()
