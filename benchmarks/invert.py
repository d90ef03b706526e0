"""Seconds of one inversion of a price sheet, imports apart: 200,000 samples unless told otherwise.

python benchmarks/invert.py [--samples N]
"""

from __future__ import annotations

import argparse
import os
import time

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from computeledger.economics.prices.inversion import PriceClues, invert_prices


def main() -> None:
    """Run twice and print the second time: the first reads the facts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=200_000)
    n = parser.parse_args().samples
    clues = PriceClues(2.0, 12.0, threshold_tokens=200_000)
    for turn in ("first", "second"):
        start = time.perf_counter()
        found = invert_prices(clues, n)
        seconds = time.perf_counter() - start
        print(f"{turn}: {seconds:.2f} s for {n:,} samples, {found.effective_samples:,.0f} effective")


if __name__ == "__main__":
    main()
