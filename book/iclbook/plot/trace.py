"""What a picture draws, as numbers: places in fiftieths of a pixel, colours in tenths of a grey level.

Two processors may round a coordinate differently in its last bit, and some pixels with it. A picture
that carries its trace can be compared by what it shows, and kept where nothing that can be seen differs.
"""

import base64
import hashlib
import zlib

import numpy as np
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure as Canvas
from matplotlib.path import Path

PLACES, COLOURS = 50, 10 * 255  # units of the numbers
NOTHING, FARTHEST = -(2**30), 2**29  # for nan; what lies outside the picture by thousands of pixels
TILES = 32  # of an image, along each side


def trace(figure: Canvas) -> str:
    """``structure:values:counts:points`` of a figure that has been laid out: texts, widths and counts
    by their digest; colours and places; the points of each line. All are compressed whole numbers."""
    tracer = Tracer(figure)
    layout = figure.get_layout_engine()
    figure.set_layout_engine("none")
    figure.draw(tracer)
    figure.set_layout_engine(layout)
    structure = hashlib.sha256("\n".join(tracer.marks).encode()).hexdigest()[:16]
    points = np.concatenate(tracer.lines)
    counts = np.array([len(line) for line in tracer.lines])
    packed = (np.concatenate(tracer.values), counts, points.T.ravel())
    return ":".join([structure, *map(_packed, packed)])


def structure(trace: str) -> str:
    return trace.partition(":")[0]


def numbers(trace: str) -> tuple[np.ndarray, list[np.ndarray]]:
    """Colours and places, and the points of each line."""
    values, counts, points = map(_unpacked, trace.split(":")[1:])
    return values, np.split(points.reshape(2, -1).T, np.cumsum(counts)[:-1])


class Tracer(RendererBase):
    """A renderer that draws nothing and notes what it is asked to draw."""

    def __init__(self, figure: Canvas):
        super().__init__()
        self.size, self.dpi = figure.bbox.size, figure.dpi
        self.marks: list[str] = []
        self.values: list[np.ndarray] = []
        self.lines: list[np.ndarray] = []

    def note(self, mark: str, places: object, *colours: object) -> None:
        painted = [np.asarray(c if c is not None else (), dtype=float) for c in colours]
        values = [PLACES * np.asarray(places), *(COLOURS * c for c in painted)]
        self.marks.append(f"{mark} {[each.size for each in values]}")
        self.values += [_whole(each).ravel() for each in values]

    def note_lines(self, mark: str, path: Path, transform) -> None:
        lines = straight(path, transform)
        self.marks.append(f"{mark} {len(lines)}")
        self.lines += [_whole(PLACES * line) for line in lines]

    def draw_path(self, gc, path, transform, rgbFace=None):
        mark = f"path {gc.get_linewidth()} {gc.get_dashes()} {gc.get_alpha()}"
        self.note_lines(mark, path, transform)
        self.note("in", (), gc.get_rgb(), rgbFace)

    def draw_markers(self, gc, marker_path, marker_trans, path, trans, rgbFace=None):
        self.draw_path(gc, marker_path, marker_trans, rgbFace)
        self.note("there", trans.transform(path.vertices))

    def draw_path_collection(self, gc, master_transform, paths, all_transforms, offsets, offset_trans,
                             facecolors, edgecolors, linewidths, *rest, **more):  # fmt: skip
        for path in paths:
            self.note_lines("one of", path, master_transform)
        sizes = np.array(all_transforms)[:, :2, :2] if len(all_transforms) else ()
        self.note(f"there {linewidths}", offset_trans.transform(offsets), facecolors, edgecolors)
        self.note("turned", sizes)

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


def straight(path: Path, transform) -> list[np.ndarray]:
    """The pieces of a path as drawn, of straight lines, without the points of long ones that lie on the
    line through their neighbours: which these are is left to round-off, the line is not."""
    own = Path(transform.transform(path.vertices), path.codes)  # the artist's keeps its threshold
    own.simplify_threshold = 1 / PLACES
    own = own.cleaned(remove_nans=True, simplify=own.should_simplify)
    drawn = (own.codes == Path.MOVETO) | (own.codes == Path.LINETO)
    starts = np.flatnonzero(own.codes[drawn] == Path.MOVETO)
    return np.split(own.vertices[drawn], starts)[1:]


def tiles(image: np.ndarray) -> np.ndarray:
    """The mean colour of each of TILES by TILES parts of an image, or of its pixels if there are fewer."""
    for axis in (0, 1):
        first = np.unique(np.linspace(0, image.shape[axis], TILES, endpoint=False).astype(int))
        size = np.diff([*first, image.shape[axis]])
        size = size[:, None, None] if axis == 0 else size[:, None]
        image = np.add.reduceat(image, first, axis=axis) / size
    return image


def _whole(numbers: np.ndarray) -> np.ndarray:
    clipped = np.clip(numbers, -FARTHEST, FARTHEST)
    return np.where(np.isnan(numbers), NOTHING, np.rint(clipped)).astype(np.int64)


def _packed(numbers: np.ndarray) -> str:
    steps = np.diff(numbers, prepend=0).astype("<i4")
    return base64.b85encode(zlib.compress(steps.tobytes(), 9)).decode()


def _unpacked(packed: str) -> np.ndarray:
    steps = np.frombuffer(zlib.decompress(base64.b85decode(packed)), "<i4")
    return np.cumsum(steps, dtype=np.int64)
