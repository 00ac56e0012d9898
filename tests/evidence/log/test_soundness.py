"""Evidence that was cut, merged, reordered or has lost its proofs never carries a "never", and says so in one line."""

import functools
import json

import hypothesis
import hypothesis.strategies as st
import pytest

from pytest_gpucluster.evidence import EvidenceError
from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.plain.copies import clone
from pytest_gpucluster.report import decisions
from pytest_gpucluster.report.suites import load_suites
from tests import amount, recordings

ROW = load_suites().get("GANG-002")


def is_member(line):
    """Report whether a line tells of a member of the gang."""
    return "object" in line and line["object"]["metadata"]["name"].startswith("scarce-worker-")


def proven(lines):
    """Return recorded evidence as a live session writes it: counted, with a horizon, its spans proven."""
    head, *rest = clone(lines)
    spans = [line for line in rest if line["type"] == "SPAN"]
    told = [line for line in rest if line["type"] != "SPAN"]
    kinds = sorted({span["kind"] for span in spans})
    end = max(line["t"] for line in told)
    for span in spans:
        span["end"] = end
    told.append({"type": "NOTE", "t": end, "scenario": head["scenario"], "note": "proven", "kinds": kinds})
    return [{**head, "schema": 2, "horizon": end, "lines": len(spans) + len(told)}, *spans, *told]


@functools.cache
def good():
    """Return the lines of a good run of the row's scenario, as a live session writes them."""
    path = recordings.FOLDER / "embedded" / "scarce.jsonl"
    return tuple(proven([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]))


@functools.cache
def bad():
    """Return the same where a member was bound before there was room for all, and stayed so over the window."""
    lines = clone(list(good()))
    begin = next(line["t"] for line in lines if line.get("note") == "window-begin")
    pod = next(line for line in lines if is_member(line) and line["kind"] == "Pod")
    early, uid = clone(pod), pod["object"]["metadata"]["uid"]
    early["type"], early["t"] = "MODIFIED", begin + 0.01
    early["object"]["spec"]["nodeName"] = "gpu-0"
    head, *rest = lines
    spans = [line for line in rest if line["type"] == "SPAN"]
    told = sorted([*(line for line in rest if line["type"] != "SPAN"), early], key=lambda line: line["t"])
    for line in told:  # it stays bound
        if is_member(line) and line["object"]["metadata"]["uid"] == uid and line["t"] > early["t"]:
            line["object"]["spec"]["nodeName"] = "gpu-0"
    return ({**head, "lines": len(spans) + len(told)}, *spans, *told)


def verdict(lines):
    """Decide the row on lines as they stand in a file; what cannot be read is said in one line."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    try:
        finding = decisions.decide(ROW, ingest.of_lines(texts, "x.jsonl"))
    except EvidenceError as error:
        return "unreadable" if "\n" not in str(error) else "told in several lines"
    assert "\n" not in finding.observed
    return str(finding.verdict)


def test_the_two_that_everything_here_is_made_of():
    """Untouched, the one passes and the other fails."""
    assert verdict(good()) == "pass"
    assert verdict(bad()) == "fail"


def spans_of(lines, change):
    """Return lines whose spans were changed."""
    return [change(dict(line)) if line["type"] == "SPAN" else line for line in lines]


def backwards(span):
    """Let a span end before it begins."""
    return {**span, "start": span["end"] + 1.0}


DAMAGE = {
    "no-spans": lambda lines: [line for line in lines if line["type"] != "SPAN"],
    "no-pods": lambda lines: [line for line in lines if line["type"] != "SPAN" or line["kind"] != "Pod"],
    "every-kind-instead": lambda lines: spans_of(lines, lambda span: {**span, "kind": "*"}),
    "spans-without-end-and-proofs": lambda lines: [
        line for line in spans_of(lines, lambda span: {**span, "end": None}) if line.get("note") != "proven"
    ],
    "no-proofs": lambda lines: [line for line in lines if line.get("note") != "proven"],
    "proofs-of-another-kind": lambda lines: [
        {**line, "kinds": ["Node"]} if line.get("note") == "proven" else line for line in lines
    ],
    "spans-backwards": lambda lines: spans_of(lines, backwards),
    "spans-twice": lambda lines: [lines[0], *(line for line in lines if line["type"] == "SPAN"), *lines[1:]],
    "a-second-watch": lambda lines: [
        lines[0], {"type": "SPAN", "kind": "Pod", "start": 0.0, "end": 1e6, "how": "list"}, *lines[1:]
    ],
    "span-not-a-number": lambda lines: spans_of(lines, lambda span: {**span, "start": float("nan")}),
    "span-true": lambda lines: spans_of(lines, lambda span: {**span, "end": True}),
    "no-header": lambda lines: lines[1:],
    "no-header-no-spans": lambda lines: [line for line in lines[1:] if line["type"] != "SPAN"],
    "two-headers": lambda lines: [lines[0], *lines],
    "last-line-missing": lambda lines: lines[:-1],
    "horizon-is-text": lambda lines: [{**lines[0], "horizon": "late"}, *lines[1:]],
    "horizon-true": lambda lines: [{**lines[0], "horizon": True}, *lines[1:]],
    "not-counted": lambda lines: [{k: v for k, v in lines[0].items() if k != "lines"}, *lines[1:]],
    "the-clock-jumps-on": lambda lines: jumped(lines, 1000.0),
    "the-clock-jumps-back": lambda lines: jumped(lines, -1000.0),
    "in-reverse": lambda lines: [lines[0], *reversed(lines[1:])],
}  # fmt: skip


def jumped(lines, by):
    """Let the clock jump in the middle of the window."""
    begin = next(line["t"] for line in lines if line.get("note") == "window-begin")
    return [{**line, "t": line["t"] + by} if line.get("t", 0.0) > begin else line for line in lines]


@pytest.mark.parametrize("how", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_never_green(how):
    """Whatever makes coverage doubtful takes the pass from good evidence."""
    assert verdict(how(list(good()))) != "pass"


@functools.cache
def first():
    """Return the same run as it was recorded: evidence of the first schema, without proofs."""
    path = recordings.FOLDER / "embedded" / "scarce.jsonl"
    lines = tuple(json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    assert lines[0]["schema"] == 1
    return lines


@pytest.mark.parametrize("how", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("schema", [{"schema": 1}, {"schema": 0}, {"schema": True}, {}], ids=str)
def test_a_header_of_an_older_schema_hides_no_damage(how, schema):
    """What has proofs, or counts its lines, is held to them whatever its header says."""
    lines = how(clone(list(good())))
    head = {key: value for key, value in lines[0].items() if key != "schema"}
    assert verdict([{**head, **schema}, *lines[1:]]) != "pass"


def test_a_header_of_an_older_schema_is_no_good_evidence():
    """Also where nothing else was changed: whoever changed the header had a reason."""
    assert verdict([{**good()[0], "schema": 1}, *good()[1:]]) == "inconclusive"


@pytest.mark.parametrize(
    "name", ["no-spans", "no-pods", "spans-backwards", "spans-twice", "a-second-watch", "two-headers",
             "the-clock-jumps-on", "the-clock-jumps-back", "in-reverse"],
)  # fmt: skip
def test_damage_to_evidence_of_the_first_schema_is_never_green(name):
    """It has no proofs, and all that can be asked of it without them is asked."""
    assert verdict(first()) == "pass"
    assert verdict(DAMAGE[name](clone(list(first())))) != "pass"


@pytest.mark.parametrize("which", [good, first])
def test_a_stream_that_was_held_back_is_a_gap_by_what_objects_say(which):
    """A bind that says of itself that it was made inside the window, and was told ten seconds after it."""
    lines = clone(list(which()))
    end = next(line["t"] for line in lines if line.get("note") == "window-end")
    for line in lines:  # told later, and what it says of its own time stays
        for key in ("t", "end"):
            if (line.get(key) or 0.0) > end:
                line[key] += 10.0
    if "horizon" in lines[0]:
        lines[0]["horizon"] += 10.0
    assert verdict(lines) != "pass"


CUTS = st.tuples(st.just("cut"), st.floats(0, 1), st.floats(0, 1))
MOVES = st.tuples(
    st.sampled_from(["double", "swap", "reverse", "forget-proofs", "jump"]), st.floats(0, 1), st.floats(0, 1)
)
SPANS = st.tuples(
    st.sampled_from(["drop-span", "double-span", "long-span", "turn-span"]), st.floats(0, 1), st.just(0.0)
)
TEARS = st.tuples(st.just("tear"), st.floats(0, 1), st.floats(0, 1))


def moved(line, by):
    """Return a line at another time."""
    return {**line, "t": line["t"] + by} if isinstance(line, dict) and "t" in line else line


def harmed(lines, steps):
    """Return the lines after some accidents."""
    lines = list(lines)
    for what, a, b in steps:
        if not lines:
            break
        size = len(lines)
        i, j = sorted((int(a * (size - 1)), int(b * (size - 1))))
        spans = [n for n, line in enumerate(lines) if isinstance(line, dict) and line["type"] == "SPAN"]
        n = spans[int(a * (len(spans) - 1))] if spans else None
        match what:
            case "cut":
                lines = lines[:i] + lines[j:]
            case "double":
                lines.insert(i, lines[j])
            case "swap":
                lines[i], lines[j] = lines[j], lines[i]
            case "reverse":
                lines[i:j] = reversed(lines[i:j])
            case "forget-proofs":
                lines = [line for line in lines if not isinstance(line, dict) or line.get("note") != "proven"]
            case "jump":
                lines = lines[:i] + [moved(line, (b - 0.5) * 100) for line in lines[i:]]
            case "tear":
                text = lines[j] if isinstance(lines[j], str) else json.dumps(lines[j])
                lines = [*lines[:j], text[: int(a * len(text))]]
            case "drop-span" if n is not None:
                del lines[n]
            case "double-span" if n is not None:
                lines.insert(n, lines[n])
            case "long-span" if n is not None:
                lines[n] = {**lines[n], "start": 0.0, "end": None}
            case "turn-span" if n is not None:
                lines[n] = {**lines[n], "start": lines[n]["end"], "end": lines[n]["start"]}
    return lines


@hypothesis.given(st.lists(st.one_of(CUTS, MOVES, SPANS, TEARS), min_size=1, max_size=4))
@amount.examples(200)
def test_a_violation_is_never_turned_green(steps):
    """However the evidence of a violation is harmed, it fails, is undecided, or cannot be read."""
    assert verdict(harmed(bad(), steps)) != "pass"


@hypothesis.given(CUTS)
@amount.examples(60)
def test_a_cut_is_never_green(step):
    """Wherever lines are missing, be they many or one, nothing passes."""
    lines = harmed(good(), [step])
    hypothesis.assume(len(lines) < len(good()))
    assert verdict(lines) != "pass"


def test_a_line_that_tells_of_no_object_is_never_green():
    """What happened to the pod then is not known."""
    lines = clone(list(good()))
    pod = next(line for line in lines if is_member(line) and line["type"] == "MODIFIED")
    pod["object"] = {}
    assert verdict(lines) != "pass"
