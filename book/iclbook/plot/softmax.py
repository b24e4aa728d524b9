"""What softmax heads attend to."""

import numpy as np

from iclbook.measure import Reading
from iclbook.plot.panels import Panel, listed
from iclbook.plot.style import BLUE, DASHED, GREEN, ORANGE, PINK


def attending(found: Reading) -> Panel:
    """Attention of two heads on the tokens of one sequence, against what their keys measure of them."""
    tones = (BLUE, ORANGE) if found.kind == "inputs" else (GREEN, PINK)
    measured = {"inputs": r"input along the key, $k^\top x_m/|k|$", "labels": "label $y_m$"}
    moments = ("start", f"{found.learned} learned", "end")
    tokens = found.reads.shape[-1]

    def draw(*axes):
        for at, (part, moment) in enumerate(zip(axes, moments, strict=True)):
            part.axhline(1 / tokens, label="_evenly", **DASHED)
            both = zip(found.reads[at], found.attention[at], tones, "os", found.value, strict=False)
            for x, p, tone, mark, value in both:
                part.plot(x, p, mark, color=tone, markersize=3.5, alpha=0.8,
                          label=f"_head of value {value:.2f} on the plateau")  # fmt: skip
            part.set_title(moment, fontsize=10)
            part.set_xlabel(measured[found.kind], fontsize=9)
            part.set_ylim(0, 1.05 * found.attention.max())
        axes[0].set_ylabel("attention weight $p_m$")
        for part in axes[1:]:
            part.tick_params(labelleft=False)

    least = found.spread[:, :, found.one].min(axis=1)
    sharper = found.spread[1, :, found.one].argmin()
    along = np.corrcoef(found.reads[1, sharper], np.log(found.attention[1, sharper]))[0, 1]
    says = (
        f"Attention of heads that read {found.kind} on the {tokens} tokens of one sequence, at the "
        f"start, with {found.learned} eigenvectors learned and at the end: the sharper one is spread "
        f"over {listed(least, '.1f')} tokens; on the plateau the correlation of its weights' logarithm "
        f"with the {found.kind[:-1]} is {along:.2f}."
    )
    return Panel(draw, says, widths=(1.0,) * 3, height=2.4)
