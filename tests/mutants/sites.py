# SPDX-License-Identifier: BSD-2-Clause
"""The places of a source where a mutation can be made, which libclang finds.

A site is a range of a file's bytes, and what stands there in the build: text with the ranges
that stay.  Sites nest: what stays of one may have others.
"""
import os
import re
from dataclasses import dataclass, field

from clang import cindex
from clang.cindex import CursorKind as Kind

KINDS = ("negated", "dropped", "fence", "off by one", "swapped")
# Nobody's behaviour: what a line of a log says, and memory of a process that ends (the tests
# with AddressSanitizer are for that).
LEFT_OUT = re.compile(rb"(\(void\)\s*)?(log_\w+|free|assert|va_end)\s*\(")
FENCE = re.compile(rb"(atomic_thread_fence|dma_fence)\s*\(")
# On x86 no instruction: only the compiler's, which a switch beside it doesn't take away.
NO_FENCE = re.compile(rb"(dma_store_fence|atomic_thread_fence\(memory_order_(acquire|release|acq_rel))\b")
SWAPPED = {b"<": b">", b">": b"<", b"<=": b">=", b">=": b"<=", b"==": b"!=", b"!=": b"=="}
SHIFTED = {b"<": b"<=", b">": b">=", b"<=": b"<", b">=": b">"}
STATEMENTS = (Kind.COMPOUND_STMT, Kind.CASE_STMT, Kind.DEFAULT_STMT, Kind.LABEL_STMT)
LOOPS = (Kind.WHILE_STMT, Kind.FOR_STMT, Kind.DO_STMT)
CONSTANTS = (Kind.CXX_UNARY_EXPR, Kind.STATIC_ASSERT)
LITERAL = re.compile(rb"(0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*\Z")
SPACE = re.compile(rb"(\s|/\*.*?\*/|//[^\n]*)*", re.DOTALL)


@dataclass
class Site:
    """parts: bytes, and (start, end) of what stays; shown: what a reader is told instead."""
    file: str
    function: str
    kind: str
    start: int
    end: int
    parts: list = field(repr=False)
    shown: bytes = b""
    number: int = 0

    def order(self):
        return self.start, -self.end, KINDS.index(self.kind), self.shown


# ----------------------------------------------------------------- text of C

def past_quotes(text, at):
    """Behind the string, character or comment that begins there; at, if none does."""
    if text.startswith(b"/*", at):
        return text.index(b"*/", at) + 2
    if text.startswith(b"//", at):
        return text.index(b"\n", at)
    if text[at:at + 1] in (b'"', b"'"):
        quote, i = text[at], at + 1
        while text[i] != quote:
            i += 2 if text[i] == ord("\\") else 1
        return i + 1
    return at


def tokens(text, at):
    """(place, character) of what is no quote and no comment."""
    while at < len(text):
        past = past_quotes(text, at)
        if past == at:
            yield at, text[at:at + 1]
            past += 1
        at = past


def in_parentheses(text, at):
    """The range between the next pair, and the places of its own semicolons."""
    depth, start, semicolons = 0, None, []
    for i, c in tokens(text, at):
        if c in b"([{":
            depth += 1
            start = i + 1 if start is None else start
        elif c in b")]}":
            depth -= 1
            if depth == 0:
                return start, i, semicolons
        elif c == b";" and depth == 1:
            semicolons.append(i)
    return None


def past_semicolon(text, at):
    end = SPACE.match(text, at).end()
    return end + 1 if text[end:end + 1] == b";" else None


# ----------------------------------------------------------------- the finder

class Finder:
    """Sites of the functions of one file, seen from one that includes it."""

    def __init__(self, file, text, macros):
        self.file, self.text, self.macros = file, text, macros
        self.function, self.sites = "", []

    def add(self, kind, start, end, parts, shown):
        self.sites.append(Site(self.file, self.function, kind, start, end, parts, shown))

    def is_macro(self, start, end):
        return any(s <= start and end <= e for s, e in self.macros)

    def negate(self, start, end):
        start = SPACE.match(self.text, start, end).end()
        end = start + len(self.text[start:end].rstrip())
        old = self.text[start:end]
        if not old or LITERAL.match(old) or old in (b"true", b"false"):
            return
        simple = re.match(rb"!?[\w.>()-]+\Z", old)
        shown = old[1:] if simple and old[:1] == b"!" else b"!" + old if simple else b"!(" + old + b")"
        self.add("negated", start, end, [b"(KVD_MUTANT(@) ^ !!(", (start, end), b"))"], shown)

    def drop(self, start, end):
        end = past_semicolon(self.text, end)
        old = self.text[start:end]
        if end is None or LEFT_OUT.match(old) or NO_FENCE.match(old):
            return
        kind = "fence" if FENCE.match(old) else "dropped"
        self.add(kind, start, end, [b"{ if (!KVD_MUTANT(@)) ", (start, end), b" }"], b";")

    def compare(self, left, right, operator):
        start, end = left[0], right[1]
        for kind, others in (("swapped", SWAPPED), ("off by one", SHIFTED)):
            other = others.get(operator)
            if not other:
                continue
            shown = self.text[start:left[1]] + b" " + other + b" " + self.text[right[0]:end]
            self.add(kind, start, end, [b"(KVD_MUTANT(@) ? ", left, b" " + other + b" ", right, b" : ",
                                        (start, end), b")"], shown)

    def add_one(self, start, end):
        old = self.text[start:end]
        before, after = self.text[:start].rstrip()[-1:], self.text[end:end + 8].lstrip()
        is_place = before == b"[" and re.match(rb"\]\s*=[^=]", after)
        # Any number below 0 says "none".
        is_none = old == b"1" and re.search(rb"([(,=?:]|return)\s*-\Z", self.text[max(0, start - 40):start])
        # Nobody sees memory that is too much.
        is_room = self.text[:start].endswith(b"alloc(")
        if LITERAL.match(old) and not is_place and not is_none and not is_room:
            shown = b"1" if old == b"0" else old + b" + 1"
            shown = b"2" if old == b"1" else shown
            self.add("off by one", start, end, [b"(", (start, end), b" + KVD_MUTANT(@))"], shown)

    # What a node is, and of which kind its parent.

    def look(self, node, parent):
        start, end = node.extent.start.offset, node.extent.end.offset
        if self.is_statement(node, parent):
            self.statement(node, start, end)
        if self.is_macro(start, end) or LEFT_OUT.match(self.text, start) or node.kind in CONSTANTS:
            return
        children = list(node.get_children())
        if node.kind == Kind.INTEGER_LITERAL:
            self.add_one(start, end)
        elif node.kind in (Kind.IF_STMT, Kind.CONDITIONAL_OPERATOR) or node.kind in LOOPS:
            self.condition(node, start, children)
        elif node.kind == Kind.BINARY_OPERATOR and len(children) == 2:
            self.binary(children)
        elif node.kind == Kind.VAR_DECL:
            children = self.initializer(node, start, children)
        elif node.kind == Kind.CASE_STMT:
            children = children[1:]
        for child in children:
            self.look(child, node)

    def is_statement(self, node, parent):
        """It is one of a block, or all that a condition or a loop has."""
        if parent.kind in STATEMENTS:
            return not (parent.kind == Kind.CASE_STMT and next(parent.get_children()) == node)
        if parent.kind not in (Kind.IF_STMT, Kind.WHILE_STMT, Kind.FOR_STMT, Kind.DO_STMT):
            return False
        # Behind its parentheses, in which there are expressions, too.
        between = self.text[parent.extent.start.offset:node.extent.start.offset].rstrip()
        return between.endswith((b")", b"else", b"do"))

    def statement(self, node, start, end):
        while node.kind in (Kind.CSTYLE_CAST_EXPR, Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR):
            node = list(node.get_children())[-1]
        if node.kind in (Kind.CALL_EXPR, Kind.COMPOUND_ASSIGNMENT_OPERATOR):
            self.drop(start, end)
        elif node.kind == Kind.BINARY_OPERATOR and self.operator(list(node.get_children())) == b"=":
            self.drop(start, end)
        elif node.kind == Kind.UNARY_OPERATOR and re.match(rb"\+\+|--|.*(\+\+|--)\Z", self.text[start:end], re.S):
            self.drop(start, end)

    def condition(self, node, start, children):
        if node.kind in (Kind.CONDITIONAL_OPERATOR, Kind.DO_STMT):
            child = children[0 if node.kind == Kind.CONDITIONAL_OPERATOR else -1]
            if not child.kind == Kind.INTEGER_LITERAL:
                self.negate(child.extent.start.offset, child.extent.end.offset)
            return
        word = {Kind.IF_STMT: b"if", Kind.WHILE_STMT: b"while", Kind.FOR_STMT: b"for"}[node.kind]
        at = self.text.startswith(word, start) and in_parentheses(self.text, start)
        if at and node.kind == Kind.FOR_STMT and len(at[2]) == 2:
            self.negate(at[2][0] + 1, at[2][1])
        elif at and node.kind != Kind.FOR_STMT:
            self.negate(at[0], at[1])

    def operator(self, children):
        if len(children) != 2:
            return b""
        between = self.text[children[0].extent.end.offset:children[1].extent.start.offset]
        return re.sub(rb"/\*.*?\*/|\s", b"", between, flags=re.S)

    def binary(self, children):
        left, right = ((c.extent.start.offset, c.extent.end.offset) for c in children)
        operator = self.operator(children)
        if operator in (b"&&", b"||"):
            self.negate(*left)
            self.negate(*right)
        elif operator in SWAPPED:
            self.compare(left, right, operator)

    def initializer(self, node, start, children):
        """Of what lives in a function: an array's size and a static's value are constants."""
        is_static = node.storage_class == cindex.StorageClass.STATIC
        equals = self.text.find(b"=", start, node.extent.end.offset)
        return [] if is_static or equals < 0 else [c for c in children if c.extent.start.offset > equals]


def functions(unit):
    for node in unit.cursor.get_children():
        if node.kind == Kind.FUNCTION_DECL and node.is_definition() and node.extent.start.file:
            yield node


def body(function):
    return [c for c in function.get_children() if c.kind == Kind.COMPOUND_STMT]


class Sources:
    """The files below top, parsed with these flags."""

    def __init__(self, top, flags):
        self.top, self.flags, self.index = top, flags, cindex.Index.create()
        self.seen = set()

    def parse(self, file, text=None, more=()):
        path = os.path.join(self.top, file)
        given = [] if text is None else [(path, text.decode("utf-8", "surrogateescape"))]
        return self.index.parse(path, args=[*self.flags, *more], unsaved_files=given,
                                options=cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD)

    def finders(self, unit, folders):
        """A finder for each of its files that is in those folders."""
        found = {}
        for node in unit.cursor.get_children():
            name = node.extent.start.file and os.path.relpath(node.extent.start.file.name, self.top)
            if not name or not name.startswith(folders):
                continue
            if name not in found:
                with open(os.path.join(self.top, name), "rb") as file:
                    found[name] = Finder(name, file.read(), [])
            if node.kind == Kind.MACRO_INSTANTIATION:
                found[name].macros.append((node.extent.start.offset, node.extent.end.offset))
        return found

    def sites(self, file, folders):
        """Those of the file, and of what it includes and nobody did before."""
        unit = self.parse(file)
        found = self.finders(unit, folders)
        for function in functions(unit):
            name = os.path.relpath(function.extent.start.file.name, self.top)
            where = (name, function.extent.start.offset)
            if name not in found or where in self.seen:
                continue
            self.seen.add(where)
            finder = found[name]
            finder.function = function.spelling
            for block in body(function):
                if not finder.is_macro(block.extent.start.offset, block.extent.end.offset):
                    finder.look(block, function)
        return [site for name in sorted(found) for site in found[name].sites]

    def errors(self, file, text, more):
        return [d for d in self.parse(file, text, more).diagnostics if d.severity >= cindex.Diagnostic.Error]


# ------------------------------------------------------------------ the text

def render(text, sites):
    """The text with all of the sites in it, each a switch."""
    ordered = sorted(sites, key=Site.order)

    def piece(start, end, first):
        out, at, i = [], start, first
        while i < len(ordered):
            site = ordered[i]
            if site.start >= at and site.end <= end:
                out.append(text[at:site.start])
                for part in site.parts:
                    out.append(part.replace(b"@", b"%d" % site.number) if isinstance(part, bytes)
                               else piece(*part, i + 1))
                at = site.end
            elif site.start >= end:
                break
            i += 1
        return b"".join(out) + text[at:end]

    return piece(0, len(text), 0)


def as_diff(text, site):
    """The lines as they are, and as the mutation has them."""
    first = text.rfind(b"\n", 0, site.start) + 1
    last = text.find(b"\n", site.end)
    last = len(text) if last < 0 else last
    new = text[first:site.start] + site.shown + text[site.end:last]
    old = text[first:last].decode("utf-8", "replace").split("\n")
    return old, [] if not new.strip(b"\t ;") else new.decode("utf-8", "replace").split("\n")


def line_of(text, site):
    return text.count(b"\n", 0, site.start) + 1
