"""Small programs with one fault each, and the words in which a GPU refuses them.

The simulated device must say them; ``tests/gpu`` compares them with those of a real GPU.
"""

from __future__ import annotations

SAME = "Expected all tensors to be on the same device, but "
TWO = "RuntimeError: " + SAME + "found at least two devices, cuda:0 and cpu!"


def wrapper(argument: str, where: str, method: str) -> str:
    other = {"cpu": "cuda:0", "cuda:0": "cpu"}[where]
    return (
        f"RuntimeError: {SAME}got {argument} is on {where}, different from other tensors on {other} (when checking "
        f"argument in method wrapper_CUDA_{method})"
    )


def missing(kernel: str, dtype: str) -> str:
    return f"NotImplementedError: \"{kernel}\" not implemented for '{dtype}'"


# Each is an expression over ``c`` (ones of length 3 on the GPU), ``h`` (the same on the host), ``i`` and ``j`` (the
# int64 indices 0, 1, 2 on either), ``m`` and ``n`` (2 x 3 and 3 x 2 on the GPU).
DEVICE = {
    "c + h": TWO,
    "h * c": TWO,
    "c.add_(h)": TWO,
    "torch.where(c > 0, c, h)": TWO,
    "torch.maximum(c, h)": TWO,
    "F.mse_loss(c, h)": TWO,
    "F.binary_cross_entropy_with_logits(c, h)": TWO,
    "torch._foreach_add([c, c], [c, h])": TWO,
    "m @ torch.ones(3, 2)": wrapper("mat2", "cpu", "mm"),
    "F.linear(torch.ones(2, 3), m)": wrapper("mat2", "cuda:0", "mm"),
    "nn.Linear(3, 2).cuda()(torch.ones(2, 3))": wrapper("mat1", "cpu", "addmm"),
    "nn.Linear(3, 2)(m)": wrapper("mat1", "cuda:0", "addmm"),
    "torch.cat([c, h])": wrapper("tensors", "cpu", "cat"),
    "torch.stack([h, c])": wrapper("tensors", "cuda:0", "cat"),
    "torch.dot(c, h)": wrapper("tensor", "cpu", "_dot"),
    "F.cross_entropy(m, torch.tensor([0, 1]))": wrapper("target", "cpu", "nll_loss_forward"),
    "nn.Embedding(3, 2).cuda()(j)": wrapper("index", "cpu", "_index_select"),
    "c.gather(0, j)": wrapper("index", "cpu", "gather"),
    "nn.LayerNorm(3)(m)": wrapper("weight", "cpu", "_native_layer_norm"),
    "nn.BatchNorm1d(3)(m)": wrapper("weight", "cpu", "_native_batch_norm"),
    "nn.Conv1d(2, 2, 1)(m)": (
        "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same"
    ),
    "nn.Conv2d(3, 3, 3).cuda()(torch.ones(2, 3, 8, 8))": (
        "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or "
        "input should be a MKLDNN tensor and weight is a dense tensor"
    ),
    "h[i]": "RuntimeError: indices should be either on cpu or on the same device as the indexed tensor (cpu)",
    "c.masked_fill(h > 0, 1.0)": (
        "RuntimeError: expected self and mask to be on the same device, but got mask on cpu and self on cuda:0"
    ),
    "c.numpy()": (
        "TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
        "memory first."
    ),
    "c.pin_memory()": "RuntimeError: cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned",
    "torch.randn(3, device='cuda', generator=torch.Generator())": (
        "RuntimeError: Expected a 'cuda' device type for generator but found 'cpu'"
    ),
}
DTYPE = {
    "i @ i": missing("dot", "Long"),
    "m.long() @ n.long()": missing("addmm_cuda", "Long"),
    "m.long()[None] @ n.long()[None]": missing("baddbmm_cuda", "Long"),
    "F.linear(m.int(), m.int())": missing("addmm_cuda", "Int"),
    "m.long() @ i": missing("addmv_impl_cuda", "Long"),
    "F.conv1d(m.long()[None], torch.ones(1, 2, 1, device='cuda').long())": (
        "RuntimeError: getCudnnDataTypeFromScalarType() not supported for Long"
    ),
    "F.max_pool2d(m.long()[None], 2)": missing("max_pool2d_with_indices_out_cuda_frame", "Long"),
    "F.softmax(i, 0)": missing("host_softmax", "Long"),
    "F.dropout(i, 0.5)": missing("fused_dropout", "Long"),
    "torch.randn(3, device='cuda', dtype=torch.long)": missing("normal_kernel_cuda", "Long"),
    "m @ n.double()": "RuntimeError: expected mat1 and mat2 to have the same dtype, but got: float != double",
    "c.add_(1j)": "RuntimeError: result type ComplexFloat can't be cast to the desired output type Float",
    "F.cross_entropy(m, torch.zeros(2, device='cuda'))": (
        "RuntimeError: expected target dtype to be Long or Byte, but got Float"
    ),
    "torch.linalg.inv(torch.eye(2, device='cuda').half())": (
        "RuntimeError: linalg.inv: Low precision dtypes not supported. Got Half"
    ),
}
SHAPE = {
    "m @ m": "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)",
    "m + n": "RuntimeError: The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1",
    "m.view(4)": "RuntimeError: shape '[4]' is invalid for input of size 6",
    "torch.cat([m, n])": (
        "RuntimeError: Sizes of tensors must match except in dimension 0. Expected size 3 but got size 2 for tensor "
        "number 1 in the list."
    ),
    "F.cross_entropy(m, i)": "ValueError: Expected input batch_size (2) to match target batch_size (3).",
    "torch.ones(1, device='cuda').expand(3).add_(1)": (
        "RuntimeError: unsupported operation: more than one element of the written-to tensor refers to a single memory "
        "location. Please clone() the tensor before performing the operation."
    ),
    "c[1:].add_(c[:-1])": (
        "RuntimeError: unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
        "single memory location. Please clone() the tensor before performing the operation."
    ),
}
INDEX = {
    "c[3]": "IndexError: index 3 is out of bounds for dimension 0 with size 3",
    "m.sum(2)": "IndexError: Dimension out of range (expected to be in range of [-2, 1], but got 2)",
    "torch.ones(2, device='cuda:7')": "AcceleratorError: CUDA error: invalid device ordinal",
    "c.to('cuda:3')": "AcceleratorError: CUDA error: invalid device ordinal",
}
PROGRAMS = {**DEVICE, **DTYPE, **SHAPE, **INDEX}
UNTIL_2_12 = {
    "F.cross_entropy(m, torch.zeros(2, device='cuda'))": missing(
        "nll_loss_forward_reduce_cuda_kernel_2d_index", "Float"
    )
}
"""What older releases of torch say instead."""

PREPARED = """
c, h = torch.ones(3, device="cuda"), torch.ones(3)
i, j = torch.arange(3, device="cuda"), torch.arange(3)
m, n = torch.ones(2, 3, device="cuda"), torch.ones(3, 2, device="cuda")
"""


def words(program: str, torch_version: str) -> str:
    """Return the words in which a release of torch refuses a program."""
    older = tuple(int(part) for part in torch_version.split(".")[:2]) <= (2, 12)
    return (older and UNTIL_2_12.get(program)) or PROGRAMS[program]


def first_line(message: str) -> str:
    """Return what tells faults apart: the rest of a CUDA error is the same for all."""
    return message.splitlines()[0]
