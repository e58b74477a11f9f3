"""Secure aggregation: the server learns the sum of the uploads and no single upload.

The protocol is that of Bonawitz et al. 2017 (*Practical Secure Aggregation for Privacy-Preserving Machine Learning*)
for an honest-but-curious server.

Each client masks its upload, integers modulo 2³² (:mod:`engine.federated.secagg.quantization`). Each pair of clients
has a pairwise mask, which one of them adds and the other subtracts, so that it cancels in the sum. Each client also
adds a self mask. A client sends four messages, each once:

1. *keys*: two public keys. From them each pair of clients derives a pairwise mask, and keys that encrypt shares.
2. *shares*: the secret key of the pairwise masks and the seed of the self mask are each split into shares
   (:mod:`engine.federated.secagg.shamir`). Every other client gets one share of each, encrypted for it. The server
   forwards the ciphertexts.
3. *masked*: the upload with all masks.
4. *answers*: the server names the clients whose uploads arrived. The clients send their shares of the seeds of these
   clients, and of the keys of dropped-out clients, never both of one client. The server removes the remaining masks
   from the sum.

**Assumptions.** The server is honest but curious. Channels are authenticated, and the server forwards the clients' own
public keys: an attacker who can replace them reads everything. Secret keys are derived from 32 bytes for each client.
These come from the operating system or, for simulation, from the ``Secrets`` of a seed: anyone with the seed knows
every mask, and a repeated aggregation has the same masks. X25519, HKDF and ChaCha20 are assumed to be secure.

**Information revealed.** The server learns the sum of the uploads that arrived, the participants, and when each client
dropped out. Clients learn the participants. Fewer than ``threshold`` colluding clients, with or without the server,
learn only the sum of the other clients' uploads. That sum has the noise of the other clients only
(:func:`engine.federated.secagg.distributed_noise.aggregate_noise_std`). With the server, ``threshold`` clients learn
every upload.

**Not protected.** *Against a malicious server*: it can replace the clients' keys by its own, and choose whose uploads
are in the sum, as long as they are at least ``threshold``. Sending different lists to different clients, to collect
shares of both kinds, gains nothing unless 2 · ``threshold`` − ``parties`` of them collude with it: more than half must
answer for each kind, and no client answers twice. *Against malicious clients*: any upload is summed, clipped or not,
with or without noise, since no other party sees it. A modified ciphertext is detected, and so is a wrong share. The sum
then stays masked, but the sender of the share is not identified, so a single client can make a round fail. *Against too
little noise*: masks hide the uploads, not what their sum reveals.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from engine import validation
from engine.errors import InvalidConfig, SecAggFailed
from engine.federated.secagg import crypto, shamir
from engine.federated.secagg.messages import EncryptedShares, PublicKeys, UnmaskRequest, UnmaskResponse
from engine.federated.secagg.quantization import FixedPoint
from engine.seeds import Secrets

PHASES = ("keys", "shares", "masked", "answers")
"""Names of a client's messages, in order."""
WORD_BYTES = 4
"""Bytes of one weight of an upload: integers modulo 2³²."""


@dataclass(frozen=True, kw_only=True)
class SecAggParams:
    """The public parameters of one aggregation. Invalid ones raise InvalidConfig.

    Attributes:
        parties: Number of clients; they are numbered from 0.
        weights: Number of weights in an upload.
        max_dropouts: Number of clients that may drop out, less than half.
        round: Number of the round, which is a part of every derived key.
    """

    parties: int
    weights: int
    max_dropouts: int
    round: int = 0

    def __post_init__(self) -> None:
        validation.integer("parties", self.parties, 2, 10_000)
        validation.integer("weights", self.weights, 1, 2**31)
        validation.integer("max_dropouts", self.max_dropouts, 0, (self.parties - 1) // 2)
        validation.integer("round", self.round, 0, 2**63)

    @property
    def threshold(self) -> int:
        """The least number of uploads in a sum, and of shares that reconstruct a secret: at least 2, more than half."""
        return self.parties - self.max_dropouts

    def check_threshold(self, left: Collection[int], phase: str) -> None:
        """Raise SecAggFailed if too few clients are left after a phase."""
        if len(left) < self.threshold:
            raise SecAggFailed(
                f"After phase {phase!r} of secure aggregation in round {self.round + 1}, {len(left)} of {self.parties} "
                f"clients are left, expected at least {self.threshold}: the sum stays masked"
            )


class SecAggClient:
    """One client in one aggregation.

    Its messages are requested once each, in the order of ``PHASES``. Any violation of the protocol raises SecAggFailed,
    and the client then answers no further request.
    """

    def __init__(self, plan: SecAggParams, number: int, secrets: Secrets | None = None) -> None:
        """Derive the keys.

        Args:
            plan: Parameters of the aggregation.
            number: Number of this client, from 0.
            secrets: Source of the keys, together with the number and the round; by default the operating system.
        """
        self.plan, self.number = plan, number
        self._secrets = (secrets or Secrets.drawn()).of(party=number, round=plan.round)
        self._mask_key, self._encryption_key, self._seed = map(self._derive, ("mask key", "letter key", "own mask"))
        self._own = PublicKeys(crypto.public_key(self._mask_key), crypto.public_key(self._encryption_key))
        self._next = 0  # index of the next message
        self._public: dict[int, PublicKeys] = {}
        self._held: dict[int, tuple[int, int]] = {}  # shares of a seed and of a key, by their owner

    def keys(self) -> PublicKeys:
        """Return the first message."""
        with self._phase("keys"):
            return self._own

    def shares(self, public: Mapping[int, PublicKeys]) -> EncryptedShares:
        """Return the second message, given the public keys of all clients that sent some."""
        with self._phase("shares"):
            self.plan.check_threshold(public, "keys")
            keys = [key for pair in public.values() for key in (pair.masks, pair.encryption)]
            if public.get(self.number) != self._own or len(set(keys)) < len(keys) or not self._are_parties(public):
                self._abort("received duplicate public keys, a wrong key of its own, or keys of unknown clients")
            self._public = dict(public)
            secrets = ((self._seed, "seed"), (self._mask_key, "key"))
            shares_of_both = [self._share_secret(secret, name) for secret, name in secrets]
            ciphertexts = {}
            for party in sorted(public):
                seed, key = (shares[party] for shares in shares_of_both)
                if party == self.number:
                    self._held[party] = seed, key
                else:
                    text = b"".join(share.to_bytes(shamir.SHARE_BYTES, "little") for share in (seed, key))
                    ciphertexts[party] = crypto.encrypt(self._channel_key(self.number, party), text)
            return EncryptedShares(ciphertexts, crypto.commitment(self._seed))

    def masked(self, upload: np.ndarray, ciphertexts: Mapping[int, bytes]) -> np.ndarray:
        """Return the third message: the masked upload, uint32 [weights].

        Args:
            upload: The upload, uint32 [weights].
            ciphertexts: Encrypted shares for this client by sender. The senders are the participants from now on.

        Raises:
            ValueError: If the upload has another type or shape.
        """
        if upload.dtype != np.uint32 or upload.shape != (self.plan.weights,):
            raise ValueError(f"expected uint32 [{self.plan.weights}], not {upload.dtype} {list(upload.shape)}")
        with self._phase("masked"):
            self.plan.check_threshold({*ciphertexts, self.number}, "shares")
            if self.number in ciphertexts or not ciphertexts.keys() <= self._public.keys():
                self._abort("received encrypted shares of a client without keys, or its own")
            for sender, ciphertext in sorted(ciphertexts.items()):
                title = f"The ciphertext from client {sender} to client {self.number}"
                text = crypto.decrypt(self._channel_key(sender, self.number), ciphertext, title)
                seed, key = text[: shamir.SHARE_BYTES], text[shamir.SHARE_BYTES :]
                self._held[sender] = int.from_bytes(seed, "little"), int.from_bytes(key, "little")
            total: np.ndarray = upload + crypto.mask(self._seed, upload.size)
            for other in sorted(ciphertexts):
                _add_pairwise_mask(total, self.plan, self._mask_key, self.number, other, self._public[other].masks)
            return total

    def answer(self, question: UnmaskRequest) -> UnmaskResponse:
        """Return the fourth message.

        A request for both kinds of shares of one client, or for a sum of too few uploads, raises SecAggFailed.
        """
        with self._phase("answers"):
            arrived, dropped = set(question.arrived), set(question.dropped)
            self.plan.check_threshold(arrived, "masked")
            if both := sorted(arrived & dropped):
                self._abort(f"received a request for the seed and the key of client {both[0]}: both reveal its upload")
            if self.number not in arrived:
                self._abort("is listed as dropped out, although it sent its upload")
            if unknown := sorted((arrived | dropped) - self._held.keys()):
                self._abort(f"received a request for shares of client {unknown[0]}, of which it has none")
            return UnmaskResponse(
                {party: self._held[party][0] for party in sorted(arrived)},
                {party: self._held[party][1] for party in sorted(dropped)},
            )

    @contextmanager
    def _phase(self, phase: str) -> Iterator[None]:
        requested, expected = PHASES.index(phase), self._next
        self._next = len(PHASES)  # after an error, no further message
        if requested != expected:
            self._abort(f"received a request for its message {phase!r} out of turn")
        yield
        self._next = requested + 1

    def _abort(self, reason: str) -> NoReturn:
        raise SecAggFailed(f"Client {self.number} in secure aggregation of round {self.plan.round + 1} {reason}")

    def _are_parties(self, parties: Collection[int]) -> bool:
        return all(0 <= party < self.plan.parties for party in parties)

    def _derive(self, name: str, number: int = 0) -> bytes:
        return self._secrets.stream(f"secure sum, {name}", number=number).key

    def _share_secret(self, secret: bytes, name: str) -> tuple[int, ...]:
        """Return the shares of a secret of 32 bytes, one for each client."""
        derived = [self._derive(f"shares of the {name}", power) for power in range(1, self.plan.threshold)]
        coefficients = [int.from_bytes(value, "little") for value in derived]
        return shamir.shares(int.from_bytes(secret, "little"), coefficients, self.plan.parties)

    def _channel_key(self, sender: int, receiver: int) -> bytes:
        """Return the key that encrypts shares from one client to another; one of them is this client."""
        other = self._public[receiver if sender == self.number else sender].encryption
        purpose = f"secure sum, letter from {sender} to {receiver}, round {self.plan.round}"
        return crypto.agree(self._encryption_key, other, purpose)


class SecureSum:
    """The server in one aggregation.

    Its phases are :meth:`advertise`, :meth:`post`, :meth:`receive` for each upload, :meth:`question`, and :meth:`open`.
    They raise SecAggFailed once fewer clients than the threshold are left.
    """

    def __init__(self, plan: SecAggParams) -> None:
        self.plan = plan
        self._public: dict[int, PublicKeys] = {}
        self._commitments: dict[int, bytes] = {}
        self._total = np.zeros(plan.weights, dtype=np.uint32)
        self._arrived: set[int] = set()
        self._question: UnmaskRequest | None = None

    def advertise(self, keys: Mapping[int, PublicKeys]) -> Mapping[int, PublicKeys]:
        """Return the public keys of all clients that sent some, for each of these clients."""
        self.plan.check_threshold(keys, "keys")
        self._public = dict(sorted(keys.items()))
        return self._public

    def post(self, shares: Mapping[int, EncryptedShares]) -> dict[int, dict[int, bytes]]:
        """Return the encrypted shares for each client that sent some, by sender."""
        self.plan.check_threshold(shares, "shares")
        for party, message in shares.items():
            if message.ciphertexts.keys() | {party} != self._public.keys():
                raise SecAggFailed(
                    f"Client {party} in secure aggregation must send encrypted shares to exactly the clients with keys"
                )
        self._commitments = {party: shares[party].commitment for party in sorted(shares)}
        return {
            party: {sender: shares[sender].ciphertexts[party] for sender in sorted(shares) if sender != party}
            for party in sorted(shares)
        }

    def receive(self, party: int, masked: np.ndarray) -> None:
        """Add a masked upload to the sum.

        Args:
            party: Number of the sender.
            masked: The masked upload, uint32 [weights].

        Raises:
            SecAggFailed: If the upload arrives after the unmasking request, a second time, or from a client that sent
                no shares.
        """
        if self._question or party in self._arrived or party not in self._commitments:
            raise SecAggFailed(f"The upload of client {party} is late, a duplicate, or not from a participant")
        if masked.dtype != np.uint32 or masked.shape != self._total.shape:
            raise ValueError(f"expected uint32 {list(self._total.shape)}, not {masked.dtype} {list(masked.shape)}")
        self._total += masked
        self._arrived.add(party)

    def question(self) -> UnmaskRequest:
        """Return the request for all clients whose uploads arrived; later uploads are rejected."""
        self.plan.check_threshold(self._arrived, "masked")
        dropped = self._commitments.keys() - self._arrived
        self._question = UnmaskRequest(tuple(sorted(self._arrived)), tuple(sorted(dropped)))
        return self._question

    def open(self, answers: Mapping[int, UnmaskResponse]) -> np.ndarray:
        """Unmask and return the sum of the uploads that arrived, modulo 2³², uint32 [weights].

        Raises SecAggFailed if there are too few answers, or a share is missing or wrong.
        """
        question = self._question or self.question()
        answered = {party: answers[party] for party in sorted(answers) if party in question.arrived}
        self.plan.check_threshold(answered, "answers")
        first = dict(list(answered.items())[: self.plan.threshold])
        total = self._total.copy()
        for party in question.arrived:
            seed = _secret({holder: answer.seeds.get(party) for holder, answer in first.items()}, party)
            if crypto.commitment(seed) != self._commitments[party]:
                raise SecAggFailed(f"A share of the seed of client {party} is wrong: the sum stays masked")
            total -= crypto.mask(seed, total.size)
        for party in question.dropped:
            key = _secret({holder: answer.keys.get(party) for holder, answer in first.items()}, party)
            if crypto.public_key(key) != self._public[party].masks:
                raise SecAggFailed(f"A share of the key of client {party} is wrong: the sum stays masked")
            for other in question.arrived:  # add the pairwise masks of the missing upload, so that they cancel
                _add_pairwise_mask(total, self.plan, key, party, other, self._public[other].masks)
        return total


def _add_pairwise_mask(total: np.ndarray, plan: SecAggParams, key: bytes, own: int, other: int, public: bytes) -> None:
    """Add the pairwise mask of the client ``own`` to ``total`` in place, uint32 [weights].

    Of each pair, the client with the lower number adds the mask, and the other one subtracts it.
    """
    purpose = f"secure sum, mask of {min(own, other)} and {max(own, other)}, round {plan.round}"
    mask = crypto.mask(crypto.agree(key, public, purpose), total.size)
    if own < other:
        total += mask
    else:
        total -= mask


def _secret(shares: Mapping[int, int | None], party: int) -> bytes:
    """Reconstruct a secret of 32 bytes from shares by holder.

    Raises SecAggFailed if a share is missing, or the shares give no valid secret.
    """
    available = {holder: share for holder, share in shares.items() if share is not None}
    if len(available) < len(shares) or (secret := shamir.reconstruct(available)) >> 256:
        raise SecAggFailed(f"A share that unmasks client {party} is missing or wrong: the sum stays masked")
    return secret.to_bytes(32, "little")


@dataclass(frozen=True, kw_only=True, eq=False)
class SecAggResult:
    """The result of an aggregation.

    Attributes:
        total: Sum of the uploads, float64 [weights], in the unit of the uploads.
        arrived: Clients whose uploads are in the sum.
        bytes_up: Bytes that all clients together sent, by phase, without client numbers and transport overhead.
        bytes_down: Bytes that all clients together received, likewise.
    """

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
    dropouts: Mapping[str, Collection[int]] | None = None,
) -> SecAggResult:
    """Run one aggregation with the server and all clients in this process.

    Args:
        plan: Parameters of the aggregation.
        grid: Quantisation of the uploads.
        uploads: Upload of each client, float [weights]; a client without one does not take part.
        secrets: Source of the keys, for simulation; by default each client draws its own from the operating system.
        dropouts: Clients that drop out before sending their message of a phase, by phase.

    Raises:
        SecAggFailed: If too few clients are left, or an upload does not fit.
        InvalidConfig: If the grid is for fewer clients.
    """
    if grid.parties < plan.parties:
        raise InvalidConfig(f"parties={plan.parties}, expected at most the {grid.parties} of the quantisation grid")
    gone: dict[str, set[int]] = {}
    for number, phase in enumerate(PHASES):
        gone[phase] = {party for earlier in PHASES[: number + 1] for party in (dropouts or {}).get(earlier, ())}
    server = SecureSum(plan)
    parties = {number: SecAggClient(plan, number, secrets) for number in sorted(uploads)}

    keys = {number: party.keys() for number, party in parties.items() if number not in gone["keys"]}
    public = server.advertise(keys)
    shares = {number: parties[number].shares(public) for number in keys if number not in gone["shares"]}
    forwarded = server.post(shares)
    for number in sorted(forwarded.keys() - gone["masked"]):
        server.receive(number, parties[number].masked(grid.integers(uploads[number]), forwarded[number]))
    question = server.question()
    answers = {number: parties[number].answer(question) for number in question.arrived if number not in gone["answers"]}
    total = server.open(answers)

    up = {
        "keys": sum(message.size for message in keys.values()),
        "shares": sum(message.size for message in shares.values()),
        "masked": len(question.arrived) * WORD_BYTES * plan.weights,
        "answers": sum(message.size for message in answers.values()),
    }
    down = {
        "keys": len(keys) * sum(message.size for message in public.values()),
        "shares": sum(len(ciphertext) for received in forwarded.values() for ciphertext in received.values()),
    }
    return SecAggResult(total=grid.values(total), arrived=question.arrived, bytes_up=up, bytes_down=down)
