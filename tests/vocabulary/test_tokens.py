"""What the lanes, counts and sentences of a text are, by example."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import scanning, tokens
from headwater.tokens import Cutter, Pairs, Term, count_tokens, fold, is_cjk, language, length, sentences, token_spans

CUTTER = Cutter()


# ---- folding


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("ＰＰＲ－９０８７", "ppr-9087"),
        ("關於臺灣的資料庫與軟體", "关于台湾的资料库与软体"),
        ("ABC É Ж Σς", "abc e ж σσ"),
        ("Zürich, São Łódź: ǔ Å đ", "zurich, sao lodz: u a d"),
        ("straße Œuvre Й ё ά", "straße œuvre й ё ά"),  # two letters, or no Latin ones
        ("⼀⽤", "一用"),  # Kangxi radicals, as some PDF files have them
        ("ｱｲｳ", "アイウ"),
        ("1990–2000 don’t", "1990-2000 don't"),
        ("a\u3000b", "a b"),
        ("①②", "12"),
        ("薴", "苎"),
    ],
)
def test_fold(text: str, folded: str) -> None:
    assert fold(text) == folded


@pytest.mark.parametrize("text", ["ﬁ", "㎡", "ß", "İ", "🙂", "\ud83d", "\ud83d\ude42", "\U0010ffff", "\0", ""])
def test_what_does_not_fold_to_one_character_stays_in_place(text: str) -> None:
    assert len(fold(f"A{text}Ｂ")) == len(text) + 2
    assert fold(f"A{text}Ｂ")[0] == "a"
    assert fold(f"A{text}Ｂ")[-1] == "b"


def test_the_table_of_characters_is_large_and_names_its_source() -> None:
    text = Path(tokens.__file__).with_name("folding.txt").read_text("utf-8")
    *head, traditional, simplified = text.splitlines()
    assert len(traditional) == len(simplified) > 2500
    assert len(set(traditional)) == len(traditional)
    assert all(line.startswith("#") for line in head)
    assert "OpenCC" in text
    assert "Apache License" in text


# ---- lanes


@pytest.mark.parametrize(
    "code",
    [
        *("PPR-9087", "C++", "C#", ".NET", "3.14", "v1.2.3", "a_b.c", "foo@bar.com", "GPT-4", "AK47", "2025-01-01"),
        *("AT&T", "kube-proxy", "192.168.0.1", "README.md", "x86_64", "node.js", "F#", "35cm", "snake_case"),
    ],
)
@pytest.mark.parametrize(
    "frame", ["{}", "Use {}, please.", "使用{}版本", "“{}”", "({})。", "see {}.", "＝{}；", "- {}\n"]
)
def test_a_code_stays_whole_in_any_surroundings(code: str, frame: str) -> None:
    assert CUTTER.cut(frame.format(code)).codes == [code.lower()]


@pytest.mark.parametrize(
    "text",
    ["plain words, and 2025 numbers.", "end. Start", "--- ... ++ # @", "a - b", "中文和 English 混排", "__", "-x", "."],
)
def test_plain_words_and_signs_are_no_codes(text: str) -> None:
    assert CUTTER.cut(text).codes == []


def test_the_parts_of_an_address_are_codes() -> None:
    assert CUTTER.cut("https://kubernetes.io/docs/a-b.html?x=1").codes == ["kubernetes.io", "a-b.html"]


def test_a_very_long_code_is_left_out() -> None:
    assert CUTTER.cut(f"{'a1' * 50} {'b2' * 51}").codes == ["a1" * 50]


def test_chinese_words_in_search_mode() -> None:
    words, grams, codes = CUTTER.cut("我来到北京清华大学。")
    assert words == ["我", "来到", "北京", "清华", "华大", "大学", "清华大学"]
    assert grams == ["我来", "来到", "到北", "北京", "京清", "清华", "华大", "大学"]
    assert codes == []


def test_traditional_and_simplified_give_the_same_terms() -> None:
    assert CUTTER.cut("關於資料庫的說明") == CUTTER.cut("关于资料库的说明")


def test_english_words_are_stemmed_and_numbers_stay() -> None:
    assert CUTTER.cut("The Engines were running in 2025; Kubernetes's nodes don't.").words == [
        *("the", "engin", "were", "run", "in", "2025", "kubernet", "node", "don't")
    ]
    assert CUTTER.cut("connections").words == CUTTER.cut("Connecting").words


def test_pairs_do_not_cross_a_gap_and_a_lone_character_is_one() -> None:
    assert CUTTER.cut("北京，上海 a 茶 b").grams == ["北京", "上海", "茶"]


def test_extensions_kana_and_hangul_are_pairs() -> None:
    assert CUTTER.cut("㐀㐁").grams == ["㐀㐁"]
    assert CUTTER.cut("𠮷野家").grams == ["𠮷野", "野家"]
    assert CUTTER.cut("カタカナ").grams == ["カタ", "タカ", "カナ"]
    assert CUTTER.cut("한국어").grams == ["한국", "국어"]
    assert CUTTER.cut("AI모델").words == ["ai", "모델"]


def test_other_scripts_are_words() -> None:
    assert CUTTER.cut("Ещё ПРИВЕТ, café हिन्दी مرحبا 🙂").words == ["ещё", "привет", "cafe", "हिन्दी", "مرحبا"]


def test_accents_behind_their_letters_are_cut_like_letters_with_accents() -> None:
    apart = "Re\u0301sume\u0301s in Zu\u0308rich, \u30cf\u309a\u30f3"
    assert CUTTER.cut(apart) == CUTTER.cut("Résumés in Zürich, パン")
    assert CUTTER.query(apart) == CUTTER.query("Résumés in Zürich, パン")
    assert CUTTER.with_accents.cut(apart).words[0] == "résumé"


def test_accents_make_no_difference_but_where_they_are_kept() -> None:
    assert CUTTER.cut("Résumés in Zürich").words == CUTTER.cut("resumes in zurich").words == ["resum", "in", "zurich"]
    assert CUTTER.with_accents.cut("Résumés in Zürich").words == ["résumé", "in", "zürich"]
    assert [CUTTER.words_in("à Zürich")[1]] == [(2, 8, "zurich")]


def test_many_texts_are_cut_as_each_alone() -> None:
    texts = ["北京 C++", "", "Running\0fast", "カナ", "\0", "a", "茶", " ", "v1.2", "中文。"]
    cut = CUTTER.cut_many(texts)
    assert [tuple(lane.split() for lane in lanes) for lanes in cut] == [tuple(CUTTER.cut(text)) for text in texts]
    assert CUTTER.cut_many([]) == []
    assert CUTTER.cut_joined("") == ("", "", "")


# Without a compiler both are the second.
@pytest.mark.parametrize(
    ("first", "loaded"),
    [
        ("", "'rjieba', 'Stemmer'" if scanning.native is None else "'Stemmer'"),
        ("s.native = None", "'rjieba', 'Stemmer'"),
    ],
)
def test_engines_are_loaded_only_when_needed(first: str, loaded: str) -> None:
    code = (
        f"import headwater.scanning as s; {first}\n"
        "import sys, headwater.tokens as t; loaded = lambda: [m for m in ('rjieba', 'Stemmer') if m in sys.modules]\n"
        "a = loaded(); t.sentences('x. y'); t.count_tokens('x'); b = loaded(); c = t.Cutter(); c.cut('word')\n"
        "d = loaded(); c.cut('中文'); print(a, b, d, loaded())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("] [") == ["[", "", "'Stemmer'", f"{loaded}]\n"]


# ---- the dictionary


def test_a_dictionary_changes_queries_and_not_the_index() -> None:
    known = Cutter(dictionary=["量子纠缠态", "PPR-9087"])
    text = "研究量子糾纏態與ppr-9087"
    assert known.cut(text) == CUTTER.cut(text)
    query = known.query(text)
    assert query[:3] == CUTTER.cut(text)
    assert query.phrases == [["量子", "子纠", "纠缠", "缠态"], ["ppr-9087"]]
    assert CUTTER.query(text).phrases == []


def test_every_phrase_is_in_the_lanes_of_a_text_that_was_cut_without_the_dictionary() -> None:
    words = ["韧性水", "K8s集群", "deep lake", "X光", "茶", "GPT-4", "涌现性"]
    known = Cutter(dictionary=words)
    for word in words:
        words_there, grams, codes = CUTTER.cut(f"我们说的{word}就是这个")
        for phrase in known.query(word).phrases:
            assert set(phrase) <= {*grams, *codes, *words_there}


def test_the_longest_word_wins_and_latin_words_are_whole() -> None:
    known = Cutter(dictionary=["量子", "量子纠缠", "lake"])
    assert known.query("量子纠缠与量子").phrases == [["量子", "子纠", "纠缠"], ["量子"]]
    assert known.query("flakes lakes").phrases == []
    assert known.query("Lake湖").phrases == [["lake"]]


def test_words_have_their_places_in_the_original() -> None:
    text = "看ＰＰＲ－９０８７ 的 Engines"
    assert CUTTER.words_in(text) == [
        Term(0, 1, "看"),
        Term(1, 4, "ppr"),
        Term(1, 9, "ppr-9087"),
        Term(5, 9, "9087"),
        Term(10, 11, "的"),
        Term(12, 19, "engin"),
    ]
    assert Term(0, 3, "韧性水") in Cutter(dictionary=["韧性水"]).words_in("韧性水利")


# ---- counting


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        (" \n\t", 0),
        ("你好", 2),
        ("hello", 1),
        ("internationalisation", 4),
        ("12345", 2),
        ("a, b.", 4),
        ("中文 and English！", 5 + 1),
        ("_", 1),
        ("🙂", 1),
    ],
)
def test_count_tokens(text: str, count: int) -> None:
    assert count_tokens(text) == count
    assert len(list(token_spans(text))) == count
    assert length(text, "tokens") == count
    assert length(text, "chars") == len(text)


def test_is_cjk() -> None:
    assert all(map(is_cjk, "中㐀𠮷かカ한々〇"))
    assert not any(map(is_cjk, "aé1 。，「・🙂"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("How long is parental leave?", "en"),
        ("育儿假多长？", "zh"),
        ("Kubernetes 中如何配置 Pod？", "zh"),
        ("RAG 是什么", "zh"),
        ("What is 清华大学?", "en"),
        ("", "en"),
        ("123", "en"),
    ],
)
def test_language(text: str, expected: str) -> None:
    assert language(text) == expected


# ---- sentences


@pytest.mark.parametrize(
    "parts",
    [
        ["It opened in 1936.", "It is 221 metres tall!", "Is it?", "Yes"],
        ["大坝于1936年建成。", "它高221米！", "是吗？！", "是的"],
        ["他说：“你好。”", "她走了。"],
        ['She said "Go now."', "He left."],
        ["Pi is 3.14 today.", "See https://a.example/b?c=1.2 now.", "Version 1.2.3 is out."],
        ["Use a tool, e.g. a hammer, i.e. something heavy.", "Then stop."],
        ["Mr. Smith met Dr. J. Jones in the U.S. Senate.", "See Fig. 3 for more."],
        ["They live in the U.S.", "The river is long."],
        ["中文里的 Kubernetes.", "接着说。"],
        ["快速准确是工作的难点.", "通过探讨, 提出思路."],
        ["(It works.)", "Good."],
        ['He wrote "stop." and left.', "Good."],
        ["Run the tool.", "then stop it."],
        ["Wait... what?", "No."],
        ["（它很好。）", "真的。"],
    ],
)
def test_sentences_of_a_line(parts: list[str]) -> None:
    joint = "" if any(map(is_cjk, "".join(parts))) else " "
    text = joint.join(parts)
    assert [text[start:end] for start, end in sentences(text)] == parts


def test_lines_are_sentences_unless_an_editor_broke_them() -> None:
    text = (
        "# A heading\n"
        "1. First step. Then more\n"
        "2. Second step\n"
        "- an item\n"
        "* another\n"
        "第一章 总则\n"
        "本章说明目的。范围见下\n"
        "\n"
        "This paragraph was broken by an editor at some column and\n"
        "goes on in the next line. It ends here\n"
        "| a | table |\n"
    )
    assert [text[start:end] for start, end in sentences(text)] == [
        "# A heading",
        "1. First step.",
        "Then more",
        "2. Second step",
        "- an item",
        "* another",
        "第一章 总则",
        "本章说明目的。",
        "范围见下",
        "This paragraph was broken by an editor at some column and\ngoes on in the next line.",
        "It ends here",
        "| a | table |",
    ]


# Words, names that no dictionary has, kana, hangul, codes, and the signs that cutting uses itself.
_PIECES = st.sampled_from("发展中国家 的 郑和 下西洋 カタ カタカナ 서울 dams PPR-9087 a \0 。 \n".split(" "))


@given(st.lists(st.lists(_PIECES).map("".join) | st.text(), max_size=6))
def test_a_pair_that_is_a_word_of_the_same_text_can_be_left_out(texts: list[str]) -> None:
    cutter = Cutter()
    cuts = (cutter.cut_many(texts, pairs=pairs) for pairs in (Pairs.ALL, Pairs.APART, Pairs.ONCE))
    for whole, apart, once in zip(*cuts, strict=True):
        words, pairs, codes = map(str.split, whole)
        for others in (apart, once):
            assert [lane.split() for lane in (others[0], others[2])] == [words, codes]
        assert apart[1].split() == [pair for pair in pairs if len(pair) < 2 or pair not in words]
        assert once[1].split() == list(dict.fromkeys(apart[1].split()))


def test_every_text_has_its_pairs_once() -> None:
    cut = Cutter().cut_many(["郑和与郑和", "郑和", "羲之羲之羲之"], pairs=Pairs.ONCE)
    assert [pairs.split().count("和与") for _, pairs, _ in cut] == [1, 0, 0]
    assert cut[2][1].split().count("羲之") == 1


def test_what_is_a_word_in_another_text_stays_a_pair() -> None:
    (words, pairs, _), (other_words, other_pairs, _) = Cutter().cut_many(["天气", "今天气候好"], pairs=Pairs.APART)
    assert "天气" in words.split() and "天气" not in pairs.split()
    assert "天气" not in other_words.split() and "天气" in other_pairs.split()
