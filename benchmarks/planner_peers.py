#!/usr/bin/env python3
"""Compares the planner's step times with rotor's schedule and PyTorch's knapsack, on the same profiles and budgets.

  ENV/bin/python benchmarks/planner_peers.py                   # all profiles; minutes
  ENV/bin/python benchmarks/planner_peers.py --only=gpt2       # one; may be given more than once
  ENV/bin/python benchmarks/planner_peers.py --self_test       # rotor's program against closed forms and brute force

docs/planner_comparison.md says what is compared and shows the result. Needs numpy; without torch the knapsack is left
out (ENV: python3 -m venv ENV && ENV/bin/pip install torch==2.13.0 numpy). Exit code 0 where the planner was never
slower than a schedule of its class, 1 where it was, 2 where something went wrong.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Callable

try:
    import numpy  # noqa: F401: rotor's tables; asked for here, so that the sentence below is all there is to read
except ImportError:
    print("reprise: planner_peers.py needs numpy: run it with a Python that has it (apt-get install python3-numpy, or "
          "an environment with torch)", file=sys.stderr)
    sys.exit(2)

from peers import chain, knapsack, rotor
from peers.random_chain import random_chain
from peers.rotor_test import self_test

ROOT = Path(__file__).resolve().parent.parent
SLOTS = 500
LONGEST_SEGMENT = 4  # PlanLimits::longest_segment: layers that may share one boundary
BUDGETS = 8  # from the smallest up, in equal steps to what keeping everything takes; that itself is of no interest


@dataclass
class Case:
    """One profile within one budget. Times in ns; None: the peer found no plan that fits."""
    profile: str
    layers: int
    budget_bytes: int
    budget_part: float  # of the way from the smallest budget to that of keeping everything
    ours_ns: int
    bound_ns: int
    everything_ns: int
    longest_segment: int
    smallest_part: float = 0  # rotor's smallest budget / ours, both beyond the states
    rotor_ns: int | None = None
    rotor_forwards: int = 0  # of the layer that runs forward most often
    rotor_twice_ns: int | None = None  # the best of rotor's schedules that run no forward more than twice
    rotor_twice_segment: int = 0  # the most layers that run again from one boundary there
    knapsack_ns: int | None = None


class Reprise:
    """The program, asked to plan saved profiles."""

    def __init__(self, program: Path, folder: Path):
        self.program, self.folder = program, folder

    def run(self, *flags: str) -> str:
        done = subprocess.run([str(self.program), "plan", *flags], text=True, capture_output=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"'reprise plan {' '.join(flags)}' ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def profile_of_model(self, *flags: str) -> dict:
        path = self.folder / "model.json"
        self.run("--checkpoint=none", "--world_size=1", "--sharding=none", f"--save_profile={path}", *flags)
        return json.loads(path.read_text(encoding="utf-8"))

    def solve(self, profile: dict, budget_bytes: int) -> dict:
        """The program's answer, checked: its time and peak must be those of our own simulation of its plan."""
        path = self.folder / "profile.json"
        path.write_text(json.dumps(profile), encoding="utf-8")
        flags = (f"--profile={path}", "--checkpoint=auto", f"--memory_budget={budget_bytes}", "--json")
        answer = json.loads(self.run(*flags))
        choices = [chain.Choice(layer["option"], layer["starts_segment"]) for layer in answer["layers"]]
        cost = chain.simulate(profile, chain.steps_of_plan(profile, choices))
        said = (answer["step_ns"], answer["peak_bytes"])
        if (cost.time_ns, cost.peak_bytes) != said or cost.peak_bytes > budget_bytes:
            raise RuntimeError(f"the program says {said[0]} ns and {said[1]} bytes for its plan within {budget_bytes} "
                               f"bytes, and the rules of docs/plan_profile.md {cost.time_ns} and {cost.peak_bytes}")
        return answer


def profiles(reprise: Reprise) -> dict[str, Callable[[], dict]]:
    """By name, in the order of the table."""
    gpt2 = ("--model=gpt2", "--hardware=cpu-2-cores", "--sequence_length=256", "--micro_batch=4",
            "--model_config=n_layer=12,n_embd=768,n_head=12,n_positions=1024,vocab_size=50257")
    deep = ("--model=gpt2", "--hardware=cpu-2-cores", "--sequence_length=512", "--micro_batch=16",
            "--model_config=n_layer=48,n_embd=192,n_head=6,n_positions=512,vocab_size=256")
    gpt3 = ("--model=gpt2", "--hardware=h100-sxm", "--sequence_length=2048", "--micro_batch=16", "--precision=bf16",
            "--model_config=n_layer=96,n_embd=12288,n_head=96,n_positions=2048,vocab_size=50257")
    made = {"gpt2": lambda: reprise.profile_of_model(*gpt2), "deep": lambda: reprise.profile_of_model(*deep),
            "gpt3": lambda: reprise.profile_of_model(*gpt3)}
    for seed, layers in enumerate((30, 48, 64, 80, 100, 126), 1):
        made[f"random_{layers}"] = lambda seed=seed, layers=layers: random_chain(seed, layers)
    for seed, layers in enumerate((30, 60, 126), 11):
        made[f"thin_{layers}"] = lambda seed=seed, layers=layers: random_chain(seed, layers, thin=True)
    return made


def longest_segment(layers: list[dict]) -> int:
    longest = length = 0
    for layer in layers:
        length = 1 if layer["starts_segment"] else length + 1
        longest = max(longest, length)
    return longest


def longest_remake(steps: list[chain.Op]) -> int:
    """The most layers that are remade one after the other, before any of their backwards."""
    longest = length = 0
    for step in steps:
        length = length + 1 if step.kind == "remake" else 0
        longest = max(longest, length)
    return longest


def within(profile: dict, steps: list[chain.Op], budget_bytes: int) -> chain.Cost:
    cost = chain.simulate(profile, steps)
    if cost.peak_bytes > budget_bytes:
        raise RuntimeError(f"rotor's schedule takes {cost.peak_bytes} of {budget_bytes} bytes")
    return cost


def rotor_smallest(profile: dict, most_bytes: int) -> int:
    """The smallest budget for which rotor has a schedule, to a thousandth of what lies between states and `most`."""
    low, high = profile["state_bytes"], most_bytes
    while high - low > (most_bytes - profile["state_bytes"]) // 1000:
        middle = (low + high) // 2
        steps = rotor.plan(profile, middle, SLOTS)
        if steps is not None and chain.simulate(profile, steps).peak_bytes <= middle:
            high = middle
        else:
            low = middle
    return high


def compare(name: str, profile: dict, reprise: Reprise, chooser: knapsack.Knapsack | None) -> list[Case]:
    """The cases of one profile."""
    layers = len(profile["blocks"]) - 2
    everything = chain.simulate(profile, chain.steps_of_plan(profile, [chain.Choice(0)] * layers))
    smallest = reprise.solve(profile, everything.peak_bytes)["smallest_budget"]
    states = profile["state_bytes"]
    smallest_part = (rotor_smallest(profile, everything.peak_bytes) - states) / (smallest - states)
    cases = []
    for k in range(BUDGETS):
        budget = smallest + (everything.peak_bytes - smallest) * k // BUDGETS
        answer = reprise.solve(profile, budget)
        case = Case(name, layers, budget, k / BUDGETS, answer["step_ns"], answer["bound_ns"], everything.time_ns,
                    longest_segment(answer["layers"]), smallest_part)
        if (steps := rotor.plan(profile, budget, SLOTS)) is not None:
            cost = within(profile, steps, budget)
            case.rotor_ns, case.rotor_forwards = cost.time_ns, cost.most_forwards
        if (steps := rotor.plan(profile, budget, SLOTS, twice=True)) is not None:
            case.rotor_twice_ns = within(profile, steps, budget).time_ns
            case.rotor_twice_segment = longest_remake(steps)
        if chooser is not None:
            case.knapsack_ns = chooser.fastest(budget)
        cases.append(case)
    return cases


# --- Tables ---------------------------------------------------------------------------------------------------------


def ratios(cases: list[Case], peer: Callable[[Case], int | None]) -> list[float]:
    """Ours / peer where the peer has a plan."""
    return [case.ours_ns / time for case in cases if (time := peer(case)) is not None]


def compared_rotor(case: Case) -> int | None:
    """Rotor's time where it keeps to two forwards a layer."""
    return case.rotor_ns if case.rotor_forwards <= 2 else None


def beyond_rotor(case: Case) -> int | None:
    return case.rotor_ns if case.rotor_forwards > 2 else None


def rotor_twice(case: Case) -> int | None:
    """Where its segments are no longer than the planner's."""
    return case.rotor_twice_ns if case.rotor_twice_segment <= LONGEST_SEGMENT else None


def rotor_long(case: Case) -> int | None:
    return case.rotor_twice_ns if case.rotor_twice_segment > LONGEST_SEGMENT else None


def knapsack_time(case: Case) -> int | None:
    return case.knapsack_ns


def spread(values: list[float]) -> str:
    """`7: 0.931, 0.9904`: how many, their mean and the largest."""
    return f"{len(values)}: {statistics.mean(values):.3f}, {max(values):.4f}" if values else "0"


def summary(cases: list[Case]) -> str:
    """Markdown, a row for each profile: ours / peer."""
    lines = ["| profile | layers | rotor | rotor, over twice | rotor held to twice | held to twice, over "
             f"{LONGEST_SEGMENT} layers | knapsack | no rotor, no knapsack | rotor's smallest |",
             "|---|--:|---|---|---|---|---|--:|--:|"]
    names = list(dict.fromkeys(case.profile for case in cases))
    for name in names + (["all"] if len(names) > 1 else []):
        of = [case for case in cases if name in (case.profile, "all")]
        cells = [spread(ratios(of, peer))
                 for peer in (compared_rotor, beyond_rotor, rotor_twice, rotor_long, knapsack_time)]
        none = f"{sum(case.rotor_ns is None for case in of)}, {sum(case.knapsack_ns is None for case in of)}"
        smallest = "" if name == "all" else f"{of[0].smallest_part:.2f}"
        layers = "" if name == "all" else of[0].layers
        lines.append(f"| {name} | {layers} | {' | '.join(cells)} | {none} | {smallest} |")
    return "\n".join(lines)


def details(cases: list[Case]) -> str:
    """Markdown, a row for each case."""
    lines = ["| profile | budget | ours | gap | longest segment | rotor | forwards | rotor held to twice | knapsack |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]

    def slower(case: Case, time: int | None) -> str:
        return "none fits" if time is None else f"+{100 * (time / case.everything_ns - 1):.2f} %"

    for case in cases:
        gap = 1 - case.bound_ns / case.ours_ns
        lines.append(f"| {case.profile} | {100 * case.budget_part:.1f} % | {slower(case, case.ours_ns)} | "
                     f"{'exact' if gap <= 0 else f'{100 * gap:.2g} %'} | {case.longest_segment} | "
                     f"{slower(case, case.rotor_ns)} | {case.rotor_forwards or ''} | "
                     f"{slower(case, case.rotor_twice_ns)} | {slower(case, case.knapsack_ns)} |")
    return "\n".join(lines)


def losses(cases: list[Case]) -> list[str]:
    """A sentence for each case in which the planner is slower than it may be."""
    peers = {"rotor": compared_rotor, "rotor held to twice": rotor_twice, "the knapsack": knapsack_time}
    return [f"{case.profile}, budget {case.budget_bytes}: {case.ours_ns} ns, {name} {peer(case)} ns"
            for case in cases for name, peer in peers.items() if (peer(case) or case.ours_ns) < case.ours_ns]


def has_torch() -> bool:
    try:
        import torch  # noqa: F401
    except ImportError:
        print("no torch: the knapsack is left out", file=sys.stderr)
        return False
    return True


def run(options: argparse.Namespace) -> int:
    cases = []
    with_knapsack = has_torch()
    with tempfile.TemporaryDirectory() as folder:
        reprise = Reprise(options.program, Path(folder))
        made = profiles(reprise)
        for name in options.only or made:
            if name not in made:
                raise RuntimeError(f"--only: '{name}' is none of {', '.join(made)}")
            start = time.monotonic()
            profile = made[name]()
            chain.check(profile)
            cases += compare(name, profile, reprise, knapsack.Knapsack(profile) if with_knapsack else None)
            print(f"{name}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)
    print(f"{summary(cases)}\n\n{details(cases)}")
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(case) for case in cases], indent=1) + "\n", encoding="utf-8")
    lost = losses(cases)
    for line in lost:
        print(f"slower: {line}")
    return 1 if lost else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="NAME", help="only this profile; may be repeated")
    parser.add_argument("--json", metavar="FILE", help="write the cases here too")
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "bin" / "reprise", help="build/bin/reprise")
    parser.add_argument("--self_test", action="store_true", help="test rotor's program and end")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    try:
        return run(options)
    except (RuntimeError, OSError, chain.UnfitProfile) as error:
        print(f"reprise: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
