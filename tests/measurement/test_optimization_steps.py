"""Tests of test_kernels/optimization_steps/: counts of the papers, and kernels for warps in lockstep."""

from dataclasses import replace

import pytest
from loopy.kernel.instruction import Assignment

import loopyperf as lpp
from loopyperf.measurement.environment import DeviceLimits
from loopyperf.measurement.kernel_files import bundled_folder, load_kernel_files

LIMITS = DeviceLimits(group_size=256, local_memory=2**15, global_memory=2**30)
FILES = {file.name: file for file in load_kernel_files(bundled_folder("test_kernels/optimization_steps"))}


def test_all_steps_have_configurations() -> None:
    labels = [form.label for form in FILES["reduction"].configurations(LIMITS)]
    assert labels == [f"K{step}, group {group}" for group in (128, 256) for step in range(7)]
    labels = {form.label for form in FILES["fast multipole, U list"].configurations(LIMITS)}
    # The bars in Sim's figure 12, five of the sixteen combinations
    expected = ("baseline", "vecpack", "vecpack, rsqrt", "vecpack, rsqrt, shmem", "vecpack, rsqrt, shmem, ujam")
    assert (len(labels), labels.issuperset(expected)) == (16, True)


@pytest.mark.parametrize("group", [128, 256])
@pytest.mark.parametrize("step", range(4))
def test_tree_reduction_has_n_minus_1_adds_and_a_barrier_per_level(step: int, group: int) -> None:
    form = next(each for each in FILES["reduction"].configurations(LIMITS) if each.label == f"K{step}, group {group}")
    properties, sizes = lpp.count(form.build()).properties(), form.sizes[1]
    groups, fetched_in_pairs = properties["work-groups"](**sizes), group if step == 3 else 0
    assert properties["f32 add"](**sizes) == groups * (group - 1 + fetched_in_pairs)
    assert properties["barriers"](**sizes) == groups * group * (1 + sizes["levels"])


@pytest.mark.parametrize("step", range(7))
def test_lockstep_kernels_have_the_same_statements_without_barriers(step: int) -> None:
    # CPUs execute and verify the kernel with barriers. The kernel for warps in lockstep differs only in barriers and in
    # the sums of lanes s and above, which are not used.
    def statements(limits: DeviceLimits) -> list[str]:
        form = next(each for each in FILES["reduction"].configurations(limits) if each.label.startswith(f"K{step}"))
        kernel = form.build().default_entrypoint
        return [f"{each.assignee} = {each.expression}" for each in kernel.instructions if isinstance(each, Assignment)]

    assert statements(LIMITS) == statements(replace(LIMITS, warp_size=32))
