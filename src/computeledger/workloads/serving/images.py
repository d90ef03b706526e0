"""Images of a question's prompts: what they become, and what of them is new."""

from __future__ import annotations

from dataclasses import dataclass, replace

from computeledger.errors import InputError
from computeledger.facts.architecture import TENSOR, Images, Model
from computeledger.facts.images import count_image, read_size
from computeledger.workloads.questions.images import WithImages


@dataclass(frozen=True, slots=True)
class ImageTokens:
    """Tokens of a request's images: to be read, and in its cached prefix [token]; images to be encoded [-]."""

    new: int = 0
    cached: int = 0
    encoded: int = 0


def with_images(question: WithImages, model: Model) -> Model:
    """The model with the encoder of a question's images; as it is where prompts are text.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.workloads.questions.serve import ServeQuestion
    >>> asked = ServeQuestion(model="qwen3-vl-32b-instruct", system="h100-nvl8", images=2, image_size="1024x768")
    >>> with_images(asked, load_model(asked.model)).images.tokens
    770
    """
    if not question.images:
        return model
    size = None if question.image_size is None else read_size(question.image_size)
    one = count_image(model, size)
    if model.vision is None:
        raise InputError(f"--images: {model.id} reads text only")
    return replace(
        model, images=Images(question.images, one.patches, one.tokens, model.vision, question.image_encoder or TENSOR)
    )


def image_tokens(model: Model, n_cached: int = 0, has_prefix_cache: bool = True) -> ImageTokens:
    """Tokens of a request's images; those in a cached prefix are neither encoded nor read again.

    Examples
    --------
    >>> from computeledger.facts.architecture import Images, VisionEncoder
    >>> from computeledger.facts.load import load_model
    >>> model = replace(load_model("qwen3-8b"), images=Images(3, 400, 100, VisionEncoder(1, 1)))
    >>> image_tokens(model, 1), image_tokens(model, 1, has_prefix_cache=False).new
    (ImageTokens(new=200, cached=100, encoded=2), 300)
    """
    if model.images is None:
        return ImageTokens()
    found, tokens = n_cached if has_prefix_cache else 0, model.images.tokens
    fresh = model.images.count - found
    return ImageTokens(fresh * tokens, found * tokens, fresh)
