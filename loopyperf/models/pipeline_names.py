"""What columns of pipelines are called: by people, and in the files of fits.

Accesses of local memory and of the cache that it is a part of are executed by one pipeline, NVIDIA's load/store units
(LSU), where private and global memory pass, too. Files of fits call it ``local``, which people take for a memory.
"""

LAUNCHES = "launches"
"""what each launch costs: the column is a number of them, whatever the others are"""
LATENCY = "latency"
"""the time in which results are waited for"""
ISSUE = "issue"
"""the limit of issues, among the subsystems that are busy"""
START = "start"
"""of the instruction that stands for the begin of a group"""
LOAD_STORE = "load/store"
"""of local memory and the cache that it is a part of"""
LOCAL_MEMORY = "local memory"
"""of local memory alone, where no cache has a part in it"""
IN_FILES = "local"


def in_files(pipeline: str) -> str:
    """Return what a fit's columns call *pipeline*."""
    return IN_FILES if pipeline in (LOAD_STORE, LOCAL_MEMORY) else pipeline


def shown(column: str) -> str:
    """Return what people are shown for a fit's *column* of pipelines, e.g. ``"load/store: private"``."""
    pipeline, colon, memory = column.partition(":")
    return f"{LOAD_STORE}{colon}{memory}" if pipeline == IN_FILES else column


def column_of(name: str) -> str:
    """Return the fit's column that people are shown as *name*."""
    pipeline, colon, memory = name.partition(":")
    return f"{IN_FILES}{colon}{memory}" if pipeline == LOAD_STORE else name
