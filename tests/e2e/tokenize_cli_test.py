#!/usr/bin/env python3
"""The verb `tokenize` from outside: round trips, exit codes, and training that is killed at random points.

    python3 tests/e2e/tokenize_cli_test.py PROGRAM
"""
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = sys.argv[1]
WORDS = "sea ship sail star sextant angle north wind of and the at above horizon noon 漢字 дом".split()


def call(*words, data=b""):
    return subprocess.run([PROGRAM, "tokenize", *map(str, words)], input=data, capture_output=True, timeout=100)


def expect(condition, what, result=None):
    if not condition:
        detail = f"\n{result.stdout.decode(errors='replace')}\n{result.stderr.decode(errors='replace')}" if result else ""
        sys.exit(f"failed: {what}{detail}")


def expect_fault(code, number, *words, data=b""):
    result = call(*words, data=data)
    text = result.stderr.decode()
    expect(result.returncode == code and f"error[{number}]" in text, f"exit {code} with {number} for {words}", result)
    expect("\n  next   " in text, f"a next command for {words}", result)


def make_documents(path, count, seed):
    draw = random.Random(seed)
    with open(path, "w", encoding="utf-8") as file:
        for i in range(count):
            made = "".join(draw.choice("abcdefghijklmnop") for _ in range(6))
            text = " ".join(draw.choice(WORDS) for _ in range(150)) + f".\n{made} {i}\n"
            file.write(json.dumps({"id": str(i), "text": text}) + "\n")


def files_of(folder):
    return {name: (folder / name).read_bytes() for name in ("vocab.tiktoken", "vocab.json", "train.json")}


def check_convert(vocab, work):
    made = work / "converted.json"
    result = call("convert", vocab / "vocab.tiktoken", made)
    expect(result.returncode == 0, "convert to tokenizer.json", result)
    expect(made.read_bytes() == (vocab / "tokenizer.json").read_bytes(), "the file a training writes", result)
    expect_fault(2, "SX2-006", "convert", vocab / "vocab.tiktoken", made)
    back = work / "back.tiktoken"
    result = call("convert", made, back)
    expect(result.returncode == 0 and back.read_bytes() == (vocab / "vocab.tiktoken").read_bytes(), "convert back", result)
    result = call("check", made, vocab)
    expect(result.returncode == 0 and b"0 differ" in result.stdout, "check of equal vocabularies", result)
    result = call("check", made, "bytes")
    expect(result.returncode == 5 and b"shortest" in result.stdout, "check of different vocabularies", result)
    made.write_text(made.read_text().replace('"BPE"', '"WordPiece"'))
    expect_fault(2, "SX2-040", "check", made)
    made.write_text("{")
    expect_fault(3, "SX3-003", "check", made)


def check_round_trips(vocab):
    for data in (b"hello world\n", "the 漢字 at noon's sea".encode(), b"", bytes(range(256)) * 20, b"a\nb" * 900000):
        ids = call("encode", "--tokenizer", vocab, data=data)
        expect(ids.returncode == 0, "encode", ids)
        back = call("decode", "--tokenizer", vocab, data=ids.stdout)
        expect(back.returncode == 0 and back.stdout == data, f"round trip of {len(data)} bytes", back)
        raw = call("encode", "--tokenizer", vocab, "--format", "u16", data=data)
        expect(len(raw.stdout) == 2 * len(ids.stdout.split()), "raw ids", raw)
        back = call("decode", "--tokenizer", vocab, "--format", "u16", data=raw.stdout)
        expect(back.stdout == data, "raw round trip", back)
    plain = call("encode", "--tokenizer", vocab, data=b"x<|endoftext|>").stdout.split()
    allowed = call("encode", "--tokenizer", vocab, "--special", "allow", data=b"x<|endoftext|>").stdout.split()
    expect(len(allowed) == 2 and len(plain) > 2, "special tokens are text unless allowed")
    shown = json.loads(call("inspect", "--tokenizer", vocab, "--json").stdout)
    expect(int(allowed[1]) == shown["special_tokens"]["<|endoftext|>"] == shown["vocab_size"] - 1, "inspect")
    expect(call("encode", "--tokenizer", "bytes", data=b"hi").stdout == b"104 105\n", "the built-in bytes tokenizer")


def check_faults(folder, vocab):
    expect_fault(2, "SX2-007", "encode", data=b"x")
    expect_fault(2, "SX2-007", "encode", folder / "absent", "--tokenizer", vocab)
    expect_fault(2, "SX2-007", "encode", "--tokenizer", folder / "absent.tiktoken", data=b"x")
    expect_fault(2, "SX2-008", "encode", "--tokenizer", vocab, "--special", "error", data=b"a<|endoftext|>")
    expect_fault(2, "SX2-008", "decode", "--tokenizer", vocab, data=b"1 two")
    expect_fault(2, "SX2-008", "decode", "--tokenizer", vocab, data=b"1 99999999")
    expect_fault(2, "SX2-025", "train", folder / "docs.jsonl", "--out", folder / "none")
    expect_fault(2, "SX2-007", "train", folder / "absent.jsonl", "--vocab-size", "300", "--out", folder / "none")
    broken = folder / "broken.tiktoken"
    broken.write_bytes((vocab / "vocab.tiktoken").read_bytes()[:1000] + b"\n")
    (folder / "broken.json").write_bytes((vocab / "vocab.json").read_bytes())
    expect_fault(3, "SX3-003", "encode", "--tokenizer", broken, data=b"x")
    lossy = call("decode", "--tokenizer", vocab, "--lossy", data=b"99999999")
    expect(lossy.stdout == "\ufffd".encode(), "--lossy", lossy)


def killed_runs(folder, words_for, seconds, kills):
    """Runs the command into fresh folders, killed at random points, until it was killed often enough; yields each end."""
    draw = random.Random(7)
    killed, round_idx = 0, 0
    while killed < kills:
        out = folder / f"killed{round_idx}"
        round_idx += 1
        expect(round_idx < 50, "a run lives long enough to be killed")
        while True:
            process = subprocess.Popen([PROGRAM, "tokenize", *words_for(out)], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE)
            try:
                process.wait(timeout=draw.uniform(0.02, seconds))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
            error = process.communicate()[1]
            if process.returncode != -signal.SIGKILL:
                break
            killed += 1
        expect(process.returncode == 0, f"the run after {killed} kills: {error.decode(errors='replace')}")
        yield out


def check_train_kills(folder, words, expected, seconds, interval, interval_merges, kills):
    worst_bytes = worst_merges = resumes = 0
    for out in killed_runs(folder, lambda out: [*words, "--out", str(out)], seconds, kills):
        expect(files_of(out) == expected, "the same vocabulary after kills")
        told = json.loads((out / "resumes.json").read_text())
        resumes += told["resumes"]
        worst_bytes = max(worst_bytes, told["max_repeated_bytes"])
        worst_merges = max(worst_merges, told["max_repeated_merges"])
    longest = 2048  # the document that fills an interval is counted before the state is saved
    expect(worst_bytes <= interval + longest, f"at most one interval of text repeated: {worst_bytes}")
    expect(worst_merges <= interval_merges, f"at most one interval of merges repeated: {worst_merges}")
    print(f"train: taken up {resumes} times after {kills} kills or more; most repeated: {worst_bytes} bytes of text, "
          f"{worst_merges} merges")


def check_pack_kills(folder, vocab, kills):
    def words(out):
        out.parent.mkdir(exist_ok=True)
        return ["pack", str(folder / "docs.jsonl"), "--tokenizer", str(vocab), "--output-prefix", str(out / "train"),
                "--heldout-prefix", str(out / "heldout"), "--interval", "64KiB", "--quiet"]

    def packed(out):
        return {name: (out / name).read_bytes() for name in ("train.bin", "train.idx", "heldout.bin", "heldout.idx")}

    base = folder / "pack"
    base.mkdir()
    start = time.monotonic()
    first = call(*words(base / "whole"))
    seconds = time.monotonic() - start
    expect(first.returncode == 0, "pack", first)
    expected = packed(base / "whole")
    resumes = worst = 0
    for out in killed_runs(base, words, seconds, kills):
        expect(packed(out) == expected, "the same token files after kills")
        report = json.loads((out / "train.pack.json").read_text())
        resumes += report["resumes"]
        worst = max(worst, report["max_repeated_tokens"])
    print(f"pack: taken up {resumes} times after {kills} kills or more; most repeated: {worst} tokens")
    other = call("pack", folder / "docs.jsonl", "--tokenizer", "bytes", "--output-prefix", base / "bytes" / "b",
                 "--json", "--quiet")
    expect(other.returncode == 0, "pack with the built-in tokenizer", other)
    expect(json.loads(other.stdout)["train"]["documents"] == 1500, "all documents packed", other)


def check_stop(folder, words, expected):
    out = folder / "stopped"
    process = subprocess.Popen([PROGRAM, "tokenize", *words, "--out", str(out)], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (out / "state" / "progress.json").exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    code = process.wait(timeout=60)
    expect(code in (75, 0), f"exit 75 after SIGINT, got {code}")
    result = call(*words, "--out", out)
    expect(result.returncode == 0 and files_of(out) == expected, "the same command goes on after SIGINT", result)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_documents(folder / "docs.jsonl", 1500, 1)
        interval, interval_merges = 128 * 1024, 100
        words = ["train", str(folder / "docs.jsonl"), "--vocab-size", "1200", "--interval", "128KiB",
                 "--interval-merges", str(interval_merges), "--quiet"]
        start = time.monotonic()
        first = call(*words, "--out", folder / "vocab")
        seconds = time.monotonic() - start
        expect(first.returncode == 0, "training", first)
        expected = files_of(folder / "vocab")
        again = call(*words, "--out", folder / "vocab")
        expect(again.returncode == 0 and b"complete before" in again.stdout, "a second call", again)
        check_round_trips(folder / "vocab")
        check_convert(folder / "vocab", folder)
        check_faults(folder, folder / "vocab")
        check_stop(folder, words, expected)
        check_train_kills(folder, words, expected, seconds, interval, interval_merges, 20)
        check_pack_kills(folder, folder / "vocab", 20)
        count = json.loads(call("count", folder / "docs.jsonl", "--tokenizer", folder / "vocab", "--json").stdout)
        manifest = json.loads(expected["train.json"])
        expect(count["total"]["documents"] == 1500, "count")
        expect(count["total"]["bytes"] == manifest["text_bytes"], "bytes of count and training agree")
    print("passed")


if __name__ == "__main__":
    main()
