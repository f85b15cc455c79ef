"""Measuring kernels on a device: protocol, backends, archive of raw samples.

Files in reading order: ``configuration`` (what a kernel file offers), ``tiles`` (a transformation that kernel files
share), ``kernel_package`` and ``kernel_files`` (loading a folder of them), ``protocol`` (how often a kernel runs and
what is made of the samples), ``environment`` (where it ran), ``records``, ``upgrades``, ``takes`` and ``archive`` (raw
samples on disk), ``sampling`` (taking them), ``yardstick``, ``noise``, ``watch`` and ``sensors`` (how fast the device
is just now), ``ladder`` and ``campaign`` (what is measured, in which order), ``allocation``, ``arguments`` and
``verification`` (what a backend checks of a kernel), ``made_arguments`` (for a kernel that comes without), ``backends``
(devices, or a replayed archive), ``microbenchmarks`` (what the times of microbenchmarks tell of a device).
"""
