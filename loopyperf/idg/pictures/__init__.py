"""Graphs to look at: as a listing, and in Graphviz's language."""

from loopyperf.idg.pictures.dot import dot
from loopyperf.idg.pictures.listing import listing

__all__ = ["dot", "listing"]
