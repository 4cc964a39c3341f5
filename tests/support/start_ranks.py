"""Starts a program as N ranks with torchrun's variables: python3 tests/support/start_ranks.py N PROGRAM [ARGUMENT...]

Exit code: that of the first rank that ended with another one than 0. Output of rank 0 is shown, of the others when they
fail.
"""
import os
import socket
import subprocess
import sys
import tempfile
import time


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def variables(rank, size, port):
    return {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(size), "GROUP_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "TORCHELASTIC_RUN_ID": f"test-{os.getpid()}", "TORCHELASTIC_RESTART_COUNT": "0"}


def start(size, command):
    """The processes, by rank, and where their output goes."""
    port = free_port()
    outputs = [tempfile.TemporaryFile() for _ in range(size)]
    processes = [subprocess.Popen(command, env=variables(rank, size, port), stdout=outputs[rank],
                                  stderr=subprocess.STDOUT) for rank in range(size)]
    return processes, outputs


def main():
    processes, outputs = start(int(sys.argv[1]), sys.argv[2:])
    first = 0
    while any(process.poll() is None for process in processes):
        first = first or next((p.returncode for p in processes if p.returncode), 0)
        time.sleep(0.02)
    first = first or next((p.returncode for p in processes if p.returncode), 0)
    for rank, process in enumerate(processes):
        outputs[rank].seek(0)
        text = outputs[rank].read().decode(errors="replace")
        if rank == 0 or process.returncode != 0:
            sys.stdout.write(f"--- rank {rank}, exit {process.returncode}\n{text}")
    sys.exit(first if first >= 0 else 128 - first)


if __name__ == "__main__":
    main()
