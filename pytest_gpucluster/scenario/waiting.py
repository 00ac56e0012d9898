"""Waiting: what a scenario sees of the cluster, and how it waits for it, waking on events."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.evidence.log.vocabulary import NOTES
from pytest_gpucluster.kube import errors
from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import live, podlogs
from pytest_gpucluster.scenario import site as sites

if TYPE_CHECKING:
    from pytest_gpucluster.profile import Profile

Predicate = Callable[[live.Live], bool]
Unless = Callable[[live.Live], bool | str]


class Waiting:
    """The part of the stage that changes nothing: the clock, notes, waits that wake on events and never raise.

    Attributes:
        name: the scenario's name.
        live: the view that predicates get.
        horizon: to when its watches were current when it came to its end, None before that.
    """

    def __init__(
        self, site: sites.Site, name: str, kinds_watched: tuple[str, ...], relied: tuple[str, ...] = ()
    ) -> None:
        """Look at the cluster of a session for one scenario.

        Args:
            site: where.
            name: the scenario's name.
            kinds_watched: kind keys that are watched.
            relied: those of which a "never" may be said, whose watches show at each end that they are current.
        """
        self.name = name
        self.live = live.Live(site.log.state, site.log.condition, site.namespace, site.most_nodes)
        self._site = site
        self.horizon: float | None = None
        self._ended = False
        self._kinds = kinds_watched
        self._relied = relied
        self._reader = podlogs.LogReader(site, name)

    @property
    def profile(self) -> "Profile":
        """Return the profile."""
        return self._site.profile

    @property
    def cluster(self) -> sites.ClusterLike:
        """Return the cluster."""
        return self._site.cluster

    @property
    def namespace(self) -> str:
        """Return the namespace in which everything of ours is made."""
        return self._site.namespace

    def now(self) -> float:
        """Return seconds since the session began: the time of evidence."""
        return self._site.log.now()

    def note(self, word: str, **fields: Any) -> float:
        """Write a note of the fixed vocabulary and return its time.

        Raises:
            ValueError: a word that is not in the vocabulary, which judges would not know; or after the last window.
        """
        if word not in NOTES:
            raise ValueError(f"unknown note {word!r}{names.did_you_mean(word, NOTES)}")
        if self._ended and word != "left-over":
            raise ValueError(f"note {word!r}: the scenario has ended with its last window")
        return self._site.log.add("NOTE", self.name, {"note": word, **fields})

    def wait(
        self,
        what: str,
        predicate: Predicate,
        *,
        budget: str,
        unless: Unless | None = None,
        extra: float = 0.0,
        doing: str = "",
    ) -> bool:
        """Wait until `predicate(live)` holds; it is asked after each change, never by polling.

        Args:
            what: what is waited for, for the note.
            predicate: cheap and without side effects; it runs with the log's lock held.
            budget: name of the time allowed, from the profile.
            unless: what makes waiting pointless; a returned text says why.
            extra: seconds beyond the budget: what the cluster itself is told to wait before it acts.
            doing: what the line of progress says; by default that it waits until `what`.

        Returns:
            True when it came true. False when the time ran out (note `timed-out`) or `unless` held (note `aborted`).

        Raises:
            EnvironmentProblem: a watched kind may not be watched, or the API server is gone.
        """
        seconds = self._site.budget(budget) + extra
        self._site.tell(self.name, doing or f"waits until {what}", seconds)
        ended: list[bool | str] = []

        def check() -> bool:
            self._check_watches()
            if predicate(self.live):
                return True
            why = unless(self.live) if unless is not None else False
            if why:
                ended.append(why)
            return bool(why)

        if not self._site.log.until(check, seconds):
            self.note("timed-out", what=what, seconds=seconds, budget=budget, last=self._last())
            return False
        if ended:
            self.note(
                "aborted",
                what=what,
                why=ended[0] if isinstance(ended[0], str) else "it can no longer become true",
            )
            return False
        return True

    def window(
        self, name: str, periods: float = 3, *, unless: Unless | None = None, last: bool = False
    ) -> bool:
        """Stay for a window in which nothing may happen: the longer of `periods` scheduler periods and the profile's.

        It ends when the watches have shown that they are current: what happened in it was then told in it.

        Args:
            name: what the window is called in the evidence.
            periods: scheduler periods.
            unless: what ends it early; a returned text says why.
            last: whether the scenario comes to its end with it: one proof then shows both, and nothing may follow.

        Returns:
            Whether it was seen to its end; False when `unless` ended it (note `aborted`).

        Raises:
            EnvironmentProblem: as in `wait`.
        """
        seconds = self.profile.window_length(periods)
        self.note("window-begin", window=name, seconds=seconds)
        self._site.tell(self.name, f"watches the window {name}", seconds)
        why: list[bool | str] = []

        def check() -> bool:
            self._check_watches()
            found = unless(self.live) if unless is not None else False
            why[:] = [found] if found else []
            return bool(found)

        early = self._site.log.until(check, seconds)
        if early:
            text = why[0] if isinstance(why[0], str) else "ended early"
            self.note("aborted", what=f"window {name}", why=text)
        if last:
            self._until_told()
        proof = self._site.prove(self.name, self._relied)
        end = self.note("window-end", window=name, **({"early": True} if early else {}))
        if last:
            end = self._end()
        proof.seal(end)
        return not early

    def finish(self) -> None:
        """Come to the end: the watches show that they are current, and what happens later is not judged."""
        if self._ended:
            return
        self._until_told()
        proof = self._site.prove(self.name, self._relied)
        proof.seal(self._end())

    def _end(self) -> float:
        self.horizon = self.note("end")
        self._ended = True
        return self.horizon

    def _until_told(self) -> None:
        """Wait until the watches have told of each object that was made, as far as any was."""

    def leave(self) -> None:
        """Note the end of what did not come to it by itself: nothing shows to when its watches were current."""
        if not self._ended:
            self.horizon = None
            self.note("end")

    def _check_watches(self) -> None:
        log = self._site.log
        for kind in self._kinds:
            error = log.problems.get(kind)
            if isinstance(error, errors.EnvironmentProblem):
                raise error
        if log.unwritable is not None:
            raise log.unwritable
        if self._reader.denied is not None:
            raise self._reader.denied
        outage = log.outage()
        if outage is not None:
            raise errors.EnvironmentProblem(f"the API server is gone: {outage}")

    def _last(self) -> str:
        log = self._site.log
        with log.condition:
            return live.summary(log.state, self._subjects())

    def _subjects(self) -> set[str]:
        """Return the uids of what the scenario made; the end of their story is told when time runs out."""
        return set()
