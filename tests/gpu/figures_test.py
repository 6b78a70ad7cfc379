#!/usr/bin/env python3
"""Tests of what needs no GPU in this folder: python3 -m unittest tests/gpu/figures_test.py"""
import contextlib
import io
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))
import correctness  # noqa: E402
import cuda_libraries  # noqa: E402
import figures  # noqa: E402
import session  # noqa: E402


def event(stream, begin, duration):
    return {"ph": "X", "name": "one", "tid": stream, "ts": begin, "dur": duration}


def trace(*events):
    names = [{"ph": "M", "name": "thread_name", "tid": tid, "args": {"name": name}}
             for tid, name in enumerate(("compute", "gather", "reduce", "offload", "reload"))]
    return {"traceEvents": names + list(events)}


class Utilization(unittest.TestCase):
    def test_gpt2_xl_by_hand(self):
        # 6 * 1,557,611,200 + 12 * 48 * 1600 * 1024 = 9,345,667,200 + 943,718,400
        self.assertEqual(figures.flops_per_token(1557611200, 48, 1600, 1024), 10289385600)
        self.assertAlmostEqual(figures.mfu(50000, 1557611200, 48, 1600, 1024, 989e12), 0.52019, places=5)

    def test_peaks_by_name(self):
        self.assertEqual(figures.peak_flops("NVIDIA H200"), 989e12)
        self.assertEqual(figures.peak_flops("NVIDIA H100 PCIe"), 756e12)
        self.assertEqual(figures.peak_flops("NVIDIA A100-SXM4-80GB"), 312e12)
        self.assertIsNone(figures.peak_flops("stand-in"))
        self.assertIsNone(figures.mfu(1.0, 1, 1, 1, 1, figures.peak_flops("stand-in")))


class Overlap(unittest.TestCase):
    def test_union_joins_what_touches(self):
        self.assertEqual(figures.union([(5, 6), (0, 2), (2, 3), (1, 2), (4, 4)]), [(0, 3), (5, 6)])

    def test_intersection(self):
        self.assertEqual(figures.intersection([(0, 10), (20, 30)], [(5, 25), (28, 40)]), [(5, 10), (20, 25), (28, 30)])
        self.assertEqual(figures.intersection([(0, 1)], [(1, 2)]), [])

    def test_share_of_copies_under_compute(self):
        # Copies at [0, 10) and [20, 30), twice at [25, 30); compute at [5, 22) and [29, 50): 5 + 2 + 1 of 20.
        share, seconds = figures.overlapped_share(trace(event(3, 0, 10), event(4, 20, 10), event(3, 25, 5),
                                                        event(0, 5, 17), event(0, 29, 21), event(1, 0, 50)))
        self.assertAlmostEqual(share, 8 / 20)
        self.assertAlmostEqual(seconds, 20e-6)

    def test_no_copies(self):
        self.assertEqual(figures.overlapped_share(trace(event(0, 0, 5))), (None, 0.0))


class Metrics(unittest.TestCase):
    TEXT = ('{"run":{"parameters":7}}\n'
            '{"step":1,"loss":5.5,"peak_device_bytes":8,"predicted_peak_device_bytes":8}\n'
            '{"step":2,"loss":5.25000000001,"peak_device_bytes":8,"predicted_peak_device_bytes":9}\n'
            '{"step":3,"lo')

    def test_half_a_line_is_left_out(self):
        run, steps = figures.read_metrics(self.TEXT)
        self.assertEqual((run["parameters"], len(steps)), (7, 2))
        self.assertEqual(figures.wrong_peaks(steps), [2])

    def test_digits_are_text(self):
        self.assertEqual(figures.digits(self.TEXT, "loss"), ["5.5", "5.25000000001"])


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name, content):
        path = pathlib.Path(self.folder.name) / name
        path.write_bytes(content)
        return path

    def test_first_difference(self):
        large = bytes(range(256)) * 8192  # two megabytes
        a, b = self.file("a", large), self.file("b", large[:1500000] + b"\xff" + large[1500001:])
        self.assertIsNone(figures.first_difference(a, self.file("c", large)))
        self.assertEqual(figures.first_difference(a, b), 1500000)
        self.assertEqual(figures.first_difference(a, self.file("d", large[:-1])), len(large) - 1)

    def test_safetensors(self):
        header = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},' \
                 b'"l":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}'
        path = self.file("t", struct.pack("<Q", len(header)) + header + struct.pack("<d2f", 0.1, 1.0, -2.0))
        tensors = figures.read_safetensors(path)
        self.assertEqual(tensors["l"], ((1,), tensors["l"][1]))
        self.assertEqual((list(tensors["l"][1]), list(tensors["w"][1])), ([0.1], [1.0, -2.0]))

    def test_closeness(self):
        self.assertAlmostEqual(figures.largest_error([1.0, 2.5], [1.0, 2.0]), 0.25)
        self.assertEqual(figures.largest_error([float("nan")], [1.0]), float("inf"))
        self.assertAlmostEqual(figures.cosine([1.0, 0.0], [1.0, 1.0]), 0.5**0.5)
        self.assertEqual(figures.cosine([0.0], [0.0]), 1.0)


class Versions(unittest.TestCase):
    def test_same_major_and_not_older(self):
        self.assertTrue(cuda_libraries.suits((13, 1, 3), (13, 1, 0)))
        self.assertTrue(cuda_libraries.suits((13, 2, 0), (13, 1, 0)))
        self.assertFalse(cuda_libraries.suits((13, 0, 9), (13, 1, 0)))
        self.assertFalse(cuda_libraries.suits((14, 0, 0), (13, 1, 0)))
        self.assertFalse(cuda_libraries.suits(None, (13, 1, 0)))


class TestPrograms(unittest.TestCase):
    def test_results_of_googletest(self):
        text = """<testsuites tests="3"><testsuite name="A">
            <testcase name="good" status="run" result="completed" classname="A"/>
            <testcase name="left out" status="notrun" result="suppressed" classname="A"/>
            <testcase name="bad" status="run" result="completed" classname="A">
            <failure message="1 is not 2"/></testcase>
            </testsuite></testsuites>"""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "out.xml"
            path.write_text(text, encoding="utf-8")
            self.assertEqual(correctness.test_results(path), (2, {"A.bad": "1 is not 2"}))
            path.write_text(text[:90], encoding="utf-8")
            self.assertIsNone(correctness.test_results(path))
            self.assertIsNone(correctness.test_results(path.with_name("none.xml")))


class Parts(unittest.TestCase):
    """What a part does must not touch the next, and the file must always be whole."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.session = session.Session(folder.name, folder.name, 60, standin=True)
        self.addCleanup(self.session.log.close)

    def status(self, function, cap_seconds=30):
        with contextlib.redirect_stdout(io.StringIO()):
            self.session.run_part("one", cap_seconds, function)
        return json.loads((self.session.out / "results.json").read_text(encoding="utf-8"))["parts"]["one"]

    def test_ends_of_a_part(self):
        def skips(_):
            raise session.Skip("not here")

        self.assertEqual(self.status(lambda s: s.check("x", True))["status"], "passed")
        self.assertEqual(self.status(lambda s: s.check("x", False, "why"))["status"], "failed")
        self.assertEqual(self.status(lambda s: 1 // 0)["why"], "ZeroDivisionError: integer division or modulo by zero")
        self.assertEqual(self.status(skips)["why"], "not here")

    def test_a_command_ends_with_its_part(self):
        def sleeps(s):
            s.check("stopped", s.run(["sleep", "50"], 40).timed_out)
            s.run(["true"], 5)

        part = self.status(sleeps, 2.5)
        self.assertEqual((part["status"], part["checks"][0]["passed"]), ("unfinished", True))
        self.assertLess(part["seconds"], 20)

    def test_a_commands_own_sentence(self):
        done = []
        self.status(lambda s: done.append(s.run(["sh", "-c", "echo noise >&2; echo reprise: no >&2; exit 3"], 9)))
        self.assertEqual(done[0].why(), "exit code 3: reprise: no")
        self.status(lambda s: done.append(s.run(["/none"], 9)))
        self.assertEqual(done[1].code, 127)


class Arguments(unittest.TestCase):
    def call(self, *words):
        return subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, check=False)

    def test_help(self):
        for program in ("run", "pack"):
            done = self.call(FOLDER / program, "--help")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("--help", done.stdout)

    def test_errors_are_one_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            for words in ((FOLDER / "run", f"--archive={folder}/none.tar.xz"), (FOLDER / "run", "--minutes=0"),
                          (FOLDER / "run", "--only=nothing"), (FOLDER / "pack", f"--build={folder}")):
                done = self.call(*words)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertRegex(done.stderr, r"\Areprise: [^\n]+\n\Z")


if __name__ == "__main__":
    unittest.main()
