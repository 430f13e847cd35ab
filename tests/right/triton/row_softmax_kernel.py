"""A row-wise softmax kernel in Triton, masked by the true width, and its plain twin for the CPU."""
import importlib.util

import torch

HAS_TRITON = torch.cuda.is_available() and importlib.util.find_spec("triton") is not None

if HAS_TRITON:
    import triton
    import triton.language as tl

    @triton.jit
    def softmax_kernel(out_ptr, in_ptr, in_stride, out_stride, n_cols, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        cols = tl.arange(0, BLOCK)
        inside = cols < n_cols
        x = tl.load(in_ptr + row * in_stride + cols, mask=inside, other=-float("inf")).to(tl.float32)
        x = x - tl.max(x, axis=0)
        num = tl.exp(x)
        result = num / tl.sum(num, axis=0)
        tl.store(out_ptr + row * out_stride + cols, result, mask=inside)

    def triton_softmax(x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        rows, cols = x.shape
        out = torch.empty_like(x)
        block = triton.next_power_of_2(cols)
        softmax_kernel[(rows,)](out, x, x.stride(0), out.stride(0), cols, BLOCK=block)
        return out


def plain_softmax(x: torch.Tensor) -> torch.Tensor:
    shifted = x.float() - x.float().amax(dim=1, keepdim=True)
    num = shifted.exp()
    return (num / num.sum(dim=1, keepdim=True)).to(x.dtype)


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    """Forward only; meant for inference."""
    if x.dim() != 2 or x.size(1) == 0:
        raise ValueError("expected rows of at least one column")
    with torch.no_grad():
        if HAS_TRITON and x.is_cuda:
            return triton_softmax(x)
        return plain_softmax(x)


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for rows, cols in [(1, 1), (7, 33), (64, 100)]:
        x = 20 * torch.randn(rows, cols, device=device)
        torch.testing.assert_close(row_softmax(x), torch.softmax(x, dim=1))
    half = torch.randn(4, 50, device=device).to(torch.bfloat16)
    sums = row_softmax(half).float().sum(dim=1)
    print("implementation:", "triton" if HAS_TRITON else "plain", "| sums of rows", [round(s, 2) for s in sums.tolist()])


if __name__ == "__main__":
    main()
