"""What a run is on: the data sheet of its device, told by name and memory, and the versions of its software."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib import metadata

from computeledger.facts.load import accelerator_ids, load_accelerator

#: Share by which a driver's memory may differ from the data sheet's (binary prefixes, and what the driver keeps).
MEMORY_MARGIN_FRACTION = 0.1


def accelerator_of(device: str, memory_bytes: float) -> str | None:
    """Find the data sheet of a device by its name and memory.

    Examples
    --------
    >>> accelerator_of("NVIDIA H200", 150e9), accelerator_of("NVIDIA H100 PCIe", 85e9), accelerator_of("P40", 24e9)
    ('h200-sxm5-141gb', 'h100-pcie-80gb', None)
    >>> accelerator_of("Tesla V100-SXM2-16GB", 16.9e9), accelerator_of("NVIDIA GeForce RTX 4070 Ti SUPER", 16.7e9)
    ('v100-sxm2-16gb', 'rtx-4070-ti-super')
    """
    words = set(device.lower().replace("-", " ").split())
    named = [chip for chip in map(load_accelerator, accelerator_ids()) if set(chip.short_name.lower().split()) <= words]
    close = [one for one in named if abs(memory_bytes / one.usable_bytes - 1) <= MEMORY_MARGIN_FRACTION]
    most = max((len(one.short_name.split()) for one in close), default=0)
    exact = [one.id for one in close if len(one.short_name.split()) == most]
    return exact[0] if len(exact) == 1 else None


def installed_versions(packages: Sequence[str]) -> dict[str, str]:
    """Versions of Python and of the packages that are installed.

    Examples
    --------
    >>> sorted(installed_versions(["numpy", "no-such-package"]))
    ['numpy', 'python']
    """
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
