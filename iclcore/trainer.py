"""``train`` trains a model on data and records every step."""

import signal
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from numbers import Integral
from operator import index
from threading import Event, current_thread, main_thread

import numpy as np

from iclcore.bars import Bar
from iclcore.checks import BadValue, instance, numbers, positive, shown, whole
from iclcore.engines import ENGINES, choose
from iclcore.engines.base import Engine
from iclcore.history import History, describe
from iclcore.models import Model, Weights, copied, trainable
from iclcore.moments import Data, Moments, averages, features
from iclcore.optimisers import PLAIN, Optimizer
from iclcore.task import RegressionTask, Sequences

Callback = Callable[[int, float], object]
BLOCK_SECONDS = 0.1  # duration of a block of steps; the bar and Ctrl-C wait for its end


def train(
    model: Model,
    data: Data,
    steps: int,
    lr: float,
    *,
    optimizer: Optimizer = PLAIN,
    batch: int | None = None,
    start: Weights | None = None,
    seed: int | None = None,
    tests: Mapping[str, Data] | None = None,
    snapshots: int | Sequence[int] | np.ndarray = (),
    engine: str = "auto",
    callback: Callback | None = None,
) -> History:
    """Train a model and return the History of the run.

    - ``model``: MergedAttention, SeparateAttention or CubicMLP, or a model of your own.
    - ``data``: Sequences, a RegressionTask, or Moments of either. A task stands for infinitely many of its
      sequences: linear models are trained on the average over all of them, and nothing is sampled.
    - ``steps``: the number of steps.
    - ``lr``: the learning rate; ``stability`` says which rates are too large.
    - ``optimizer``: GradientDescent (the default) or Adam.
    - ``batch``: draw this many fresh sequences of the task at each step; needs a linear model.
    - ``start``: the initial weights. If they are not given, they are drawn from ``seed``. There is one
      exception: sequences from ``published.sample`` come with the initial weights of the published code, and
      these are used unless a ``seed`` is given.
    - ``seed``: the seed of the initial weights and of fresh sequences; 0 if it is not given.
    - ``tests``: further data by name; the error on each is recorded at every step under that name. Without
      them, the ``tests`` of Sequences are used, under names that begin with ``test_``.
    - ``snapshots``: the steps at which to keep all weights; a number n means every n steps.
    - ``engine``: "auto" chooses "moments" for linear models (or "population" for a task of many dimensions),
      "softmax" for softmax attention, and "autograd", the slow reference, for the rest. "published" repeats
      the operations of the first paper's code in float32.
    - ``callback``: a function ``callback(step, loss)``, called about ten times a second with the number of
      steps done and the last loss recorded. If it returns True, the run ends.

    The history holds the loss, the value weight of each head and the test errors, recorded before every step.
    It also holds the first and the last weights. The run ends early if the loss is no longer finite, on
    Ctrl-C, or if the callback returns True; the history then holds what was recorded until the end. A warning
    says if the loss rose or stopped being finite. A run of more than a second shows a bar with its loss, on a
    terminal and in a notebook, unless the environment variable TQDM_DISABLE is set.
    """
    trainable("model", model)
    instance("data", data, Sequences, RegressionTask, Moments)
    tests = test_sets(data) if tests is None else dict(instance("tests", tests, Mapping))
    steps, lr = int(whole("steps", steps)), float(positive("lr", lr))
    seed = None if seed is None else int(whole("seed", seed, least=0))
    snapshots = _snapshot_steps(snapshots, steps)
    task = data if isinstance(data, RegressionTask) else None
    sizes = None if isinstance(data, Moments) else (data.dim, data.outputs)
    engine = choose(model, engine, sizes, task, optimizer)
    fresh = {} if batch is None else {"batch": int(whole("batch", batch))}
    if fresh and not (task and engine == "moments"):
        raise BadValue("batch", "takes a task as data, to draw sequences from, and a linear model")
    check_data(model, data, tests, engine)
    weights = _initial_weights(model, data, start, seed, engine)
    settings = {} if seed is None else {"seed": seed}
    settings |= describe(*filter(None, [task or data.task, model, optimizer]))
    if not (task or data.task):
        settings |= {"dim": data.dim, "outputs": data.outputs}
    settings |= fresh | {"steps": steps, "lr": lr}

    clocks, first = [time.perf_counter()], copied(weights)
    sets = {"loss": data, **tests}
    if engine == "moments":
        sets = {name: averages(dataset, model) for name, dataset in sets.items()}
    clocks.append(time.perf_counter())
    new_engine = ENGINES[engine].engine()
    if fresh:
        from iclcore.engines.linear import BatchEngine

        new_engine = partial(BatchEngine, **fresh, seed=seed or 0)
    run = new_engine(model, weights, sets["loss"], [sets[n] for n in tests], lr, optimizer)
    run.load()
    clocks.append(time.perf_counter())
    with delayed_interrupt() as interrupted:
        blocks, kept, ended = _advance(run, steps, snapshots, callback, interrupted)
        clocks.append(time.perf_counter())
        loss, errors, values = (np.concatenate(part) for part in zip(*blocks, strict=True))
        seconds = zip(("moments", "loading", "descent"), np.diff(clocks).tolist(), strict=True)
        history = History(
            series=dict(zip(sets, [loss, *errors.T], strict=True)) | {"value": values},
            settings=settings,
            ended=ended,
            engine=engine,
            moments=sets["loss"] if engine == "moments" and not fresh else None,
            floor_found=run.floor,
            seconds=dict(seconds),
            kept=np.array(list(kept), dtype=int),
            snapshots={n: np.stack([w[n] for w in kept.values()]) for n in weights if kept},
            start=first,
            final=copied(run.weights),
        )
    if problem := _problem(history, data):
        warnings.warn(problem, stacklevel=2)
    return history


class _Interruption(Event):
    """An event that is also a signal handler: it is set when the signal arrives."""

    def __call__(self, *_: object) -> None:
        self.set()


@contextmanager
def delayed_interrupt() -> Iterator[Event]:
    """Yield an event that Ctrl-C sets, instead of raising KeyboardInterrupt at any place in the code.

    Therefore every step that was taken is recorded, and every file is written completely. A nested use yields
    the event of the outer use. Python delivers signals to the main thread only, so the event is never set in
    any other thread.
    """
    if current_thread() is not main_thread():
        yield Event()
        return
    before = signal.getsignal(signal.SIGINT)
    event = before if isinstance(before, _Interruption) else _Interruption()
    signal.signal(signal.SIGINT, event)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)


def _snapshot_steps(snapshots: int | Sequence[int] | np.ndarray, steps: int) -> set[int]:
    if isinstance(snapshots, Integral):
        snapshots = range(0, steps + 1, whole("snapshots", snapshots))
    chosen = {index(step) for step in snapshots}
    if chosen and not 0 <= min(chosen) <= max(chosen) <= steps:
        raise BadValue("snapshots", f"takes steps from 0 to {steps}, not {shown(sorted(chosen))}")
    return chosen


def test_sets(data: Data) -> dict[str, Data]:
    """Return the held-out sequences of the data by the names under which their errors are recorded."""
    tests = data.tests if isinstance(data, Sequences) else {}
    return {f"test_{name}": sequences for name, sequences in tests.items()}


def check_data(model: Model, data: Data, tests: dict[str, Data], engine: str) -> None:
    """Check that the engine and the model accept the data, and that all data sets have the same sizes."""
    for name in tests:  # each name becomes the name of a column in a CSV file
        if (
            not name.isidentifier()
            or name in ("step", "loss", "value")
            or name.rpartition("_")[2].isdigit()
        ):
            takes = "takes names other than step, loss and value, without a number at the end"
            raise BadValue("tests", f"{takes}, not {name!r}")
    if tests and engine == "population":
        raise BadValue("tests", "takes none with engine population; engine moments accepts them")
    accepted, expected = ENGINES[engine].data, features(model, data.dim, data.outputs)
    for name, dataset in [("data", data), *tests.items()]:
        if not isinstance(dataset, accepted):
            takes = f"takes {' or '.join(each.__name__ for each in accepted)} as {name}"
            hint = "; task.sample(5000) draws some" if isinstance(dataset, RegressionTask) else ""
            raise BadValue("engine", f"{engine} {takes}, not {type(dataset).__name__}{hint}")
        if (dataset.dim, dataset.outputs) != (data.dim, data.outputs):
            takes = f"takes sets with the dim and outputs of data, {data.dim} and {data.outputs}"
            raise BadValue("tests", f"{takes}; {name} has {dataset.dim} and {dataset.outputs}")
        if isinstance(dataset, Moments) and dataset.features != expected:
            raise BadValue(name, f"takes averages of the features of {type(model).__name__}")


def _initial_weights(
    model: Model, data: Data, start: Weights | None, seed: int | None, engine: str
) -> Weights:
    """Return the initial weights as new arrays, which the engine may change in place."""
    dim, outputs = data.dim, data.outputs
    if start is None and seed is None and isinstance(data, Sequences) and data.starts:
        start = data.starts(model)
    elif start is None:
        start = model.start(dim, outputs, seed or 0, answer_rows_only=engine == "population")
    instance("start", start, Mapping)
    weights = {n: np.array(numbers(f"start {n}", w), dtype=float) for n, w in start.items()}
    full = {layer.name: (layer.count, *layer.shape) for layer in model.layers(dim, outputs)}
    allowed = [full]
    if engine in ("moments", "population"):  # these need only the value rows that reach the answer
        allowed.append(full | {"value": (model.heads, outputs, dim + outputs)})
    if (shapes := {name: array.shape for name, array in weights.items()}) not in allowed:
        raise BadValue("start", f"takes arrays of shapes {full}, not {shapes}")
    return weights


def _advance(
    engine: Engine, steps: int, snapshots: set[int], callback: Callback | None, interrupted: Event
) -> tuple[list[tuple[np.ndarray, ...]], dict[int, Weights], str]:
    """Train for ``steps`` steps; return the records of all blocks, the snapshots, and how the run ended.

    The engine advances from one snapshot to the next in blocks of steps. The blocks are short, so that the
    bar moves smoothly and Ctrl-C takes effect soon.
    """
    blocks, kept, done, size, ended = [], {}, 0, 1, "finished"
    with Bar(steps, "steps") as bar:
        for stop in sorted(snapshots | {steps}):
            while done < stop and ended == "finished":
                clock = time.perf_counter()
                blocks.append(engine.advance(min(size, stop - done)))
                count, loss = len(blocks[-1][0]), float(blocks[-1][0][-1])
                per_second = count / max(time.perf_counter() - clock, 1e-9)
                size = max(1, int(min(4 * size, BLOCK_SECONDS * per_second)))
                done += count
                bar.show(done, f"loss {loss:.4g}")
                answer = callback(done, loss) if callback else None
                if not np.isfinite(loss):
                    ended = "diverged"
                elif interrupted.is_set() and done < steps:
                    ended = "interrupted"
                elif isinstance(answer, bool | np.bool_) and answer and done < steps:
                    ended = "stopped"
            if done == stop and stop in snapshots:
                kept[stop] = copied(engine.weights)
    return blocks, kept, ended


def _problem(history: History, data: Data) -> str | None:
    """Return a warning if the loss rose or stopped being finite: at which step, and what to do about it."""
    if history.ended == "diverged":
        problem = f"stopped being finite at step {history.steps[-1]}"
    elif history.first_rise is not None:
        problem = f"rose at step {history.first_rise}"
    else:
        return None
    advice = "iclcore.stability.monotone_rate finds a smaller one for this many steps"
    if isinstance(data, Sequences) and data.starts and history.engine != "published":
        advice += '; engine="published" on a draw with torch_bits=True repeats the authors\' run'
    return f"the loss {problem}, because lr = {history.lr:g} is too large: {advice}"
