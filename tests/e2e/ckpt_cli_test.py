"""Checkpoints as a person meets them: python3 tests/e2e/ckpt_cli_test.py BIN_DIR [DiskFull]"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN = os.path.abspath(sys.argv.pop(1))
TRAIN = os.path.join(BIN, "sextant-train")


def run(*arguments, **options):
    return subprocess.run([TRAIN, *map(str, arguments)], capture_output=True, text=True, timeout=120, **options)


def train(out, *sets, steps=6):
    return run("train", "--preset", "debug", "--out", out, "--quiet", f"--training.steps={steps}",
               "--checkpoint.interval=2 steps", "--checkpoint.keep=9", "--training.global_batch_size=12",
               "--training.micro_batch_size=1", *sets)


def step(out, number):
    return pathlib.Path(out) / "ckpt" / f"step-{number:07d}"


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 0x20
    path.write_bytes(data)


def events(out):
    lines = []
    for log in sorted((pathlib.Path(out) / "log").glob("*.jsonl")):
        lines += [json.loads(line) for line in log.read_text().splitlines()]
    return lines


class Checkpoints(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.plain = pathlib.Path(cls.folder.name) / "plain"
        done = train(cls.plain, "--parallelism.zero=fsdp2", "--parallelism.dp_shard=3")
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def copy(self, name):
        path = pathlib.Path(self.folder.name) / name
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.plain, path)
        return path

    def check(self, done, code, *texts):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for text in texts:
            self.assertIn(text, done.stdout + done.stderr)
        return done

    def test_saves_beside_training_are_told_in_log_and_metrics(self):
        saved = [e for e in events(self.plain) if e["event"] == "ckpt.saved"]
        self.assertEqual([e["step"] for e in saved], [2, 4, 6])
        self.assertTrue(all(e["seconds"] >= e["blocked_seconds"] >= 0 for e in saved))
        rows = [json.loads(line) for line in (self.plain / "metrics.jsonl").read_text().splitlines()]
        self.assertTrue(any("ckpt_blocking_s" in row and row["ckpt_bytes"] > 0 for row in rows))
        files = sorted(p.name for p in step(self.plain, 4).iterdir())
        self.assertEqual([f for f in files if f.startswith("model-")], [f"model-0000{i}.safetensors" for i in range(3)])
        self.assertFalse([f for f in files if f.startswith("part-")])

    def test_verify_says_when_the_newest_is_damaged(self):
        run_folder = self.copy("torn")
        self.check(run("ckpt", "verify", run_folder), 0, "step-0000006: whole")
        path = step(run_folder, 6) / "model-00001.safetensors"
        os.truncate(path, path.stat().st_size - 1)
        self.check(run("ckpt", "verify", run_folder), 5, "step-0000006", "model-00001.safetensors has",
                   "a resume would pass over what is newer than it")
        self.check(run("ckpt", "inspect", run_folder), 3, "the newest checkpoint is damaged")
        answer = json.loads(run("ckpt", "verify", run_folder, "--json").stdout)
        self.assertFalse(answer["whole"])
        self.assertTrue(answer["path"].endswith("step-0000004"))

    def test_a_flipped_byte_is_found_by_verify_and_by_sample(self):
        run_folder = self.copy("flipped")
        flip(step(run_folder, 6) / "model-00000.safetensors", -5)
        self.check(run("ckpt", "verify", run_folder), 5, "model-00000.safetensors: hash", "logical checksum")
        self.check(run("sample", run_folder, "--max-tokens=1"), 3, "SX3-003", "logical checksum")
        flip(step(run_folder, 6) / "model-00000.safetensors", -5)
        self.check(run("sample", run_folder, "--max-tokens=1"), 0)
        flip(step(run_folder, 6) / "model.json", 10)
        self.check(run("sample", run_folder, "--max-tokens=1"), 3, "model.json: hash")

    def test_a_dangling_latest_is_passed_over_aloud(self):
        run_folder = self.copy("dangling")
        shutil.rmtree(step(run_folder, 6))
        self.check(run("ckpt", "verify", run_folder), 5, "step-0000006")
        self.check(train(run_folder, "--parallelism.zero=fsdp2", "--parallelism.dp_shard=3"), 0)
        self.assertTrue(any(e["event"] == "ckpt.invalid" for e in events(run_folder)))
        self.check(run("ckpt", "diff", step(run_folder, 6), step(self.plain, 6)), 0, "0 differ")

    def test_a_newer_format_is_refused(self):
        run_folder = self.copy("newer")
        manifest = step(run_folder, 6) / "manifest.json"
        manifest.write_text(manifest.read_text().replace('"version":1', '"version":7', 1))
        for command in [("ckpt", "verify", run_folder), ("ckpt", "inspect", run_folder), ("sample", run_folder)]:
            self.check(run(*command), 2, "format version 7 is newer than version 1")
        self.check(train(run_folder, "--parallelism.zero=fsdp2", "--parallelism.dp_shard=3", steps=8), 2,
                   "format version 7 is newer than version 1")

    def test_a_run_goes_on_with_another_number_of_ranks(self):
        run_folder = self.copy("regrown")
        self.check(train(run_folder, "--parallelism.zero=zero1", "--parallelism.dp_shard=2",
                         "--parallelism.dp_replicate=2", steps=8), 0)
        self.check(train(run_folder, "--parallelism.zero=ddp", "--parallelism.dp_replicate=1", steps=9), 0)
        loaded = [(e["event"], e.get("step")) for e in events(run_folder) if e["event"].startswith("ckpt.")]
        self.assertIn(("ckpt.loaded", 6), loaded)
        self.assertIn(("ckpt.loaded", 8), loaded)
        self.check(run("ckpt", "verify", run_folder), 0)

    def test_reshard_diff_and_convert(self):
        folder = pathlib.Path(self.folder.name)
        plan = json.loads(self.check(run("ckpt", "reshard", self.plain, folder / "two", "--ranks=2", "--plan", "--json"),
                                     0).stdout)
        self.assertEqual(len(plan), 4)
        self.assertFalse((folder / "two").exists())
        self.check(run("ckpt", "reshard", self.plain, folder / "two", "--ranks", "2"), 0)
        self.check(run("ckpt", "verify", folder / "two"), 0, "whole")
        self.check(run("ckpt", "diff", self.plain, folder / "two"), 0, "0 differ")
        self.check(run("ckpt", "reshard", self.plain, folder / "two"), 2, "is there already")
        self.check(run("ckpt", "convert", folder / "two", folder / "one"), 0)
        shown = json.loads(run("ckpt", "inspect", folder / "one", "--json").stdout)
        self.assertEqual(shown["step"], 6)
        self.assertTrue(all(tensor["chunks"] == 1 for tensor in shown["tensors"]))
        name = shown["tensors"][0]["name"]
        self.check(run("ckpt", "inspect", folder / "one", "--tensor", name), 0, name, "norm")
        other = run("ckpt", "diff", step(self.plain, 4), step(self.plain, 6))
        self.check(other, 5, "elements differ, the first at 0", "state loader: differs")
        self.check(train(self.copy("from_two"), f"--checkpoint.load={folder / 'two'}", "--parallelism.zero=fsdp2",
                         "--parallelism.dp_shard=3", steps=8), 0)

    def test_names_of_one_side_alone(self):
        out = pathlib.Path(self.folder.name) / "other"
        shutil.rmtree(out, ignore_errors=True)
        grown = ["--model.num_layers=3", f"--checkpoint.load={step(self.plain, 6)}", "--parallelism.dp_shard=1"]
        self.check(train(out, *grown), 2, "SX2-021", "missing: layers.2.")
        shutil.rmtree(out)
        self.check(train(out, *grown, "--checkpoint.load_exclude=['*layers.2.*']", steps=8), 0)
        passed = [e for e in events(out) if e["event"] == "ckpt.passed_over"]
        self.assertTrue(passed and all("layers.2." in e["tensor"] and e["side"] == "model" for e in passed))


class DiskFull(unittest.TestCase):
    def test_exit_3_and_the_older_checkpoint_is_whole(self):
        # A file system of its own in a name space of its own: 1 MiB, which the third save does not fit into.
        script = """
          mount -t tmpfs -o size=1400k none "$1" && "$0" train --preset debug --out "$1/run" --quiet \
            --training.steps=40 '--checkpoint.interval=2 steps' --checkpoint.keep=99 "$2"
          echo "exit $?"
          "$0" ckpt verify "$1/run"; echo "verify $?"
          ls -A "$1/run/ckpt" | grep -c tmp
          for i in "$1"/run/ckpt/step-*; do "$0" ckpt verify $i || echo damaged; done
        """
        for mode in ("true", "false"):
            with self.subTest(asynchronous=mode), tempfile.TemporaryDirectory() as folder:
                done = subprocess.run(["unshare", "-rm", "sh", "-c", script, TRAIN, folder, f"--checkpoint.async={mode}"],
                                      capture_output=True, text=True, timeout=120)
                self.assertIn("exit 3\n", done.stdout, done.stderr)
                self.assertIn("error[SX3-001]", done.stderr)
                self.assertIn("verify 0\n0\n", done.stdout)
                self.assertNotIn("damaged", done.stdout)


unittest.main()
