"""Writes the expected results that the tests of this package compare with.

    pip install tokenizers==0.23.3
    python make_vectors.py DATA        # DATA/scifact holds the claims and the corpus

Written beside this file: bpe.json (RoBERTa's shape) and mpnet.json (MPNet's),
both trained on the corpus, and vectors.json.gz. Strings are drawn with a fixed
seed, so a second run writes the same.
"""

import base64
import gzip
import hashlib
import json
import pathlib
import random
import sys

from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
DATA = pathlib.Path(sys.argv[1]) / "scifact"
rng = random.Random(20240607)


def jsonl(name):
    return [json.loads(line) for line in (DATA / name).open(encoding="utf-8")]


CLAIMS = [c["claim"] for split in ("train", "dev", "test") for c in jsonl(f"claims_{split}.jsonl")]
SENTENCES = [s for d in jsonl("corpus.jsonl") for s in d["abstract"]]


# -- tokenizers ---------------------------------------------------------------


def train_bpe():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=3000,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    t.train_from_iterator(SENTENCES, trainer)
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False, special=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    t.save(str(HERE / "bpe.json"), pretty=False)


def train_mpnet():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=1500,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "[UNK]"],
        limit_alphabet=200,
        show_progress=False,
    )
    t.train_from_iterator(SENTENCES, trainer)
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False, special=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    t.save(str(HERE / "mpnet.json"), pretty=False)


def added(vocab, tokens):
    """Entries of added_tokens, numbered as the reference does: by the vocabulary,
    else after it."""
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    out, free = [], len(vocab)
    for content, *on in tokens:
        if content not in vocab:
            free += 1
        out.append({"id": vocab.get(content, free - 1), "content": content, **{f: f in on for f in flags}})
    return out


def bert(clean, chinese, accents, lower):
    return dict(type="BertNormalizer", clean_text=clean, handle_chinese_chars=chinese, strip_accents=accents, lowercase=lower)


def byte_level(prefix):
    return dict(type="ByteLevel", add_prefix_space=prefix, trim_offsets=True, use_regex=True)


def small_bpe(merges, **settings):
    """A BPE model over a few letters, so that most bytes are unknown."""
    vocab = {}
    for token in ["<u>", "Ġ", *"abcdet", *("".join(m) for m in merges)]:
        vocab.setdefault(token, len(vocab))
    plain = dict(dropout=None, unk_token="<u>", continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False, byte_fallback=False, ignore_merges=False)
    return dict(type="BPE", **{**plain, **settings}, vocab=vocab, merges=merges)


# Two ways to the same token, of different rank, and a merge that one of them hides.
ODD_MERGES = [["b", "c"], ["a", "b"], ["c", "d"], ["ab", "cd"], ["ab", "c"], ["Ġ", "abc"], ["a", "bc"], ["e", "e"], ["ee", "e"]]


def configs():
    bpe = json.loads((HERE / "bpe.json").read_text())
    cls_sep = dict(type="BertProcessing", sep=["</s>", 2], cls=["<s>", 0])
    two_kinds = [
        ("cell", "single_word", "normalized"), ("[X]", "lstrip", "rstrip"), ("[XY]", "normalized", "rstrip"),
        ("É", "normalized"), (" t", "lstrip"), ("<mask>", "lstrip", "special"), ("[SEP]", "special"), ("</s>", "special"),
    ]
    mpnet_vocab = json.loads((HERE / "mpnet.json").read_text())["model"]["vocab"]
    bert_file, mpnet, roberta = "../../bundles/label/tokenizer.json", "mpnet.json", "bpe.json"
    return {
        "bert": (bert_file, {}),
        "mpnet": (mpnet, {}),
        "roberta": (roberta, {}),
        "cased": (mpnet, {"normalizer": bert(True, True, None, False), "post_processor": cls_sep}),
        "unclean": (mpnet, {"normalizer": bert(False, False, True, False), "post_processor": None}),
        "raw": (mpnet, {"normalizer": None}),
        "accents": (mpnet, {"normalizer": bert(True, True, False, True), "added_tokens": added(mpnet_vocab, two_kinds)}),
        "gpt2": (roberta, {
            "pre_tokenizer": byte_level(True),
            "post_processor": byte_level(True),
            "model": {**bpe["model"], "merges": bpe["model"]["merges"][::2], "ignore_merges": True},
            "added_tokens": added(bpe["model"]["vocab"], two_kinds),
        }),
        "unknown": (roberta, {"model": small_bpe(ODD_MERGES), "added_tokens": [], "post_processor": None}),
        "fused": (roberta, {"model": small_bpe(ODD_MERGES, fuse_unk=True), "added_tokens": [], "post_processor": None}),
        "dropped": (roberta, {"model": small_bpe(ODD_MERGES, unk_token=None), "added_tokens": [], "post_processor": None}),
    }


def load(base, patch):
    t = Tokenizer.from_str(json.dumps({**json.loads((HERE / base).read_text()), **patch}))
    t.no_truncation()
    t.no_padding()
    return t


# -- strings ------------------------------------------------------------------

SPACES = [chr(c) for c in (9, 10, 11, 12, 13, 28, 29, 31, 32, 0x85, 0xA0, 0x1680, 0x180E, *range(0x2000, 0x2010), 0x2028, 0x2029, 0x202F, 0x205F, 0x2060, 0x3000, 0xFEFF)]
SPECIALS = ["[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]", "<s>", "</s>", "<pad>", "<unk>", "<mask>", "[X]", "[XY]", "[xy]", "[Sep]", "< s>", "[SEP", "cell", "Cell", "CELL", "cells", "##ing", "Ġthe"]
CONTRACTIONS = ["'s", "'S", "'t", "'re", "'RE", "'ve", "'m", "'ll", "'l", "'d", "'D", "don't", "it''s", "’s", "'", " 's", "'r e"]
BLOCKS = [
    (0x00, 0x20), (0x20, 0x7F), (0x7F, 0xA0), (0xA0, 0x250), (0x250, 0x370), (0x300, 0x370), (0x370, 0x530), (0x590, 0x700),
    (0x700, 0x8FF), (0x900, 0xE00), (0xE00, 0x1100), (0x1100, 0x1200), (0x1AB0, 0x1B80), (0x1D00, 0x2000), (0x2000, 0x2070),
    (0x2070, 0x2190), (0x2190, 0x2C00), (0x2E00, 0x3000), (0x3000, 0x3400), (0x4E00, 0x4F00), (0xA640, 0xA8FF), (0xAC00, 0xAD00),
    (0xE000, 0xE010), (0xF900, 0xFB50), (0xFB50, 0xFE00), (0xFE00, 0xFE70), (0xFE70, 0x10000), (0x10000, 0x10FFF),
    (0x11000, 0x12000), (0x16E00, 0x17000), (0x1D100, 0x1D200), (0x1D400, 0x1D800), (0x1E000, 0x1E960), (0x1F000, 0x1FB00),
    (0x20000, 0x20010), (0x2B730, 0x2B930), (0x2F800, 0x2FA20), (0x30000, 0x30010), (0xE0000, 0xE01F0), (0x10FFF0, 0x110000),
]
EMOJI = ["😀", "👩‍🔬", "👨‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "1️⃣", "☣️"]
FIXED = [
    "", " ", "  ", "\n", "\u00a0", "\ufffd", "a\ufffdb", "\u200d", "\u0301", "e\u0301", "é", "İstanbul", "ΑΣ ΌΣΟΣ", "ǅ", "ﬁ", "K", "Å", "Ω",
    "a" * 100, "a" * 101, "é" * 100, "é" * 101, "x" * 5000, "1" * 3000, "!" * 300, " " * 300, "\n" * 100 + "a", "a \n b", "a\n\nb", "a  \n", "  a",
    "한국어 각 각", "日本語テキスト", "中文字符", "\U0002b820\U0002b920", "豈", "हिन्दी में", "עברית \u202eabc\u202c", "العربية ١٢٣", "ไทย", "①②Ⅷ½²³", "٣٤٥", "𝟘𝟙", "😀😃",
    "p<0.05; n=12 (95% CI 1.2–3.4) ±", "TNF-α/IL-1β µg·mL−1", "don't can't I'LL we've", "\u0d4d\u0323\u0307", "q\u0307\u0323", "\U0001d15e\U0001d16d\U0001d165",
    "a\u0315\u0300\u05ae\u0062", "\u1100\u1161\u11a8", "<mask>", "a <mask> b", "a\u3000<mask>\u3000b", "</s></s>", "[SEP][SEP]", "[SEP] [X] [XY] cell", "\u0130\u0307",
]


def char():
    low, high = rng.choice(BLOCKS)
    while True:
        c = rng.randrange(low, high)
        if not 0xD800 <= c <= 0xDFFF:
            return chr(c)


def sentence():
    s = rng.choice(SENTENCES)
    i = rng.randrange(len(s) + 1)
    return s[i : i + rng.randrange(30)]


def hostile():
    parts = []
    for _ in range(rng.randrange(1, 7)):
        parts.append(rng.choice([
            lambda: "".join(char() for _ in range(rng.randrange(1, 5))),
            lambda: rng.choice(SPACES) * rng.randrange(1, 4),
            lambda: "".join(rng.choice(SPACES) for _ in range(3)),
            lambda: rng.choice(SPECIALS),
            lambda: rng.choice(CONTRACTIONS),
            lambda: rng.choice(EMOJI),
            sentence,
            lambda: "".join(rng.choice("abcde ") for _ in range(12)),
            lambda: rng.choice("aeoUnC") + "".join(chr(rng.randrange(0x300, 0x345)) for _ in range(rng.randrange(1, 5))),
            lambda: chr(rng.randrange(0xC0, 0x180)),
        ])())
    return "".join(parts)


def marked():
    """A string whose marks have to be put in canonical order."""
    marks = [*range(0x300, 0x370), *range(0x5B0, 0x5C0), 0x8D4, 0x8E0, 0x1B44, 0x1BAA, 0x1DFB, 0x302E, 0x3099, 0xA953, 0x11446, 0x116B6, 0x1D165, 0x1D16D, 0x1D16E, 0x1E000, 0x1E944, 0x1E94A, 0x0D4D, 0x093C, 0x9FE, 0x898]
    return "".join(chr(rng.choice(marks)) if rng.random() < 0.8 else char() for _ in range(rng.randrange(2, 45)))


# -- results ------------------------------------------------------------------


def encode_pair(t, a, b, limit):
    t.enable_truncation(limit, strategy="only_first")
    try:
        e = t.encode(a, b)
        return [e.ids, e.type_ids]
    except Exception:  # too long a second segment
        return None
    finally:
        t.no_truncation()


def windows(t, a, b, limit, stride):
    a, b = (t.encode(x, add_special_tokens=False) for x in (a, b))
    room = limit - t.num_special_tokens_to_add(True) - len(b.ids)
    a.truncate(room, stride=stride)
    whole = t.post_process(a, b)
    return [[w.ids, w.type_ids] for w in (whole, *whole.overflowing)]


def results(t, strings):
    singles = [t.encode(s, add_special_tokens=False).ids for s in strings]
    pairs, cut = [], []
    specials = t.num_special_tokens_to_add(True)
    while len(pairs) < 250:
        i, j = rng.randrange(len(strings)), rng.randrange(len(strings))
        total = len(singles[i]) + len(singles[j]) + specials
        if total < 200:
            limit = rng.randrange(specials + 1, total + 3)
            pairs.append([i, j, limit, encode_pair(t, strings[i], strings[j], limit)])
    while t.post_processor and len(cut) < 60:  # without one, post_process leaves type ids alone
        i, j = rng.randrange(len(strings)), rng.randrange(len(strings))
        n, m = len(singles[i]), len(singles[j])
        if 1 < n < 60 and m < 20:
            room = rng.randrange(1, n + 2)
            stride = rng.randrange(room)
            limit = room + m + specials
            cut.append([i, j, limit, stride, windows(t, strings[i], strings[j], limit, stride)])
    return dict(singles=singles, pairs=pairs, windows=cut)


def digest(lines):
    return hashlib.sha256("".join(line + "\n" for line in lines).encode()).hexdigest()[:16]


def join(ids):
    return " ".join(map(str, ids))


def scifact(t):
    """Digests over each 1,000 strings: singles, then sentence and claim cut to 64."""
    texts = CLAIMS + SENTENCES
    single = [join(t.encode(s).ids) for s in texts]
    pair = []
    for i, s in enumerate(SENTENCES):
        p = encode_pair(t, s, CLAIMS[i % len(CLAIMS)], 64)
        pair.append(join(p[0]) + "|" + join(p[1]) if p else "error")
    chunks = lambda lines: [digest(lines[i : i + 1000]) for i in range(0, len(lines), 1000)]
    return dict(singles=chunks(single), pairs=chunks(pair))


def code_points():
    """A digest for each 4,096 code points: how they are normalised and split."""
    flags = [(True, True, True, True), (True, True, False, False), (False, False, True, False), (False, False, False, True)]
    norms = [normalizers.BertNormalizer(*f).normalize_str for f in flags]
    bert_words, byte_words = pre_tokenizers.BertPreTokenizer().pre_tokenize_str, pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    whole = Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    whole.add_special_tokens([AddedToken("<x>", single_word=True, normalized=False)])
    out, lines = [], []
    for c in range(0x110000):
        if not 0xD800 <= c <= 0xDFFF:
            s = chr(c)
            lines.append("|".join([
                f"{c:x}", *(n("x" + s + "Y") for n in norms), str(len(bert_words("a" + s + "b"))),
                *(str(len(byte_words(x + s))) for x in "a1! "), str(int(1 not in whole.encode("<x>" + s).ids)),
            ]))
        if c % 0x1000 == 0xFFF:
            out.append(digest(lines))
            lines = []
    return out


def ill_formed():
    out = []
    for _ in range(400):
        pool = [b"a", b"\xc3\xa9", b"\xe2\x82\xac", b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe0\x80\x80", b"\xf0\x80", b"\xc0\xaf"]
        raw = b"".join(
            rng.choice(pool)[: rng.randrange(1, 5)] if rng.random() < 0.7 else bytes([rng.randrange(0x80, 0x100)])
            for _ in range(rng.randrange(1, 9))
        )
        out.append([base64.b64encode(raw).decode(), raw.decode("utf-8", errors="replace")])
    return out


def main():
    train_bpe()
    train_mpnet()
    strings = FIXED + [hostile() for _ in range(2200)]
    sorted_marks = [marked() for _ in range(300)]
    out = dict(strings=strings, configs={}, scifact={})
    for name, (base, patch) in configs().items():
        t = load(base, patch)
        out["configs"][name] = dict(base=base, patch=patch, **results(t, strings))
        if name in ("bert", "roberta", "mpnet"):
            out["scifact"][name] = scifact(t)
    order = [normalizers.BertNormalizer(True, True, True, True).normalize_str, normalizers.BertNormalizer(False, False, True, False).normalize_str]
    out["normalized"] = [[s, *(n(s) for n in order)] for s in sorted_marks]
    byte_words = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    out["words"] = [[len(w) for w, _ in byte_words(s)] for s in strings]
    out["code_points"] = code_points()
    out["ill_formed"] = ill_formed()
    packed = json.dumps(out, ensure_ascii=False, separators=(",", ":")).encode()
    (HERE / "vectors.json.gz").write_bytes(gzip.compress(packed, 9, mtime=0))


main()
