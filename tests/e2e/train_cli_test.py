"""sextant train as a process: kill and resume, signals, bad input: python3 tests/e2e/train_cli_test.py BIN_DIR"""
import json
import os
import pathlib
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

BIN = os.path.abspath(sys.argv.pop(1))
SEED = int(os.environ.get("SX_SEED", "0")) or random.randrange(1 << 30)


def train_command(out, *sets, steps=40):
    return [os.path.join(BIN, "sextant-train"), "train", "--preset", "debug", "--out", out, "--quiet",
            f"--training.steps={steps}", "--checkpoint.interval=5 steps", "--parallelism.dp_replicate=2", *sets]


def weights(out, steps=40):
    folder = os.path.join(out, "ckpt", f"step-{steps:07d}")
    files = sorted(name for name in os.listdir(folder) if name.startswith("model-"))
    return b"".join(pathlib.Path(folder, name).read_bytes() for name in files)


def losses(out):
    return rows(out, "loss", "grad_norm", "eval_loss", "tokens")


class TrainCommand(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.plain = os.path.join(cls.folder.name, "plain")
        begin = time.monotonic()
        subprocess.run(train_command(cls.plain), check=True)
        cls.seconds = time.monotonic() - begin

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def out(self, name):
        path = os.path.join(self.folder.name, name)
        shutil.rmtree(path, ignore_errors=True)
        return path

    def test_sharded_run_goes_on_under_another_layout_with_the_same_bits(self):
        same = ["--training.dtype=fp64", "--training.global_batch_size=8", "--training.micro_batch_size=1",
                "--parallelism.dp.order=flat", "--parallelism.dp.accumulate=local"]
        layouts = [["--parallelism.zero=fsdp2", "--parallelism.dp_shard=4", "--parallelism.dp_replicate=1"],
                   ["--parallelism.zero=zero1", "--parallelism.dp_shard=2", "--parallelism.dp_replicate=2"],
                   ["--parallelism.zero=fsdp1", "--parallelism.dp_shard=2", "--parallelism.dp_replicate=2",
                    "--parallelism.optimizer_over_replicas=true"],
                   ["--parallelism.zero=ddp", "--parallelism.dp_shard=1", "--parallelism.dp_replicate=4"]]
        whole = self.out("whole")
        subprocess.run(train_command(whole, *same, *layouts[3], steps=10), check=True)
        for first, second in [(0, 1), (2, 3)]:
            with self.subTest(first=layouts[first], second=layouts[second]):
                out = self.out("moved")
                # Stopped after the checkpoint of step 5, then gone on with elsewhere.
                subprocess.run(train_command(out, *same, *layouts[first], steps=10), check=True)
                shutil.rmtree(os.path.join(out, "ckpt", "step-0000010"))
                os.remove(os.path.join(out, "ckpt", "latest"))
                verify = [os.path.join(BIN, "sextant-train"), "ckpt", "verify", os.path.join(out, "ckpt", "step-0000005")]
                subprocess.run(verify, check=True, stdout=subprocess.DEVNULL)
                subprocess.run(train_command(out, *same, *layouts[second], steps=10), check=True)
                if second == 3:
                    self.assertEqual(weights(out, 10), weights(whole, 10))
                self.assertEqual(losses(out)[10][:2], losses(whole)[10][:2])

    def test_kill_and_rerun_ends_with_the_same_bits(self):
        rng = random.Random(SEED)
        for round_number in range(4):
            with self.subTest(seed=SEED, round=round_number):
                out = self.out("killed")
                process = subprocess.Popen(train_command(out), stderr=subprocess.DEVNULL)
                time.sleep(rng.uniform(0.1, 0.95) * self.seconds)
                process.kill()
                process.wait()
                subprocess.run(train_command(out), check=True)
                self.assertEqual(weights(out), weights(self.plain))
                self.assertEqual(losses(out), losses(self.plain))
                with open(os.path.join(out, "summary.json")) as file:
                    # The newest save may have been under way: then it goes on from the one before.
                    self.assertLessEqual(json.load(file)["repeated_steps"], 10)

    def test_export_at_the_end_is_what_convert_makes_of_the_last_checkpoint(self):
        out, converted = self.out("exported"), self.out("converted")
        subprocess.run(train_command(out, "--checkpoint.export_hf=true", "--checkpoint.export_dtype=bf16", steps=7), check=True)
        subprocess.run([os.path.join(BIN, "sextant-train"), "ckpt", "convert", os.path.join(out, "ckpt", "step-0000007"), converted,
                        "--from", "sextant", "--to", "hf", "--dtype", "bf16"], check=True, stdout=subprocess.DEVNULL)
        exported = os.path.join(out, "hf")
        names = sorted(os.listdir(converted))
        self.assertIn("config.json", names)
        self.assertEqual(sorted(os.listdir(exported)), names)
        for name in names:
            self.assertEqual(pathlib.Path(exported, name).read_bytes(), pathlib.Path(converted, name).read_bytes(), name)

    def test_interrupt_saves_and_asks_to_be_run_again(self):
        out = self.out("interrupted")
        process = subprocess.Popen(train_command(out, steps=4000), stderr=subprocess.DEVNULL)
        while not os.path.exists(os.path.join(out, "metrics.jsonl")):
            time.sleep(0.02)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=60), 75)
        self.assertTrue(os.path.exists(os.path.join(out, "ckpt", "latest")))

    def events(self, out):
        with open(os.path.join(out, "metrics.jsonl")) as file:
            return [row["step"] for row in map(json.loads, file) if row.get("event") == "resume"]

    def test_evaluation_does_not_depend_on_the_number_of_ranks(self):
        outs = [self.out(name) for name in ("two_ranks", "one_rank")]
        for out, ranks in zip(outs, (2, 1)):
            subprocess.run(train_command(out, "--training.global_batch_size=2", "--training.micro_batch_size=1",
                                         f"--parallelism.dp_replicate={ranks}", steps=2), check=True)
        self.assertTrue(any(eval_loss for _, _, eval_loss, _ in losses(outs[0]).values()))
        self.assertEqual(losses(outs[0]), losses(outs[1]))

    def test_a_named_checkpoint_is_where_a_run_begins(self):
        out = self.out("from_another")
        load = "--checkpoint.load=" + os.path.join(self.plain, "ckpt", "step-0000030")
        subprocess.run(train_command(out, load, steps=32), check=True)
        subprocess.run(train_command(out, load, steps=34), check=True)
        self.assertEqual(self.events(out), [30, 32])
        back = "--checkpoint.load=" + os.path.join(out, "ckpt", "step-0000032")
        subprocess.run(train_command(out, back, steps=36), check=True)
        self.assertEqual(self.events(out), [30, 32, 32])

    def test_eval_only_wants_a_checkpoint(self):
        out = self.out("no_checkpoint")
        subprocess.run(train_command(out, steps=2), check=True)
        shutil.rmtree(os.path.join(out, "ckpt"))
        self.fails(2, "SX2-007", *train_command(out, "--eval-only", steps=2)[2:])

    def fails(self, code, number, *arguments):
        run = subprocess.run([os.path.join(BIN, "sextant-train"), "train", *arguments], capture_output=True, text=True)
        self.assertEqual(run.returncode, code, run.stderr)
        self.assertIn(f"error[{number}]", run.stderr)
        self.assertIn("  next   ", run.stderr)

    def test_another_recipe_does_not_go_on_in_the_folder(self):
        self.fails(2, "SX2-020", *train_command(self.plain, "--optimizer.lr=0.5")[2:])

    def test_bad_input_is_told_in_four_lines(self):
        out = self.out("bad")
        base = ["--preset", "debug", "--out", out]
        self.fails(2, "SX2-001", *base, "--training.stepz=3")
        self.fails(2, "SX2-002", *base, "--training.steps=three")
        self.fails(2, "SX2-007", *base, "--data.paths=/nonexistent/prefix", "--tokenizer.kind=bytes")
        self.fails(2, "SX2-016", *base, "--model.vocab_size=100")

    def test_damaged_checkpoints_do_not_begin_anew(self):
        out = self.out("damaged")
        subprocess.run(train_command(out), check=True)
        for folder in os.listdir(os.path.join(out, "ckpt")):
            weights_file = os.path.join(out, "ckpt", folder, "model-00000.safetensors")
            if os.path.exists(weights_file):
                os.truncate(weights_file, 100)
        self.fails(3, "SX3-005", *train_command(out)[2:])

    def test_fp16_learns_like_fp32_and_goes_on_with_its_loss_scale(self):
        cut = ["--parallelism.dp_shard=2", "--parallelism.dp_replicate=1"]
        wide, narrow = self.out("fp32"), self.out("fp16")
        subprocess.run(train_command(wide, *cut, steps=12), check=True)
        subprocess.run(train_command(narrow, *cut, "--training.dtype=fp16", steps=12), check=True)
        for step, row in losses(wide).items():
            self.assertAlmostEqual(losses(narrow)[step][0], row[0], delta=0.002)
        # From a scale that is too large: the first steps are left out.
        fp16 = [*cut, "--training.dtype=fp16", "--training.loss_scale.initial=4194304",
                "--training.loss_scale.growth_interval=7"]
        whole, parted = self.out("fp16_whole"), self.out("fp16_parted")
        subprocess.run(train_command(whole, *fp16, steps=20), check=True)
        with open(os.path.join(whole, "log", "rank-00000.jsonl")) as file:
            overflows = [row for row in map(json.loads, file) if row["event"] == "numeric.overflow"]
        self.assertTrue(overflows)
        self.assertEqual(overflows[0]["next"], overflows[0]["loss_scale"] / 2)
        with open(os.path.join(whole, "summary.json")) as file:
            self.assertEqual(json.load(file)["skipped_steps"], len(overflows))
        with open(os.path.join(whole, "ckpt", "step-0000020", "state", "scaler.json")) as file:
            scaler = json.load(file)
        self.assertLess(scaler["scale"], 4194304)
        subprocess.run(train_command(parted, *fp16, steps=20), check=True)
        shutil.rmtree(os.path.join(parted, "ckpt", "step-0000020"))
        os.remove(os.path.join(parted, "ckpt", "latest"))
        subprocess.run(train_command(parted, *fp16, steps=20), check=True)
        self.assertEqual(self.events(parted), [15])
        self.assertEqual(weights(parted, 20), weights(whole, 20))
        with open(os.path.join(parted, "ckpt", "step-0000020", "state", "scaler.json")) as file:
            self.assertEqual(json.load(file), scaler)
        # A scale that may not shrink: the overflow is the run's fault.
        self.fails(7, "SX7-001", *train_command(self.out("fp16_stuck"), *fp16, "--training.loss_scale.min=4194304",
                                                steps=5)[2:])

    def test_units_may_differ(self):
        out, same = self.out("units"), self.out("units_same")
        cut = ["--parallelism.dp_shard=2", "--parallelism.dp_replicate=1", "--training.dtype=fp64"]
        units = '[{unit="tok_embeddings", zero="zero1"}, {unit="layers.0", reshard_after_forward=false}]'
        subprocess.run(train_command(out, *cut, "--parallelism.dp.overrides=" + units, steps=4), check=True)
        subprocess.run(train_command(same, *cut, "--parallelism.dp.accumulate=reduced", steps=4), check=True)
        self.assertEqual([row[:2] for row in losses(out).values()], [row[:2] for row in losses(same).values()])

    def test_not_finite_loss_stops_with_exit_7(self):
        out = self.out("numeric")
        self.fails(7, "SX7-001", "--preset", "debug", "--out", out, "--quiet", "--optimizer.lr=1e30",
                   "--training.grad_clip=0", "--training.steps=30")


unittest.main()
