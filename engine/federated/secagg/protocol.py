"""A sum that the server learns without learning what anybody sent (Bonawitz et al. 2017, *Practical Secure Aggregation
for Privacy-Preserving Machine Learning*, the protocol for those who are honest but curious).

Each party hides its upload, integers modulo 2³² (:mod:`engine.federated.secagg.quantization`), under a mask in common
with each other party, which one of the two adds and the other subtracts, so that they cancel in the sum, and under a
mask of its own. It sends four messages, each once:

1. *keys*: two public keys. From them each pair finds a mask, and keys for letters.
2. *shares*: the secret key of its masks and the seed of its own mask, each cut into shares
   (:mod:`engine.federated.secagg.shamir`); one share of each, in a sealed letter, for every other party. The server
   passes letters on.
3. *masked*: the upload under all masks.
4. *answers*: the server says whose uploads arrived. Parties send their shares of the seeds of those, and of the keys of
   those who vanished, never both of one party. The server takes the masks away that are left in the sum.

**Assumed.** The server follows the protocol, and is curious. Lines are authenticated, and the public keys that it
passes on are the parties' own: who can put others in their place reads everything. Keys come from the operating system,
32 bytes for each party, from which the rest is worked out; or, for simulation, from ``Secrets`` of a seed: whoever
knows that knows every mask, and a sum that is done twice is masked alike.

**Learned.** The server learns the sum of the uploads that arrived, who took part, and who vanished when. Parties learn
who took part. Fewer than ``threshold`` parties together, with the server or without, learn the sum of the uploads of
the others, and nothing more about them: it has the noise of the others, no longer their own
(:func:`engine.federated.secagg.distributed_noise.aggregate_noise_std`). With the server, ``threshold`` parties learn
every upload. All this as far as X25519, HKDF and ChaCha20 hold.

**Not protected.** *Against a server that lies*: it can put keys of its own in the place of parties', and choose whose
uploads are in the sum, as long as they are ``threshold``. It gains nothing by telling parties different lists, to have
shares of both kinds, unless 2 · ``threshold`` − ``parties`` of them work with it: more than half must answer for each
kind, and nobody answers twice. *Against parties that lie*: any upload is summed, clipped or not, with noise or without,
since nobody sees it. A letter that was changed is found, and a wrong share is too: the sum stays closed, but who sent
the share is not told, and so one party can make a round fail. *Against too little noise*: masks hide uploads, not what
their sum tells.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from engine import validation
from engine.errors import InvalidConfig, SecAggFailed
from engine.federated.secagg import crypto, shamir
from engine.federated.secagg.quantization import FixedPoint
from engine.seeds import Secrets

PHASES = ("keys", "shares", "masked", "answers")
"""The messages of a party, in their order."""
WORD_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class SecAggParams:
    """What all know of a sum beforehand. parties: how many, numbered from 0. weights: of an upload. dropped_most: how
    many may vanish, less than half. round: part of every key. Raises InvalidConfig."""

    parties: int
    weights: int
    max_dropouts: int
    round: int = 0

    def __post_init__(self) -> None:
        validation.integer("parties", self.parties, 2, 10_000)
        validation.integer("weights", self.weights, 1, 2**31)
        validation.integer("dropped_most", self.max_dropouts, 0, (self.parties - 1) // 2)
        validation.integer("round", self.round, 0, 2**63)

    @property
    def threshold(self) -> int:
        """How many uploads a sum is opened for at least, and how many shares give a secret back: at least 2, and more
        than half."""
        return self.parties - self.max_dropouts

    def enough(self, left: Collection[int], phase: str) -> None:
        """Raises SumFailed if too few are left after a phase."""
        if len(left) < self.threshold:
            raise SecAggFailed(
                f"After the phase {phase!r} of the secure sum of round {self.round + 1}, {len(left)} of {self.parties} "
                f"parties are left, expected at least {self.threshold}: the sum stays closed"
            )


@dataclass(frozen=True)
class PublicKeys:
    """The first message, 32 bytes each: for masks, and for letters."""

    masks: bytes
    letters: bytes

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.masks) + len(self.letters)


@dataclass(frozen=True)
class EncryptedShares:
    """The second message. sealed: to each other party; commitment: to the seed of the own mask, for the server."""

    sealed: Mapping[int, bytes]
    commitment: bytes

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.commitment) + sum(map(len, self.sealed.values()))


@dataclass(frozen=True)
class UnmaskRequest:
    """What the server asks: shares of the seeds of those whose uploads arrived, of the keys of those who vanished."""

    arrived: tuple[int, ...]
    vanished: tuple[int, ...]


@dataclass(frozen=True)
class UnmaskResponse:
    """The fourth message: shares, by whose they are."""

    seeds: Mapping[int, int] = field(repr=False)
    keys: Mapping[int, int] = field(repr=False)

    @property
    def size(self) -> int:
        """In bytes."""
        return shamir.SHARE_BYTES * (len(self.seeds) + len(self.keys))


class SecAggClient:
    """One party in one sum. secrets: from which its keys come, by its number and the round; without, from the operating
    system. Its messages are asked for once each, in the order of ``PHASES``; whatever is wrong raises SumFailed, and it
    says nothing more."""

    def __init__(self, plan: SecAggParams, number: int, secrets: Secrets | None = None) -> None:
        self.plan, self.number = plan, number
        self._secrets = (secrets or Secrets.drawn()).of(party=number, round=plan.round)
        self._mask_key, self._letter_key, self._seed = map(self._drawn, ("mask key", "letter key", "own mask"))
        self._own = PublicKeys(crypto.public_key(self._mask_key), crypto.public_key(self._letter_key))
        self._next = 0  # which of its messages
        self._public: dict[int, PublicKeys] = {}
        self._held: dict[int, tuple[int, int]] = {}  # shares of a seed and of a key, by whose they are

    def keys(self) -> PublicKeys:
        """The first message."""
        with self._turn("keys"):
            return self._own

    def shares(self, public: Mapping[int, PublicKeys]) -> EncryptedShares:
        """The second message, after the keys of all who sent some."""
        with self._turn("shares"):
            self.plan.enough(public, "keys")
            every = [key for one in public.values() for key in (one.masks, one.letters)]
            if public.get(self.number) != self._own or len(set(every)) < len(every) or not self._known(public):
                self._refuse("is given keys that are twice the same, not its own, or of parties that there are not")
            self._public = dict(public)
            cut = [self._cut(secret, name) for secret, name in ((self._seed, "seed"), (self._mask_key, "key"))]
            letters = {}
            for party in sorted(public):
                seed, key = (shares[party] for shares in cut)
                if party == self.number:
                    self._held[party] = seed, key
                else:
                    text = b"".join(share.to_bytes(shamir.SHARE_BYTES, "little") for share in (seed, key))
                    letters[party] = crypto.sealed(self._letter_agreed(self.number, party), text)
            return EncryptedShares(letters, crypto.commitment(self._seed))

    def masked(self, upload: np.ndarray, letters: Mapping[int, bytes]) -> np.ndarray:
        """The third message: an upload, uint32 [weights], under its masks. letters: to this party, by sender, of all
        who sent some; those are who takes part from now on. Raises ValueError for an upload of another kind."""
        if upload.dtype != np.uint32 or upload.shape != (self.plan.weights,):
            raise ValueError(f"expected uint32 [{self.plan.weights}], not {upload.dtype} {list(upload.shape)}")
        with self._turn("masked"):
            self.plan.enough({*letters, self.number}, "shares")
            if self.number in letters or not letters.keys() <= self._public.keys():
                self._refuse("is given letters of somebody who has no keys, or of its own")
            for sender, letter in sorted(letters.items()):
                title = f"The letter of party {sender} to party {self.number}"
                text = crypto.opened(self._letter_agreed(sender, self.number), letter, title)
                seed, key = text[: shamir.SHARE_BYTES], text[shamir.SHARE_BYTES :]
                self._held[sender] = int.from_bytes(seed, "little"), int.from_bytes(key, "little")
            total: np.ndarray = upload + crypto.mask(self._seed, upload.size)
            for other in sorted(letters):
                _put_mask(total, self.plan, self._mask_key, self.number, other, self._public[other].masks)
            return total

    def answer(self, question: UnmaskRequest) -> UnmaskResponse:
        """The fourth message. Who asks for both kinds of shares of one party is refused, and who asks after too few."""
        with self._turn("answers"):
            arrived, vanished = set(question.arrived), set(question.vanished)
            self.plan.enough(arrived, "masked")
            if both := sorted(arrived & vanished):
                self._refuse(f"is asked for shares of the seed and of the key of party {both[0]}: both open its upload")
            if self.number not in arrived:
                self._refuse("is said to have vanished, which it has not")
            if strangers := sorted((arrived | vanished) - self._held.keys()):
                self._refuse(f"is asked for shares of party {strangers[0]}, of whom it has none")
            return UnmaskResponse(
                {party: self._held[party][0] for party in sorted(arrived)},
                {party: self._held[party][1] for party in sorted(vanished)},
            )

    @contextmanager
    def _turn(self, phase: str) -> Iterator[None]:
        asked, due = PHASES.index(phase), self._next
        self._next = len(PHASES)  # whatever raises, nothing follows
        if asked != due:
            self._refuse(f"is asked for its message {phase!r} out of turn")
        yield
        self._next = asked + 1

    def _refuse(self, why: str) -> NoReturn:
        raise SecAggFailed(f"Party {self.number} of the secure sum of round {self.plan.round + 1} {why}")

    def _known(self, parties: Collection[int]) -> bool:
        return all(0 <= party < self.plan.parties for party in parties)

    def _drawn(self, name: str, number: int = 0) -> bytes:
        return self._secrets.stream(f"secure sum, {name}", number=number).key

    def _cut(self, secret: bytes, name: str) -> tuple[int, ...]:
        """Shares of 32 bytes, one for each number of a party."""
        drawn = [self._drawn(f"shares of the {name}", power) for power in range(1, self.plan.threshold)]
        coefficients = [int.from_bytes(each, "little") for each in drawn]
        return shamir.shares(int.from_bytes(secret, "little"), coefficients, self.plan.parties)

    def _letter_agreed(self, sender: int, receiver: int) -> bytes:
        other = self._public[receiver if sender == self.number else sender].letters
        purpose = f"secure sum, letter from {sender} to {receiver}, round {self.plan.round}"
        return crypto.agreed(self._letter_key, other, purpose)


class SecureSum:
    """The server in one sum, phase by phase: :meth:`advertise`, :meth:`post`, :meth:`receive` for each upload,
    :meth:`question`, :meth:`open`. Raises SumFailed once fewer than the plan's threshold are left."""

    def __init__(self, plan: SecAggParams) -> None:
        self.plan = plan
        self._public: dict[int, PublicKeys] = {}
        self._commitments: dict[int, bytes] = {}
        self._total = np.zeros(plan.weights, dtype=np.uint32)
        self._arrived: set[int] = set()
        self._question: UnmaskRequest | None = None

    def advertise(self, keys: Mapping[int, PublicKeys]) -> Mapping[int, PublicKeys]:
        """What is told to each who sent keys, by number: the keys of all of them."""
        self.plan.enough(keys, "keys")
        self._public = dict(sorted(keys.items()))
        return self._public

    def post(self, letters: Mapping[int, EncryptedShares]) -> dict[int, dict[int, bytes]]:
        """What is passed on to each who sent letters: letters to it, by sender."""
        self.plan.enough(letters, "shares")
        for party, own in letters.items():
            if own.sealed.keys() | {party} != self._public.keys():
                raise SecAggFailed(f"Party {party} of a secure sum sends letters to others than all who have keys")
        self._commitments = {party: letters[party].commitment for party in sorted(letters)}
        return {
            party: {sender: letters[sender].sealed[party] for sender in sorted(letters) if sender != party}
            for party in sorted(letters)
        }

    def receive(self, party: int, masked: np.ndarray) -> None:
        """A masked upload, uint32 [weights]. Raises SumFailed for one that is too late: when its masks were asked for,
        or who it is from has taken no part so far; and for one that came before."""
        if self._question or party in self._arrived or party not in self._commitments:
            raise SecAggFailed(f"An upload of party {party} came late, twice, or from nobody who takes part")
        if masked.dtype != np.uint32 or masked.shape != self._total.shape:
            raise ValueError(f"expected uint32 {list(self._total.shape)}, not {masked.dtype} {list(masked.shape)}")
        self._total += masked
        self._arrived.add(party)

    def question(self) -> UnmaskRequest:
        """What each whose upload arrived is asked. None is received after this."""
        self.plan.enough(self._arrived, "masked")
        vanished = self._commitments.keys() - self._arrived
        self._question = UnmaskRequest(tuple(sorted(self._arrived)), tuple(sorted(vanished)))
        return self._question

    def open(self, answers: Mapping[int, UnmaskResponse]) -> np.ndarray:
        """The sum of the uploads that arrived, modulo 2³², uint32 [weights], from the answers of enough of those who
        were asked. Raises SumFailed if a share is missing or wrong."""
        question = self._question or self.question()
        answered = {party: answers[party] for party in sorted(answers) if party in question.arrived}
        self.plan.enough(answered, "answers")
        first = dict(list(answered.items())[: self.plan.threshold])
        total = self._total.copy()
        for party in question.arrived:
            seed = _secret({each: answer.seeds.get(party) for each, answer in first.items()}, party)
            if crypto.commitment(seed) != self._commitments[party]:
                raise SecAggFailed(f"A share of the seed of party {party} is wrong: the sum stays closed")
            total -= crypto.mask(seed, total.size)
        for party in question.vanished:
            key = _secret({each: answer.keys.get(party) for each, answer in first.items()}, party)
            if crypto.public_key(key) != self._public[party].masks:
                raise SecAggFailed(f"A share of the key of party {party} is wrong: the sum stays closed")
            for other in question.arrived:  # what each added for the vanished one, the vanished one would have removed
                _put_mask(total, self.plan, key, party, other, self._public[other].masks)
        return total


def _put_mask(total: np.ndarray, plan: SecAggParams, key: bytes, own: int, other: int, public: bytes) -> None:
    """Put the mask of a pair on ``total``, uint32 [weights], in place, as the party ``own`` does: the lower number adds
    it, the higher one subtracts it."""
    purpose = f"secure sum, mask of {min(own, other)} and {max(own, other)}, round {plan.round}"
    mask = crypto.mask(crypto.agreed(key, public, purpose), total.size)
    if own < other:
        total += mask
    else:
        total -= mask


def _secret(held: Mapping[int, int | None], party: int) -> bytes:
    """The 32 bytes that these shares give back. Raises SumFailed where one is missing or they cannot be right."""
    found = {each: share for each, share in held.items() if share is not None}
    if len(found) < len(held) or (secret := shamir.joined(found)) >> 256:
        raise SecAggFailed(
            f"A share of what opens the upload of party {party} is missing or wrong: the sum stays closed"
        )
    return secret.to_bytes(32, "little")


@dataclass(frozen=True, kw_only=True, eq=False)
class SecAggResult:
    """A sum that was opened. total: float64 [weights], in the unit of the uploads. arrived: whose uploads are in it.
    bytes_up, bytes_down: sent by and to all parties together, by phase: keys, letters, words and shares, without the
    parties' numbers and what the line adds."""

    total: np.ndarray
    arrived: tuple[int, ...]
    bytes_up: Mapping[str, int]
    bytes_down: Mapping[str, int]


def simulate_round(
    plan: SecAggParams,
    grid: FixedPoint,
    uploads: Mapping[int, np.ndarray],
    *,
    secrets: Secrets | None = None,
    vanish: Mapping[str, Collection[int]] | None = None,
) -> SecAggResult:
    """One sum with the server and all parties in this process. uploads: of each party, float [weights]; who has none is
    never there. secrets: of the run, for simulation; without, each party's own from the operating system. vanish: who
    is gone before it sends its message of a phase, by phase. Raises SumFailed, and InvalidConfig if the grid is made
    for fewer parties."""
    if grid.parties < plan.parties:
        raise InvalidConfig(f"parties={plan.parties}, expected at most the {grid.parties} of the fixed point")
    gone: dict[str, set[int]] = {}
    for number, phase in enumerate(PHASES):
        gone[phase] = {party for earlier in PHASES[: number + 1] for party in (vanish or {}).get(earlier, ())}
    server = SecureSum(plan)
    parties = {number: SecAggClient(plan, number, secrets) for number in sorted(uploads)}

    keys = {number: party.keys() for number, party in parties.items() if number not in gone["keys"]}
    public = server.advertise(keys)
    letters = {number: parties[number].shares(public) for number in keys if number not in gone["shares"]}
    posted = server.post(letters)
    for number in sorted(posted.keys() - gone["masked"]):
        server.receive(number, parties[number].masked(grid.integers(uploads[number]), posted[number]))
    question = server.question()
    answers = {number: parties[number].answer(question) for number in question.arrived if number not in gone["answers"]}
    total = server.open(answers)

    up = {
        "keys": sum(each.size for each in keys.values()),
        "shares": sum(each.size for each in letters.values()),
        "masked": len(question.arrived) * WORD_BYTES * plan.weights,
        "answers": sum(each.size for each in answers.values()),
    }
    down = {
        "keys": len(keys) * sum(each.size for each in public.values()),
        "shares": sum(len(letter) for own in posted.values() for letter in own.values()),
    }
    return SecAggResult(total=grid.values(total), arrived=question.arrived, bytes_up=up, bytes_down=down)
