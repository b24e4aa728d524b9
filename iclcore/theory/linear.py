"""Linear attention on in-context regression: fixed points, time courses and conserved quantities.

Only a few of the weights reach the prediction, which is ŷ = βᵀ M x_q. Here x_q is the query, the D x D matrix
M is a sum over the heads of products of these weights, and

    β = Σ_n y_n x_n / divisor

is the sum over the N labelled examples of the context. N does not count the query. With infinitely many
sequences, each eigenvector of the covariance Λ of the inputs enters only through its eigenvalue λ_d and two
rates (``moments.rates``):

    a_d = E[y_q β_d x_qd]  = g λ_d²                                 how fast the eigenvector is learned
    b_d = E[(β_d x_qd)²]   = g₂ λ_d³ + h λ_d² (λ_d + tr Λ + σ²)     what limits how much of it is learned

σ² is the variance of the noise in the labels; g = ⟨n/divisor⟩, g₂ = ⟨(n/divisor)²⟩ and h = ⟨n/divisor²⟩ are
means over the context lengths n. In the paper's convention (divisor = N) and without noise, the rates are

    a_d = λ_d²,   b_d = λ_d³ (1 + (1 + tr Λ/λ_d)/N).

Everywhere, eigenvectors are ordered from the largest eigenvalue down, time is learning rate times steps, and
the loss is the mean squared error of one output, or the mean over the outputs. "At M_m" means that the
first m eigenvectors are learned and the others not at all.
"""

import numpy as np

from iclcore.checks import BadValue, instance, positive, whole
from iclcore.models import CubicMLP, MergedAttention, Model, SeparateAttention, Weights
from iclcore.moments import Data, Moments, averages, rates
from iclcore.shapes import Float
from iclcore.task import Divisor, Matrix, RegressionTask, Sequences, Vector
from iclcore.theory.minimum import of_matrix

Times = Float[np.ndarray, " t"]
Levels = Float[np.ndarray, " levels"]
SMALLEST = 1e-300  # least ratio x of a head's start to its limit: 1/x must be a float


# -- fixed points ---------------------------------------------------------------------------------


def learned(task: RegressionTask, divisor: Divisor = "one") -> Vector:
    """Return the eigenvalue a_d/b_d of M along each eigenvector after it has been learned, shape (D,).

    - ``task``: the task. The training data are infinitely many sequences of it.
    - ``divisor``: that of the model: "one", "context" or "tokens"; see ``task.divide_by``.

    With divisor = N and without noise it is 1/(λ_d (1 + (1 + tr Λ/λ_d)/N)).
    """
    a, b = rates(task, divisor)
    return a / b


def plateau_losses(data: Data) -> Levels:
    """Return the losses L(M_0) … L(M_D) of the plateaus of training, shape (D + 1,).

    - ``data``: a RegressionTask, or Sequences or Moments whose task is known.

    For a task, the loss with m learned eigenvectors is tr Λ + σ² − Σ_{d ≤ m} a_d²/b_d. The losses do not
    depend on the divisor if all contexts have one length; for a task with ``every_length`` it is "tokens".

    For Sequences or Moments, the losses are the least that a matrix M = Σ_{d ≤ m} μ_d e_d e_dᵀ can have on
    these data, where e_d are the eigenvectors of the task's Λ.
    """
    instance("data", data, RegressionTask, Sequences, Moments)
    if isinstance(data, RegressionTask):
        a, b = rates(data, "tokens" if data.every_length else "context")
        power, gains = data.label_power, a**2 / b
    else:
        if isinstance(data, Sequences):
            # the divisor of the runs on these sequences, so that both use the same cached averages
            divisor = "tokens" if data.every_length else "one"
            data = averages(data, MergedAttention(divisor=divisor))
        if data.task is None:
            raise BadValue("data", "takes averages or sequences whose task is known")
        directions = (np.outer(e, e) for e in data.task.eigenvectors.T)
        c = np.concatenate([of_matrix(direction, data.features) for direction in directions])
        try:
            root = np.linalg.cholesky(c @ data.gram @ c.T)
        except np.linalg.LinAlgError:
            raise BadValue(
                "data",
                f"takes at least {data.dim} different sequences, so that one M fits them best",
            ) from None
        power, gains = data.power, np.linalg.solve(root, c @ data.cross[0]) ** 2
    return power - np.concatenate([[0], np.cumsum(gains)])


def plateau_levels(model: Model, task: RegressionTask) -> tuple[Levels, Levels]:
    """Return how many eigenvectors a model has learned on each plateau, and the loss of each plateau.

    - ``model``: the model, trained from small initial weights.
    - ``task``: the task. The training data are infinitely many sequences of it.

    The numbers are means over the O outputs, and both arrays have one entry per plateau. Merged heads and the
    MLP learn all eigenvectors at once; the MLP learns them only for the last output, because its features
    hold no other label. A separate head learns as many eigenvectors as its rank, either for all outputs or,
    through the label column of its key, for one output.
    """
    losses = plateau_losses(task)
    if isinstance(model, SeparateAttention):
        most = min(task.dim, model.heads * model.rank)
        number = np.arange(most * task.outputs + 1) / task.outputs
        return number, np.interp(number, np.arange(task.dim + 1), losses)
    part = np.array([0.0, 1 / task.outputs if isinstance(model, CubicMLP) else 1])
    return part * task.dim, losses[0] - part * (losses[0] - losses[-1])


def pcr_predictor(task: RegressionTask, components: int, divisor: Divisor = "one") -> Matrix:
    """Return M_m = Σ_{d ≤ m} (a_d/b_d) e_d e_dᵀ, shape (D, D).

    - ``task``: the task. The training data are infinitely many sequences of it.
    - ``components``: the number m of eigenvectors, from 0 to D.
    - ``divisor``: that of the model: "one", "context" or "tokens"; see ``task.divide_by``.

    In the limit of long contexts ŷ = βᵀ M_m x_q is principal component regression with m components.
    """
    whole("components", components, least=0)
    kept = task.eigenvectors[:, :components]
    return (kept * learned(task, divisor)[:components]) @ kept.T


def population_loss(task: RegressionTask, predictor: Matrix, divisor: Divisor = "one") -> float:
    """Return the loss of ŷ = βᵀ M x_q over infinitely many sequences, for any matrix M.

    - ``task``: the task of the sequences.
    - ``predictor``: M, of shape (D, D).
    - ``divisor``: that of the model: "one", "context" or "tokens"; see ``task.divide_by``.

    L(M) = tr Λ + σ² − 2⟨A, M⟩ + tr(Mᵀ C M Λ) with A = E[y_q β x_qᵀ] and C = E[ββᵀ]. In the eigenbasis of Λ
    both are diagonal, with the entries a_d and b_d/λ_d.
    """
    a, b = rates(task, divisor)
    basis, lam = task.eigenvectors, task.eigenvalues
    m = basis.T @ predictor @ basis
    return float(task.label_power - 2 * a @ np.diag(m) + np.einsum("ij,i,j->", m**2, b / lam, lam))


# -- separate key and query -----------------------------------------------------------------------


def head_limit(task: RegressionTask, divisor: Divisor = "one") -> Vector:
    """Return |v| = |k| = |q| of a rank-one head that has learned eigenvector d alone, for each d.

    - ``task``: the task. The training data are infinitely many sequences of it.
    - ``divisor``: that of the model: "one", "context" or "tokens"; see ``task.divide_by``.

    The result has the shape (D,). It is (a_d/b_d)^(1/3), because the eigenvalue of M along eigenvector d is
    the product of v, k and q, and its final value is a_d/b_d.
    """
    return np.cbrt(learned(task, divisor))


def _component(task: RegressionTask, component: int) -> int:
    """Return the index of eigenvector ``component``, which is counted from 1."""
    if whole("component", component) > task.dim:
        raise BadValue("component", f"takes a whole number from 1 to {task.dim}, not {component}")
    return component - 1


def head_course(
    task: RegressionTask,
    component: int,
    time: Times,
    s0: float | None = None,
    divisor: Divisor = "one",
    half_at: float | None = None,
) -> Times:
    """Return the size s(t) = |v| = |k| = |q| of a rank-one head that learns one eigenvector, shape (t,).

    - ``task``: the task. The training data are infinitely many sequences of it.
    - ``component``: the eigenvector, from 1 to D; 1 has the largest eigenvalue.
    - ``time``: the times t, which are learning rate times steps.
    - ``s0``: the size at time 0.
    - ``divisor``: that of the model: "one", "context" or "tokens"; see ``task.divide_by``.
    - ``half_at``: the time at which half of the limit s* is reached. It is given instead of ``s0``.

    The size solves ds/dt = 2(a s² − b s⁵), where a and b are the rates of the eigenvector. Its limit is
    s* = (a/b)^(1/3).

    We need no ODE solver, however long the plateau is. With x = s/s* the equation separates into 2 a s* t =
    F(x(t)) − F(x(0)), where F is ``escape_integral``, and Newton's method inverts F.
    """
    d = _component(task, component)
    a, b = (float(rate[d]) for rate in rates(task, divisor))
    end = np.cbrt(a / b)
    if (s0 is None) == (half_at is None):
        raise BadValue("s0", "or half_at is needed, and not both")
    if half_at is not None:
        s0, time = end / 2, np.asarray(time, dtype=float) - half_at
    if not 0 < s0 < end:
        raise BadValue("s0", f"takes a start between 0 and {end:.6g}, not {s0!r}")
    if s0 < SMALLEST * end:
        raise BadValue("s0", f"takes a start of at least {SMALLEST * end:.6g}, not {s0!r}")
    with np.errstate(over="ignore"):  # times long after the end
        elapsed = 2 * a * end * np.asarray(time, dtype=float)
    return end * _inverse_escape_integral(escape_integral(s0 / end) + elapsed)


def escape_integral(
    x: Float[np.ndarray, "*points"] | float,
) -> Float[np.ndarray, "*points"] | float:
    """Return F(x), an antiderivative of 1/(x²(1 − x³)): it rises from −∞ at x = 0 to ∞ at x = 1.

    F(x) = −1/x − ln(1 − x)/3 + ln(x² + x + 1)/6 − arctan((2x + 1)/√3)/√3, by partial fractions.
    """
    root = np.sqrt(3)
    return (
        -1 / x - np.log1p(-x) / 3 + np.log(x * x + x + 1) / 6 - np.arctan((2 * x + 1) / root) / root
    )


def _inverse_escape_integral(value: Times) -> Times:
    """Return x in (0, 1] with ``escape_integral(x) = value``, to double precision.

    We solve for u = 1/x − 1. Near x = 1, u is exp(−3 (value − F₁)) up to the order u², where F₁ is the limit
    of F(x) + ln(1 − x)/3. Near x = 0, u is −value up to a constant. We start from these approximations, which
    are exact to double precision if u is very small or very large. Otherwise we take steps of Newton's method
    in ln u, with dF/d ln u = −u/(1 − x³). As a function of ln u, F is concave, and the start is above the
    root by a factor of 2.5 at most, so five steps are enough.
    """
    limit = np.log(3) / 6 - 1 - np.pi / np.sqrt(27)
    with np.errstate(all="ignore"):
        u = np.where(value > limit, np.exp(-3 * (value - limit)), 1 + limit - value)
        for _ in range(6):
            x = 1 / (1 + u)
            step = np.exp((escape_integral(x) - value) * (1 - x**3) / u)
            u = np.where((u > 1e-9) & (u < 1e17), u * step, u)
    return 1 / (1 + u)


def escape_time(task: RegressionTask, component: int, s0: float, divisor: Divisor = "one") -> float:
    """Return the approximate time 1/(2 a_d s₀) at which a head of size s₀ along one eigenvector escapes.

    - ``task``: the task. The training data are infinitely many sequences of it.
    - ``component``: the eigenvector, from 1 to D; 1 has the largest eigenvalue.
    - ``s0``: the size s₀ at time 0.
    - ``divisor``: that of the model: "one", "context" or "tokens"; see ``task.divide_by``.

    The growth ṡ = 2 a_d s² is hyperbolic, so the length of a plateau is proportional to 1/s₀, not to
    ln(1/s₀).
    """
    a, _ = rates(task, divisor)
    d = _component(task, component)
    with np.errstate(over="ignore"):
        time = float(1 / (2 * a[d] * positive("s0", s0)))
    if not np.isfinite(time):
        raise BadValue("s0", f"takes a start whose time is a finite float, not {s0!r}")
    return time


def conserved(
    weights: Weights, dim: int
) -> tuple[Float[np.ndarray, " H"], Float[np.ndarray, " H"]]:
    """Return |v_h|² − |K_h|² and |K_h|² − |Q_h|² of each head, which gradient flow conserves.

    - ``weights``: the weights of a SeparateAttention, as ``History.final`` holds them.
    - ``dim``: the dimension D of the inputs.

    The norms are Frobenius norms. The law holds for any rank and any data if the norms include all weights
    that can change: v_h is the whole last row of the value matrix, K_h the key with its column for labels,
    and Q_h the query's columns for inputs. If the norms leave out the weights outside the paper's subspace,
    the law holds only while these weights are zero. On infinitely many sequences they stay zero if they start
    at zero.
    """
    key, query, v = SeparateAttention().factors(weights, dim)
    squares = [np.sum(each**2, axis=(1, 2)) for each in (v, key, query)]
    return squares[0] - squares[1], squares[1] - squares[2]
