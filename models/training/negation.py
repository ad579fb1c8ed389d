"""Turns a claim into one that says the opposite, by a word or a 'not'.

Evidence for a claim is evidence against its negation. A small label model sees
few contradictions in SciFact; negated training claims show it that the
direction of a finding matters, not its topic. The rules are plain on purpose:
a claim that fits none gives None rather than a doubtful sentence.
"""
import re

# Each word becomes the other of its pair; forms are listed, not derived.
PAIRS = [
    ("increase", "decrease"), ("increases", "decreases"), ("increased", "decreased"), ("increasing", "decreasing"),
    ("raise", "reduce"), ("raises", "reduces"), ("raised", "reduced"), ("elevated", "reduced"), ("elevates", "lowers"),
    ("higher", "lower"), ("high", "low"), ("more", "fewer"), ("greater", "smaller"), ("longer", "shorter"),
    ("improve", "worsen"), ("improves", "worsens"), ("improved", "worsened"), ("better", "worse"),
    ("promote", "inhibit"), ("promotes", "inhibits"), ("promoted", "inhibited"),
    ("enhance", "impair"), ("enhances", "impairs"), ("enhanced", "impaired"),
    ("activate", "suppress"), ("activates", "suppresses"), ("activated", "suppressed"),
    ("upregulates", "downregulates"), ("upregulated", "downregulated"), ("upregulation", "downregulation"),
    ("accelerates", "delays"), ("induces", "prevents"), ("induce", "prevent"), ("causes", "prevents"), ("cause", "prevent"),
    ("positive", "negative"), ("positively", "negatively"), ("gain", "loss"), ("early", "late"),
    ("sensitive", "resistant"), ("sensitivity", "resistance"), ("beneficial", "harmful"), ("protects", "harms"),
    ("effective", "ineffective"), ("necessary", "unnecessary"), ("dependent", "independent"), ("warms", "cools"),
    ("strengthens", "weakens"), ("stabilizes", "destabilizes"), ("presence", "absence"), ("upper", "lower"),
]
OPPOSITE = {}
for one, other in PAIRS:
    OPPOSITE.setdefault(one, other)
    OPPOSITE.setdefault(other, one)

# Words that may stand for one another without turning a claim round.
SAME = [
    "increase raise enhance boost", "increases raises enhances boosts", "increased raised enhanced elevated",
    "reduce lower decrease cut", "reduces lowers decreases cuts", "reduced lowered decreased diminished",
    "higher greater", "improves enhances benefits", "worsens aggravates impairs", "promotes stimulates drives", "inhibits suppresses blocks",
    "causes produces brings about", "prevents averts", "activates triggers stimulates", "induces triggers causes",
    "risk danger likelihood", "important essential crucial", "large substantial considerable", "rapidly quickly", "associated linked",
]
SYNONYMS = {}
for group in SAME:
    for word in group.split():
        SYNONYMS.setdefault(word, [w for w in group.split() if w != word and w != "about" and w != "brings"])

AUXILIARY = re.compile(r"\b(is|are|was|were|can|could|may|will|should|does|do|did|has|have)\b( not\b)?", re.I)
VERB = {  # third person to base form, for 'does not'
    w: w[:-1] for w in ("increases decreases reduces raises improves worsens promotes inhibits impairs activates "
                        "causes induces prevents leads affects regulates mediates contributes plays results requires "
                        "protects predicts alters controls correlates interacts binds decreases enables enhances provides").split()
}


def negate(claim, rng):
    """The negated claim, or None."""
    ways = [way for way in (_swap, _auxiliary, _does_not) if way(claim, rng)]
    return rng.choice(ways)(claim, rng) if ways else None


def _swap(claim, rng):
    words = [m for m in re.finditer(r"[A-Za-z]+", claim) if m.group().lower() in OPPOSITE]
    if not words:
        return None
    m = rng.choice(words)
    return claim[:m.start()] + _like(OPPOSITE[m.group().lower()], m.group()) + claim[m.end():]


def reword(claim, rng):
    """The claim in other words, or None."""
    words = [m for m in re.finditer(r"[A-Za-z]+", claim) if SYNONYMS.get(m.group().lower())]
    for m in reversed(words):
        claim = claim[:m.start()] + _like(rng.choice(SYNONYMS[m.group().lower()]), m.group()) + claim[m.end():]
    return claim if words else None


def _auxiliary(claim, rng):
    m = AUXILIARY.search(claim)
    if not m:
        return None
    return claim[:m.end(1)] + ("" if m.group(2) else " not") + claim[m.end():]


def _does_not(claim, rng):
    words = [m for m in re.finditer(r"[a-z]+", claim) if m.group() in VERB]
    if not words or AUXILIARY.search(claim):
        return None
    m = words[0]
    return claim[:m.start()] + "does not " + VERB[m.group()] + claim[m.end():]


def _like(word, model):
    return word.capitalize() if model[:1].isupper() else word


FRAMES = {  # what an abstract may say of a claim, word for word: "{}" is the claim
    "SUPPORT": ["{}", "We found that {}", "These results show that {}", "In this trial {}", "The data confirm that {}"],
    "CONTRADICT": ["We found no evidence that {}", "It is not true that {}", "The data do not support the idea that {}",
                   "Contrary to earlier reports that {}, no such effect was seen.", "In this trial the claim that {} was refuted."],
    "NOT_ENOUGH_INFO": ["We asked whether {}", "It is unknown whether {}", "We enrolled adults to test if {}", "The hypothesis is that {}"],
}


def statements(claim, rng):
    """(evidence, claim, label) triples in which only a negation or a frame decides.

    The claim itself and its negation stand in for an abstract's sentence, so
    that the words are shared and nothing but the direction tells the label.
    """
    label = rng.choice(list(FRAMES))
    out = [(rng.choice(FRAMES[label]).format(_inside(claim)), claim, label)]
    opposite = negate(claim, rng)
    if opposite:
        first, second = (claim, opposite) if rng.random() < 0.5 else (opposite, claim)
        out.append((first, second, "CONTRADICT"))
        same = reword(second, rng)
        if same:
            out.append((rng.choice(FRAMES["SUPPORT"]).format(_inside(same)), second, "SUPPORT"))
        out.append((second, second, "SUPPORT") if rng.random() < 0.3 else
                   (rng.choice(FRAMES["SUPPORT"]).format(_inside(first)), second, "CONTRADICT"))
    return out


def _inside(claim):
    """The claim as a part of a sentence: a small first letter unless the word looks like a name."""
    first = claim.split(" ", 1)[0]
    claim = claim.rstrip(" .")
    return claim if first[1:] != first[1:].lower() or len(first) < 2 else claim[0].lower() + claim[1:]
