"""Linear attention with several heads on several tasks, to compare with the softmax of the second paper."""

from iclcore.heads.theory import MultiTask, PerTask, Spectrum, check_shapes


def loss(task: MultiTask, omega: Spectrum, mu: Spectrum) -> PerTask:
    """Return the exact loss of each task if attention weights are scores/L instead of a softmax.

    It is s_i [(1 − M_ii)² + (φ_i/L) Σ_j d_j M_ij² + M_ii²/L] with M_ij = Σ_h μ_i^h ω_j^h. Except for the
    last term this is ``iclcore.heads.theory.loss`` with the overlap Σ_j d_j ω_j^h ω_j^h' instead of its
    exponential.
    """
    check_shapes(task, omega, mu)
    M = mu.T @ omega
    own = M.diagonal()
    variance = task.phi * (M**2 @ task.d) + own**2
    return task.s * ((1 - own) ** 2 + variance / task.context)


def least_loss(task: MultiTask) -> PerTask:
    """Return the least ``loss`` of at least I heads, s (dφ + 1)/(L + dφ + 1)."""
    depth = task.d * task.phi + 1
    return task.s * depth / (task.context + depth)
