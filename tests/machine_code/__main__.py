"""Print the instructions that a warp of a kernel issues: ``python -m tests.machine_code "tiled 16" --size n=64``."""

import argparse

from .branch_decisions import around_calls
from .catalog import KNOWN
from .launch import FAST_MATH, Launch, build


def main() -> None:
    """Print the instruction counts of one warp by class, and optionally the count of each instruction."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("kernel", choices=sorted(KNOWN))
    parser.add_argument("--size", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--architecture", default="sm_90", choices=["sm_80", "sm_90"])
    parser.add_argument("--fast-math", action="store_true")
    parser.add_argument("--group", default="0,0,0", metavar="X,Y,Z")
    parser.add_argument("--warp", type=int, default=0)
    parser.add_argument("--listing", action="store_true", help="print each instruction with its number of issues")
    args = parser.parse_args()
    entry = KNOWN[args.kernel]
    sizes = {**entry.sizes, **{name: int(value) for name, _, value in (size.partition("=") for size in args.size)}}
    x, y, z = map(int, args.group.split(","))
    for launch in build(entry.program(), args.architecture, FAST_MATH if args.fast_math else ()):
        print_warp(launch, sizes, (x, y, z), args.warp, listing=args.listing)


def print_warp(launch: Launch, sizes: dict[str, int], group: tuple[int, int, int], warp: int, *, listing: bool) -> None:
    """Print the instructions that one warp issues."""
    where = ", ".join(f"{name} = {value}" for name, value in sizes.items())
    print(f"{launch.host.name} on {launch.architecture}, {where}, group {group}, warp {warp} of {launch.warps(sizes)}")
    if listing:
        trail = launch.trail(sizes, group, warp, around_calls)
        for address, instruction in launch.code.instructions.items():
            print(f"{trail.issued[address]:8}  {instruction}")
    tally = launch.run(sizes, group, warp, around_calls)
    for name, count in sorted(tally.counts.items(), key=lambda item: -item[1]):
        print(f"{count:8}  {name}")
    print(f"{tally.total:8}  in all")


if __name__ == "__main__":
    main()
