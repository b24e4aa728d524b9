"""Generated calls of the public Python: each gives finite numbers, or one line that names an argument.

    python tests/attack/calls.py COUNT

A process of its own: the tests' checks of shapes would refuse wrong types in the package's place.
"""

import inspect
import re
import sys
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import iclcore
from iclcore import (
    CubicMLP,
    History,
    MergedAttention,
    RegressionTask,
    SeparateAttention,
    Sequences,
    published,
    theory,
    train,
)
from iclcore.heads import theory as several
from iclcore.optimisers import Adam, GradientDescent
from iclcore.sweep import Plan

RNG = np.random.default_rng(0)
ODD = st.sampled_from(
    [None, True, False, -1, 0, 1, 2, 1.5, -0.0, np.nan, np.inf, -np.inf, 1e-320, 1e308, 10**30, -(10**30),
     2 + 1j, "", "linear", "one", "x", b"x", (), [], {}, set(), object(), print, int, np.int64(3),
     np.float32(0.5), np.bool_(True), np.array(2.0), np.array([]), np.ones(3), np.ones((3, 3)),
     np.ones((2, 3, 2)), np.full((3, 4, 2), np.nan), np.array(["a"]), np.array([None]), range(3),
     [1, 2, 3], (1.0, "a"), [[1.0], [1.0, 2.0]], {"value": 3}, RegressionTask(dim=2), MergedAttention(),
     RegressionTask]
)  # fmt: skip
WHOLE = st.integers(1, 4)
# what a formula is given is of the right type: of another, Python's own error says so
FLOATS = st.sampled_from(
    [-1.0, 0.0, -0.0, np.nan, np.inf, -np.inf, 1e-320, 1e308, 1e-12, 0.5, 1.0, 7.0]
)
START = st.sampled_from(
    [None, {}, 1.0, {"key": 1.0}, MergedAttention().start(2), SeparateAttention().start(4)]
)
HEADS = st.sampled_from([-1, 0, 1.5, np.nan, np.inf, "1", True, [1], np.int64(2)])
NUMBER = st.sampled_from([1e-6, 0.01, 0.3, 1.0, 2.0, 50.0, 1e-150, 1e150])


def call(
    made: Callable, odd: st.SearchStrategy = ODD, **known: st.SearchStrategy
) -> st.SearchStrategy[partial]:
    """A call with the required and some other arguments, of which at most one is odd."""
    least = [name for name in known if parameters(made)[name].default is inspect.Parameter.empty]
    wrong = st.none()
    if changed := sorted(set(known) - {"task", "time"} if odd is not ODD else known):
        wrong = st.one_of(wrong, st.tuples(st.sampled_from(changed), odd))

    def build(values: dict, odd: tuple | None) -> partial:
        return partial(made, **(values | ({odd[0]: odd[1]} if odd else {})))

    rest = {name: each for name, each in known.items() if name not in least}
    given_values = st.fixed_dictionaries({name: known[name] for name in least}, optional=rest)
    return st.builds(build, given_values, wrong)


def parameters(made: Callable) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(made).parameters)


MODEL = st.sampled_from(
    [MergedAttention(), MergedAttention(3, divisor="context"), SeparateAttention(2),
     SeparateAttention(2, rank=2), CubicMLP(2), MergedAttention(2, softmax=True),
     SeparateAttention(2, softmax=True)]
)  # fmt: skip
TASK = st.sampled_from(
    [RegressionTask(dim=2, context=3), RegressionTask(dim=1, context=1),
     RegressionTask(dim=3, context=5, noise=0.3), RegressionTask(dim=2, context=4, outputs=2),
     RegressionTask(spectrum=(3.0, 1.0, 1e-3), context=6),
     RegressionTask(dim=2, context=5, spectrum="white"), RegressionTask(dim=2, context=4, in_context=0.5),
     RegressionTask(dim=2, context=4, every_length=True)]
)  # fmt: skip
SEVERAL = st.sampled_from(
    [
        several.MultiTask((2, 2), 10),
        several.MultiTask((1,), 2),
        several.MultiTask((1, 2, 3), 20, noise=0.5),
    ]
)
DATA = st.one_of(
    TASK,
    st.builds(lambda task, n: task.sample(n), TASK, WHOLE),
    st.builds(lambda task: iclcore.moments.of_population(task, MergedAttention()), TASK),
)
ARRAY = st.sampled_from([RNG.standard_normal((3, 4, d)) for d in (1, 2)])
CALLS = {
    "tasks": call(
        RegressionTask, dim=WHOLE, context=WHOLE, outputs=WHOLE, in_context=st.floats(0, 1), noise=NUMBER,
        spectrum=st.sampled_from(["linear", "power", "white", (2.0, 1.0), [3, 2, 1]]), seed=WHOLE,
        every_length=st.booleans(), basis=st.sampled_from([np.eye(2), [[0, 1], [1, 0]]]),
    ),
    "tasks of several heads": call(
        several.MultiTask, dims=st.lists(WHOLE, min_size=1, max_size=3),
        context=st.integers(2, 9), noise=NUMBER,
        signal=st.one_of(NUMBER, st.lists(NUMBER, min_size=1, max_size=3))),
    "covariances": call(
        RegressionTask.of_covariance,
        covariance=st.sampled_from([np.eye(2), [[2, 1], [1, 2]], np.ones((2, 2))])),
    "sequences": call(Sequences, x=ARRAY, y=ARRAY, every_length=st.booleans()),
    "draws": call(
        published.sample, task=TASK, sequences=st.integers(1, 9), seed=WHOLE, test=st.integers(0, 5)),
    "merged": call(
        MergedAttention, heads=WHOLE, init=NUMBER, divisor=st.sampled_from(["one", "context", "tokens"]),
        softmax=st.booleans()),
    "separate": call(SeparateAttention, heads=WHOLE, init=NUMBER, rank=WHOLE, softmax=st.booleans()),
    "descent": call(GradientDescent, momentum=st.floats(0, 1), weight_decay=NUMBER),
    "adam": call(Adam, weight_decay=NUMBER),
    "trainings": call(
        train, model=MODEL, data=DATA, steps=st.integers(1, 12), lr=NUMBER,
        optimizer=st.sampled_from([GradientDescent(0.9), Adam()]), batch=WHOLE, seed=WHOLE,
        tests=st.dictionaries(st.sampled_from(["a", "b"]), DATA, max_size=1), snapshots=WHOLE,
        engine=st.sampled_from(["auto", "moments", "population", "autograd", "published"]),
        start=st.just(MergedAttention().start(2))),
    "plans": call(
        Plan, data=st.one_of(TASK, st.builds(lambda task: task.sample(5), TASK)), model=MODEL,
        sequences=st.integers(1, 9), tests=st.integers(0, 4), steps=WHOLE, lr=NUMBER, seed=WHOLE,
        values=st.booleans(), engine=st.sampled_from(["auto", "moments", "population"])),
    "levels": call(theory.plateau_losses, data=DATA),
    "staircases": call(theory.staircase, START, task=TASK, start=st.just(SeparateAttention(2).start(2))),
    "head courses": call(
        theory.head_course, FLOATS, task=TASK, component=st.integers(0, 1),
        time=st.just(np.linspace(0, 9, 4)), s0=NUMBER, divisor=st.sampled_from(["one", "context"])),
    "white courses": call(
        theory.white_course, FLOATS, task=TASK, c0=NUMBER, time=st.just(np.linspace(0, 9, 4)),
        divisor=st.sampled_from(["one", "context"])),
    "escapes": call(
        theory.escape_time, FLOATS, task=TASK, component=st.integers(0, 1), s0=NUMBER),
    "drop times": call(theory.drop_time, FLOATS, task=TASK, c0=NUMBER),
    "regressions": call(theory.pcr_predictor, FLOATS, task=TASK, components=st.integers(0, 2)),
    "limits": call(several.limit, FLOATS, task=SEVERAL),
    "starts": call(several.aligned_start, HEADS, task=SEVERAL, heads=WHOLE),
}  # fmt: skip
ALL = st.sampled_from(sorted(CALLS)).flatmap(lambda name: st.tuples(st.just(name), CALLS[name]))


FIELDS = parameters(RegressionTask)  # of its task a formula may ask for more


def numbers(value: object) -> list[np.ndarray]:
    """All floats in a result."""
    if isinstance(value, History):
        rows = slice(None, -1 if value.ended == "diverged" else None)
        return [series[rows] for series in value.series.values()]
    if isinstance(value, np.ndarray):
        return [value] if value.dtype.kind == "f" else []
    if isinstance(value, float):
        return [np.array(value)]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [found for each in value for found in numbers(each)]
    return []


def ends_well(made: partial) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="the loss ")
        try:
            result = made()
        except (ValueError, TypeError) as error:
            said = str(error)
            named = {*parameters(made.func), *FIELDS} & set(re.findall(r"\w+", said))
            assert "\n" not in said and named, f"{type(error).__name__}: {said}"
            return
    hash(result) if isinstance(result, RegressionTask | Plan) else repr(result)
    for found in numbers(result):
        assert np.isfinite(found).all(), result
    if isinstance(result, RegressionTask):
        assert np.isfinite(result.covariance).all() and (result.eigenvalues > 0).all()


def main(count: int) -> None:
    @settings(max_examples=count, derandomize=True, deadline=None, database=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(ALL)
    def attack(each):
        ends_well(each[1])

    attack()


if __name__ == "__main__":
    main(int(sys.argv[1]))
