"""Pictures are read without telling red from green: by the palette's name and by its distances."""

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


def test_the_palette_is_okabe_and_itos():
    assert {colour.upper() for colour in style.PALETTE} <= OKABE_ITO


@pytest.mark.parametrize("kind", BLIND)
def test_colours_stay_apart(kind):
    seen = [
        np.clip(np.array(BLIND[kind]) @ linear(colour), 0, 1) ** (1 / 2.4)
        for colour in style.PALETTE
    ]
    gaps = [np.linalg.norm(a - b) for a, b in combinations(seen, 2)]
    assert min(gaps) > 0.1  # of the cube's side; the eye tells about 0.02


@pytest.mark.parametrize("path", sorted(FIGURES.glob("*.py")), ids=lambda path: path.stem)
def test_figures_use_the_palette_greys_and_blues(path):
    """Other colours are shades of one hue, told apart by lightness."""
    for colour in re.findall(r"#[0-9a-fA-F]{6}", path.read_text()):
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        grey = max(red, green, blue) - min(red, green, blue) <= 32
        one_hue = red <= green <= blue or red >= green >= blue
        assert colour.upper() in OKABE_ITO or grey or one_hue, colour
