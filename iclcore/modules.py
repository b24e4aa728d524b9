"""The models as torch modules: the readable definition of what each does with a sequence.

Slow and obvious on purpose. Training goes through ``descent`` and ``softmax``; these modules are
what both must agree with, and ``autograd`` trains them as they are. Tokens are (P, n, E) with the
query last and its y set to zero; the prediction is (P, O).
"""

from jaxtyping import Float

from iclcore.extras import needs
from iclcore.models import CubicMLP, MergedAttention, Model, SeparateAttention, Weights
from iclcore.task import divide_by

with needs("torch"):
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import linear

Tokens = Float[Tensor, "P n E"]


class Network(nn.Module):
    """What all have in common: matrices, held one by one as the published code does, and the divisor.

    ``predict`` makes the prediction, but for the divisor, of what is ``given``.
    """

    def __init__(self, model: Model, weights: Weights, outputs: int, precision: torch.dtype):
        super().__init__()
        self.softmax, self.divisor, self.outputs = model.softmax, model.divisor, outputs
        for name, stack in weights.items():
            held = (nn.Parameter(torch.tensor(matrix, dtype=precision)) for matrix in stack)
            setattr(self, name, nn.ParameterList(held))

    def forward(self, tokens: Tokens) -> Float[Tensor, "P O"]:
        return self.predict(self.given(tokens)) / divide_by(self.divisor, tokens.shape[1])

    def given(self, tokens: Tokens) -> Tensor:
        """What is made of tokens before there is a weight."""
        return tokens

    def as_published(self, given: Tensor) -> Float[Tensor, "P O"]:
        """The same by the operations of the first paper's code, in their order."""
        return self.predict(given)


class Attention(Network):
    """ŷ = Σ_h Σ_m p_h(m) V_h token_m, read from its last O entries; only the query's row is formed.

    p_h(m) is the score of the query's token against token m: as it is (linear) or its softmax. Kinds of
    attention differ in ``scores``, and in ``compared``: each token as it asks and as it is asked by head h.
    """

    def predict(self, given: Tokens) -> Float[Tensor, "P O"]:
        seen = torch.einsum("phm,pme->phe", self.weigh(self.scores(given)), given)
        value = _stacked(self.value)[:, -self.outputs :]  # last: no value a token
        return torch.einsum("phe,hoe->po", seen, value)

    def as_published(self, given: Tokens) -> Float[Tensor, "P O"]:
        """Every token's row of scores and every token's value, one head after another.

        Said once more because the order of sums decides the last bit of a number, past the edge of
        stability that bit how a run ends, and this order holds n times as much as the other.
        """
        outputs = []
        for h, value in enumerate(self.value):
            asking, asked = self.compared(given, h)
            weight = self.weigh(torch.bmm(asking, asked.transpose(1, 2)))
            outputs.append(torch.bmm(weight, linear(given, value)))
        return sum(outputs)[:, -1, -self.outputs :]

    def weigh(self, scores: Float[Tensor, "P rows n"]) -> Float[Tensor, "P rows n"]:
        return scores.softmax(dim=2) if self.softmax else scores


class Merged(Attention):
    """score_h(q, m) = token_qᵀ KQ_h token_m."""

    def scores(self, tokens: Tokens) -> Float[Tensor, "P H n"]:
        return torch.einsum("pd,hde,pme->phm", tokens[:, -1], _stacked(self.key_query), tokens)

    def compared(self, tokens: Tokens, h: int) -> tuple[Tokens, Tokens]:
        return tokens, linear(tokens, self.key_query[h])


class Separate(Attention):
    """score_h(q, m) = (Q_h token_q)·(K_h token_m)."""

    def scores(self, tokens: Tokens) -> Float[Tensor, "P H n"]:
        asked = torch.einsum("hrd,pd->phr", _stacked(self.query), tokens[:, -1])
        return torch.einsum("phr,hre,pme->phm", asked, _stacked(self.key), tokens)

    def compared(
        self, tokens: Tokens, h: int
    ) -> tuple[Float[Tensor, "P n R"], Float[Tensor, "P n R"]]:
        return linear(tokens, self.query[h]), linear(tokens, self.key[h])


class Cubic(Network):
    """ŷ = W₂ W₁ z, z = vec(β x_qᵀ), β the block of Σ_m token_m token_mᵀ between x and the last y."""

    def given(self, tokens: Tokens) -> Float[Tensor, "P DD"]:
        dim = tokens.shape[2] - self.outputs
        beta = torch.bmm(tokens.transpose(1, 2), tokens)[:, :dim, [-1]]
        return torch.bmm(beta, tokens[:, [-1], :dim]).flatten(1)

    def predict(self, given: Float[Tensor, "P DD"]) -> Float[Tensor, "P O"]:
        return linear(linear(given, self.first[0]), self.second[0])


def _stacked(matrices: nn.ParameterList) -> Float[Tensor, "H a b"]:
    return torch.stack(tuple(matrices))


KINDS = {MergedAttention: Merged, SeparateAttention: Separate, CubicMLP: Cubic}


def module(
    model: Model, weights: Weights, outputs: int, precision: torch.dtype = torch.float64
) -> Network:
    """The torch module of a model, holding copies of ``weights``."""
    return KINDS[type(model)](model, weights, outputs, precision)
