"""Make the judge of this recipe: a small model, pretrained from scratch on answers and their verdicts."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import click
import torch

from rntp.base_model import make_base
from rntp.machine import this_machine
from rntp.recipe_file import read_recipe


def main() -> None:
    """Train it, or go on with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="runs/judge", help="folder to write to; the model is in base/ below it")
    parser.add_argument("--steps", type=int, help="updates, in place of the recipe's")
    parser.add_argument("--beside", type=float, default=0.0, help="share of answers that it must read to find wrong")
    given = parser.parse_args()
    settings = [f"corpus.options.beside_fraction={given.beside}"]
    settings += [f"pretrain.steps={given.steps}"] if given.steps else []
    recipe, folder = read_recipe(Path(__file__).with_name("judge.toml"), settings), Path(given.output)
    folder.mkdir(parents=True, exist_ok=True)
    device, begun = torch.device("cpu"), time.process_time()
    make_base(recipe, folder, this_machine(device, 1, "fp32"), device, lambda _step, _figures: None)
    click.echo(f"the judge: {folder / 'base'}, {time.process_time() - begun:.0f} s of processor time")


if __name__ == "__main__":
    main()
