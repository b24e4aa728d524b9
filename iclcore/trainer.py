"""``train``: a model, data, a number of steps; the engine that is exact and fast for them."""

import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from operator import index
from threading import Event

import numpy as np

from iclcore.checks import SINGLE, instance, numbers, positive, said, whole
from iclcore.engines import ENGINES, choose
from iclcore.engines.base import Engine
from iclcore.history import History, describe
from iclcore.interrupts import noted
from iclcore.models import Model, Weights, copied, feature_count, trainable
from iclcore.moments import Data, Moments, averages, of_sequences
from iclcore.optimisers import PLAIN, Optimizer
from iclcore.task import RegressionTask, Sequences

AVERAGED = ("moments", "population")
TAKEN = ("step", "loss", "value")  # columns of every run
BLOCK_SECONDS = 0.1  # one step, then as many as take about this long


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
    progress: Callable[[int], object] | None = None,
) -> History:
    """Descent on sequences, on a task's population or on averages of either, by gradient descent or
    another ``optimizer``; with a ``batch``, on so many fresh sequences of a task at each step.

    It begins at ``start``; without one where the published code does on a published draw, else, or
    with a ``seed``, at weights drawn from that (0), as fresh sequences are. Linear models run on moments, a
    task of many dimensions on its closed form (``population``), softmax on the query's row by gradient
    descent, else by ``autograd``, which runs the torch module; ``published`` runs the operations of the
    first paper's code in float32. Recorded at every step: loss, each head's value weight, the error on
    each of ``tests``; all weights at ``snapshots`` (steps, or a number: each so many) and at the end.
    ``progress`` is told of steps as they are done, instead of a bar on the terminal. A loss that stops
    being finite ends the run, and a warning says so; Ctrl-C keeps what was recorded.
    """
    trainable("model", model)
    steps, lr = int(whole("steps", steps)), float(positive("lr", lr, SINGLE))
    if seed is not None:
        seed = int(whole("seed", seed, least=0))
    if isinstance(snapshots, Integral):
        snapshots = range(0, steps + 1, whole("snapshots", snapshots))
    try:
        snapshots = sorted({index(s) for s in snapshots})
    except TypeError:
        raise ValueError(f"snapshots takes steps, not {said(snapshots)}") from None
    if snapshots and not 0 <= snapshots[0] <= snapshots[-1] <= steps:
        raise ValueError(f"snapshots takes steps from 0 to {steps}, not {snapshots}")
    for name, value in {"start": start, "tests": tests}.items():
        if value is not None:
            instance(name, value, Mapping)
    tests = dict(tests or {})
    for name, each in {"data": data, **tests}.items():
        instance(name, each, Sequences, RegressionTask, Moments)
    for name in tests:
        if not name.isidentifier() or name in TAKEN or name.rpartition("_")[2].isdigit():
            raise ValueError(
                f"tests takes names that can head a column of their own, not {name!r}: no "
                f"{', '.join(TAKEN)}, and no number at the end"
            )
    sets = {"loss": data, **tests}
    sizes = None if isinstance(data, Moments) else (data.dim, data.outputs)
    task = data if isinstance(data, RegressionTask) else None
    kind = choose(model, engine, sizes, task, optimizer)
    fresh = {}
    if batch is not None:
        fresh["batch"] = int(whole("batch", batch))
        if task is None or kind != "moments":
            raise ValueError("batch takes a task as data, from which to draw, and a linear model")
    if kind not in AVERAGED and not all(isinstance(each, Sequences) for each in sets.values()):
        raise ValueError(f"engine {kind} takes sequences as data and tests, not averages")
    if tests and kind == "population":
        raise ValueError("tests takes none with engine population: moments has them")
    for name, each in {"data": data, **tests}.items():
        if isinstance(each, Sequences) and not each.finite:
            raise ValueError(f"{name} takes finite numbers; there is one that is not")
        if (each.dim, each.outputs) != (data.dim, data.outputs):
            raise ValueError(
                f"tests takes sets of data's dim and outputs, {data.dim} and {data.outputs}; {name} has "
                f"{each.dim} and {each.outputs}"
            )
        if isinstance(each, Moments):
            size = feature_count(model, each.dim, each.outputs)
            if each.features.size != size:
                raise ValueError(
                    f"{name} takes averages of the {size} features of {type(model).__name__}, not of "
                    f"{each.features.size}"
                )

    sets, seconds = averaged(sets, model, kind)
    dim, outputs = data.dim, data.outputs
    if start is None and seed is None and getattr(data, "starts", None):
        start = data.starts(model)
    elif start is None:
        start = model.start(dim, outputs, seed or 0, answer_rows_only=kind == "population")
    start = {name: numbers(f"start {name}", array) for name, array in start.items()}
    wanted = {a.name: (a.count, *a.shape) for a in model.layers(dim, outputs)}
    shapes = {name: np.shape(array) for name, array in start.items()}
    fewer = wanted | {"value": (model.heads, outputs, dim + outputs)}  # rows: those that reach ŷ
    if shapes not in ([wanted, fewer] if kind in AVERAGED else [wanted]):
        raise ValueError(f"start takes {wanted}, not {shapes}")
    task = data if isinstance(data, RegressionTask) else data.task
    settings = {} if seed is None else {"seed": seed}
    settings |= describe(*filter(None, [task, model, optimizer])) | fresh
    settings |= {"steps": steps, "lr": lr}
    history = descend(
        "batches" if fresh else kind, model, start, sets, steps, lr, optimizer=optimizer,
        settings=settings, seconds=seconds, snapshots=snapshots, progress=progress,
        **(fresh and fresh | {"seed": seed or 0}),
    )  # fmt: skip
    if history.ended == "diverged":
        edge = "; iclcore.edge.calm_rate(model, data, steps) finds one that is small enough"
        if isinstance(data, RegressionTask):
            edge = "; iclcore.stability.stable_rate(task, model) is the edge where linear training ends"
        warnings.warn(
            f"the loss stopped being finite at step {len(history.loss) - 1}: lr takes less than the "
            f"{lr:g} it had{edge * (optimizer == PLAIN)}",
            stacklevel=2,
        )
    return history


def averaged(
    sets: dict[str, Data], model: Model, kind: str
) -> tuple[dict[str, Data], dict[str, float]]:
    """The sets as an engine of this kind takes them, and the seconds of it.

    What takes moments is compiled, or loaded, once a process: by two sequences, as one alone has another
    memory layout, for which there is other code.
    """
    clock = time.perf_counter()
    if kind == "moments":
        for each in sets.values():
            if isinstance(each, Sequences):
                of_sequences(each[:2], model)
    loaded = time.perf_counter()
    if kind == "moments":
        sets = {name: averages(each, model) for name, each in sets.items()}
    return sets, {"loading": loaded - clock, "moments": time.perf_counter() - loaded}


def descend(
    kind: str,
    model: Model,
    start: Weights,
    sets: dict[str, Data],
    steps: int,
    lr: float,
    *,
    settings: dict,
    seconds: dict[str, float],
    optimizer: Optimizer = PLAIN,
    snapshots: Sequence[int] = (),
    progress: Callable[[int], object] | None = None,
    **fresh: int,
) -> History:
    """``train`` where all is checked, drawn and averaged; of a loss that is not finite the caller tells.

    ``sets`` are named as their errors are recorded, and the first, ``loss``, is descended on; ``seconds`` are
    those that were spent on them.
    """
    clock = time.perf_counter()
    data, *tests = sets.values()
    weights = {name: np.array(array, dtype=float) for name, array in start.items()}
    first = copied(weights)
    descent = _engine(kind)(model, weights, data, tests, float(lr), optimizer, **fresh)
    seconds = seconds | {"loading": seconds["loading"] + time.perf_counter() - clock}

    with noted() as interrupted:  # to the end: what was recorded must become a history
        clock = time.perf_counter()
        taken, ended, blocks = _run(descent, int(steps), snapshots, progress, interrupted)
        seconds["descent"] = time.perf_counter() - clock

        loss, errors, values = (np.concatenate(part) for part in zip(*blocks, strict=True))
        errors = dict(zip(sets, [loss, *errors.T], strict=True))
        return History(
            series=errors | {"value": values},
            settings=settings,
            ended=ended,
            engine=descent.engine,
            moments=data if kind == "moments" else None,
            floor_found=getattr(descent, "floor", None),
            seconds=seconds,
            kept=np.array(list(taken), dtype=int),
            snapshots={n: np.stack([kept[n] for kept in taken.values()]) for n in weights if taken},
            start=first,
            final=copied(descent.weights),
        )


def _engine(kind: str) -> type:
    if kind == "batches":
        from iclcore.engines.linear import BatchEngine as engine
    else:
        engine = ENGINES[kind].engine()
    return engine


def _run(
    descent: Engine,
    steps: int,
    snapshots: Sequence[int],
    progress: Callable[[int], object] | None,
    interrupted: Event,
) -> tuple[dict[int, Weights], str, list]:
    """Advance from one snapshot to the next, in blocks short enough for a bar and for Ctrl-C.

    ``snapshots`` ascend."""
    from tqdm import tqdm

    taken: dict[int, Weights] = {}
    ahead = deque(snapshots)
    blocks, done, ended, size = [], 0, "finished", 1
    hidden = True if progress else None  # None: a bar on a terminal, else none
    with tqdm(total=steps, unit=" steps", delay=1, disable=hidden, leave=False) as bar:
        tell = progress or bar.update
        while True:
            if ahead and ahead[0] == done:
                taken[ahead.popleft()] = copied(descent.weights)
            if done == steps or ended != "finished":
                break
            clock = time.perf_counter()
            asked = min(size, (ahead[0] if ahead else steps) - done)
            blocks.append(descent.advance(asked))
            done += len(blocks[-1][0])
            try:
                tell(len(blocks[-1][0]))
            except KeyboardInterrupt:  # a sweep's worker that was asked to stop
                interrupted.set()
            if not np.isfinite(blocks[-1][0][-1]):
                ended = "diverged"
            elif interrupted.is_set() and done < steps:
                ended = "interrupted"
            pace = asked / max(time.perf_counter() - clock, 1e-9)
            size = max(1, int(min(4 * size, BLOCK_SECONDS * pace)))
    return taken, ended, blocks
