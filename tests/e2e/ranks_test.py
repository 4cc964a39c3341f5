"""Training on several processes: python3 tests/e2e/ranks_test.py BIN_DIR SUITE [MPIEXEC]

Bits: the same bits by rank threads, sextant launch, torchrun's variables and, given MPIEXEC, mpirun. Presets: the same for
every way to shard. Start: ranks that do
not start alike or do not come, faults of environment and command line. Ends: signals, restarts, a rank that hangs. Kills:
one of four ranks is killed 20 times under sextant launch and 20 times under mpirun; the survivors end in time with a
cause and a flight record. SX_SEED repeats a run.
"""
import glob
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from metrics_rows import rows  # noqa: E402
from start_ranks import free_port, variables  # noqa: E402

BIN = os.path.abspath(sys.argv[1])
SUITE = sys.argv[2]
MPIEXEC = sys.argv[3] if len(sys.argv) > 3 else ""
KILLS = 20
SEED = int(os.environ.get("SX_SEED", "0")) or random.randrange(1 << 30)
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}
SEXTANT = os.path.join(BIN, "sextant")
TRAIN = os.path.join(BIN, "sextant-train")
LIMIT = 5.0  # seconds from a failure to the end of all ranks; launching and loaded machines not included


def train(out, *sets, steps=20, ranks=4):
    return ["train", "--preset", "debug", "--out", out, "--quiet", f"--training.steps={steps}",
            "--checkpoint.interval=5 steps", f"--parallelism.dp_replicate={ranks}", *sets]


def launch(ranks, words, *flags):
    return [SEXTANT, "launch", "--ranks", str(ranks), *flags, "--", *words]


def mpirun(ranks, words):
    return [MPIEXEC, "-n", str(ranks), TRAIN, *words]


def saved(out, steps=20):
    contents = {}
    for path in sorted(glob.glob(os.path.join(out, "ckpt", f"step-{steps:07d}", "*.safetensors"))):
        with open(path, "rb") as file:
            contents[os.path.basename(path)] = file.read()
    return contents


def losses(out):
    return rows(out, "loss", "grad_norm", "tokens")


def ranks_of(out):
    """{rank: pid} of the sextant-train processes that write to `out`."""
    found = {}
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            with open(os.path.join(folder, "cmdline"), "rb") as file:
                words = file.read().split(b"\0")
            if os.path.basename(words[0]) != b"sextant-train" or out.encode() not in words:
                continue
            with open(os.path.join(folder, "environ"), "rb") as file:
                pairs = dict(entry.split(b"=", 1) for entry in file.read().split(b"\0") if b"=" in entry)
        except (OSError, IndexError):
            continue
        rank = pairs.get(b"RANK") or pairs.get(b"OMPI_COMM_WORLD_RANK")
        if rank is not None:
            found[int(rank)] = int(os.path.basename(folder))
    return found


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come within {seconds} s")
        time.sleep(0.01)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def out(self, name):
        path = os.path.join(self.folder.name, name)
        shutil.rmtree(path, ignore_errors=True)
        return path

    def run_ranks(self, commands, extra=None):
        """One command per rank under torchrun's variables; their (exit code, output), and seconds."""
        port = free_port()
        begin = time.monotonic()
        size = len(commands)
        processes = [command and subprocess.Popen([TRAIN, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                                  text=True, env={**variables(rank, size, port), **(extra or {})})
                     for rank, command in enumerate(commands)]
        ends = []
        for process in processes:
            if process:
                text = process.communicate(timeout=60)[0]
                ends.append((process.returncode, text))
        return ends, time.monotonic() - begin

    def start_and_wait_for_steps(self, command, out, step):
        process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        self.addCleanup(process.stdout.close)
        path = os.path.join(out, "metrics.jsonl")
        wait_until(lambda: os.path.exists(path) and any(f'"step":{step},' in line for line in open(path)), 60,
                   f"step {step}")
        return process


class Bits(Case):
    def test_threads_launch_torchrun_and_mpirun_give_the_same_bits(self):
        plain = self.out("threads")
        subprocess.run([TRAIN, *train(plain)], check=True)
        runs = {"launch": lambda out: subprocess.run(launch(4, train(out)), check=True),
                "torchrun": lambda out: self.assertEqual([code for code, _ in self.run_ranks([train(out)] * 4)[0]],
                                                         [0, 0, 0, 0])}
        if MPIEXEC:
            runs["mpirun"] = lambda out: subprocess.run(mpirun(4, train(out)), check=True, env=ENVIRONMENT)
        self.assertEqual(len(saved(plain)), 8)  # weights and optimizer states, a share of each from every rank
        for name, run in runs.items():
            with self.subTest(name):
                out = self.out(name)
                run(out)
                self.assertEqual(saved(out), saved(plain))
                self.assertEqual(losses(out), losses(plain))
                self.assertEqual(len(glob.glob(os.path.join(out, "trace", "rank-*.jsonl"))), 4)
                self.assertTrue(os.path.exists(os.path.join(out, "report.html")))


class Presets(Case):
    """Every way to shard, on 2 and on 4 processes, against rank threads."""

    def test_processes_have_the_bits_of_threads(self):
        runner = mpirun if MPIEXEC else launch
        for zero, replicas, shards in (("ddp", 2, 1), ("ddp", 4, 1), ("zero1", 1, 2), ("zero1", 1, 4), ("zero2", 1, 4),
                                       ("zero2", 2, 2), ("fsdp1", 1, 2), ("fsdp1", 1, 4), ("fsdp2", 1, 2), ("fsdp2", 1, 4),
                                       ("fsdp2", 2, 2)):
            with self.subTest(f"{zero} {replicas} x {shards}"):
                sets = [f"--parallelism.zero={zero}", f"--parallelism.dp_shard={shards}"]
                threads, processes, sockets = self.out("threads"), self.out("processes"), self.out("sockets")
                subprocess.run([TRAIN, *train(threads, *sets, ranks=replicas)], check=True)
                ranks = replicas * shards
                subprocess.run(runner(ranks, train(processes, *sets, ranks=replicas)), check=True, env=ENVIRONMENT)
                self.assertGreater(len(saved(threads)), 1)
                self.assertEqual(saved(processes), saved(threads))
                self.assertEqual(losses(processes), losses(threads))
                if (zero, ranks) == ("fsdp2", 4):
                    subprocess.run(launch(ranks, train(sockets, *sets, ranks=replicas)), check=True)
                    self.assertEqual(saved(sockets), saved(threads))


class Start(Case):
    def test_ranks_with_another_recipe_are_named_on_all(self):
        out = self.out("differ")
        commands = [train(out)] * 2 + [train(out, "--optimizer.lr=0.5")] + [train(out)]
        ends, seconds = self.run_ranks(commands)
        for code, text in ends:
            self.assertEqual(code, 2, text)
            self.assertIn("rank 2: recipe", text)
        self.assertIn("error[SX2-019]", ends[0][1] + ends[2][1])
        self.assertLess(seconds, LIMIT + 5)

    def test_a_rank_that_does_not_come_is_named(self):
        out = self.out("missing")
        ends, _ = self.run_ranks([train(out, "--comm.init_timeout=1s")] * 3 + [None])
        for code, text in ends:
            self.assertEqual(code, 4, text)
        self.assertTrue(any("rank 3 of 4 did not come" in text for _, text in ends), ends)

    def test_a_fault_of_one_rank_ends_all_with_its_code(self):
        out = self.out("fault")
        error_file = os.path.join(self.folder.name, "error.json")
        commands = [train(out)] * 3 + [train(out, "--tokenizer.path=/nowhere")]
        ends, seconds = self.run_ranks(commands, {"TORCHELASTIC_ERROR_FILE": error_file})
        for code, text in ends:
            self.assertEqual(code, 2, text)
        self.assertIn("error[SX2-007]", ends[3][1])
        self.assertIn("rank 3 failed first", ends[1][1])
        self.assertLess(seconds, LIMIT + 5)
        with open(error_file) as file:
            self.assertIn("timestamp", json.load(file)["message"]["extraInfo"])

    def test_the_same_under_mpirun(self):
        if not MPIEXEC:
            return
        for change, line in (("--tokenizer.path=/nowhere", "rank 3 failed first: error[SX2-007]"),
                             ("--optimizer.lr=0.5", "rank 3: recipe")):
            out = self.out("mpi")
            command = [MPIEXEC, "-n", "3", TRAIN, *train(out), ":", "-n", "1", TRAIN, *train(out, change)]
            run = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(line, run.stderr)

    def test_faults_of_the_environment(self):
        out = self.out("environment")
        half = {key: value for key, value in os.environ.items() if key != "WORLD_SIZE"}
        run = subprocess.run([TRAIN, *train(out)], env={**half, "RANK": "0"}, capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("RANK without WORLD_SIZE, MASTER_ADDR, MASTER_PORT", run.stderr)
        run = subprocess.run([TRAIN, *train(out)], env=variables(0, 3, 29500), capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("error[SX2-010] torchrun started 3 ranks, the recipe's degrees make 4", run.stderr)
        run = subprocess.run([TRAIN, *train(out, "--comm.transport=tcp")], capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("sextant launch --ranks N", run.stderr)
        run = subprocess.run([TRAIN, *train(out, "--comm.transport=threads")], env=variables(0, 4, 29500),
                             capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("error[SX2-004]", run.stderr)

    def test_launch_checks_its_command(self):
        for words, text in ((["--", "train"], "needs --ranks"), (["--ranks", "2", "--", "ckpt"], "no use for ckpt"),
                            (["--ranks", "2"], "needs -- COMMAND"),
                            (["--ranks", "2", "--nodes", "/dev/null", "--", "train"], "does not list this host")):
            run = subprocess.run([SEXTANT, "launch", *words], capture_output=True, text=True)
            self.assertEqual(run.returncode, 2, words)
            self.assertIn(text, run.stderr)
        run = subprocess.run([SEXTANT, "launch", "--ranks", "2", "--dry-run", "--", "x.toml"], capture_output=True,
                             text=True, check=True)
        self.assertIn("rank 1 of 2", run.stdout)
        self.assertIn("train x.toml --out runs/train-x-", run.stdout)


class Ends(Case):
    def test_interrupt_saves_and_the_same_command_goes_on(self):
        plain = self.out("plain")
        subprocess.run(launch(2, train(plain, ranks=2, steps=400)), check=True)
        out = self.out("interrupted")
        process = self.start_and_wait_for_steps(launch(2, train(out, ranks=2, steps=400)), out, 3)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=30), 75)
        self.assertTrue(os.path.exists(os.path.join(out, "ckpt", "latest")))
        subprocess.run(launch(2, train(out, ranks=2, steps=400)), check=True)
        self.assertEqual(saved(out, 400), saved(plain, 400))

    def test_a_killed_rank_is_restarted_from_the_checkpoint(self):
        plain = self.out("plain")
        subprocess.run(launch(2, train(plain, ranks=2, steps=400)), check=True)
        out = self.out("restarted")
        process = self.start_and_wait_for_steps(launch(2, train(out, ranks=2, steps=400), "--max-restarts", "1"), out, 7)
        os.kill(ranks_of(out)[1], signal.SIGKILL)
        text = process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, 0, text)
        self.assertIn("rank 1 was ended by signal 9", text)
        self.assertIn("restart 1 of 1", text)
        self.assertEqual(saved(out, 400), saved(plain, 400))

    def test_a_rank_that_hangs_is_a_time_out_with_a_flight_record(self):
        for runner in (launch, mpirun) if MPIEXEC else (launch,):
            with self.subTest(runner.__name__):
                out = self.out("hangs")
                words = train(out, "--comm.timeout=1s", ranks=3, steps=1000000)
                process = self.start_and_wait_for_steps(runner(3, words), out, 3)
                pids = ranks_of(out)
                os.kill(pids[2], signal.SIGSTOP)
                begin = time.monotonic()
                text = process.communicate(timeout=30)[0]
                self.assertEqual(process.returncode, 4, text)
                self.assertLess(time.monotonic() - begin, 1.0 + LIMIT + 2)
                # Another rank may wait for rank 2 as well, and be waited for.
                self.assertRegex(text, r"for rank (\d, )*2(, \d)* to (join|take its data)")
                wait_until(lambda: not ranks_of(out), LIMIT, "the end of all ranks")
                for rank in (0, 1):
                    self.assertTrue(os.path.exists(os.path.join(out, "flight", f"rank-{rank:05d}.json")))


class Kills(Case):
    """One of four ranks is killed at a random moment of training."""

    def attack(self, name, command, codes):
        rng = random.Random(SEED)
        slowest = 0.0
        for number in range(KILLS):
            victim = rng.randrange(4)
            delay = rng.uniform(0.0, 0.3)
            with self.subTest(runner=name, seed=SEED, kill=number, victim=victim):
                out = self.out("killed")
                process = self.start_and_wait_for_steps(command(train(out, steps=1000000)), out, 2)
                time.sleep(delay)
                before = sorted(os.listdir(os.path.join(out, "ckpt"))) if os.path.isdir(os.path.join(out, "ckpt")) else []
                pids = ranks_of(out)
                begin = time.monotonic()
                os.kill(pids[victim], signal.SIGKILL)
                text = process.communicate(timeout=30)[0]
                seconds = time.monotonic() - begin
                slowest = max(slowest, seconds)
                wait_until(lambda: not ranks_of(out), LIMIT - seconds, "the end of all ranks")
                self.assertIn(process.returncode, codes, text)
                self.assertLess(seconds, LIMIT, text)
                self.assertIn(f"rank {victim} is gone", text)
                flights = sorted(os.path.basename(path) for path in glob.glob(os.path.join(out, "flight", "*.json")))
                self.assertEqual(flights, [f"rank-{rank:05d}.json" for rank in range(4) if rank != victim])
                for path in glob.glob(os.path.join(out, "flight", "*.json")):
                    with open(path) as file:
                        json.load(file)
                # At most the save that was under way when the rank died; none was begun because of the signals.
                after = sorted(os.listdir(os.path.join(out, "ckpt"))) if os.path.isdir(os.path.join(out, "ckpt")) else []
                self.assertLessEqual(len(set(after) - set(before)), 3, (before, after))
        print(f"{name}: {KILLS} kills, slowest end {slowest:.2f} s", flush=True)

    def test_launch(self):
        self.attack("launch", lambda words: launch(4, words), (4,))

    def test_mpirun(self):
        if MPIEXEC:
            self.attack("mpirun", lambda words: mpirun(4, words), (4, 137))


def main():
    print(f"seed {SEED}", flush=True)
    suite = unittest.defaultTestLoader.loadTestsFromTestCase({"Bits": Bits, "Presets": Presets, "Start": Start, "Ends": Ends, "Kills": Kills}[SUITE])
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
