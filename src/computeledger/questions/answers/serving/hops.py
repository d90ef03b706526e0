"""What a serving answer says of its pipeline: bytes between stages, and what was measured beside the network's time."""

from __future__ import annotations

from computeledger.arrays import median
from computeledger.physics.roofline import ACTIVATION_BYTES, OperationKind
from computeledger.questions.wording import words
from computeledger.validation.claims.observations import load_observations
from computeledger.workloads.serving.estimate import ServingResult


def pipeline_remarks(result: ServingResult) -> list[str]:
    """Of a replica in stages, for each token of one sequence; none where one stage holds all layers.

    Examples
    --------
    >>> from computeledger.questions.answers.serving.answer import serve
    >>> asked = serve(model="llama-3.1-8b", system="h100-nvl8", layout="tp1-pp2", batch=8, samples=16)
    >>> pipeline_remarks(asked.result)[0].split()[:6]
    ['between', 'two', 'stages', 'a', 'token', 'sends']
    >>> pipeline_remarks(serve(asked.question, layout="tp2").result)
    []
    """
    scenario = result.scenario
    stages = median(scenario.layout.pp)
    hops = [one for one in result.decode if one.name == OperationKind.PIPELINE_HOPS]
    if stages <= 1 or not hops:
        return []
    hop_s = median(hops[0].time_s) / (stages - 1)
    seen = load_observations()
    one, two = (seen[f"{name}_output_tokens_per_s"] for name in ("tp8", "tp8_pp2"))
    added = words(1 / two.value - 1 / one.value, "s")
    streams = scenario.model.residual_streams
    sent = words(streams * ACTIVATION_BYTES * scenario.model.hidden_size, "B")
    which = "its residual stream" if streams == 1 else f"its {streams} residual streams"
    said = (
        f"between two stages a token sends {sent}, {which}: {words(hop_s, 's')} a hop and step on the "
        "network. Layers that read the outputs of earlier ones would send those too. An engine's host may add far "
        f"more: vLLM 0.17 under Ray took {added} longer a token in two stages on two nodes than in one ({two.source})"
    )
    return [said]
