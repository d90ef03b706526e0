"""What a question says of images in its prompts."""

from __future__ import annotations

from dataclasses import dataclass

from computeledger.errors import InputError
from computeledger.facts.architecture import DATA, TENSOR
from computeledger.fields import Asked, asked

#: Images that a request may hold.
MOST_IMAGES = 10_000


@dataclass(frozen=True, kw_only=True)
class WithImages(Asked):
    """A load whose prompts may hold images."""

    images: int = asked(
        "whole", "Images of a request, beside its tokens of text.", 0, least=0, most=MOST_IMAGES, metavar="N",
        label="Images", group="Images", blank="none",
    )  # fmt: skip
    image_size: str | None = asked(
        "text", "Width and height of an image in pixels, which say how many tokens it becomes.", metavar="1024x768",
        label="Size of an image", group="Images", blank="none; one size for all in some models",
    )  # fmt: skip
    image_encoder: str | None = asked(
        "text", "Over the ranks of tensor parallelism an engine spreads the encoder's matrices (tensor), or the images "
        "(data; vLLM: --mm-encoder-tp-mode data, SGLang: --mm-enable-dp-encoder).", choices=(TENSOR, DATA),
        label="Image encoder", group="Images", blank="tensor, as engines do",
    )  # fmt: skip

    def check(self) -> None:
        """Refuse what is said of images that nobody sends."""
        super().check()
        given = [name for name in ("image_size", "image_encoder") if getattr(self, name) is not None]
        if given and not self.images and not getattr(self, "from_command", None):
            raise InputError(f"--{given[0].replace('_', '-')}: of how many images? add --images 1")
        if self.images and getattr(self, "turns", None) is not None:
            raise InputError("--images with --turns: conversations over images are not built: leave out one of the two")
