"""Numbers that a page's text quotes: taken from the run, never typed."""

from numbers import Integral


def quote(study: str, facts: dict, **formats: str) -> None:
    """Hand ``facts`` to the text as ``study.name``, with three significant digits or as ``formats`` say.

    What is handed over is also the cell's printed output, so that nbval checks every number of a page.
    """
    from myst_nb import glue

    said = []
    for name, value in facts.items():
        text = format(value, formats.get(name, ",d" if isinstance(value, Integral) else ".3g"))
        glue(f"{study}.{name}", text.replace("-", "−"), display=False)
        said.append(f"{name} {text}")
    print(f"{study}: {', '.join(said)}")
