"""Assumptions of ε, one sentence each, as records state them.

Records of earlier versions have earlier wordings of the same sentences; readers see today's.
"""

import re
from collections.abc import Iterable

from engine.config.mechanism_registry import DP_FEDAVG, LOCAL, SECURE_SUM

POISSON = (
    "Each step samples each sentence independently with the same probability (Poisson sampling). The noise check "
    "states which part of this sampling it verified."
)
SHUFFLE = (
    "Sentences were shuffled into batches, so ε has no amplification by subsampling. Adding a sentence changes its own "
    "batch by up to 2C and the last batch, into which it moves another sentence, by up to C, once an epoch. "
    "If it starts a new batch, the corpus without it counts an empty batch, which consists of noise alone."
)
# pragma: allowlist nextline secret
SECRET_SAMPLE = (
    "The sentences of each batch must stay secret, and so must losses and gradient norms. ε does not cover those that "
    "are shown here without noise."
)
SEEDED = (
    "The noise must stay secret. In this simulation it comes from a public seed: anyone can subtract it, and this "
    "tagger is not protected."
)
WITHHELD = (
    "The sentences of each batch must stay secret, and so must losses and gradient norms. The records of this run do "
    "not hold them."
)
SYSTEM = (
    "The keys of noise and samples come from the operating system and are destroyed when the run ends: when it "
    "finishes, fails or is cancelled."
)
FLOATING = (
    "The proof assumes exactly normal noise. Noise in floating point differs from it in its last digits (Mironov "
    "2012). δ does not include an attack on the last digits of the weights."
)
FAILED_CHECK = "The noise check failed: the training deviates from its plan, so there is no privacy guarantee."
PUBLIC = "Word vectors, tag names, the number of sentences and all settings are public or fixed in advance."
SPLIT = (
    "The program split the corpus into training, validation and test set. Which sentence is in which set is public and "
    "fixed; ε does not protect it."
)
DISJOINT = (
    "Each sentence belongs to one client, whatever its words and tags. The client depends on the positions and the "
    "number of sentences, or on the sizes of documents or sections, which are not divided. ε is that of the worst-case "
    "client, over all its rounds."
)
INDEPENDENT = (
    "Each sentence belongs to one client, drawn independently of all other sentences. The number of sentences of each "
    "client and phase is public; ε is that of the worst-case client, over all its rounds."
)
APART = (
    "Each sentence of four or more words is used by one client (silo) only: {number} sentences that another silo also "
    "has, ignoring case and punctuation, were left out. Shorter ones count separately at each silo. Silos compare "
    "checksums to find the others. Which sentences silos share is fixed, and ε does not protect it; ε is that of the "
    "worst-case silo."
)
BY_TAGS = (
    "Each sentence belongs to one client. The client depended on the tags of all sentences (label skew, up to version "
    "0.7.0). So ε does not protect tags: if the tags of one sentence change, other sentences change clients. ε is that "
    "of the worst-case client, over all its rounds."
)
PIECES = "Each sentence is in one piece of its client only, and the pieces do not depend on its content."
DRAWN_PIECES = "Each sentence is in one piece of its client only, drawn independently of all other sentences."
JOINED = "Each client joins each round at random, and the participants must stay secret; a simulation shows them."
JOINED_WITHHELD = (
    "Each client joins each round at random, and the participants must stay secret. The records of this run do not "
    "name them."
)
EVERY_CLIENT = "Every client takes part in every round."
PRIVATE_LAYERS = (
    "Each client (silo) keeps its private layers, such as the tag scorer; their content is not protected. No silo "
    "leaves out a sentence because another silo has it."
)
OWN_PARTS = (
    "Each client (silo) keeps its private layers, such as the tag scorer; their content is not protected. Which "
    "sentences silos share, and therefore leave out, is fixed and not protected either."
)
"""The same in records up to version 0.7.0, in which silos left sentences out."""
PUBLIC_CLIENTS = "Word vectors, tag names, the number of clients and all settings are public or were fixed in advance."
DECLARED_TYPES = "The corpus declares its entity types, so they do not depend on its sentences."
UNDECLARED_TYPES = (
    "The corpus does not declare its entity types. They were read from the sentences and are in the model; the "
    "encoding of the file was guessed from all sentences. ε covers neither."
)
_WITHOUT_TYPES = {text: text.replace("tag names, ", "") for text in (PUBLIC, PUBLIC_CLIENTS)}

_EARLIER = {
    "Each step samples each sentence independently with the same probability (Poisson sampling). The noise check "
    "states how far the samples were compared with their draws.": POISSON,
    "The noise is exactly normal. It is drawn in floating point, so its last digits are not (Mironov 2012). δ does not "
    "include an attack on the last digits of the weights.": FLOATING,
    "Each step samples each sentence independently with the same probability (Poisson sampling). This run did "
    "so.": POISSON,
    "Each step draws each sentence independently with the same probability (Poisson sampling), as was done "
    "here.": POISSON,
    "Who was in which batch stays secret; losses and gradient norms, shown here without noise, would "
    "too.": SECRET_SAMPLE,
    "The batch of each sentence must stay secret, and so must the losses and gradient norms shown here without "
    "noise.": SECRET_SAMPLE,
    "The noise comes from a seed, for simulation: whoever knows the seed can subtract it.": SEEDED,
    "The noise comes from a seed, for simulation: this very tagger is not protected, since whoever knows the seed, "
    "which is printed, can subtract the noise.": SEEDED,
    "Simulation: the noise comes from a public seed. This tagger is not protected, since anyone who knows the seed can "
    "subtract the noise.": SEEDED,
    "Simulation: the noise comes from a seed, which is public. This model is not protected, since anyone who knows the "
    "seed can subtract the noise.": SEEDED,
    "The keys of noise and samples come from the operating system, and are destroyed when the run is done; one that "
    "failed or was cancelled keeps them until it is deleted, so that it can go on.": SYSTEM,
    "The keys of noise and samples come from the operating system and are destroyed when the run finishes. A failed or "
    "cancelled run keeps them until it is deleted, so that it can resume.": SYSTEM,
    "Noise is drawn in floating point: its last digits are not quite normally distributed (Mironov 2012), and no δ is "
    "booked for what somebody could read off the weights' last digits.": FLOATING,
    "Noise is drawn in floating point, so its last digits are not exactly normal (Mironov 2012). No δ is added for an "
    "attack on the last digits of the weights.": FLOATING,
    "The noise check failed: what was done to the weights is not what the plan says, so nothing is "
    "promised.": FAILED_CHECK,
    "Word vectors, tag names, the number of sentences and all settings are public or were fixed in advance.": PUBLIC,
    "Sentences were shuffled into fixed batches, so ε has no amplification by sampling: a sentence more changes the "
    "batch it comes to, by up to 2C, and the last one, into which it pushes another, by up to C, once an epoch. Where "
    "it begins another batch, an empty one is counted in the corpus without it, which has noise alone.": SHUFFLE,
    "Each sentence is held by one client alone; ε is that of the client who pays most, over all its rounds.": DISJOINT,
    "Each sentence belongs to one client; ε is that of the worst-case client, over all its rounds.": DISJOINT,
    "Each sentence belongs to one client, by its position in the corpus; ε is that of the worst-case client, over all "
    "its rounds.": DISJOINT,
    "Each sentence is in one of its client's pieces alone, and who is in which was decided without looking at "
    "it.": PIECES,
    "Each client joins each round by chance, and who did would have to stay secret; a simulation shows it.": JOINED,
    "Each platform keeps the parts that belong to its tags; what it learned in them is not protected.": OWN_PARTS,
    "Each client (silo) keeps the private head for its tags; the content of that head is not protected.": OWN_PARTS,
    "Each client (silo) keeps the private head for its tags; the content of that head is not protected. Which "
    "sentences silos share, and therefore leave out, is fixed and not protected either.": OWN_PARTS,
    "The corpus does not declare its entity types. They were read from the sentences and are in the model, and ε does "
    "not cover them.": UNDECLARED_TYPES,
    "The server sees each client's update before the noise is added, and must keep it to itself.": DP_FEDAVG.trusted,
    "Each client adds the noise to its own update before it leaves: nobody else need be trusted.": LOCAL.trusted,
    "Each client adds its share of the noise, and masks hide its update: the server learns the sum alone, as long as "
    "it follows the protocol and at most a third of a round's clients vanish or tell it their "
    "shares.": SECURE_SUM.trusted,
}
"""Today's sentence for each earlier wording with the same meaning, up to version 0.7.0."""
_EARLIER_APART = re.compile(
    r"Each sentence is trained on by one platform alone: ([\d,]+) that others have too, but for case and punctuation, "
    r"were left out, and to find them platforms compare checksums; ε is that of the one who pays most\."
    r"|Each sentence is used by one client \(silo\) only: ([\d,]+) sentences that another silo also has, ignoring case "
    r"and punctuation, were left out\. Silos compare checksums to find them; ε is that of the worst-case silo\."
)
_APART_OF_ANY_LENGTH = re.compile(
    r"Each sentence is used by one client \(silo\) only: ([\d,]+) sentences that another silo also has, ignoring case "
    r"and punctuation, were left out\. Silos compare checksums to find them\. Which sentences silos share is fixed, "
    r"and ε does not protect it; ε is that of the worst-case silo\."
)
"""The wording of unreleased versions after 0.6.0, whose records name their own adjacency."""


def with_own_types(assumptions: Iterable[str], *, declared: bool) -> tuple[str, ...]:
    """Return the assumptions for a user's own corpus, whose tag names are not those of a published corpus.

    Args:
        assumptions: Assumptions of an ε; those that already state the origin of the entity types stay unchanged.
        declared: Whether the corpus declares its entity types.
    """
    found: list[str] = []
    for sentence in assumptions:
        found.append(_WITHOUT_TYPES.get(sentence, sentence))
        if sentence in _WITHOUT_TYPES:
            found.append(DECLARED_TYPES if declared else UNDECLARED_TYPES)
    return tuple(found)


def current(sentence: str) -> str:
    """Return today's wording of an assumption; other sentences are returned unchanged."""
    if apart := _EARLIER_APART.fullmatch(sentence):
        return APART.format(number=apart[1] or apart[2])
    if apart := _APART_OF_ANY_LENGTH.fullmatch(sentence):
        return APART.format(number=apart[1])
    return _EARLIER.get(sentence, sentence)


def of_moved_sentences(assumptions: Iterable[str]) -> bool:
    """Return whether one more sentence may move others, by the stored wordings of the assumptions.

    Records up to version 0.7.0 name add-or-remove adjacency for clients to which sentences are assigned. For silos they
    do not state how their corpora were split; zero-out adjacency holds in any case.
    """
    return any(current(each) == DISJOINT or _EARLIER_APART.fullmatch(each) for each in assumptions)
