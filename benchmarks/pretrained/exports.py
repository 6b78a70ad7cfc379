#!/usr/bin/env python3
"""Opens what `train --export` writes in Transformers and compares logits and losses: small models of the fixtures,
before any step and after two on two ranks, in float32 and bf16, whole and in parts; low-rank adapters both ways, ours
opened by PEFT and PEFT's by `train --adapter`.

  ENV/bin/python benchmarks/pretrained/exports.py      # ENV: torch, transformers, peft, safetensors
  launch/benchmark --only=export --peer=ENV/bin/python

Prints a row a comparison (beside_transformers.py); exit code 1 where one is beyond its limit.
"""
import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy
import peft
import torch
from beside_transformers import ROOT, Rows, logits_of, loss_of, note, open_model, relative, train, windows

FIXTURES = ROOT / "tests" / "fixtures"
TARGETS = {"gpt2": ["c_attn", "c_fc"], "llama": ["q_proj", "v_proj"], "qwen2": ["q_proj", "down_proj"]}
MODELS = ("gpt2", "gpt2_deep", "llama_gqa", "llama_tied_rope3", "qwen2")
LENGTH = 8
WINDOWS = 6


def compare(name, program, folder, rows):
    note(name)
    fixture = FIXTURES / name
    vocabulary = json.loads((fixture / "config.json").read_text())["vocab_size"]
    tokens = numpy.random.default_rng(1).integers(0, vocabulary, WINDOWS * LENGTH + 1)
    data = folder / "tokens.u16"
    tokens.astype(numpy.uint16).tofile(data)
    batch = windows(tokens, LENGTH)
    metrics = folder / "metrics.jsonl"
    flags = [f"--data={data}", "--data_format=u16", f"--sequence_length={LENGTH}", "--threads=1"]

    def export(kind, ranks, more, init=fixture):
        to = folder / f"{name}_{kind}"
        return to, train(program, ranks, flags + [f"--init={init}", f"--export={to}", *more], metrics)

    def first_loss(init, more=()):
        return train(program, 1, flags + [f"--init={init}", f"--micro_batch={WINDOWS}", "--steps=1", *more],
                     metrics)[0]["loss"]

    start, _ = export("0", 1, ["--micro_batch=1"])
    opened = open_model(start)
    difference = (logits_of(opened, batch) - logits_of(open_model(fixture), batch)).abs().max().item()
    rows.add(f"{name}, no step: logits", difference, 0.0)
    rows.add(f"{name}, no step: loss, relative", relative(first_loss(fixture), loss_of(opened, batch)), 2e-6)

    two_steps = ["--micro_batch=1", "--steps=2", "--learning_rate=1e-2", f"--validation_data={data}"]
    after, steps = export("2", 2, two_steps)
    rows.add(f"{name}, two steps: loss, relative",
             relative(steps[-1]["validation_loss"], loss_of(open_model(after), batch)), 2e-6)
    rows.add(f"{name}, two steps: loss, of that before", steps[-1]["validation_loss"] / loss_of(opened, batch), 1.0)

    half, _ = export("bf16", 2, ["--micro_batch=1", "--export_dtype=bf16", "--export_part_size=20KiB"], init=after)
    rows.add(f"{name}, bf16 in parts: loss, relative", relative(first_loss(half), loss_of(open_model(half), batch)), 2e-6)

    targets = TARGETS[name.split("_")[0]]
    adapters, steps = export("adapters", 2, [*two_steps, "--lora_rank=2", "--lora_alpha=6",
                                             f"--lora_targets={','.join(targets)}"])
    ours = peft.PeftModel.from_pretrained(open_model(fixture), adapters)
    rows.add(f"{name}, adapters in PEFT: loss, relative",
             relative(steps[-1]["validation_loss"], loss_of(ours, batch)), 2e-6)
    torch.manual_seed(1)
    theirs = peft.get_peft_model(open_model(fixture), peft.LoraConfig(
        r=3, lora_alpha=4, target_modules=targets, task_type="CAUSAL_LM", init_lora_weights=False))
    theirs.save_pretrained(folder / f"{name}_peft")
    rows.add(f"{name}, PEFT's adapters: loss, relative",
             relative(first_loss(fixture, [f"--adapter={folder / f'{name}_peft'}"]), loss_of(theirs, batch)), 2e-6)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build" / "bin" / "reprise", help="build/bin/reprise")
    parser.add_argument("--only", action="append", choices=MODELS, help="this model; may be repeated")
    options = parser.parse_args()
    rows = Rows()
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only or MODELS:
            compare(name, options.program, Path(folder), rows)
    sys.exit(0 if rows.good else 1)


if __name__ == "__main__":
    main()
