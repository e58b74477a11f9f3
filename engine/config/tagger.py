"""The tagger of a run."""

from dataclasses import dataclass, field

from engine.config.feature_registry import FITTED_ON
from engine.config.parameters import Parameter, check_fields
from engine.config.value_types import Choice, Integer, Number, Switch, Text
from engine.errors import InvalidConfig
from engine.taggers.registry import KINDS

_SCHEMES = {"bio2": "BIO2", "bioes": "BIOES"}
SCHEMES = tuple(_SCHEMES)
OF_KIND = ("window", "dropout", "pretrained")
"""Fields that are 0 or False unless the kind of the tagger has them (:attr:`engine.taggers.base.TaggerKind.fields`)."""


@dataclass(frozen=True, kw_only=True)
class TaggerConfig:
    """The model that assigns a tag to each token of a sentence.

    Attributes:
        name: One of :data:`engine.taggers.KINDS`.
        hidden_size: LSTM units per direction (the paper does not report its own), or units of an MLP.
        window: Neighbouring tokens on each side that a linear tagger or an MLP reads.
        scheme: Tag scheme that it learns: "bio2", or "bioes", which also marks where entities end. For several corpora
            one name for all (FedNER, section 4.1: BIO), or one for each, separated by commas, in their order. Scores
            are computed in BIO2 (:mod:`engine.corpus.tag_schemes`).
        well_formed: Whether decoding forbids ill-formed tag sequences.
        dropout: Probability that a value is dropped in training, for taggers with such layers (FedNER, section 4.1:
            0.2).
        pretrained: Whether training starts from public weights (:mod:`engine.config.head_registry`), for a linear CRF.
    """

    name: str = field(
        default="bilstm-tddl",
        metadata=Parameter(
            values=Choice(names=KINDS),
            label="Model",
            option_help=f"The model: {', '.join(KINDS)}.",
            heading="model",
            titles={name: kind.title for name, kind in KINDS.items()},
        ).metadata,
    )
    hidden_size: int = field(
        default=100,
        metadata=Parameter(
            values=Integer(low=1, high=1024),
            label="Hidden size (LSTM units per direction, filters, MLP units)",
            option_help="LSTM units per direction, filters of a convolution, or units of an MLP.",
        ).metadata,
    )
    window: int = field(
        default=0,
        metadata=Parameter(
            values=Integer(low=0, high=5),
            label="Context window",
            option_help="Tokens of context on each side for a linear tagger or MLP.",
            option_names=("--context-window", "--window"),
            widget_help="Tokens on each side that linear models and MLPs read. An LSTM reads the whole sentence.",
            heading="context window",
        ).metadata,
    )
    scheme: str = field(
        default="bio2",
        metadata=Parameter(
            values=Text(),
            label="Tag scheme",
            option_help="Tag scheme of training: bio2 or bioes. With --platform one for all, or one for each, "
            "separated by commas (bio2,bioes).",
            option_names=("--tag-scheme", "--scheme"),
            widget_help="Tags that the model learns. BIO2 marks the first token (B-X) and further tokens (I-X) of an "
            "entity. BIOES also marks the last token (E-X) and single-token entities (S-X). Scores are computed on "
            "BIO2 for both.",
            heading="tag scheme",
            titles=_SCHEMES,
        ).metadata,
    )
    well_formed: bool = field(
        default=False,
        metadata=Parameter(
            values=Switch(),
            label="Constrained decoding",
            option_help="Forbid invalid tag sequences in decoding.",
            option_names=("--constrained-decoding", "--well-formed"),
            widget_help="Allow valid tag sequences only: I-X follows B-X or I-X, and in BIOES an entity ends with E-X. "
            "It applies to decoding only, so it costs no privacy.",
            heading="decoding",
            titles={True: "constrained decoding", False: "unconstrained decoding"},
            self_explanatory=True,
        ).metadata,
    )
    dropout: float = field(
        default=0.0,
        metadata=Parameter(
            values=Number(low=0, high=0.9, step=0.1),
            label="Dropout",
            option_help="Dropout probability in training, for FedNER's taggers.",
            widget_help="Share of the activations that training drops at random. Only taggers of the FedNER paper "
            "use it.",
            unit="%",
        ).metadata,
    )
    pretrained: bool = field(
        default=False,
        metadata=Parameter(
            values=Switch(),
            label="Pretrained weights",
            option_help=f"Start a linear CRF from public weights, trained without noise on {FITTED_ON}.",
            widget_help=f"The private training starts from public weights, trained on the labels of {FITTED_ON}. They "
            "cost no privacy, unless the corpus shares sentences with it. They exist for *Linear, CRF* with the "
            "context window 1 and the tag scheme BIO2. The features must be spelling, one language-model layer and the "
            "public NER tagger.",
            heading="initial weights",
            titles={True: f"weights pretrained on {FITTED_ON}", False: "weights not pretrained"},
            self_explanatory=True,
        ).metadata,
    )

    def __post_init__(self) -> None:
        names = [name.strip() for name in self.scheme.split(",")] if isinstance(self.scheme, str) else [self.scheme]
        if not all(name in SCHEMES for name in names):
            raise InvalidConfig(
                f"scheme={self.scheme!r}, expected one of {', '.join(SCHEMES)}, or one for each client, separated by "
                "commas"
            )
        object.__setattr__(self, "scheme", ",".join(names))
        check_fields(self, name="tagger")
        if self.window and "window" not in KINDS[self.name].fields:
            raise InvalidConfig(
                f"window={self.window}, expected 0, since tagger={self.name!r} reads the whole sentence"
            )
        if self.dropout and "dropout" not in KINDS[self.name].fields:
            raise InvalidConfig(f"dropout={self.dropout:g}, expected 0, since tagger={self.name!r} has none")
        if self.pretrained and "pretrained" not in KINDS[self.name].fields:
            having = " or ".join(repr(name) for name, kind in KINDS.items() if "pretrained" in kind.fields)
            raise InvalidConfig(
                f"pretrained=True, expected False with tagger={self.name!r}: public weights exist only for {having}"
            )
        if self.pretrained and set(self.schemes) != {"bio2"}:
            raise InvalidConfig(
                f"pretrained=True, expected False with scheme={self.scheme!r}: public weights exist only for 'bio2'"
            )

    @property
    def schemes(self) -> tuple[str, ...]:
        """The names in ``scheme``."""
        return tuple(self.scheme.split(","))
