"""The commands of a shell's text, as words: quotes, variables that are known, and continued lines are undone.

It is a reader of what launches are made of, no shell: what only running a command would tell stays as it is written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_NAME = re.compile(r"[A-Za-z_]\w*")
_OPERATORS = ("&&", "||", ";;", "|&", ";", "|", "&", "(", ")")
_LEADING = frozenset(("do", "then", "else", "{", "!", "if", "while", "until", "elif"))
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_REDIRECTION = re.compile(r"\d*(?:>>|>&|<&|&>>|&>|>\||>|<)")
_SET = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_HERE = re.compile(r"""\s*(?:cd\s+)?["']?(?:dirname|realpath|readlink -f)\s.*(?:\$0|BASH_SOURCE).*""")
_MOST = 5_000


@dataclass(frozen=True)
class Words:
    """One simple command, and the line on which it begins."""

    words: tuple[str, ...]
    line: int


@dataclass
class Variables:
    """What is known of variables while a script is read; lists are those of ``ARGS=(--lr 0.1)``."""

    known: dict[str, str] = field(default_factory=dict[str, str])
    lists: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    exported: set[str] = field(default_factory=set[str])
    arguments: list[str] = field(default_factory=list[str])
    folder: Path | None = None
    """The folder of the script itself."""

    @property
    def environment(self) -> dict[str, str]:
        """What the commands of the script inherit from it."""
        return {name: self.known[name] for name in self.known if name in self.exported}


class Unclosed(Exception):
    """A quote or a bracket that is never closed."""


def split(text: str) -> list[str]:
    """Return the words of one command, as a shell would pass them on. Raises Unclosed."""
    return _Reader(text, Variables()).words()


def commands(text: str, variables: Variables) -> Iterator[Words]:
    """Yield the simple commands of a script in their order; what they assign is known to those behind.

    Raises Unclosed where the text ends within quotes.
    """
    reader = _Reader(text, variables)
    for _ in range(_MOST):
        words = reader.command()
        if words is None:
            return
        found = _taken(words.words, variables)
        if found:
            yield Words(found, words.line)


def _taken(words: tuple[str, ...], variables: Variables) -> tuple[str, ...]:
    """Take note of what a command assigns, and return what it starts; nothing for one that only assigns."""
    start = next((index for index, word in enumerate(words) if word not in _LEADING), len(words))
    words = words[start:]
    if len(words) == 0:
        return ()
    if words[0] == "for" and len(words) > 3 and words[2] == "in":
        variables.known[words[1]] = words[3]
        return ()
    exports = words[0] in ("export", "declare", "typeset", "local", "readonly")
    if exports or all(_SET.fullmatch(word) for word in words):
        for word in words[exports:]:
            _assign(word, variables, exported=words[0] == "export")
        return ()
    return words


def _assign(word: str, variables: Variables, *, exported: bool) -> None:
    match = _SET.fullmatch(word)
    name = match[1] if match else word
    if match:
        variables.known[name] = (variables.known.get(name, "") if match[2] else "") + match[3]
    if exported and _NAME.fullmatch(name):
        variables.exported.add(name)


class _Reader:
    """Reads a text character by character."""

    def __init__(self, text: str, variables: Variables) -> None:
        self._text = text.replace("\r\n", "\n").replace("\\\n", "\x00")
        self._at = 0
        self._line = 1
        self._variables = variables
        self._documents: list[str] = []
        self._vanished = False
        """Whether the word that is being read has an empty list in it, which makes no word even in quotes."""

    def words(self) -> list[str]:
        """Return the words of all commands."""
        words: list[str] = []
        while (command := self.command()) is not None:
            words += command.words
        return words

    def command(self) -> Words | None:
        """Return the next command; None at the end."""
        words: list[str] = []
        line = 0
        while True:
            self._skip_blanks()
            if self._at >= len(self._text):
                return Words(tuple(words), line) if words else None
            if self._ends():
                if words:
                    return Words(tuple(words), line)
                line = 0
            elif not self._redirected():
                line = line or self._line
                words += self._word()

    def _skip_blanks(self) -> None:
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == "\x00":
                self._line += 1
            elif character == "#":
                end = self._text.find("\n", self._at)
                self._line += self._text.count("\x00", self._at, end if end >= 0 else len(self._text))
                self._at = end if end >= 0 else len(self._text)
                return
            elif character not in " \t":
                return
            self._at += 1

    def _ends(self) -> bool:
        """Take what ends a command, if it stands here; say whether it does."""
        if self._text[self._at] == "\n":
            self._at += 1
            self._line += 1
            self._skip_documents()
            return True
        if self._text.startswith("&>", self._at):
            return False
        found = next((operator for operator in _OPERATORS if self._text.startswith(operator, self._at)), "")
        self._at += len(found)
        return bool(found)

    def _skip_documents(self) -> None:
        """Pass over the here-documents that the line above has begun."""
        for end in self._documents:
            while self._at < len(self._text):
                stop = self._text.find("\n", self._at)
                stop = len(self._text) if stop < 0 else stop
                line, self._at = self._text[self._at : stop], stop + 1
                self._line += 1 + line.count("\x00")
                if line.strip() == end:
                    break
        self._documents.clear()

    def _redirected(self) -> bool:
        """Pass over a redirection with its file, if one stands here; say whether one did."""
        document = _HEREDOC.match(self._text, self._at)
        match = document or _REDIRECTION.match(self._text, self._at)
        if match is None:
            return False
        self._at = match.end()
        if document:
            self._documents.append(document[2])
            return True
        self._skip_blanks()
        if self._at < len(self._text) and self._text[self._at] not in "\n;|&":
            self._word()
        return True

    def _word(self) -> list[str]:
        """Take a word; a list of several, or none, where a variable holds a list."""
        start, parts, quoted = self._at, [""], False
        self._vanished = False
        while self._at < len(self._text):
            character = self._text[self._at]
            if character in " \t\n;|&()<>\x00" and not (character == "(" and self._opens_list(start)):
                break
            if character in "'\"":
                quoted = True
            self._piece(character, parts)
        if self._at == start:
            self._at += 1  # a lone bracket or angle says nothing
        return [word for word in parts if word or (quoted and not self._vanished)]

    def _opens_list(self, start: int) -> bool:
        return re.fullmatch(r"[A-Za-z_]\w*\+?=", self._text[start : self._at]) is not None

    def _piece(self, character: str, parts: list[str]) -> None:
        """Take a piece of a word, and add what it means to the last of the parts."""
        if character == "'":
            parts[-1] += self._until("'")
        elif character == '"':
            self._double_quoted(parts)
        elif character == "\\":
            self._at += 1
            parts[-1] += self._text[self._at : self._at + 1]
            self._at += 1
        elif character == "$":
            self._spread(self._expanded(), parts, quoted=False)
        elif character == "`":
            parts[-1] += f"`{self._until('`')}`"
        elif character == "(":
            self._list(parts)
        else:
            parts[-1] += character
            self._at += 1

    def _list(self, parts: list[str]) -> None:
        """Take ``NAME=(a b c)`` as the list of that name."""
        name = parts.pop().rstrip("=").rstrip("+")
        adds = self._text[self._at - 2] == "+"
        self._at += 1
        found: list[str] = []
        while True:
            self._skip_blanks()
            if self._at >= len(self._text):
                raise Unclosed("a list is not closed")
            if self._text[self._at] == "\n":
                self._at += 1
                self._line += 1
            elif self._text[self._at] == ")":
                self._at += 1
                break
            else:
                found += self._word()
        self._variables.lists[name] = [*(self._variables.lists.get(name, ()) if adds else ()), *found]
        parts.append("")

    def _until(self, quote: str) -> str:
        end = self._text.find(quote, self._at + 1)
        if end < 0:
            raise Unclosed(f"a {quote} is not closed")
        taken, self._at = self._text[self._at + 1 : end], end + 1
        self._line += taken.count("\n") + taken.count("\x00")
        return taken.replace("\x00", "\\\n" if quote == "'" else "")

    def _double_quoted(self, parts: list[str]) -> None:
        self._at += 1
        while True:
            if self._at >= len(self._text):
                raise Unclosed('a " is not closed')
            character = self._text[self._at]
            if character == '"':
                self._at += 1
                return
            if character == "$":
                self._spread(self._expanded(), parts, quoted=True)
                continue
            if character == "\\" and self._text[self._at + 1 : self._at + 2] in tuple('"\\$`'):
                self._at += 1
                character = self._text[self._at]
            self._line += character in "\n\x00"
            parts[-1] += "" if character == "\x00" else character
            self._at += 1

    def _spread(self, found: str | list[str], parts: list[str], *, quoted: bool) -> None:
        """Add a value to the word; a list, and what has blanks outside of quotes, make several words."""
        words = [found] if isinstance(found, str) and (quoted or not found.strip()) else found
        pieces = words.split() if isinstance(words, str) else words
        if pieces:
            parts[-1] += pieces[0]
            parts.extend(pieces[1:])
        self._vanished = self._vanished or (isinstance(found, list) and not found)

    def _expanded(self) -> str | list[str]:
        """Take what a dollar begins; return its value, or its text where nothing gives one."""
        text, at = self._text, self._at
        if text.startswith("$(", at):
            return self._substituted()
        if text.startswith("${", at):
            end = text.find("}", at)
            if end < 0:
                raise Unclosed("a ${ is not closed")
            self._at = end + 1
            return self._braced(text[at + 2 : end])
        name = _NAME.match(text, at + 1)
        if name:
            self._at = name.end()
            return self._value(name[0], f"${name[0]}")
        special = text[at + 1 : at + 2]
        self._at += 2 if special and special in "@*#?$!0123456789" else 1
        if special in ("@", "*"):
            return list(self._variables.arguments)
        if special.isdigit() and special != "0":
            return self._numbered(special)
        return f"${special}" if special == "0" else ("$" if self._at == at + 1 else "")

    def _substituted(self) -> str:
        """Take ``$(...)``: the folder of the script where that is asked for, else the text as it stands."""
        start, depth = self._at, 0
        while self._at < len(self._text):
            depth += {"(": 1, ")": -1}.get(self._text[self._at], 0)
            self._at += 1
            if depth == 0 and self._at > start + 1:
                break
        inside = self._text[start + 2 : self._at - 1]
        if self._variables.folder is not None and _HERE.match(inside):
            return str(self._variables.folder)
        return self._text[start : self._at].replace("\x00", "")

    def _braced(self, inside: str) -> str | list[str]:
        """Return the value of ``${NAME}``, ``${NAME:-default}`` or ``${LIST[@]}``."""
        if inside in ("@", "*"):
            return list(self._variables.arguments)
        match = re.match(r"([A-Za-z_]\w*|\d)(\[[@*]\])?(:?[-=+?])?", inside)
        if match is None or not (match[3] or match.end() == len(inside)):
            return f"${{{inside}}}"
        if match[2]:
            return list(self._variables.lists.get(match[1], ()))
        if match[3] and match[3][-1] in "-=":
            default = inside[match.end() :]
            value = self._numbered(match[1]) if match[1].isdigit() else self._value(match[1], "")
            return value if value else " ".join(_Reader(default, self._variables).words())
        if match[1].isdigit():
            return self._numbered(match[1])
        return self._value(match[1], f"${{{inside}}}")

    def _numbered(self, number: str) -> str:
        given = self._variables.arguments
        return given[int(number) - 1] if 0 < int(number) <= len(given) else ""

    def _value(self, name: str, unknown: str) -> str:
        if name in self._variables.known:
            return self._variables.known[name]
        return os.environ.get(name, unknown) if name in _OF_EVERYONE else unknown


_OF_EVERYONE: Mapping[str, None] = dict.fromkeys(("HOME", "USER", "PWD"))
"""Variables that a script may count on wherever it runs."""
