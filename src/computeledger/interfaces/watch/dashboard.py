"""A Grafana dashboard of our own metrics: predicted against actual, one panel for each quantity."""

from __future__ import annotations

import json
from typing import Any

from computeledger.interfaces.watch.exposition import INSIDE, METRICS, RATIO, UP

#: Unit of a panel, as Grafana names it.
_UNITS = {"seconds": "s", "second": "none", "ratio": "percentunit", "tokens": "none", "watts": "watt"}
_WIDTH, _HEIGHT, _COLUMNS = 12, 8, 24
_SOURCE = {"type": "prometheus", "uid": "${source}"}


def dashboard() -> dict[str, Any]:
    """The dashboard, as Grafana imports it; it asks which Prometheus has the metrics.

    Examples
    --------
    >>> [one["title"] for one in dashboard()["panels"]][:2]
    ['Actual over predicted', 'Output tokens per second']
    """
    panels = [_panel("Actual over predicted", RATIO[0], "none", "{{quantity}}")]
    panels += [_panel(said.rstrip("."), name, _unit(name), "{{side}}") for name, said in METRICS.values()]
    panels.append(_panel("Inside the predicted interval", INSIDE[0], "none", "{{quantity}}"))
    panels.append(_panel("Endpoint answers (1) or not (0)", UP[0], "none", "{{address}}"))
    for index, one in enumerate(panels):
        across = index * _WIDTH
        one["id"] = index + 1
        one["gridPos"] = {"x": across % _COLUMNS, "y": across // _COLUMNS * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
    return {
        "title": "Compute Ledger: predicted against actual",
        "uid": "computeledger-watch",
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus"}]},
        "panels": panels,
    }


def dashboard_text() -> str:
    """The dashboard as a file."""
    return json.dumps(dashboard(), indent=2) + "\n"


def _unit(name: str) -> str:
    return _UNITS[name.rpartition("_")[2]]


def _panel(title: str, metric: str, unit: str, legend: str) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": title,
        "datasource": _SOURCE,
        "targets": [{"refId": "A", "datasource": _SOURCE, "expr": metric, "legendFormat": legend}],
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
    }
