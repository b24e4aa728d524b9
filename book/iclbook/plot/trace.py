"""What a picture draws, as numbers: places in hundredths of a pixel, colours in fifths of a grey level.

Two processors may round a coordinate differently in its last bit, and some pixels with it. A picture
that carries its trace can be compared by what it shows, and kept where nothing that can be seen differs.
"""

import base64
import hashlib
import zlib

import numpy as np
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure as Canvas

PLACES, COLOURS = 100, 5 * 255  # units of the numbers
NOTHING, FARTHEST = -(2**30), 2**29  # for nan; what lies outside the picture by thousands of pixels
PIECES = 32  # of each path, whatever its length


def trace(figure: Canvas) -> str:
    """``structure:numbers`` of a figure that has been laid out: texts, widths and counts by their
    digest, places and colours as compressed whole numbers."""
    tracer = Tracer(figure)
    layout = figure.get_layout_engine()
    figure.set_layout_engine("none")
    figure.draw(tracer)
    figure.set_layout_engine(layout)
    structure = hashlib.sha256("\n".join(tracer.marks).encode()).hexdigest()[:16]
    numbers = np.diff(np.concatenate(tracer.numbers), prepend=0).astype("<i4")
    return f"{structure}:{base64.b85encode(zlib.compress(numbers.tobytes(), 9)).decode()}"


def numbers_of(trace: str) -> tuple[str, np.ndarray]:
    """The structure and the numbers."""
    structure, _, packed = trace.partition(":")
    numbers = np.frombuffer(zlib.decompress(base64.b85decode(packed)), "<i4")
    return structure, np.cumsum(numbers, dtype=np.int64)


class Tracer(RendererBase):
    """A renderer that draws nothing and notes what it is asked to draw."""

    def __init__(self, figure: Canvas):
        super().__init__()
        self.size, self.dpi = figure.bbox.size, figure.dpi
        self.marks: list[str] = []
        self.numbers: list[np.ndarray] = []

    def note(self, mark: str, points: np.ndarray, *colours: object) -> None:
        points = np.asarray(points, dtype=float).reshape(-1, 2)
        painted = [np.asarray(c if c is not None else (), dtype=float).ravel() for c in colours]
        self.marks.append(f"{mark} {len(points)} {[len(c) for c in painted]}")
        self.numbers += [_whole(PLACES * extremes(points)).ravel()]
        self.numbers += [_whole(COLOURS * c) for c in painted]

    def draw_path(self, gc, path, transform, rgbFace=None):
        mark = f"path {gc.get_linewidth()} {gc.get_dashes()} {gc.get_alpha()}"
        self.note(mark, transform.transform(path.vertices), gc.get_rgb(), rgbFace)

    def draw_markers(self, gc, marker_path, marker_trans, path, trans, rgbFace=None):
        self.draw_path(gc, marker_path, marker_trans, rgbFace)
        self.note("there", trans.transform(path.vertices))

    def draw_path_collection(self, gc, master_transform, paths, all_transforms, offsets, offset_trans,
                             facecolors, edgecolors, linewidths, *rest, **more):  # fmt: skip
        for path in paths:
            self.note("one of", master_transform.transform(path.vertices))
        sizes = np.array(all_transforms)[:, :2, :2] if len(all_transforms) else ()
        self.note(f"there {linewidths}", offset_trans.transform(offsets), facecolors, edgecolors)
        self.note("turned", np.asarray(sizes))

    def draw_quad_mesh(self, gc, master_transform, meshWidth, meshHeight, coordinates, offsets,
                       offsetTrans, facecolors, *rest):  # fmt: skip
        corners = np.asarray(coordinates, dtype=float).reshape(-1, 2)
        self.note("mesh", master_transform.transform(corners), facecolors)

    def draw_image(self, gc, x, y, im, transform=None):
        self.note(f"image {im.shape}", np.array([(x, y)]), tiles(np.asarray(im) / 255))

    def draw_text(self, gc, x, y, s, prop, angle, ismath=False, mtext=None):
        self.note(f"text {s} {angle} {prop.get_size_in_points()}", np.array([(x, y)]), gc.get_rgb())

    def get_canvas_width_height(self):
        return tuple(self.size)

    def points_to_pixels(self, points):
        return points * self.dpi / 72


def extremes(points: np.ndarray) -> np.ndarray:
    """All of a few points; of many, the least and the largest of each of PIECES runs of them, so that
    no point can move far and stay unseen."""
    if len(points) <= 2 * PIECES:
        return points
    first = np.linspace(0, len(points), PIECES, endpoint=False).astype(int)
    return np.stack([ends.reduceat(points, first) for ends in (np.fmin, np.fmax)])


def tiles(image: np.ndarray) -> np.ndarray:
    """The mean colour of each of PIECES by PIECES parts of an image, or of its pixels if there are fewer."""
    for axis in (0, 1):
        first = np.unique(np.linspace(0, image.shape[axis], PIECES, endpoint=False).astype(int))
        size = np.diff([*first, image.shape[axis]])
        size = size[:, None, None] if axis == 0 else size[:, None]
        image = np.add.reduceat(image, first, axis=axis) / size
    return image


def _whole(numbers: np.ndarray) -> np.ndarray:
    clipped = np.clip(numbers, -FARTHEST, FARTHEST)
    return np.where(np.isnan(numbers), NOTHING, np.rint(clipped)).astype(np.int64)
