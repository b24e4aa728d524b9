"""The panel, driven through its traits as a kernel would: every control, and a wrong setting."""

from pathlib import Path

import pytest

from iclbook.widgets import MODELS, Run


@pytest.fixture(scope="module")
def panel():
    return Run(sequences=60, steps=50, seeds=2, dim=2, context=5)


CHANGES = {
    **{f"model {name}": {"model": name} for name in MODELS},
    "spectrum": {"spectrum": "white"},
    "dim": {"dim": 3},
    "context": {"context": 9},
    "sequences": {"sequences": 80},
    "in_context": {"in_context": 0.5},
    "heads": {"heads": 2},
    "rank": {"model": "separate", "rank": 2},
    "init": {"init": 0.2},
    "lr": {"lr": 0.01},
    "steps": {"steps": 70},
    "seeds": {"seeds": 3},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
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


def test_a_wrong_setting_keeps_the_picture(panel):
    before = bytes(panel.image.value)
    panel.controls["lr"].value = 10
    panel.controls["init"].value = 1
    panel.controls["steps"].value = 500
    panel.button.click()
    assert "diverge" in panel.status.value and not panel.button.disabled
    with pytest.raises(ValueError, match="setting takes one of model"):
        Run(fish=3)
    assert before.startswith(b"\x89PNG")


def test_a_loss_that_rises_again_is_said():
    run = Run(
        model="separate", sequences=60, steps=800, seeds=1, dim=2, context=5, init=0.1, lr=0.15
    )
    assert "rises again in 1 of 1 runs: lower" in run.status.value


def test_no_chapter_shows_a_run_that_rounding_decides():
    shown = [
        page.read_text(encoding="utf-8")
        for page in (Path(__file__).parent.parent / "book").glob("*.ipynb")
    ]
    panels = [line for text in shown for line in text.splitlines() if 'class=\\"panel\\"' in line]
    assert len(panels) >= 5 and not any("rises again" in panel for panel in panels)


def test_without_a_kernel_it_is_its_last_picture(panel):
    shown, _ = panel._repr_mimebundle_()
    assert "make lab" in shown["text/html"] and 'alt="Training losses' in shown["text/html"]
    assert repr(panel).startswith("Run(model=")
