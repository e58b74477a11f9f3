"""The optimisation of a run."""

from dataclasses import dataclass, field

from engine.config.parameters import Parameter, check_fields
from engine.config.value_types import Choice, Integer, Number

_LOSSES = {"mean": "averaged over tokens", "sum": "summed over tokens"}
_OPTIMISERS = {"sgd": "SGD", "momentum": "SGD with momentum", "adam": "Adam"}
OPTIMISERS = tuple(_OPTIMISERS)


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """The optimisation. The defaults are the paper's (dp-fl-ner, footnote 2).

    Attributes:
        optimiser: "sgd", "momentum" (0.9) or "adam" (0.9, 0.999, 1e-8).
        learning_rate: Learning rate.
        batch_size: *Expected* sentences per step (the realised number varies under Poisson sampling).
        epochs: Passes over the data in expectation; steps = round(epochs * n / batch_size).
        loss: "mean" or "sum" over a sentence's tokens. With a CRF it is the sentence's negative log-likelihood, divided
            by its length or not.
        averaging: Decay per step, or per communication round with several clients, of the exponential moving average of
            the common weights. The evaluated tagger has these averages; 0 uses the weights themselves. It has no
            privacy cost.
    """

    optimiser: str = field(
        default="sgd",
        metadata=Parameter(
            values=Choice(names=OPTIMISERS),
            label="Optimiser",
            option_help="sgd, momentum or adam.",
            titles=_OPTIMISERS,
            self_explanatory=True,
        ).metadata,
    )
    learning_rate: float = field(
        default=0.15,
        metadata=Parameter(
            values=Number(low=0, high=1000, low_open=True, least=1e-6, step=0.05),
            label="Learning rate",
            option_help="Step size.",
        ).metadata,
    )
    batch_size: int = field(
        default=32,
        metadata=Parameter(
            values=Integer(low=1, high=1_000_000),
            label="Batch size (expected)",
            option_help="Expected sentences per step.",
        ).metadata,
    )
    epochs: float = field(
        default=10.0,
        metadata=Parameter(
            values=Number(low=0, high=10_000, low_open=True, least=0.01, step=1.0),
            label="Epochs",
            option_help="Expected passes over the data.",
        ).metadata,
    )
    loss: str = field(
        default="mean",
        metadata=Parameter(
            values=Choice(names=tuple(_LOSSES)),
            label="Sentence loss",
            option_help="Loss of a sentence: mean or sum over its tokens.",
            widget_help="Mean or sum over the tokens. With the sum, long sentences have larger gradients and are "
            "clipped more.",
            titles=_LOSSES,
        ).metadata,
    )
    averaging: float = field(
        default=0.0,
        metadata=Parameter(
            values=Number(low=0, high=1, high_open=True, most=0.9999, step=0.05),
            label="Weight averaging decay",
            option_help="Decay per step of the moving average of weights that is evaluated. 0: no average.",
            widget_help="The model uses the exponential moving average of the weights: less noise at no privacy "
            "cost. 0: off.",
            heading="weight averaging decay",
        ).metadata,
    )

    def __post_init__(self) -> None:
        check_fields(self)
