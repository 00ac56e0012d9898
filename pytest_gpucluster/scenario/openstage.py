"""The open stage: what a test of a site's own gets in its hands, where a scenario is played from beginning to end.

It has the verbs of every stage, a short way to write a pod or a gang, waits that fail the test with what was seen
last, and the evidence so far, on which judges may be called before the stage is cleared.
"""

from collections.abc import Callable, Mapping

from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.scenario import live, predicates, programs, stage
from pytest_gpucluster.scenario import site as sites
from pytest_gpucluster.scenario import slice as slices
from pytest_gpucluster.workload import GangSpec, Role, members_of, single_pod

LINES_SHOWN = 5
"""Lines of a failed container that a failure shows."""
NAME_LIMIT = 44
"""Longest name of what a stage makes: controllers append to it, and a host name has at most 63 characters."""


class StageStands(Exception):  # noqa: N818 (what is in the way)
    """A scenario was asked for that cannot run while the stage of a test stands; the text says what to do."""


class Unmet(AssertionError):  # noqa: N818 (what became of an expectation)
    """What a test expects did not come true in time; the text says what was seen last."""


class OpenStage(stage.Stage):
    """A stage on which a test of a site's own acts."""

    def __init__(
        self,
        site: sites.Site,
        name: str,
        kinds_watched: tuple[str, ...],
        freeze: Callable[[stage.Stage], slices.Slice],
        relied: tuple[str, ...] = (),
    ) -> None:
        """Set the stage; `Session.open_stage` does.

        Args:
            site: where.
            name: of the test, as a label value.
            kinds_watched: kind keys that are watched already.
            freeze: returns what was seen so far.
            relied: kind keys whose watches show that they are current whenever evidence is asked for.
        """
        super().__init__(site, name, kinds_watched, relied)
        self._freeze = freeze
        self._made = 0
        self.claims_gpus: Callable[[int], None] = lambda _: None
        """Called with the GPUs that are about to be asked for; raises where the test declared fewer."""

    def evidence(self) -> Evidence:
        """Return what was seen so far, as judges get it: `judge.gang.runs_whole(stage.evidence())`."""
        proof = self._site.prove(self.name, self._relied)
        self.horizon = self.now()
        proof.seal(self.horizon)
        return self._frozen()

    def _frozen(self) -> Evidence:
        return ingest.of_lines(self._freeze(self).text(), self.name)

    def image(self, role: str = "python") -> str:
        """Return the image that the profile names for payloads: `python`, or `torch`.

        Raises:
            EnvironmentProblem: it names none.
        """
        return programs.image(self, role)

    def pod(
        self,
        *command: str,
        image: str = "",
        node: str = "",
        gpus: int = 0,
        env: Mapping[str, str] | None = None,
    ) -> stage.Handle:
        """Submit one pod that runs a command once.

        Args:
            command: program and arguments.
            image: image; "" for the profile's `images.python`.
            node: name of the only node that it may be placed on, "" for any.
            gpus: GPUs that it asks for.
            env: variables of its container.

        Raises:
            EnvironmentProblem: not permitted, no image, or the API server is in trouble.
        """
        __tracebackhide__ = True
        self.claims_gpus(gpus)
        resources = {self.profile.gpu_resource: gpus} if gpus else {}
        return self.submit(
            single_pod(
                self.new_name("pod"),
                command,
                image=image or self.image(),
                node=node,
                resources=resources,
                env=env,
            )
        )

    def gang_of(
        self,
        members: int,
        *command: str,
        gpus: int = 0,
        image: str = "",
        env: Mapping[str, str] | None = None,
        minimum: int | None = None,
    ) -> stage.Handle:
        """Submit a gang whose members all run one command, written for the declared scheduler.

        Args:
            members: pods.
            command: program and arguments.
            gpus: GPUs that each member asks for.
            image: image; "" for the profile's `images.python`.
            env: variables of each member.
            minimum: members that must start together; None for all.

        Raises:
            WorkloadError: the declared scheduler cannot express it; the test is then not applicable.
            EnvironmentProblem: as for `pod`.
        """
        __tracebackhide__ = True
        self.claims_gpus(gpus * members)
        asked = {self.profile.gpu_resource: gpus} if gpus else {}
        spec = GangSpec(
            self.new_name("gang"),
            roles=(Role("worker", members, command[:1], command[1:], env=dict(env or {})),),
            resources=asked,
            min_available=minimum,
            image=image or self.image(),
        )
        quota = {name: count * members for name, count in asked.items()}
        return self.gang(spec, dialect=programs.speaking(self, quota))

    def log_lines(self, target: stage.Handle) -> tuple[str, ...]:
        """Return what the containers of a pod, or of all members of a gang, have written so far, in order of receipt.

        Raises:
            EnvironmentProblem: logs may not be read.
        """
        self.logs(target)
        uids = {live.uid_of(pod) for pod in self.live.pods_of(target)}
        return tuple(str(line.data["line"]) for line in self._frozen().logs() if line.data.get("uid") in uids)

    def new_name(self, what: str) -> str:
        """Return a name that nothing else of the test has."""
        self._made += 1
        tail = f"-{what}-{self._made}"
        return self.name[: NAME_LIMIT - len(tail)].rstrip("-") + tail

    def expect(
        self,
        what: str,
        predicate: stage.Predicate,
        *,
        budget: str = "run",
        unless: stage.Unless | None = None,
    ) -> None:
        """Wait until something holds, waking on events; fail the test where it does not.

        Args:
            what: what is not so if the wait is in vain: `queue is not Open`.
            predicate: asked with the live view after each change.
            budget: name of the time allowed, from the profile.
            unless: what makes waiting pointless; a returned text says why.

        Raises:
            Unmet: the time ran out, or `unless` held.
            EnvironmentProblem: what must be watched may not be, or the API server is gone.
        """
        __tracebackhide__ = True  # the line of the test is what its reader needs
        why: list[str] = []

        def vain(view: live.Live) -> bool | str:
            found = unless(view) if unless is not None else False
            why[:] = [str(found)] if found else []
            return found

        # `what` is what is not so yet.
        if not self.wait(what, predicate, budget=budget, unless=vain, doing=f"waits; so far: {what}"):
            raise self._unmet(what, why[0] if why else "", budget)

    def expect_running(self, handle: stage.Handle, *, members: int | None = None) -> None:
        """Wait until a pod, or all members of a gang, run with all containers ready, or have ended well.

        Args:
            handle: what was submitted.
            members: how many must; None for all that the handle asks for.

        Raises:
            Unmet: it was refused, a member failed, or the budget `start` ran out.
        """
        __tracebackhide__ = True
        count = self._members(handle, members)
        what = f"not running: {_pods(handle, count)}"
        self._expect_pods(handle, what, predicates.running(handle, count), "start")

    def expect_success(
        self, handle: stage.Handle, *, members: int | None = None, budget: str = "run"
    ) -> None:
        """Wait until a pod, or all members of a gang, have ended well; errors as in `expect_running`."""
        __tracebackhide__ = True
        count = self._members(handle, members)
        what = f"not ended with success: {_pods(handle, count)}"
        self._expect_pods(handle, what, predicates.succeeded(handle, count), budget)

    def _expect_pods(self, handle: stage.Handle, what: str, predicate: stage.Predicate, budget: str) -> None:
        """Wait as `expect` does; of a container that failed its last lines are shown."""
        __tracebackhide__ = True
        failed = predicates.failed(handle)
        if self.wait(what, predicate, budget=budget, unless=failed):
            return
        why = failed(self.live)
        last = self.log_lines(handle)[-LINES_SHOWN:] if why else ()
        lines = f"; its last lines: {' | '.join(last)}" if last else ""
        raise self._unmet(what, f"{why}{lines}" if why else "", budget)

    def _unmet(self, what: str, why: str, budget: str) -> Unmet:
        end = why or f"not within {self._site.budget(budget):g} s (budget {budget})"
        return Unmet(f"{what}: {end}; last seen: {self._last()}")

    def _members(self, handle: stage.Handle, members: int | None) -> int:
        __tracebackhide__ = True
        if not handle.ok:
            words = " ".join(str(handle.body.get("message") or handle.body).split())
            raise Unmet(f"{handle.kind}/{handle.name} was refused with HTTP {handle.code}: {words}")
        return members if members is not None else members_of(handle.kind, handle.body)


def _pods(handle: stage.Handle, count: int) -> str:
    whole = f"{handle.kind}/{handle.name}"
    return whole if handle.kind == "Pod" else f"all {count} members of {whole}"
