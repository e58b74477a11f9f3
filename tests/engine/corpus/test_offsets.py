"""Standoff corpora: .rel files, brat files, and zips of whole corpora."""

import io
import stat
import zipfile
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import corpus
from engine.corpus import brat, rel, standoff, uploads
from engine.corpus.sentences import entities
from engine.corpus.standoff import ASTRAY, DISCONTINUOUS, NESTED, Mention
from engine.errors import CorpusError

ROW = "7|Fever and a rash after taking aspirin.|rash|112|116|aspirin|130|137"


def tagged_text(sentence) -> str:
    return " ".join(
        f"{token}/{tag}" if tag != "O" else token for token, tag in zip(sentence.tokens, sentence.tags, strict=True)
    )


class TestStandoff:
    def test_a_mention_covers_all_tokens_it_touches(self):
        counts = Counter()
        text = "An azithromycin-induced (mild) ototoxicity."
        mentions = [Mention(3, 15, "Drug"), Mention(25, 42, "ADE")]
        sentence = standoff.tagged(text, mentions, 4, counts)
        assert tagged_text(sentence) == "An azithromycin/B-Drug - induced ( mild/B-ADE )/I-ADE ototoxicity/I-ADE ."
        assert sentence.document == 4
        assert not counts
        within = standoff.tagged("The pharmacokinetics", [Mention(6, 9, "X")], None, counts)
        assert tagged_text(within) == "The pharmacokinetics/B-X"

    def test_the_longest_of_overlapping_mentions_is_kept(self):
        counts = Counter()
        text = "lithium toxicity in lithium users"
        mentions = [Mention(0, 7, "Drug"), Mention(0, 16, "ADE"), Mention(20, 27, "Drug"), Mention(8, 19, "ADE")]
        assert tagged_text(standoff.tagged(text, mentions, None, counts)) == (
            "lithium/B-ADE toxicity/I-ADE in lithium/B-Drug users"
        )
        assert counts == {NESTED: 2}

    def test_a_mention_without_tokens_is_counted(self):
        counts = Counter()
        assert tagged_text(standoff.tagged("a  b", [Mention(1, 3, "X"), Mention(90, 99, "X")], None, counts)) == "a b"
        assert counts == {ASTRAY: 2}
        assert standoff.tagged("  ", [], None, counts) is None

    @given(
        st.text("ab -", min_size=1, max_size=30),
        st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8), st.sampled_from("XY")), max_size=6),
    )
    def test_all_mentions_are_tagged_or_counted(self, text, spans):
        counts = Counter()
        mentions = {Mention(start, start + length, kind) for start, length, kind in spans}
        sentence = standoff.tagged(text, mentions, None, counts)
        if sentence is None:
            return
        assert len(list(entities(sentence.tags))) + counts.total() == len(mentions)


class TestRel:
    def test_ade_corpus_v2_has_the_counts_found_by_hand(self, data_dir):
        names = ("DRUG-AE.rel", "DRUG-DOSE.rel")
        files = {name: (data_dir / "ade_corpus_v2" / name).read_bytes() for name in names}
        sentences, left_out = rel.read(files)
        loaded = Counter(kind for sentence in sentences for kind, _, _ in entities(sentence.tags))
        assert len(sentences) == 4272
        assert len({sentence.tokens for sentence in sentences}) == 4271
        assert left_out == {NESTED: 121}  # 120 drugs and a dosage, within adverse effects
        assert sum(loaded.values()) == 10_948
        assert loaded == {"ADE": 5776, "Drug": 4943, "Dosage": 229}
        without = rel.read({names[0]: files[names[0]]})[0]
        assert sum(len(list(entities(sentence.tags))) for sentence in without) == 10_719

    def test_lines_of_one_sentence_are_merged(self):
        other = ROW.replace("rash|112|116", "Fever|100|105")
        sentences, left_out = rel.read({"DRUG-AE.rel": f"{ROW}\n{other}\n{ROW}\n".encode()})
        assert [tagged_text(each) for each in sentences] == [
            "Fever/B-ADE and a rash/B-ADE after taking aspirin/B-Drug ."
        ]
        assert not left_out

    def test_start_offset_fits_most_mentions(self):
        row = "7|aspirin, then more aspirin and a rash|rash|133|137|aspirin|119|126"
        ((sentence,), _) = rel.read({"DRUG-AE.rel": row.encode()})
        assert tagged_text(sentence) == "aspirin , then more aspirin/B-Drug and a rash/B-ADE"

    def test_a_mention_with_wrong_offsets_is_counted(self):
        rows = f"{ROW}\n7|Fever and a rash after taking aspirin.|Fever|100|105|aspirin|131|138"
        ((sentence,), left_out) = rel.read({"DRUG-AE.rel": rows.encode()})
        assert tagged_text(sentence).count("/") == 3
        assert left_out == {ASTRAY: 1}

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("DRUG-AE.rel", f"{ROW}\n7|a|b", r"DRUG-AE.rel has 3 columns in line 2, expected 8"),
            ("DRUG-AE.rel", ROW.replace("112", "x"), r"the mention 'rash' from 'x' to '116' in line 1"),
            ("DRUG-AE.rel", ROW.replace("137", "140"), r"the mention 'aspirin' from '130' to '140' in line 1"),
            ("DRUG-AE.rel", ROW.replace("112", "²1"), r"from '²1' to"),
            ("DRUG-AE.rel", "", r"DRUG-AE.rel is empty"),
            ("DRUG-AE.rel", "a\0b", r"binary byte 0x00 in line 1"),
            ("notes.rel", ROW, r"notes.rel is not named after two entity types, expected a name such as DRUG-AE.rel"),
            ("A-A.rel", ROW, r"not named after two entity types"),
        ],
    )
    def test_errors_name_file_and_line(self, name, text, message):
        with pytest.raises(CorpusError, match=message):
            rel.read({name: text.encode()})


TEXT = "I took Lipitor. It gave me cramps\nin both legs and a headache! No more Lipitor"
NOTES = (
    "T1\tDrug 7 14\tLipitor\n#1\tAnnotatorNotes T1\tx\nT2\tADR 27 46\tcramps in both legs\nT3\tADR 53 61\theadache\n"
)


class TestBrat:
    def test_sentence_borders_cut_no_mention(self):
        sentences, left_out = brat.read({"a.txt": TEXT.encode(), "a.ann": NOTES.encode(), "README.md": b"x"})
        assert [tagged_text(each) for each in sentences] == [
            "I took Lipitor/B-Drug .",
            "It gave me cramps/B-ADR in/I-ADR both/I-ADR legs/I-ADR and a headache/B-ADR !",
            "No more Lipitor",
        ]
        assert {each.document for each in sentences} == {0}
        assert not left_out

    def test_untaggable_mentions_are_counted(self):
        notes = "T1\tADR 27 33;42 46\tcramps legs\nT2\tDrug 8 14\tLipitor\nT3\tDrug 7 14\tLipitor\nT4\tX 9 12\tpit\n"
        _, left_out = brat.read({"a.txt": TEXT.encode(), "a.ann": notes.encode()})
        assert left_out == {DISCONTINUOUS: 1, ASTRAY: 1, NESTED: 1}

    def test_windows_line_ends_do_not_move_offsets(self):
        text = "One line.\r\nThen aspirin."
        sentences, left_out = brat.read({"a.txt": text.encode(), "a.ann": b"T1\tDrug 16 23\taspirin\r\n"})
        assert tagged_text(sentences[1]) == "Then aspirin/B-Drug ."
        assert not left_out

    def test_cadec_folders_are_read_in_their_published_layout(self):
        """Texts and mentions are in sibling folders, with normalisations under the same file names."""
        files = {
            "cadec/text/LIPITOR.1.txt": TEXT.encode(),
            "cadec/original/LIPITOR.1.ann": NOTES.encode(),
            "cadec/sct/LIPITOR.1.ann": b"TT1\t55300003 27 46\tcramps in both legs\n",
            "cadec/meddra/LIPITOR.1.ann": b"TT1\t10028294 27 46\tcramps in both legs\n",
        }
        sentences, _ = brat.read(files)
        assert sum(tag.startswith("B-") for each in sentences for tag in each.tags) == 3

    @pytest.mark.parametrize(
        ("notes", "message"),
        [
            (
                "T1\tDrug 7 140\tLipitor",
                r"a.ann has the offsets 7 and 140 in line 1, expected a span within a text of 78",
            ),
            ("x\nT1\tDrug 14 7\tLipitor", r"offsets 14 and 7 in line 2"),
            ("T1\tDrug 7-14\tLipitor", r"has 'T1\\tDrug 7-14\\tLipitor' in line 1, expected T and a number"),
            ("T1 Drug 7 14 Lipitor", r"expected T and a number"),
        ],
    )
    def test_errors_name_file_and_line(self, notes, message):
        with pytest.raises(CorpusError, match=message):
            brat.read({"a.txt": TEXT.encode(), "a.ann": notes.encode()})

    def test_a_text_without_an_annotation_file_is_refused(self):
        with pytest.raises(CorpusError, match=r"b\.ann .*\b0 times"):
            brat.read({"a.txt": b"x", "a.ann": b"", "b.txt": b"y"})


def archive(files: dict[str, bytes | str], link: str | None = None) -> bytes:
    """Return a zip whose bytes do not depend on the time: they are names of tests."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
        if link:
            entry = zipfile.ZipInfo(link)
            entry.external_attr = (stat.S_IFLNK | 0o777) << 16
            made.writestr(entry, "/etc/passwd")
    return packed.getvalue()


def column_file(number: int, begin: int = 0) -> str:
    return "\n".join(f"Rosa{begin + index} B-PER\nsleeps O\n" for index in range(number))


class TestUploads:
    def test_a_zip_with_split_files_keeps_its_splits(self, settings):
        files = {"mine/train.conll": column_file(20), "mine/test.conll": column_file(5, 50), "mine/.DS_Store": b"\0"}
        name = corpus.add_upload("My letters.zip", archive(files), settings)
        loaded = corpus.resolve(name, settings).load()
        assert name == "my-my-letters"
        assert [len(part) for part in (loaded.train, loaded.validation, loaded.test)] == [18, 2, 5]
        assert corpus.add_upload("My letters.zip", archive(files), settings) == name
        assert (
            corpus.add_upload("My letters.zip", archive(files | {"mine/dev.conll": column_file(3)}), settings) != name
        )
        assert [info.name for info in corpus.catalogue(settings) if info.name.startswith("my-")] == [name, f"{name}-2"]
        corpus.delete(name, settings)
        assert corpus.rename(f"{name}-2", "letters", settings) == "my-letters"

    def test_a_rel_upload_keeps_its_name_and_entity_types(self, settings):
        rows = "\n".join(f"{n}|A rash from drug{n}.|rash|2|6|drug{n}|12|{16 + len(str(n))}" for n in range(30))
        name = corpus.add_upload("DRUG-AE.rel", rows.encode(), settings)
        loaded = corpus.resolve(name, settings).load()
        assert (name, loaded.entity_types, len(loaded.train)) == ("my-drug-ae", ("ADE", "Drug"), 24)

    def test_a_zip_of_brat_files_is_read(self, settings):
        files: dict[str, bytes | str] = {}
        for number in range(6):
            files |= {f"text/{number}.txt": TEXT, f"original/{number}.ann": NOTES}
        name = corpus.add_upload("cadec.zip", archive(files), settings)
        loaded = corpus.resolve(name, settings).load()
        assert len(loaded.train) + len(loaded.validation) + len(loaded.test) == 18
        assert loaded.entity_types == ("ADR", "Drug")
        parts: dict[str, bytes | str] = {}
        for part, number in (("train", 5), ("test", 2)):
            for each in range(number):
                parts |= {f"{part}/{part}{each}.txt": TEXT, f"{part}/{part}{each}.ann": NOTES}
        loaded = corpus.resolve(corpus.add_upload("parts.zip", archive(parts), settings), settings).load()
        assert len(loaded.test) == 6

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (archive({"../train.conll": "x", "test.conll": "y"}), r"'../train.conll', expected plain files"),
            (archive({"/etc/train.conll": "x"}), r"expected plain files"),
            (archive({"a\\train.conll": "x"}), r"expected plain files"),
            (archive({"c:train.conll": "x"}), r"expected plain files"),
            (archive({"a/" * 120 + "train.conll": "x"}), r"expected plain files"),
            (archive({"test.conll": "x"}, link="train.conll"), r"'train.conll', expected plain files"),
            (archive({"train.conll": column_file(20)}), r"has no file test.\*"),
            (archive({"notes.doc": "x"}), r"has no file train.\*.*or brat's .txt and .ann, or .rel"),
            (archive({}), r"has no file train"),
            (b"PK\x03\x04 not a zip", r"not a readable zip file"),
            (archive({"train.conll": "a\0b", "test.conll": column_file(2)}), r"binary byte 0x00"),
        ],
    )
    def test_refused_upload_leaves_no_files(self, data, message, settings):
        with pytest.raises(CorpusError, match=message):
            corpus.add_upload("bad.zip", data, settings)
        assert not any(info.name.startswith("my-") for info in corpus.catalogue(settings))
        assert list((settings.home / "corpora").iterdir()) == []

    def test_a_zip_bomb_is_refused_before_it_fills_memory(self, settings, monkeypatch):
        monkeypatch.setattr(uploads, "MAX_BYTES", 1_000_000)
        bomb = archive({"train.conll": b"a O\n" * 200_000, "test.conll": b"a O\n" * 200_000})
        assert len(bomb) < 10_000
        with pytest.raises(CorpusError, match=r"bomb\.zip .*more than 1,000,000 bytes"):
            corpus.add_upload("bomb.zip", bomb, settings)

    def test_too_many_files_are_refused(self, settings, monkeypatch):
        monkeypatch.setattr(uploads, "MOST_FILES", 3)
        with pytest.raises(CorpusError, match=r"more than 3 files"):
            corpus.add_upload("many.zip", archive({f"{n}.txt": "x" for n in range(4)}), settings)

    def test_a_damaged_zip_is_refused(self, settings):
        whole = bytearray(archive({"train.conll": column_file(200), "test.conll": column_file(9)}))
        whole[60:90] = bytes(30)
        with pytest.raises(CorpusError, match=r"torn\.zip .*not a readable zip file"):
            corpus.add_upload("torn.zip", bytes(whole), settings)
