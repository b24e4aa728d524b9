"""When a learning rate is too large: gradient descent is unstable if lr × sharpness exceeds 2.

The sharpness is the largest eigenvalue of the Hessian of the loss. If the product is below 2, every step of
full-batch gradient descent lowers the loss. If it is above 2, even a deviation of the size of round-off grows
along the steepest direction.
"""

import warnings
from collections.abc import Callable

import numpy as np

from iclcore import moments
from iclcore.checks import BadValue, instance
from iclcore.engines.base import flat, parted
from iclcore.extras import needs
from iclcore.models import Factors, Model, trainable
from iclcore.moments import Data
from iclcore.task import RegressionTask, only_sequences
from iclcore.theory.minimum import balanced_end, jacobian
from iclcore.trainer import train

# The step of the finite differences of gradients, relative to the norm of the weights. With this step the
# error is 1e-5, or 5e-5 if the gradients are float32.
DIFFERENCE = 3e-4
SMALLEST = 1e-38  # only learning rates between this number and its inverse are tried

Gradient = Callable[[Factors], Factors]


def stable_rate(task: RegressionTask, model: Model) -> float:
    """Return 2/sharpness of the population loss at the minimum that training from small weights reaches.

    - ``task``: the task. The training data are infinitely many sequences of it.
    - ``model``: a linear model. Its divisor matters, and its ``init`` does not.

    At this minimum no residual is left that the weights could fit, so the Hessian
    is 2 Jᵀ gram J with J = ∂c/∂weights. It includes the weights that reach the prediction although the paper
    sets them to zero, because along these weights round-off or a finite sample starts an instability at a
    smaller learning rate.
    """
    instance("task", task, RegressionTask)
    if not trainable("model", model).linear:
        raise BadValue("model", "takes a linear one; monotone_rate takes softmax attention too")
    slope = jacobian(balanced_end(task, model), moments.features(model, task.dim, task.outputs))
    gram = np.kron(np.eye(task.outputs), moments.of_population(task, model).gram) / task.outputs
    return float(1 / np.linalg.eigvalsh(slope.T @ gram @ slope)[-1])


def monotone_rate(model: Model, data: Data, steps: int, seed: int = 0) -> float:
    """Return the largest power of two, as learning rate, at which the loss never rises in ``steps`` steps.

    - ``model``: a linear model or softmax attention.
    - ``data``: Sequences or, for a linear model, also a RegressionTask or Moments.
    - ``steps``: the number of steps of the run for which a rate is wanted.
    - ``seed``: the seed of the initial weights, as for ``train``.

    The rate is found by training from weights drawn from ``seed``: we start with the rate 1 and halve it, or
    double it, as often as needed. The sharpness at the end of a run must also be below 2/lr, because
    otherwise the loss may be about to rise. For infinitely many sequences, ``stable_rate`` has a formula.
    There is none for a finite set, because training goes on to fit chance correlations in the few sequences,
    and the loss becomes several times as sharp.
    """
    start = trainable("model", model).start(data.dim, data.outputs, seed)
    data, gradient = _data_and_gradient(model, data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # here we expect that the loss rises in some runs

        def monotone(lr: float) -> bool:
            if not SMALLEST < lr < 1 / SMALLEST:
                raise BadValue("data", "takes sequences on which a learning rate works; none does")
            run = train(model, data, steps, lr, start=start)
            if run.ended == "interrupted":
                raise KeyboardInterrupt
            if run.ended == "diverged" or run.first_rise is not None:
                return False
            return not lr * sharpness(gradient, model.factors(run.final, data.dim)) > 2

        rate = 1.0
        while not monotone(rate):
            rate /= 2
        while rate >= 1 and monotone(2 * rate):
            rate *= 2
        return rate


def _data_and_gradient(model: Model, data: Data) -> tuple[Data, Gradient]:
    """Return the data (their averages, for a linear model) and a function for the gradient of their loss."""
    if model.linear:
        from iclcore.engines.linear import gradient

        averages = moments.averages(data, model)
        return averages, lambda factors: gradient(factors, averages)
    if not model.softmax:
        raise BadValue("model", "takes linear or softmax models")
    from iclcore.engines.softmax import QueryRow

    row = QueryRow(model, only_sequences("data", data))
    return data, lambda factors: row.gradient(factors)[1]


def sharpness(gradient: Gradient, factors: Factors) -> float:
    """Return the largest eigenvalue of the Hessian, by the Lanczos method on differences of gradients.

    The result is nan if the Lanczos method does not converge.
    """
    with needs():
        from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

    weights = flat(factors)
    size = DIFFERENCE * np.linalg.norm(weights)

    def slope(shift: np.ndarray) -> np.ndarray:
        return flat(gradient(tuple(parted(weights + shift, factors))))

    def hessian_times(direction: np.ndarray) -> np.ndarray:
        length = np.linalg.norm(direction)
        shift = size / length * direction.ravel()
        return (slope(shift) - slope(-shift)) * (length / (2 * size))

    hessian = LinearOperator((len(weights), len(weights)), matvec=hessian_times, dtype=float)
    first = np.random.default_rng(0).standard_normal(len(weights))
    try:
        largest = eigsh(hessian, 1, which="LA", v0=first, tol=1e-3, return_eigenvectors=False)
    except ArpackError:
        return np.nan
    return float(largest[0])
