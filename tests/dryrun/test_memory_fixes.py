"""What is proposed where memory has run out: the same without what takes it all."""

from __future__ import annotations

import pytest
from fixes_harness import proposed


@pytest.mark.parametrize(
    ("body", "ranks", "expected"),
    [
        ("d = (x.unsqueeze(1) - c.unsqueeze(0)).pow(2).sum(-1)", [3, 3], "d = torch.cdist(x, c).pow(2)"),
        ("d = torch.sum((x[:, None] - c[None]) ** 2, dim=2)", [3, 3], "d = torch.cdist(x, c).pow(2)"),
        ("d = (c[None, :, :] - x[:, None, :]).norm(dim=-1)", [3, 3], "d = torch.cdist(x, c)"),
        ("d = torch.linalg.norm(x[..., :, None, :] - c[..., None, :, :], dim=-1)", [4, 4], "d = torch.cdist(x, c)"),
        ("d = (x[:, :, None] - c[:, None]).abs().sum(dim=-1)", [4, 4], "d = torch.cdist(x, c, p=1)"),
        ("d = (x[:, None] - c[None])\n    d = d.pow(2).sum(2).sqrt()", [3, 3], None),
        ("e = x[:, None] - c[None]\n    d = e.pow(2).sum(2).sqrt()", [3, 3], "d = torch.cdist(x, c)"),
        ("e = x[:, None] - c[None]\n    d = e.pow(2).sum(2).sqrt() + e.mean(2)", [3, 3], None),
        ("d = (x[:, None] - c[None]).pow(2).sum(1)", [3, 3], None),
        ("d = (x[:, None] - c[None]).pow(3).sum(-1)", [3, 3], None),
        ("d = (x[:, None] - c[None]).pow(2).sum(-1)", [4, 4], None),
        ("d = (x[:, None] - c).pow(2).sum(-1)", [3, 3], None),
        ("d = (x[:, None] - c[None]).norm(dim=-1, keepdim=True)", [3, 3], None),
    ],
)
def test_distances_are_computed_without_the_differences(body: str, ranks: list[int], expected: str | None) -> None:
    at = body.partition("\n")[0]
    found = proposed(f"def f(x, c):\n    {body}\n    return d\n", "DG507", at, {"ranks": ranks})
    assert [*found.values()] == ([expected] if expected else [])


def test_the_set_that_needs_no_new_dimension_is_known_by_its_rank() -> None:
    program = "def f(x, c):\n    return (x[:, None] - c).pow(2).sum(-1)\n"
    assert [*proposed(program, "DG507", "x[:, None] - c", {"ranks": [3, 2]}).values()] == [
        "return torch.cdist(x, c).pow(2)"
    ]
    assert not proposed(program, "DG507", "x[:, None] - c", {"ranks": [3, 3]})
    assert not proposed(program, "DG507", "x[:, None] - c", {"ranks": [3, 1]})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "x = x.to(device)\n    print(len(x), x.shape)\n    for i in order:\n        step(x[i.to(device)])",
            "step(x[i].to(device))",
        ),
        ("rows = x.cuda()\n    return rows[a : a + 9]", "rows = x\nreturn rows[a : a + 9].cuda()"),
        ("x = x.to(device)\n    return x[0], x.mean()", None),
        ("x = x.to(device)\n    x[0] = 1\n    return x[1]", None),
        ("x = x.to(device)\n    y = x[0]\n    x = y", None),
        ("x = x.to(device)\n    return x.shape", None),
    ],
)
def test_a_set_is_moved_part_by_part(body: str, expected: str | None) -> None:
    at = body.partition("\n")[0]
    found = proposed(f"def f(x, order, step, device, a):\n    {body}\n", "DG507", at)
    assert [*found.values()] == ([expected] if expected else [])
