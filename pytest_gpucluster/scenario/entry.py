"""A line of the session's log."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One line of the log: what a slice must know to choose it, and the line itself.

    Attributes:
        t: seconds since the session began.
        type: line type.
        kind: kind key of a watch line, else "".
        uid: uid of the object.
        namespace: its namespace.
        name: its name.
        refs: uids of owners.
        about: uid of the involved object of an Event, else "".
        node: the node of a bound Pod, else "".
        scenario: scenario by label, or that wrote the note.
        text: the line as JSON.
    """

    t: float
    type: str
    kind: str
    uid: str
    namespace: str
    name: str
    refs: tuple[str, ...]
    about: str
    node: str
    scenario: str
    text: str
