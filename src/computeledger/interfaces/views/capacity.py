"""How much memory of a chip counts, in words that are the same on every page."""

from __future__ import annotations

from computeledger.facts.schema import Accelerator
from computeledger.questions.wording import words
from computeledger.units import bytes_shown, gigabytes


def capacity_words(chip: Accelerator) -> str:
    """What an engine sees of a chip beside what it is sold as; of a chip that nobody read, what it is sold as.

    Examples
    --------
    >>> from computeledger.facts.load import load_accelerator
    >>> capacity_words(load_accelerator("h100-sxm5-80gb")).replace(chr(160), " ")
    'an H100 sold as 80 GB has 80 GiB, of which an engine sees 79.2 GiB, or 85 GB'
    >>> capacity_words(load_accelerator("m4-max")).replace(chr(160), " ")
    'an engine sees 103 GB (96 GiB) of an M4 Max that is sold as 128 GB'
    >>> capacity_words(load_accelerator("h800-sxm5-80gb")).replace(chr(160), " ")
    'an H800 counts with the 80 GB that it is sold as: what an engine sees of it was not read'
    """
    name = chip.short_name or chip.name
    article = "an" if name[:1] in _VOWELS else "a"
    if chip.usable_hbm_bytes is None:
        said = f"{article} {name} counts with the {words(chip.hbm_bytes.value, 'B')} that it is sold as"
        return f"{said}: what an engine sees of it was not read"
    shown = words(chip.usable_bytes, "B")
    with bytes_shown(is_binary=gigabytes()[0] == "GB"):
        other = words(chip.usable_bytes, "B")
    sold = str(chip.hbm_bytes.given)
    if chip.usable_bytes > chip.hbm_bytes.value:  # its makers say GB and mean GiB
        gb, gib = sorted((shown, other), key=lambda said: said.endswith("GiB"))
        return (
            f"{article} {name} sold as {sold} has {sold.replace('GB', 'GiB')}, of which an engine sees {gib}, or {gb}"
        )
    return f"an engine sees {shown} ({other}) of {article} {name} that is sold as {sold}"


#: First letters of names that are spelt with a vowel: an A100, an H100, an RTX 4090.
_VOWELS = "AEFHILMNORSX8"
