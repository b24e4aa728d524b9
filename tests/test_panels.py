"""The panel, driven through its traits as a kernel would: every control, and a wrong setting."""

import pytest

from iclbook.panels import MODELS, Run


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


def test_without_a_kernel_it_is_its_last_picture(panel):
    shown, _ = panel._repr_mimebundle_()
    assert "make lab" in shown["text/html"] and 'alt="Training losses' in shown["text/html"]
    assert repr(panel).startswith("Run(model=")
