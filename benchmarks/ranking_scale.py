"""Measure the cost of ranking: time per stage, savings by cached results, workers, size of transfers, memory.

The variants are those of ``ranking_sets/matrix_multiplication.py`` at n = 1024. The models are one that only needs
counts (linear), one that needs graphs (roofline) and one that simulates (pipeline). Times are CPU times, which depend
less on other load, unless the output says that they are wall-clock times. Loopy's caches and ours are off, except where
the script measures the time of reading a cache.

    ranking_scale.py                      stages, workers and sizes, in a few minutes
    ranking_scale.py stages               only the stages
    ranking_scale.py memory linear 2000   rank 2000 variants in this process, and print its memory
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
from loopyperf.counts.kernel_counts import count_kernel
from loopyperf.kernel import load_kernel
from loopyperf.search.task import Task, predicted
from loopyperf.search.variants import Variant
from loopyperf.stages.cache import CACHE, CACHE_VARIABLE
from loopyperf.stages.cache_keys import content_key
from loopyperf.stages.case import prepared

N = 1024
MODELS = {"linear": "amd-r9-fury", "roofline": "nvidia-titan-v", "pipeline": "nvidia-titan-v"}
WORKER_CODE = """
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
    """Return the CPU time of *action* in seconds, after a garbage collection."""
    gc.collect()
    start = time.process_time()
    action()
    return time.process_time() - start


def builders(forms: Iterable[Form] = FORMS) -> dict[str, Callable[[], lp.TranslationUnit]]:
    """Return the function that builds each variant, by name."""
    return {form.label: partial(matrix_multiplication, form) for form in forms}


# {{{ stages


def stages_of(form: Form) -> dict[str, float]:
    """Return the time of each stage of a variant, in seconds."""
    found = {"building with Loopy's transformations": cost(lambda: matrix_multiplication(form))}
    # isl modifies the sets of an analyzed kernel in place, which changes later timings: each stage has its own kernel.
    loaded, counted, first, second, third = (matrix_multiplication(form) for _ in range(5))
    with lp.CacheMode(False):
        found["Loopy's passes and the launches"] = cost(lambda: load_kernel(loaded))
    kernel = load_kernel(counted)
    found["counting"] = cost(lambda: count_kernel(kernel).properties())
    linear = partial(lpp.estimate, n=N, model="linear", device=MODELS["linear"])
    linear(first)
    CACHE.clear()
    found["linear, counts in a file"] = cost(lambda: linear(second))
    found["  of which the cache key"] = cost(lambda: content_key(second))
    found["linear, counts in memory"] = cost(lambda: linear(third))
    prepared(second)
    for model in ("roofline", "pipeline"):
        predict = partial(lpp.estimate, n=N, model=model, device=MODELS[model], alternatives=False)
        equal, again = matrix_multiplication(form), matrix_multiplication(form)
        found[f"{model}, after Loopy's passes"] = cost(partial(predict, second))
        found[f"{model}, result in memory"] = cost(partial(predict, equal))
        CACHE.clear()
        found[f"{model}, result in a file"] = cost(partial(predict, again))
    return found


def stages() -> None:
    """Print the time of each stage of a variant, with and without cached counts and results."""
    rows: dict[str, list[float]] = defaultdict(list)
    stages_of(FORMS[0])  # warms up
    for form in FORMS:
        for name, seconds in stages_of(form).items():
            rows[name].append(seconds)
    print(f"milliseconds of each of {len(FORMS)} variants, mean and maximum")
    for name, times in rows.items():
        print(f"  {name:42} {1e3 * mean(times):8.1f} {1e3 * max(times):8.1f}")


# }}}


# {{{ workers


def first_predictions() -> None:
    """Print the times of the first and later predictions of a new process, including imports."""
    print("milliseconds per prediction in a new process: the first, the same again, mean of others")
    forms = [FORMS[0], *FORMS[:6]]
    for model, device in MODELS.items():
        predictor = lpp.predictor(model=model, device=device, alternatives=False)
        variants = [Variant("", partial(matrix_multiplication, form)) for form in forms]
        tasks = [pickle.dumps(Task(predictor, variant, {"n": N})) for variant in variants]
        command = [sys.executable, "-W", "ignore", "-c", WORKER_CODE]
        paths = os.pathsep.join(path for path in sys.path if path)
        environment = os.environ | {"PYTHONPATH": paths}
        output = subprocess.run(command, input=pickle.dumps(tasks), capture_output=True, check=True, env=environment)
        first, again, *others = [1e3 * float(line) for line in output.stdout.split()]
        print(f"  {model:10} {first:8.0f} {again:8.0f} {mean(others):8.0f}")


def rates() -> None:
    """Print the ranked variants per second of wall-clock time, and the CPU time of each."""
    print("ranked variants per second of wall-clock time, and CPU seconds per variant")
    for model in ("linear", "roofline"):
        for workers in (0, 1, 2):
            before, start = _cpu_seconds(), time.perf_counter()
            executor = ProcessPoolExecutor(workers) if workers else None
            with lp.CacheMode(False):  # all variants are new to Loopy; forked processes inherit this setting
                ranking = lpp.rank(builders(), n=N, model=model, device=MODELS[model], executor=executor)
                if executor is not None:
                    executor.shutdown()
            seconds, spent = time.perf_counter() - start, _cpu_seconds() - before
            number = len(ranking.order)
            location = f"{workers} processes" if workers else "this process"
            print(f"  {model:10} {location:14} {number / seconds:6.1f} {spent / number:8.3f}")


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of the child processes that it has waited for, in seconds."""
    spent = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in spent)


def sizes() -> None:
    """Print the sizes of pickled objects that are sent to and from workers."""
    print("bytes of pickled objects")
    build = partial(matrix_multiplication, FORMS[-1])
    unit = build()
    objects: dict[str, object] = {"a function that builds a variant": build, "a translation unit": unit}
    for model, device in MODELS.items():
        predictor = lpp.predictor(model=model, device=device, alternatives=False)
        objects[f"a task for {model}"] = Task(predictor, Variant("", build), {"n": N})
        objects[f"a result of {model}"] = predicted(Task(predictor, Variant("", unit), {"n": N}))
    for name, object_ in objects.items():
        print(f"  {name:42} {len(pickle.dumps(object_)):8,}")


# }}}


# {{{ memory


def many_forms(number: int) -> list[Form]:
    """Return *number* forms of all kinds in random order."""
    sides, blocks = (4, 8, 16, 32), (1, 2, 4)
    every = itertools.product(sides, sides, sides, blocks, blocks, ("", "a", "b", "ab"), (False, True))
    forms = [form for form in itertools.starmap(Form, every) if 32 <= form.width * form.height <= 1024]
    forms = [form for form in forms if not (form.is_unrolled and form.columns * form.rows > 1)]
    random.Random(0).shuffle(forms)
    return forms[:number]


def memory(model: str, number: int) -> None:
    """Rank *number* variants in this process, and print its memory and CPU time."""
    variants = builders(many_forms(number))
    start = memory_of("VmRSS")
    ranking = lpp.rank(variants, n=N, model=model, device=MODELS[model])
    peak = memory_of("VmHWM")  # ru_maxrss is at least the memory of the process that started this one
    print(
        f"{len(ranking.order)} of {len(variants)} variants by {model}: {start:.0f} MiB before, {peak:.0f} MiB at most"
    )
    print(f"{_cpu_seconds() / len(variants):.3f} s of CPU time per variant")


def memory_of(field: str) -> float:
    """Return a *field* of this process's status in MiB: ``"VmRSS"``, its memory now, or ``"VmHWM"``, its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1024


# }}}


def main(arguments: list[str]) -> None:
    """Run the measurements that the command line selects."""
    warnings.simplefilter("ignore")
    if arguments[:1] == ["memory"]:
        memory(arguments[1], int(arguments[2]))
        return
    if arguments != ["stages"]:
        sizes()
        first_predictions()
        rates()
    with TemporaryDirectory() as folder, patch.dict(os.environ, {CACHE_VARIABLE: folder}):
        stages()


if __name__ == "__main__":
    main(sys.argv[1:])
