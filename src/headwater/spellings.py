"""An English word -> the same word as the other side of the ocean writes it: colour and color, organise and organize.

By endings and pairs of letters, of the words that have them only. Words with a spelling of their own (tyre, aluminium)
stand in the table of synonyms. Traditional and simplified characters need none of this: both are folded into one before
anything is cut or compared.
"""

from __future__ import annotations

import re
from typing import Final

# Words in -ise on both sides, and in -ize on both: they only look like organise and organize.
_ALWAYS_S: Final = (
    "adv|advert|ar|chast|circumc|compr|comprom|conc|cru|dem|desp|dev|disgu|exc|exerc|expert|franch|gu|improv|inc|l|"
    "merchand|no|otherw|likew|clockw|pra|prec|prem|prom|ra|appra|reappra|rev|r|ar|superv|surm|surpr|telev|treat|tort|po|"
    "porpo|turquo|cho|bru|anyw|w|enterpr|repr|ma|va|d|m|p|parad"
)
_ALWAYS_Z: Final = "s|pr|se|caps|res|overs|outs|downs|ma|ass|bapt|br"
_OUR: Final = (
    "arb|ard|arm|behavi|cand|clam|col|dem|discol|disfav|dishon|enam|endeav|fav|flav|harb|hon|hum|lab|misdemean|neighb|"
    "od|parl|ranc|rig|rum|sav|splend|succ|tum|val|vap|vig"
)
_AFTER_OUR: Final = "s|ed|ing|ings|able|ably|ful|less|hood|hoods|ly|al|ally|ist|ists|ite|ites|er|ers"
_TRE: Final = "cen|epicen|kilome|centime|millime|nanome|microme|me|millili|li|thea|amphithea|spec|lus|cali"
_OGUE: Final = "catal|dial|anal|monol|prol|epil|travel"
_DOUBLED: Final = (
    "trave|mode|labe|cance|fue|signa|due|counse|pane|leve|channe|tunne|barre|shove|quarre|unrave|marve|jewe|equa|riva|"
    "tota|spira|peda|initia|marsha|enro|insta|dia|bevel|trowe"
)
_GREEK: Final = (
    ("haem", "hem"), ("anaem", "anem"), ("anaesth", "anesth"), ("leukaem", "leukem"), ("orthopaed", "orthoped"),
    ("paediatr", "pediatr"), ("gynaec", "gynec"), ("oestr", "estr"), ("foet", "fet"), ("oedem", "edem"),
    ("diarrhoea", "diarrhea"), ("oesoph", "esoph"), ("manoeuvre", "maneuver"), ("archaeo", "archeo"),
    ("aetiolog", "etiolog"), ("encyclopaed", "encycloped"),
)  # fmt: skip

# A word as one side writes it, and what takes the place of the part in the middle; each way once.
_RULES: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern), other)
    for pattern, other in (
        (rf"(?!(?:{_ALWAYS_S})is)([a-z]{{2,}})is(e[drs]?|ers|ing|able|ations?|ational)", r"\1iz\2"),
        (rf"(?!(?:{_ALWAYS_Z})iz)([a-z]{{2,}})iz(e[drs]?|ers|ing|able|ations?|ational)", r"\1is\2"),
        (r"((?:psycho)?anal|catal|paral|hydrol|electrol|dial)ys(e[drs]?|ers|ing)", r"\1yz\2"),
        (r"((?:psycho)?anal|catal|paral|hydrol|electrol|dial)yz(e[drs]?|ers|ing)", r"\1ys\2"),
        (rf"({_OUR})our({_AFTER_OUR})?", r"\1or\2"),
        (rf"({_OUR})or({_AFTER_OUR})?", r"\1our\2"),
        (rf"({_TRE})tre(s|d)?", r"\1ter\2"),
        (rf"({_TRE})ter(s)?", r"\1tre\2"),
        (r"(fi|sa|som)bre(s)?", r"\1ber\2"),
        (r"(fi|sa|som)ber(s)?", r"\1bre\2"),
        (rf"({_OGUE})ogue(s|d)?", r"\1og\2"),
        (r"(def|off|lic|pret)ence(s|less)?", r"\1ense\2"),
        (r"(def|off|lic|pret)ense(s|less)?", r"\1ence\2"),
        (rf"({_DOUBLED})ll(ing|ings|ed|er|ers|ery)", r"\1l\2"),
        (rf"({_DOUBLED})l(ing|ings|ed|er|ers|ery)", r"\1ll\2"),
        *((rf"{british}([a-z]*)", rf"{american}\1") for british, american in _GREEK),
        *((rf"{american}([a-z]*)", rf"{british}\1") for british, american in _GREEK if len(american) > 3),
    )
)
_OG: Final = re.compile(r"(cata|dia|ana|mono|pro|epi|trave)log(s|ed)?")


def respelled(word: str) -> str:
    """The word in the other spelling; empty where there is none. Small letters in and out."""
    if not word.isascii():
        return ""
    for pattern, other in _RULES:
        found = pattern.fullmatch(word)
        if found is not None:
            return found.expand(other)
    found = _OG.fullmatch(word)
    return f"{found[1]}logue{found[2] or ''}" if found is not None else ""
