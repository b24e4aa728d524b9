"""Multi-head softmax attention on several regression tasks: its loss, gradient flow and limits.

The setting of Chen, Sheen, Wang and Yang (COLT 2024). A token is z = (x, y) with x ~ N(0, I_d); the
d coordinates are in I groups of d_i, and y_i = ⟨g_i, x on group i⟩ + ε is the label of task i.
H heads predict ŷ = Σ_h O^h V^h Z softmax(Zᵀ K^hᵀ Q^h z_q / √d_e) with z_q = (q, 0). Of decomposable
weights two numbers a head and task say everything: ω_i^h, the eigenvalue of KᵀQ/√d_e on group i (how
sharply head h attends by group i), and μ_i^h, the eigenvalue of OV on y_i (how much of what it sees
there it adds to answer i). Arrays are ``omega[h, i]``, ``mu[h, i]``. Gradient flow keeps weights so
if K and Q are multiples of one isometry on each group, O and V_Y are diagonal, and the rest is 0.

The loss is Σ_i E(ŷ_i − ⟨g_i, q_i⟩)² and time the sum of learning rates; a mean over the tasks
instead of the sum would multiply time by I. Of the paper the abstract, the captions and the titles
of its theorems were at hand: what follows is derived here, not quoted; nothing is simulated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from iclcore.checks import least, numbers, positive, whole

# ω or μ of every head and task, of one start or of many; of one; and a number a task
Spectrum = Float[np.ndarray, "*starts heads tasks"]
PerHead = Float[np.ndarray, "heads tasks"]
PerTask = Float[np.ndarray, " tasks"]

# In log coordinates an absolute error is a relative one of ω or μ. 1e-10 leaves 8 digits.
TOLERANCE = 1e-10
EXACTLY = {"method": "DOP853", "rtol": TOLERANCE, "atol": TOLERANCE}
# e^600: beyond it B and its products leave float64.
LARGEST_EXPONENT = 600.0


@dataclass(frozen=True)
class MultiTask:
    """I linear regressions in one context of L tokens.

    ``dims`` are the group sizes d_i, ``noise`` is σ². ``signal`` is s_i = E⟨g_i, x⟩²: one number for
    all tasks, or one each; left out, s_i = d_i, which is g_i ~ N(0, I). ``dim`` only checks the sum.
    """

    dims: Sequence[int] = (10, 10, 10)
    context: int = 100
    signal: float | Sequence[float] | None = None
    noise: float = 0.0
    dim: int | None = None

    def __post_init__(self) -> None:
        dims = tuple(int(whole("dims", d)) for d in np.atleast_1d(self.dims).tolist())
        if not dims:
            raise ValueError("dims takes at least one group size, not none")
        if self.dim is None:
            object.__setattr__(self, "dim", sum(dims))
        if sum(dims) != whole("dim", self.dim):
            raise ValueError(
                f"dims takes group sizes that sum to dim={self.dim}, not to {sum(dims)}"
            )
        whole("context", self.context, least=2)
        least("noise", self.noise)
        signal = dims if self.signal is None else self.signal
        signal = np.atleast_1d(numbers("signal", signal)).tolist()
        signal = signal * len(dims) if len(signal) == 1 else signal
        if len(signal) != len(dims):
            raise ValueError(f"signal takes one number or {len(dims)}, not {len(signal)}")
        object.__setattr__(self, "dims", dims)
        object.__setattr__(self, "signal", tuple(positive("signal", s) for s in signal))

    @property
    def tasks(self) -> int:
        return len(self.dims)

    @cached_property
    def d(self) -> PerTask:
        """Group sizes d_i as floats."""
        return np.array(self.dims, dtype=float)

    @cached_property
    def s(self) -> PerTask:
        """Signal powers s_i."""
        return np.array(self.signal)

    @cached_property
    def phi(self) -> PerTask:
        """φ_i = 1 + σ²/s_i: the power of a label in units of its signal."""
        return 1 + self.noise / self.s

    def only(self, tasks: Sequence[int] | np.ndarray) -> "MultiTask":
        """The same context with only these tasks."""
        return MultiTask(
            [self.dims[i] for i in tasks], self.context, [self.signal[i] for i in tasks], self.noise
        )


def aligned_start(
    task: MultiTask,
    heads: int | None = None,
    omega: float = 0.01,
    mu: float = 0.05,
    own: float = 0.1,
) -> tuple[Spectrum, Spectrum]:
    """A start that leans head i to task i: μ_i^i = ``own``, every other μ = ``mu``, all ω = ``omega``.

    The numbers are our choice: Figure 1's caption gives none. The published code has ω = L^(−3/2)/√d_e,
    μ = L^(−3/2) and four times that for a head's own task.
    """
    shape = (whole("heads", task.tasks if heads is None else heads), task.tasks)
    start = np.full(shape, float(mu))
    np.fill_diagonal(start, own)
    return np.full(shape, float(omega)), start


def overlap(task: MultiTask, omega: Spectrum) -> Float[np.ndarray, "*starts heads heads"]:
    """B_hh' = exp(Σ_j d_j ω_j^h ω_j^h'); B/L is E[p^h·p^h'] of two heads' attention weights."""
    return np.exp((omega * task.d) @ omega.swapaxes(-1, -2))


def loss(task: MultiTask, omega: Spectrum, mu: Spectrum) -> Float[np.ndarray, "*starts tasks"]:
    """Each task's loss s_i [(1 − Σ_h μ_i^h ω_i^h)² + (φ_i/L) μ_iᵀ B μ_i].

    Bias and variance of a softmax average while the scores stay below saturation (see
    ``risk.participation``). It is off by O(1/(d_i φ_i)) and O(e^{dω²}/L): at d = 10, L = 100
    it says .214 where ``risk.exact_loss`` says .235.
    """
    check(task, omega, mu)
    bias = (1 - (mu * omega).sum(-2)) ** 2
    variance = (mu * (overlap(task, omega) @ mu)).sum(-2) / task.context
    return task.s * (bias + task.phi * variance)


def gradient(task: MultiTask, omega: Spectrum, mu: Spectrum) -> tuple[Spectrum, Spectrum]:
    """∂/∂ω and ∂/∂μ of the total loss."""
    B = overlap(task, omega)
    residual = task.s * (1 - (mu * omega).sum(-2, keepdims=True))
    load = task.s * task.phi / task.context
    M = B * ((load * mu) @ mu.swapaxes(-1, -2))
    by_omega = 2 * (task.d * (M @ omega) - residual * mu)
    by_mu = 2 * (load * (B @ mu) - residual * omega)
    return by_omega, by_mu


@dataclass(frozen=True)
class Flow:
    """The gradient flow's path: ``omega[t]`` and ``mu[t]`` at times ``t`` (any starts behind t)."""

    task: MultiTask
    t: Float[np.ndarray, " times"]
    omega: Float[np.ndarray, "times *starts heads tasks"]
    mu: Float[np.ndarray, "times *starts heads tasks"]

    @property
    def loss(self) -> Float[np.ndarray, "times *starts tasks"]:
        return loss(self.task, self.omega, self.mu)

    @property
    def owner(self) -> np.ndarray:
        """The head that does most of each task (largest μω) at the end."""
        return (self.mu[-1] * self.omega[-1]).argmax(-2)


def flow(
    task: MultiTask,
    omega0: Spectrum,
    mu0: Spectrum,
    t: Sequence[float] | np.ndarray,
    width: int | None = None,
) -> Flow:
    """Gradient flow of K, Q, V, O from balanced weights (K = ±Q, O = ±Vᵀ), in the spectral numbers:

    ω̇_i = −(2/√d_e) |ω_i| (1/d_i) ∂Loss/∂ω_i,   μ̇_i = −2 |μ_i| ∂Loss/∂μ_i, d_e = ``width`` (Σ d_i).

    Signs never change and a zero stays, so it runs in log|ω| and log|μ|; in plain coordinates
    weights that have decayed cross zero by round-off and run away (final loss 5.43, not 6.42). Many
    starts go in one array. From a given start only the first time in ``t`` counts as its time.
    """
    from scipy.integrate import solve_ivp

    omega0, mu0 = np.asarray(omega0, dtype=float), np.asarray(mu0, dtype=float)
    t = np.atleast_1d(np.asarray(t, dtype=float))
    check(task, omega0, mu0)
    if t.ndim != 1 or not np.isfinite(t).all() or (np.diff(t) <= 0).any():
        raise ValueError("t takes finite increasing times")
    exponent = (task.d * omega0**2).sum(-1).max()
    if exponent > LARGEST_EXPONENT:
        raise ValueError(
            f"omega0 takes Σ_j d_j ω_j² of at most {LARGEST_EXPONENT:.0f} a head, not {exponent:.4g}"
        )
    if t.size == 1:
        return Flow(task, t, omega0[None], mu0[None])
    rate = 2 / (root_width(task, width) * task.d)
    signs = np.sign(np.stack([omega0, mu0]))
    logs = np.log(np.abs(np.where(signs == 0, 1, np.stack([omega0, mu0]))))

    def values(u: np.ndarray) -> np.ndarray:
        return signs * np.exp(u.reshape(signs.shape))

    def speed(_: float, u: np.ndarray) -> np.ndarray:
        by_omega, by_mu = gradient(task, *values(u))
        # d log|ω| = dω/ω, and |ω|/ω is the sign.
        return (-signs * np.stack([rate * by_omega, 2 * by_mu])).ravel()

    with np.errstate(over="ignore", invalid="ignore"):
        path = solve_ivp(speed, (t[0], t[-1]), logs.ravel(), t_eval=t, **EXACTLY)
    if path.status != 0 or not np.isfinite(path.y).all():
        last = path.t[-1] if len(path.t) else t[0]
        raise ValueError(f"t takes times the flow can be followed to, none beyond {last:.4g}")
    omega, mu = np.stack([values(u) for u in path.y.T], axis=1)
    return Flow(task, t, omega, mu)


# --- Where it ends -----------------------------------------------------------------------------


def water_filling(task: MultiTask, budget: float) -> PerTask:
    """The 0 ≤ m_i ≤ 1 with Σ m_i ≤ ``budget`` that minimise Σ_i s_i / (1 + L m_i/(φ_i d_i)).

    m_i = d_i ω_iᵀ B⁻¹ ω_i is all that attention does for the loss of task i once μ is the best; it
    is at most 1 because B ⪰ Σ_j d_j ω_j ω_jᵀ (every further term of the exponential is positive).
    """
    positive("budget", budget)
    depth = task.phi * task.d / task.context
    root = np.sqrt(task.s * depth)
    # m_i = λ root_i − depth_i within 0..1: what is filled is piecewise linear in the level λ.
    levels = np.sort(np.concatenate([depth / root, (1 + depth) / root]))
    filled = np.clip(np.outer(levels, root) - depth, 0, 1).sum(1)
    level = np.interp(budget, filled, levels)
    return np.clip(level * root - depth, 0, 1)


def one_head(task: MultiTask) -> tuple[Spectrum, Spectrum]:
    """The best single head, (ω, μ): water-filling with budget max x e^{−x} = 1/e, ω_i = √(e m_i/d_i).

    Equal tasks get ω = (I d_i)^(−1/2); for one task it is the limit of the gradient flow. A task whose
    signal drowns is given up (ω = μ = 0).
    """
    omega = np.sqrt(np.e * water_filling(task, 1 / np.e) / task.d)
    mu = omega / (omega**2 + np.e * task.phi / task.context)
    return omega[None], mu[None]


def limit(
    task: MultiTask, owner: Sequence[int] | np.ndarray | None = None, heads: int | None = None
) -> tuple[Spectrum, Spectrum]:
    """Where the flow ends if head ``owner[i]`` alone does task i (default: head i).

    Each head is ``one_head`` of its own tasks: heads without a common task do not disturb each other.
    One head a task: ω = d_i^(−1/2), μ = √d_i/(1+ρ_i), loss s_i ρ_i/(1+ρ_i) with ρ_i = e d_i φ_i/L.
    What is lost goes slowly: ω of a head on others' tasks falls only as 1/t, once its μ is gone.
    """
    owner = np.arange(task.tasks) if owner is None else np.asarray(owner)
    heads = owner.max() + 1 if heads is None else whole("heads", heads)
    if owner.shape != (task.tasks,) or owner.min() < 0 or owner.max() >= heads:
        raise ValueError(f"owner takes {task.tasks} head numbers below {heads}, not {owner}")
    omega, mu = np.zeros((2, heads, task.tasks))
    for head in np.unique(owner):
        own = np.flatnonzero(owner == head)
        omega[head, own], mu[head, own] = (a[0] for a in one_head(task.only(own)))
    return omega, mu


def check(task: MultiTask, omega: np.ndarray, mu: np.ndarray) -> None:
    """Refuse spectra that do not belong to ``task``."""
    for name, value in (("omega", omega), ("mu", mu)):
        shape = np.shape(value)
        if len(shape) < 2 or shape[-2] < 1 or shape[-1] != task.tasks:
            raise ValueError(
                f"{name} takes at least one head (rows) and {task.tasks} tasks (columns), not {shape}"
            )
        if not np.isfinite(value).all():
            raise ValueError(f"{name} takes finite numbers")
    if np.shape(omega) != np.shape(mu):
        raise ValueError(f"mu takes omega's shape {np.shape(omega)}, not {np.shape(mu)}")


def root_width(task: MultiTask, width: int | None) -> float:
    """√d_e; left out, d_e = d."""
    return np.sqrt(task.dim if width is None else whole("width", width))
