"""What is computed from the outputs of runs: pure functions, tested in figures_test.py."""
import array
import json
import math
import re
import statistics
import struct

# Dense bfloat16 with float32 sums, by data sheet, in FLOP/s: the first name that a GPU's own name contains counts.
PEAKS = (("GH200", 989e12), ("H200", 989e12), ("H100 PCIe", 756e12), ("H100", 989e12), ("H800", 989e12),
         ("A100", 312e12), ("A800", 312e12), ("B200", 2250e12))


def peak_flops(gpu_name):
    """Of a GPU in bf16, or None where its name is none of those known."""
    return next((peak for name, peak in PEAKS if name in gpu_name), None)


def flops_per_token(parameters, layers, width, length):
    """Forward and backward of a transformer: 6N + 12 L C T, the causal half of attention counted whole."""
    return 6 * parameters + 12 * layers * width * length


def mfu(tokens_per_second, parameters, layers, width, length, peak):
    return tokens_per_second * flops_per_token(parameters, layers, width, length) / peak if peak else None


# --- Metrics and traces -----------------------------------------------------------------------------------------------


def read_metrics(text):
    """(the object of the run, those of the steps) of a metrics file, a half-written last line left out."""
    run, steps = {}, []
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        if "run" in entry:
            run = entry["run"]
        elif "step" in entry:
            steps.append(entry)
    return run, steps


def digits(text, key):
    """The numbers of `key` as they are printed, step by step: what must agree digit by digit is compared as text."""
    return re.findall(rf'"{re.escape(key)}":([^,}}]+)', text)


def wrong_peaks(steps):
    """The steps whose measured peak of device memory is not the predicted one."""
    return [s["step"] for s in steps if s["peak_device_bytes"] != s["predicted_peak_device_bytes"]]


def median_of(steps, key):
    values = [s[key] for s in steps if s.get(key) is not None]
    return statistics.median(values) if values else None


def union(intervals):
    """The same points as intervals that do not touch, in order."""
    merged = []
    for begin, end in sorted(i for i in intervals if i[1] > i[0]):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def length_of(intervals):
    return sum(end - begin for begin, end in union(intervals))


def intersection(a, b):
    """The points that are in both, each a list of intervals."""
    a, b, common = union(a), union(b), []
    i = j = 0
    while i < len(a) and j < len(b):
        begin, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if begin < end:
            common.append((begin, end))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return common


def stream_intervals(trace):
    """{stream: [(begin, end) in microseconds]} of the instructions of a Chrome trace."""
    names, intervals = {}, {}
    for event in trace["traceEvents"]:
        if event.get("ph") == "M" and event["name"] == "thread_name":
            names[event["tid"]] = event["args"]["name"]
    for event in trace["traceEvents"]:
        if event.get("ph") == "X":
            interval = (event["ts"], event["ts"] + event["dur"])
            intervals.setdefault(names.get(event["tid"], str(event["tid"])), []).append(interval)
    return intervals


def overlapped_share(trace, streams=("offload", "reload"), under="compute"):
    """(share of the time of copies during which compute runs, seconds of copies), or (None, 0) without copies."""
    intervals = stream_intervals(trace)
    copies = [i for stream in streams for i in intervals.get(stream, [])]
    total = length_of(copies)
    if not total:
        return None, 0.0
    return length_of(intersection(copies, intervals.get(under, []))) / total, total * 1e-6


# --- Files of tensors -------------------------------------------------------------------------------------------------


def first_difference(a, b):
    """The first byte at which two files differ, None where they are equal."""
    with open(a, "rb") as x, open(b, "rb") as y:
        at = 0
        while True:
            one, other = x.read(1 << 20), y.read(1 << 20)
            if one != other:
                return at + next((i for i, (p, q) in enumerate(zip(one, other)) if p != q), min(len(one), len(other)))
            if not one:
                return None
            at += len(one)


# Safetensors' type: array's, bytes of one.
TYPES = {"F32": ("f", 4), "F64": ("d", 8), "I64": ("q", 8), "I32": ("i", 4)}


def read_safetensors(path):
    """{name: (shape, numbers)} of a file of float32, float64 and whole numbers."""
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        code, _ = TYPES[entry["dtype"]]
        numbers = array.array(code)
        numbers.frombytes(data[slice(*entry["data_offsets"])])
        tensors[name] = (tuple(entry["shape"]), numbers)
    return tensors


def cosine(a, b):
    """Of the angle between two vectors; 1 of two zeros."""
    square = math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))
    return sum(x * y for x, y in zip(a, b)) / square if square else float(list(a) == list(b))


def largest_error(a, b):
    """max |a - b| / max |b|."""
    largest = max((abs(y) for y in b), default=0.0)
    error = max((abs(x - y) for x, y in zip(a, b)), default=0.0)
    if any(math.isnan(x) for x in a):
        return math.inf
    return error / largest if largest else error


# --- Table ------------------------------------------------------------------------------------------------------------


def cell(value):
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def table(header, rows):
    """Columns as wide as they need to be; numbers to the right."""
    cells = [list(map(str, header))] + [[cell(value) for value in row] for row in rows]
    widths = [max(len(row[c]) for row in cells) for c in range(len(header))]
    right = [any(isinstance(row[c], (int, float)) for row in rows) for c in range(len(header))]
    lines = []
    for row in cells:
        aligned = (text.rjust(w) if r else text.ljust(w) for text, w, r in zip(row, widths, right))
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)
