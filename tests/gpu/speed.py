"""The parts that measure: our steps under several plans, and PyTorch's on the same shapes."""
import json
import pathlib
import sys
from dataclasses import dataclass

import figures
from session import OutOfTime, Skip
from training import Job, write_tokens

WARMUP, STEPS = 4, 8


@dataclass
class Shape:
    """A model to measure."""
    name: str
    flags: list
    layers: int
    width: int
    heads: int
    vocabulary: int
    length: int
    micro_batch: int  # tried first; halved until it fits


def gpt2(name, layers, width, heads, length=1024, micro_batch=16, vocabulary=50257):
    flags = ["--model=gpt2", f"--model_config=n_layer={layers},n_embd={width},n_head={heads},n_positions={length},"
             f"vocab_size={vocabulary}"]
    return Shape(name, flags, layers, width, heads, vocabulary, length, micro_batch)


def llama(folder, name, layers, width, inner, heads, groups, vocabulary, length, micro_batch):
    """With a config.json, as rope_scaling is nested."""
    config = folder / f"{name.replace(' ', '_')}.json"
    config.write_text(json.dumps({
        "model_type": "llama", "vocab_size": vocabulary, "hidden_size": width, "intermediate_size": inner,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": groups,
        "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": True,
        "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 8192}}), encoding="utf-8")
    flags = ["--model=llama", f"--model_config={config}"]
    return Shape(name, flags, layers, width, heads, vocabulary, length, micro_batch)


def shapes(session):
    """{part: shape}, the one that the goals are about first."""
    if session.standin:
        return {"gpt2_1.5B": gpt2("gpt2 tiny", 3, 32, 2, 16, 2, 256),
                "gpt2_124M": gpt2("gpt2 tinier", 2, 32, 2, 16, 2, 256),
                "llama_1B": llama(session.scratch, "llama tiny", 2, 32, 40, 4, 2, 256, 16, 2)}
    return {"gpt2_1.5B": gpt2("gpt2 1.5B", 48, 1600, 25), "gpt2_124M": gpt2("gpt2 124M", 12, 768, 12),
            "llama_1B": llama(session.scratch, "llama 1B", 16, 2048, 8192, 32, 8, 128256, 2048, 8)}


class Measuring:
    """The runs of one shape."""

    def __init__(self, session, trainer, shape, keeps_traces):
        self.session, self.trainer, self.shape, self.keeps_traces = session, trainer, shape, keeps_traces
        self.steps = 2 if session.standin else WARMUP + STEPS
        self.warmup = 1 if session.standin else WARMUP
        self.micro_batch = shape.micro_batch
        self.too_large = False  # of the last run: it asked for more memory than there is
        self.data = session.scratch / f"{shape.name.replace(' ', '_')}.u16"
        write_tokens(self.data, (self.steps + 1) * shape.micro_batch * shape.length + 1, shape.vocabulary)

    def job(self, checkpoint, offload=False, budget=0):
        return Job(self.shape.flags, self.data, self.shape.length, self.micro_batch, steps=self.steps,
                   checkpoint=checkpoint, offload=offload, budget=budget)

    def measure(self, name, job, seconds, beside=None, over=""):
        """A row of the table; returns the median step, None where it did not run. `beside`: the step of `over`."""
        self.too_large = False
        trained = self.trainer.train(job, seconds, trace=True, watch=True)
        if not trained.good:
            self.session.row(model=self.shape.name, plan=name, micro_batch=job.micro_batch, why=trained.done.why())
            self.session.note(f"{self.shape.name}, {name}: {trained.done.why()}")
            self.too_large = trained.done.code == 4 or (trained.done.code == 2 and "memory" in trained.done.errors)
            return None
        wrong = figures.wrong_peaks(trained.steps)
        self.session.check(f"{self.shape.name}, {name}: peak is the predicted one", not wrong,
                           f"steps {wrong}" if wrong else "")
        steps = trained.steps[self.warmup:]
        step_seconds = figures.median_of(steps, "step_seconds")
        tokens_per_second = steps[-1]["tokens"] / step_seconds
        share, copy_seconds = figures.overlapped_share(json.loads(trained.trace.read_text(encoding="utf-8")))
        if self.keeps_traces or job.offload:
            self.trainer.keep_trace(trained, f"{self.shape.name} {name}".replace(" ", "_").replace(",", ""))
        s, last = self.shape, steps[-1]
        self.session.row(
            model=s.name, plan=name, micro_batch=job.micro_batch, length=s.length, parameters=trained.run["parameters"],
            step_seconds=step_seconds, fastest_step_seconds=min(x["step_seconds"] for x in steps),
            tokens_per_second=tokens_per_second,
            mfu=figures.mfu(tokens_per_second, trained.run["parameters"], s.layers, s.width, s.length,
                            self.session.record.get("peak_flops")),
            ratio=step_seconds / beside if beside else None, ratio_over=over if beside else "",
            peak_device_bytes=last["peak_device_bytes"], driver_mebibytes=trained.driver_mebibytes,
            recomputed_flops=last["recomputed_flops"], offloaded_bytes=last["offloaded_bytes"],
            exposed_transfer_seconds=figures.median_of(steps, "exposed_transfer_seconds"),
            copy_seconds=copy_seconds, copies_under_compute=share, seconds=round(trained.done.seconds, 1),
            memory_budget=job.budget, plan_of_run=trained.run.get("plan", {}).get("policy"))
        self.session.note(f"{s.name}, {name}: {step_seconds:.4g} s a step")
        return step_seconds

    def find_micro_batch(self):
        """The first of the size wanted, its half, quarter, ... whose `all` fits the memory; its median step."""
        while True:
            step = self.measure("all", self.job("all"), 90)
            if step or not self.too_large or self.micro_batch == 1:
                return step
            self.micro_batch //= 2


def ours_part(session, trainer, shape, keeps_traces):
    """`all`, `none`, `all` with its boundaries on the host, and `auto` half of the way between the first two."""
    m = Measuring(session, trainer, shape, keeps_traces)
    everything = m.find_micro_batch()
    if not everything:
        session.check(f"{shape.name} trains", False, session.part["rows"][-1]["why"])
        return
    session.fact("micro_batch", m.micro_batch)
    none = m.measure("none", m.job("none"), 90)
    rows = session.part["rows"]
    if none:  # beside which `all` stands, now that it is known
        first = next(row for row in rows if row["plan"] == "all" and "step_seconds" in row)
        first.update(ratio=everything / none, ratio_over="none")
    m.measure("all, offload", m.job("all", offload=True), 90, everything, "all")
    peaks = {row["plan"]: row["peak_device_bytes"] for row in rows if "step_seconds" in row}
    if "none" not in peaks:
        peaks["none"] = trainer.plan(m.job("none")).get("peak_bytes")
    if peaks["none"]:
        limit = session.record.get("device_bytes")
        budget = (peaks["all"] + peaks["none"]) // 2
        budget = min(budget, limit * 9 // 10) if limit else budget
        m.measure("auto, half way", m.job("auto", budget=budget), 90, none, "none")


def torch_part(session, measured):
    """PyTorch on the GPT-2 shapes, at our micro-batch: eager and compiled."""
    if session.standin:
        raise Skip("is not rehearsed")
    found = session.run([sys.executable, "-c", "import torch; print(torch.__version__, torch.cuda.is_available())"], 60)
    if not found.good or "True" not in found.out:
        raise Skip("this Python has no PyTorch that finds a GPU")
    session.fact("torch", found.out.split()[0])
    for part, modes in (("gpt2_1.5B", ("eager", "compiled blocks")), ("gpt2_124M", ("eager", "compiled"))):
        shape, ours = measured[part], session.record["parts"].get(part, {"rows": [], "facts": {}})
        micro_batch = ours["facts"].get("micro_batch", shape.micro_batch)
        none = next((row.get("step_seconds") for row in ours["rows"] if row["plan"] == "none"), None)
        for mode in modes:
            torch_row(session, shape, micro_batch, mode, none)


def torch_row(session, shape, micro_batch, mode, our_step):
    """`our_step`: that of our run which keeps everything, as PyTorch does."""
    script = pathlib.Path(__file__).with_name("torch_gpt2_gpu.py")
    words = [sys.executable, script, f"--n_layer={shape.layers}", f"--n_embd={shape.width}", f"--n_head={shape.heads}",
             f"--vocab_size={shape.vocabulary}", f"--sequence_length={shape.length}", f"--micro_batch={micro_batch}",
             f"--warmup={WARMUP}", f"--steps={STEPS}", f"--compile={'no' if mode == 'eager' else mode.split()[-1]}"]
    try:
        done = session.run(words, 100)
    except OutOfTime:
        session.row(model=shape.name, plan=f"torch {mode}", micro_batch=micro_batch, why="no time was left")
        raise
    try:
        line = json.loads(done.out.splitlines()[-1]) if done.good else None
    except (IndexError, json.JSONDecodeError):
        line = None
    if line is None:
        session.row(model=shape.name, plan=f"torch {mode}", micro_batch=micro_batch, why=done.why())
        session.note(f"{shape.name}, torch {mode}: {done.why()}")
        return
    line["mfu"] = figures.mfu(line["tokens_per_second"], line["parameters"], shape.layers, shape.width, shape.length,
                              session.record.get("peak_flops"))
    if our_step:
        line.update(ratio=line["step_seconds"] / our_step, ratio_over="ours, none")
    session.row(model=shape.name, plan=f"torch {mode}", **line)
    session.note(f"{shape.name}, torch {mode}: {line['step_seconds']:.4g} s a step")
