"""One run of tests/gpu/run: its parts and their time, its commands, and the record that survives a kill."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

RESERVE_SECONDS = 8  # of the whole, for the table
TAIL_LINES = 30
PRINTED_FAILURES = 4  # of a part; all are in the record


class OutOfTime(Exception):
    """The part's time, or that of the whole, is over."""


class Skip(Exception):
    """A part that cannot be run here, and why."""


@dataclass
class Done:
    """A command that has ended."""
    code: int
    out: str
    errors: str
    seconds: float
    timed_out: bool = False

    @property
    def good(self):
        return self.code == 0 and not self.timed_out

    def why(self):
        """What went wrong, in few words: the program's own sentence where there is one."""
        if self.timed_out:
            return f"stopped after {self.seconds:.0f} s"
        own = [line for line in self.errors.splitlines() if line.startswith("reprise: ")]
        last = own[:1] or (self.errors.strip() or self.out.strip()).splitlines()[-3:]
        return f"exit code {self.code}: {' | '.join(last)}"[:600]


class Session:
    """Runs parts one after the other. `record` is what results.json holds: rewritten whole after each check and row."""

    def __init__(self, out, scratch, seconds, standin):
        self.out, self.scratch, self.standin = pathlib.Path(out), pathlib.Path(scratch), standin
        self.begin = time.monotonic()
        self.end = self.begin + seconds - RESERVE_SECONDS
        self.part_end = self.end
        self.part = None
        self.unusable = ""  # why no step runs on the device
        self.running = set()  # commands that have not ended
        self.record = {"standin": standin, "seconds": 0.0, "parts": {}}
        self.log = (self.out / "log.txt").open("w", encoding="utf-8", buffering=1)

    # --- The record ---------------------------------------------------------------------------------------------------

    def flush(self):
        """Atomic: whoever ends this program finds the last whole record."""
        self.record["seconds"] = round(time.monotonic() - self.begin, 1)
        fresh = self.out / "results.json.tmp"
        fresh.write_text(json.dumps(self.record, indent=1) + "\n", encoding="utf-8")
        fresh.replace(self.out / "results.json")

    def check(self, name, passed, detail=""):
        """One thing that must hold. Returns whether it does."""
        detail = " | ".join(detail.splitlines())
        self.part["checks"].append({"name": name, "passed": bool(passed), "detail": detail})
        failures = sum(not c["passed"] for c in self.part["checks"])
        if not passed and failures <= PRINTED_FAILURES:
            self.note(f"FAILED {name}: {detail}")
        self.flush()
        return passed

    def row(self, **values):
        """One line of measurements."""
        self.part["rows"].append(values)
        self.flush()

    def fact(self, name, value):
        self.part["facts"][name] = value
        self.flush()

    def note(self, text):
        print(f"  {text}", flush=True)
        self.log.write(f"# {text}\n")

    # --- Parts --------------------------------------------------------------------------------------------------------

    def run_part(self, name, cap_seconds, function):
        """Runs one part within its time; nothing that goes wrong in it stops the next."""
        begin = time.monotonic()
        self.part = {"status": "running", "seconds": 0.0, "checks": [], "rows": [], "facts": {}}
        self.record["parts"][name] = self.part
        self.part_end = min(begin + cap_seconds, self.end)
        self.flush()
        try:
            self.time_left()
            function(self)
            self.part["status"] = "passed" if all(c["passed"] for c in self.part["checks"]) else "failed"
        except Skip as skip:
            self.part.update(status="skipped", why=str(skip))
        except OutOfTime:
            failed = any(not c["passed"] for c in self.part["checks"])
            self.part.update(status="failed" if failed else "unfinished", why="its time was over")
        except Exception as error:  # a fault of this script must not cost the parts behind it
            self.part.update(status="failed", why=f"{type(error).__name__}: {error}")
        finally:
            if self.part["status"] == "running":
                self.part["status"] = "unfinished"
            self.part["seconds"] = round(time.monotonic() - begin, 1)
            self.flush()
        good = sum(c["passed"] for c in self.part["checks"])
        words = [f"{name}: {self.part['status']}", f"{self.part['seconds']:.0f} s"]
        words += [f"{good} of {len(self.part['checks'])} checks"] if self.part["checks"] else []
        words += [self.part["why"]] if "why" in self.part else []
        print(", ".join(words), flush=True)

    def time_left(self):
        left = self.part_end - time.monotonic()
        if left < 2:
            raise OutOfTime()
        return left

    # --- Commands -----------------------------------------------------------------------------------------------------

    def run(self, words, seconds, environment=None):
        """Runs a command to its end or for so many seconds, no longer than the part may last. From any thread."""
        words = [str(word) for word in words]
        seconds = min(seconds, self.time_left())
        begin = time.monotonic()
        try:
            process = subprocess.Popen(words, env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                                       start_new_session=True)
        except OSError as error:
            return Done(127, "", f"{words[0]} does not start: {error.strerror}", 0.0)
        self.running.add(process)
        timed_out = False
        try:
            out, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            timed_out = True
            out, errors = self.stop(process)
        finally:
            self.running.discard(process)
        done = Done(process.returncode, out, errors, time.monotonic() - begin, timed_out)
        shown = (errors + out).splitlines()[-TAIL_LINES:]
        self.log.write(f"$ {' '.join(words)}\n" + "".join(f"  {line}\n" for line in shown) +
                       f"= {done.code} after {done.seconds:.1f} s\n")
        return done

    def end_all(self):
        """No command is left and none begins: this program is told to end."""
        self.part_end = self.end = 0
        for process in list(self.running):
            try:
                os.killpg(process.pid, signal.SIGTERM)
            except ProcessLookupError:
                pass

    @staticmethod
    def stop(process):
        """Ends a command and what it started; mpirun needs a moment to end its ranks."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
                return process.communicate(timeout=5)
            except ProcessLookupError:
                return process.communicate()
            except subprocess.TimeoutExpired:
                continue
        return "", "it could not be ended"


def fail(message):
    print(f"reprise: {message}", file=sys.stderr)
    sys.exit(2)
