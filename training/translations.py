"""The same text in Chinese and English: translated pages, message catalogues, names in Unicode's tables."""

import collections
import gettext
import html
import io
import json
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path

from texts import Pair, has_cjk, markup_files, read_text, squeeze, strip_tags

LANGUAGE_IN_PATH = re.compile(
    r"(?<=[/.])(zh[_-]CN|zh[_-]cn|zh|en[_-]US|en|C)(?=[/.])|translations/zh_CN/|-zh-cn\b|-(?:en|zh)\b"
)


def read_parallel_pages(root: Path) -> list[Pair]:
    """Blocks at the same place in the English and the Chinese version of one page."""
    sides: dict[str, dict[bool, Path]] = collections.defaultdict(dict)
    for path in markup_files(root):
        inner = str(path.relative_to(root))
        chinese = re.search(r"[/.-]zh([_-](CN|cn))?[/.]|-zh-cn/", inner) is not None
        if chinese or not re.search(r"/[a-z]{2}(_[A-Z]{2}|-[A-Z]{2})/(?<!en-US/)(?<!en_US/)", inner):
            key = re.sub(r"/+", "/", LANGUAGE_IN_PATH.sub("", inner.split("/", 1)[1]))
            sides[key][chinese] = path
    pairs: list[Pair] = []
    block = re.compile(r"(?is)<(p|li|h[1-6]|dt|title|term|desc)\b[^>]*>(.*?)</\1>")
    for side in sides.values():
        if len(side) == 2:
            english = [strip_tags(b) for _, b in block.findall(read_text(side[False]))]
            chinese_blocks = [strip_tags(b) for _, b in block.findall(read_text(side[True]))]
            if len(english) == len(chinese_blocks):
                pairs += [(z, e) for z, e in zip(chinese_blocks, english, strict=True) if is_translation(z, e)]
    return pairs


def is_translation(chinese: str, english: str) -> bool:
    if not has_cjk(chinese) or has_cjk(english) or len(english) < 3:
        return False
    return 0.8 < len(english) / len(chinese) < 9 and len(english) < 1500


def read_catalogues(roots: Iterable[Path]) -> list[Pair]:
    """Translated messages of compiled gettext catalogues."""
    found: dict[Pair, None] = {}
    for root in roots:
        for path in sorted(root.rglob("zh_*/LC_MESSAGES/*.mo")):
            try:
                with path.open("rb") as stream:
                    catalogue = gettext.GNUTranslations(stream)._catalog  # type: ignore[attr-defined]
            except (OSError, UnicodeDecodeError, ValueError):
                continue
            for key, value in catalogue.items():
                message = (key[0] if isinstance(key, tuple) else key).split("\x04")[-1]
                pair = (clean_message(value), clean_message(message))
                if is_translation(*pair):
                    found[pair] = None
    return list(found)


def read_wheel_translations(wheel: Path) -> list[Pair]:
    """Messages that a wheel has in English and Chinese: gettext catalogues and JSON files."""
    from babel.messages.pofile import read_po

    archive = zipfile.ZipFile(wheel)
    names = archive.namelist()
    found: dict[Pair, None] = {}
    messages: list[tuple[str, str]] = []
    compiled = {n[:-3] for n in names if n.endswith(".mo")}
    for name in names:
        if re.search(r"/zh[^/]*/(LC_MESSAGES/)?[^/]+\.mo$", name):
            catalogue = gettext.GNUTranslations(io.BytesIO(archive.read(name)))._catalog  # type: ignore[attr-defined]
            for key, value in catalogue.items():
                messages.append(((key[0] if isinstance(key, tuple) else key).split("\x04")[-1], value))
        elif re.search(r"/zh[^/]*/(LC_MESSAGES/)?[^/]+\.po$", name) and name[:-3] not in compiled:
            # Some tools write dates that the parser refuses; nobody needs them here.
            text = re.sub(rb'(?m)^"[\w-]+-Date:.*\n', b"", archive.read(name))
            for message in read_po(io.BytesIO(text)):
                if isinstance(message.id, str) and isinstance(message.string, str):
                    messages.append((message.id, message.string))
    sides: dict[str, dict[str, str]] = collections.defaultdict(dict)
    for name in names:
        place = re.fullmatch(
            r"(.*/(?:translations|locales)/(?:\w+/)?)(en|zh-Hans|zh-CN)(?:-[0-9a-f]{32})?((?:/\w+)?\.json)", name
        )
        if place:
            sides[place[1] + place[3]][place[2]] = name
    for side in sides.values():
        if len(side) == 2:
            english = flatten(json.loads(archive.read(side.pop("en"))))
            chinese = flatten(json.loads(archive.read(next(iter(side.values())))))
            messages += [(text, chinese[key]) for key, text in english.items() if key in chinese]
    for message, value in messages:
        pair = (clean_message(value), clean_message(message))
        if is_translation(*pair):
            found[pair] = None
    return list(found)


def flatten(tree: object, path: str = "") -> dict[str, str]:
    if isinstance(tree, dict):
        return {k: v for key, inner in tree.items() for k, v in flatten(inner, f"{path}/{key}").items()}
    return {path: tree} if isinstance(tree, str) else {}


def read_unicode_names(wheel: Path) -> list[Pair]:
    """Names of languages, countries, currencies (babel) and emoji (emoji), all from Unicode's CLDR."""
    from babel import Locale

    english, chinese = Locale("en"), Locale("zh")
    pairs = [
        (getattr(chinese, kind)[key], name)
        for kind in ("languages", "territories", "scripts", "currencies")
        for key, name in getattr(english, kind).items()
        if key in getattr(chinese, kind)
    ]
    archive = zipfile.ZipFile(wheel)
    emoji = json.loads(archive.read("emoji/unicode_codes/emoji.json"))
    for key, names in json.loads(archive.read("emoji/unicode_codes/emoji_zh.json")).items():
        name = names["zh"] if isinstance(names, dict) else names
        if "skin_tone" not in emoji[key]["en"]:
            pairs.append((name.strip(":").replace("_", " "), emoji[key]["en"].strip(":").replace("_", " ")))
    return [p for p in pairs if is_translation(*p)]


def clean_message(text: str) -> str:
    text = re.sub(r"\([_&]\w\)|<[^>]*>|%\(?\w*\)?[sdiuflx\d]|\{+[^}]*\}+|\$\w+", " ", html.unescape(text))
    return squeeze(re.sub(r"[_&](?=\w)", "", text)).strip(" .:…。：")
