"""bench_fsdp_overhead in Python: FSDP2 (fully_shard) on torch's fake process group, the same blocks, world and steps.

    python fsdp2_overhead.py [units] [steps]

Needs `torch` from PyPI. One JSON line.
"""
import json
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

WIDTH, WORLD = 16, 8


def stack(units):
    return nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
                           for _ in range(units)])


def median_us(steps, model, x):
    times = []
    for step in range(steps + 5):
        start = time.perf_counter()
        model(x).sum().backward()
        model.zero_grad(set_to_none=True)
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times[5:])


def main():
    units = int(sys.argv[1]) if len(sys.argv) > 1 else 24
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    torch.set_num_threads(1)
    x = torch.ones(4, WIDTH)
    without = median_us(steps, stack(units), x)
    dist.init_process_group("fake", rank=0, world_size=WORLD, store=FakeStore())
    mesh = init_device_mesh("cpu", (WORLD,))
    model = stack(units)
    for block in model:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    with_us = median_us(steps, model, x)
    print(json.dumps({"bench": "fsdp_overhead", "system": "fsdp2", "units": units, "with_us": round(with_us, 1),
                      "without_us": round(without, 1), "us_per_unit": round((with_us - without) / units, 2),
                      "torch": torch.__version__}))


if __name__ == "__main__":
    main()
