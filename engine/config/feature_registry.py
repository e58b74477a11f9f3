"""Registry of feature sets: the inputs of a tagger for each token, their widths and their public sources.

:mod:`engine.embeddings` computes the parts.
"""

from dataclasses import dataclass

from engine.config.encoder_registry import ENCODERS, MINILM, size_of


@dataclass(frozen=True, kw_only=True)
class FeaturePart:
    """Values that a feature set adds to those of a token.

    Attributes:
        name: Key of the computation: in :mod:`engine.embeddings.contextual` for a part in context, otherwise in
            :mod:`engine.embeddings.features`.
        width: Number of values; None for the size of the language model's layers.
        in_context: Whether the values depend on the other words of the sentence. A window reads only the other parts
            from neighbours, since these values already include them.
        fitted: Names of what was fitted on public sentences for this part. The checksums of these sentences are in
            ``engine/embeddings/public/fitted-on.npz`` under the same names.
    """

    name: str
    width: int | None
    in_context: bool = False
    fitted: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FeatureSet:
    """Features of a token.

    Attributes:
        name: Name in configurations. It never changes, since run identities depend on it.
        title: Label shown to users.
        adds: The parts, or those that are added to the set before, described for the command line.
        parts: All parts; in arrays, those in context come last.
        custom_model: Whether a custom language model can replace MiniLM.
        any_model: Whether any registered language model can replace it.
    """

    name: str
    title: str
    adds: str
    parts: tuple[FeaturePart, ...]
    custom_model: bool = False
    any_model: bool = False

    def reads(self, language_model: str) -> bool:
        """Return whether the features can be computed with this language model, or use none and it is the default."""
        return language_model == MINILM or (self.any_model if language_model in ENCODERS else self.custom_model)

    @property
    def in_context(self) -> bool:
        """Whether a part depends on the other words of the sentence."""
        return any(part.in_context for part in self.parts)

    def width(self, language_model: str = MINILM) -> int:
        """Return the number of a token's values with a language model."""
        return sum(size_of(language_model) if part.width is None else part.width for part in self.parts)

    def columns(self, part: FeaturePart, language_model: str = MINILM) -> slice:
        """Return the places of a part's values among a token's values."""
        first = 0
        for each in self.parts[: self.parts.index(part) + 1]:
            end = first + (size_of(language_model) if each.width is None else each.width)
            places, first = slice(first, end), end
        return places

    @property
    def copied(self) -> int:
        """Number of a token's first values, those that a window reads from neighbours."""
        return sum(part.width or 0 for part in self.parts if not part.in_context)

    @property
    def fitted(self) -> tuple[str, ...]:
        """All that was fitted on public sentences, see :class:`FeaturePart`."""
        return tuple(name for part in self.parts for name in part.fitted)

    @property
    def word_vectors_only(self) -> bool:
        """Whether the word vector is the only part, so that all tokens of a word have the same row of its table."""
        return self.parts == (WORD_VECTOR,)


WORD_VECTOR = FeaturePart(name="word-vector", width=300)

_VECTORS = FeatureSet(name="vectors", title="Word vectors", adds="word vectors", parts=(WORD_VECTOR,))
_WORD_SHAPE = FeaturePart(name="word-shape", width=17)
_NER_TAGS = FeaturePart(name="ner-tags", width=36, in_context=True)
_SHAPES = FeatureSet(
    name="shapes",
    title="Word vectors and spelling",
    adds="and spelling",
    parts=(*_VECTORS.parts, _WORD_SHAPE),
)
_CONTEXTUAL = FeatureSet(
    name="contextual",
    title="Public language model",
    adds="and vectors of a public language model",
    parts=(*_SHAPES.parts, FeaturePart(name="whitened-layers", width=256, in_context=True, fitted=("projection",))),
    custom_model=True,
)
_TUNED = FeatureSet(
    name="tuned",
    title="Public model fine-tuned for NER",
    adds="and vectors of that model fine-tuned on public entities",
    parts=(*_CONTEXTUAL.parts, FeaturePart(name="tuned-layer", width=384, in_context=True, fitted=("adapter",))),
)
_NAMES = FeatureSet(
    name="names",
    title="Public NER tagger",
    adds="and spaCy's NER tags",
    parts=(*_TUNED.parts, _NER_TAGS),
)
_CENTRED = FeaturePart(name="centred-layer", width=None, in_context=True, fitted=("statistics",))
_LAYER = FeatureSet(
    name="layer",
    title="Spelling and one language-model layer",
    adds="spelling and all values of one layer of a public language model, without word vectors",
    parts=(_WORD_SHAPE, _CENTRED),
    custom_model=True,
    any_model=True,
)
_LAYER_NAMES = FeatureSet(
    name="layer-names",
    title="Spelling, one language-model layer, public NER tagger",
    adds="the same and spaCy's NER tags",
    parts=(*_LAYER.parts, _NER_TAGS),
    custom_model=True,
    any_model=True,
)

FEATURE_SETS: dict[str, FeatureSet] = {
    features.name: features for features in (_VECTORS, _SHAPES, _CONTEXTUAL, _TUNED, _NAMES, _LAYER, _LAYER_NAMES)
}
"""Feature sets by name, in display order. Those from "vectors" to "names" each contain the one before."""
ALL_PARTS = tuple({part.name: part for features in FEATURE_SETS.values() for part in features.parts}.values())
"""Each part of a set once."""
MOST_FITTED = max(FEATURE_SETS.values(), key=lambda features: len(features.fitted))
"""The set with the most that was fitted on public sentences."""
FITTED_ON = "Wikigold"
"""The corpus that parts were fitted on."""
SOURCES = (
    f"Each choice down to *{_NAMES.title}* adds to the features of the choices above it. Language-model features were "
    f"fitted on the sentences of {FITTED_ON}; *{_TUNED.title}* and *{_NAMES.title}* also used its labels. The NER "
    "tagger is spaCy's, trained on OntoNotes."
)
"""Public sources of the sets, for users who choose one."""
