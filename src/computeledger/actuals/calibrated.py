"""A machine as ``computeledger calibrate`` described it, ready to predict with."""

from __future__ import annotations

from pathlib import Path

from computeledger.errors import InputError, shown
from computeledger.facts.load import load_system
from computeledger.physics.calibration.efficiency import Efficiency, efficiency
from computeledger.physics.calibration.training import TrainingEfficiency
from computeledger.physics.roofline import Machine

#: Passes of a training step over those of a forward pass: backward takes two (assumption).
_TRAINING_PASSES = 3.0


def calibrated_machine(folder: Path) -> Machine:
    """Read what ``computeledger calibrate --write FOLDER`` wrote.

    Examples
    --------
    >>> calibrated_machine(Path("nowhere"))
    Traceback (most recent call last):
    computeledger.errors.InputError: 'nowhere': no system.toml; a folder of `computeledger calibrate --write` is needed
    """
    for name in ("system.toml", "profile.toml"):
        if not (folder / name).is_file():
            raise InputError(
                f"{shown(str(folder))}: no {name}; a folder of `computeledger calibrate --write` is needed"
            )
    reached = efficiency(str(folder / "profile.toml"))
    return Machine(load_system(str(folder / "system.toml")), reached, training_alike(reached))


def training_alike(reached: Efficiency) -> TrainingEfficiency:
    """Take training to reach what forward kernels reach: calibrating measures no backward pass (assumption).

    A layer's launches come three times: forward, and twice as many backward.

    Examples
    --------
    >>> training_alike(Efficiency(gemm_fraction_bf16=0.8)).training_gemm_fraction_other
    0.8
    """
    return TrainingEfficiency(
        training_gemm_fraction_other=reached.gemm_fraction_bf16,
        training_attention_fraction_other=reached.attention_fraction,
        training_activation_passes=reached.activation_passes,
        training_layer_s=_TRAINING_PASSES * (reached.mixer_floor_s + reached.mlp_floor_s),
    )
