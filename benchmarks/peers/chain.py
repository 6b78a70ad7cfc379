"""What a schedule costs on one rank, by the rules of docs/plan_profile.md: its time, and its peak of device memory.

A schedule is a list of `Op`s. It may be a plan of Reprise or one of rotor's, which may run a forward more than twice;
for that the rules are extended in the only way they can be: a forward that runs again without saving takes what the
first one took, and a boundary made again counts like any other. Neither gathers, reductions nor offload.

    profile = json.load(open("gpt2.json"))
    cost = simulate(profile, steps_of_plan(profile, [Choice(0), Choice(9)]))
    cost.time_ns, cost.peak_bytes, cost.most_forwards
"""
from dataclasses import dataclass, field
from typing import NamedTuple


class Op(NamedTuple):
    """One step of the compute stream.

    run       forward; what `option` keeps is kept, and the boundary before the block where it is held
    head      forward and backward of the last block
    remake    forward again, to make what backward reads (and with `through` the layer's output)
    backward
    """
    kind: str
    block: int
    option: int = -1  # index into the block's options; -1: the last, which keeps the boundary only
    holds: bool = False
    through: bool = False


class Choice(NamedTuple):
    """What a plan does with one layer."""
    option: int
    starts_segment: bool = True


@dataclass
class Cost:
    time_ns: int
    peak_bytes: int
    most_forwards: int  # of one layer


class UnfitProfile(Exception):
    """The profile has what this comparison does not model."""


def check(profile: dict) -> None:
    """Raises UnfitProfile unless the profile is of one rank and one micro-batch."""
    layers = profile["blocks"][1:-1]
    if profile["gathers"] or profile["reduces"] or profile["accumulation"] != 1:
        raise UnfitProfile("the profile is sharded or accumulates; the comparison is of one rank, one micro-batch")
    if any(block["gradient_held_bytes"] for block in profile["blocks"]):
        raise UnfitProfile("gradient_held_bytes is not 0, although nothing is reduced")
    lasts = [layer["options"][-1] for layer in layers]
    if any(last["kept_bytes"] or not last["reads_boundary"] or not last["recompute_ns"] for last in lasts):
        raise UnfitProfile("a layer's last option keeps more than its boundary, or has nothing to recompute from it, "
                           "which rotor does not know")


def steps_of_plan(profile: dict, layers: list[Choice]) -> list[Op]:
    """The steps of a plan of Reprise, as docs/plan_profile.md lists them."""
    blocks = profile["blocks"]
    steps = [Op("run", 0)]
    segments = []  # [first, last]
    for layer, choice in enumerate(layers, 1):
        option = blocks[layer]["options"][choice.option]
        if choice.starts_segment:
            segments.append([layer, layer])
        segments[-1][1] = layer
        steps.append(Op("run", layer, choice.option, choice.starts_segment and option["reads_boundary"]))
    steps.append(Op("head", len(blocks) - 1))
    for first, last in reversed(segments):
        if first == last:
            choice = layers[first - 1].option
            if blocks[first]["options"][choice]["recompute_ns"] > 0:
                steps.append(Op("remake", first, choice))
            steps.append(Op("backward", first, choice))
            continue
        steps += [Op("remake", layer, through=layer < last) for layer in range(first, last + 1)]
        steps += [Op("backward", layer) for layer in range(last, first - 1, -1)]
    return steps + [Op("backward", 0)]


@dataclass
class _Memory:
    """What lives on from step to step."""
    profile: dict
    kept: dict = field(default_factory=dict)  # by layer: bytes from its forward to its backward
    held: set = field(default_factory=set)  # layers whose boundary waits
    remade: dict = field(default_factory=dict)  # by layer: bytes that wait for its backward after a remake
    gradients: int = 0

    def others(self) -> int:
        held = sum(self.profile["blocks"][layer]["boundary_bytes"] for layer in self.held)
        return self.profile["state_bytes"] + sum(self.kept.values()) + held + sum(self.remade.values()) + self.gradients

    def during(self, op: Op) -> int:
        """Bytes of the step. What belongs to its own block counts in the step's own bytes, so it is taken out first."""
        block = self.profile["blocks"][op.block]
        waits = op.block in self.held  # a checkpoint from which a replay sets out
        self.held.discard(op.block)
        if op.kind in ("remake", "backward"):
            self.kept.pop(op.block, None)
            self.remade.pop(op.block, None)
        bytes_now = self.others() + _own_bytes(block, op)
        if op.kind == "run" and block["options"]:
            if op.holds or waits:
                self.held.add(op.block)
            self.kept[op.block] = block["options"][op.option]["kept_bytes"]
        if op.kind == "remake":
            self.remade[op.block] = block["remade_bytes"]
        if op.kind in ("head", "backward"):
            self.gradients += block["gradient_left_bytes"]
        return bytes_now


def _own_bytes(block: dict, op: Op) -> int:
    if not block["options"]:
        return block["backward_bytes" if op.kind == "backward" else "forward_bytes"]
    option = block["options"][op.option]
    if op.kind == "run":
        return option["forward_bytes" if op.holds else "forward_bytes_dropped"]
    if op.kind == "backward":
        return option["backward_bytes"]
    return block["recompute_through_bytes"] if op.through else option["recompute_bytes"]


def _duration(block: dict, op: Op) -> int:
    if op.kind == "backward":
        return block["backward_ns"]
    if op.kind == "remake":
        return block["recompute_through_ns"] if op.through else block["options"][op.option]["recompute_ns"]
    return block["forward_ns"]


def simulate(profile: dict, steps: list[Op]) -> Cost:
    memory = _Memory(profile)
    blocks = profile["blocks"]
    cost = Cost(profile["update_ns"], 0, 0)
    forwards = [0] * len(blocks)
    for op in steps:
        cost.time_ns += _duration(blocks[op.block], op)
        cost.peak_bytes = max(cost.peak_bytes, memory.during(op))
        forwards[op.block] += op.kind in ("run", "remake")
    cost.most_forwards = max(forwards)
    return cost
