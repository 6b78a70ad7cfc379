"""Profiles of chains that are no transformer: layers of random, unequal sizes and times, on one rank.

Sizes hang together as a layer's do: a forward holds the boundary before it, what it keeps, the boundary behind it and
some work space; a remake holds all that backward reads. The same seed gives the same profile.
"""
import random

ALIGNMENT = 256
MEBIBYTE = 1 << 20


class _Drawer:
    def __init__(self, seed: int, thin: bool):
        self.random = random.Random(seed)
        # What a layer keeps beside its boundary: less than it in a thin chain, where long segments pay.
        self.kept_range = (0.1, 1.0) if thin else (0.5, 8.0)

    def size(self, least_mebibytes: float, most_mebibytes: float) -> int:
        return int(self.random.uniform(least_mebibytes, most_mebibytes) * MEBIBYTE) // ALIGNMENT * ALIGNMENT

    def part(self, size: int, least: float = 0.0, most: float = 1.0) -> int:
        return int(self.random.uniform(least, most) * size) // ALIGNMENT * ALIGNMENT

    def options(self, forward_ns: int, before: int, behind: int) -> list[dict]:
        count = self.random.randint(2, 8)
        everything = self.part(before, *self.kept_range)
        kept = [everything] + sorted((self.part(everything) for _ in range(count - 2)), reverse=True) + [0]
        longest = self.random.randint(forward_ns // 2, forward_ns)
        times = [0] + sorted(self.random.randint(1, longest) for _ in range(count - 2)) + [longest]
        work = self.size(0, 8)
        backward = before + everything + 2 * behind + self.size(0, 8)
        options = []
        for index, (size, time) in enumerate(zip(kept, times)):
            last = index == count - 1
            forward = before + size + behind + work
            options.append(dict(
                name="everything" if index == 0 else "boundary" if last else f"set {index - 1}",
                keep="everything" if index == 0 else "boundary" if last else "set",
                set=-1 if index == 0 or last else index - 1, reads_boundary=last or self.random.random() < 0.6,
                kept_bytes=size, recompute_ns=time, forward_bytes=forward,
                forward_bytes_dropped=forward - self.part(before),
                recompute_bytes=before + everything + work if index > 0 else 0, backward_bytes=backward))
        return options

    def block(self, name: str, before: int, behind: int) -> dict:
        forward_ns = self.random.randint(1_000_000, 20_000_000)
        numbers = dict.fromkeys(("gather_ns", "reduce_ns", "offload_ns", "reload_ns", "whole_bytes",
                                 "gradient_held_bytes", "recompute_through_ns", "recompute_through_bytes",
                                 "remade_bytes", "backward_bytes"), 0)
        return dict(name=name, boundary_bytes=before, forward_ns=forward_ns,
                    backward_ns=int(forward_ns * self.random.uniform(1, 3)), gradient_left_bytes=self.size(0, 2),
                    forward_bytes=before + behind + self.size(0, 8), options=[], **numbers)

    def layer(self, name: str, before: int, behind: int) -> dict:
        layer = self.block(name, before, behind)
        layer["options"] = self.options(layer["forward_ns"], before, behind)
        layer["forward_bytes"] = 0
        last = layer["options"][-1]
        layer["recompute_through_ns"] = layer["forward_ns"]
        layer["recompute_through_bytes"] = last["recompute_bytes"] + behind
        layer["remade_bytes"] = before + layer["options"][0]["kept_bytes"]
        return layer


def random_chain(seed: int, layers: int, thin: bool = False) -> dict:
    """A profile as docs/plan_profile.md describes it."""
    draw = _Drawer(seed, thin)
    boundaries = [0] + [draw.size(1, 24) for _ in range(layers + 1)]
    first = draw.block("first", 0, boundaries[1])
    first["backward_bytes"] = boundaries[1] + draw.size(0, 8)
    middle = [draw.layer(f"layer {i}", boundaries[i], boundaries[i + 1]) for i in range(1, layers + 1)]
    last = draw.block("last", boundaries[-1], 0)
    last["backward_ns"] = 0
    return dict(version=1, description=f"random chain, seed {seed}", state_bytes=draw.size(50, 500),
                update_ns=1_000_000, accumulation=1, gathers=False, reduces=False,
                interference_millionths=dict(gather=0, reduce=0, offload=0, reload=0), blocks=[first, *middle, last])
