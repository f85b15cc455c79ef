"""Record what an application executes, where Loopy and pyopencl hand kernels to the device.

The functions of :data:`HOOKED` are replaced while an application is recorded; executors that exist follow, since the
classes are patched. Each call is one event. Kernel launches inside a call belong to it. The recorder keeps no arrays,
and an event of OpenCL only until it is complete; it never waits.
"""

import functools
import inspect
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module, metadata
from numbers import Integral
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, cast

import loopy as lp
import msgspec
import numpy as np
from loopy.kernel.array import get_strides
from loopy.schedule.tools import get_kernel_arg_info
from loopy.symbolic import get_dependencies, parse  # pyright: ignore[reportUnknownVariableType]
from loopy.target.c.c_execution import DEF_EVEN_DIV_FUNCTION
from loopy.types import NumpyType
from pytools.codegen import CodeGenerator

from loopyperf.applications.program_text import ProgramTextError, program_text
from loopyperf.applications.record import (
    FORMAT,
    Array,
    CallSite,
    End,
    Events,
    Item,
    Line,
    ProgramLine,
    RecordedDevice,
    Start,
    Work,
    array_bytes,
)
from loopyperf.errors import one_line

OWN = ("loopyperf", "loopy", "pyopencl", "pytools", "arraycontext", "pytato")
"""packages through which applications call kernels, whose frames are not the application's"""
RUNNER = "<frozen runpy>"
"""file of the function that runs a program for a command line; its callers are not the application's"""
OF_EXECUTOR = frozenset({"allocator", "entrypoint", "out_host", "wait_for"})
"""keyword arguments of executors that are not arguments of kernels"""
DEPTH = 60
"""frames of a call chain that are recorded"""
AT_ONCE = 500
"""events that are written together"""
PERIOD = 1.0
"""seconds after which events are written at the next call, however few they are"""
WAITING = 1000
"""launches of which the times are awaited; of older ones they are given up"""
RANKS = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"), ("SLURM_PROCID", "SLURM_NPROCS"))
"""environment variables with the rank and the number of ranks"""


def rank_and_ranks() -> tuple[int, int] | tuple[None, None]:
    """Return the MPI rank of this process and the number of ranks; None outside of MPI."""
    found = [(int(os.environ[one]), int(os.environ[every])) for one, every in RANKS if {one, every} <= set(os.environ)]
    return found[0] if found else (None, None)


@dataclass
class RecordedCall:
    """A call that is being executed."""

    item: int
    site: int
    begin: float
    launches: list[Any] = field(default_factory=list[Any])
    """events of OpenCL"""
    seconds: float | None = None
    """device seconds, if the call measures them itself"""
    host: float = 0.0


class Recorder:
    """Writes the record of this process from :meth:`start` to :meth:`stop`."""

    def __init__(self, path: Path, command: Sequence[str], *, owns_queues: bool = False) -> None:
        """Record into the file *path*. With *owns_queues*, all queues that the application creates give times."""
        self.path = path
        self.owns_queues = owns_queues
        rank, number = rank_and_ranks()
        versions = {name: metadata.version(name) for name in ("loopyperf", "loopy")}
        self._start = Start(FORMAT, list(command), datetime.now(UTC).isoformat(), versions, rank, number)
        self._replaced: list[tuple[Any, str, Any]] = []
        self._numbers: dict[Any, int] = {}  # key of a program, item, site or device -> its number
        self._counted: dict[type, int] = {}
        self._by_executor: weakref.WeakKeyDictionary[Any, dict[Any, int]] = weakref.WeakKeyDictionary()
        self._queues: set[int | None] = set()  # addresses of those whose device is known
        self._pending: deque[RecordedCall] = deque()
        self._done: list[RecordedCall] = []
        self._written = 0.0
        self._lock = threading.RLock()
        self._of_thread = threading.local()
        self._given_up = 0
        self._process = os.getpid()

    # {{{ start and end

    def start(self) -> None:
        """Replace the hooked functions, and write the first line."""
        self._file = self.path.open("wb")
        self._began = time.perf_counter()
        self._write(self._start)
        for module, path, make in HOOKED:
            try:
                owner: Any = import_module(module)
            except ImportError:  # without pyopencl, there are no calls of it
                continue
            *classes, name = path.split(".")
            for each in classes:
                owner = getattr(owner, each)
            before = getattr(owner, name)
            after = make(self, before)
            if after is not None:
                self._replaced.append((owner, name, before))
                setattr(owner, name, after)

    def stop(self, how: str = "complete") -> None:
        """Put the functions back, and write the last lines; *how* tells what stopped the application."""
        for owner, name, before in reversed(self._replaced):
            setattr(owner, name, before)
        if os.getpid() != self._process:  # a forked child has a copy of the recorder
            return
        self._drain(wait=how == "complete")
        self._done += self._pending  # without times
        notes = [f"{self._given_up} launches were still queued when their times were due"] if self._given_up else []
        self._flush()
        self._write(End(time.perf_counter() - self._began, how, notes))
        self._file.close()

    # }}}

    # {{{ events

    def call(self, find: Callable[[], int], function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Return ``function(*args, **kwargs)``, recorded as an event of the item that *find* returns.

        A call within a recorded call is not recorded by itself.
        """
        current = self._of_thread.__dict__
        if current.get("call") is not None or os.getpid() != self._process:
            return function(*args, **kwargs)
        current["call"] = call = RecordedCall(self._found(find), self._site(inspect.currentframe()), 0.0)
        call.begin = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            current["call"] = None
            call.host = time.perf_counter() - call.begin
            with self._lock:
                if call.launches:
                    self._pending.append(call)
                else:
                    self._done.append(call)
                self._drain()
                if len(self._done) >= AT_ONCE or call.begin > self._written + PERIOD:
                    self._flush()

    def _found(self, find: Callable[[], int]) -> int:
        """Return the item that *find* returns; if it fails, one with the reason, so that the application goes on."""
        try:
            return find()
        except Exception as error:  # a framework may call in a way that this version does not know
            reason = f"{type(error).__name__}: {one_line(error)}"
            return self.item(("unknown", reason), work="other kernel", name="unknown", problem=reason)

    def current(self) -> RecordedCall | None:
        """Return the call that this thread is executing."""
        return self._of_thread.__dict__.get("call")

    def _drain(self, wait: bool = False) -> None:
        """Take the device times of the calls that are complete, or of all after waiting for them."""
        while self._pending:
            call = self._pending[0]
            if wait:
                for event in call.launches:
                    event.wait()
            elif call.launches[-1].command_execution_status > 0:
                if len(self._pending) <= WAITING:
                    return
                self._given_up += 1
                call.launches = []
            call.seconds = device_seconds(call.launches)
            call.launches = []
            self._done.append(self._pending.popleft())

    def _flush(self) -> None:
        done, self._done, self._written = self._done, [], time.perf_counter()
        if done:
            begins = [round(each.begin - self._began, 7) for each in done]
            host = [round(each.host, 7) for each in done]
            self._write(
                Events(
                    [each.item for each in done], [each.site for each in done], begins, host, [c.seconds for c in done]
                )
            )

    def _write(self, line: Line) -> None:
        self._file.write(msgspec.json.encode(line) + b"\n")
        self._file.flush()

    # }}}

    # {{{ what is recorded once

    def number(self, key: Any, kind: type[Any], make: Callable[[int], Line]) -> int:
        """Return the number of *key*; *make* returns its line in the file, when it is new."""
        with self._lock:
            found = self._numbers.get(key)
            if found is None:
                found = self._counted.get(kind, 0)
                self._counted[kind] = found + 1
                self._numbers[key] = found
                self._write(make(found))
            return found

    def _site(self, frame: FrameType | None) -> int:
        frames: list[tuple[str, str, int]] = []  # those of this module, at the start, are not the application's
        while frame is not None and len(frames) < DEPTH:
            frames.append((frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno))
            frame = frame.f_back
        key = ("site", *frames)
        found = self._numbers.get(key)
        if found is not None:
            return found
        runner = next((place for place, (_, path, _) in enumerate(frames) if path == RUNNER), len(frames))
        ours = [frame for frame in frames[:runner] if not _is_own(frame[1])]
        return self.number(key, CallSite, lambda number: CallSite(number, ours[::-1]))

    def item(self, key: Any, **described: Any) -> int:
        """Return the number of the item with *key* and these fields."""
        return self.number(("item", key), Item, lambda number: Item(number, **described))

    def device(self, queue: Any) -> None:
        """Note the device of *queue*; None for the processor of this process."""
        address = None if queue is None else queue.int_ptr
        if address in self._queues:
            return
        self._queues.add(address)
        name = "this processor" if queue is None else queue.device.name.strip()
        self.number(("device", name), RecordedDevice, lambda number: RecordedDevice(number, name))

    def of_executor(self, executor: Any, kwargs: Mapping[str, Any]) -> int:
        """Return the item of a call of a Loopy executor with the arguments *kwargs*."""
        kwargs = {name: value for name, value in kwargs.items() if name not in OF_EXECUTOR}
        known = self._by_executor.setdefault(executor, {})
        key = tuple(_key_of(name, value) for name, value in kwargs.items())
        found = known.get(key)
        if found is None:
            found = known[key] = self._new_item(executor, kwargs)
        return found

    def _new_item(self, executor: Any, kwargs: Mapping[str, Any]) -> int:
        name = str(executor.entrypoint)
        text, problem = text_of(executor, executor.arg_to_dtype(kwargs) or {})
        program = self.number(
            ("program", name, text), ProgramLine, lambda number: ProgramLine(number, name, text, problem)
        )
        sizes, layout, problem = sizes_of(executor, kwargs)
        arrays = {key: array_of(value) for key, value in kwargs.items() if is_array(value)}
        described = {"program": program, "sizes": sizes, "layout": layout, "arrays": arrays, "problem": problem}
        return self.item((name, msgspec.json.encode(described)), work="kernel", name=name, **described)

    def of_arrays(self, name: str, work: Work, args: Sequence[Any]) -> int:
        """Return the item of a kernel of pyopencl's own, called with *args*."""
        given = {f"argument {place}": value for place, value in enumerate(args) if is_array(value)}

        def described(number: int) -> Item:
            arrays = {argument: array_of(value) for argument, value in given.items()}
            return Item(number, work, name, arrays=arrays, size=array_bytes(arrays))

        key = (work, name, *(_key_of(argument, value) for argument, value in given.items()))
        return self.number(("item", key), Item, described)

    # }}}


def device_seconds(events: Sequence[Any]) -> float | None:
    """Return the seconds that the device was busy with *events*; None if their queue gives no times."""
    if not events:
        return None
    try:
        return sum(event.profile.end - event.profile.start for event in events) * 1e-9
    except Exception:  # pyopencl's error is not known without pyopencl
        return None


def _is_own(path: str) -> bool:
    folders = (Path(sys.modules[name].__file__ or "").parent for name in OWN if name in sys.modules)
    return path.startswith("<") or any(Path(path).is_relative_to(folder) for folder in folders)


def array_of(value: Any) -> Array:
    """Return what is recorded of an array."""
    return Array([int(each) for each in value.shape], [int(each) for each in value.strides], value.dtype.str)


def is_array(value: Any) -> bool:
    """Return whether *value* is an array of NumPy or pyopencl."""
    return hasattr(value, "strides") and not isinstance(value, np.generic)


def _key_of(name: str, value: Any) -> Hashable:
    """Return what distinguishes a call of a program from another: shapes, strides and types of arrays, and integers."""
    if isinstance(value, Integral):
        return name, value
    return (name, value.shape, value.strides, value.dtype) if is_array(value) else name


def text_of(executor: Any, dtypes: Mapping[str, Any]) -> tuple[str, str]:
    """Return the text of the program of *executor* with the types that its caller gave; empty with the reason."""
    program: lp.TranslationUnit = executor.t_unit
    try:
        if dtypes:
            program = lp.add_dtypes(program, {key: cast("NumpyType", each).numpy_dtype for key, each in dtypes.items()})
        return program_text(program.with_entrypoints(executor.entrypoint)), ""
    except (ProgramTextError, lp.LoopyError) as error:
        return "", one_line(error)


def sizes_of(executor: Any, kwargs: Mapping[str, Any]) -> tuple[dict[str, int], list[str], str]:
    """Return the values of all integer arguments of a call, by Loopy's own rule for those that are not passed.

    The second value names those that are strides and offsets, the third is the reason if they cannot be found.
    """
    try:
        if executor.packing_controller is not None:
            kwargs = executor.packing_controller(dict(kwargs))
        unit = executor.get_typed_and_scheduled_translation_unit(executor.arg_to_dtype(kwargs))
        kernel = unit[executor.entrypoint]
        info = get_kernel_arg_info(kernel)
        code = CodeGenerator()
        executor.get_wrapper_generator().generate_integer_arg_finding_from_array_data(code, kernel, info)
        found: dict[str, Any] = {name: _without_data(kwargs.get(name)) for name in info.passed_arg_names}
        exec(DEF_EVEN_DIV_FUNCTION + "\n" + code.get(), found)
    except Exception as error:  # whatever Loopy or its code raises, the application meets it in its call
        return {}, [], one_line(error)
    values = {arg.name: found.get(arg.name) for arg in kernel.args if isinstance(arg, lp.ValueArg)}
    arrays = [arg for arg in kernel.args if isinstance(arg, lp.ArrayArg)]
    layouts = [expression for arg in arrays for expression in (*get_strides(arg), arg.offset) if expression is not None]
    shapes = [extent for arg in arrays if isinstance(arg.shape, tuple) for extent in arg.shape]
    layout = _names_in(layouts) - _names_in(shapes)
    found = {name: int(value) for name, value in values.items() if isinstance(value, Integral)}
    return found, sorted(layout & found.keys()), ""


def _names_in(expressions: Iterable[Any]) -> frozenset[str]:
    parsed = (parse(each) if isinstance(each, str) else each for each in expressions)
    return frozenset[str]().union(*map(get_dependencies, parsed))


def _without_data(value: Any) -> Any:
    if not is_array(value):
        return value
    return SimpleNamespace(shape=value.shape, strides=value.strides, offset=getattr(value, "offset", 0))


# {{{ hooked functions

Hook = Callable[["Recorder", Any], Any]
"""takes a recorder and a function, and returns the function in its place; None to leave it"""


def of_program(recorder: Recorder, before: Any) -> Any:
    """Record calls of an executor of Loopy."""

    @functools.wraps(before)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return recorder.call(lambda: recorder.of_executor(self, kwargs), before, (self, *args), kwargs)

    return call


def of_c_kernel(recorder: Recorder, before: Any) -> Any:
    """Time a compiled C function."""

    @functools.wraps(before)
    def call(self: Any, *args: Any) -> Any:
        current = recorder.current()
        begin = time.perf_counter()
        result = before(self, *args)
        if current is not None:
            current.seconds = (current.seconds or 0.0) + time.perf_counter() - begin
            recorder.device(None)
        return result

    return call


def of_launch(recorder: Recorder, before: Any) -> Any:
    """Attach the event of a launch to the call that it belongs to."""

    def call(queue: Any, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.device(queue)
        current = recorder.current()
        if current is not None:
            event = before(queue, kernel, *args, **kwargs)
            current.launches.append(event)
            return event

        def launch() -> Any:
            event = before(queue, kernel, *args, **kwargs)
            cast("RecordedCall", recorder.current()).launches.append(event)
            return event

        return recorder.call(lambda: recorder.of_arrays(kernel.function_name, "other kernel", ()), launch, (), {})

    return call


def of_array_class(recorder: Recorder, before: Any) -> Any:
    """Record calls of an object of pyopencl that executes kernels on arrays."""

    @functools.wraps(before)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        name = getattr(self, "name", None) or getattr(self, "name_prefix", None) or type(self).__name__
        kind: Work = "elementwise" if hasattr(self, "operation") else "other kernel"
        return recorder.call(lambda: recorder.of_arrays(str(name), kind, args), before, (self, *args), kwargs)

    return call


def of_array_arithmetic(recorder: Recorder, before: Any) -> Any:
    """Record arithmetic of pyopencl's arrays."""

    def hook(kernel: Any, queue: Any, groups: Any, group: Any, *args: Any, wait_for: Any = None) -> Any:
        def launch() -> Any:
            if before is not None:
                return before(kernel, queue, groups, group, *args, wait_for=wait_for)
            return kernel(queue, groups, group, *args, wait_for=wait_for)

        name = kernel.function_name
        return recorder.call(lambda: recorder.of_arrays(name, "elementwise", args), launch, (), {})

    return hook


def of_copy(recorder: Recorder, before: Any) -> Any:
    """Record copies between host and device."""
    pyopencl = import_module("pyopencl")

    def is_on_device(memory: Any) -> bool:
        if isinstance(memory, pyopencl.SVM):  # memory that both share, or an array of NumPy
            return not isinstance(memory.mem, np.ndarray)
        return isinstance(memory, pyopencl.MemoryObjectHolder | pyopencl.SVMPointer)

    def copied(*args: Any, **kwargs: Any) -> Any:
        event = before(*args, **kwargs)
        current = recorder.current()
        if current is not None and kwargs.get("is_blocking", True):  # other events keep the array of the host alive
            current.launches.append(event)
        return event

    @functools.wraps(before)
    def call(queue: Any, dest: Any, src: Any, **kwargs: Any) -> Any:
        on_device = [is_on_device(each) for each in (src, dest)]
        name = " to ".join("device" if each else "host" for each in on_device)
        host = src if on_device[1] else dest
        size = int(kwargs.get("byte_count") or getattr(host, "nbytes", 0) or getattr(host, "size", 0))
        described = {"work": "transfer", "name": name, "size": size}
        return recorder.call(lambda: recorder.item((name, size), **described), copied, (queue, dest, src), kwargs)

    return call


def of_queues(recorder: Recorder, before: Any) -> Any:
    """Let queues that the application creates give times of their kernels."""
    if not recorder.owns_queues:
        return None
    profiling = import_module("pyopencl").command_queue_properties.PROFILING_ENABLE

    class CommandQueue(before):
        def __init__(self, context: Any, device: Any = None, properties: Any = None) -> None:
            wanted = properties | profiling if isinstance(properties, int) else properties or profiling
            super().__init__(context, device, wanted)

    return CommandQueue


HOOKED: Sequence[tuple[str, str, Hook]] = (
    ("loopy.target.pyopencl_execution", "PyOpenCLExecutor.__call__", of_program),
    ("loopy.target.c.c_execution", "CExecutor.__call__", of_program),
    ("loopy.target.c.c_execution", "CompiledCKernel.__call__", of_c_kernel),
    ("pyopencl.elementwise", "ElementwiseKernel.__call__", of_array_class),
    ("pyopencl.reduction", "ReductionKernel.__call__", of_array_class),
    ("pyopencl.scan", "GenericScanKernel.__call__", of_array_class),
    ("pyopencl.array", "ARRAY_KERNEL_EXEC_HOOK", of_array_arithmetic),
    ("pyopencl", "enqueue_nd_range_kernel", of_launch),
    ("pyopencl._cl", "enqueue_nd_range_kernel", of_launch),
    ("pyopencl", "enqueue_copy", of_copy),
    ("pyopencl", "CommandQueue", of_queues),
)
"""(module, function or method, hook) of what is replaced"""

# }}}
