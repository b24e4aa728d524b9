"""Simulated points on the curves of theory."""

from collections.abc import Mapping

from iclbook.plot.panels import MARKS, Panel, listed
from iclbook.plot.style import DASHED, colours

Points = Mapping[str, Mapping[float, float]]  # y at each x, by name


def dots(simulated: Points, theory: Points, says: str = "", **settings) -> Panel:
    """A mark for each simulated point; dashed in the same colour what theory says under the same name.

    A theory of another name is dashed in a colour of its own. ``says`` ends the alt text.
    """
    names = list(dict.fromkeys([*simulated, *theory]))
    tones = dict(zip(names, colours(len(names)), strict=True))

    def draw(axes):
        for name, points in theory.items():
            own = {} if name in simulated else {"label": name}
            style = DASHED | {"color": tones[name], "linewidth": 1.5} | own
            axes.plot(list(points), list(points.values()), **style)
        for i, (name, points) in enumerate(simulated.items()):
            style = {"color": tones[name], "markersize": 5, "label": name}
            axes.plot(list(points), list(points.values()), MARKS[i % len(MARKS)], **style)
        axes.set(**settings)
        axes.legend(fontsize=8)

    what = settings.get("ylabel", "points")
    said = [f"{what[0].upper()}{what[1:]} against {settings.get('xlabel', 'x')}."]
    for name, points in theory.items():
        first, *_, last = points.values()
        said.append(f"Dashed, {name}: from {first:.2g} to {last:.2g}.")
    for name, points in simulated.items():
        found = listed(list(points.values()), ".3g") if points else "none"
        said.append(f"Marks, {name}: {found}.")
    return Panel(draw, " ".join([*said, says]).strip(), width=6.2, height=3.6)
