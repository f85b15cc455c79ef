"""What ranking costs: where the time of a variant goes, what finding counts and answers spares, workers, memory.

Variants are those of ``ranking_sets/matrix_multiplication.py`` at n = 1024, by models that only count (linear), that
build graphs (roofline) and that simulate (pipeline). Seconds are of processors, since machines are busy with other
things, unless they are said to be of the clock. Loopy's caches and ours are off, but where finding is what is timed.

    ranking_scale.py                      stages, workers and sizes, in a few minutes
    ranking_scale.py stages               the stages alone
    ranking_scale.py memory linear 2000   ranks so many variants in this process
"""

import gc
import itertools
import os
import pickle
import random
import resource
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from unittest.mock import patch

import loopy as lp
import parts  # noqa: F401 - turns the cache off
from ranking_sets.matrix_multiplication import FORMS, Form, matrix_multiplication

import loopyperf as lpp
from loopyperf.counts.counted_kernel import count_properties
from loopyperf.kernel import load_kernel
from loopyperf.search.task import Task, predicted
from loopyperf.search.variants import Variant
from loopyperf.stages import cache as recent
from loopyperf.stages.cache import CACHE_VARIABLE
from loopyperf.stages.cache_keys import content_key
from loopyperf.stages.case import prepared

N = 1024
MODELS = {"linear": "amd-r9-fury", "roofline": "nvidia-titan-v", "pipeline": "nvidia-titan-v"}
ASK = """
import pickle, sys, time
from loopyperf.search.task import predicted
tasks = pickle.load(sys.stdin.buffer)
start = time.process_time()
for task in tasks:
    task = pickle.loads(task)
    predicted(task)
    print(time.process_time() - start)
    start = time.process_time()
"""


def cost(action: Callable[[], object]) -> float:
    """Return the processor seconds of *action*, without collecting the garbage of what came before."""
    gc.collect()
    start = time.process_time()
    action()
    return time.process_time() - start


def builders(forms: Iterable[Form] = FORMS) -> dict[str, Callable[[], lp.TranslationUnit]]:
    """Return what builds each variant, by name."""
    return {form.label: partial(matrix_multiplication, form) for form in forms}


# {{{ stages


def stages_of(form: Form) -> dict[str, float]:
    """Return the seconds of each stage of a variant."""
    found = {"building it, by Loopy's transformations": cost(lambda: matrix_multiplication(form))}
    # isl rewrites the sets of what is analysed, and with them what is asked about: each has its own.
    loaded, counted, first, second, third = (matrix_multiplication(form) for _ in range(5))
    with lp.CacheMode(False):
        found["Loopy's passes, and the launches"] = cost(lambda: load_kernel(loaded))
    kernel = load_kernel(counted)
    found["counting"] = cost(lambda: count_properties(kernel).properties())
    linear = partial(lpp.estimate, n=N, model="linear", device=MODELS["linear"])
    linear(first)
    recent.clear_memory()
    found["linear, where the counts are in a file"] = cost(lambda: linear(second))
    found["  of which the key"] = cost(lambda: content_key(second))
    found["linear, where they are in memory"] = cost(lambda: linear(third))
    prepared(second)
    for model in ("roofline", "pipeline"):
        ask = partial(lpp.estimate, n=N, model=model, device=MODELS[model], alternatives=False)
        equal, again = matrix_multiplication(form), matrix_multiplication(form)
        found[f"{model}, after Loopy's passes"] = cost(partial(ask, second))
        found[f"{model}, where the answer is in memory"] = cost(partial(ask, equal))
        recent.clear_memory()
        found[f"{model}, where it is in a file"] = cost(partial(ask, again))
    return found


def stages() -> None:
    """Print where the time of a variant goes, and what it takes where its counts are found."""
    rows: dict[str, list[float]] = defaultdict(list)
    stages_of(FORMS[0])  # loads things
    for form in FORMS:
        for name, seconds in stages_of(form).items():
            rows[name].append(seconds)
    print(f"milliseconds of each of {len(FORMS)} variants, mean and most")
    for name, times in rows.items():
        print(f"  {name:42} {1e3 * mean(times):8.1f} {1e3 * max(times):8.1f}")


# }}}


# {{{ workers


def first_answers() -> None:
    """Print what the first and later answers of a new process take, importing included."""
    print("milliseconds of the answers of a new process: the first, the same again, others in the mean")
    forms = [FORMS[0], *FORMS[:6]]
    for model, device in MODELS.items():
        predictor = lpp.predictor(model=model, device=device, alternatives=False)
        variants = [Variant("", partial(matrix_multiplication, form)) for form in forms]
        tasks = [pickle.dumps(Task(predictor, variant, {"n": N})) for variant in variants]
        command = [sys.executable, "-W", "ignore", "-c", ASK]
        paths = os.pathsep.join(path for path in sys.path if path)
        environment = os.environ | {"PYTHONPATH": paths}
        said = subprocess.run(command, input=pickle.dumps(tasks), capture_output=True, check=True, env=environment)
        first, again, *others = [1e3 * float(line) for line in said.stdout.split()]
        print(f"  {model:10} {first:8.0f} {again:8.0f} {mean(others):8.0f}")


def rates() -> None:
    """Print how many variants a second are ranked, by the clock, and what each costs."""
    print("variants ranked: a second of the clock, and seconds of processors for each")
    for model in ("linear", "roofline"):
        for workers in (0, 1, 2):
            before, start = _processor_seconds(), time.perf_counter()
            executor = ProcessPoolExecutor(workers) if workers else None
            with lp.CacheMode(False):  # each of them is new, to Loopy and to us; processes are forked with that
                ranking = lpp.rank(builders(), n=N, model=model, device=MODELS[model], executor=executor)
                if executor is not None:
                    executor.shutdown()
            seconds, spent = time.perf_counter() - start, _processor_seconds() - before
            number = len(ranking.order)
            where = f"{workers} processes" if workers else "this process"
            print(f"  {model:10} {where:14} {number / seconds:6.1f} {spent / number:8.3f}")


def _processor_seconds() -> float:
    """Return what this process, and those that it has waited for, have spent."""
    spent = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in spent)


def sizes() -> None:
    """Print how large what travels is."""
    print("bytes of pickles")
    build = partial(matrix_multiplication, FORMS[-1])
    unit = build()
    things: dict[str, object] = {"what builds a variant": build, "a translation unit": unit}
    for model, device in MODELS.items():
        predictor = lpp.predictor(model=model, device=device, alternatives=False)
        things[f"a task for {model}"] = Task(predictor, Variant("", build), {"n": N})
        things[f"an answer of {model}"] = predicted(Task(predictor, Variant("", unit), {"n": N}))
    for name, thing in things.items():
        print(f"  {name:42} {len(pickle.dumps(thing)):8,}")


# }}}


# {{{ memory


def many_forms(number: int) -> list[Form]:
    """Return so many forms of all kinds, in an order that mixes them."""
    sides, blocks = (4, 8, 16, 32), (1, 2, 4)
    every = itertools.product(sides, sides, sides, blocks, blocks, ("", "a", "b", "ab"), (False, True))
    forms = [form for form in itertools.starmap(Form, every) if 32 <= form.width * form.height <= 1024]
    forms = [form for form in forms if not (form.is_unrolled and form.columns * form.rows > 1)]
    random.Random(0).shuffle(forms)
    return forms[:number]


def memory(model: str, number: int) -> None:
    """Rank so many variants in this process, and print what it needed."""
    variants = builders(many_forms(number))
    start = resident()
    ranking = lpp.rank(variants, n=N, model=model, device=MODELS[model])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{len(ranking.order)} of {len(variants)} variants by {model}: {start:.0f} MiB before, {peak:.0f} MiB at most"
    )
    print(f"{_processor_seconds() / len(variants):.3f} s of processors for each")


def resident() -> float:
    """Return the MiB of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


# }}}


def main(arguments: list[str]) -> None:
    """Print what was asked for."""
    warnings.simplefilter("ignore")
    if arguments[:1] == ["memory"]:
        memory(arguments[1], int(arguments[2]))
        return
    if arguments != ["stages"]:
        sizes()
        first_answers()
        rates()
    with TemporaryDirectory() as folder, patch.dict(os.environ, {CACHE_VARIABLE: folder}):
        stages()


if __name__ == "__main__":
    main(sys.argv[1:])
