"""Registry of feature sets: the inputs of a tagger for each token, their widths and their public sources.

Each set contains the one before it. :mod:`engine.embeddings` computes the parts.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FeaturePart:
    """Values that a feature set adds to those of a token.

    Attributes:
        name: Key of the computation: in :mod:`engine.embeddings.contextual` for a part in context, otherwise in
            :mod:`engine.embeddings.features`.
        width: Number of values.
        in_context: Whether the values depend on the other words of the sentence. A window reads only the other parts
            from neighbours, since these values already include them.
        fitted: Names of what was fitted on public sentences for this part. The checksums of these sentences are in
            ``engine/embeddings/public/fitted-on.npz`` under the same names.
    """

    name: str
    width: int
    in_context: bool = False
    fitted: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FeatureSet:
    """Features of a token.

    Attributes:
        name: Name in configurations. It never changes, since run identities depend on it.
        title: Label shown to users.
        adds: The last part, described for the command line.
        parts: All parts; in arrays, those in context come last.
        custom_model: Whether a custom language model can replace MiniLM.
    """

    name: str
    title: str
    adds: str
    parts: tuple[FeaturePart, ...]
    custom_model: bool = False

    @property
    def in_context(self) -> bool:
        """Whether a part depends on the other words of the sentence."""
        return any(part.in_context for part in self.parts)

    @property
    def width(self) -> int:
        """Number of a token's values."""
        return sum(part.width for part in self.parts)

    @property
    def copied(self) -> int:
        """Number of a token's first values, those that a window reads from neighbours."""
        return sum(part.width for part in self.parts if not part.in_context)

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
_SHAPES = FeatureSet(
    name="shapes",
    title="Word vectors and spelling",
    adds="and word shapes",
    parts=(*_VECTORS.parts, FeaturePart(name="word-shape", width=17)),
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
    parts=(*_TUNED.parts, FeaturePart(name="ner-tags", width=36, in_context=True)),
)

FEATURE_SETS: dict[str, FeatureSet] = {
    features.name: features for features in (_VECTORS, _SHAPES, _CONTEXTUAL, _TUNED, _NAMES)
}
"""Feature sets by name, in display order; each contains the one before it."""
ALL_FEATURES = tuple(FEATURE_SETS.values())[-1]
"""The set that contains all parts."""
FITTED_ON = "Wikigold"
"""The corpus that parts were fitted on."""
SOURCES = (
    f"The last three were fitted on {FITTED_ON}'s sentences, the last two also on its labels. "
    f"*{ALL_FEATURES.title}* adds spaCy's NER model, which was trained on OntoNotes."
)
"""Public sources of the sets, for users who choose one."""
