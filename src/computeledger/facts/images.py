"""What an image becomes in a prompt: patches that an encoder reads, and tokens, by the rule of the model's family."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from computeledger.errors import FactError, InputError, shown
from computeledger.facts.architecture import Model, VisionEncoder
from computeledger.facts.catalog import shipped_file
from computeledger.facts.reading import read_file
from computeledger.sources import check_date, load_sources

#: Families whose rule is another's.
_ALIKE = {"qwen3_vl_moe": "qwen3_vl", "qwen3_5": "qwen3_vl", "qwen3_5_moe": "qwen3_vl"}
#: Longest side over the shortest that resizing takes.
_MOST_RATIO = 200
#: Sides that an image may have [pixel].
_MOST_SIDE = 100_000


@dataclass(frozen=True, slots=True)
class ImageRule:
    """How a family resizes and cuts images, as published.

    Attributes
    ----------
    rule : str
        ``merged``, ``fixed``, ``budget``, ``padded``, ``rows``, ``tiles`` or ``ratio tiles``.
    source, date, locator, note : str
        Key of the source, ISO date, place in it, what was converted or assumed.
    marks : int
        Tokens around an image [token].
    least_pixels, most_pixels, most_side_pixels : int
        Of the resized image, and of its longest side [pixel].
    most_patches, most_patches_per_side, most_tiles : int
        Of an image [-].
    """

    rule: str
    source: str
    date: str
    locator: str
    note: str = ""
    marks: int = 0
    least_pixels: int = 0
    most_pixels: int = 0
    most_side_pixels: int = 0
    most_patches: int = 0
    most_patches_per_side: int = 0
    most_tiles: int = 1

    def __post_init__(self) -> None:
        if self.source not in load_sources() or not self.locator or self.rule not in _RULES:
            raise FactError(f"images.toml: {self.rule}: no source {self.source} with a locator, or no such rule")
        check_date(self.date, f"images.toml: {self.rule}")


@dataclass(frozen=True, slots=True)
class ImageCount:
    """One image: patches that the encoder reads, and tokens of the prompt, marks included [-], [token]."""

    patches: int
    tokens: int


@functools.cache
def image_rules() -> Mapping[str, ImageRule]:
    """The rules by family.

    Examples
    --------
    >>> image_rules()["qwen3_vl"].most_pixels
    16777216
    """
    table = read_file(shipped_file("images.toml"), shipped=True).table
    return {name: ImageRule(**one) for name, one in table.items()}


def image_rule(model: Model) -> tuple[ImageRule, VisionEncoder]:
    """The rule of a model's family, and its encoder; text-only models and unknown families are refused in one line.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> image_rule(load_model("qwen3-8b"))
    Traceback (most recent call last):
    computeledger.errors.InputError: --images: Qwen/Qwen3-8B reads text only: its configuration has no vision part
    """
    if model.vision is None:
        raise InputError(f"--images: {model.id} reads text only: its configuration has no vision part")
    family = _ALIKE.get(model.vision.family, model.vision.family)
    if family not in image_rules():
        known = ", ".join(sorted({*image_rules(), *_ALIKE}))
        raise InputError(f"--images: {model.id}: how {family} cuts images is not known here; known: {known}")
    return image_rules()[family], model.vision


def read_size(text: str) -> tuple[int, int]:
    """Width and height of an image.

    Examples
    --------
    >>> read_size("1024x768")
    (1024, 768)
    """
    found = re.fullmatch(r"\s*(\d{1,6})\s*[xX×]\s*(\d{1,6})\s*", text)
    sides = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 0 < min(sides) <= max(sides) <= _MOST_SIDE:
        raise InputError(f"--image-size {shown(text)}: width x height in pixels, such as 1024x768")
    if max(sides) > _MOST_RATIO * min(sides):
        raise InputError(f"--image-size {shown(text)}: one side is more than {_MOST_RATIO} times the other")
    return sides


def count_image(model: Model, size: tuple[int, int] | None) -> ImageCount:
    """Patches and tokens of one image of a width and height in pixels; None where every image becomes as many.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> count_image(load_model("qwen3-vl-32b-instruct"), (1024, 768))
    ImageCount(patches=3072, tokens=770)
    """
    rule, encoder = image_rule(model)
    if size is None and rule.rule != "fixed":
        raise InputError("--images: of what size? the tokens of an image follow from it: add --image-size 1024x768")
    found = _RULES[rule.rule](rule, encoder, *(size or (1, 1)))
    return ImageCount(found.patches, found.tokens + rule.marks)


def _whole(encoder: VisionEncoder, width: int, height: int) -> ImageCount:
    """A picture of whole tokens."""
    columns, rows = width // encoder.patch_pixels, height // encoder.patch_pixels
    return ImageCount(columns * rows, columns * rows // encoder.merged_side**2)


def _merged(rule: ImageRule, encoder: VisionEncoder, width: int, height: int) -> ImageCount:
    """Sides rounded to whole tokens; too many or too few pixels scale both sides."""
    unit = encoder.patch_pixels * encoder.merged_side
    sides = [round(side / unit) * unit for side in (width, height)]
    pixels = sides[0] * sides[1]
    if pixels > rule.most_pixels:
        ratio = math.sqrt(width * height / rule.most_pixels)
        sides = [max(unit, math.floor(side / ratio / unit) * unit) for side in (width, height)]
    elif pixels < rule.least_pixels:
        ratio = math.sqrt(rule.least_pixels / (width * height))
        sides = [math.ceil(side * ratio / unit) * unit for side in (width, height)]
    return _whole(encoder, sides[0], sides[1])


def _fixed(rule: ImageRule, encoder: VisionEncoder, width: int, height: int) -> ImageCount:  # noqa: ARG001
    """Every image is brought to one size."""
    if encoder.tokens_per_image is None or not encoder.image_pixels:
        raise InputError(f"--images: the vision part of {encoder.family} states no image_size or no tokens per image")
    return ImageCount((encoder.image_pixels // encoder.patch_pixels) ** 2, encoder.tokens_per_image)


def _budget(rule: ImageRule, encoder: VisionEncoder, width: int, height: int) -> ImageCount:  # noqa: ARG001
    """As large as so many tokens allow, at its own ratio."""
    most = encoder.tokens_per_image or 0
    unit = encoder.patch_pixels * encoder.merged_side
    scale = math.sqrt(most * unit * unit / (width * height))
    across, down = (math.floor(scale * side / unit) for side in (width, height))
    if not across or not down:
        long = min(max(width, height) // min(width, height), most)
        across, down = (long, 1) if width > height else (1, long)
    return ImageCount(across * down * encoder.merged_side**2, across * down)


def _padded(rule: ImageRule, encoder: VisionEncoder, width: int, height: int) -> ImageCount:
    """Made smaller where it has too many patches, never larger, and padded to whole tokens."""
    patch, side = encoder.patch_pixels, rule.most_patches_per_side * encoder.patch_pixels
    n = max(width // patch, 1) * max(height // patch, 1)
    scale = min(1.0, math.sqrt(rule.most_patches / n), side / width, side / height)
    unit = patch * encoder.merged_side
    sides = [min(max(int(one * scale), 1), side) for one in (width, height)]
    return _whole(encoder, *(math.ceil(one / unit) * unit for one in sides))


def _rows(rule: ImageRule, encoder: VisionEncoder, width: int, height: int) -> ImageCount:
    """Sides rounded up to whole tokens, and a mark behind each row of them."""
    ratio, unit = max(width, height) / rule.most_side_pixels, encoder.patch_pixels * encoder.merged_side
    if ratio > 1:
        width, height = (max(math.floor(side / ratio), 1) for side in (width, height))
    columns, rows = math.ceil(width / unit), math.ceil(height / unit)
    return ImageCount(columns * rows * encoder.merged_side**2, (columns + 1) * rows)


def _tile(encoder: VisionEncoder) -> ImageCount:
    patches = (encoder.image_pixels // encoder.patch_pixels) ** 2
    return ImageCount(patches, patches // encoder.merged_side**2)


def _tiles(rule: ImageRule, encoder: VisionEncoder, width: int, height: int) -> ImageCount:
    """The canvas of tiles that scales an image least, the smallest of those, and the whole image once more."""
    side, one = encoder.image_pixels, _tile(encoder)
    grids = [(n, m) for n in range(1, rule.most_tiles + 1) for m in range(1, rule.most_tiles // n + 1)]
    scales = {grid: min(side * grid[0] / width, side * grid[1] / height) for grid in grids}
    larger = [scale for scale in scales.values() if scale >= 1]
    best = min(larger) if larger else max(scales.values())
    n = min(across * down for (across, down), scale in scales.items() if scale == best)
    if n == 1:
        return one
    # a mark behind each tile
    return ImageCount((n + 1) * one.patches, (n + 1) * one.tokens + n)


def _ratio_tiles(rule: ImageRule, encoder: VisionEncoder, width: int, height: int) -> ImageCount:
    """The grid of the nearest ratio, of equals the larger while it is not twice the image, and a thumbnail."""
    side, one, best, nearest = encoder.image_pixels, _tile(encoder), (1, 1), math.inf
    grids = [(n, m) for n in range(1, rule.most_tiles + 1) for m in range(1, rule.most_tiles // n + 1)]
    for across, down in sorted(grids, key=lambda grid: grid[0] * grid[1]):
        away = abs(width / height - across / down)
        is_wider = away == nearest and width * height > 0.5 * side * side * across * down
        if away < nearest or is_wider:
            best, nearest = (across, down), away
    n = best[0] * best[1]
    n += n > 1
    return ImageCount(n * one.patches, n * one.tokens)


_RULES = {
    "merged": _merged, "fixed": _fixed, "budget": _budget, "padded": _padded, "rows": _rows, "tiles": _tiles,
    "ratio tiles": _ratio_tiles,
}  # fmt: skip
