"""Tests of rotor.py: equal stages against Revolve's closed form, small chains against all schedules there are."""
import itertools
import random
from math import comb
from typing import Iterator

from peers import chain, rotor
from peers.chain import Op

UNIT = 256  # bytes of a slot: no size is rounded


def _block(**numbers: int) -> dict:
    names = ("boundary_bytes", "forward_ns", "backward_ns", "gradient_held_bytes", "gradient_left_bytes",
             "forward_bytes", "backward_bytes", "recompute_through_ns", "recompute_through_bytes", "remade_bytes")
    return {**dict.fromkeys(names, 0), "options": [], **numbers}


def _option(**numbers: int) -> dict:
    names = ("kept_bytes", "recompute_ns", "forward_bytes", "forward_bytes_dropped", "recompute_bytes",
             "backward_bytes")
    return {**dict.fromkeys(names, 0), "reads_boundary": True, **numbers}


def _profile(blocks: list[dict], state_bytes: int = 0) -> dict:
    return dict(state_bytes=state_bytes, update_ns=0, accumulation=1, gathers=False, reduces=False, blocks=blocks)


def _equal_chain(layers: int) -> dict:
    """Boundaries and a step's own bytes are one unit, a forward takes 1 ns, and nothing else can be kept."""
    huge = 1000 * UNIT
    step = dict(forward_bytes=UNIT, forward_bytes_dropped=UNIT, recompute_bytes=UNIT, backward_bytes=UNIT)
    options = [_option(kept_bytes=huge, **{**step, "forward_bytes": huge}), _option(recompute_ns=1, **step)]
    layer = _block(boundary_bytes=UNIT, forward_ns=1, recompute_through_ns=1, recompute_through_bytes=huge,
                   remade_bytes=huge, options=options)
    return _profile([_block()] + [layer] * layers + [_block(boundary_bytes=UNIT, forward_bytes=UNIT)])


def _revolve(steps: int, checkpoints: int) -> int:
    """Least forwards to reverse `steps` steps, apart from those that go with a backward (Griewank and Walther 2000)."""
    repeats = next(r for r in itertools.count() if comb(checkpoints + r, checkpoints) >= steps)
    return repeats * steps - comb(checkpoints + repeats, checkpoints + 1)


def test_equal_chain() -> None:
    """One unit holds the boundary in use, each further one a checkpoint; the head is the last step."""
    for layers in range(1, 25):
        profile = _equal_chain(layers)
        for units in range(1, 8):
            steps = rotor.plan(profile, units * UNIT, slots=units)
            if steps is None:
                assert units == 1, (layers, units)
                continue
            cost = chain.simulate(profile, steps)
            # The head is no forward of a layer: each layer has one that goes with its backward.
            assert cost.time_ns == _revolve(layers + 1, units - 1) + layers, (layers, units, cost)
            assert cost.peak_bytes <= units * UNIT, (layers, units, cost)


def _small_chain(draw: random.Random, layers: int) -> dict:
    """Every number for itself, but for what chain.check asks for."""
    size = lambda: UNIT * draw.randint(0, 4)
    time = lambda: draw.randint(0, 9)

    def option(last: bool) -> dict:
        return _option(kept_bytes=0 if last else size(), recompute_ns=1 + time() if last else 0, forward_bytes=size(),
                       forward_bytes_dropped=size(), recompute_bytes=size(), backward_bytes=size(),
                       reads_boundary=last or draw.random() < 0.5)

    blocks = [_block(boundary_bytes=size(), forward_ns=time(), backward_ns=time(), gradient_left_bytes=size(),
                     recompute_through_ns=time(), recompute_through_bytes=size(), remade_bytes=size(),
                     options=[option(False), option(True)]) for _ in range(layers)]
    head = _block(boundary_bytes=size(), forward_ns=time(), forward_bytes=size(), gradient_left_bytes=size())
    return _profile([_block()] + blocks + [head], state_bytes=UNIT * draw.randint(0, 3))


def _all_schedules(profile: dict, stage: int, last: int) -> Iterator[list[Op]]:
    """All that the paper's class holds for stages ... last."""
    head = len(profile["blocks"]) - 1
    if stage == head:
        yield [Op("head", head)]
        return
    options = profile["blocks"][stage]["options"]
    if last == head:
        begin, end = [Op("run", stage, 0, options[0]["reads_boundary"])], [Op("backward", stage, 0)]
    else:
        begin, end = [Op("remake", stage, through=stage < last)], [Op("backward", stage)]
    for middle in _all_schedules(profile, stage + 1, last) if stage < last else [[]]:
        yield begin + middle + end
    for behind in range(stage + 1, last + 1):
        runs = [Op("run", j, holds=j == stage) for j in range(stage, behind)]
        for after in _all_schedules(profile, behind, last):
            for again in _all_schedules(profile, stage, behind - 1):
                yield runs + after + again


def test_all_schedules() -> None:
    """The least time within each budget, of all schedules and of those that run no forward more than twice."""
    draw = random.Random(1)
    fits = 0
    for _ in range(60):
        layers = draw.randint(1, 4)
        profile = _small_chain(draw, layers)
        costs = [chain.simulate(profile, [Op("run", 0)] + steps + [Op("backward", 0)])
                 for steps in _all_schedules(profile, 1, layers + 1)]
        # What the first block's backward needs is the same for all, and no part of rotor's chain.
        for slots in range(1, 40):
            budget = profile["state_bytes"] + slots * UNIT
            for most in (2, layers + 1):
                times = [c.time_ns for c in costs if c.peak_bytes <= budget and c.most_forwards <= most]
                steps = rotor.plan(profile, budget, slots, twice=most == 2)
                found = steps and chain.simulate(profile, steps)
                if not times:
                    assert not found or found.peak_bytes > budget, (profile, slots, most)
                    continue
                fits += 1
                assert found and found.time_ns == min(times) and found.peak_bytes <= budget, (profile, slots, most)
    assert fits > 1000, fits


def test_rounding() -> None:
    """Slots that are too coarse never give a schedule beyond the budget."""
    draw = random.Random(2)
    for _ in range(100):
        profile = _small_chain(draw, draw.randint(1, 6))
        left = sum(block["gradient_left_bytes"] for block in profile["blocks"])
        for units in range(1, 30):
            budget = profile["state_bytes"] + left + units * UNIT
            steps = rotor.plan(profile, budget, slots=7)
            assert steps is None or chain.simulate(profile, steps).peak_bytes <= budget, (profile, units)


def self_test() -> int:
    """Exit code 0 where all holds; an assertion ends the program otherwise."""
    for test in (test_equal_chain, test_all_schedules, test_rounding):
        test()
        print(f"{test.__name__}: passed")
    return 0
