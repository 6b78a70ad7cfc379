"""What was carried (tests/gpu/pack): its programs, and runs of `reprise train` with what they wrote."""
import array
import contextlib
import gzip
import itertools
import json
import os
import pathlib
import random
import subprocess
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import figures

# Runs at once where time does not matter, on a real GPU: their starts take longer than their steps.
AT_ONCE = 4


class Carried:
    """The unpacked archive."""

    def __init__(self, folder, standin):
        self.folder = pathlib.Path(folder)
        self.manifest = json.loads((self.folder / "manifest.json").read_text(encoding="utf-8"))
        # Open MPI's sockets stand in the folder for temporary files, and their paths must be short.
        self.environment = {"REPRISE_CUDA_FOLDERS": "", "TMPDIR": "/tmp"}
        if standin:
            self.environment["REPRISE_CUDA_LIBRARY"] = str(self.folder / "lib/libreprise_cuda_standin.so")

    def has(self, program):
        return (self.folder / "bin" / program).exists()

    def command(self, program, *words):
        return [self.folder / "with", program, *words]

    def reprise(self, *words, ranks=1):
        """Ranks share this machine's GPU."""
        alone = self.command("reprise", *words)
        return alone if ranks == 1 else self.command("mpirun", "-np", ranks, *alone)

    @contextlib.contextmanager
    def linked_sources(self):
        """Test programs look for their fixtures where they were built: that folder is a link to this one meanwhile."""
        source = pathlib.Path(self.manifest["source_folder"])
        if (source / "tests/fixtures").is_dir():
            yield
            return
        source.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():  # left by a run that was killed
            source.unlink()
        source.symlink_to(self.folder)
        try:
            yield
        finally:
            source.unlink()


def unpack(archive, folder):
    """The carried folder."""
    with tarfile.open(archive, "r:xz") as tar:
        tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return pathlib.Path(folder) / "reprise_gpu"


def write_tokens(path, count, vocabulary):
    """Random tokens, as headerless uint16."""
    array.array("H", random.Random(1).choices(range(min(vocabulary, 1 << 16)), k=count)).tofile(path.open("wb"))


@dataclass
class Job:
    """Flags of one run. `more` are further ones, as they are written."""
    model: list
    data: pathlib.Path
    length: int
    micro_batch: int
    steps: int = 3
    precision: str = "bf16"
    checkpoint: str = "none"
    offload: bool = False
    prefetch: int = 1
    sharding: str = "full"
    device: str = "cuda"
    ranks: int = 1
    budget: int = 0
    more: list = field(default_factory=list)

    def name(self):
        words = [self.checkpoint] + ["offload"] * self.offload + [f"prefetch {self.prefetch}"] * (self.prefetch != 1)
        words += [self.sharding] * (self.sharding != "full") + [self.device] * (self.device != "cuda")
        return ", ".join(words)

    def flags(self):
        return [*self.model, f"--sequence_length={self.length}", f"--micro_batch={self.micro_batch}",
                f"--precision={self.precision}", f"--checkpoint={self.checkpoint}", f"--prefetch={self.prefetch}",
                f"--sharding={self.sharding}", f"--device={self.device}", *self.more] + (
                    ["--offload=activations"] if self.offload else []) + (
                        [f"--memory_budget={self.budget}"] if self.budget else [])


@dataclass
class Trained:
    """What a run left."""
    job: Job
    done: object
    text: str = ""
    run: dict = field(default_factory=dict)
    steps: list = field(default_factory=list)
    gradients: pathlib.Path = None
    trace: pathlib.Path = None
    driver_mebibytes: int = 0

    @property
    def good(self):
        return self.done.good and bool(self.steps)


class Trainer:
    """Starts runs, each with files of its own in the scratch folder."""

    def __init__(self, session, carried):
        self.session, self.carried, self.count = session, carried, itertools.count()

    def train(self, job, seconds=60, gradients=False, trace=False, watch=False):
        place = self.session.scratch / f"run_{next(self.count)}"
        place.mkdir()
        metrics = place / "metrics.jsonl"
        trained = Trained(job, None)
        words = [*job.flags(), f"--data={job.data}", "--data_format=u16", f"--steps={job.steps}",
                 f"--metrics={metrics}", f"--profile_cache={self.session.scratch}/profiles", "--deadline=60"]
        if gradients:
            trained.gradients = place / "gradients.safetensors"
            words.append(f"--dump_gradients={trained.gradients}")
        if trace:
            trained.trace = place / "trace.json"
            words.append(f"--trace={trained.trace}")
        with DriverMemory(watch and not self.session.standin) as memory:
            trained.done = self.session.run(self.carried.reprise("train", *words, ranks=job.ranks), seconds,
                                            self.carried.environment)
        trained.driver_mebibytes = memory.peak()
        if metrics.exists():
            trained.text = metrics.read_text(encoding="utf-8")
            trained.run, trained.steps = figures.read_metrics(trained.text)
        return trained

    def train_all(self, jobs, gradients=False):
        """Runs that may be under way at once; what they left, in order, as it comes."""
        pool = ThreadPoolExecutor(1 if self.session.standin else AT_ONCE)
        try:
            yield from pool.map(lambda job: self.train(job, gradients=gradients), jobs)
        finally:
            pool.shutdown(cancel_futures=True)

    def plan(self, job, seconds=60):
        """What `reprise plan` says, or {}."""
        done = self.session.run(self.carried.reprise("plan", *job.flags(), f"--world_size={job.ranks}", "--json",
                                                     f"--profile_cache={self.session.scratch}/profiles"), seconds,
                                self.carried.environment)
        try:
            return json.loads(done.out) if done.good else {}
        except json.JSONDecodeError:
            return {}

    def keep_trace(self, trained, name):
        """Into the folder of results, packed: Perfetto opens it as it is."""
        with gzip.open(self.session.out / f"{name}.trace.json.gz", "wb") as packed:
            packed.write(trained.trace.read_bytes())


class DriverMemory:
    """The most device memory in use while it is open, by the driver, in MiB: all that lies outside the arena, too."""

    def __init__(self, wanted):
        self.wanted, self.process, self.text = wanted, None, ""

    def __enter__(self):
        if self.wanted:
            try:
                query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "500"]
                self.process = subprocess.Popen(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                                text=True, env=dict(os.environ), start_new_session=True)
            except OSError:
                self.process = None
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.terminate()
            self.text = self.process.communicate()[0]

    def peak(self):
        return max((int(line) for line in self.text.split() if line.isdigit()), default=0)
