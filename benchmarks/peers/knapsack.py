"""Plans that PyTorch's knapsack chooses, called from the installed package (torch._functorch, 2.13).

torch.compile saves values within a memory budget by a knapsack: each value has a size and the time to compute it
again. Here an item is a step up the front of a layer's options, from the boundary alone to everything: the bytes it
adds and the recompute it saves. What was chosen of a layer, added up, buys its fastest option of so many bytes.

The knapsack bounds what is saved, not the peak. So it is asked for many bounds, and of its plans the fastest whose peak
fits counts. Needs torch.
"""
from peers.chain import Choice, Cost, simulate, steps_of_plan

GRID = 100  # bounds that are tried for a profile
REFINE = 8  # halvings between the two bounds of the grid where plans cease to fit


def front(layer: dict) -> list[tuple[int, int, int]]:
    """(bytes saved, recompute time, option) by rising bytes and falling time; the first saves the boundary alone."""
    points = sorted((o["kept_bytes"] + (layer["boundary_bytes"] if o["reads_boundary"] else 0), o["recompute_ns"], i)
                    for i, o in enumerate(layer["options"]))
    best = []
    for point in points:
        if not best or point[1] < best[-1][1]:
            best.append(point)
    return best


def hull(points: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Those of a front that save ever less time for a byte: there the best items of a layer are its first ones."""
    kept = []
    for p in points:
        while len(kept) > 1 and ((kept[-1][1] - p[1]) * (kept[-1][0] - kept[-2][0]) >=
                                 (kept[-2][1] - kept[-1][1]) * (p[0] - kept[-1][0])):
            kept.pop()
        kept.append(p)
    return kept


class Chooser:
    """The plans of one profile for one of PyTorch's solvers."""

    def __init__(self, profile: dict, solver, of_hull: bool):
        self.profile, self.solver = profile, solver
        self.fronts = [hull(front(layer)) if of_hull else front(layer) for layer in profile["blocks"][1:-1]]
        self.items = [(layer, after[0] - before[0], before[1] - after[1]) for layer, points in enumerate(self.fronts)
                      for before, after in zip(points, points[1:])]
        self.total = sum(size for _, size, _ in self.items)
        self.grid = [(k / GRID, self.cost(k / GRID)) for k in range(GRID + 1)]

    def cost(self, fraction: float) -> Cost:
        """Of the plan that saves at most this part of all items' bytes. Sizes and bound as torch gives them: parts."""
        _, chosen, _ = self.solver([size / self.total for _, size, _ in self.items],
                                   [time * 1e-9 for _, _, time in self.items], fraction)
        bought = [points[0][0] for points in self.fronts]
        for item in chosen:
            bought[self.items[item][0]] += self.items[item][1]
        layers = [Choice(max((p for p in points if p[0] <= size), key=lambda p: p[0])[2])
                  for points, size in zip(self.fronts, bought)]
        return simulate(self.profile, steps_of_plan(self.profile, layers))

    def fastest(self, budget_bytes: int) -> int | None:
        """The least time of the plans that fit; None where none does."""
        fits = [(fraction, cost) for fraction, cost in self.grid if cost.peak_bytes <= budget_bytes]
        if not fits:
            return None
        least = min(cost.time_ns for _, cost in fits)
        low = fits[-1][0]
        high = min(1.0, low + 1 / GRID)
        for _ in range(REFINE):
            middle = (low + high) / 2
            cost = self.cost(middle)
            if cost.peak_bytes <= budget_bytes:
                low, least = middle, min(least, cost.time_ns)
            else:
                high = middle
        return least


class Knapsack:
    """The best of PyTorch's dynamic program and its greedy one, on all items and on those of the hulls."""

    def __init__(self, profile: dict):
        import torch
        from torch._functorch._activation_checkpointing import knapsack
        torch.set_num_threads(1)
        self.choosers = [Chooser(profile, solver, of_hull)
                         for solver in (knapsack.dp_knapsack, knapsack.greedy_knapsack) for of_hull in (False, True)]

    def fastest(self, budget_bytes: int) -> int | None:
        times = [chooser.fastest(budget_bytes) for chooser in self.choosers]
        return min((time for time in times if time is not None), default=None)
