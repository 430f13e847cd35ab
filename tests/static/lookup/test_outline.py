"""What a module's text binds."""

from __future__ import annotations

import pytest

from drygrad.static.lookup.outline import PLAIN, UNCLEAR, Class, Function, Import, Value, outline_of


def bindings(text: str) -> dict[str, object]:
    return dict(outline_of(text.encode()).bindings)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import a.b", {"a": Import("a")}),
        ("import a.b as c", {"c": Import("a.b")}),
        ("from a import b as c", {"c": Import("a.b")}),
        ("from .. import b", {"b": Import("..b")}),
        ("from .a import b", {"b": Import(".a.b")}),
        ("class A(x.B[int], f()): ...", {"A": Class(("x.B", None))}),
        ("a = b.c", {"a": Value("name", "b.c")}),
        ("a: T = b()", {"a": Value("call", "b")}),
        ("a = T[k]()", {"a": UNCLEAR}),
        ("a, b = f()", {"a": UNCLEAR, "b": UNCLEAR}),
        ("a = [1]", {"a": PLAIN}),
        ("a = N().to(d).eval()", {"a": Value("call", "N", fluent=True)}),
        ("try:\n    import a\nexcept ImportError:\n    a = None", {"a": Import("a")}),
        ("if t:\n    from b import c\nelse:\n    from d import c", {"c": Import("b.c")}),
        ("with x:\n    import a", {"a": Import("a")}),
    ],
)
def test_bindings(text: str, expected: dict[str, object]) -> None:
    assert bindings(text) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return N()", (Value("call", "N"),)),
        ("n = N()\n    return n", (Value("call", "N"),)),
        ("n = N()\n    return n.to(d)", (Value("call", "N", fluent=True),)),
        ("n = N()\n    n = N()\n    return n", (Value("call", "N"),)),
        ("n = N()\n    n = n.to(d)\n    return n", (Value("call", "N", fluent=True),)),
        ("n = N()\n    n = n\n    return n", (Value("call", "N"),)),
        ("n = N()\n    n += 1\n    return n", (PLAIN, Value("call", "N"))),
        ("a = b\n    b = a\n    return a", (UNCLEAR,)),
        ("a = N()\n    return a.make()", (UNCLEAR,)),
        ("with N() as n:\n        return n", (UNCLEAR,)),
        ("for n in y: pass\n    return n", (UNCLEAR,)),
        ("return x", (PLAIN,)),
        ("return x.float()", (PLAIN,)),
        ("yield N()", (PLAIN,)),
        ("return 1, 2", (PLAIN,)),
        ("def inner(): return N()\n    return 1", (PLAIN,)),
        ("return", (PLAIN,)),
    ],
)
def test_results(body: str, expected: tuple[Value, ...]) -> None:
    function = bindings(f"def f(x):\n    {body}\n")["f"]
    assert isinstance(function, Function)
    assert function.results == expected


def test_annotation_in_quotes() -> None:
    function = bindings("def f() -> 'a.B': ...")["f"]
    assert isinstance(function, Function)
    assert function.annotation == "a.B"


def test_exports() -> None:
    outline = outline_of(b"__all__ = ['a']\n__all__ += ['b']\n")
    assert outline.exported("a")
    assert outline.exported("b")
    assert not outline.exported("c")
    assert outline_of(b"__all__ = make()").exported("c")
    assert not outline_of(b"").exported("_private")


@pytest.mark.parametrize(
    "text", [b"def", b"\0", b"# coding: nonsense\n", b"(" * 500, b"x = a" + b".a" * 2000, b"\xff = 1"]
)
def test_not_python(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        outline_of(text)
