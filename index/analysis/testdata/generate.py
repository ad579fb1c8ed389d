"""Writes reference.json: what scikit-learn makes of small texts.

Run with scikit-learn 1.9.1 on Python 3.11: python generate.py
terms are the analyzer's, scores[q][p] the cosine of query q and paper p.
"""

import json
import pathlib

from sklearn.feature_extraction.text import TfidfVectorizer

papers = [
    ("1", "Vitamin D lowers mortality", ["Vitamin D was given to 1,200 patients.", "Mortality fell by 3.5%; vitamin levels rose."]),
    ("2", "Fused title", ["begins with its first sentence", "\tand the next has blanks around it \n"]),
    ("3", "Title with a blank at its end ", ["Patients were given nothing."]),
    ("4", "the of and", ["it is as if we were", "a b c"]),
    ("5", "", []),
    ("6", "Straße ẞ STRASSE ſtraße", ["Das Öl, O\u0308l, ÖL; naïve NAÏVE nai\u0308ve."]),
    ("7", "ΟΔΟΣ ΌΣΟΣ Σ ΣΑΣ. ΑΣ' ΑΣ'Β Α\u00adΣ Α\u00adΣ\u00adΒ", ["σίγμα Σίγμα ΣΊΓΜΑΣ, TGFΣ1 1Σ 'Σ aΣ ʰΣ ⒶΣ"]),
    ("8", "İstanbul DİYARBAKIR ISPARTA ılık", ["IİıI i̇i İİ"]),
    ("9", "β-catenin IL-1β, IFN-γ and TNF_α", ["10µg/ml μg K Ω ℵ₀ x² ½cup 五六 ⅷ ४२ ٣٤", "_ __ ___ a_b"]),
    ("10", "東京は日本の首都です", ["中文 摘要 没有 空格 ไทย ภาษา हिन्दी 한국어"]),
    ("11", "\U0001f9ec\U0001d400\U0001d401 zero\u200bwidth joi\u200dner", ["\u202eevil\u202c \ufefftext ﬁne ﬂow \ufffd x\u0000y z\u0000z"]),
    ("12", "don't won't o'clock patients' patient's", ["can't’ve re-re-reading e-mail AT&T C++ 3.14.15"]),
    ("13", "repeat repeat repeat repeat", ["repeat, repeat? repeat! Repeat."]),
    ("14", "DŽ Dž dž Ǆ ǅ ǆ Ⅷ Ⓐ𐐀𐐁 Ა", ["Ꭰꭰ ᏸ ÅÅ ŸŽ"]),
    ("15", "vitamin d lowers mortality", ["vitamin d was given to 1,200 patients.", "mortality fell by 3.5%; vitamin levels rose."]),
]
queries = [
    "Vitamin D lowers mortality.",
    "vitamin vitamin vitamin patients",
    "the of and",
    "",
    "unknown words only: qwertyuiop",
    "fused titlebegins with unknownword",
    "strasse straße STRASSE öl",
    "οδος ΟΔΟΣ όσος σίγμας tgfς1 TGFσ1",
    "istanbul İSTANBUL i̇stanbul i̇i",
    "β-catenin interferon IFN-Γ tnf_α 10μg kelvin",
    "東京は日本の首都です हिन्दी 한국어 ٣٤",
    "\U0001d400\U0001d401 zerowidth zero width evil text z",
    "don patients clock AT&T ve won",
    "repeat",
    "ǆ Ⅷ 𐐨𐐩 ა ꭰꭰ åå",
    "given patients mortality fell " * 50,
]


def text(title, abstract):
    return title + " ".join(abstract)


vectorizer = TfidfVectorizer(stop_words="english", ngram_range=(1, 2))
matrix = vectorizer.fit_transform(text(t, a) for _, t, a in papers)
analyze = vectorizer.build_analyzer()
out = {
    "papers": [{"id": i, "title": t, "abstract": a} for i, t, a in papers],
    "paper_terms": [analyze(text(t, a)) for _, t, a in papers],
    "queries": queries,
    "query_terms": [analyze(q) for q in queries],
    "scores": (vectorizer.transform(queries) @ matrix.T).toarray().tolist(),
}
path = pathlib.Path(__file__).with_name("reference.json")
path.write_text(json.dumps(out, indent=1) + "\n")
