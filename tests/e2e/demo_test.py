"""The demo's line on a small archive: python3 tests/e2e/demo_test.py BIN_DIR"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, "examples")
import make_archive  # noqa: E402

BIN = os.path.abspath(sys.argv.pop(1))
PAGES = 120


class Demo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        archive = os.path.join(cls.folder.name, "small.warc.gz")
        cls.records = make_archive.write_archive(archive, PAGES)
        cls.out = os.path.join(cls.folder.name, "demo")
        cls.demo = subprocess.run(
            ["tools/demo/run.sh", "--warc", archive, "--steps", "30", "--vocab", "700", "--out", cls.out],
            env={**os.environ, "SX_BIN": BIN}, capture_output=True, text=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def summary(self):
        with open(os.path.join(self.out, "summary.json")) as file:
            return json.load(file)

    def test_exits_well_and_names_the_report(self):
        self.assertEqual(self.demo.returncode, 0, self.demo.stderr[-3000:])
        self.assertIn(os.path.join(self.out, "report.html"), self.demo.stdout + self.demo.stderr)
        self.assertTrue(os.path.exists(os.path.join(self.out, "report.html")))

    def test_every_record_is_accounted_for(self):
        summary = self.summary()
        self.assertEqual(summary["records"], self.records)
        self.assertEqual(summary["documents"] + sum(summary["dropped"].values()), summary["records"])
        self.assertEqual(summary["documents"], PAGES)

    def test_the_model_learns(self):
        summary = self.summary()
        self.assertLess(summary["last_loss"], summary["first_loss"])
        self.assertGreater(summary["tokens"], 1000)
        self.assertGreater(summary["unigram_entropy"], summary["bigram_entropy"])
        self.assertIn("held_out_loss", summary)
        self.assertGreaterEqual({stage["name"] for stage in summary["stages"]},
                                {"crawl", "vocabulary", "pack", "train", "sample"})

    def test_a_second_call_replaces_only_a_demo(self):
        other = os.path.join(self.folder.name, "precious")
        os.makedirs(other)
        open(os.path.join(other, "thesis.txt"), "w").close()
        refused = subprocess.run(["tools/demo/run.sh", "--out", other], env={**os.environ, "SX_BIN": BIN},
                                 capture_output=True, text=True)
        self.assertEqual(refused.returncode, 2)
        self.assertTrue(os.path.exists(os.path.join(other, "thesis.txt")))


unittest.main()
