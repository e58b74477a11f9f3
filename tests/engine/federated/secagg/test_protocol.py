"""Secure aggregation: exact sums with dropouts, uniform uploads, and refusal of invalid messages."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from engine.errors import InvalidConfig, SecAggFailed
from engine.federated.secagg import crypto, protocol, shamir
from engine.federated.secagg.protocol import (
    PHASES,
    PublicKeys,
    SecAggClient,
    SecAggParams,
    SecureSum,
    UnmaskRequest,
    UnmaskResponse,
    simulate_round,
)
from engine.federated.secagg.quantization import FixedPoint
from engine.seeds import Secrets

SIGNIFICANCE = 1e-6
"""Probability that uniform words fail one of these tests."""
SECRETS = Secrets.seeded(4, "secure aggregation")  # keys whose lowest bits are neither all 0 nor all 1
SIZES = (1_000, 20_000, 100_003, 600_500)
PLAN = SecAggParams(parties=5, weights=6, max_dropouts=2)


class Sum:
    """A round after the exchange of encrypted shares, without dropouts. Uploads are updates with noise, as integers."""

    def __init__(self, plan: SecAggParams = PLAN, secrets: Secrets | None = SECRETS, noise_std: float = 0.3) -> None:
        self.plan = plan
        self.grid = FixedPoint(parties=plan.parties, clip_norm=1.0, noise_std=noise_std)
        self.server = SecureSum(plan)
        self.parties = [SecAggClient(plan, number, secrets) for number in range(plan.parties)]
        self.public = self.server.advertise({party.number: party.keys() for party in self.parties})
        self.ciphertexts = self.server.post({party.number: party.shares(self.public) for party in self.parties})
        random = np.random.default_rng(plan.round)
        updates = random.normal(0, noise_std, (plan.parties, plan.weights)) + 1 / plan.weights
        self.uploads = [self.grid.integers(update) for update in updates]

    def masked(self, number: int) -> np.ndarray:
        return self.parties[number].masked(self.uploads[number], self.ciphertexts[number])

    def receive(self, *dropped: int) -> UnmaskRequest:
        """Receive all uploads except those of the given clients, and return the unmask request."""
        for number in range(self.plan.parties):
            if number not in dropped:
                self.server.receive(number, self.masked(number))
        return self.server.question()

    def expected_sum(self, *dropped: int) -> np.ndarray:
        """Return the sum of the other clients' uploads as plain integers."""
        left = [upload for number, upload in enumerate(self.uploads) if number not in dropped]
        return np.asarray(np.sum(left, axis=0, dtype=np.int64) % 2**32, np.uint32)


def uniformity_p_value(words: np.ndarray) -> float:
    """Return the p-value of the hypothesis that words are uniform, by their bytes and by their sizes.

    Bytes are tested by chi-square, sizes by Kolmogorov and Smirnov.
    """
    of_bytes = stats.chisquare(np.bincount(words.view(np.uint8), minlength=256)).pvalue
    of_sizes = stats.kstest(words / 2.0**32, "uniform").pvalue
    return min(1.0, 2 * min(of_bytes, of_sizes))


def pairwise_masks(made: Sum, own: int, others: list[int]) -> np.ndarray:
    """Return the sum of a client's pairwise masks with others, with its signs."""
    total = np.zeros(made.plan.weights, dtype=np.uint32)
    for other in others:
        protocol._add_pairwise_mask(total, made.plan, made.parties[own]._mask_key, own, other, made.public[other].masks)
    return total


def remove_mask(key: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the mask of a key by zeros."""
    made: Callable = crypto.mask
    monkeypatch.setattr(crypto, "mask", lambda of, size: np.zeros(size, np.uint32) if of == key else made(of, size))


@pytest.mark.parametrize("size", SIZES)
class TestUploads:
    def test_a_masked_upload_is_uniform(self, size):
        made = Sum(replace(PLAN, weights=size))
        assert uniformity_p_value(made.masked(1)) > SIGNIFICANCE

    def test_an_upload_without_masks_is_not_uniform(self, size, monkeypatch):
        made = Sum(replace(PLAN, weights=size))
        monkeypatch.setattr(crypto, "mask", lambda key, size: np.zeros(size, np.uint32))
        assert uniformity_p_value(made.masked(1)) < SIGNIFICANCE

    def test_a_late_upload_is_uniform_without_its_pairwise_masks(self, size):
        """The server has treated its client as a dropout, and has requested the shares of its key."""
        made = Sum(replace(PLAN, weights=size))
        assert uniformity_p_value(made.masked(1) - pairwise_masks(made, 1, [0, 2, 3, 4])) > SIGNIFICANCE

    def test_a_late_upload_without_its_self_mask_is_not_uniform(self, size, monkeypatch):
        made = Sum(replace(PLAN, weights=size))
        remove_mask(made.parties[1]._seed, monkeypatch)
        assert uniformity_p_value(made.masked(1) - pairwise_masks(made, 1, [0, 2, 3, 4])) < SIGNIFICANCE

    def test_one_unknown_pairwise_mask_keeps_an_upload_uniform(self, size):
        """The server knows the seed after the sum, and colludes with other clients, but not with all."""
        made = Sum(replace(PLAN, weights=size))
        left = made.masked(1) - crypto.mask(made.parties[1]._seed, size)
        assert uniformity_p_value(left - pairwise_masks(made, 1, [0, 2, 3])) > SIGNIFICANCE
        assert uniformity_p_value(left - pairwise_masks(made, 1, [0, 2, 3, 4])) < SIGNIFICANCE

    def test_masks_differ_between_clients_and_rounds(self, size):
        """With equal masks, the difference of two messages would equal that of two uploads."""
        made, later = (Sum(replace(PLAN, weights=size, round=number)) for number in (0, 1))
        one, other, next_round = made.masked(1), made.masked(2), later.masked(1)
        assert uniformity_p_value(one - other) > SIGNIFICANCE
        assert uniformity_p_value(one - next_round) > SIGNIFICANCE
        repeated = Sum(replace(PLAN, weights=size))
        repeated.uploads = later.uploads
        assert uniformity_p_value(one - repeated.masked(1)) < SIGNIFICANCE


class TestSum:
    @given(st.data())
    @settings(max_examples=40, deadline=None)
    def test_sum_is_exact_with_any_dropouts(self, data):
        parties = data.draw(st.integers(3, 8))
        plan = SecAggParams(
            parties=parties, weights=4, max_dropouts=parties // 3, round=data.draw(st.integers(0, 10**6))
        )
        grid = FixedPoint(parties=parties, clip_norm=1.0, noise_std=data.draw(st.sampled_from([0.0, 0.5, 40.0])))
        weights = st.lists(st.floats(-grid.largest, grid.largest), min_size=4, max_size=4)
        uploads = {number: np.array(data.draw(weights)) for number in range(parties)}
        dropped = data.draw(st.permutations(range(parties)))[: data.draw(st.integers(0, plan.max_dropouts))]
        dropouts: dict = {phase: set() for phase in PHASES}
        for party in dropped:
            dropouts[data.draw(st.sampled_from(PHASES))].add(party)
        result = simulate_round(plan, grid, uploads, dropouts=dropouts)
        arrived = sorted(set(range(parties)) - dropouts["keys"] - dropouts["shares"] - dropouts["masked"])
        assert list(result.arrived) == arrived
        by_hand = [sum(round(float(uploads[party][weight]) / grid.quantum) for party in arrived) for weight in range(4)]
        assert [int(value) for value in result.total / grid.quantum] == by_hand

    @pytest.mark.parametrize("parties", [3, 9, 20])
    @pytest.mark.parametrize("phase", PHASES)
    def test_a_third_of_the_clients_may_drop_out_in_any_phase(self, parties, phase):
        plan = SecAggParams(parties=parties, weights=5, max_dropouts=parties // 3)
        grid = FixedPoint(parties=parties, clip_norm=1.0, noise_std=0.0)
        uploads = {number: np.full(5, number / 100) for number in range(parties)}
        dropped = list(range(parties))[1::3][: parties // 3]
        result = simulate_round(plan, grid, uploads, secrets=SECRETS, dropouts={phase: dropped})
        counted = [number for number in range(parties) if number not in dropped or phase == "answers"]
        assert list(result.arrived) == counted
        np.testing.assert_allclose(result.total, sum(counted) / 100, atol=grid.error(parties))

    @pytest.mark.parametrize("phase", PHASES)
    def test_too_many_dropouts_raise_secagg_failed(self, phase):
        uploads = {number: np.zeros(6) for number in range(5)}
        grid = FixedPoint(parties=5, clip_norm=1.0, noise_std=0.0)
        message = rf"'{phase}' .*round 1, 2 of 5 clients .*at least 3\b"
        with pytest.raises(SecAggFailed, match=message):
            simulate_round(PLAN, grid, uploads, dropouts={phase: {0, 2, 3}})
        with pytest.raises(SecAggFailed, match="2 of 5 clients"):
            simulate_round(PLAN, grid, uploads, dropouts={"keys": {0}, "shares": {2}, phase: {0, 2, 3}})

    def test_clients_without_upload_drop_out_first(self):
        grid = FixedPoint(parties=5, clip_norm=1.0, noise_std=0.0)
        result = simulate_round(PLAN, grid, {number: np.full(6, 0.25) for number in (0, 3, 4)})
        assert result.arrived == (0, 3, 4)
        np.testing.assert_allclose(result.total, 0.75, atol=grid.error(3))

    def test_bytes_by_phase(self):
        grid = FixedPoint(parties=5, clip_norm=1.0, noise_std=0.0)
        result = simulate_round(PLAN, grid, {number: np.zeros(6) for number in range(5)}, dropouts={"masked": {1}})
        # A ciphertext has two shares of 33 bytes and a tag of 16; a commitment has 32 bytes.
        assert result.bytes_up == {
            "keys": 5 * 64,
            "shares": 5 * (4 * 82 + 32),
            "masked": 4 * 6 * 4,
            "answers": 4 * 5 * 33,
        }
        assert result.bytes_down == {"keys": 5 * 5 * 64, "shares": 5 * 4 * 82}


class TestClientRefusals:
    """A client that has refused a message sends nothing more in this round."""

    def assert_refused(self, request: UnmaskRequest, message: str) -> None:
        made = Sum()
        made.receive(3)
        with pytest.raises(SecAggFailed, match=message):
            made.parties[0].answer(request)
        with pytest.raises(SecAggFailed, match="out of turn"):
            made.parties[0].answer(UnmaskRequest((0, 1, 2, 4), (3,)))

    def test_seed_and_key_shares_of_one_client_are_refused(self):
        self.assert_refused(
            UnmaskRequest((0, 1, 2, 4), (2, 3)), "the seed and the key of client 2: both reveal its upload"
        )

    def test_a_request_that_lists_the_client_as_dropout_is_refused(self):
        self.assert_refused(UnmaskRequest((1, 2, 4), (0, 3)), "is listed as dropped out")

    def test_a_request_with_too_few_clients_is_refused(self):
        self.assert_refused(UnmaskRequest((0, 1), (2, 3, 4)), "2 of 5 clients are left")

    def test_a_request_for_missing_shares_is_refused(self):
        self.assert_refused(UnmaskRequest((0, 1, 2, 4), (3, 5)), "shares of client 5, of which it has none")

    def test_a_second_request_is_refused(self):
        made = Sum()
        request = made.receive(3)
        made.parties[0].answer(request)
        with pytest.raises(SecAggFailed, match="'answers' out of turn"):
            made.parties[0].answer(UnmaskRequest((0, 1, 3, 4), (2,)))

    def test_a_second_upload_with_the_same_masks_is_refused(self):
        made = Sum()
        made.masked(2)
        with pytest.raises(SecAggFailed, match="'masked' out of turn"):
            made.masked(2)

    def test_a_modified_ciphertext_ends_the_clients_round(self):
        made = Sum()
        made.ciphertexts[2][4] = bytes(82)
        for message in ("was modified in transit", "'masked' out of turn"):
            with pytest.raises(SecAggFailed, match=message):
                made.masked(2)
        with pytest.raises(SecAggFailed, match="'answers' out of turn"):
            made.parties[2].answer(UnmaskRequest((0, 1, 2, 4), (3,)))
        early = SecAggClient(PLAN, 0)
        for phase, ask in (("shares", lambda: early.shares({})), ("keys", early.keys)):
            with pytest.raises(SecAggFailed, match=f"'{phase}' out of turn"):
                ask()

    def test_wrong_own_public_keys_are_refused(self):
        party = SecAggClient(PLAN, 0, SECRETS)
        party.keys()
        public = {number: SecAggClient(PLAN, number).keys() for number in range(5)}
        with pytest.raises(SecAggFailed, match="a wrong key of its own"):
            party.shares(public)

    def test_duplicate_public_keys_are_refused(self):
        parties = [SecAggClient(PLAN, number) for number in range(5)]
        public = {party.number: party.keys() for party in parties}
        with pytest.raises(SecAggFailed, match="duplicate public keys"):
            parties[0].shares(public | {2: public[1]})

    def test_a_low_order_public_key_is_refused(self):
        parties = [SecAggClient(PLAN, number) for number in range(5)]
        public = {party.number: party.keys() for party in parties}
        with pytest.raises(SecAggFailed, match="is not valid for X25519"):
            parties[0].shares(public | {2: PublicKeys(masks=bytes(31) + b"1", encryption=bytes(32))})

    @pytest.mark.parametrize("upload", [np.zeros(5, np.uint32), np.zeros(6, np.int64)])
    def test_uploads_of_another_type_or_size_are_refused(self, upload):
        with pytest.raises(ValueError, match=r"expected uint32 \[6\]"):
            Sum().parties[0].masked(upload, {})


class TestModifiedMessages:
    @pytest.mark.parametrize("bit", [0, 1, 263, 300, 528, 655])
    def test_a_modified_ciphertext_is_detected(self, bit):
        made = Sum()
        ciphertext = bytearray(made.ciphertexts[2][4])
        ciphertext[bit // 8] ^= 1 << bit % 8
        made.ciphertexts[2][4] = bytes(ciphertext)
        with pytest.raises(SecAggFailed, match=r"client 4 to client 2 .*\bmodified\b"):
            made.masked(2)

    @pytest.mark.parametrize("other", [(1, 4), (2, 3), (4, 2)])
    def test_a_ciphertext_of_another_pair_is_detected(self, other):
        made = Sum()
        made.ciphertexts[2][4] = made.ciphertexts[other[0]][other[1]]
        with pytest.raises(SecAggFailed, match=r"ciphertext .*client 4 to client 2\b"):
            made.masked(2)

    def test_a_ciphertext_of_another_round_is_detected(self):
        made, later = Sum(), Sum(replace(PLAN, round=1))
        later.ciphertexts[2][4] = made.ciphertexts[2][4]
        with pytest.raises(SecAggFailed, match=r"ciphertext .*client 4 to client 2\b"):
            later.masked(2)

    def responses_with_wrong_share(self, kind: str, by: int) -> tuple[Sum, dict[int, UnmaskResponse]]:
        """Return a round without client 3 and its responses, one of them with a wrong share."""
        made = Sum()
        request = made.receive(3)
        responses = {number: made.parties[number].answer(request) for number in request.arrived}
        of, good = 4 if kind == "seeds" else 3, getattr(responses[0], kind)
        responses[0] = replace(responses[0], **{kind: good | {of: good[of] + by}})
        return made, responses

    @pytest.mark.parametrize(("kind", "of"), [("seeds", 4), ("keys", 3)])
    @pytest.mark.parametrize("by", [8, -8, 2**200, 2**255])
    def test_a_wrong_share_raises_secagg_failed(self, kind, of, by):
        made, responses = self.responses_with_wrong_share(kind, by)
        with pytest.raises(SecAggFailed, match=rf"share .*client {of} .*\bwrong\b"):
            made.server.open(responses)

    @given(st.integers(-(2**257), 2**257), st.sampled_from(["seeds", "keys"]))
    @settings(max_examples=50, deadline=None)
    def test_a_wrong_share_never_gives_a_wrong_sum(self, by, kind):
        made, responses = self.responses_with_wrong_share(kind, by)
        try:
            total = made.server.open(responses)
        except SecAggFailed:
            return
        # X25519 ignores the lowest three bits of a key and the highest bit.
        assert kind == "keys" or by % shamir.PRIME == 0
        np.testing.assert_array_equal(total, made.expected_sum(3))

    @pytest.mark.parametrize("by", [1, -1])
    def test_key_bits_ignored_by_x25519_do_not_change_the_sum(self, by):
        made, responses = self.responses_with_wrong_share("keys", by)
        np.testing.assert_array_equal(made.server.open(responses), made.expected_sum(3))

    @pytest.mark.parametrize("kind", ["seeds", "keys"])
    def test_a_missing_share_raises_secagg_failed(self, kind):
        made = Sum()
        request = made.receive(3)
        responses = {number: made.parties[number].answer(request) for number in request.arrived}
        responses[1] = replace(responses[1], **{kind: {}})
        with pytest.raises(SecAggFailed, match="missing or wrong"):
            made.server.open(responses)

    def test_any_threshold_of_correct_shares_opens_the_sum(self):
        made = Sum()
        request = made.receive(3)
        responses = {number: made.parties[number].answer(request) for number in request.arrived}
        np.testing.assert_array_equal(made.server.open(responses), made.expected_sum(3))
        # Any three are enough.
        np.testing.assert_array_equal(made.server.open({n: responses[n] for n in (1, 2, 4)}), made.expected_sum(3))


def test_late_and_duplicate_uploads_are_refused():
    made = Sum()
    late = made.masked(3)
    made.receive(3)
    with pytest.raises(SecAggFailed, match="client 3 is late"):
        made.server.receive(3, late)
    other = Sum()
    other.server.receive(1, one := other.masked(1))
    for client in (1, 7):
        with pytest.raises(SecAggFailed, match=rf"client {client} .*\bduplicate\b"):
            other.server.receive(client, one)


def test_encrypted_shares_must_address_all_clients():
    parties = [SecAggClient(PLAN, number, SECRETS) for number in range(5)]
    server = SecureSum(PLAN)
    public = server.advertise({party.number: party.keys() for party in parties})
    ciphertexts = {party.number: party.shares(public) for party in parties}
    ciphertexts[2] = replace(ciphertexts[2], ciphertexts={0: b"", 1: b""})
    with pytest.raises(SecAggFailed, match=r"Client 2 .*\bencrypted shares\b"):
        server.post(ciphertexts)


def test_keys_are_random_or_determined_by_the_seed():
    assert SecAggClient(PLAN, 0).keys() != SecAggClient(PLAN, 0).keys()
    assert SecAggClient(PLAN, 0, SECRETS).keys() == SecAggClient(PLAN, 0, SECRETS).keys()
    made = [
        SecAggClient(replace(PLAN, round=round), number, secrets).keys()
        for round in (0, 1)
        for number in (0, 1)
        for secrets in (SECRETS, Secrets.seeded(1, "secure aggregation"))
    ]
    assert len({key for one in made for key in (one.masks, one.encryption)}) == 16
    np.testing.assert_array_equal(Sum().masked(1), Sum().masked(1))
    assert np.any(Sum(secrets=None).masked(1) != Sum(secrets=None).masked(1))


def test_seed_and_key_use_different_shamir_coefficients():
    party = SecAggClient(PLAN, 0, SECRETS)
    one, other = (party._share_secret(bytes(32), name) for name in ("seed", "key"))
    assert not set(one) & set(other)


def test_reconstruction_needs_the_threshold_of_shares():
    plan = SecAggParams(parties=9, weights=1, max_dropouts=3)
    for secret in (bytes(32), bytes(range(32)), b"\xff" * 32):
        shares = dict(enumerate(SecAggClient(plan, 0, SECRETS)._share_secret(secret, "seed")))
        for left in range(9):
            whole = shamir.reconstruct(dict(list(shares.items())[left:])) == int.from_bytes(secret, "little")
            assert whole == (9 - left >= plan.threshold == 6)


@pytest.mark.parametrize("parties", range(2, 30))
def test_threshold_is_more_than_half_of_the_clients(parties):
    plan = SecAggParams(parties=parties, weights=1, max_dropouts=(parties - 1) // 2)
    assert plan.threshold >= 2
    assert 2 * plan.threshold > parties
    with pytest.raises(InvalidConfig, match="max_dropouts"):
        SecAggParams(parties=parties, weights=1, max_dropouts=(parties + 1) // 2)


def test_a_grid_for_fewer_clients_is_refused():
    with pytest.raises(InvalidConfig, match=r"parties=5,.* at most the 4\b"):
        simulate_round(PLAN, FixedPoint(parties=4, clip_norm=1.0, noise_std=0.0), {})


def test_repr_of_a_response_hides_its_shares():
    made = Sum()
    request = made.receive(3)
    response = made.parties[0].answer(request)
    assert repr(response) == "UnmaskResponse()"
