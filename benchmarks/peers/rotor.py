"""Rotor's schedule of a chain on one rank: the dynamic program of

  Herrmann, Beaumont, Eyraud-Dubois, Hermann, Joly, Shilova: Optimal checkpointing for heterogeneous chains: how to
  train deep neural networks with limited memory (2019), the recurrence for C_BP(s, t, m) of persistent schedules,

written from the paper. The stages are the layers and, as the last, the head. C(s, t, m) is the least time for stages
s ... t, forward and backward, in m slots of memory, with the boundary before s at hand; it is the least of

  all:   stage s keeps all that its backward reads; s+1 ... t in what is left; backward of s
  ck k:  stages s ... k-1 run and keep the boundary before s only; k ... t in what is left; then s ... k-1 again

The budget is cut into `slots`; sizes are rounded up to whole slots, which is rotor's own loss. Where it costs rotor
nothing we favour it: what a step needs for a moment is rounded as one sum with the gradients that are there by then,
and what runs again for its backward takes Reprise's times of a recompute, which skips what nobody reads.

    schedule = plan(profile, budget_bytes, slots=500)      # a list of chain.Op, or None where none fits

Needs numpy.
"""
import numpy as np

from peers.chain import Op

NEVER = 1 << 60  # the time of what does not fit
ALL = 0  # choice: keep all; k > 0: a checkpoint, and stages before s + k run on


class _Chain:
    """Sizes in slots and times of a profile; stages are numbered 1 ... head."""

    def __init__(self, profile: dict, budget_bytes: int, slots: int):
        self.blocks = profile["blocks"]
        self.head = len(self.blocks) - 1
        self.slots = slots
        self.room = budget_bytes - profile["state_bytes"]
        # Gradients that are there when backward of the stage runs.
        self.gradients = [0] * len(self.blocks)
        for stage in range(self.head - 1, -1, -1):
            self.gradients[stage] = self.gradients[stage + 1] + self.blocks[stage + 1]["gradient_left_bytes"]
        self.boundary = [self.slots_of(block["boundary_bytes"]) for block in self.blocks]

    def slots_of(self, size: int) -> int:
        """Beyond `slots` where it cannot fit."""
        return min(-(-size * self.slots // self.room), self.slots + 1)

    def is_first_pass(self, last: int) -> bool:
        """Only what goes on to the head has not run before."""
        return last == self.head

    def gradients_during(self, last: int) -> int:
        """Gradients that are there while stages up to `last` run forward."""
        return 0 if self.is_first_pass(last) else self.gradients[last]

    def keep_all(self, stage: int, last: int) -> tuple[int, int, int]:
        """(slots it needs for a moment, slots it keeps, time forward and backward)."""
        block = self.blocks[stage]
        if stage == self.head:
            return self.slots_of(block["forward_bytes"]), 0, block["forward_ns"]
        if self.is_first_pass(last):
            option = block["options"][0]
            reads = option["reads_boundary"]
            forward = option["forward_bytes" if reads else "forward_bytes_dropped"]
            kept = option["kept_bytes"] + (block["boundary_bytes"] if reads else 0)
            time = block["forward_ns"]
        else:
            option = block["options"][-1]
            kept = block["remade_bytes"]
            through = stage < last
            time = block["recompute_through_ns"] if through else option["recompute_ns"]
            forward = block["recompute_through_bytes"] if through else option["recompute_bytes"]
        needs = max(forward + self.gradients_during(last), option["backward_bytes"] + self.gradients[stage])
        return self.slots_of(needs), self.slots_of(kept), time + block["backward_ns"]

    def checkpoints(self, stage: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """For each k = 1 ... last - stage: slots needed to run k stages and keep one boundary, and their time."""
        gradients = self.gradients_during(last)
        boundary = self.blocks[stage]["boundary_bytes"]
        needs = [self.blocks[stage]["options"][-1]["forward_bytes"]]
        needs += [boundary + self.blocks[j]["options"][-1]["forward_bytes_dropped"] for j in range(stage + 1, last)]
        times = [self.blocks[j]["forward_ns"] for j in range(stage, last)]
        return (np.maximum.accumulate([self.slots_of(size + gradients) for size in needs]),
                np.cumsum(times, dtype=np.int64))


def _shifted(row: np.ndarray, slots: int) -> np.ndarray:
    """The row for so many slots fewer."""
    out = np.full_like(row, NEVER)
    if slots < row.size:
        out[slots:] = row[:row.size - slots]
    return out


def _tables(chain: _Chain, twice: bool) -> tuple[np.ndarray, np.ndarray]:
    """C and what gives it, by s, t and m. `twice`: no forward runs more than twice, so a replay keeps all."""
    head, width = chain.head, chain.slots + 1
    time = np.full((head + 1, head + 1, width), NEVER, dtype=np.int64)
    choice = np.zeros((head + 1, head + 1, width), dtype=np.int16)
    for last in range(1, head + 1):
        for stage in range(last, 0, -1):
            needs, kept, own = chain.keep_all(stage, last)
            best = time[stage, last]
            best[needs:] = own
            if stage == last:
                continue
            np.minimum(best + _shifted(time[stage + 1, last], kept), NEVER, out=best)
            held = chain.boundary[stage]
            if (twice and not chain.is_first_pass(last)) or held >= width:
                continue
            needs, forward = chain.checkpoints(stage, last)
            after = time[stage + 1:last + 1, last, :width - held] + time[stage, stage:last, held:] + forward[:, None]
            after[np.arange(held, width)[None, :] < needs[:, None]] = NEVER
            k = after.argmin(axis=0)
            least = after[k, np.arange(after.shape[1])]
            better = least < best[held:]
            best[held:][better] = least[better]
            choice[stage, last, held:][better] = k[better] + 1
    return time, choice


def _schedule(chain: _Chain, choice: np.ndarray) -> list[Op]:
    """The steps that the choices stand for."""
    steps = [Op("run", 0)]
    todo = [(1, chain.head, chain.slots)]  # a stack: (stage, last, slots), or a step
    while todo:
        item = todo.pop()
        if isinstance(item, Op):
            steps.append(item)
            continue
        stage, last, slots = item
        k = int(choice[stage, last, slots])
        if k != ALL:
            steps += [Op("run", j, holds=j == stage) for j in range(stage, stage + k)]
            todo += [(stage, stage + k - 1, slots), (stage + k, last, slots - chain.boundary[stage])]
            continue
        if stage == chain.head:
            steps.append(Op("head", stage))
            continue
        first_pass = chain.is_first_pass(last)
        layer = chain.blocks[stage]
        if first_pass:
            steps.append(Op("run", stage, 0, layer["options"][0]["reads_boundary"]))
        else:
            steps.append(Op("remake", stage, through=stage < last))
        todo.append(Op("backward", stage, 0 if first_pass else -1))
        if stage < last:
            todo.append((stage + 1, last, slots - chain.keep_all(stage, last)[1]))
    return steps + [Op("backward", 0)]


def plan(profile: dict, budget_bytes: int, slots: int = 500, twice: bool = False) -> list[Op] | None:
    """Rotor's fastest schedule; None where none fits. `twice`: of those that run no forward more than twice."""
    if budget_bytes <= profile["state_bytes"]:
        return None
    chain = _Chain(profile, budget_bytes, slots)
    time, choice = _tables(chain, twice)
    return _schedule(chain, choice) if time[1, chain.head, slots] < NEVER else None
