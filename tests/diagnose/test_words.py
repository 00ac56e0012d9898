"""Messages of components: what decides is kept, at whichever end it stands, and Go values are not shown."""

import pytest

from pytest_gpucluster.diagnose import words
from pytest_gpucluster.plain import names, redact

STATUS = (
    'err: &errors.StatusError{ErrStatus:v1.Status{TypeMeta:v1.TypeMeta{Kind:"", APIVersion:""}, Status:"Failure", '
    'Message:"pods \\"a\\" is forbidden: exceeded quota: q", Reason:"Forbidden", Details:(*v1.StatusDetails)(0xc0), '
    "Code:403}}"
)


def test_a_status_error_is_its_message():
    """Of the struct that a controller prints only what it says is left."""
    assert words.plain(STATUS) == 'err: pods "a" is forbidden: exceeded quota: q'


def test_several_status_errors_are_each_their_message():
    """One message may hold several."""
    assert words.plain(f"[{STATUS}, {STATUS}]").count("exceeded quota: q") == 2
    assert "Code" not in words.plain(f"[{STATUS}, {STATUS}]")


def test_other_structs_lose_their_pointers():
    """What a struct says is kept, where it says something."""
    text = 'failed: &v1.Status{Message:"no room", Reason:"Conflict", Details:(*v1.StatusDetails)(nil)}'
    assert words.plain(text) == "failed: no room; Conflict"


@pytest.mark.parametrize("length", [401, 900, 5000])
def test_a_long_message_keeps_its_end(length: int):
    """Chains of errors decide at their end."""
    short = words.short("begin " + "x " * length + "the end decides")
    assert short.startswith("begin")
    assert short.endswith("the end decides")
    assert len(short) <= words.LIMIT


def test_a_short_message_is_whole():
    """Nothing is cut that fits."""
    assert words.short("as  it\nis") == "as it is"


@pytest.mark.parametrize(
    "text",
    [
        "vcjob/hang -n c-secret: in trouble", "pods -n my-token: healthy", "Pod/get-token: exit code 3",
        "podgroup/db-password -n a: deleted", "secret: not found", "namespace hf-token: 2 of 3 used",
    ],
)  # fmt: skip
def test_names_of_objects_are_no_secrets(text: str):
    """A sentence about an object whose name looks secret stays readable."""
    assert redact.clean(text) == text


@pytest.mark.parametrize(
    "text",
    ["password: hunter2", "error: token: abc123", "HF_TOKEN=abc", "my auth: 'x y'", "-n prod password: s3c"],
)
def test_secrets_are_still_taken_out(text: str):
    """Values of names that hold secrets are replaced, also behind another colon."""
    assert redact.REDACTED in redact.clean(text)
    assert not any(word in redact.clean(text) for word in ("hunter2", "abc", "x y", "s3c"))


def test_kinds_of_the_same_name_have_their_group():
    """A PodGroup or Queue of another scheduler is not Volcano's."""
    assert names.kind_key("scheduling.volcano.sh/v1beta1", "PodGroup") == "PodGroup"
    assert names.kind_key("scheduling.run.ai/v2alpha2", "PodGroup") == "PodGroup.scheduling.run.ai"
    assert names.kind_key("scheduling.x-k8s.io/v1alpha1", "PodGroup") == "PodGroup.scheduling.x-k8s.io"
    assert names.kind_key("scheduling.run.ai/v2", "Queue") == "Queue.scheduling.run.ai"
    assert names.kind_key("scheduling.k8s.io/v1beta1", "Workload") == "Workload.scheduling.k8s.io"
    assert names.kind_key("kueue.x-k8s.io/v1beta2", "Workload") == "Workload"
    assert names.kind_key("serving.knative.dev/v1", "Service") == "Service.serving.knative.dev"
