"""What the scripts of this folder share: runs of Reprise, losses by Transformers, and the rows that they print.

A row is one line of JSON, {"name", "value", "limit", "good"}: value is at most limit where it is good.
"""
import json
import os
import subprocess
import sys
from pathlib import Path

os.environ["TQDM_DISABLE"] = "1"  # before it is imported
import numpy
import torch
import transformers

ROOT = Path(__file__).resolve().parent.parent.parent
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(2)


class Rows:
    def __init__(self):
        self.good = True

    def add(self, name, value, limit):
        good = bool(value <= limit)
        self.good = self.good and good
        print(json.dumps({"name": name, "value": float(value), "limit": limit, "good": good}), flush=True)


def note(text):
    print(text, file=sys.stderr, flush=True)


def run(command):
    """Standard output; ends the script where the program fails."""
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS")}
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        sys.exit(f"reprise: '{' '.join(map(str, command))}' ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def train(program, ranks, flags, metrics):
    """The steps of a run, as dictionaries."""
    os.environ["REPRISE_PROGRAM"] = str(program)
    run([ROOT / "launch" / "run", "-np", ranks, "train", f"--metrics={metrics}", *flags])
    return [line for line in map(json.loads, metrics.read_text().splitlines()) if "step" in line]


def plan(program, ranks, flags):
    return json.loads(run([program, "plan", f"--world_size={ranks}", "--json", *flags]))


def windows(tokens, length):
    """[count, length + 1]: the tokens of each window and the one behind it, as `train` cuts them."""
    count = (len(tokens) - 1) // length
    return numpy.stack([tokens[i * length:i * length + length + 1] for i in range(count)]).astype(numpy.int64)


def open_model(folder, **more):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **more).eval()


def logits_of(model, rows):
    with torch.no_grad():
        return model(torch.tensor(rows)).logits


def loss_of(model, rows):
    """Mean over all labels of `windows`, summed in double."""
    total = 0.0
    for row in rows:
        logits = logits_of(model, row[None, :-1])[0].double()
        total += torch.nn.functional.cross_entropy(logits, torch.tensor(row[1:]), reduction="sum").item()
    return total / (rows.shape[0] * (rows.shape[1] - 1))


def relative(a, b):
    return abs(a - b) / abs(b)
