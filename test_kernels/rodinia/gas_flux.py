"""A gas on a mesh of n cells: the flux through the four faces of each cell, float32.

    flux[i] = Σ_{j<4} ½·(F(i) + F(c))·N_j − ½·α·|N_j|·(s(i) + s(c))·(v(i) − v(c))      with c = neighbour[j,i]
    F·N = (m·N,  m_x·(u·N) + p·N_x,  m_y·(u·N) + p·N_y,  m_z·(u·N) + p·N_z,  (E + p)·(u·N))

compute_flux from Lemeire, table 9, part of the solver of Euler's equations. v are the five variables of a cell, p and s
the pressure and the speed that ``_gas.py`` derives from them. N_j is the normal of face j, with the face's area as its
length; α = 0.2 adds viscosity. A work-item computes one cell.

The kernel tests loads whose addresses depend on data: the cell behind a face is in an array, so the number of sectors
that the lanes of a warp need is unknown. loopyperf assumes that no sector is shared, unless ``typical={"v": "1"}``
specifies cells that are numbered along the mesh. The kernel also has the most arithmetic and the most live values.

The mesh has no boundary: each face has a cell behind it. So the faces at walls and in the far field, for which Rodinia
branches on the sign of a neighbor's number, do not exist, and no condition depends on data.

Counts per face, of which there are 4n: 9 loads, 4 divisions, 3 square roots. In addition per cell: 5 loads, 4
divisions, 2 square roots, 5 stores.
"""

from collections.abc import Iterable, Iterator

import loopy as lp
import numpy as np
from numpy.typing import NDArray

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes

from ._gas import AXES, GROUP, VARIABLES, Gas, derived, gas_in, random_variables
from ._groups import in_groups_of

NAME = "compute_flux"

FACES = 4
"""faces of a tetrahedron"""

NEAR = 1000
"""maximum distance between the numbers of neighbors"""

VISCOSITY = 0.2
"""α"""

LARGEST = 2**22
"""the largest n, with normals of 192 MiB"""


def configurations(limits: DeviceLimits, group: int = GROUP) -> list[Configuration]:
    """Return the kernel for groups of *group* work-items, if the device supports them."""
    return in_groups_of(group, limits, flux, arguments, fluxes, LARGEST)


def flux(group: int = GROUP) -> lp.TranslationUnit:
    """Return the kernel for groups of *group* work-items."""
    knl = lp.make_kernel(
        f"{{[i, j]: 0 <= i < n and 0 <= j < {FACES}}}",
        f"""
        for i
            {derived("i")}
            {_lines(f"<float32> flux{k} = 0" for k in range(VARIABLES))}
            for j
                <> cell = neighbour[j, i]
                {_lines(f"<> n{axis} = normal[{number}, j, i]" for number, axis in enumerate(AXES))}
                {derived("cell", of="_")}
                <> outwards = ux*nx + uy*ny + uz*nz
                <> outwards_ = ux_*nx + uy_*ny + uz_*nz
                <> viscous = {VISCOSITY}f*sqrt(nx*nx + ny*ny + nz*nz)*(speed + speed_)
                {_lines(added())}
            end
            {_lines(f"flux[{k}, i] = flux{k}" for k in range(VARIABLES))}
        end
        """,
        [
            lp.GlobalArg("v, flux", np.float32, shape=f"{VARIABLES}, n"),
            lp.GlobalArg("neighbour", np.int32, shape=f"{FACES}, n"),
            lp.GlobalArg("normal", np.float32, shape=f"{len(AXES)}, {FACES}, n"),
            lp.ValueArg("n", np.int32),
        ],
        name="compute_flux",
        seq_dependencies=True,
        assumptions=f"n mod {group} = 0 and n >= {group}",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")


def added() -> Iterator[str]:
    """Yield the instructions that add the flux through a face, for each variable."""
    momenta = {f"m{axis}": f"(pressure + pressure_)*n{axis} + " for axis in AXES}
    for k, (name, pressed) in enumerate({"density": "", **momenta}.items()):
        carried = f"{pressed}{name}*outwards + {name}_*outwards_"
        yield f"flux{k} = flux{k} + 0.5f*({carried} - viscous*({name} - {name}_))"
    carried = "(energy + pressure)*outwards + (energy_ + pressure_)*outwards_"
    yield f"flux4 = flux4 + 0.5f*({carried} - viscous*(energy - energy_))"


def _lines(instructions: Iterable[str]) -> str:
    return "\n".join(instructions)


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random variables and normals, neighbors with numbers near the cells' own, and zeros for the flux."""
    n = sizes["n"]
    apart = rng.integers(-NEAR, NEAR, size=(FACES, n))
    return {
        "v": random_variables(rng, n),
        "neighbour": ((np.arange(n) + apart) % n).astype(np.int32),
        "normal": rng.random((len(AXES), FACES, n), dtype=np.float32),
        "flux": np.zeros((VARIABLES, n), dtype=np.float32),
        "n": np.int32(n),
    }


def fluxes(arguments: Arguments) -> dict[str, Array]:
    """Return the fluxes, summed over one face after another."""
    here = gas_in(arguments["v"])
    flux = np.zeros_like(here.variables)
    normals = np.asarray(arguments["normal"], dtype=np.float64).swapaxes(0, 1)
    for normal, cells in zip(normals, np.asarray(arguments["neighbour"]), strict=True):
        there = Gas(here.variables[:, cells])
        viscous = VISCOSITY * np.sqrt(np.sum(normal**2, axis=0)) * (here.speed + there.speed)
        carried = _carried(here, normal) + _carried(there, normal)
        flux += (carried - viscous * (here.variables - there.variables)) / 2
    return {"flux": flux.astype(np.float32)}


def _carried(gas: Gas, normal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return F·N."""
    outwards = np.sum(gas.velocity * normal, axis=0)
    carried = gas.variables * outwards
    carried[1:4] += gas.pressure * normal
    carried[4] += gas.pressure * outwards
    return carried
