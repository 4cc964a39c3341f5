"""kill -9 at random points of training, vocabulary training and packing: python3 tests/e2e/kill_test.py BIN_DIR [ROUNDS]

Each round starts the command on a fresh folder, kills it at a random moment, gives the same command again, and compares
what it leaves with an undisturbed run's, byte for byte. Prints the seed; SX_SEED repeats a run.
"""
import glob
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.path[:0] = ["examples", "tests/support"]
import make_archive  # noqa: E402
from metrics_rows import rows  # noqa: E402

BIN = os.path.abspath(sys.argv[1])
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 20
SEED = int(os.environ.get("SX_SEED", "0")) or random.randrange(1 << 30)
rng = random.Random(SEED)


def sextant(*words):
    return [os.path.join(BIN, "sextant"), *words, "--quiet"]


def contents(paths):
    result = {}
    for path in paths:
        with open(path, "rb") as file:
            result[os.path.basename(path)] = file.read()
    return result


def attack(name, command, result, repeated, limit):
    """command(out) -> words; result(out) -> comparable; repeated(out) -> amount done twice, at most limit."""
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "plain")
        begin = time.monotonic()
        subprocess.run(command(plain), check=True, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - begin
        expected = result(plain)
        killed = 0
        worst = 0
        attempts = 0
        while killed < ROUNDS and attempts < 3 * ROUNDS:
            attempts += 1
            out = os.path.join(folder, "out")
            shutil.rmtree(out, ignore_errors=True)
            begin = time.monotonic()
            process = subprocess.Popen(command(out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                process.wait(timeout=rng.uniform(0.02, 0.95) * seconds)
                seconds = min(seconds, time.monotonic() - begin)  # it was done before its time
                continue
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                killed += 1
            again = subprocess.run(command(out), capture_output=True, text=True)
            assert again.returncode == 0, f"{name}, kill {killed}, seed {SEED}: {again.stderr[-800:]}"
            assert result(out) == expected, f"{name}, kill {killed}, seed {SEED}: another result"
            worst = max(worst, repeated(out))
            assert worst <= limit, f"{name}, kill {killed}, seed {SEED}: {worst} repeated, limit {limit}"
        print(f"{name}: {killed} kills in runs of {seconds:.2f} s, results equal, at most {worst} repeated "
              f"(limit {limit})", flush=True)
        assert killed == ROUNDS, f"{name}: only {killed} of {attempts} kills hit a running process"


def summary(out, name):
    with open(os.path.join(out, name)) as file:
        return json.load(file)


def main():
    print(f"seed {SEED}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        archive = os.path.join(folder, "pages.warc.gz")
        make_archive.write_archive(archive, 6000)
        subprocess.run(sextant("crawl", archive, "--out", os.path.join(folder, "crawl")), check=True,
                       stdout=subprocess.DEVNULL)
        documents = sorted(glob.glob(os.path.join(folder, "crawl", "docs-*.jsonl.zst")))
        vocab = os.path.join(folder, "vocab")
        subprocess.run(sextant("tokenize", "train", *documents, "--vocab-size", "400", "--out", vocab), check=True,
                       stdout=subprocess.DEVNULL)

        # Saves beside training put the steps made meanwhile at risk too, at most another interval: the next one waits
        # (docs/decisions/0015).
        interval = 5
        for name, beside, limit in (("train, saves waited for", "false", interval),
                                    ("train, saves beside it", "true", 2 * interval)):
            attack(name,
                   lambda out: sextant("train", "--preset", "debug", "--training.steps=150",
                                       f"--checkpoint.interval={interval} steps", f"--checkpoint.async={beside}",
                                       "--parallelism.dp_replicate=2", "--metrics.eval_every=10", "--out", out),
                   lambda out: (contents(glob.glob(os.path.join(out, "ckpt", "step-0000150", "*.safetensors"))),
                                rows(out, "loss", "lr", "grad_norm", "eval_loss", "tokens")),
                   lambda out: summary(out, "summary.json")["repeated_steps"], limit)

        attack("tokenize train",
               lambda out: sextant("tokenize", "train", *documents, "--vocab-size", "400", "--out", out),
               lambda out: contents([os.path.join(out, "vocab.tiktoken"), os.path.join(out, "vocab.json")]),
               lambda out: summary(out, "resumes.json")["max_repeated_bytes"], 64 << 20)

        pack_interval = 256 * 1024
        attack("tokenize pack",
               lambda out: sextant("tokenize", "pack", *documents, "--tokenizer", vocab, "--output-prefix",
                                   os.path.join(out, "train"), "--heldout-prefix", os.path.join(out, "heldout"),
                                   "--interval", f"{pack_interval}B", "--out", os.path.join(out, "run")),
               lambda out: contents(glob.glob(os.path.join(out, "*.bin")) + glob.glob(os.path.join(out, "*.idx"))),
               lambda out: summary(out, "train.pack.json")["max_repeated_tokens"], pack_interval)


main()
