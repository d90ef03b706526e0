"""What a serving answer says of LoRA adapters: what they hold, how many a batch names, and what is copied."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from computeledger.arrays import median
from computeledger.errors import DoesNotFitError
from computeledger.fields import MOST_COUNT
from computeledger.physics.adapters import adapter_bytes, distinct_adapters, load_s, miss_fraction, served_bytes
from computeledger.questions.answers.serving.finalists import Finalist, fitting_fleet, one_unit, prices_of
from computeledger.questions.answers.serving.promise import KeptPromise
from computeledger.questions.answers.serving.setting import read_setting
from computeledger.units import format_count, format_si
from computeledger.workloads.serving.scenario import ServingScenario


def adapters_document(scenario: ServingScenario) -> dict[str, Any]:
    """Adapters at an answer's layout and batch; nothing where there are none.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> adapters_document(ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 9.0, 9.0, 1.0))
    {}
    """
    model, layout = scenario.model, scenario.layout
    lora = model.adapters
    if lora is None:
        return {}
    served, each = lora.served, adapter_bytes(model, lora)
    on_rank = np.maximum(np.asarray(scenario.batch) / (layout.dp * layout.pp), 1.0)
    found = {
        "n_adapters": served.n_adapters,
        "n_on_chip": served.n_slots,
        "rank": lora.rank,
        "targets": lora.targets,
        "zipf_exponent": served.zipf_exponent,
        "bytes_each": each,
        "bytes_per_gpu": median(served_bytes(model, layout)),
        "host_bytes": each * served.n_adapters if served.n_slots < served.n_adapters else 0.0,
        "distinct_in_batch": median(distinct_adapters(served, on_rank)),
        "missed_fraction": miss_fraction(served),
        "copy_s": median(load_s(model, layout, scenario.host.link_bytes_per_s)),
    }
    return {"adapters": found}


def slots_document(kept: KeptPromise) -> dict[str, Any]:
    """GPUs of the chosen layout that keep a promise by slots for adapters: the slots asked about, twice as many and so
    on, as long as that saves GPUs; nothing where every adapter has a slot.
    """
    chosen = kept.chosen
    lora = chosen.setting.at_median.model.adapters
    if lora is None or lora.served.n_slots >= lora.served.n_adapters:
        return {}
    slots, gpus = lora.served.n_slots, {lora.served.n_slots: chosen.n_gpus}
    while slots < lora.served.n_adapters:
        slots = min(2 * slots, lora.served.n_adapters)
        found = _gpus_with(slots, chosen, kept)
        if found is None or found > min(gpus.values()):
            break
        gpus[slots] = found
    return {"gpus_by_adapter_slots": {str(n): one for n, one in gpus.items()}}


def _gpus_with(slots: int, chosen: Finalist, kept: KeptPromise) -> int | None:
    """GPUs of a layout that keep a promise with so many slots; none where they leave no room, or nothing keeps it."""
    setting = read_setting(replace(chosen.setting.question, max_loras=slots))
    try:
        unit = one_unit(setting, chosen.option, chosen.max_batch, kept.asked)
    except DoesNotFitError:
        return None
    priced = prices_of(setting, chosen.layouts), float(MOST_COUNT)
    found = fitting_fleet(unit, chosen.option, kept.asked, priced, kept.median.counts)
    return None if found is None else chosen.gpus_of(found.counts)


def adapter_remarks(scenario: ServingScenario, *, is_simulated: bool = False) -> list[str]:
    """What stands for what nobody stated of adapters, and what an answer in closed form leaves out."""
    lora = scenario.model.adapters
    if lora is None:
        return []
    served, said = lora.served, []
    if served.n_adapters > 1 and not served.zipf_exponent:
        said.append("all adapters are asked for equally often (assumption): --adapter-zipf 1.5 says how they differ")
    if served.n_slots == served.n_adapters:
        return said
    link = format_si(float(np.asarray(scenario.host.link_bytes_per_s)), "B/s")
    said.append(
        f"adapters without a slot are copied from host memory over a link of {link} while the step waits (assumption: "
        "--host-link); reading them from disk is not counted"
    )
    slots = format_count(served.n_slots, "adapter")
    if is_simulated:
        said.append(
            f"a batch takes requests of {slots} of {served.n_adapters} at once (--max-loras), and requests go to "
            "replicas whatever adapter they name: where these slots bind, first tokens wait though the load is far "
            "below the largest stable one, at which a line without end fills each batch with requests of few adapters"
        )
    else:
        said.append(
            f"a batch takes requests of {slots} at once, and the others wait: this answer does not count that wait; "
            "simulate serve and a promise in percentiles do"
        )
    return said
