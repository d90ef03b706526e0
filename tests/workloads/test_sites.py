"""Training on several sites: what the link between them costs, each step or every few hundred."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import computeledger as cl
from computeledger.errors import ComputeLedgerError
from computeledger.physics.parallelism import Layout
from computeledger.physics.training.batch import Batch
from computeledger.physics.training.sites import Sites, of_one_site, site_exchange_s
from computeledger.workloads.pretraining.estimate import BETWEEN_SITES

ASKED = {
    "model": "llama-3.1-70b", "system": "512xh100", "layout": "tp8-pp2-dp32", "tokens": "1T", "samples": "16",
    "global_batch_tokens": "4M", "recompute": "none", "virtual_stages": "1", "microbatch_sequences": "1",
}  # fmt: skip


def between(**given: str) -> float:
    return float(np.median(cl.pretrain(**ASKED, **given).result.components_s[BETWEEN_SITES]))


def test_the_exchange_is_the_published_bound() -> None:
    """Charles and others 2025, appendix A.2: 2 N (1 - 1/R) / W + latency, every H steps."""
    link = Sites(2, 12.5e9)
    assert site_exchange_s(10e9, link) == pytest.approx(2 * 16 * 10e9 * 0.5 / 100e9)
    assert site_exchange_s(10e9, replace(link, n=4)) == pytest.approx(1.5 * site_exchange_s(10e9, link))
    assert site_exchange_s(10e9, replace(link, local_steps=30)) == pytest.approx(site_exchange_s(10e9, link) / 30)
    assert site_exchange_s(1.0, replace(link, latency_s=0.02)) == pytest.approx(0.04, rel=1e-6)


def test_each_site_is_a_job_of_its_own_with_a_share_of_the_batch() -> None:
    alone = cl.pretrain(**{**ASKED, "system": "256xh100", "layout": "tp8-pp2-dp16", "global_batch_tokens": "2M"})
    both = cl.pretrain(**ASKED, sites="2", site_bandwidth="1e6 Tb/s", site_latency="0 s")
    assert both.result.step_s == pytest.approx(alone.result.step_s, rel=1e-6)
    assert both.result.memory.total_bytes == pytest.approx(alone.result.memory.total_bytes)
    assert of_one_site(Sites(2, 1e9), Layout(tp=2, dp=8), Batch(4096.0, 64.0))[0] == Layout(tp=2, dp=4)


def test_local_steps_take_the_link_out_of_the_step_and_room_for_the_outer_optimizer() -> None:
    link = {"sites": "2", "site_bandwidth": "100Gb/s"}
    assert between(**link) > 10 and between(**link) == pytest.approx(100 * between(**link, local_steps="100"))
    every, seldom = (cl.pretrain(**ASKED, **link, local_steps=h).result for h in ("1", "100"))
    assert seldom.memory.optimizer_bytes > 1.5 * every.memory.optimizer_bytes
    assert "exchanging every 100 steps" in cl.pretrain(**ASKED, **link, local_steps="100").view().asked[0]


def test_a_measurement_at_one_site_anchors_both() -> None:
    given = {**ASKED, "sites": "2", "site_bandwidth": "100Gb/s", "samples": "256"}
    alone, anchored = (cl.pretrain(**given, anchor=one) for one in ([], ["step=6.9s,layout=tp8-dp1,global_batch=64K"]))
    assert anchored.anchored is not None
    assert anchored.anchored.steps[0].scenario.sites is None and anchored.result.scenario.sites is not None
    links = [one.result.components_s[BETWEEN_SITES] for one in (alone, anchored)]
    assert np.median(links[0]) == np.median(links[1]) > 10 and anchored.step_s.p50 != alone.step_s.p50


def test_searched_layouts_divide_over_the_sites() -> None:
    given = {key: value for key, value in ASKED.items() if key in ("model", "system", "tokens", "samples")}
    found = cl.pretrain(**given, sites="4", site_bandwidth="1Tb/s").layouts
    assert found and all(int(one.option.layout.dp) % 4 == 0 for one in found)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sites": "2"}, "sites needs .*site_bandwidth"),
        ({"local_steps": "10"}, "local_steps.* needs .*sites"),
        ({"sites": "3", "site_bandwidth": "1Tb/s"}, "dp must be a multiple"),
        ({"sites": "3", "site_bandwidth": "1Tb/s", "layout": None}, "do not divide over 3 sites"),
    ],
)
def test_what_contradicts_itself_is_refused(given: dict[str, str | None], message: str) -> None:
    asked = {key: value for key, value in {**ASKED, **given}.items() if value is not None}
    with pytest.raises(ComputeLedgerError, match=message):
        cl.pretrain(**asked)
