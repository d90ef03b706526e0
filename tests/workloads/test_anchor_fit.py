"""What measurements teach: narrower with every one that agrees, wider where they contradict one another, never lost."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from computeledger.arrays import Range
from computeledger.physics.calibration.anchors import load_anchor_calibration
from computeledger.workloads.anchor_fit import Lesson
from computeledger.workloads.serving.anchor_fit import MeasuredRatio, learn
from computeledger.workloads.serving.intervals import interval_of

CLASSES = ("known deployment", "chip never measured", "engine never fitted", "local engine")


def width(one: Range) -> float:
    return math.log(one.high / one.low)


def taught(name: str, quantity: str, ratios: list[float], batch: float = 32.0, spread: float = 1.0) -> Lesson:
    places = [batch * spread**step for step in (0, 1, -1, 0.5, -0.5, 0.7, -0.7)]
    points = [MeasuredRatio(ratio, place, 1024.0) for ratio, place in zip(ratios, places, strict=False)]
    return learn(interval_of(name), quantity, points, (batch, 1024.0))


@pytest.mark.parametrize("quantity", ["tpot", "ttft"])
@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("spread", [1.0, 4.0])
def test_every_measurement_that_agrees_narrows(name: str, quantity: str, spread: float) -> None:
    lessons = [taught(name, quantity, [1.3] * n, spread=spread) for n in range(7)]
    widths = [width(one.after) for one in lessons]
    assert all(later < earlier * (1 + 1e-4) for earlier, later in pairwise(widths[1:]))
    assert widths[1] < widths[0] or lessons[1].before == lessons[0].before
    assert all(one.widening == 1.0 for one in lessons)
    away = [abs(math.log((one.after.mid or 1.0) / 1.3)) for one in lessons[1:]]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(away))


@pytest.mark.parametrize("quantity", ["tpot", "ttft"])
@pytest.mark.parametrize("name", CLASSES)
def test_measurements_that_contradict_one_another_widen_and_say_so(name: str, quantity: str) -> None:
    agree, differ = (taught(name, quantity, [1.3 / apart, 1.3 * apart]) for apart in (1.0, 2.0))
    assert width(differ.after) > 1.2 * width(agree.after)
    assert differ.widening > 1.0 and differ.differ_ratio == pytest.approx(4.0)
    assert differ.after.mid == pytest.approx(agree.after.mid)


def test_an_interval_widens_away_from_what_was_measured() -> None:
    point = [MeasuredRatio(1.3, 32.0, 1024.0)]
    far = interval_of("engine never fitted")
    widths = [width(learn(far, "tpot", point, at).after) for at in ((32, 1024), (128, 1024), (128, 8192), (512, 65536))]
    assert widths == sorted(widths) and widths[0] < widths[-1] <= width(far.tpot) + 1e-12


def test_several_loads_teach_a_slope_and_one_does_not() -> None:
    far = interval_of("engine never fitted")
    rising = [MeasuredRatio(1.1, 4.0, 1024.0), MeasuredRatio(1.3, 16.0, 1024.0), MeasuredRatio(1.55, 64.0, 1024.0)]
    small, large = (learn(far, "tpot", rising, (batch, 1024.0)).after.mid or 0.0 for batch in (2.0, 128.0))
    assert small < 1.15 and large > 1.4
    alone = [learn(far, "tpot", rising[1:2], (batch, 1024.0)).after.mid for batch in (2.0, 128.0)]
    assert alone[0] == alone[1]


def test_what_is_carried_over_starts_from_the_class_and_not_from_one() -> None:
    """A class whose deployments run slower than predicted is not made faster by a measurement that says the same."""
    slow = interval_of("disaggregated")
    middle = slow.ttft.mid or 1.0
    assert middle > 1.2
    assert learn(slow, "ttft", [MeasuredRatio(middle, 8.0, 1024.0)]).shift == pytest.approx(1.0)


def test_the_posterior_is_the_regressions_own() -> None:
    """Against a draw of the generative model itself: the mean of what is left is zero and its spread as stated."""
    spread = load_anchor_calibration().spreads["tpot"]
    rng = np.random.default_rng(0)
    places, target = np.array([8.0, 32.0]), 128.0
    misses = []
    far = interval_of("engine never fitted")
    for _ in range(2000):
        level, slope = rng.normal(0, spread.between_sd), rng.normal(0, spread.per_batch_doubling_sd)
        at = [level + slope * math.log2(batch / 16.0) for batch in (*places, target)]
        noisy = [one + rng.normal(0, spread.scatter_sd) for one in at]
        points = [MeasuredRatio(math.exp(one), batch, 1024.0) for one, batch in zip(noisy, places, strict=False)]
        found = learn(far, "tpot", points, (target, 1024.0)).after
        misses.append((noisy[2] - math.log(found.mid or 1.0)) / (math.log(found.high / found.low)))
    assert abs(np.mean(misses)) < 0.02
    inside = np.mean(np.abs(misses) < 0.5)
    assert inside > 0.9
