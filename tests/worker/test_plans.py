"""What a plan asks for is what is executed; loops end early, backward follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from worker_client import WorkerClient, argument, plan


def output(worker: WorkerClient, *arguments: Any, **fields: Any) -> str:
    result = worker.run(plan(*arguments, **fields))
    assert result["outcome"] == "passed", result
    return result["output"]["text"]


def test_only_the_asked_statements_run_in_their_order(worker: WorkerClient, tmp_path: Path) -> None:
    text = """\
print("top")
def f(x):
    print("f", x)
if __name__ == "__main__":
    print("main")
    size = 3
"""
    wanted = [[2, 0], [6, 4]]
    assert output(worker, tmp_path, text, "f", setup=wanted, arguments=[argument("size")]) == "f 3\n"


def test_the_arguments_of_a_call_in_a_method_see_the_self_of_that_method(worker: WorkerClient, tmp_path: Path) -> None:
    text = """\
class Model:
    def forward(self, x):
        print(x)
class Trainer:
    device = "cuda"
self = Trainer()
model = Model()
"""
    given = argument("self.device", "x", source="call")
    receiver = {**argument("model", "self"), "source": "call"}
    setup = [[1, 0], [4, 0], [6, 0], [7, 0]]
    said = output(worker, tmp_path, text, "Model.forward", setup=setup, arguments=[given], receiver=receiver)
    assert said == "cuda\n"


def test_arguments_of_every_kind(worker: WorkerClient, tmp_path: Path) -> None:
    text = "def f(a, b, *rest, c=0, **more):\n    print(a, b, rest, c, more)\n"
    arguments = [
        argument("1"),
        argument("[2, 3, 4]", star="*"),
        argument("5", "c"),
        argument("{'d': c + 1}", star="**"),
    ]
    assert output(worker, tmp_path, text, "f", arguments=arguments) == "1 2 (3, 4) 5 {'d': 6}\n"


def test_a_script_is_given_the_names_that_it_misses(worker: WorkerClient, tmp_path: Path) -> None:
    assert output(worker, tmp_path, "print(size, __name__)\n", arguments=[argument("3", "size")]) == "3 __main__\n"


def test_an_input_that_cannot_be_made_is_told_at_its_place(worker: WorkerClient, tmp_path: Path) -> None:
    text = "# dry-run: x=missing\ndef f(x):\n    pass\n"
    result = worker.run(plan(tmp_path, text, "f", arguments=[argument("missing", "x", line=1, column=13)]))
    assert result["outcome"] == "failed"
    (fault,) = result["faults"]
    assert fault["message"] == "the input x cannot be created: NameError: name 'missing' is not defined"
    assert (fault["code"], fault["at"]["line"], fault["at"]["column"]) == ("DG907", 1, 13)


MISFITS: list[tuple[str, str, list[dict[str, Any]]]] = [
    ("def f(a, b): pass\n", "f", [argument("1")]),
    ("def f(a, *, b): pass\n", "f", [argument("1"), argument("{'c': 2}", star="**")]),
    (
        "import functools\ndef same(g):\n    @functools.wraps(g)\n    def h(*a, **k):\n        return g(*a, **k)\n"
        "    return h\n@same\ndef f(a, b): pass\n",
        "f",
        [argument("1")],
    ),
]


@pytest.mark.parametrize(("text", "target", "given"), MISFITS)
def test_a_call_that_the_target_cannot_take_gives_no_inputs(
    worker: WorkerClient, tmp_path: Path, text: str, target: str, given: list[dict[str, Any]]
) -> None:
    result = worker.run(plan(tmp_path, text, target, arguments=given))
    assert (result["outcome"], result["faults"], result["called"]) == ("no-inputs", [], False)
    assert result["reason"].startswith("the call does not fit `f`: ")


def test_a_call_that_a_decorator_completes_is_one(worker: WorkerClient, tmp_path: Path) -> None:
    text = (
        "import functools\ndef two(g):\n    @functools.wraps(g)\n    def h(a):\n        return g(a, 2)\n    return h\n"
        "@two\ndef f(a, b):\n    return a + b + None\n"
    )
    result = worker.run(plan(tmp_path, text, "f", arguments=[argument("1")]))
    assert (result["outcome"], result["faults"][0]["at"]["line"]) == ("failed", 9)


def test_forward_is_called_through_the_module(worker: WorkerClient, tmp_path: Path) -> None:
    text = """\
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_forward_hook(lambda *_: print("hooked"))
    def forward(self, x):
        return x * 2
"""
    receiver = {"text": "Net()", "line": None, "column": None, "source": "comment"}
    asked = plan(tmp_path, text, "Net.forward", receiver=receiver, arguments=[argument("torch.ones(2)")])
    result = worker.run(asked)
    assert result["output"]["text"] == "hooked\n"
    assert [item["name"] for item in result["inputs"]] == ["self", "x"]


def test_generators_and_coroutines_run(worker: WorkerClient, tmp_path: Path) -> None:
    text = """\
async def f():
    print("awaited")
def g():
    number = 0
    while True:
        print(number)
        yield number
        number += 1
"""
    assert output(worker, tmp_path, text, "f") == "awaited\n"
    assert output(worker, tmp_path, text, "g") == "0\n1\n2\n"


def test_modules_come_from_the_buffers_first(worker: WorkerClient, tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("x = 'disk'\n")
    (tmp_path / "other.py").write_text("y = 'disk'\n")
    buffers = {str(tmp_path / "old.py"): "x = 'buffer'\n", str(tmp_path / "new.py"): "z = 'unsaved'\n"}
    text = "import old, other, new\nprint(old.x, other.y, new.z)\n"
    assert output(worker, tmp_path, text, buffers=buffers) == "buffer disk unsaved\n"


def test_folders_that_are_searched_last_hide_no_installed_package(worker: WorkerClient, tmp_path: Path) -> None:
    last = tmp_path / "last"
    last.mkdir()
    (last / "typing_extensions.py").write_text("raise SystemExit('hidden')\n")
    (last / "only_here.py").write_text("x = 1\n")
    text = "import typing_extensions, only_here\nprint(only_here.x)\n"
    assert output(worker, tmp_path, text, sys_path_last=[str(last)]) == "1\n"


def in_package(folder: Path, **files: str) -> dict[str, Any]:
    """Write a package; return the fields of a plan for its module ``train``."""
    package = folder / "package"
    package.mkdir()
    for name, text in {"__init__": "", **files}.items():
        (package / f"{name}.py").write_text(text)
    path = str(package / "train.py")
    return {"path": path, "module_name": "package.train", "package": "package", "sys_path": [str(folder)]}


def test_relative_imports_work_in_a_package(worker: WorkerClient, tmp_path: Path) -> None:
    fields = in_package(tmp_path, helper="x = 3\n")
    assert output(worker, tmp_path, "from .helper import x\ndef f():\n    print(x)\n", "f", **fields) == "3\n"


def test_relative_imports_work_in_a_script_of_a_package(worker: WorkerClient, tmp_path: Path) -> None:
    fields = {**in_package(tmp_path, helper="x = 3\n"), "module_name": "__main__"}
    assert output(worker, tmp_path, "from .helper import x\nprint(x, __name__)\n", **fields) == "3 __main__\n"


def test_a_package_may_import_what_the_run_did_not_need(worker: WorkerClient, tmp_path: Path) -> None:
    fields = in_package(tmp_path, __init__="from package.train import Net, helper\n")
    text = (
        "print('once')\nclass Net: ...\ndef helper(): ...\ndef f():\n    import package as p\n    print(p.Net is Net)\n"
    )
    assert output(worker, tmp_path, text, "f", setup=[[2, 0], [4, 0]], **fields) == "once\nTrue\n"


def test_a_package_may_use_its_module_as_an_attribute(worker: WorkerClient, tmp_path: Path) -> None:
    fields = in_package(tmp_path, __init__="import package.train\nNET = package.train.Net\n")
    text = "class Net: ...\ndef f():\n    import package\n    print(package.NET is Net)\n"
    assert output(worker, tmp_path, text, "f", setup=[[2, 0]], **fields) == "True\n"


def test_a_package_outside_of_the_workspace_may_use_its_module_as_an_attribute(
    worker: WorkerClient, tmp_path: Path
) -> None:
    fields = {**in_package(tmp_path, __init__="import package.train\nNET = package.train.Net\n"), "root": "/elsewhere"}
    text = "class Net: ...\ndef f():\n    import package\n    print(package.NET is Net)\n"
    assert output(worker, tmp_path, text, "f", setup=[[2, 0]], **fields) == "True\n"


def test_modules_that_import_each_other_see_what_python_shows_them(worker: WorkerClient, tmp_path: Path) -> None:
    """``blocks`` is imported in the middle of the text: it may have what is above, and nothing below."""
    blocks = "from package.train import LIMIT\nimport package.train as train\nearly = hasattr(train, 'f')\n"
    fields = in_package(tmp_path, blocks=blocks)
    text = "LIMIT = 3\nfrom .blocks import early, LIMIT as again\ndef f():\n    print(early, again)\n"
    assert output(worker, tmp_path, text, "f", setup=[[2, 0], [3, 0]], **fields) == "False 3\n"


def test_a_package_that_cannot_be_imported_is_told_without_a_traceback(worker: WorkerClient, tmp_path: Path) -> None:
    fields = in_package(tmp_path, __init__="import json.no_such_module\n")
    result = worker.run(plan(tmp_path, "def f(): ...\n", "f", **{**fields, "root": str(tmp_path / "elsewhere")}))
    (fault,) = result["faults"]
    assert fault["message"].startswith("the package `package` cannot be imported: ModuleNotFoundError")
    assert (result["outcome"], fault["code"], fault["at"]["line"]) == ("failed", "DG907", 1)


@pytest.mark.parametrize(
    "made",
    [
        "import argparse\nargparse.ArgumentParser().parse_args(['--unknown'])\nnet = 3\n",
        "import sys\nnet = sys.exit(2)\n",
        "import package.train\nnet = package.train.loaded()\n",
        "import package.train\nnet = package.train.built()\n",
    ],
)
def test_a_call_in_another_file_that_cannot_be_made_here_is_no_fault(
    worker: WorkerClient, tmp_path: Path, made: str
) -> None:
    text = """\
import socket
def loaded():
    socket.create_connection(('127.0.0.1', 9))
def built():
    import absent_xyz
def f(net): ...
"""
    caller = {"path": str(tmp_path / "calls.py"), "text": made, "module_name": "calls", "package": ""}
    lines = [number for number, line in enumerate(made.splitlines(), 1) if line]
    other = {**caller, "setup": [[line, 0] for line in lines], "shown": "calls.py:3"}
    fields = {**in_package(tmp_path), "elsewhere": other}
    asked = plan(tmp_path, text, "f", setup=[[1, 0], [2, 0], [4, 0], [6, 0]], arguments=[argument("net")], **fields)
    result = worker.run(asked)
    assert (result["outcome"], result["faults"]) == ("no-inputs", [])
    assert result["reason"].startswith("the call in calls.py:3 cannot be built: ")


TRAINING = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(100, 4)), batch_size=1, num_workers=4, prefetch_factor=2)
steps = 0
"""


def truncated(worker: WorkerClient, folder: Path, text: str) -> list[tuple[int, int]]:
    result = worker.run(plan(folder, text))
    assert result["outcome"] == "passed", result
    return [(entry["line"], entry["iterations"]) for entry in result.get("truncated", [])]


def test_a_loop_over_batches_ends_early(worker: WorkerClient, tmp_path: Path) -> None:
    text = TRAINING + "for (x,) in loader:\n    model(x).sum().backward()\n    optimizer.step()\n"
    result = worker.run(plan(tmp_path, text))
    assert [(entry["line"], entry["iterations"]) for entry in result["truncated"]] == [(7, 3)]
    assert "the loop at line 7 was stopped after 3 of 100 batches" in result["notes"]


def test_a_loop_that_is_stopped_goes_on_with_its_last_batch_where_that_is_shorter(
    worker: WorkerClient, tmp_path: Path
) -> None:
    text = TRAINING.replace("batch_size=1", "batch_size=8") + (
        "seen = []\n"
        "for (x,) in loader:\n    model(x).sum().backward()\n    optimizer.step()\n    seen.append(len(x))\n"
        "for part in torch.randn(65, 4).split(16):\n"
        "    model(part).sum().backward()\n    optimizer.step()\n    seen.append(len(part))\n"
        "for start in range(0, 65, 16):\n"
        "    model(torch.ones(4)).sum().backward()\n    optimizer.step()\n    seen.append(start)\n"
        "assert seen == [8, 8, 8, 4, 16, 16, 16, 1, 0, 16, 32, 64], seen\n"
    )
    result = worker.run(plan(tmp_path, text))
    assert result["outcome"] == "passed", result["error"]
    assert "the loop at line 8 continued with its last batch, which is shorter" in result["notes"]


def test_a_whole_accumulation_cycle_is_run(worker: WorkerClient, tmp_path: Path) -> None:
    text = TRAINING + (
        "for epoch in range(10):\n"
        "    for i, (x,) in enumerate(loader):\n"
        "        (model(x).sum() / 8).backward()\n"
        "        if (i + 1) % 8 == 0:\n"
        "            optimizer.step()\n"
    )
    assert truncated(worker, tmp_path, text) == [(8, 8), (7, 2)]


def test_a_while_loop_that_trains_ends_early(worker: WorkerClient, tmp_path: Path) -> None:
    text = TRAINING + (
        "while True:\n    model(torch.ones(2, 4)).sum().backward()\n    optimizer.step()\n    steps += 1\n"
    )
    assert truncated(worker, tmp_path, text) == [(7, 3)]


def test_an_evaluation_ends_early_also_in_a_comprehension(worker: WorkerClient, tmp_path: Path) -> None:
    assert truncated(worker, tmp_path, TRAINING + "losses = [model(x).sum() for (x,) in loader]\n") == [(7, 3)]


def test_loops_that_do_not_train_run_to_their_end(worker: WorkerClient, tmp_path: Path) -> None:
    text = TRAINING + (
        "h = torch.ones(1, 4)\nfor t in range(40):\n    h = h * 2\nfor p in model.parameters():\n    steps += 1\n"
        "print(h[0, 0].item() == 2.0**40, steps)\n"
    )
    assert output(worker, tmp_path, text) == "True 2\n"


def test_an_error_that_a_handler_prints_is_a_fault(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import torch\ntry:\n    torch.ones(2).backward()\nexcept RuntimeError as e:\n    print(e)\n"
    (fault,) = worker.run(plan(tmp_path, text))["faults"]
    assert fault["at"]["line"] == 3


def test_an_error_that_a_handler_handles_is_none(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import torch\ntry:\n    torch.ones(2).backward()\nexcept RuntimeError as e:\n    x = 1\n"
    assert worker.run(plan(tmp_path, text))["faults"] == []


def test_a_jump_makes_what_follows_a_block_of_its_own(worker: WorkerClient, tmp_path: Path) -> None:
    text = "def f(x):\n    if x:\n        return 1\n    y = 2\n    return y\n"
    assert worker.run(plan(tmp_path, text, "f", arguments=[argument("True")]))["blocks"] == [2, 3]
    assert worker.run(plan(tmp_path, text, "f", arguments=[argument("False")]))["blocks"] == [2, 4]


@pytest.mark.parametrize(
    ("returned", "backward"),
    [("{'a': [x * 2]}", "probe"), ("x.detach()", "none"), ("(x * 2).sum().backward()", "target"), ("None", "none")],
)
def test_the_backward_probe(worker: WorkerClient, tmp_path: Path, returned: str, backward: str) -> None:
    text = f"import torch\ndef f(x):\n    return {returned}\n"
    asked = plan(tmp_path, text, "f", arguments=[argument("torch.ones(2, requires_grad=True)")])
    assert worker.run(asked)["backward"] == backward


def test_a_process_group_of_one(worker: WorkerClient, tmp_path: Path) -> None:
    text = """\
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("nccl", init_method="env://", world_size=8, rank=3)
x = torch.arange(3.0)
dist.all_reduce(x)
gathered = [torch.zeros(3)]
dist.all_gather(gathered, x)
dist.broadcast(x, src=0)
dist.barrier()
objects = [None]
dist.all_gather_object(objects, "hello")
model = DistributedDataParallel(torch.nn.Linear(3, 1))
model(x).sum().backward()
print(dist.get_world_size(), dist.get_rank(), gathered[0].tolist(), objects, model.module.bias.grad.item())
dist.destroy_process_group()
"""
    assert output(worker, tmp_path, text) == "1 0 [0.0, 1.0, 2.0] ['hello'] 1.0\n"


def test_compilation_is_left_out(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import torch\n@torch.compile(mode='max-autotune')\ndef f(x):\n    return x\nprint(torch.compile(f)(3))\n"
    assert output(worker, tmp_path, text) == "3\n"


def test_a_compiled_module_is_behind_another(worker: WorkerClient, tmp_path: Path) -> None:
    text = """\
import torch
raw = torch.nn.Sequential(torch.nn.Linear(2, 2))
model = torch.compile(raw)
model.note = 7
print(model._orig_mod is raw, raw.note, len(model), list(model.state_dict()), model.eval().training, raw[0].training)
print(model(torch.ones(1, 2)).shape, sum(p.numel() for p in model.parameters()), model.to("cpu") is model)
"""
    said = "True 7 1 ['_orig_mod.0.weight', '_orig_mod.0.bias'] False False\ntorch.Size([1, 2]) 6 True\n"
    assert output(worker, tmp_path, text) == said


def test_the_same_seed_gives_the_same_numbers(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import random, torch\nprint(random.random(), torch.rand(2).tolist())\n"
    assert output(worker, tmp_path, text) == output(worker, tmp_path, text)
    assert output(worker, tmp_path, text) != output(worker, tmp_path, text, seed=1)


def test_a_device_that_is_not_there(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import torch\nx = torch.ones(2, device='cuda')\n"
    assert worker.run(plan(tmp_path, text))["outcome"] in ("unsupported", "passed")
    there = "passed" if torch.cuda.is_available() else "unsupported"
    assert worker.run(plan(tmp_path, text, device="cuda"))["outcome"] == there
