"""Published values of ε from other organisations, with protected unit and source."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Promise:
    """A published privacy guarantee.

    Attributes:
        who: organisation and product.
        epsilon: ε as published.
        unit: the protected unit.
        source: the publication.
    """

    who: str
    epsilon: str
    unit: str
    source: str


PROMISES = (
    Promise(
        "US Census Bureau, redistricting data of 2020",
        "17.14 for the persons file and 2.47 for the housing units file, 19.61 in total",
        "the record of one person, or of one housing unit, in all tables of that product",
        "US Census Bureau, “Census Bureau Sets Key Parameters to Protect Privacy in 2020 Census Results”, press "
        "release of 9 June 2021",
    ),
    Promise(
        "Apple, emoji usage",
        "4 for each donation, one donation per day",
        "one donation of one user, with noise added on the device",
        "Apple, “Differential Privacy Overview” (www.apple.com/privacy/docs/Differential_Privacy_Overview.pdf)",
    ),
    Promise(
        "Apple, macOS 10.12, all types of data together, as measured by independent researchers",
        "up to 16 per day, renewed every day",
        "the data of one user on one day",
        "Tang, Korolova, Bai, Wang and Wang 2017, “Privacy Loss in Apple's Implementation of Differential Privacy on "
        "MacOS 10.12”, arXiv:1709.02753",
    ),
    Promise(
        "Google, keyboard models for next-word prediction",
        "0.994 to 13.69 (δ = 1e-10), depending on language and country",
        "all text typed by one user",
        "Google Research, “Advances in private training for production on-device language models”, 21 February 2024",
    ),
)
TIERS_OF = "Ponomareva et al. 2023 (“How to DP-fy ML”, section 5.2.1)"
TIERS = {
    "strong": "a strong guarantee (ε ≤ 1)",
    "reasonable": "a reasonable guarantee (1 < ε ≤ 10), but not a strong one",
    "weak": "a weak guarantee (ε > 10)",
}
NOT_ALIKE = (
    "These values are not directly comparable: protected unit, δ and attacker differ. An ε for one sentence is a "
    "weaker guarantee than the same ε for one person."
)
