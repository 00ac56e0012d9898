"""What a cluster may be trusted for: the purposes of an answer, each with the areas that show it."""

from collections.abc import Mapping

PURPOSES: Mapping[str, tuple[str, ...]] = {
    "inventory": ("inventory",),
    "scheduling": ("gang", "refusal", "lifecycle", "trainer"),
    "rendezvous": ("plugins", "rendezvous"),
    "fabric": ("fabric",),
    "speed": ("mfu",),
    "NUMA": ("numa",),
    "Kueue": ("kueue",),
    "elastic": ("elastic",),
    "checkpoints": ("checkpoint",),
    "health": ("health",),
    "the site's own": ("site",),
}
"""Purpose -> areas, by the names by which `-m` selects them."""
