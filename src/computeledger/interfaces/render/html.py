"""A view as a report: one page of HTML that needs nothing from the network."""

from __future__ import annotations

from computeledger.interfaces.glossary import glossary
from computeledger.interfaces.page import assets, foot, page_template, plotly_script, script_json, version
from computeledger.interfaces.plots import parts as plot_parts
from computeledger.interfaces.view import View
from computeledger.sources import bibtex, load_sources


def report(view: View, *, live_s: float = 0.0, has_library: bool = True, silence: str = "") -> str:
    """The whole page, with styles, drawings and data inside; it carries the drawing library only where it draws.

    One that is served asks ``/now`` for itself every ``live_s`` seconds, unless that is 0; it needs the library once.
    ``silence`` says since when there is nothing new to show.
    """
    title = view.title or view.headline
    data = {
        "figures": {
            "/".join(filter(None, (one.name, name))): figure
            for one in view.plots
            for name, figure in (one.variants or {"": one.figure}).items()
        },
        "config": plot_parts.CONFIG,
        "templates": {"light": plot_parts.template(), "dark": plot_parts.template(dark=True)},
    }
    return page_template("view.html").render(
        view=view,
        title=title,
        foot=foot(f"{title} · Compute Ledger"),
        version=version(),
        style=assets("report.css", "cards.css"),
        draw=assets("draw.js"),
        search=assets("report.js"),
        terms=script_json(glossary()),
        explain=assets("terms.js"),
        fold=assets("folding.js", "cards.js", "folded.js"),
        sources=[load_sources()[key] for key in view.sources],
        bibtex=bibtex(view.sources),
        data=script_json(data),
        plotly=plotly_script() if view.plots and has_library else "",
        live_s=live_s,
        silence=silence,
        live=assets("live.js") if live_s else "",
    )
