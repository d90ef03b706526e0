"""The command ``fit``."""

from __future__ import annotations

import click

from computeledger.interfaces.options import json_option, print_json
from computeledger.writing import write_file


@click.command()
@click.argument("what", metavar="serving|training|rl|neighbours")
@click.option("--data", "data_folder", required=True, metavar="FOLDER", help="Folder of measured tables.")
@click.option("--write", "target", metavar="FILE", help="Write the calibration to this file.")
@click.option("--quick", is_flag=True, help="Without cross-validation: constants only, nothing to write.")
@json_option
def fit(what: str, data_folder: str, target: str | None, quick: bool, as_json: bool) -> None:
    """Derive a shipped calibration again from the measured tables: constants, how well they are known, intervals."""
    from computeledger.questions.answers.fit import answer_fit

    document, text = answer_fit(what, data_folder, quick)
    if target is not None:
        _check_writable(text)
        write_file(target, text)
    if as_json:
        print_json(document)
        return
    from computeledger.interfaces.tables_fit import print_fit, print_neighbours, print_rl_fit, print_training_fit

    printers = {"neighbours": print_neighbours, "training": print_training_fit, "rl": print_rl_fit}
    printers.get(what, print_fit)(document)
    if target is not None:
        click.echo(f"calibration: {target}")


def _check_writable(text: str) -> None:
    from computeledger.errors import InputError

    if not text:
        raise InputError(
            "--quick skips the cross-validation that the intervals come from: leave out --quick or --write"
        )
