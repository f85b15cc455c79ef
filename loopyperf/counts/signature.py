"""What is left to know of a kernel once it is counted: what it is called, and which sizes it takes."""

from dataclasses import dataclass

import islpy as isl


@dataclass(frozen=True, slots=True)
class Signature:
    """A kernel's name and what it assumes of its sizes; without what Loopy knows of it, so that it can be kept."""

    name: str
    """of the entry point"""
    assumptions: isl.BasicSet
    """a set of parameters: those that the kernel takes, where their values are admitted"""
