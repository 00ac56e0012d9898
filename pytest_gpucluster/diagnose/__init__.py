"""Diagnosis: what holds a job up, from evidence alone. Pure: no client, no clock, no file but what `evidence` reads."""

from pytest_gpucluster.diagnose.history import Log, revive, said_in_words, to_lines, unfold
from pytest_gpucluster.diagnose.model import Certainty, Detector, Diagnosis, Kind, Stage, State, Suspect
from pytest_gpucluster.diagnose.run import ODD, Judge, diagnose, subjects
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.diagnose.text import render

__all__ = [
    "ODD",
    "Certainty",
    "Detector",
    "Diagnosis",
    "Judge",
    "Kind",
    "Log",
    "Situation",
    "Stage",
    "State",
    "Suspect",
    "diagnose",
    "render",
    "revive",
    "said_in_words",
    "subjects",
    "to_lines",
    "unfold",
]
