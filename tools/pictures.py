"""When an executed chapter keeps the picture it had: if what is drawn and its pixels agree, and an
explorer's averages.

A difference in git is then a difference in results, on any processor: round-off moves a curve by
millionths of a pixel, and what is printed is rounded to where it is the same everywhere.
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
SNAPPED = 1e-3  # share of pixels that may change by more: markers and ticks go to the nearest pixel
AVERAGED = 1e-6  # of the largest: six factors off by their last bit, and both rounded, are 8e-7
EMBEDDED = re.compile(r"data:image/(?:png|webp);base64,([A-Za-z0-9+/=]+)")
FLOATS = re.compile(r"float32:([A-Za-z0-9+/=]+)")


def kept(old: list[NotebookNode], new: list[NotebookNode]) -> list[NotebookNode]:
    """The ``new`` outputs of a cell; where one shows what the old one does, with the old one's picture."""
    if len(old) == len(new):
        for before, after in zip(old, new, strict=True):
            if alike(before, after):
                after.data, after.metadata = before.data, before.metadata
    return new


def alike(old: NotebookNode, new: NotebookNode) -> bool:
    """Whether two outputs have pictures, and differ in nothing that can be seen."""
    (words, pictures, traces, averages), (new_words, *new) = map(taken_apart, (old, new))
    new_pictures, new_traces, new_averages = new
    return (
        words == new_words
        and len(pictures) == len(new_pictures) > 0
        and len(traces) == len(new_traces) > 0
        and len(averages) == len(new_averages)
        and all(map(drawn_alike, traces, new_traces))
        and all(map(averages_alike, averages, new_averages))
        and all(map(pixels_alike, pictures, new_pictures))
    )


def taken_apart(output: NotebookNode) -> tuple[dict, list[bytes], list[str], list[np.ndarray]]:
    """What an output says, its pictures, their traces, and the averages that an explorer works with."""
    words = copy.deepcopy(dict(output))
    words.pop("execution_count", None)
    data, metadata = words.get("data", {}), words.get("metadata", {})
    pictures = [data.pop("image/png")] if "image/png" in data else []
    html = data.get("text/html", "")
    pictures += EMBEDDED.findall(html)
    averages = [np.frombuffer(base64.b64decode(each), "<f4") for each in FLOATS.findall(html)]
    if "text/html" in data:
        data["text/html"] = FLOATS.sub("", EMBEDDED.sub("", html))
    traces = [trace for kind in metadata.values() for trace in kind.pop("trace", "").split()]
    return words, [base64.b64decode(picture) for picture in pictures], traces, averages


def averages_alike(old: np.ndarray, new: np.ndarray) -> bool:
    return old.shape == new.shape and np.allclose(new, old, rtol=0, atol=AVERAGED * abs(old).max())


def drawn_alike(old: str, new: str) -> bool:
    """Whether colours and places agree, and lines lie on one another.

    A run that leaves a saddle grows round-off as it grows the loss's drop: its steep curve moves along
    itself by half a pixel, and by a sixth of that to its side, which is all that can be seen.
    """
    from iclbook.plot.trace import numbers, structure  # not above: with all panels, half a second

    if old == new or structure(old) != structure(new):
        return old == new
    (values, lines), (new_values, new_lines) = map(numbers, (old, new))
    return bool(np.all(np.abs(values - new_values) <= MOVED)) and all(
        max(farthest(a, b), farthest(b, a)) <= MOVED for a, b in zip(lines, new_lines, strict=True)
    )


def farthest(points: np.ndarray, line: np.ndarray) -> float:
    """The largest distance of any of the points from the line."""
    nearest = np.full(len(points), np.inf)
    for start, end in zip(line, [*line[1:], line[-1]], strict=True):
        way, off = end - start, points - start
        share = np.clip(off @ way / max(way @ way, 1), 0, 1)
        nearest = np.fmin(nearest, np.hypot(*(off - np.outer(share, way)).T))
    return float(nearest.max())


def pixels_alike(old: bytes, new: bytes) -> bool:
    if old == new:
        return True
    frames, new_frames = (
        [
            np.asarray(frame.convert("RGB"), dtype=np.int16)
            for frame in ImageSequence.Iterator(picture)
        ]
        for picture in (Image.open(io.BytesIO(file)) for file in (old, new))
    )
    if [frame.shape for frame in frames] != [frame.shape for frame in new_frames]:
        return False
    changed = (np.abs(a - b).max(axis=2) > VISIBLE for a, b in zip(frames, new_frames, strict=True))
    return all(change.mean() <= SNAPPED for change in changed)
