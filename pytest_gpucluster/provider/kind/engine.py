"""The container engine that kind uses: which one, whether it answers, its images."""

import dataclasses
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_gpucluster.provider import commands
from pytest_gpucluster.provider.protocol import ProviderError

ENGINES = ("docker", "podman", "nerdctl")
KIND = "kind"
CHOICE = "KIND_EXPERIMENTAL_PROVIDER"
"""Variable by which kind itself is told to use another engine than Docker."""
VARIABLES = (CHOICE, "DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST")
"""Variables that decide which engine is spoken to; they are kept with a cluster, so that it can be removed later."""

LOCAL = "unix://"
"""How the address of an engine begins that sees the files of this machine."""

OFFER = "; --cluster=embedded needs no container engine"
ANSWER_LIMIT = 20.0


@dataclasses.dataclass(frozen=True)
class Engine:
    """A container engine and kind.

    Attributes:
        program: `docker`, `podman` or `nerdctl`.
        kind: path of the kind program.
        environment: variables beside ours, for one that another process has used.
    """

    program: str
    kind: str
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def ask(
        self, *arguments: str, limit: float = 60.0, log: Path | None = None, text: str | None = None
    ) -> str:
        """Run the engine's program and return what it wrote.

        Raises:
            ProviderError: it fails; one line.
        """
        command = (self.program, *arguments)
        return commands.run(command, limit=limit, log=log, text=text, environment=self.environment)

    def ask_kind(self, *arguments: str, limit: float = 60.0, log: Path | None = None) -> str:
        """Run kind and return what it wrote.

        Raises:
            ProviderError: it fails; one line.
        """
        return commands.run((self.kind, *arguments), limit=limit, log=log, environment=self.environment)

    @property
    def sees_this_machine(self) -> bool:
        """Report whether folders of this machine can be mounted into containers."""
        address = {**os.environ, **self.environment}.get("DOCKER_HOST", "")
        return not address or address.startswith(LOCAL)

    def clusters(self) -> tuple[str, ...]:
        """Return the names of all kind clusters of this engine.

        Raises:
            ProviderError: the engine does not answer.
        """
        return tuple(self.ask_kind("get", "clusters").split())

    def has_image(self, image: str) -> bool:
        """Report whether the engine has an image."""
        try:
            self.ask("image", "inspect", "--format", "{{.Id}}", image)
        except ProviderError:
            return False
        return True

    def variables(self) -> dict[str, str]:
        """Return the variables that decide which engine is spoken to."""
        now = {**os.environ, **self.environment}
        return {name: now[name] for name in VARIABLES if now.get(name)}


def find(environment: Mapping[str, str] | None = None) -> Engine:
    """Return kind and the engine that it uses; neither is run.

    Raises:
        ProviderError: no kind program or no engine; one line that offers the embedded cluster.
    """
    kind = shutil.which(KIND)
    if kind is None:
        raise ProviderError(
            f"--cluster=kind: the program kind is not on PATH (https://kind.sigs.k8s.io){OFFER}"
        )
    told = (environment or {}).get(CHOICE) or os.environ.get(CHOICE)
    wanted: Sequence[str] = (told,) if told else ENGINES
    program = next((each for each in wanted if shutil.which(each)), None)
    if program is None:
        raise ProviderError(
            f"--cluster=kind: no container engine is on PATH (looked for: {', '.join(wanted)}){OFFER}"
        )
    return Engine(program, kind, dict(environment or {}))


def check(engine: Engine) -> None:
    """Ask the engine whether it is there.

    Raises:
        ProviderError: it does not answer; one line that offers the embedded cluster.
    """
    try:
        engine.ask("version", limit=ANSWER_LIMIT)
    except ProviderError as error:
        raise ProviderError(f"--cluster=kind: the container engine does not answer: {error}{OFFER}") from None
