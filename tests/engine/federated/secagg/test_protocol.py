"""A sum that is right to the integer, whoever vanishes, and uploads of which the server sees noise alone."""

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

CHANCE = 1e-6
"""That uniform words fail one of these tests."""
SECRETS = Secrets.seeded(0, "a secure sum")
SIZES = (1_000, 20_000, 100_003, 600_500)
PLAN = SecAggParams(parties=5, weights=6, max_dropouts=2)


class Sum:
    """A sum as far as the letters: everybody is there. Uploads are a clipped update and noise, as integers."""

    def __init__(self, plan: SecAggParams = PLAN, secrets: Secrets | None = SECRETS, noise_std: float = 0.3) -> None:
        self.plan = plan
        self.grid = FixedPoint(parties=plan.parties, clip_norm=1.0, noise_std=noise_std)
        self.server = SecureSum(plan)
        self.parties = [SecAggClient(plan, number, secrets) for number in range(plan.parties)]
        self.public = self.server.advertise({party.number: party.keys() for party in self.parties})
        self.letters = self.server.post({party.number: party.shares(self.public) for party in self.parties})
        random = np.random.default_rng(plan.round)
        updates = random.normal(0, noise_std, (plan.parties, plan.weights)) + 1 / plan.weights
        self.uploads = [self.grid.integers(update) for update in updates]

    def masked(self, number: int) -> np.ndarray:
        return self.parties[number].masked(self.uploads[number], self.letters[number])

    def receive(self, *gone: int) -> UnmaskRequest:
        """All uploads but these arrive."""
        for number in range(self.plan.parties):
            if number not in gone:
                self.server.receive(number, self.masked(number))
        return self.server.question()

    def right(self, *gone: int) -> np.ndarray:
        """The sum of the others, in plain integers."""
        left = [upload for number, upload in enumerate(self.uploads) if number not in gone]
        return (np.sum(left, axis=0, dtype=np.int64) % 2**32).astype(np.uint32)


def uniform(words: np.ndarray) -> float:
    """The chance that words that are uniform look less so: by their bytes (chi-square) and sizes (Kolmogorov and
    Smirnov)."""
    of_bytes = stats.chisquare(np.bincount(words.view(np.uint8), minlength=256)).pvalue
    of_sizes = stats.kstest(words / 2.0**32, "uniform").pvalue
    return min(1.0, 2 * min(of_bytes, of_sizes))


def pairwise(made: Sum, own: int, others: list[int]) -> np.ndarray:
    """The sum of the masks that a party has in common with others, as it adds them."""
    total = np.zeros(made.plan.weights, dtype=np.uint32)
    for other in others:
        protocol._add_pairwise_mask(total, made.plan, made.parties[own]._mask_key, own, other, made.public[other].masks)
    return total


def without(key: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mask of a key is left off."""
    made: Callable = crypto.mask
    monkeypatch.setattr(crypto, "mask", lambda of, size: np.zeros(size, np.uint32) if of == key else made(of, size))


@pytest.mark.parametrize("size", SIZES)
class TestWhatTheServerSees:
    def test_one_upload_is_noise(self, size):
        made = Sum(replace(PLAN, weights=size))
        assert uniform(made.masked(1)) > CHANCE

    def test_without_masks_that_would_be_found(self, size, monkeypatch):
        made = Sum(replace(PLAN, weights=size))
        monkeypatch.setattr(crypto, "mask", lambda key, size: np.zeros(size, np.uint32))
        assert uniform(made.masked(1)) < CHANCE

    def test_an_upload_that_comes_late_is_noise_though_its_key_is_known(self, size):
        """The server has taken its sender for vanished, and asked for the shares of its key."""
        made = Sum(replace(PLAN, weights=size))
        assert uniform(made.masked(1) - pairwise(made, 1, [0, 2, 3, 4])) > CHANCE

    def test_without_its_own_mask_that_would_be_found(self, size, monkeypatch):
        made = Sum(replace(PLAN, weights=size))
        without(made.parties[1]._seed, monkeypatch)
        assert uniform(made.masked(1) - pairwise(made, 1, [0, 2, 3, 4])) < CHANCE

    def test_one_mask_that_is_not_known_is_enough(self, size):
        """The seed is known after the sum, and what two other parties know, who work with the server."""
        made = Sum(replace(PLAN, weights=size))
        left = made.masked(1) - crypto.mask(made.parties[1]._seed, size)
        assert uniform(left - pairwise(made, 1, [0, 2, 3])) > CHANCE
        assert uniform(left - pairwise(made, 1, [0, 2, 3, 4])) < CHANCE

    def test_no_mask_comes_twice(self, size):
        """Where it did, the difference of two messages would be that of two uploads."""
        made, later = (Sum(replace(PLAN, weights=size, round=number)) for number in (0, 1))
        one, other, next_round = made.masked(1), made.masked(2), later.masked(1)
        assert uniform(one - other) > CHANCE
        assert uniform(one - next_round) > CHANCE
        repeated = Sum(replace(PLAN, weights=size))
        repeated.uploads = later.uploads
        assert uniform(one - repeated.masked(1)) < CHANCE


class TestTheSum:
    @given(st.data())
    @settings(max_examples=40, deadline=None)
    def test_it_is_right_to_the_integer_whoever_vanishes(self, data):
        parties = data.draw(st.integers(3, 8))
        plan = SecAggParams(
            parties=parties, weights=4, max_dropouts=parties // 3, round=data.draw(st.integers(0, 10**6))
        )
        grid = FixedPoint(parties=parties, clip_norm=1.0, noise_std=data.draw(st.sampled_from([0.0, 0.5, 40.0])))
        weights = st.lists(st.floats(-grid.largest, grid.largest), min_size=4, max_size=4)
        uploads = {number: np.array(data.draw(weights)) for number in range(parties)}
        gone = data.draw(st.permutations(range(parties)))[: data.draw(st.integers(0, plan.max_dropouts))]
        dropouts: dict = {phase: set() for phase in PHASES}
        for party in gone:
            dropouts[data.draw(st.sampled_from(PHASES))].add(party)
        opened = simulate_round(plan, grid, uploads, dropouts=dropouts)
        arrived = sorted(set(range(parties)) - dropouts["keys"] - dropouts["shares"] - dropouts["masked"])
        assert list(opened.arrived) == arrived
        by_hand = [sum(round(float(uploads[party][weight]) / grid.quantum) for party in arrived) for weight in range(4)]
        assert [int(value) for value in opened.total / grid.quantum] == by_hand

    @pytest.mark.parametrize("parties", [3, 9, 20])
    @pytest.mark.parametrize("phase", PHASES)
    def test_a_third_may_vanish_at_any_phase(self, parties, phase):
        plan = SecAggParams(parties=parties, weights=5, max_dropouts=parties // 3)
        grid = FixedPoint(parties=parties, clip_norm=1.0, noise_std=0.0)
        uploads = {number: np.full(5, number / 100) for number in range(parties)}
        gone = list(range(parties))[1::3][: parties // 3]
        opened = simulate_round(plan, grid, uploads, secrets=SECRETS, dropouts={phase: gone})
        counted = [number for number in range(parties) if number not in gone or phase == "answers"]
        assert list(opened.arrived) == counted
        np.testing.assert_allclose(opened.total, sum(counted) / 100, atol=grid.error(parties))

    @pytest.mark.parametrize("phase", PHASES)
    def test_more_than_planned_and_it_stays_closed(self, phase):
        uploads = {number: np.zeros(6) for number in range(5)}
        grid = FixedPoint(parties=5, clip_norm=1.0, noise_std=0.0)
        said = rf"'{phase}' .*round 1, 2 of 5 clients .*at least 3\b"
        with pytest.raises(SecAggFailed, match=said):
            simulate_round(PLAN, grid, uploads, dropouts={phase: {0, 2, 3}})
        with pytest.raises(SecAggFailed, match="2 of 5 clients"):
            simulate_round(PLAN, grid, uploads, dropouts={"keys": {0}, "shares": {2}, phase: {0, 2, 3}})

    def test_who_has_no_upload_was_never_there(self):
        grid = FixedPoint(parties=5, clip_norm=1.0, noise_std=0.0)
        opened = simulate_round(PLAN, grid, {number: np.full(6, 0.25) for number in (0, 3, 4)})
        assert opened.arrived == (0, 3, 4)
        np.testing.assert_allclose(opened.total, 0.75, atol=grid.error(3))

    def test_what_travelled(self):
        grid = FixedPoint(parties=5, clip_norm=1.0, noise_std=0.0)
        opened = simulate_round(PLAN, grid, {number: np.zeros(6) for number in range(5)}, dropouts={"masked": {1}})
        # A letter: two shares of 33 bytes and a tag of 16; beside letters a commitment of 32.
        assert opened.bytes_up == {
            "keys": 5 * 64,
            "shares": 5 * (4 * 82 + 32),
            "masked": 4 * 6 * 4,
            "answers": 4 * 5 * 33,
        }
        assert opened.bytes_down == {"keys": 5 * 5 * 64, "shares": 5 * 4 * 82}


class TestWhatPartiesRefuse:
    """Whoever has refused says nothing more in this sum."""

    def refused(self, question: UnmaskRequest, said: str) -> None:
        made = Sum()
        made.receive(3)
        with pytest.raises(SecAggFailed, match=said):
            made.parties[0].answer(question)
        with pytest.raises(SecAggFailed, match="out of turn"):
            made.parties[0].answer(UnmaskRequest((0, 1, 2, 4), (3,)))

    def test_both_kinds_of_shares_of_one_party(self):
        self.refused(UnmaskRequest((0, 1, 2, 4), (2, 3)), "the seed and the key of client 2: both reveal its upload")

    def test_its_own_key(self):
        self.refused(UnmaskRequest((1, 2, 4), (0, 3)), "is listed as dropped out")

    def test_a_sum_of_too_few(self):
        self.refused(UnmaskRequest((0, 1), (2, 3, 4)), "2 of 5 clients are left")

    def test_shares_that_it_has_not(self):
        self.refused(UnmaskRequest((0, 1, 2, 4), (3, 5)), "shares of client 5, of which it has none")

    def test_a_second_question(self):
        made = Sum()
        question = made.receive(3)
        made.parties[0].answer(question)
        with pytest.raises(SecAggFailed, match="'answers' out of turn"):
            made.parties[0].answer(UnmaskRequest((0, 1, 3, 4), (2,)))

    def test_a_second_upload_under_the_same_masks(self):
        made = Sum()
        made.masked(2)
        with pytest.raises(SecAggFailed, match="'masked' out of turn"):
            made.masked(2)

    def test_an_upload_after_a_changed_letter_and_whatever_else_after_a_refusal(self):
        made = Sum()
        made.letters[2][4] = bytes(82)
        for said in ("was modified in transit", "'masked' out of turn"):
            with pytest.raises(SecAggFailed, match=said):
                made.masked(2)
        with pytest.raises(SecAggFailed, match="'answers' out of turn"):
            made.parties[2].answer(UnmaskRequest((0, 1, 2, 4), (3,)))
        early = SecAggClient(PLAN, 0)
        for phase, ask in (("shares", lambda: early.shares({})), ("keys", early.keys)):
            with pytest.raises(SecAggFailed, match=f"'{phase}' out of turn"):
                ask()

    def test_keys_of_its_own_that_are_not(self):
        party = SecAggClient(PLAN, 0, SECRETS)
        party.keys()
        public = {number: SecAggClient(PLAN, number).keys() for number in range(5)}
        with pytest.raises(SecAggFailed, match="a wrong key of its own"):
            party.shares(public)

    def test_one_key_for_two_parties(self):
        parties = [SecAggClient(PLAN, number) for number in range(5)]
        public = {party.number: party.keys() for party in parties}
        with pytest.raises(SecAggFailed, match="duplicate public keys"):
            parties[0].shares(public | {2: public[1]})

    def test_a_key_that_makes_every_secret_known(self):
        parties = [SecAggClient(PLAN, number) for number in range(5)]
        public = {party.number: party.keys() for party in parties}
        with pytest.raises(SecAggFailed, match="is not valid for X25519"):
            parties[0].shares(public | {2: PublicKeys(masks=bytes(31) + b"1", encryption=bytes(32))})

    @pytest.mark.parametrize("upload", [np.zeros(5, np.uint32), np.zeros(6, np.int64)])
    def test_uploads_of_another_kind(self, upload):
        with pytest.raises(ValueError, match=r"expected uint32 \[6\]"):
            Sum().parties[0].masked(upload, {})


class TestWhatIsChangedOnItsWay:
    @pytest.mark.parametrize("bit", [0, 1, 263, 300, 528, 655])
    def test_a_letter(self, bit):
        made = Sum()
        letter = bytearray(made.letters[2][4])
        letter[bit // 8] ^= 1 << bit % 8
        made.letters[2][4] = bytes(letter)
        with pytest.raises(SecAggFailed, match=r"client 4 to client 2 .*\bmodified\b"):
            made.masked(2)

    @pytest.mark.parametrize("other", [(1, 4), (2, 3), (4, 2)])
    def test_a_letter_for_somebody_else_or_by_somebody_else(self, other):
        made = Sum()
        made.letters[2][4] = made.letters[other[0]][other[1]]
        with pytest.raises(SecAggFailed, match=r"ciphertext .*client 4 to client 2\b"):
            made.masked(2)

    def test_a_letter_of_another_round(self):
        made, later = Sum(), Sum(replace(PLAN, round=1))
        later.letters[2][4] = made.letters[2][4]
        with pytest.raises(SecAggFailed, match=r"ciphertext .*client 4 to client 2\b"):
            later.masked(2)

    def answered(self, kind: str, by: int) -> tuple[Sum, dict[int, UnmaskResponse]]:
        """A sum without party 3, and its answers, of which one has a share that is off."""
        made = Sum()
        question = made.receive(3)
        answers = {number: made.parties[number].answer(question) for number in question.arrived}
        of, good = 4 if kind == "seeds" else 3, getattr(answers[0], kind)
        answers[0] = replace(answers[0], **{kind: good | {of: good[of] + by}})
        return made, answers

    @pytest.mark.parametrize(("kind", "of"), [("seeds", 4), ("keys", 3)])
    @pytest.mark.parametrize("by", [8, -8, 2**200, 2**255])
    def test_a_wrong_share_keeps_the_sum_closed(self, kind, of, by):
        made, answers = self.answered(kind, by)
        with pytest.raises(SecAggFailed, match=rf"share .*client {of} .*\bwrong\b"):
            made.server.open(answers)

    @given(st.integers(-(2**257), 2**257), st.sampled_from(["seeds", "keys"]))
    @settings(max_examples=50, deadline=None)
    def test_it_never_makes_a_sum_that_is_wrong(self, by, kind):
        made, answers = self.answered(kind, by)
        try:
            total = made.server.open(answers)
        except SecAggFailed:
            return
        # X25519 does not look at the lowest three bits of a key, nor at the highest.
        assert kind == "keys" or by % shamir.PRIME == 0
        np.testing.assert_array_equal(total, made.right(3))

    @pytest.mark.parametrize("by", [1, -1])
    def test_a_share_that_is_off_where_nobody_looks_changes_nothing(self, by):
        made, answers = self.answered("keys", by)
        np.testing.assert_array_equal(made.server.open(answers), made.right(3))

    @pytest.mark.parametrize("kind", ["seeds", "keys"])
    def test_a_missing_share_too(self, kind):
        made = Sum()
        question = made.receive(3)
        answers = {number: made.parties[number].answer(question) for number in question.arrived}
        answers[1] = replace(answers[1], **{kind: {}})
        with pytest.raises(SecAggFailed, match="missing or wrong"):
            made.server.open(answers)

    def test_all_shares_right_and_it_opens(self):
        made = Sum()
        question = made.receive(3)
        answers = {number: made.parties[number].answer(question) for number in question.arrived}
        np.testing.assert_array_equal(made.server.open(answers), made.right(3))
        # Any three are enough.
        np.testing.assert_array_equal(made.server.open({n: answers[n] for n in (1, 2, 4)}), made.right(3))


def test_an_upload_that_is_late_or_comes_twice_is_not_joined():
    made = Sum()
    late = made.masked(3)
    made.receive(3)
    with pytest.raises(SecAggFailed, match="client 3 is late"):
        made.server.receive(3, late)
    other = Sum()
    other.server.receive(1, one := other.masked(1))
    for who in (1, 7):
        with pytest.raises(SecAggFailed, match=rf"client {who} .*\bduplicate\b"):
            other.server.receive(who, one)


def test_letters_to_others_than_all_who_have_keys_are_noticed():
    parties = [SecAggClient(PLAN, number, SECRETS) for number in range(5)]
    server = SecureSum(PLAN)
    public = server.advertise({party.number: party.keys() for party in parties})
    letters = {party.number: party.shares(public) for party in parties}
    letters[2] = replace(letters[2], ciphertexts={0: b"", 1: b""})
    with pytest.raises(SecAggFailed, match=r"Client 2 .*\bencrypted shares\b"):
        server.post(letters)


def test_keys_come_from_the_operating_system_or_repeat_with_the_seed():
    assert SecAggClient(PLAN, 0).keys() != SecAggClient(PLAN, 0).keys()
    assert SecAggClient(PLAN, 0, SECRETS).keys() == SecAggClient(PLAN, 0, SECRETS).keys()
    made = [
        SecAggClient(replace(PLAN, round=round), number, secrets).keys()
        for round in (0, 1)
        for number in (0, 1)
        for secrets in (SECRETS, Secrets.seeded(1, "a secure sum"))
    ]
    assert len({key for one in made for key in (one.masks, one.encryption)}) == 16
    np.testing.assert_array_equal(Sum().masked(1), Sum().masked(1))
    assert np.any(Sum(secrets=None).masked(1) != Sum(secrets=None).masked(1))


def test_a_seed_and_a_key_are_cut_with_coefficients_of_their_own():
    party = SecAggClient(PLAN, 0, SECRETS)
    one, other = (party._share_secret(bytes(32), name) for name in ("seed", "key"))
    assert not set(one) & set(other)


def test_shares_of_fewer_than_the_threshold_are_of_no_use():
    plan = SecAggParams(parties=9, weights=1, max_dropouts=3)
    for secret in (bytes(32), bytes(range(32)), b"\xff" * 32):
        held = dict(enumerate(SecAggClient(plan, 0, SECRETS)._share_secret(secret, "seed")))
        for left in range(9):
            whole = shamir.reconstruct(dict(list(held.items())[left:])) == int.from_bytes(secret, "little")
            assert whole == (9 - left >= plan.threshold == 6)


@pytest.mark.parametrize("parties", range(2, 30))
def test_more_than_half_must_answer_so_that_nobody_gets_both_kinds_from_different_parties(parties):
    plan = SecAggParams(parties=parties, weights=1, max_dropouts=(parties - 1) // 2)
    assert plan.threshold >= 2
    assert 2 * plan.threshold > parties
    with pytest.raises(InvalidConfig, match="max_dropouts"):
        SecAggParams(parties=parties, weights=1, max_dropouts=(parties + 1) // 2)


def test_a_grid_for_fewer_parties_is_refused():
    with pytest.raises(InvalidConfig, match=r"parties=5,.* at most the 4\b"):
        simulate_round(PLAN, FixedPoint(parties=4, clip_norm=1.0, noise_std=0.0), {})


def test_what_is_secret_is_not_printed():
    made = Sum()
    question = made.receive(3)
    answer = made.parties[0].answer(question)
    assert repr(answer) == "UnmaskResponse()"
