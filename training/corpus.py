"""Sentences from freely licensed Debian packages: what the teachers read aloud.

usage: python -m training.corpus WORK

Writes WORK/text/{en,fr}.{train,heldout}.txt, one sentence a line. The held-out sentences come from another source (GNOME's user
guide) than the training sentences.
"""

from __future__ import annotations

import html
import itertools
import random
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

# what each package holds and under which licence is in README.md
PACKAGES = (
    "fortunes",
    "fortunes-min",
    "gimp-help-en",
    "gimp-help-fr",
    "debian-reference-en",
    "debian-reference-fr",
    "debian-edu-doc-en",
    "debian-edu-doc-fr",
    "aptitude-doc-en",
    "aptitude-doc-fr",
    "wfrench",
    "wamerican",
    "wordnet-base",
    "gnome-user-docs",
)
SHORTEST, LONGEST = 12, 90
LETTERS = {"en": "A-Za-z", "fr": "A-Za-zàâäçéèêëîïôöùûüÿœæÀÂÇÉÈÊËÎÏÔÙÛŒÆ"}
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
HELDOUT_SENTENCES = 400
DICTIONARY_LINES = 1500
EXAMPLES = 6000
FORTUNES_UNFIT = {"ascii-art", "art", "cookie", "debian", "knghtbrd", "linux", "magic", "perl", "songs-poems"}
FORTUNES_UNFIT |= {"startrek", "zippy"}


def unpack(folder: Path) -> None:
    """Downloads PACKAGES and unpacks them below `folder`, without installing them."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:
        if not list(folder.glob(f"{package}_*.deb")):
            subprocess.run(["apt-get", "download", "-qq", package], cwd=folder, check=True)
        subprocess.run(["dpkg", "-x", str(next(folder.glob(f"{package}_*.deb"))), str(folder / "root")], check=True)


FOREIGN = {"en": r"\b(der|und|les|des)\b", "fr": r"(?i)\b(the|and|you|is|are|of|this|for|by|with|on)\b"}


def is_readable(sentence: str, language: str) -> bool:
    """Plain prose of a length that a voice reads in one breath: no markup, no names in capitals, no code."""
    letters = LETTERS[language]
    return (
        SHORTEST <= len(sentence) <= LONGEST
        and re.fullmatch(rf"[A-ZÀÂÇÉÈÊËÎÏÔÙÛŒÆ][{letters}0-9 ,;:'’()\-]*[{letters}0-9)][.!?]", sentence) is not None
        and re.search(r"[A-Z]{2}|\d{5}|[a-z][A-Z]|[({,;:\-]$|--", sentence) is None
        and re.search(FOREIGN[language], sentence) is None
        and len(sentence.split()) >= 3
    )


def tidy(text: str) -> str:
    """One line of text with plain apostrophes and single spaces."""
    text = text.replace("’", "'").replace("«", "").replace("»", "").replace('"', "").replace("…", ".")
    text = re.sub(r"\s+([.,])", r"\1", " ".join(text.split()))
    return re.sub(r"\s+([;:!?])", r"\1", text)


def sentences(paragraphs: Iterable[str], language: str) -> list[str]:
    """The readable sentences of `paragraphs`, each once, in their order."""
    found: dict[str, None] = {}
    for paragraph in paragraphs:
        for sentence in SENTENCE_END.split(tidy(paragraph)):
            if is_readable(sentence, language):
                found.setdefault(sentence)
    return list(found)


def fortunes(root: Path) -> Iterator[str]:
    for file in sorted((root / "usr/share/games/fortunes").glob("*")):
        if file.suffix == "" and file.name not in FORTUNES_UNFIT and not file.is_symlink():
            for fortune in file.read_text("utf-8", errors="ignore").split("\n%\n"):
                yield re.sub(r"\n\s*--.*", "", fortune, flags=re.DOTALL)


def paragraphs(files: Iterable[Path]) -> Iterator[str]:
    """The text of every paragraph of HTML or Mallard pages."""
    for file in sorted(files):
        for paragraph in re.findall(r"<p[ >].*?</p>", file.read_text("utf-8", errors="ignore"), flags=re.DOTALL):
            yield html.unescape(re.sub(r"<[^>]*>", "", "<" + paragraph.lstrip("<")))


def words(file: Path, language: str, count: int, rng: random.Random) -> list[str]:
    """`count` lines of one to three dictionary words: they teach words that the guides never use, and short texts."""
    known = [w for w in file.read_text("utf-8").split() if re.fullmatch(rf"[{LETTERS[language]}]{{3,12}}", w) and w.islower()]
    lines = []
    for _ in range(count):
        chosen = rng.sample(known, rng.choice((1, 1, 2, 2, 3)))
        lines.append(", ".join(chosen).capitalize() + rng.choice((".", ".", ".", "!", "?")))
    return lines


def examples(folder: Path, count: int) -> list[str]:
    """`count` of WordNet's examples of how a word is used: short, and of words that no guide has. Few are whole sentences."""
    quoted = [
        example.strip(" ;,")
        for file in sorted(folder.glob("data.*"))
        for line in file.read_text("utf-8").splitlines()
        for example in re.findall(r'"([^"]+)"', line.partition("|")[2])
    ]
    ended = (e if e.endswith((".", "!", "?")) else f"{e}." for e in quoted if e)
    readable = sentences((e[0].upper() + e[1:] for e in ended), "en")
    return random.Random("examples").sample(readable, min(count, len(readable)))


def everyday(language: str) -> list[str]:
    return (Path(__file__).parent / f"everyday.{language}.txt").read_text("utf-8").splitlines()


GUIDES = (
    ("usr/share/gimp/2.0/help/{0}", "*.html"),
    ("usr/share/debian-reference", "*.{0}.html"),
    ("usr/share/doc/debian-edu-doc-{0}", "*.html"),
    ("usr/share/doc/aptitude/html/{0}", "*.html"),
)
"""Folders with pages in a language that are read for training, and their names."""
DICTIONARIES = {"en": "american-english", "fr": "french"}


def training_sentences(language: str, root: Path, rng: random.Random) -> list[str]:
    """WordNet's come last: the first sentences number the phones, which the shipped talker has learnt."""
    pages = [page for f, names in GUIDES for page in (root / f.format(language)).rglob(names.format(language))]
    prose = itertools.chain(fortunes(root) if language == "en" else (), paragraphs(pages))
    dictionary = root / "usr/share/dict" / DICTIONARIES[language]
    found = sentences(prose, language) + words(dictionary, language, DICTIONARY_LINES, rng)
    rng.shuffle(found)
    return everyday(language) + found + (examples(root / "usr/share/wordnet", EXAMPLES) if language == "en" else [])


def heldout_sentences(language: str, root: Path, known: set[str], rng: random.Random) -> list[str]:
    """From GNOME's user guide, which training never reads; without numbers, which a recogniser writes in its own way."""
    guide = root / "usr/share/help" / {"en": "C", "fr": "fr"}[language] / "gnome-help"
    found = sentences(paragraphs(guide.glob("*.page")), language)
    fit = [s for s in found if s not in known and len(s) >= 20 and not re.search(r"\d", s)]
    return rng.sample(fit, min(HELDOUT_SENTENCES, len(fit)))


def main() -> None:
    work = Path(sys.argv[1])
    unpack(work / "packages")
    (work / "text").mkdir(parents=True, exist_ok=True)
    for language in ("en", "fr"):
        rng = random.Random(language)
        train = training_sentences(language, work / "packages/root", rng)
        heldout = heldout_sentences(language, work / "packages/root", set(train), rng)
        for name, lines in (("train", train), ("heldout", heldout)):
            (work / f"text/{language}.{name}.txt").write_text("\n".join(lines) + "\n", "utf-8")
            print(f"{language} {name}: {len(lines)} sentences, {sum(map(len, lines)) / len(lines):.0f} characters each")


if __name__ == "__main__":
    main()
