"""Fills the templates of this folder: pages without scripts and external resources."""

from __future__ import annotations

from importlib import resources
from typing import Any

from deltaplane.report.words import amount, bytes_text, count_of, duration, moment, number, percent

__all__ = ["rendered"]


def rendered(template: str, **values: Any) -> str:
    """A template of this folder with these values, and with the style that all pages share.

    Raises:
        ImportError: jinja2 isn't installed; the message tells how to install it.
    """
    try:
        import jinja2
    except ModuleNotFoundError as e:
        if e.name != "jinja2":
            raise
        raise ImportError("the report's page needs jinja2: pip install 'deltaplane[report]'") from e
    here = resources.files("deltaplane.report")
    # All content of a log is text: everything is escaped except the charts, which escape their own
    # texts.
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (here / name).read_text("utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "amount": amount,
        "bytes": bytes_text,
        "duration": duration,
        "moment": moment,
        "number": number,
        "percent": percent,
    }
    style = (here / "style.css").read_text("utf-8")
    return environment.get_template(template).render(style=style, count_of=count_of, **values)
