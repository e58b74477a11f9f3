"""What others promise, with the unit of each and where it is printed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Promise:
    """who: and of what. epsilon: as printed. unit: what it protects. source: where it is printed."""

    who: str
    epsilon: str
    unit: str
    source: str


PROMISES = (
    Promise(
        "US Census Bureau, redistricting data of 2020",
        "17.14 for the file of persons and 2.47 for that of housing units, 19.61 together",
        "one person's, and one housing unit's, record in all tables of that product",
        "US Census Bureau, “Census Bureau Sets Key Parameters to Protect Privacy in 2020 Census Results”, press "
        "release of 9 June 2021",
    ),
    Promise(
        "Apple, which emoji are used",
        "4 for each donation, one donation a day",
        "one person's donation, with noise added on the device",
        "Apple, “Differential Privacy Overview” (www.apple.com/privacy/docs/Differential_Privacy_Overview.pdf)",
    ),
    Promise(
        "Apple, macOS 10.12, all kinds of data together, as others measured it",
        "up to 16 a day, each day anew",
        "one person's day",
        "Tang, Korolova, Bai, Wang and Wang 2017, “Privacy Loss in Apple's Implementation of Differential Privacy on "
        "MacOS 10.12”, arXiv:1709.02753",
    ),
    Promise(
        "Google, keyboard models that propose the next word",
        "0.994 to 13.69 (δ = 1e-10), by language and country",
        "one person with all they typed",
        "Google Research, “Advances in private training for production on-device language models”, 21 February 2024",
    ),
)
TIERS_OF = "Ponomareva et al. 2023 (“How to DP-fy ML”, section 5.2.1)"
TIERS = {
    "strong": "a strong promise (ε ≤ 1)",
    "reasonable": "a reasonable promise (1 < ε ≤ 10), not a strong one",
    "weak": "a weak promise (ε > 10)",
}
NOT_ALIKE = (
    "These numbers do not stand on one scale: each protects another unit, at another δ, from somebody else. An ε for "
    "one sentence is a smaller promise than the same ε for a person."
)
