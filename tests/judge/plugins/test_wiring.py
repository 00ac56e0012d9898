"""Judges of what plugins and controller tell each pod: arguments, hosts, labels and owner."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.evidence.scheduling.gangs import gangs
from pytest_gpucluster.judge.plugins import argument_expansion, hosts_files, labels
from pytest_gpucluster.node import environment
from tests import recordings

E1, E2 = "e1-env-svc-ssh", "e2-pytorch"


def changed(name: str, kind: str, change: Callable[[dict[str, Any]], None]) -> Evidence:
    """Return a recorded stream in which every object of a kind was changed."""
    return mutants.each(recordings.stream(name), lambda line: line.kind == kind, change)


def containers(obj: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the regular containers of a pod."""
    return obj["spec"]["containers"]


def with_arguments(args: list[str], argv: dict[str, list[str]]) -> Evidence:
    """Return the recorded pytorch Job whose containers have arguments, and what each pod says that it got."""
    lines = [copy.deepcopy(line) for line in recordings.raw(E2)]
    for line in lines:
        if line.get("kind") == "Pod":
            containers(line["object"])[0]["args"] = args
    (gang,) = gangs(recordings.stream(E2))
    said = [
        recordings.word(20.0, pod, "argv", argv=["train", *argv[pod.name]])
        for pod in gang.pods
        if pod.name in argv
    ]
    for line in said:
        line["container"] = "train"
    return recordings.evidence_of([*lines, *said])


RANKS = {"torch-master-0": "0", "torch-worker-0": "1", "torch-worker-1": "2"}
SHARED = ["--addr=torch-master-0.torch:29500", "$(NOT_SET)", "$(RANK)"]
WRITTEN = ["--addr=$(MASTER_ADDR):$(MASTER_PORT)", "$(NOT_SET)", "$$(RANK)"]


def test_arguments_that_arrived_expanded_pass():
    """Values where there are any, the escaped and the unknown name as documented."""
    argv = dict.fromkeys((*RANKS, "torch-side-0"), SHARED)
    finding = argument_expansion.expanded(with_arguments(WRITTEN, argv), {})
    assert finding.verdict == "pass", finding.observed


def test_one_member_with_its_arguments_as_written_fails():
    """The finding names pod, container, what was written and what arrived."""
    argv = {name: ["--rank", rank] for name, rank in RANKS.items()} | {
        "torch-worker-1": ["--rank", "$(RANK)"]
    }
    finding = argument_expansion.expanded(with_arguments(["--rank", "$(RANK)"], argv), {})
    assert finding.verdict == "fail"
    assert finding.violation
    assert "torch-worker-1/train: '$(RANK)' arrived as '$(RANK)'" in finding.observed
    assert [where for where in finding.where if "torch-worker-1" in where]
    assert finding.causes
    assert finding.repeat


def test_a_reference_to_what_a_task_does_not_get_shows_nothing():
    """The side task has no RANK: that the name stays as written is documented, and is said with its cause."""
    argv = {name: [rank] for name, rank in {**RANKS, "torch-side-0": "$(RANK)"}.items()}
    finding = argument_expansion.expanded(with_arguments(["$(RANK)"], argv), {})
    assert finding.verdict == "inconclusive"
    assert "torch-side-0/train has no RANK" in finding.observed
    assert "--worker" in finding.causes[0].fix


def test_shell_substitutions_are_no_references():
    """`$(date)` in a script is the shell's."""
    finding = argument_expansion.expanded(with_arguments(["echo $(date) $((1 + 2))"], {}), {})
    assert "refers to a variable" in finding.observed


@drawn(
    st.lists(
        st.sampled_from(
            ["$(RANK)", "$(EMPTY)", "$(NO)", "$$(RANK)", "$$", "$", "x", "(", ")", " ", "$(A.B)", "é"]
        )
    ).map("".join)
)
def test_what_a_node_makes_of_a_word_is_what_the_judge_expects(word: str):
    """Both sides read Kubernetes' rule alike, whatever stands in the word."""
    env = {"RANK": "3", "EMPTY": "", "A.B": "$(RANK)"}
    (gang,) = gangs(recordings.stream(E2))
    asked = argument_expansion.Asked(gang.pods[0], "c", (word,), env, open=False)
    assert asked.pattern(word).fullmatch(environment.expand(word, env)) is not None


@pytest.mark.parametrize(
    ("name", "kind", "change", "text"),
    [
        (E1, "ConfigMap", lambda o: o["data"].update({"data_node.host": "plug-data-node-0.plug"}), "data_node.host"),
        (E1, "ConfigMap", lambda o: o["data"].update(VC_DATA_NODE_NUM="3"), "VC_DATA_NODE_NUM is '3', documented '2'"),
        (E1, "ConfigMap", lambda o: o["data"].pop("VC_MASTER_HOSTS"), "VC_MASTER_HOSTS is absent"),
        (E1, "Pod", lambda o: containers(o)[0].update(volumeMounts=[]), "nothing is mounted at /etc/volcano"),
        (E1, "Pod", lambda o: containers(o)[0].update(env=containers(o)[0]["env"][1:]), "VK_TASK_INDEX is absent"),
    ],
)  # fmt: skip
def test_hosts_that_are_not_published_fail(name, kind, change, text):
    """Each part of the promise is looked at; the finding says what is wrong, and where."""
    finding = hosts_files.published(changed(name, kind, change), {})
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert text in finding.observed
    assert finding.where
    assert finding.causes


def test_a_job_without_the_plugins_promises_no_hosts():
    """Nothing was asked for, nothing is judged."""
    assert (
        "no Volcano Job with"
        in hosts_files.published(recordings.stream("b4-min-below-replicas"), {}).observed
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda o: o["metadata"]["labels"].pop("volcano.sh/job-name"), "volcano.sh/job-name is absent"),
        (lambda o: o["metadata"]["labels"].update({"volcano.sh/task-spec": "w"}), "volcano.sh/task-spec is 'w'"),
        (lambda o: o["metadata"]["labels"].update({"volcano.sh/task-index": "9"}), "volcano.sh/task-index is '9'"),
        (lambda o: o["metadata"]["ownerReferences"][0].update(controller=False), "not its controller"),
        (lambda o: o["metadata"]["ownerReferences"][0].update(uid="old"), "another Job of that name"),
        (lambda o: o["metadata"].pop("ownerReferences"), "owner is absent"),
    ],
)  # fmt: skip
def test_a_pod_that_does_not_say_whose_it_is_fails(change, text):
    """Labels and owner, each alone."""
    finding = labels.labelled(changed(E2, "Pod", change), {})
    assert (finding.verdict, finding.violation) == ("fail", True), finding.observed
    assert text in finding.observed
    assert finding.causes
