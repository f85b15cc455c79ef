"""A report on a kernel: one page for a browser or the printer, which needs nothing else. The extra ``report``."""

from loopyperf.reports.report import Report, report

__all__ = ["Report", "report"]
