"""Figures can be read without telling red from green."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from iclbook.plot import style

FIGURES = Path(style.__file__).parent
# Okabe and Ito, "Color universal design" (2008)
OKABE_ITO = {"#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7", "#000000"}
# Machado, Oliveira and Fernandes (2009), full severity, on linear RGB
BLIND = {
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
}  # fmt: skip


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


@pytest.mark.parametrize("kind", BLIND)
def test_colours_of_the_palette_stay_apart(kind):
    linear_seen = [np.array(BLIND[kind]) @ linear(colour) for colour in style.PALETTE]
    seen = np.clip(linear_seen, 0, 1) ** (1 / 2.4)
    gaps = [np.linalg.norm(a - b) for a, b in combinations(seen, 2)]
    assert min(gaps) > 0.1  # in units of the cube's side; the eye tells about 0.02


@pytest.mark.parametrize("path", sorted(FIGURES.glob("*.py")), ids=lambda path: path.stem)
def test_figures_use_okabe_and_itos_palette_and_shades(path):
    """Other colours are greys, or shades of one hue, which differ in lightness."""
    for colour in re.findall(r"#[0-9a-fA-F]{6}", path.read_text()):
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        grey = max(red, green, blue) - min(red, green, blue) <= 32
        one_hue = red <= green <= blue or red >= green >= blue
        assert colour.upper() in OKABE_ITO or grey or one_hue, colour
