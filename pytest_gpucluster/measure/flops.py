"""How many floating point operations something needs, by formula, each with its source.

A multiplication and an addition are two. What is computed again to save memory is no part of it: that would be
hardware utilisation (HFU), not model utilisation (MFU).
"""

import dataclasses


def product(m: int, n: int, k: int) -> int:
    """Return the FLOPs of a matrix product of m x k and k x n: 2 m n k."""
    return 2 * m * n * k


@dataclasses.dataclass(frozen=True)
class Decoder:
    """The size of a decoder in the style of GPT, its feed-forward part four times as wide.

    Attributes:
        layers: layers.
        width: width.
        heads: heads of attention; they share the width.
        seq: length of a sequence.
        vocab: size of the vocabulary.
    """

    layers: int
    width: int
    heads: int
    seq: int
    vocab: int

    @property
    def multiplying(self) -> int:
        """Return the weights that multiply: of each layer 4 d^2 for attention and 8 d^2 behind it, and the head.

        Embeddings are looked up, not multiplied.
        """
        return self.layers * 12 * self.width**2 + self.width * self.vocab

    @property
    def weights(self) -> int:
        """Return all weights but those of the norms: embeddings of tokens and places are added."""
        return self.multiplying + (self.vocab + self.seq) * self.width

    def per_token(self, *, causal: bool = False) -> int:
        """Return the FLOPs of a token, forward and backward.

        6 N + 12 L d T: PaLM (arXiv 2204.02311, appendix B), the same as 3 (2 N T) + 3 (4 L d T^2) a sequence of
        llm-foundry. The convention counts the whole square of attention, also where a causal mask halves the work.

        Args:
            causal: count the half that the mask leaves.
        """
        square = 12 * self.layers * self.width * self.seq
        return 6 * self.multiplying + (square // 2 if causal else square)

    def by_megatron(self, batch: int) -> float:
        """Return the FLOPs of a step by Megatron's formula (arXiv 2205.05198): 72 B s l h^2 (1 + s/6h + V/12lh)."""
        h, s, layers = self.width, self.seq, self.layers
        return 72 * batch * s * layers * h**2 * (1 + s / (6 * h) + self.vocab / (12 * layers * h))


def mfu(tokens_per_s: float, flop_per_token: float, peak_tflops: float) -> float:
    """Return the model FLOPs utilisation of one device: what the mathematics needs, as part of the dense peak."""
    return tokens_per_s * flop_per_token / (peak_tflops * 1e12)


def smoke_right(n: int, steps: int, seconds: float) -> float:
    """Return TFLOP/s of one rank in the smoke loop: every rank does the whole product of each step, 2 N^3."""
    return steps * product(n, n, n) / seconds / 1e12


def smoke_documented(n: int, steps: int, seconds: float, world: int) -> float:
    """Return what the documented formula prints: products counted twice, divided by the number of ranks."""
    return 2 * steps * product(n, n, n) / seconds / world / 1e12
