"""The models as torch modules: the definition of what each model does with a sequence.

They are slow and simple on purpose. The engines "moments", "population" and "softmax" train the same models
much faster and must agree with them; the engine "autograd" trains the modules themselves.

Shapes: there are P sequences of n tokens, and each token has E = D + O entries, its x and its y. There are H
heads of rank R. The last token is the query, whose y is set to zero. The prediction of this y has the shape
(P, O).
"""

from iclcore.checks import BadValue
from iclcore.extras import needs
from iclcore.models import CubicMLP, MergedAttention, Model, SeparateAttention, Weights
from iclcore.shapes import Float
from iclcore.task import divide_by

with needs("torch"):
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import linear

Tokens = Float[Tensor, "P n E"]


class Network(nn.Module):
    """The base class of the modules, which holds the weight matrices and the divisor.

    Each matrix is a separate parameter, as in the published code. The prediction for tokens is
    ``predict(inputs(tokens))``, divided by the number that the divisor stands for.
    """

    def __init__(self, model: Model, weights: Weights, outputs: int, precision: torch.dtype):
        super().__init__()
        self.softmax, self.divisor, self.outputs = model.softmax, model.divisor, outputs
        for name, stack in weights.items():
            matrices = [nn.Parameter(torch.tensor(matrix, dtype=precision)) for matrix in stack]
            setattr(self, name, nn.ParameterList(matrices))

    def forward(self, tokens: Tokens) -> Float[Tensor, "P O"]:
        return self.predict(self.inputs(tokens)) / divide_by(self.divisor, tokens.shape[1])

    def inputs(self, tokens: Tokens) -> Tensor:
        """Return the input of ``predict``, which is computed from the tokens without any weights."""
        return tokens

    def predict(self, inputs: Tensor) -> Float[Tensor, "P O"]:
        """Return the predictions, not yet divided by the divisor."""
        raise NotImplementedError

    def predict_as_published(self, inputs: Tensor) -> Float[Tensor, "P O"]:
        """Return the same predictions, by the operations of the first paper's code in their order."""
        return self.predict(inputs)


class Attention(Network):
    """Attention predicts ŷ as the last O entries of Σ_h Σ_m p_h(m) V_h token_m.

    In linear attention, p_h(m) is the score of the query's token against token m. In softmax attention, p_h
    is the softmax of these scores over m. Merged and separate attention differ in their scores.
    """

    def predict(self, tokens: Tokens) -> Float[Tensor, "P O"]:
        p = self.normalised(self.scores(tokens))
        context = torch.einsum("phm,pme->phe", p, tokens)
        value = _stacked(self.value)[:, -self.outputs :]  # only these rows reach the prediction
        return torch.einsum("phe,hoe->po", context, value)

    def predict_as_published(self, tokens: Tokens) -> Float[Tensor, "P O"]:
        """Return the predictions from every token's row of scores and every token's value, head after head.

        The predictions are those of ``predict`` except for round-off. They are computed in another way
        because the order of a sum decides its last bit, and above the edge of stability this bit decides how
        a run ends. The order used here needs n times as much memory as that of ``predict``.
        """
        outputs = []
        for h, value in enumerate(self.value):
            queries, keys = self.queries_and_keys(tokens, h)
            p = self.normalised(torch.bmm(queries, keys.transpose(1, 2)))
            outputs.append(torch.bmm(p, linear(tokens, value)))
        return sum(outputs)[:, -1, -self.outputs :]

    def normalised(self, scores: Float[Tensor, "P rows n"]) -> Float[Tensor, "P rows n"]:
        return scores.softmax(dim=2) if self.softmax else scores


class Merged(Attention):
    """Attention in which the score of token m in head h is token_qᵀ KQ_h token_m."""

    def scores(self, tokens: Tokens) -> Float[Tensor, "P H n"]:
        query = tokens[:, -1]
        return torch.einsum("pd,hde,pme->phm", query, _stacked(self.key_query), tokens)

    def queries_and_keys(self, tokens: Tokens, h: int) -> tuple[Tokens, Tokens]:
        return tokens, linear(tokens, self.key_query[h])


class Separate(Attention):
    """Attention in which the score of token m in head h is (Q_h token_q)·(K_h token_m)."""

    def scores(self, tokens: Tokens) -> Float[Tensor, "P H n"]:
        queries = torch.einsum("hrd,pd->phr", _stacked(self.query), tokens[:, -1])
        return torch.einsum("phr,hre,pme->phm", queries, _stacked(self.key), tokens)

    def queries_and_keys(
        self, tokens: Tokens, h: int
    ) -> tuple[Float[Tensor, "P n R"], Float[Tensor, "P n R"]]:
        return linear(tokens, self.query[h]), linear(tokens, self.key[h])


class Cubic(Network):
    """The two-layer network predicts ŷ = W₂ W₁ z with the cubic feature z = vec(β x_qᵀ).

    β is the block of Σ_m token_m token_mᵀ between x and the last y: the sum Σ_m y_m x_m.
    """

    def inputs(self, tokens: Tokens) -> Float[Tensor, "P DD"]:
        dim = tokens.shape[2] - self.outputs
        beta = torch.bmm(tokens.transpose(1, 2), tokens)[:, :dim, [-1]]
        return torch.bmm(beta, tokens[:, [-1], :dim]).flatten(1)

    def predict(self, z: Float[Tensor, "P DD"]) -> Float[Tensor, "P O"]:
        return linear(linear(z, self.first[0]), self.second[0])


def _stacked(matrices: nn.ParameterList) -> Float[Tensor, "H a b"]:
    return torch.stack(tuple(matrices))


MODULES: dict[type, type] = {MergedAttention: Merged, SeparateAttention: Separate, CubicMLP: Cubic}


def module(
    model: Model, weights: Weights, outputs: int, precision: torch.dtype = torch.float64
) -> Network:
    """Return the torch module of a model, with copies of the weights."""
    if type(model) not in MODULES:
        own = type(model).__name__
        raise BadValue("model", f"takes a torch module: iclcore.modules.MODULES[{own}] is missing")
    return MODULES[type(model)](model, weights, outputs, precision)
