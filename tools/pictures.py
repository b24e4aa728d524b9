"""Decide whether a chapter that was executed again keeps the picture that it had.

It keeps the picture if nothing that a reader can see has changed. Then a difference in git is a difference
in results: on another processor, round-off moves a curve by a millionth of a pixel, and other bytes result.
"""

import base64
import copy
import io
import re

import numpy as np
from nbformat import NotebookNode
from PIL import Image, ImageSequence

MOVED = 10  # units of a trace: a fifth of a pixel, or a grey level
VISIBLE = 16  # grey levels of 255: an edge that moves by a twentieth of a pixel changes by 13
SHARE = 1e-3  # of the pixels may change by more: markers and ticks are drawn at the nearest pixel
AVERAGES = 1e-6  # of the largest: an explorer's averages, in float32, differ by 8e-7
PICTURE = re.compile(r"data:image/(?:png|webp);base64,([A-Za-z0-9+/=]+)")
FLOATS = re.compile(r"float32:([A-Za-z0-9+/=]+)")


def kept(old: list[NotebookNode], new: list[NotebookNode]) -> list[NotebookNode]:
    """The ``new`` outputs of a cell, with the ``old`` pictures where they show the same."""
    if len(old) == len(new):
        for before, after in zip(old, new, strict=True):
            if look_alike(before, after):
                after.data, after.metadata = before.data, before.metadata
    return new


def look_alike(old: NotebookNode, new: NotebookNode) -> bool:
    """Whether two outputs have pictures and differ in nothing that can be seen."""
    (words, *lists), (new_words, *new_lists) = parts(old), parts(new)
    comparisons = (pixels_alike, traces_alike, averages_alike)
    return (
        words == new_words
        and len(lists[0]) > 0
        and [len(each) for each in lists] == [len(each) for each in new_lists]
        and all(all(map(*each)) for each in zip(comparisons, lists, new_lists, strict=True))
    )


def parts(output: NotebookNode) -> tuple[dict, list[bytes], list[str], list[np.ndarray]]:
    """What an output says in words, its pictures, what they trace, and the averages of an explorer."""
    words = copy.deepcopy(dict(output))
    words.pop("execution_count", None)
    data, metadata = words.get("data", {}), words.get("metadata", {})
    html = data.get("text/html", "")
    pictures = [data.pop("image/png", ""), *PICTURE.findall(html)]
    averages = [np.frombuffer(base64.b64decode(each), "<f4") for each in FLOATS.findall(html)]
    data["text/html"] = FLOATS.sub("", PICTURE.sub("", html))
    traces = [trace for kind in metadata.values() for trace in kind.pop("trace", "").split()]
    return words, [base64.b64decode(each) for each in pictures if each], traces, averages


def traces_alike(old: str, new: str) -> bool:
    """Whether texts, widths, colours and the places of markers agree; lines are compared by their pixels."""
    from iclbook.plot.trace import numbers, structure  # not above: this loads all kinds of panels

    return old == new or (
        structure(old) == structure(new)
        and np.abs(numbers(old)[0] - numbers(new)[0]).max() <= MOVED
    )


def averages_alike(old: np.ndarray, new: np.ndarray) -> bool:
    return old.shape == new.shape and np.allclose(new, old, rtol=0, atol=AVERAGES * abs(old).max())


def pixels_alike(old: bytes, new: bytes) -> bool:
    frames, new_frames = map(pixels, (old, new))
    if [frame.shape for frame in frames] != [frame.shape for frame in new_frames]:
        return False
    changed = (abs(a - b).max(axis=2) > VISIBLE for a, b in zip(frames, new_frames, strict=True))
    return all(change.mean() <= SHARE for change in changed)


def pixels(picture: bytes) -> list[np.ndarray]:
    """Each frame of a picture, which may be an animation."""
    frames = ImageSequence.Iterator(Image.open(io.BytesIO(picture)))
    return [np.asarray(frame.convert("RGB"), dtype=np.int16) for frame in frames]
