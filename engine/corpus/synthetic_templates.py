"""The grammar of the embedded corpus: templates, fillers outside entities, dates, and the tokenizer.

A template is one line of ``templates.txt``. Its slots are entity slots (filled by ``synthetic.py``), date slots and
plain fillers (both filled here). ``{DATE:April}`` is a literal entity, ``{trade}s`` a filler with its plural s.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.errors import CorpusError

_FILE = Path(__file__).with_name("templates.txt")
_SLOT = re.compile(r"\{(?:(DATE):)?(\w+)\}(s\b)?")
_TOKEN = re.compile(
    r"""
    [Aa]\(n\)                            # indefinite article, chosen later
    | [^\W\d_]\.(?=\s[^\W\d_])              # an initial: J. Okafor
    | \w+(?=n't\b) | n't\b                # don't
    | '(?:s|re|ve|ll|d|m)\b               # Rose's, I'll
    | \d+(?:[.,/:-]\d+)+                  # 14/02/1998, 9:30, 2,400
    | (?:[A-Zo]'(?!ll\b|ve\b|re\b)(?=\w\w))?\w+(?:-\w+)*   # O'Neill, o'clock, Stoke-on-Trent
    | \S
    """,
    re.VERBOSE,
)

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July",
    "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_HOLIDAYS = ("Easter Monday", "Christmas Eve", "New Year's Day", "Good Friday", "Boxing Day", "Midsummer Day")
_SEASONS = ("spring", "summer", "autumn", "winter")

Piece = tuple[str, str]
"""A span of text and its entity type, "" outside entities."""

PLAIN: dict[str, tuple[str, ...]] = {
    "item": (
        "spare key", "signed form", "final report", "small parcel", "blue folder", "invoice", "ladder", "old lamp",
        "copy of the lease", "garden bench", "box of letters", "toolbox", "rent book", "draft", "inventory",
        "wall clock", "photo album", "order form", "umbrella", "sewing machine", "bread knife", "oak table",
        "bunch of keys", "bicycle pump", "leather case", "map", "rose vase", "grant letter", "price list", "bill",
        "mark sheet", "carpet", "tin of paint", "field guide", "park pass", "passport photo", "cash box",
    ),
    "equipment": ("scanner", "minibus", "lift", "kitchen", "sensory garden", "hydrotherapy pool", "reading room"),
    "topic": (
        "parking scheme", "heating bill", "boundary fence", "bus timetable", "insurance claim", "pension plan",
        "tree survey", "noise complaint", "drainage work", "data breach", "visa application", "planning notice",
        "damp wall", "wage agreement", "recycling plan", "grant application", "fire certificate", "cycle path",
        "field drainage", "park lighting", "safety review", "merger", "tax return", "staff rota", "water rate",
    ),
    "event": (
        "concert", "open day", "fire drill", "inspection", "audit", "training day", "book fair", "jumble sale",
        "summer fete", "may fair", "charity run", "quiz night", "harvest supper", "prize giving", "flower show",
    ),
    "sport": ("hockey", "chess", "netball", "rowing", "cricket", "debating", "swimming"),
    "hobby": ("knitting", "fishing", "chess", "pottery", "bird watching", "baking", "choir singing", "carving"),
    "pet": ("old terrier", "parrot", "tabby cat", "lame donkey", "greyhound", "pony", "ginger cat", "tortoise"),
    "job": (
        "teacher", "retired nurse", "bus driver", "electrician", "volunteer", "accountant", "young engineer",
        "former pilot", "social worker", "librarian", "architect", "sculptor", "trainee", "postman", "optician",
        "night porter", "surveyor", "translator", "painter", "plumber", "bookkeeper", "student",
    ),
    "trade": (
        "baker", "hunter", "cook", "mason", "carter", "gardener", "miller", "smith", "butcher", "fisher", "shepherd",
        "potter", "cooper", "fowler", "glover", "carpenter", "chandler", "ranger", "tanner", "turner", "weaver",
    ),
    "role": (
        "Head of Finance", "Area Manager", "Ward Sister", "Director of Nursing", "Chief Executive", "Treasurer",
        "Honorary Secretary", "Team Leader", "Practice Manager", "Head of Research", "Trustee", "Field Officer",
        "Grant Manager", "Park Warden", "Dean", "Marketing Lead", "Chair", "Company Secretary", "Lead Engineer",
    ),
    "title": ("Dr", "Mrs", "Mr", "Ms", "Professor", "Nurse", "Sister", "Miss", "Canon", "Judge", "Captain"),
    "product": (
        "Chelsea buns", "Lincoln biscuits", "Jordan almonds", "Washington apples", "York ham", "Florence fennel",
        "Cheddar cheese", "Paris buns", "Eccles cakes", "Jersey cream", "Bath buns", "Hunter boots", "Rose soap",
        "Devon fudge", "Oxford marmalade", "Darjeeling tea", "Lancaster roses", "Austin roses", "Worcester sauce",
        "Kent cherries", "Brussels sprouts", "Hamilton gloves", "Summer Grace tea", "Sydney rock oysters",
        "French mustard", "Turkish delight", "Dundee cake", "Cornish pasties", "Bramley apples", "Savoy cabbage",
        "Panama hats",
        "Georgia peaches", "Berliner doughnuts", "Houston barbecue sauce", "May Queen potatoes", "Bakewell tarts",
    ),
    "gadget": (
        "Falcon printer", "Meridian scanner", "Hunter projector", "Florence kettle", "coffee machine", "Rose tablet",
        "Austin copier", "label printer", "Aurora laptop", "Park heater", "Apollo phone", "Grace reader", "card reader",
        "Brook dishwasher", "Jordan keyboard", "Dawn lamp", "alarm panel", "Chester lawnmower",
    ),
    "nat": ("French", "English", "Polish", "German", "Irish", "Kenyan", "Indian", "Scots", "Welsh", "Dutch",
            "Nigerian"),
    "plant": (
        "rose", "lily", "heather", "ivy", "lavender", "iris", "jasmine", "holly", "hazel", "violet", "clover",
        "daisy", "poppy", "laurel", "fern", "willow",
    ),
    "bird": ("robin", "jay", "wren", "martin", "swift", "finch", "starling", "drake", "kestrel", "crane", "heron"),
    "gem": ("ruby", "pearl", "amber", "crystal", "jade", "opal", "silver", "coral"),
    "herb": ("basil", "rosemary", "ginger", "sage", "saffron", "olive oil", "mint", "dill", "thyme", "fennel"),
    "terrain": (
        "park", "field", "brook", "hill", "wood", "forest", "lake", "ford", "marsh", "moor", "pond", "church",
        "castle", "bridge", "green", "mill", "old bank", "market square", "west gate", "river", "common",
    ),
    "complaint": (
        "chest pain", "back pain", "a dry cough", "dizziness", "shortness of breath", "swelling of the left foot",
        "low mood", "a sore throat", "knee pain", "blurred vision", "headache", "nausea", "a rash on both arms",
        "memory loss", "a hip fracture", "stiffness in the morning", "numb fingers", "chills",
    ),
    "drug": (
        "Paracetamol", "ibuprofen", "Metformin", "amoxicillin", "Ramipril", "Warfarin", "vitamin D", "insulin",
        "Prednisolone", "aspirin", "Omeprazole", "codeine", "Levothyroxine", "iron tablets",
    ),
    "room": (
        "room 4", "the Rose Room", "the Lincoln Suite", "the main hall", "room 12", "the library", "the Jordan Room",
        "the Hamilton Wing", "the day room", "the back office", "the Florence Suite", "the Garden Room", "room 203",
    ),
}  # fmt: skip
"""Fillers outside entities: products, rooms, job titles and nationalities keep their capitals."""


@dataclass(frozen=True, slots=True)
class Template:
    """One line: its register ("news"), and literals alternating with slots.

    Attributes:
        register: Kind of text.
        parts: Each is (literal text, "", "") or ("", slot, suffix) or (text, "DATE", "").
    """

    register: str
    parts: tuple[tuple[str, str, str], ...]


def templates() -> list[Template]:
    """Return all templates in the order of the file.

    Raises:
        CorpusError: If a line is outside any register.
    """
    result, register = [], ""
    for number, line in enumerate(_FILE.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("["):
            register = line.strip("[]")
        elif line and not line.startswith("#"):
            if not register:
                raise CorpusError(f"{_FILE.name} has a template outside any register on line {number}")
            result.append(Template(register, tuple(_parts(line))))
    return result


def _parts(line: str) -> list[tuple[str, str, str]]:
    parts, position = [], 0
    for match in _SLOT.finditer(line):
        parts.append((line[position : match.start()], "", ""))
        literal_type, name, suffix = match.groups()
        parts.append((name, literal_type, "") if literal_type else ("", name, suffix or ""))
        position = match.end()
    parts.append((line[position:], "", ""))
    return [part for part in parts if any(part)]


def tokenize(text: str) -> list[str]:
    """Split a text into words and punctuation marks; possessive 's, n't and initials (J.) are tokens of their own."""
    return _TOKEN.findall(text)


def article(following: str) -> str:
    """Return the indefinite article before a word, by its first letter (no filler has a silent h)."""
    return "an" if following[0].lower() in "aeiou" else "a"


def number(rng: random.Random) -> str:
    """Return a small count or house number."""
    return str(rng.randint(2, 98))


def money(rng: random.Random) -> str:
    """Return an amount of money, which is no entity."""
    amount = rng.choice((rng.randint(5, 99), rng.randint(100, 990), rng.randint(11, 99) * 100))
    return f"{rng.choice(('£', '£', '€', '$'))}{amount:,}"


def time(rng: random.Random) -> str:
    """Return a clock time, which is no entity."""
    hour = rng.randint(7, 19)
    return rng.choice((f"{hour}:{rng.choice(('00', '15', '30', '45'))}", f"{(hour - 1) % 12 + 1} o'clock", "noon"))


def _ordinal(day: int) -> str:
    suffix = "th" if 10 < day < 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{suffix}"


def _day_month(rng: random.Random) -> str:
    day, month = rng.randint(1, 28), rng.choice(MONTHS)
    return rng.choice(
        (
            f"{day} {month}",
            f"{day} {month}",
            f"{_ordinal(day)} {month}",
            f"the {_ordinal(day)} of {month}",
            f"{month} {day}",
        )
    )


def _full_date(rng: random.Random, first: int = 1938, last: int = 2024) -> str:
    year, number_of_month, day = rng.randint(first, last), rng.randint(1, 12), rng.randint(1, 28)
    month = MONTHS[number_of_month - 1]
    return rng.choice(
        (
            f"{day} {month} {year}",
            f"{day} {month} {year}",
            f"{month} {day}, {year}",
            f"{_ordinal(day)} {month} {year}",
            f"{day:02}/{number_of_month:02}/{year}",
            f"{day}.{number_of_month}.{year}",
            f"{year}-{number_of_month:02}-{day:02}",
        )
    )


def _on(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.3:
        return rng.choice(WEEKDAYS)
    if kind < 0.42:
        return f"{rng.choice(WEEKDAYS)} {rng.choice(('morning', 'afternoon', 'evening', 'night'))}"
    if kind < 0.7:
        return _day_month(rng)
    if kind < 0.9:
        return _full_date(rng, 2012)
    if kind < 0.95:
        return f"{rng.choice(WEEKDAYS)} {rng.randint(1, 28)} {rng.choice(MONTHS)}"
    return rng.choice(_HOLIDAYS)


def _in(rng: random.Random, first: int = 1968, last: int = 2024) -> str:
    year, month = rng.randint(first, last), rng.choice(MONTHS)
    return rng.choice(
        (
            month,
            month,
            f"{month} {year}",
            f"{month} {year}",
            str(year),
            str(year),
            f"the {rng.choice(_SEASONS)} of {year}",
            f"{rng.choice(('early', 'late'))} {rng.choice((month, str(year)))}",
        )
    )


def _past(rng: random.Random) -> tuple[Piece, ...]:
    kind = rng.random()
    if kind < 0.4:
        return ("on ", ""), (_on(rng), "DATE")
    if kind < 0.58:
        return ("in ", ""), (_in(rng, 1998), "DATE")
    ago = f"{rng.choice(('two', 'three', 'four', 'ten'))} {rng.choice(('days', 'weeks', 'months', 'years'))} ago"
    last = f"last {rng.choice((*WEEKDAYS, *WEEKDAYS, *MONTHS, *_SEASONS, 'week', 'month', 'year', 'night'))}"
    other = rng.choice(("yesterday", "this morning", "the day before yesterday", "earlier this week"))
    return ((rng.choice((ago, last, last, other)), "DATE"),)


def _next(rng: random.Random) -> tuple[Piece, ...]:
    kind = rng.random()
    if kind < 0.4:
        day = rng.choice((rng.choice(WEEKDAYS), _day_month(rng), _full_date(rng, 2025, 2027)))
        return ("on ", ""), (day, "DATE")
    if kind < 0.55:
        return ("in ", ""), (_in(rng, 2025, 2027), "DATE")
    coming = f"{rng.choice(('next', 'next', 'this'))} {rng.choice((*WEEKDAYS, *WEEKDAYS, *MONTHS, *_SEASONS, 'week'))}"
    other = rng.choice(("tomorrow", "tomorrow morning", "next month", "the day after tomorrow", "this weekend"))
    return ((rng.choice((coming, coming, other)), "DATE"),)


DATES: dict[str, Callable[[random.Random], tuple[Piece, ...]]] = {
    "on": lambda rng: ((_on(rng), "DATE"),),
    "in": lambda rng: ((_in(rng), "DATE"),),
    "past": _past,
    "next": _next,
    "dob": lambda rng: ((_full_date(rng), "DATE"),),
    "daymonth": lambda rng: ((_day_month(rng), "DATE"),),
}
"""Date slots; a preposition of the phrase is outside the entity."""

NUMBERS: dict[str, Callable[[random.Random], str]] = {"n": number, "money": money, "time": time}
"""Fillers with figures, outside entities."""
