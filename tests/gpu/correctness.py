"""The parts that must hold: kernels, golden files, the same bits from every plan, two ranks on one GPU."""
import array
import re
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree

import figures
from session import Skip
from training import Job, write_tokens

SHARDS = 4  # of the tests of kernels, at once: the CPU's references take longer than the GPU
# Sequences, length and shapes of what must not differ by a bit: off every tile, more than one chunk of the loss.
TINY = ["--model=gpt2", "--model_config=n_layer=2,n_embd=32,n_head=2,n_positions=16,vocab_size=256"]
SMALL = ["--model=gpt2", "--model_config=n_layer=6,n_embd=192,n_head=3,n_positions=256,vocab_size=5003"]
SMALL_LLAMA = ["--model=llama", "--model_config=hidden_size=192,intermediate_size=520,num_hidden_layers=4,"
               "num_attention_heads=6,num_key_value_heads=2,max_position_embeddings=256,vocab_size=5003"]
TINY_LLAMA = ["--model=llama", "--model_config=hidden_size=32,intermediate_size=40,num_hidden_layers=2,"
              "num_attention_heads=4,num_key_value_heads=2,max_position_embeddings=16,vocab_size=256"]


# --- Kernels ----------------------------------------------------------------------------------------------------------


def test_results(path):
    """(tests run, {failed test: the begin of its first failure}) of GoogleTest's XML, None where that is not whole."""
    try:
        cases = [c for c in ElementTree.parse(path).iter("testcase") if c.get("result") == "completed"]
    except (OSError, ElementTree.ParseError):
        return None
    return len(cases), {f"{c.get('classname')}.{c.get('name')}": c.find("failure").get("message", "")[:300]
                        for c in cases if c.find("failure") is not None}


def run_tests(session, carried, program, test_filter, seconds, environment):
    """Runs a test program in shards at once; one check."""
    shards = 1 if session.standin else SHARDS
    outputs = [session.scratch / f"{program}_{shard}.xml" for shard in range(shards)]

    def run_shard(shard):
        words = carried.command(program, "--gtest_brief=1", f"--gtest_filter={test_filter}",
                                f"--gtest_output=xml:{outputs[shard]}")
        places = {"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(shard)}
        return session.run(words, seconds, {**carried.environment, **environment, **places})

    with ThreadPoolExecutor(shards) as pool:
        all_done = list(pool.map(run_shard, range(shards)))
    count, failed, broken = 0, {}, []
    for done, output in zip(all_done, outputs):
        results = test_results(output)
        if results:
            count, failed = count + results[0], {**failed, **results[1]}
        if not results or (not done.good and not results[1]):
            broken.append(f"{done.why()} | {' | '.join((done.out + done.errors).splitlines()[-4:])}")
    words = [f"{count} tests"] + [f"{name}: {why}" for name, why in list(failed.items())[:5]] + broken[:2]
    session.check(program, count > 0 and not failed and not broken, "; ".join(words)[:2000])
    session.fact(f"{program} failed", sorted(failed))


def kernels_part(session, carried):
    if not carried.has("gpu_tensor_test"):
        raise Skip("gpu_tensor_test was not carried: ninja -C build gpu_tensor_test, then tests/gpu/pack")
    test_filter = "LinearTest.*:LayerNorm.*:Gelu.*:Add.*:AdamW.*-*DeathTest*" if session.standin else "-*DeathTest*"
    run_tests(session, carried, "gpu_tensor_test", test_filter, 120, {})


# --- Golden files -----------------------------------------------------------------------------------------------------


def golden_part(session, carried, trainer):
    for name in ("gpt2",) if session.standin else ("gpt2", "gpt2_deep", "llama_gqa", "llama_tied_rope3", "qwen2"):
        golden_model(session, carried, trainer, name)
    golden_tests(session, carried)


def golden_tests(session, carried):
    """The programs of the golden tests themselves, where one was carried that opens the GPU."""
    candidates = [p for p in ("gpu_train_test", "runtime_train_test") if carried.has(p)]
    usable = [p for p in candidates if session.standin or f"bin/{p}" not in carried.manifest["with_standin"]]
    if not usable:
        session.fact("golden test program", f"none: {', '.join(candidates) or 'none was carried'}"
                     f"{' holds the stand-in, not a GPU' if candidates else ''}; the models below went through `train`")
        return
    test_filter = "All/GoldenTest.*/gpt2_*_R1_fp32" if session.standin else "All/GoldenTest.*"
    try:
        with carried.linked_sources():
            run_tests(session, carried, usable[0], test_filter, 90, {"REPRISE_TEST_DEVICE": "cuda"})
    except OSError as error:
        session.fact("golden test program", f"its fixtures can't be where it looks for them: {error}")


def golden_model(session, carried, trainer, name):
    """A fixture through `train`: gradients of its first step and losses of five, beside Transformers' in float64."""
    folder = carried.folder / "tests/fixtures" / name
    expected = figures.read_safetensors(folder / "expected.safetensors")
    data, labels = write_golden_batch(session.scratch, name, expected)
    (rows, length), _ = expected["input"]
    model = [f"--model={'gpt2' if name.startswith('gpt2') else 'llama'}", f"--init={folder}", f"--labels={labels}"]
    more = ["--learning_rate=1e-2", "--decay=constant"]
    jobs = [Job(model, data, length, rows, steps=1, precision="fp32", more=more),
            Job(model, data, length, rows, steps=5, precision="fp32", checkpoint="every:2", offload=True, more=more),
            Job(model, data, length, rows, steps=1, checkpoint="all", more=more)]
    one, five, half = trainer.train_all(jobs, gradients=True)
    if session.check(f"{name}: a step runs", one.good, one.done.why() if not one.good else ""):
        errors = {n: gradient_error(n, t, expected[f"grad.{n}"]) for n, t in
                  figures.read_safetensors(one.gradients).items()}
        worst = max(errors, key=errors.get)
        session.check(f"{name}: gradients", errors[worst] <= 1e-5, f"{worst}: {errors[worst]:.2g} of the largest")
    if session.check(f"{name}: five steps run", five.good, five.done.why() if not five.good else ""):
        losses = expected["losses"][1]
        error = max(abs(s["loss"] - loss) for s, loss in zip(five.steps, losses)) / losses[0]
        session.check(f"{name}: losses of five steps", error <= 2e-5, f"{error:.2g} of the first")
    if session.check(f"{name}: a step in bf16 runs", half.good, half.done.why() if not half.good else ""):
        cosines = {n: gradient_cosine(n, t, expected[f"grad.{n}"]) for n, t in
                   figures.read_safetensors(half.gradients).items()}
        worst = min(cosines, key=cosines.get)
        session.check(f"{name}: gradients in bf16", cosines[worst] >= 0.999, f"{worst}: cosine {cosines[worst]:.6f}")


def write_golden_batch(folder, name, expected):
    """The fixture's rows as a file of tokens, and its labels, each beside the token that it stands for."""
    data, labels = folder / f"{name}.u16", folder / f"{name}.labels"
    array.array("H", list(expected["input"][1]) + [0]).tofile(data.open("wb"))
    array.array("i", [-100] + list(expected["labels"][1])).tofile(labels.open("wb"))
    return data, labels


def without_key_bias(name, numbers):
    """The gradient of key biases is zero in exact arithmetic: softmax does not see a shift of all scores."""
    if not re.search(r"attn\.c_attn\.bias$", name):
        return numbers
    third = len(numbers) // 3
    return numbers[:third] + numbers[2 * third:]


def gradient_error(name, actual, expected):
    return figures.largest_error(without_key_bias(name, actual[1]), without_key_bias(name, expected[1]))


def gradient_cosine(name, actual, expected):
    return figures.cosine(without_key_bias(name, actual[1]), without_key_bias(name, expected[1]))


# --- The same bits ----------------------------------------------------------------------------------------------------


def same(session, name, first, other):
    """Losses and norms to the last digit, gradients to the last byte, and the predicted peak."""
    if not session.check(f"{name}: runs", other.good, other.done.why() if not other.good else ""):
        return
    wrong = figures.wrong_peaks(other.steps)
    session.check(f"{name}: peak is the predicted one", not wrong, f"steps {wrong}" if wrong else "")
    if first is None or not first.good:
        return
    for key in ("loss", "gradient_norm"):
        a, b = figures.digits(first.text, key), figures.digits(other.text, key)
        session.check(f"{name}: {key}", a == b, f"{b} beside {a}" if a != b else "")
    at = figures.first_difference(first.gradients, other.gradients)
    session.check(f"{name}: gradients", at is None, "" if at is None else f"the files differ from byte {at} on")


def compare_all(session, trainer, label, jobs):
    """Each run beside the first."""
    first = None
    for trained in trainer.train_all(jobs, gradients=True):
        same(session, f"{label}, {trained.job.name()}", first, trained)
        first = first or trained


def plans(standin):
    """(policy, offload, prefetch) of what must agree to the bit; the first, which keeps everything, once more later."""
    every = [("none", False, 1), ("all", True, 2), ("every:2", True, 0), ("sqrt", False, 1), ("all", False, 1),
             ("every:2", False, 2), ("selective", False, 1), ("sqrt", True, 1), ("all", True, 0), ("none", False, 0),
             ("none", False, 1)]
    return every[:5] if standin else every


def bits_part(session, trainer):
    """One rank: every plan beside the one that keeps everything; then the GPU beside the CPU."""
    length, rows = (16, 2) if session.standin else (250, 3)
    data = session.scratch / "bits.u16"
    write_tokens(data, 8 * rows * length, 250)
    gpt2, llama = (TINY, TINY_LLAMA) if session.standin else (SMALL, SMALL_LLAMA)
    for label, model, precision, more in (
            ("gpt2 bf16", gpt2, "bf16", []), ("gpt2 fp32, dropout", gpt2, "fp32", ["--dropout=0.1"]),
            ("llama bf16", llama, "bf16", [])):
        jobs = [Job(model, data, length, rows, precision=precision, checkpoint=policy, offload=offload,
                    prefetch=prefetch, more=more) for policy, offload, prefetch in plans(session.standin)]
        compare_all(session, trainer, label, jobs)
    for precision, bound in (("fp32", 1e-5), ("bf16", 2e-3)):
        here, there = trainer.train_all(Job(gpt2, data, length, rows, precision=precision, device=device)
                                        for device in ("cuda", "cpu"))
        if session.check(f"cuda and cpu, {precision}: run", here.good and there.good,
                         " ".join(t.done.why() for t in (here, there) if not t.good)):
            error = max(abs(a["loss"] / b["loss"] - 1) for a, b in zip(here.steps, there.steps))
            session.check(f"cuda and cpu, {precision}: losses", error <= bound, f"{error:.2g} apart")


def ranks_part(session, trainer):
    """Two ranks share the GPU, over MPI: their plans and shardings beside one another."""
    length, rows = (16, 2) if session.standin else (250, 2)
    data = session.scratch / "ranks.u16"
    write_tokens(data, 16 * rows * length, 250)
    model = TINY if session.standin else SMALL
    jobs = [Job(model, data, length, rows, ranks=2, checkpoint=policy, offload=offload, prefetch=prefetch,
                sharding=sharding)
            for policy, offload, prefetch, sharding in (
                ("none", False, 1, "full"), ("all", True, 2, "full"), ("every:2", False, 0, "full"),
                ("none", False, 1, "optimizer"), ("sqrt", True, 1, "gradients"))]
    compare_all(session, trainer, "2 ranks", jobs)
