"""What a serving answer says of the images in its prompts: tokens, the encoder's work, memory and time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from computeledger.arrays import Num, median
from computeledger.facts.architecture import Model
from computeledger.facts.images import image_rule
from computeledger.physics.roofline import Operation, OperationKind, total_s
from computeledger.physics.serving.encoding import encoder_bytes_per_gpu, image_work
from computeledger.workloads.questions.images import WithImages
from computeledger.workloads.result import quantity
from computeledger.workloads.serving.images import image_tokens
from computeledger.workloads.serving.scenario import ServingScenario

_KINDS = (OperationKind.IMAGE_ENCODER, OperationKind.IMAGE_ATTENTION, OperationKind.IMAGE_ACTIVATIONS)


def tokens_document(question: WithImages, model: Model) -> dict[str, Any]:
    """Images of a request and what they become; empty where prompts are text."""
    images, cached = model.images, getattr(question, "cached_images", 0)
    if images is None:
        return {}
    seen, (rule, _) = image_tokens(model, cached, not getattr(question, "no_prefix_cache", False)), image_rule(model)
    return {
        "count": images.count,
        "cached": images.count - seen.encoded,
        "size": question.image_size,
        "tokens_per_image": images.tokens,
        "patches_per_image": images.patches,
        "tokens": seen.new + seen.cached,
        "new_tokens": seen.new,
        "rule": {"name": rule.rule, "source": rule.source, "locator": rule.locator, "note": rule.note},
        "encoder": {
            "n_params": images.encoder.n_params,
            "spread": images.spread,
            "flop_per_image": image_work(images).flop,
        },
    }


def images_document(
    question: WithImages, scenario: ServingScenario, prefill: Sequence[Operation], ttft_s: Num
) -> dict[str, Any]:
    """The part of a document that images add; empty where prompts are text."""
    found = tokens_document(question, scenario.model)
    if not found:
        return {}
    encoder_s = total_s(one for one in prefill if one.kind in _KINDS)
    found["tokens_of_input_fraction"] = found["new_tokens"] / median(scenario.input_tokens)
    found["encoder"] |= {
        "weights_bytes": median(encoder_bytes_per_gpu(scenario.model, scenario.layout)),
        "encode_s": quantity(encoder_s, "s"),
        "ttft_fraction": median(encoder_s) / median(ttft_s),
    }
    return {"images": found}


def image_remarks(scenario: ServingScenario) -> list[str]:
    """What an answer about images leaves out or assumes."""
    if scenario.model.images is None:
        return []
    rule, _ = image_rule(scenario.model)
    host = (
        "decoding and resizing images on the host is not in these times: one published trace has 167 ms for 1920x1080 "
        "(vLLM issue 41267)"
    )
    return [host, f"tokens of images: {rule.note}"] if rule.note.startswith("assumption") else [host]
