"""GPUPerf: the cost of computation and memory, their overlap, and the potential benefit of removing each loss.

    Texec = Tcomp + Tmem − Toverlap                                                                        (1)
    Tcomp = Wparallel + Wserial                                                                            (2)
    Wparallel = insts·total_warps/active_SMs · avg_inst_lat/ITILP                                          (3)
    ITILP = min(ILP·N, ITILPmax)            ITILPmax = avg_inst_lat / (warp_size/SIMD_width)           (4, 5)
    Wserial = Osync + OSFU + OCFdiv + Obank                                                                (6)
    Osync = sync_insts·total_warps/active_SMs · Γ·avg_DRAM_lat·mem_insts/insts                          (7, 8)
    OSFU = SFU_insts·total_warps/active_SMs · warp_size/SFU_width · FSFU                                   (9)
    FSFU = SFU_insts/insts − SFU_width/SIMD_width, from 0 to 1                                            (10)
    Tmem = mem_insts·total_warps / (active_SMs·ITMLP) · AMAT                                              (11)
    AMAT = avg_DRAM_lat·miss_ratio + hit_lat                                                              (12)
    avg_DRAM_lat = DRAM_lat + (avg_trans_warp − 1)·Δ                                                      (13)
    ITMLP = min(MLP·MWPcp, MWPpeak_bw)      MWPcp = min(max(1, CWP − 1), MWP)                         (14, 15)
    Toverlap = min(Tcomp·Foverlap, Tmem)    Foverlap = (N − ζ)/N, ζ = 1 where CWP ≤ MWP, else 0       (16, 17)
    Tfp = FP_insts·total_warps·FP_lat / (active_SMs·ITILP)                                                (18)
    Tmem_min = size_of_data·avg_DRAM_lat / MWPpeak_bw                                                     (19)
    Bitilp = Wparallel − insts·total_warps·avg_inst_lat / (active_SMs·ITILPmax)                           (20)
    Bserial = Wserial       Bfp = Tcomp − Tfp − Bitilp − Bserial                                      (21, 22)
    Bmemlp = max(Tmem − Toverlap − Tmem_min, 0)                                                           (23)
    CWP = min(CWPfull, N)   CWPfull = (mem_cycles + comp_cycles)/comp_cycles                          (A.1, 2)
    comp_cycles = insts·avg_inst_lat/ITILP   mem_cycles = mem_insts·AMAT/MLP                          (A.3, 4)
    MWP = min(avg_DRAM_lat/Δ, MWPpeak_bw, N)                                                             (A.5)
    MWPpeak_bw = mem_peak_bandwidth / (BW_per_warp·active_SMs)                                           (A.6)
    BW_per_warp = freq·transaction_size/avg_DRAM_lat                                                     (A.7)

All times are cycles. Instruction counts are those of one warp and exclude those of special function units, except
SFU_insts. size_of_data is in requests of a warp per core, so that Tmem_min is in cycles. Bfp may be negative: then the
floating-point instructions alone take longer than the model's computation, because FP_lat exceeds avg_inst_lat.

J. Sim, A. Dasgupta, H. Kim and R. Vuduc, A performance analysis framework for identifying potential benefits in GPGPU
applications, 2012, sections 4, 5 and appendix A.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopyperf.models.workload import check_range

Number = float | NDArray[Any]
"""A number, or an array of numbers; arrays are broadcast together."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Inputs of a kernel (Sim, Table 2)."""

    insts: Number
    """#insts: instructions of a warp, including memory, excluding special function units."""
    mem_insts: Number
    """#mem_insts: memory instructions."""
    sync_insts: Number
    """#sync_insts: barriers."""
    sfu_insts: Number
    """#SFU_insts: instructions of special function units."""
    fp_insts: Number
    """#FP_insts: floating-point instructions."""
    total_warps: Number
    """#total_warps of the kernel."""
    active_sms: Number
    """#active_SMs: number of cores that have work."""
    n: Number
    """N: number of warps resident on a core."""
    avg_trans_warp: Number = 1.0
    """Mean number of transactions of a warp's request."""
    miss_ratio: Number = 1.0
    """Share of requests that miss the cache."""
    size_of_data: Number = 0.0
    """Data that the kernel must read, in requests of a warp per core."""
    ilp: Number = 1.0
    """ILP of one warp."""
    mlp: Number = 1.0
    """MLP of one warp."""
    avg_inst_lat: Number | None = None
    """Mean latency of an instruction, in cycles; default: that of floating-point operations."""
    amat: Number | None = None
    """Mean memory access time, in cycles, if several caches serve requests; default: equation 12."""
    o_cfdiv: Number = 0.0
    """OCFdiv: cycles of a core for divergent branches."""
    o_bank: Number = 0.0
    """Obank: cycles of a core for bank conflicts."""

    def __post_init__(self) -> None:
        check_range("insts", self.insts, 0, above=True)
        for name in ("mem_insts", "sync_insts", "sfu_insts", "fp_insts", "size_of_data", "o_cfdiv", "o_bank"):
            check_range(name, getattr(self, name), 0)
        for name in ("total_warps", "active_sms", "n", "avg_trans_warp", "ilp", "mlp"):
            check_range(name, getattr(self, name), 1)
        check_range("miss_ratio", self.miss_ratio, 0, 1)
        for name in ("avg_inst_lat", "amat"):
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), 0, above=True)


@dataclass(frozen=True, slots=True)
class Parameters:
    """Inputs of a device; the defaults are those of the Tesla C2050 (Sim, Table 3)."""

    freq: float = 1.15e9
    """Clock of a core, in Hz."""
    mem_peak_bandwidth: float = 144e9
    """Peak bandwidth of device memory, in bytes/s."""
    simd_width: float = 32
    """SIMD_width: scalar processors of a core."""
    sfu_width: float = 4
    """SFU_width: special function units of a core."""
    fp_lat: float = 18
    """FP_lat, in cycles."""
    dram_lat: float = 440
    """DRAM_lat, in cycles."""
    delta: float = 20
    """Δ: departure delay of a transaction, in cycles."""
    hit_lat: float = 18
    """hit_lat: latency of the cache, in cycles."""
    gamma: float = 64
    """Γ: cost of a barrier, a machine parameter."""
    warp_size: float = 32
    """Work-items of a warp."""
    transaction_size: float = 128
    """Bytes of a transaction of device memory."""
    most_warps: float = np.inf
    """Maximum N of a core."""

    def __post_init__(self) -> None:
        positive = ("freq", "mem_peak_bandwidth", "simd_width", "sfu_width", "fp_lat", "dram_lat", "delta")
        for name in (*positive, "warp_size", "transaction_size"):
            check_range(name, getattr(self, name), 0, above=True)
        check_range("hit_lat", self.hit_lat, 0)
        check_range("gamma", self.gamma, 0)


@dataclass
class Analysis:
    """Every quantity of the model, with equation numbers in parentheses; times are cycles of a core for the kernel."""

    inputs: Inputs
    """Inputs of the kernel."""
    parameters: Parameters
    """Inputs of the device."""

    def __post_init__(self) -> None:
        """Compute all quantities; they are arrays if the inputs are."""
        self._compute_work()
        self._compute_memory()
        self._compute_overlap()

    def _compute_work(self) -> None:
        inputs, parameters = self.inputs, self.parameters
        self.o_cfdiv: Any = inputs.o_cfdiv
        """OCFdiv, the cost of divergent branches"""
        self.o_bank: Any = inputs.o_bank
        """Obank, the cost of bank conflicts"""
        self.warps_per_core: Any = inputs.total_warps / inputs.active_sms
        """number of warps that a core executes"""
        self.avg_dram_lat: Any = parameters.dram_lat + (inputs.avg_trans_warp - 1) * parameters.delta
        """avg_DRAM_lat (13)"""
        self.avg_inst_lat: Any = parameters.fp_lat if inputs.avg_inst_lat is None else inputs.avg_inst_lat
        """avg_inst_lat, the mean latency of an instruction"""
        self.itilp_max: Any = self.avg_inst_lat / (parameters.warp_size / parameters.simd_width)
        """ITILPmax (5)"""
        self.itilp: Any = np.minimum(inputs.ilp * inputs.n, self.itilp_max)
        """ITILP, the instructions of all warps that execute in parallel (4)"""
        self.w_parallel: Any = inputs.insts * self.warps_per_core * self.avg_inst_lat / self.itilp
        """Wparallel (3)"""
        self.f_sync: Any = parameters.gamma * self.avg_dram_lat * inputs.mem_insts / inputs.insts
        """Fsync (8)"""
        self.o_sync: Any = inputs.sync_insts * self.warps_per_core * self.f_sync
        """Osync, the cost of barriers (7)"""
        units = parameters.sfu_width / parameters.simd_width
        self.f_sfu: Any = np.clip(inputs.sfu_insts / inputs.insts - units, 0.0, 1.0)
        """FSFU, the visible share of special functions (10)"""
        throughput = parameters.warp_size / parameters.sfu_width
        self.o_sfu: Any = inputs.sfu_insts * self.warps_per_core * throughput * self.f_sfu
        """OSFU, the cost of special functions (9)"""
        self.w_serial: Any = self.o_sync + self.o_sfu + inputs.o_cfdiv + inputs.o_bank
        """Wserial (6)"""
        self.t_comp: Any = self.w_parallel + self.w_serial
        """Tcomp (2)"""

    def _compute_memory(self) -> None:
        inputs, parameters = self.inputs, self.parameters
        from_levels = self.avg_dram_lat * inputs.miss_ratio + parameters.hit_lat
        self.amat: Any = from_levels if inputs.amat is None else inputs.amat
        """AMAT (12)"""
        self.bw_per_warp: Any = parameters.freq * parameters.transaction_size / self.avg_dram_lat
        """BW_per_warp, bytes/s (A.7)"""
        self.mwp_peak_bw: Any = parameters.mem_peak_bandwidth / (self.bw_per_warp * inputs.active_sms)
        """MWPpeak_bw, the number of warps that saturate the bandwidth (A.6)"""
        self.mwp: Any = np.minimum(np.minimum(self.avg_dram_lat / parameters.delta, self.mwp_peak_bw), inputs.n)
        """MWP, the number of warps that memory serves at once (A.5)"""
        self.comp_cycles: Any = inputs.insts * self.avg_inst_lat / self.itilp
        """comp_cycles of a warp (A.3)"""
        self.mem_cycles: Any = inputs.mem_insts * self.amat / inputs.mlp
        """mem_cycles of a warp (A.4)"""
        self.cwp_full: Any = (self.mem_cycles + self.comp_cycles) / self.comp_cycles
        """CWPfull (A.2)"""
        self.cwp: Any = np.minimum(self.cwp_full, inputs.n)
        """CWP, the number of warps that compute while one waits for memory, plus that one (A.1)"""
        self.mwp_cp: Any = np.minimum(np.maximum(1.0, self.cwp - 1), self.mwp)
        """MWPcp, the number of warps whose requests overlap in a period of computation (15)"""
        self.itmlp: Any = np.minimum(inputs.mlp * self.mwp_cp, self.mwp_peak_bw)
        """ITMLP, the requests of all warps that are served at once (14)"""
        self.t_mem: Any = inputs.mem_insts * self.warps_per_core / self.itmlp * self.amat
        """Tmem (11)"""

    def _compute_overlap(self) -> None:
        inputs, parameters = self.inputs, self.parameters
        self.zeta: Any = 1.0 * (self.cwp <= self.mwp)
        """ζ, 1 if computation is the limit, else 0 (17)"""
        self.f_overlap: Any = (inputs.n - self.zeta) / inputs.n
        """Foverlap, the share of computation that may overlap (17)"""
        self.t_overlap: Any = np.minimum(self.t_comp * self.f_overlap, self.t_mem)
        """Toverlap (16)"""
        self.t_mem_visible: Any = self.t_mem - self.t_overlap
        """T'mem, the visible cost of memory"""
        self.t_exec: Any = self.t_comp + self.t_mem - self.t_overlap
        """Texec (1)"""
        self.t_fp: Any = inputs.fp_insts * self.warps_per_core * parameters.fp_lat / self.itilp
        """Tfp, the ideal cost of computation (18)"""
        self.t_mem_min: Any = inputs.size_of_data * self.avg_dram_lat / self.mwp_peak_bw
        """Tmem_min, the ideal cost of memory (19)"""
        ideal = inputs.insts * self.warps_per_core * self.avg_inst_lat / self.itilp_max
        self.b_itilp: Any = self.w_parallel - ideal
        """Bitilp, the benefit of more instruction parallelism (20)"""
        self.b_serial: Any = self.w_serial
        """Bserial, the benefit of no serialization (21)"""
        self.b_fp: Any = self.t_comp - self.t_fp - self.b_itilp - self.b_serial
        """Bfp, the benefit of executing only floating-point instructions (22)"""
        self.b_memlp: Any = np.maximum(self.t_mem_visible - self.t_mem_min, 0.0)
        """Bmemlp, the benefit of more memory parallelism (23)"""


def analyse(inputs: Inputs, parameters: Parameters) -> Analysis:
    """Return all quantities of the model, in cycles; arrays if *inputs* has arrays.

    :raises ModelInputError: if more warps reside on a core than its capacity.
    """
    check_range("n", inputs.n, 1, parameters.most_warps)
    return Analysis(inputs, parameters)
