"""The theory of multi-head softmax attention on several regression tasks: loss, gradient flow and limits.

The setting is that of Chen, Sheen, Wang and Yang (COLT 2024). A context has L tokens z = (x, y) with inputs
x ~ N(0, I_d). The d coordinates of x are divided into I groups of sizes d_i, and the label of task i is
y_i = ⟨g_i, x on group i⟩ + ε_i, where the noise ε_i has variance σ². H heads predict

    ŷ = Σ_h O^h V^h Z softmax(Zᵀ K^hᵀ Q^h z_q / √d_e),   z_q = (q, 0).

Weights are *decomposable* if, on each group, K and Q of a head are multiples of one isometry, if O and the
part of V that reads labels are diagonal, and if all other entries are 0. Gradient flow keeps weights
decomposable. Two numbers for each head and task then describe the whole model. ω_i^h is the eigenvalue of
KᵀQ/√d_e on group i: it says how sharply head h attends by the inputs of task i. μ_i^h is the eigenvalue of OV
on y_i: it says how much head h adds to the answer of task i. Arrays hold ``omega[h, i]`` and ``mu[h, i]``.

The loss is Σ_i E(ŷ_i − ⟨g_i, q_i⟩)², and time is the sum of the learning rates. If the loss were the mean
over the tasks instead of the sum, times would be I times as long. We had only the abstract, the captions and
the titles of the theorems of the paper, so the formulas are derived here, not quoted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from iclcore.checks import BadValue, least, numbers, positive, shown, whole
from iclcore.shapes import Float

Spectrum = Float[np.ndarray, "*starts heads tasks"]  # ω or μ, of one start or of many at once
PerHead = Float[np.ndarray, "heads tasks"]  # ω or μ of one start
PerTask = Float[np.ndarray, " tasks"]

# The flow runs in log coordinates, in which an absolute error is a relative error of ω or μ.
TOLERANCE = 1e-10
EXACTLY = {"method": "DOP853", "rtol": TOLERANCE, "atol": TOLERANCE}
# Products of overlaps above e^600 leave the range of float64.
LARGEST_EXPONENT = 600.0


@dataclass(frozen=True)
class MultiTask:
    """I linear regressions that share one context of L tokens.

    - ``dims``: the group sizes d_i, one for each task.
    - ``context``: the number L of tokens, which does not count the query.
    - ``signal``: the power of each task's noiseless label, s_i = E⟨g_i, x⟩²: one number for all tasks, or one
      number for each. By default s_i = d_i, which is the signal of g_i ~ N(0, I).
    - ``noise``: the variance σ² of the noise in the labels of the context.
    """

    dims: Sequence[int] = (10, 10, 10)
    context: int = 100
    signal: float | Sequence[float] | None = None
    noise: float = 0.0

    def __post_init__(self) -> None:
        dims = tuple(int(whole("dims", d)) for d in np.atleast_1d(self.dims).tolist())
        if not dims:
            raise BadValue("dims", "takes at least one group size, not none")
        whole("context", self.context, least=2)
        least("noise", self.noise)
        signal = dims if self.signal is None else self.signal
        signal = np.atleast_1d(numbers("signal", signal)).tolist()
        if len(signal) not in (1, len(dims)):
            raise BadValue("signal", f"takes one number or {len(dims)}, not {len(signal)}")
        signal = signal * (len(dims) // len(signal))
        object.__setattr__(self, "dims", dims)
        object.__setattr__(self, "signal", tuple(positive("signal", s) for s in signal))

    @property
    def tasks(self) -> int:
        """The number of tasks I."""
        return len(self.dims)

    @property
    def dim(self) -> int:
        """The dimension of the inputs, d = Σ_i d_i."""
        return sum(self.dims)

    @cached_property
    def d(self) -> PerTask:
        """The group sizes d_i as an array of floats."""
        return np.array(self.dims, dtype=float)

    @cached_property
    def s(self) -> PerTask:
        """The signal powers s_i as an array."""
        return np.array(self.signal)

    @cached_property
    def phi(self) -> PerTask:
        """φ_i = 1 + σ²/s_i, the power of a noisy label divided by that of its signal."""
        return 1 + self.noise / self.s

    def only(self, tasks: Sequence[int] | np.ndarray) -> "MultiTask":
        """Return the same problem with only these tasks."""
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
    """Return (ω, μ) of a start at which head i leans towards task i.

    There are ``heads`` heads, by default one for each part of ``task``. μ_i^i is ``own``, every other μ is
    ``mu``, and every ω is ``omega``. The defaults are our choice, as the caption of the paper's Figure 1
    gives none. The published code has ω = L^(−3/2)/√d_e and μ = L^(−3/2), four times as much for μ_i^i.
    """
    shape = (whole("heads", task.tasks if heads is None else heads), task.tasks)
    start = np.full(shape, float(mu))
    np.fill_diagonal(start, own)
    return np.full(shape, float(omega)), start


def overlap(task: MultiTask, omega: Spectrum) -> Float[np.ndarray, "*starts heads heads"]:
    """Return B_hh' = exp(Σ_j d_j ω_j^h ω_j^h').

    B/L is E[p^h · p^h'], the overlap of the attention weights p of two heads.
    """
    return np.exp((omega * task.d) @ omega.swapaxes(-1, -2))


def loss(task: MultiTask, omega: Spectrum, mu: Spectrum) -> Float[np.ndarray, "*starts tasks"]:
    """Return the loss of each task, s_i [(1 − Σ_h μ_i^h ω_i^h)² + (φ_i/L) μ_iᵀ B μ_i].

    The two terms are the bias and the variance of a softmax average as long as softmax is not saturated (see
    E|p|² in ``risk.softmax_moments``). The formula neglects terms of relative order 1/(d_i φ_i) and
    e^{dω²}/L: for d = 10 and L = 100 it gives 0.214 where ``risk.exact_loss`` gives 0.235.
    """
    check_shapes(task, omega, mu)
    bias = (1 - (mu * omega).sum(-2)) ** 2
    variance = (mu * (overlap(task, omega) @ mu)).sum(-2) / task.context
    return task.s * (bias + task.phi * variance)


def gradient(task: MultiTask, omega: Spectrum, mu: Spectrum) -> tuple[Spectrum, Spectrum]:
    """Return the derivatives of the total loss with respect to ω and μ."""
    B = overlap(task, omega)
    residual = task.s * (1 - (mu * omega).sum(-2, keepdims=True))
    load = task.s * task.phi / task.context
    M = B * ((load * mu) @ mu.swapaxes(-1, -2))
    grad_omega = 2 * (task.d * (M @ omega) - residual * mu)
    grad_mu = 2 * (load * (B @ mu) - residual * omega)
    return grad_omega, grad_mu


@dataclass(frozen=True)
class Flow:
    """The path of the gradient flow: ``omega[k]`` and ``mu[k]`` are ω and μ at time ``t[k]``.

    If there are many starts, their axes come directly after the axis of the times.
    """

    task: MultiTask
    t: Float[np.ndarray, " times"]
    omega: Float[np.ndarray, "times *starts heads tasks"]
    mu: Float[np.ndarray, "times *starts heads tasks"]

    @property
    def loss(self) -> Float[np.ndarray, "times *starts tasks"]:
        """The loss of each task at each time, by ``theory.loss``."""
        return loss(self.task, self.omega, self.mu)

    @property
    def owner(self) -> np.ndarray:
        """The head that contributes most to each task (the largest μω) at the last time."""
        return (self.mu[-1] * self.omega[-1]).argmax(-2)


def flow(
    task: MultiTask,
    omega0: Spectrum,
    mu0: Spectrum,
    t: Sequence[float] | np.ndarray,
    width: int | None = None,
) -> Flow:
    """Return the gradient flow of K, Q, V, O from balanced decomposable weights, in terms of ω and μ.

    Balanced means K = ±Q and O = ±Vᵀ. The equations are

        ω̇_i = −(2/√d_e) |ω_i| (1/d_i) ∂Loss/∂ω_i,   μ̇_i = −2 |μ_i| ∂Loss/∂μ_i.

    ``omega0`` and ``mu0`` hold the start of a model of ``task``, or many starts at once, at the first of the
    times ``t``; ``width`` is d_e, by default d. Signs never change and a zero stays zero, so we integrate
    log|ω| and log|μ|. In plain coordinates, round-off could carry a weight that has decayed across zero, and
    this weight would then grow.
    """
    from scipy.integrate import solve_ivp

    omega0, mu0 = np.asarray(omega0, dtype=float), np.asarray(mu0, dtype=float)
    t = np.atleast_1d(numbers("t", t))
    check_shapes(task, omega0, mu0)
    if t.ndim != 1 or not t.size or (np.diff(t) <= 0).any():
        raise BadValue("t", f"takes increasing times, at least one, not {shown(t)}")
    exponent = (task.d * omega0**2).sum(-1).max()
    if exponent > LARGEST_EXPONENT:
        raise BadValue(
            "omega0",
            f"takes Σ_j d_j ω_j² of at most {LARGEST_EXPONENT:.0f} a head, not {exponent:.4g}",
        )
    if t.size == 1:
        return Flow(task, t, omega0[None], mu0[None])
    rate = 2 / (root_width(task, width) * task.d)
    signs = np.sign(np.stack([omega0, mu0]))
    logs = np.log(np.abs(np.where(signs == 0, 1, np.stack([omega0, mu0]))))

    def values(u: np.ndarray) -> np.ndarray:
        return signs * np.exp(u.reshape(signs.shape))

    def speed(_: float, u: np.ndarray) -> np.ndarray:
        grad_omega, grad_mu = gradient(task, *values(u))
        # d log|ω| = dω/ω, and |ω|/ω is the sign of ω.
        return (-signs * np.stack([rate * grad_omega, 2 * grad_mu])).ravel()

    with np.errstate(over="ignore", invalid="ignore"):
        path = solve_ivp(speed, (t[0], t[-1]), logs.ravel(), t_eval=t, **EXACTLY)
    if path.status != 0 or not np.isfinite(path.y).all():
        last = path.t[-1] if len(path.t) else t[0]
        raise BadValue("t", f"takes times at which the flow can be followed, at most {last:.4g}")
    omega, mu = np.stack([values(u) for u in path.y.T], axis=1)
    return Flow(task, t, omega, mu)


# --- Where the flow ends ------------------------------------------------------------------------


def water_filling(task: MultiTask, budget: float) -> PerTask:
    """Return the m with 0 ≤ m_i ≤ 1 and Σ_i m_i ≤ ``budget`` that minimises Σ_i s_i / (1 + L m_i/(φ_i d_i)).

    Given ω and the best μ, the loss of task i depends on ω only through m_i = d_i ω_iᵀ B⁻¹ ω_i. m_i is
    at most 1 because B ⪰ Σ_j d_j ω_j ω_jᵀ (every other term of the exponential is positive).
    """
    positive("budget", budget)
    depth = task.phi * task.d / task.context
    root = np.sqrt(task.s * depth)
    # m_i = λ root_i − depth_i, cut off to [0, 1], so that Σ_i m_i is piecewise linear in the level λ.
    levels = np.sort(np.concatenate([depth / root, (1 + depth) / root]))
    filled = np.clip(np.outer(levels, root) - depth, 0, 1).sum(1)
    level = np.interp(budget, filled, levels)
    return np.clip(level * root - depth, 0, 1)


def one_head(task: MultiTask) -> tuple[Spectrum, Spectrum]:
    """Return (ω, μ) of the best single head, both of shape (1, tasks).

    Here m is the ``water_filling`` with the budget max_x x e^{−x} = 1/e, and ω_i = √(e m_i/d_i). Tasks of
    equal size, signal and noise get ω = (I d_i)^(−1/2). With one task, this head is the limit of the
    gradient flow. A task whose signal is too weak gets ω = μ = 0.
    """
    omega = np.sqrt(np.e * water_filling(task, 1 / np.e) / task.d)
    mu = omega / (omega**2 + np.e * task.phi / task.context)
    return omega[None], mu[None]


def limit(
    task: MultiTask, owner: Sequence[int] | np.ndarray | None = None, heads: int | None = None
) -> tuple[Spectrum, Spectrum]:
    """Return (ω, μ) at which the flow ends if head ``owner[i]`` alone serves task i (by default head i).

    Each head is then the ``one_head`` of its own tasks, because heads that have no task in common do not
    influence each other. If each head has one task, ω = d_i^(−1/2), μ = √d_i/(1+ρ_i), and the loss is
    s_i ρ_i/(1+ρ_i) with ρ_i = e d_i φ_i/L. The flow approaches this limit slowly: once the μ of a head
    on a task of another head has vanished, its ω on that task decays only as 1/t.
    """
    owner = np.arange(task.tasks) if owner is None else np.asarray(owner)
    heads = owner.max() + 1 if heads is None else whole("heads", heads)
    if owner.shape != (task.tasks,) or owner.min() < 0 or owner.max() >= heads:
        raise BadValue("owner", f"takes {task.tasks} head numbers below {heads}, not {owner}")
    omega, mu = np.zeros((2, heads, task.tasks))
    for head in np.unique(owner):
        own = np.flatnonzero(owner == head)
        omega[head, own], mu[head, own] = (a[0] for a in one_head(task.only(own)))
    return omega, mu


def check_shapes(task: MultiTask, omega: np.ndarray, mu: np.ndarray) -> None:
    """Raise BadValue unless ω and μ are finite and both of shape (…, heads, tasks)."""
    for name, value in (("omega", omega), ("mu", mu)):
        shape = np.shape(value)
        if len(shape) < 2 or shape[-2] < 1 or shape[-1] != task.tasks:
            raise BadValue(
                name,
                f"takes at least one head (rows) and {task.tasks} tasks (columns), not {shape}",
            )
        if not np.isfinite(value).all():
            raise BadValue(name, "takes finite numbers")
    if np.shape(omega) != np.shape(mu):
        raise BadValue("mu", f"takes the shape of omega, {np.shape(omega)}, not {np.shape(mu)}")


def root_width(task: MultiTask, width: int | None) -> float:
    """Return √d_e, where d_e is ``width``, or d if ``width`` is None."""
    return np.sqrt(task.dim if width is None else whole("width", width))
