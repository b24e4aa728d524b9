"""The page's engine against Python's, over all kinds of runs: losses and weights within 1e-9.

The page descends on D² numbers in the eigenbasis, Python on all moments in rotated coordinates:
they share no formula but the model's.
"""

import re

import numpy as np
import pytest
from conftest import close
from scipy.integrate import solve_ivp

from iclbook import explorers
from iclbook.explorers import bundle
from iclbook.explorers.data import pack, single
from iclbook.explorers.start import normals, start
from iclbook.theory import beyond
from iclcore import MergedAttention, RegressionTask, SeparateAttention, theory, train
from iclcore.heads import risk
from iclcore.heads import theory as heads_theory
from iclcore.moments import coefficients, features, mix, of_population, of_sequences
from iclcore.stability import stable_rate
from iclcore.theory.minimum import balanced_end

MODULES = (
    "front",
    "maths/engine",
    "maths/theory",
    "maths/moments",
    "maths/multihead",
    "maths/risks",
    "task_allocation",
    "optimality",
    "two_papers",
    "maths/training",
    "softmax",
    "low_rank",
    "rank_one",
)
SPECTRA = {4: "linear", 3: (0.5, 0.3, 0.2), 8: "power", 2: "white"}


@pytest.fixture(scope="module")
def js(browser):
    """Evaluate an expression of the modules; arrays come back as lists."""
    page = browser.new_page()
    named = (f'{name.split("/")[-1]}: modules["{name}"]' for name in MODULES)
    text = bundle.modules(*MODULES) + f"export default {{ {', '.join(named)} }};"
    page.evaluate(
        """async (text) => Object.assign(window, (await import(
             URL.createObjectURL(new Blob([text], { type: "text/javascript" })))).default)""",
        text,
    )
    yield page.evaluate
    page.close()


def own_basis(task, array):
    """A matrix between β and the query, or rows of keys, in the eigenbasis."""
    basis = task.eigenvectors
    return basis.T @ array @ basis


def run(js, task, kind, heads, rank, lr, steps, seed, divisor, every):
    init = 1e-3 if kind == "merged" else 3e-2
    got = js(
        """([options, lam, context, population, run]) => {
             const problem = theory.population(lam, context, population);
             const weights = engine.start(options);
             const out = engine.descend(problem, weights, { ...run, keep: options.kind !== "merged" });
             const list = (each) => each && Array.from(each);
             return { loss: list(out.loss), step: list(out.step), left: out.left,
                      v: list(weights.v), u: list(weights.u), k: list(weights.k), q: list(weights.q),
                      plateaus: theory.plateaus(problem), learned: list(theory.learned(problem)) }; }""",
        [
            {"kind": kind, "dim": task.dim, "heads": heads, "rank": rank, "init": init, "seed": seed},
            task.eigenvalues.tolist(),
            task.context,
            {"divisor": divisor, "everyLength": every},
            {"steps": steps, "lr": lr},
        ],
    )  # fmt: skip
    shape = {"heads": heads, "init": init, "divisor": divisor}
    model = MergedAttention(**shape) if kind == "merged" else SeparateAttention(rank=rank, **shape)
    weights = start(model, task.eigenvectors, seed)
    history = train(model, of_population(task, model), steps, lr, start=weights)
    assert got["left"] is None
    recorded = np.array(got["step"], dtype=int)
    within = recorded < steps
    close(np.array(got["loss"])[within], history.loss[recorded[within]])
    final, basis, dim = history.final, task.eigenvectors, task.dim
    close(got["v"], final["value"][:, -1, -1])
    if kind == "merged":
        u = final["key_query"][:, :dim, :dim].transpose(0, 2, 1)
        close(np.reshape(got["u"], u.shape), own_basis(task, u))
    else:
        for name, letter in (("key", "k"), ("query", "q")):
            rows = final[name][:, :, :dim] @ basis
            close(np.reshape(got[letter], rows.shape), rows)
    return got


LINEAR = [
    (kind, heads, rank, dim, context, seed)
    for kind, heads, rank in [
        ("merged", 1, 1), ("merged", 8, 1), ("separate", 1, 1), ("separate", 5, 1),
        ("separate", 3, 2), ("separate", 9, 4),
    ]
    for dim, context in [(2, 5), (3, 31), (4, 31), (8, 63)]
    for seed in (0, 7)
]  # fmt: skip


@pytest.mark.parametrize(("kind", "heads", "rank", "dim", "context", "seed"), LINEAR)
def test_a_population_run_is_pythons(js, kind, heads, rank, dim, context, seed):
    task = RegressionTask(dim=dim, context=context, spectrum=SPECTRA[dim], seed=3)
    lr = 0.05 if kind == "merged" else 0.2
    got = run(js, task, kind, heads, rank, lr, 2000, seed, "context", False)
    close(got["plateaus"], theory.plateau_losses(task))
    close(got["learned"], theory.learned(task, "context"))


@pytest.mark.parametrize("init", [0.003, 0.03, 0.3])
@pytest.mark.parametrize("kind", ["merged", "separate"])
def test_the_front_pages_runs_are_pythons(js, kind, init):
    """In stretches that grow, to the end, over three decades of time."""
    got = js(
        """([kind, init]) => {
             const problem = theory.population(front.EIGENVALUES, front.CONTEXT);
             const { step, loss, lr } = front.course(problem, kind, init);
             return { step, loss, lr }; }""",
        [kind, init],
    )
    shown = explorers.Front(init=init)
    step = np.array(got["step"])
    history = shown.history(kind, (step[-1] + 1.5) * got["lr"])
    assert history.lr == got["lr"] and np.all(np.diff(step) > 0)
    close(got["loss"], history.loss[step])


@pytest.mark.parametrize("divisor", ["tokens", "context", "one"])
@pytest.mark.parametrize(("kind", "rank"), [("merged", 1), ("separate", 1), ("separate", 2)])
def test_a_run_on_all_lengths_is_pythons(js, kind, rank, divisor):
    task = RegressionTask(dim=4, context=20, every_length=True)
    lr = {"one": 0.001, "context": 0.1, "tokens": 0.1}[divisor]
    got = run(js, task, kind, 4, rank, lr, 1500, 2, divisor, True)
    if divisor == "tokens":
        close(got["plateaus"], theory.plateau_losses(task))


@pytest.mark.parametrize("share", [0.0, 0.2, 0.45, 0.6, 1.0])
def test_a_mixtures_run_on_finite_moments_is_pythons(js, share):
    model = MergedAttention(heads=3, init=1e-2)
    kinds = [
        single(
            of_sequences(RegressionTask(dim=3, spectrum="white", in_context=own).sample(300), model)
        )
        for own in (1.0, 0.5)
    ]
    got = js(
        """([parts, shares, start, run]) => {
             const mixed = moments.mix(parts.map((each, i) => [shares[i], moments.unpack(each)]));
             const weights = moments.widen(engine.start(start));
             const out = moments.descendMoments(mixed, weights, run);
             return { loss: out.loss, c: Array.from(out.c.at(-1)), w: Array.from(weights.w),
                      v: Array.from(weights.v), floor: moments.floor(mixed) }; }""",
        [
            [pack(each) for each in kinds],
            [share, 1 - share],
            {"kind": "merged", "dim": 3, "heads": 3, "init": 1e-2, "seed": 5},
            {"steps": 1500, "lr": 5e-4, "stride": 1},
        ],
    )
    mixed = mix([(share, kinds[0]), (1 - share, kinds[1])])
    history = train(model, mixed, 1500, 5e-4, start=start(model, np.eye(3), 5))
    close(got["loss"][:-1], history.loss)
    w, v = model.factors(history.final, 3)
    close(np.reshape(got["w"], w.shape), w)
    close(np.reshape(got["v"], v[:, 0].shape), v[:, 0])
    close(got["floor"], mixed.floor())
    assert len(got["c"]) == features(model, 3, 1).size


@pytest.mark.parametrize(
    ("dims", "heads", "context", "noise", "seed"),
    [
        ((10,), 1, 50, 0.0, 0), ((10, 10), 2, 100, 0.0, 1), ((10, 10), 3, 400, 1.0, 2),
        ((5, 10, 20), 3, 100, 0.5, 3), ((10, 10, 10), 4, 100, 0.0, 4), ((8, 8, 8, 8), 2, 200, 2.0, 5),
    ],
)  # fmt: skip
def test_the_flow_of_many_heads_is_pythons(js, dims, heads, context, noise, seed):
    """Against the same equations at a tighter tolerance than the package's own 1e-10 a step."""
    task = heads_theory.MultiTask(dims, context, noise=noise)
    shape = (heads, len(dims))
    omega0 = 0.01 * np.exp(0.3 * normals(seed, heads * len(dims))).reshape(shape)
    mu0 = 0.05 * np.exp(0.5 * normals(seed + 9, heads * len(dims))).reshape(shape)
    times = np.linspace(0, 15, 40)
    got = js(
        """([dims, context, noise, heads, omega, mu, times]) => {
             const out = multihead.flow(
               multihead.multiTask(dims, context, { noise }), heads, omega, mu, times);
             const list = (rows) => rows.map((row) => Array.from(row));
             return [list(out.omega), list(out.mu), list(out.loss)]; }""",
        [list(dims), context, noise, heads, omega0.ravel().tolist(), mu0.ravel().tolist(), times.tolist()],
    )  # fmt: skip
    rate = 2 / (heads_theory.root_width(task, None) * task.d)

    def speed(_, u):
        by_omega, by_mu = heads_theory.gradient(task, *np.exp(u.reshape(2, *shape)))
        return -np.stack([rate * by_omega, 2 * by_mu]).ravel()

    logs = np.log(np.stack([omega0, mu0])).ravel()
    path = solve_ivp(speed, (0, 15), logs, "DOP853", times, rtol=1e-13, atol=1e-13)
    omega, mu = np.exp(path.y.T).reshape(len(times), 2, *shape).transpose(1, 0, 2, 3)
    close(np.reshape(got[0], omega.shape), omega)
    close(np.reshape(got[1], mu.shape), mu)
    close(got[2], heads_theory.loss(task, omega, mu))


@pytest.mark.parametrize(
    ("settings", "by"),
    [
        ({}, ([1], [2], [3])),
        # not one μω is above .005 at the end; it was called "5 of 5 heads do the 5 tasks"
        ({"heads": 5, "tasks": 5, "dim": 2, "context": 10, "noise": 20.0}, ([], [], [], [], [])),
        ({"spread": 3.0, "seed": 2}, ([], [2], [1])),
        ({"heads": 1, "noise": 0.5, "horizon": 40.0}, ([1], [1], [1])),
        ({"heads": 2, "spread": 0.0}, ([1], [2], [1, 2])),  # a tie
        ({"lean": 0.0, "seed": 5}, ([3], [1], [2])),  # chance decides
        ({"lean": 0.0, "seed": 2}, ([3], [3], [1])),
        ({"lean": 0.0, "heads": 5}, ([1], [2], [1])),  # a head does two, though there are five
    ],
)
def test_only_finished_tasks_are_counted(js, settings, by):
    explorer = explorers.TaskAllocation(**settings)
    task, omega, mu = explorer.setting()
    path = heads_theory.flow(task, omega, mu, np.linspace(0, explorer.horizon, 121))
    expected = explorer.finished(path)
    finished, summary = js(
        """(state) => { const found = task_allocation.compute(state);
             return [found.finished, task_allocation.show(found, state, 120).summary]; }""",
        explorer.settings(),
    )
    assert finished == list(by)
    assert [bool(heads) for heads in by] == expected.tolist()
    assert f"{expected.sum()} of {explorer.tasks} tasks " in summary
    # what counts as done has made most of its drop
    start, end = (
        path.loss[0],
        heads_theory.loss(task, *heads_theory.limit(task, path.owner, explorer.heads)),
    )
    share = (start - path.loss[-1]) / (start - end)
    assert np.all(share[expected] > 0.5)


@pytest.mark.parametrize("share", [0.0, 0.35, 1.0])
def test_the_flow_between_linear_and_softmax_is_pythons(js, share):
    explorer = explorers.TwoPapers(share=share, context=80, horizon=22.0)
    loss, own, ends = js(
        """(state) => { const out = two_papers.compute(state);
             return [out.losses, out.own, two_papers.ends(out.task)]; }""",
        explorer.settings(),
    )
    omega, mu = explorer.flow(np.linspace(0, 22, 161), tolerance=1e-13)
    close(own, np.einsum("tii->ti", omega))
    close(loss, [explorer.loss(*each).sum() for each in zip(omega, mu, strict=True)])
    close(ends, explorer.ends())


UNEQUAL = [
    {},
    {"s3": 0.05, "d3": 60},  # given up
    {"s1": 50.0, "s2": 0.1, "noise": 20.0, "context": 10, "heads": 1},
    {"noise": 0.0, "heads": 2, "d2": 1},
    {"heads": 6, "context": 1000, "penalty": 0.05},  # every share full
]


@pytest.mark.parametrize("settings", UNEQUAL)
def test_one_heads_shares_and_all_losses_are_pythons(js, settings):
    explorer = explorers.Optimality(**settings)
    task = explorer.task()
    head, now, budgets = js(
        """(state) => { const task = optimality.setting(state), out = optimality.compute(state);
             return [out.head, out.now, [0.01, 1, 2.5, 4].map((b) => multihead.waterFilling(task, b))]; }""",
        explorer.settings(),
    )
    close([[each["omega"] for each in head], [each["mu"] for each in head]],
          [each[0] for each in heads_theory.one_head(task)])  # fmt: skip
    close(budgets, [heads_theory.water_filling(task, b) for b in (0.01, 1, 2.5, 4)])
    for name, total in explorer.losses(task).items():
        close(sum(now[name]), total)
    close(now["a head each"], risk.gradient_flow_risk(task))
    # the exact zeros are the same, and so is what is said of them
    lost = [i + 1 for i, each in enumerate(head) if each["m"] == 0]
    assert lost == (np.flatnonzero(heads_theory.one_head(task)[0][0] == 0) + 1).tolist()
    summary = js(
        "(state) => optimality.show(optimality.compute(state), state).summary", explorer.settings()
    )
    assert ("gives up task" in summary) == bool(lost)


@pytest.mark.parametrize("context", [10, 100, 1000])
def test_concentration_of_softmax_is_pythons(js, context):
    """Its rule in steps of .35 against Python's of .1: the difference is 6e-13."""
    beta = np.array([0.0, 0.3, 1.0, 2.0, 4.0, 8.0])
    got = js(
        "([beta, n]) => beta.map((each) => risks.participation(each, n))", [beta.tolist(), context]
    )
    close(got, beyond.participation(beta, context)["exact"])


@pytest.mark.parametrize("noise", [0.0, 1.5])
def test_losses_on_other_lengths_are_pythons(js, noise):
    task = heads_theory.MultiTask([7], 60, 1.0, noise)
    got = js(
        "(n) => [10, 60, 5000].map((each) => risks.atLength({ dim: 7, context: 60, noise: n }, each))",
        noise,
    )
    close(np.sum(got, axis=1), beyond.length_generalisation(task, [10, 60, 5000])[:, 0])
    close([each[0] for each in got], np.full(3, risk.gradient_flow_risk(task)[0] ** 2))


@pytest.mark.parametrize("kind", ["merged", "separate"])
def test_when_a_run_comes_half_way_is_the_same_however_often_it_is_recorded(js, kind):
    got = js(
        """(kind) => [10, 1000].map((points) => {
             const problem = theory.population([0.4, 0.3, 0.2, 0.1], 31), level = 0.5;
             const weights = engine.start({ kind, dim: 4, heads: 5, init: 0.03, seed: 1 });
             const run = engine.descend(problem, weights, { steps: 1000, lr: 0.5, points, level });
             const half = Array.from(run.half, (each) => (each > 0 ? each : null));
             return [half, run.fallen, Array.from(run.m), Array.from(run.loss)]; })""",
        kind,
    )
    assert got[0][:2] == got[1][:2]
    half, fallen, m, loss = got[1]
    ends = theory.learned(
        RegressionTask(dim=4, context=31, spectrum=(0.4, 0.3, 0.2, 0.1)), "context"
    )
    steps, m = np.arange(1001), np.reshape(m, (1001, 4, 4))
    for d, at in enumerate(half):
        assert (at is None) == (m[-1, d, d] < ends[d] / 2)
        if at is not None:
            close(np.interp(at, steps, m[:, d, d]), ends[d] / 2)
    close(np.interp(fallen, steps, loss), 0.5)


def test_closed_forms_are_pythons(js):
    task = RegressionTask(dim=4, spectrum="white", context=20)
    times = np.linspace(0, 60, 30)
    got = js(
        """(times) => { const problem = theory.population([0.25, 0.25, 0.25, 0.25], 20);
             const losses = times.map((t) => theory.whiteCourse(problem, 1e-8, t));
             return [losses, theory.dropTime(problem, 1e-8), theory.growthRate(problem)]; }""",
        times.tolist(),
    )
    close(got[0], theory.white_course(task, 1e-8, times, "context"))
    close(got[1], theory.drop_time(task, 1e-8, "context"))
    close(got[2], theory.growth_rate(task, "context"))
    task = RegressionTask(dim=4)
    course = js(
        """() => theory.headCourse(theory.population([0.4, 0.3, 0.2, 0.1], 31), 1, 40, 0, 90, 40)"""
    )
    at, s = np.array(course[:-1]).T
    half = theory.head_limit(task, "context")[1] / 2
    close(theory.head_course(task, 2, at - 40, half, "context"), s)


@pytest.mark.parametrize(
    ("kind", "heads", "rank"),
    [("merged", 8, 1), ("separate", 5, 1), ("separate", 2, 1), ("separate", 9, 2)],
)
@pytest.mark.parametrize("values", [(0.25,) * 4, (0.4, 0.3, 0.2, 0.1), (0.7, 0.1, 0.1, 0.05, 0.05)])
def test_the_edge_on_the_slider_is_pythons(js, kind, heads, rank, values):
    """As iclcore.stability finds it, over the weights that the page moves: those of the paper's subspace."""
    task = RegressionTask(dim=len(values), context=31, spectrum=values)
    shape = {"heads": heads, "divisor": "context"}
    model = MergedAttention(**shape) if kind == "merged" else SeparateAttention(rank=rank, **shape)
    factors, moved = balanced_end(task, model), []
    for factor in factors:  # W (H, D, E), or K (H, R, E), Q (H, R, D) and v (H, 1, E)
        free = np.zeros(factor.shape, dtype=bool)
        last = factor.shape[1:] == (1, task.dim + 1) and factor is factors[-1]
        free[..., -1 if last else slice(task.dim)] = True
        moved.append(free)
    columns = []
    for place, (factor, free) in enumerate(zip(factors, moved, strict=True)):
        for unit in np.eye(factor.size)[free.ravel()]:
            turned = [*factors[:place], unit.reshape(factor.shape), *factors[place + 1 :]]
            columns.append(coefficients(tuple(turned), features(model, task.dim, 1)).ravel())
    slope = np.stack(columns, axis=1)
    sharpness = np.linalg.eigvalsh(slope.T @ of_population(task, model).gram @ slope)[-1]
    got = js(
        "([values, model]) => theory.stableRate(theory.population(values, 31), model)",
        [list(values), {"kind": kind, "heads": heads, "rank": rank}],
    )
    close(got, 1 / sharpness)
    assert stable_rate(task, model) <= got * (1 + 1e-9)  # weights beside the subspace leave sooner


@pytest.mark.parametrize(("kind", "heads", "rank"), [("merged", 2, 1), ("separate", 4, 1)])
def test_the_stable_rate_is_the_edge(js, kind, heads, rank):
    """Trained to the end, then kicked a little: the kick dies below the rate and grows above it."""
    shrinks, grows = js(
        """([kind, heads, rank]) => {
             const problem = theory.population([0.5, 0.3, 0.2], 31);
             const options = { kind, heads, rank, dim: 3, init: 0.01, seed: 1 };
             const edge = theory.stableRate(problem, options);
             const weights = engine.start(options);
             engine.descend(problem, weights, { steps: 60000, lr: 0.2 });
             const names = kind === "merged" ? ["v", "u"] : ["v", "k", "q"];
             return [0.97, 1.03].map((share) => {
               const kicked = { ...weights };
               for (const name of names)
                 kicked[name] = weights[name].map((each, i) => each + 1e-7 * Math.sin(i + 1));
               engine.descend(problem, kicked, { steps: 150, lr: share * edge });
               return Math.hypot(...kicked.v.map((each, i) => each - weights.v[i])) / 1e-7; }); }""",
        [kind, heads, rank],
    )
    assert shrinks < 3 < 30 < grows


def test_what_softmax_heads_read_and_when_the_stairs_come(js):
    """A key on inputs, one on labels and one on both; losses that fall evenly from one level to the last."""
    keys = np.array([[1.0, 0, 0], [0, 0, 1], [1, 2, 0.5]])
    tokens = normals(3, 12).reshape(4, 3)
    tokens[-1, -1] = 0
    w = np.einsum("d,ha->hda", [1.0, -1], keys)
    model = {"w": w.ravel().tolist(), "v": [0] * 9}
    found = js(
        """([model, tokens]) => training.tokenWeights(true, 3, { ...model, form() {} },
             { dim: 2, length: 4, tokens }).labels""",
        [model, tokens.ravel().tolist()],
    )
    inputs, labels = ((tokens * keys[:, None] * kept) for kept in ([1, 1, 0], [0, 0, 1]))
    inputs, labels = ((each.sum(-1) ** 2).sum(-1) for each in (inputs, labels))
    close(found, labels / (inputs + labels))

    explorer = explorers.Softmax(eigenvalues=(0.5, 0.25))
    levels = theory.plateau_losses(RegressionTask(dim=2, spectrum=(0.5, 0.25)))
    said = js(
        """([state, first, last]) => {
             const tokens = softmax.untrained(state).tokens;
             const rows = [...Array(101).keys()].map((at) => ({ at, value: [[0], [0]],
               losses: [first + (last - first) * at / 100, first] }));
             return softmax.show({ rows, tokens, left: null, rises: [0, 0], clock: "" }, state).summary; }""",
        [explorer.settings(), levels[0], levels[-1]],
    )
    halfway = (levels[:-1] + levels[1:]) / 2
    steps = 100 * (levels[0] - halfway) / (levels[0] - levels[-1])
    told = re.search(r"to the next: softmax at step (\d+), (\d+); linear at step –, –\.", said)
    assert [int(each) for each in told.groups()] == pytest.approx(steps, abs=1)
    assert "reads mostly inputs" in said


@pytest.mark.parametrize("rank", [1, 2, 4, 8])
def test_waits_for_a_new_head_and_in_one_with_room_are_told_apart(js, rank):
    """In the simulation itself the longest wait is one for a head."""
    said = js(
        """(state) => { const found = low_rank.compute(state);
             return low_rank.show(found, state, found.step.length - 1).summary; }""",
        explorers.LowRank(rank=rank, steps=5000).settings(),
    )
    waits = {}
    for words in ("Waits for a new head", "In a head with room"):
        listed = re.search(rf"{words}: (.*?)\.", said)
        found = re.findall(r"([\d,]+) steps at L\(M([₀-₈])\)", listed[1]) if listed else []
        waits[words] = {"₀₁₂₃₄₅₆₇₈".index(m): int(n.replace(",", "")) for n, m in found}
    new, room = waits.values()
    assert 0 in new and all(m % rank == 0 for m in new)
    assert bool(room) == (rank > 1) and all(m % rank for m in room)
    assert max(new.values()) > max(room.values(), default=0)


def test_a_wait_that_a_run_does_not_outlast_is_told_by_theory(js):
    """From where the run ends; a longer run comes to it. Without a free head, or of equal ones, none is."""

    def said(values=(0.4, 0.3, 0.2, 0.05), **settings):
        return js(
            """(state) => { const found = rank_one.compute(state);
                 return rank_one.show(found, state, found.step.length - 1).summary; }""",
            explorers.RankOne(eigenvalues=values, **settings).settings(),
        )

    def step(pattern, text):
        return float(re.search(pattern, text)[1].replace(",", ""))

    comes = step(r"e₄ at step ([\d,]+)", said(steps=16_000, init=0.05))
    told = step(r"not yet e₄ \(after about ([\d,]+) steps by", said(steps=4000, init=0.05))
    assert told == pytest.approx(comes, rel=0.1)
    assert "not yet e₄." in said(steps=4000, init=0.05, heads=3)
    assert "by theory" not in said((0.25,) * 4, steps=500)
