"""The explorers' Python side: what they take, what a page gets of them, and every control by a kernel."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from jupyter_client.manager import start_new_kernel
from traitlets import TraitError

from iclbook import explorers
from iclbook.explorers import bundle
from iclbook.explorers.base import Explorer

CLASSES = [getattr(explorers, name) for name in explorers.__all__]


class Parts(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = {}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found[tag] = dict(attributes)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.name)
def test_a_page_gets_a_picture_and_the_whole_state(kind):
    explorer = kind()
    data, _ = explorer._repr_mimebundle_()
    assert data["text/plain"] == repr(kind())  # no address of this process
    assert data == explorer._repr_mimebundle_()[0]
    parts = Parts(data["text/html"]).found
    state = json.loads(parts["div"]["data-state"])
    assert {c["key"]: c["value"] for c in state["controls"]} == explorer.settings()
    assert {key: state[key] for key in explorer.settings()} == explorer.settings()
    assert len(parts["img"]["alt"]) > 60
    assert len(parts["img"]["src"]) < 80_000
    assert len(parts["div"]["data-state"]) < 150_000


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"heads": 99}, "heads"),
        ({"eigenvalues": [0.5]}, "eigenvalues"),
        ({"eigenvalues": [0.5, -1.0]}, "eigenvalues"),
        ({"layers": 2}, "RankOne takes eigenvalues, init, heads"),
    ],
)
def test_a_setting_out_of_range_is_refused(settings, says):
    with pytest.raises((TraitError, ValueError), match=says):
        explorers.RankOne(**settings)


def test_a_module_outside_the_bundles_grammar_is_refused(tmp_path, monkeypatch):
    (tmp_path / "odd.mjs").write_text('import everything from "./engine.mjs";\n')
    monkeypatch.setattr(bundle, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match=r"odd\.mjs"):
        bundle.widget("odd")


def luminance(colour):
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    rgb = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return rgb @ [0.2126, 0.7152, 0.0722]


def test_colours_have_contrast_on_light_and_dark():
    """Lines need 3:1 against the page, words 4.5:1 (WCAG 1.4.11 and 1.4.3)."""
    schemes = re.findall(r"\{([^{}]*--ex-c0[^{}]*)\}", bundle.style())
    assert len(schemes) == 3
    assert schemes[1].split() == schemes[2].split()  # dark by the page and dark by the system
    for scheme in schemes:
        colours = dict(re.findall(r"--ex-([\w-]+): (#[0-9a-f]{6})", scheme))
        for name, colour in colours.items():
            if name in {"page", "field", "rule"}:
                continue
            low, high = sorted([luminance(colour), luminance(colours["page"])])
            needed = 4.5 if name in {"ink", "muted", "theory", "warn"} else 3
            assert (high + 0.05) / (low + 0.05) >= needed, (name, colour)


@pytest.fixture(scope="module")
def kernel():
    manager, client = start_new_kernel(kernel_name="python3")
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def run(client, code):
    """Execute; the comm messages and the printed text that came of it."""
    return heard(client, client.execute(code))


def heard(client, request):
    comms, printed = [], ""
    while True:
        message = client.get_iopub_msg(timeout=60)
        content, kind = message["content"], message["msg_type"]
        if message["parent_header"].get("msg_id") != request:
            continue
        if kind == "error":
            pytest.fail("\n".join(content["traceback"]))
        if kind in {"comm_open", "comm_msg"}:
            comms.append(content)
        if kind == "stream":
            printed += content["text"]
        if kind == "status" and content["execution_state"] == "idle":
            return comms, printed


def tell(client, comm, data):
    """What a page's widget sends to its twin in the kernel."""
    message = client.session.msg("comm_msg", {"comm_id": comm, "data": data})
    client.shell_channel.send(message)
    return heard(client, message["header"]["msg_id"])


def other(control):
    """A value that the control takes and does not have."""
    value, kind = control["value"], control["type"]
    if kind == "choice":
        return next(option for option in control["options"] if option != value)
    if kind == "spectrum":
        return [0.3, 0.2, 0.1]
    return control["min"] if value != control["min"] else control["max"]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.name)
def test_every_control_reaches_the_kernel_and_back(kernel, kind):
    comms, _ = run(kernel, f"from iclbook import explorers\ne = explorers.{kind.__name__}()")
    comm = next(
        c["comm_id"] for c in comms if c.get("data", {}).get("state", {}).get("_esm") is not None
    )
    _, text = run(kernel, "import json; print(json.dumps(e.controls))")
    controls = json.loads(text)
    assert [c["key"] for c in controls] == kind.keys_moved()
    for control in controls:
        value = other(control)
        tell(kernel, comm, {"method": "update", "state": {control["key"]: value}})
        _, text = run(kernel, f"print(json.dumps(e.{control['key']}))")
        assert json.loads(text) == value
    # set in Python: the page is told
    key, value = controls[-2]["key"], controls[-2]["value"]
    comms, _ = run(kernel, f"e.{key} = {value!r}")
    assert any(c["data"].get("state", {}).get(key) == value for c in comms)


FINITE = [kind for kind in CLASSES if kind.run_finite is not Explorer.run_finite]


@pytest.mark.parametrize("kind", FINITE, ids=lambda kind: kind.name)
def test_the_button_runs_on_finite_data(kernel, kind):
    quick = {"Softmax": "steps=300", "TaskAllocation": "horizon=5"}.get(kind.__name__, "")
    comms, _ = run(kernel, f"from iclbook import explorers\ne = explorers.{kind.__name__}({quick})")
    comm = next(
        c["comm_id"] for c in comms if c.get("data", {}).get("state", {}).get("_esm") is not None
    )
    comms, _ = tell(kernel, comm, {"method": "custom", "content": {"run": True}})
    answer = next(c["data"]["content"] for c in comms if c["data"]["method"] == "custom")
    assert re.search(r"\d", answer["note"])
    for line in answer["overlay"]:
        assert 0 < len(line["x"]) == len(line["y"]) <= 401
        assert np.isfinite(line["y"]).all()
