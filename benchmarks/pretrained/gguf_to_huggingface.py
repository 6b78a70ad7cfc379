#!/usr/bin/env python3
"""Makes a Hugging Face folder of a GGUF file of the Llama architecture: config.json, model.safetensors in float32 (what
the file's quantised numbers stand for, exactly), and tokenizer.json.

  benchmarks/pretrained/gguf_to_huggingface.py MODEL.gguf FOLDER

Needs the PyPI packages gguf, safetensors and tokenizers.
"""
import argparse
import json
from pathlib import Path

import gguf
import numpy
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

NAMES = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
         "output.weight": "lm_head.weight"}
LAYER_NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
               "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
               "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
CONTROL = 3  # of tokenizer.ggml.token_type


def huggingface_name(name):
    if name in NAMES:
        return NAMES[name]
    block, layer, part, kind = name.split(".")
    if block != "blk":
        raise ValueError(f"tensor {name} is none of a Llama")
    return f"model.layers.{layer}.{LAYER_NAMES[part]}.{kind}"


def in_halves(weight, heads):
    """GGUF keeps the two numbers of a rotation side by side, Hugging Face the first halves of a head before the second."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


class Model:
    def __init__(self, path):
        self.reader = gguf.GGUFReader(path)
        if self.value("general.architecture") != "llama":
            raise ValueError(f"{path} is a {self.value('general.architecture')}, not a llama")

    def value(self, key, default=None):
        field = self.reader.get_field(key)
        return default if field is None else field.contents()

    def config(self):
        llama = lambda key, default=None: self.value(f"llama.{key}", default)
        heads = llama("attention.head_count")
        return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": llama("vocab_size"),
                "hidden_size": llama("embedding_length"), "intermediate_size": llama("feed_forward_length"),
                "num_hidden_layers": llama("block_count"), "num_attention_heads": heads,
                "num_key_value_heads": llama("attention.head_count_kv", heads),
                "max_position_embeddings": llama("context_length"),
                "rms_norm_eps": llama("attention.layer_norm_rms_epsilon"), "rope_theta": llama("rope.freq_base", 1e4),
                "hidden_act": "silu", "attention_bias": False, "mlp_bias": False,
                "tie_word_embeddings": not any(t.name == "output.weight" for t in self.reader.tensors),
                "bos_token_id": self.value("tokenizer.ggml.bos_token_id"),
                "eos_token_id": self.value("tokenizer.ggml.eos_token_id"), "dtype": "float32"}

    def tensors(self):
        config = self.config()
        heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
        tensors = {}
        for stored in self.reader.tensors:
            weight = gguf.quants.dequantize(stored.data, stored.tensor_type).astype(numpy.float32)
            parts = stored.name.split(".")
            if len(parts) == 4 and parts[2] in heads:
                weight = in_halves(weight, heads[parts[2]])
            tensors[huggingface_name(stored.name)] = numpy.ascontiguousarray(weight)
        return tensors

    def tokenizer(self):
        """Of byte-level pairs, with each digit a word of its own, as SmolLM's."""
        if (self.value("tokenizer.ggml.model"), self.value("tokenizer.ggml.pre")) != ("gpt2", "smollm"):
            raise ValueError(f"no tokenizer is made of {self.value('tokenizer.ggml.pre')}")
        tokens = self.value("tokenizer.ggml.tokens")
        merges = [tuple(merge.split(" ")) for merge in self.value("tokenizer.ggml.merges")]
        tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
        tokenizer.decoder = decoders.ByteLevel()
        kinds = self.value("tokenizer.ggml.token_type")
        tokenizer.add_special_tokens([AddedToken(token, normalized=False)
                                      for token, kind in zip(tokens, kinds) if kind == CONTROL])
        return tokenizer


def convert(path, folder):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model = Model(path)
    (folder / "config.json").write_text(json.dumps(model.config(), indent=2) + "\n")
    save_file(model.tensors(), folder / "model.safetensors", metadata={"format": "pt"})
    model.tokenizer().save(str(folder / "tokenizer.json"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gguf", metavar="MODEL.gguf")
    parser.add_argument("folder", metavar="FOLDER")
    options = parser.parse_args()
    convert(options.gguf, options.folder)
