"""A gas in the cells of a mesh: its stored variables and derived quantities, for Loopy and for NumPy, float32.

Each cell has five variables: density ρ, momentum m = ρu along three axes, and energy E, all per volume. With γ = 1.4,
the pressure is p = (γ−1)·(E − |m|²/2ρ), and the speed of the fastest wave is s = |u| + √(γp/ρ).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopyperf.measurement.environment import Array

VARIABLES = 5
AXES = "xyz"
GROUP = 192
"""six warps"""

GAMMA = 1.4


def derived(cell: str, of: str = "") -> str:
    """Return Loopy instructions that read the variables of *cell* from v and derive the rest; names end in *of*."""
    momenta = "\n".join(f"<> m{axis}{of} = v[{number}, {cell}]" for number, axis in enumerate(AXES, start=1))
    velocities = "\n".join(f"<> u{axis}{of} = m{axis}{of}/density{of}" for axis in AXES)
    return f"""
        <> density{of} = v[0, {cell}]
        {momenta}
        <> energy{of} = v[4, {cell}]
        {velocities}
        <> square{of} = ux{of}*ux{of} + uy{of}*uy{of} + uz{of}*uz{of}
        <> pressure{of} = {GAMMA - 1:.1f}f*(energy{of} - 0.5f*density{of}*square{of})
        <> speed{of} = sqrt(square{of}) + sqrt({GAMMA}f*pressure{of}/density{of})
        """


@dataclass(frozen=True)
class Gas:
    """The variables of some cells in double precision; the first axis is that of the variables."""

    variables: NDArray[np.float64]

    @property
    def velocity(self) -> NDArray[np.float64]:
        """Return u, an array of three rows."""
        return self.variables[1:4] / self.variables[0]

    @property
    def pressure(self) -> NDArray[np.float64]:
        """Return p."""
        density, energy = self.variables[0], self.variables[4]
        return (GAMMA - 1) * (energy - density / 2 * np.sum(self.velocity**2, axis=0))

    @property
    def speed(self) -> NDArray[np.float64]:
        """Return s."""
        return np.sqrt(np.sum(self.velocity**2, axis=0)) + np.sqrt(GAMMA * self.pressure / self.variables[0])


def gas_in(array: Array | np.generic) -> Gas:
    """Return the gas of an *array* of variables."""
    return Gas(np.asarray(array, dtype=np.float64))


def random_variables(rng: np.random.Generator, cells: int) -> Array:
    """Return the variables of a slow gas of positive pressure, with densities and energies between 1 and 2."""
    slow = np.array([1, 0.5, 0.5, 0.5, 1], dtype=np.float32)
    least = np.array([1, 0, 0, 0, 1], dtype=np.float32)
    return least[:, None] + slow[:, None] * rng.random((VARIABLES, cells), dtype=np.float32)
