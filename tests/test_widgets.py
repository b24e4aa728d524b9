"""The ipywidgets panel, driven through its traits as a kernel would do it."""

from pathlib import Path

import pytest

from iclbook.widgets import MODELS, Run

OTHER = {
    "spectrum": "white",
    "dim": 3,
    "context": 9,
    "sequences": 80,
    "in_context": 0.5,
    "heads": 2,
}
OTHER |= {"init": 0.2, "lr": 0.01, "steps": 70, "seeds": 3}
CHANGES = [
    *({"model": name} for name in MODELS),
    *({key: value} for key, value in OTHER.items()),
    {"model": "separate", "rank": 2},
]


@pytest.fixture(scope="module")
def panel():
    return Run(sequences=60, steps=50, seeds=2, dim=2, context=5)


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_every_control_changes_the_picture(panel, change):
    panel.controls["model"].value = "merged, softmax" if "MLP" in str(change) else "MLP(z)"
    panel.run()
    before = bytes(panel.image.value)
    for name, value in change.items():
        panel.controls[name].value = value
    panel.button.click()
    after = bytes(panel.image.value)
    assert after != before and after.startswith(b"\x89PNG")
    assert panel.bar.value == panel.bar.max > 0 and "final loss" in panel.status.value


def test_a_wrong_setting_is_explained(panel):
    for name, value in {"lr": 10, "init": 1, "steps": 500}.items():
        panel.controls[name].value = value
    panel.button.click()
    assert "diverge" in panel.status.value and not panel.button.disabled
    with pytest.raises(ValueError, match="setting takes one of model"):
        Run(fish=3)


def test_no_chapter_shows_a_run_whose_loss_rises_again():
    settings = {"sequences": 60, "steps": 800, "seeds": 1, "dim": 2, "context": 5}
    run = Run(model="separate", init=0.1, lr=0.15, **settings)
    assert "rises again in 1 of 1 runs: lower" in run.status.value
    book = Path(__file__).parent.parent / "book"
    lines = [line for path in book.glob("*.ipynb") for line in path.read_text("utf-8").splitlines()]
    panels = [line for line in lines if 'class=\\"panel\\"' in line]
    assert len(panels) >= 5 and not any("rises again" in line for line in panels)


def test_without_a_kernel_it_is_its_last_picture(panel):
    shown, _ = panel._repr_mimebundle_()
    assert "make lab" in shown["text/html"] and 'alt="Training losses' in shown["text/html"]
    assert repr(panel).startswith("Run(model=")
