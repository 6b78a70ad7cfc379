#!/usr/bin/env python3
"""PyTorch on the same work as `reprise train --precision=bf16` on one GPU: GPT-2, one JSON line.

    python3 tests/gpu/torch_gpt2_gpu.py --n_layer=48 --n_embd=1600 --n_head=25 --compile=blocks

A step is forward, backward, clipping and fused AdamW on random tokens: float32 parameters under autocast to bfloat16,
flash attention. `--compile=compiled` compiles the whole model, `blocks` each block (the same code once: seconds, where
48 layers take minutes). Warm-up steps, with compilation, are not timed; `step_seconds` is the median of the others.
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, length, width = x.shape
        shape = (rows, length, self.heads, width // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(self.norm_1(x)).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, options):
        super().__init__()
        width = options.n_embd
        self.tokens = nn.Embedding(options.vocab_size, width)
        self.positions = nn.Embedding(options.sequence_length, width)
        self.blocks = nn.ModuleList(Block(width, options.n_head) for _ in range(options.n_layer))
        self.norm = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, labels):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.view(-1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in dict(n_layer=12, n_embd=768, n_head=12, vocab_size=50257, micro_batch=16, sequence_length=1024,
                            steps=8, warmup=4).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--compile", choices=["no", "compiled", "blocks"], default="no")
    options = parser.parse_args()

    torch.manual_seed(1)
    with torch.device("cuda"):
        model = Gpt2(options)
    parameters = sum(p.numel() for p in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=0.1, betas=(0.9, 0.95), fused=True)
    if options.compile == "blocks":
        for block in model.blocks:
            block.compile()
    elif options.compile == "compiled":
        model.compile()

    def step():
        text = torch.randint(0, options.vocab_size, (options.micro_batch, options.sequence_length + 1), device="cuda")
        with torch.autocast("cuda", torch.bfloat16), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            loss = model(text[:, :-1].contiguous(), text[:, 1:].contiguous())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()  # as ours, the loss of each step is read

    for _ in range(options.warmup):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    times, loss = [], 0.0
    for _ in range(options.steps):
        begin = time.perf_counter()
        loss = step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    median = statistics.median(times)
    print(json.dumps({
        "torch": torch.__version__, "compile": options.compile, "parameters": parameters,
        "micro_batch": options.micro_batch, "length": options.sequence_length, "step_seconds": median,
        "fastest_step_seconds": min(times), "tokens_per_second": options.micro_batch * options.sequence_length / median,
        "peak_device_bytes": torch.cuda.max_memory_allocated(), "reserved_bytes": torch.cuda.max_memory_reserved(),
        "loss": loss}), flush=True)


if __name__ == "__main__":
    main()
