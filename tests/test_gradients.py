"""Finite differences, autograd, moments and MLP(z) give the same gradient at random weights."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import close
from hypothesis import given
from hypothesis import strategies as st

from iclcore import CubicMLP, MergedAttention, RegressionTask, SeparateAttention
from iclcore.engines.autograd import mean_loss, tensors
from iclcore.engines.linear import MomentEngine, gradient
from iclcore.engines.softmax import WIDTH, QueryRow
from iclcore.loops import symmetric_product
from iclcore.models import Model
from iclcore.modules import module
from iclcore.moments import Moments, coefficients, mix, of_population, of_sequences
from iclcore.task import Sequences

MODELS = (
    MergedAttention(heads=3, init=0.5),
    MergedAttention(heads=2, init=0.5, divisor="context"),
    SeparateAttention(heads=4, rank=1, init=0.7),
    SeparateAttention(heads=2, rank=3, init=0.7, divisor="tokens"),
    CubicMLP(heads=3, init=0.5),
)
TASKS = (
    RegressionTask(dim=3, context=5),
    RegressionTask(dim=2, context=4, outputs=2, spectrum="power", in_context=0.5),
    RegressionTask(dim=3, context=4, every_length=True, in_context=0.0),
)


def everywhere(model: Model, dim: int, outputs: int, seed: int = 0) -> dict:
    """Return weights that are zero nowhere, unlike those of a start."""
    rng = np.random.default_rng(seed)
    shapes = {layer.name: (layer.count, *layer.shape) for layer in model.layers(dim, outputs)}
    return {name: 0.5 * rng.standard_normal(shape) for name, shape in shapes.items()}


def naive_loss(model: Model, weights: dict, data: Sequences) -> float:
    """Return the loss by the published definition, in plain loops over context lengths and heads."""
    total = []
    for tokens, target in data.prefixes():
        outputs = target.shape[1]
        output = np.zeros_like(tokens)
        if isinstance(model, CubicMLP):
            dim = tokens.shape[2] - outputs
            second_moment = np.einsum("pma,pmb->pab", tokens, tokens)
            z = np.einsum("pa,pd->pad", second_moment[:, :dim, -1], tokens[:, -1, :dim])
            hidden = z.reshape(len(z), -1) @ weights["first"][0].T
            prediction = hidden @ weights["second"][0].T
        else:
            for h in range(model.heads):
                if "key_query" in weights:
                    score = tokens @ weights["key_query"][h] @ tokens.transpose(0, 2, 1)
                else:
                    query, key = weights["query"][h], weights["key"][h]
                    score = (tokens @ query.T) @ (tokens @ key.T).transpose(0, 2, 1)
                if model.softmax:
                    score = np.exp(score - score.max(axis=2, keepdims=True))
                    score /= score.sum(axis=2, keepdims=True)
                output += score @ (tokens @ weights["value"][h].T)
            prediction = output[:, -1, -outputs:]
        divisor = {"one": 1, "context": tokens.shape[1] - 1, "tokens": tokens.shape[1]}
        total.append(np.mean((prediction / divisor[model.divisor] - target) ** 2))
    return float(np.mean(total))


def by_differences(model: Model, weights: dict, data: Sequences, step: float = 1e-5) -> dict:
    """Return central differences of the naive loss. Their error is step² times the third derivative."""
    slopes = {name: np.zeros_like(array) for name, array in weights.items()}
    for name, array in weights.items():
        for place in np.ndindex(array.shape):
            ends = []
            for sign in (1, -1):
                moved = {key: value.copy() for key, value in weights.items()}
                moved[name][place] += sign * step
                ends.append(naive_loss(model, moved, data))
            slopes[name][place] = (ends[0] - ends[1]) / (2 * step)
    return slopes


def by_autograd(model: Model, weights: dict, data: Sequences) -> tuple[float, dict]:
    net = module(model, weights, data.y.shape[2])
    loss = mean_loss(net.predict, tensors(net, data))
    loss.backward()
    slopes = {n: np.stack([matrix.grad.numpy() for matrix in getattr(net, n)]) for n in weights}
    return loss.item(), slopes


def embed(model: Model, parts, like: dict, dim: int) -> dict:
    """Return gradients of the factors at their places in the weights. The other weights cannot move."""
    full = {name: np.zeros_like(array) for name, array in like.items()}
    for view, part in zip(model.factors(full, dim), parts, strict=True):
        view[...] = part
    return full


@pytest.mark.parametrize("task", TASKS, ids=lambda t: f"D{t.dim}O{t.outputs}icl{t.in_context}")
@pytest.mark.parametrize("model", MODELS, ids=lambda m: f"{type(m).__name__}-{m.divisor}")
def test_gradients_agree(model, task):
    data = task.sample(11, seed=3)
    weights = everywhere(model, task.dim, task.outputs)
    moments = of_sequences(data, model)
    factors = model.factors(weights, task.dim)

    loss, slopes = by_autograd(model, weights, data)
    close(naive_loss(model, weights, data), loss)
    close(moments.loss(coefficients(factors, moments.features)), loss)
    by_moments = embed(model, gradient(factors, moments), weights, task.dim)
    differences = by_differences(model, weights, data)
    for name, slope in slopes.items():
        close(by_moments[name], slope)
        # The errors are step²/6 = 2e-11 times a third derivative and round-off/step = 1e-11 times a loss, and
        # both are below a hundred.
        close(differences[name], slope, within=1e-8)

    # the compiled step is weights − lr · gradient
    moved = {name: array.copy() for name, array in weights.items()}
    recorded, _, values = MomentEngine(model, moved, moments, [], lr=0.1).advance(1)
    close(recorded, [loss])
    close(values[0], factors[-1][:, -1, -1])
    for name, slope in slopes.items():
        close(moved[name], weights[name] - 0.1 * slope)


def test_merged_attention_is_mlp_of_z():
    """In the paper's subspace both networks have the same loss and the same gradient (Figure 1)."""
    task = RegressionTask(dim=3, context=6)
    data = task.sample(20)
    attention, mlp = MergedAttention(heads=4, init=0.3), CubicMLP(heads=4, init=0.3)
    weights = attention.start(3, seed=5)
    w, v = attention.factors(weights, 3)
    first = w[:, :, :3].transpose(0, 2, 1).reshape(1, 4, 9)
    same = {"first": first.copy(), "second": v[:, 0, -1][None, None].copy()}
    loss, slopes = by_autograd(attention, weights, data)
    loss_mlp, slopes_mlp = by_autograd(mlp, same, data)
    close(loss_mlp, loss)
    dw, dv = attention.factors(slopes, 3)
    close(slopes_mlp["first"][0].reshape(4, 3, 3), dw[:, :, :3].transpose(0, 2, 1))
    close(slopes_mlp["second"][0, 0], dv[:, 0, -1])


def assert_softmax_gradient(model: Model, weights: dict, data: Sequences) -> None:
    """Compare with autograd. The engine computes blocks in float32, and numbers of order one are rounded at
    2⁻²⁴ sixteen times one after another."""
    factors = model.factors(weights, data.dim)
    loss, slopes = by_autograd(model, weights, data)
    error, found = QueryRow(model, data).gradient(factors)
    close(error, loss, within=1e-6)
    for slope, known in zip(found, model.factors(slopes, data.dim), strict=True):
        close(slope, known, within=1e-6)


SOFTMAX = (
    MergedAttention(heads=3, init=0.8, softmax=True),
    SeparateAttention(heads=3, rank=2, init=1.0, softmax=True, divisor="tokens"),
)


@pytest.mark.parametrize("model", SOFTMAX, ids=["merged", "separate"])
@pytest.mark.parametrize("every_length", [False, True], ids=["whole", "every_length"])
def test_softmax_rows_are_autograd(model, every_length):
    task = RegressionTask(dim=3, context=7, outputs=2, every_length=every_length)
    data = task.sample(150)  # more than a block, not a multiple of it
    weights = everywhere(model, 3, 2)
    close(naive_loss(model, weights, data), by_autograd(model, weights, data)[0])
    for part in (data, data[:7]):
        assert_softmax_gradient(model, weights, part)


@pytest.mark.parametrize("dim, context", [(1, 1), (2, 4), (20, 9)])
def test_softmax_of_other_sizes(dim, context):
    """The engine takes four tokens at a time, so other numbers of tokens must work too."""
    model = MergedAttention(heads=2, init=0.3, softmax=True, divisor="context")
    data = RegressionTask(dim=dim, context=context).sample(9)
    assert_softmax_gradient(model, model.start(dim, seed=1), data)


def test_softmax_of_large_scores():
    """One token has all the attention, where e^score is infinite in float32."""
    model = MergedAttention(heads=1, init=1.0, softmax=True)
    data = RegressionTask(context=7).sample(20)
    weights = model.start(4, seed=1)
    weights["key_query"] *= 1e4
    error, _ = QueryRow(model, data).gradient(model.factors(weights, 4))
    # a score rounds to 2⁻²⁴ of its size, which is some thousands here
    close(error, by_autograd(model, weights, data)[0], within=1e-3)


def test_softmax_has_the_same_bits_on_any_thread():
    model, task = MergedAttention(heads=3, init=0.8, softmax=True), RegressionTask(context=7)
    row, factors = QueryRow(model, task.sample(5 * WIDTH + 3)), model.factors(model.start(4), 4)

    def bits(_):
        error, slopes = row.gradient(factors)
        return error, *(slope.tobytes() for slope in slopes)

    with ThreadPoolExecutor(3) as threads:
        assert len({bits(0), *threads.map(bits, range(20))}) == 1


# -- invariances ----------------------------------------------------------------------------------


def loss_of(model: Model, weights: dict, moments: Moments) -> float:
    factors = model.factors(weights, moments.features.dim)
    return moments.loss(coefficients(factors, moments.features))


@given(*(st.integers(1, most) for most in (4, 3, 4, 3)), st.integers(0, 99))
def test_symmetries(dim, outputs, heads, rank, seed):
    rng = np.random.default_rng(seed)
    data = RegressionTask(dim=dim, context=3, outputs=outputs).sample(8, seed=seed)
    model = SeparateAttention(heads=heads, rank=rank)
    weights = everywhere(model, dim, outputs, seed)
    moments = of_sequences(data, model)
    loss = loss_of(model, weights, moments)

    order = rng.permutation(heads)
    permuted = {name: array[order] for name, array in weights.items()}
    close(loss_of(model, permuted, moments), loss)

    scale = rng.uniform(0.5, 2, size=(heads, 1, 1))  # v → c v, K → K/c
    rescaled = {**weights, "value": weights["value"] * scale, "key": weights["key"] / scale}
    close(loss_of(model, rescaled, moments), loss)

    rotation = np.eye(dim + outputs)  # x → x R, and so the part of the weights that reads x
    rotation[:dim, :dim] = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    turned = {name: array @ rotation for name, array in weights.items()}
    rotated = Sequences(data.x @ rotation[:dim, :dim], data.y)
    close(loss_of(model, turned, of_sequences(rotated, model)), loss)

    cut = int(rng.integers(1, 8))
    halves = [of_sequences(part, model) for part in (data[:cut], data[cut:])]
    joined = mix([(cut, halves[0]), (8 - cut, halves[1])])
    for other in (of_sequences(data, model, chunk=3), joined):
        close(other.gram, moments.gram)
        close(other.cross, moments.cross)
        close(other.power, moments.power)


@given(st.integers(1, 40), st.integers(0, 99))
def test_symmetric_product(size, seed):
    rng = np.random.default_rng(seed)
    a, x, y = rng.standard_normal((size, size)), rng.standard_normal(size), np.empty(size)
    a += a.T
    symmetric_product(np.tril(a), x, y)
    close(y, a @ x)


@pytest.mark.parametrize("in_context", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(
    "outputs, every_length, noise", [(1, False, 0), (2, False, 0), (1, True, 0), (2, False, 0.8)]
)
def test_population_moments_are_the_limit(in_context, outputs, every_length, noise):
    """They agree with the mean over 40 sets of 2,000 sequences, within standard errors of that mean."""
    settings = {"outputs": outputs, "every_length": every_length, "noise": noise}
    task = RegressionTask(dim=2, context=3, in_context=in_context, seed=1, **settings)
    model = MergedAttention(divisor="context")
    exact = of_population(task, model)
    parts = [of_sequences(task.sample(2000, seed=s), model) for s in range(40)]
    for name in ("gram", "cross", "power"):
        samples = np.stack([np.asarray(getattr(part, name)) for part in parts])
        error = samples.std(axis=0, ddof=1) / np.sqrt(len(parts)) + 1e-12
        score = np.abs(samples.mean(axis=0) - getattr(exact, name)) / error
        # the largest of at most 225 entries, by Student's t distribution with 39 degrees of freedom
        assert score.max() < 5, (name, score.max())


def test_the_floor_of_equal_sequences_is_found():
    """Their gram matrix has rank one. If a tenth of ε were added to its diagonal, some would fail."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = np.repeat(rng.standard_normal((1, 6, 2)), 50, axis=0)
        data = Sequences(x, x @ rng.standard_normal((1, 2, 1)))
        close(of_sequences(data, SeparateAttention()).floor(), 0.0)


@pytest.mark.parametrize("sequences", [7, 12, 50])
def test_floor_is_least_squares(sequences):
    """There are 12 features. With fewer sequences, the gram matrix has no inverse."""
    data = RegressionTask(dim=2, context=4).sample(sequences)
    ((tokens, target),) = data.prefixes()
    second = tokens.transpose(0, 2, 1) @ tokens
    full = (tokens[:, -1, :2, None, None] * second[:, None]).reshape(sequences, -1)
    residual = target - full @ np.linalg.lstsq(full, target, rcond=None)[0]
    close(of_sequences(data, MergedAttention()).floor(), np.mean(residual**2))
