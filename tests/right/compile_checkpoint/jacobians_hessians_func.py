"""Jacobians, Hessians and Hessian-vector products with torch.func, compared with each other."""
import torch
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def polar(p):
    r, theta = p[0], p[1]
    return torch.stack([r * torch.cos(theta), r * torch.sin(theta)])


def hvp(f, x, v):
    return jvp(grad(f), (x,), (v,))[1]


def newton(f, x, steps, damping=1e-3):
    for _ in range(steps):
        g, h = grad(f)(x), hessian(f)(x)
        eye = torch.eye(x.numel(), dtype=x.dtype, device=x.device)
        x = x - torch.linalg.solve(h + damping * eye, g)
    return x


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    points = torch.rand(5, 2, dtype=torch.float64, device=device) + 0.5
    forward, reverse = vmap(jacfwd(polar))(points), vmap(jacrev(polar))(points)
    torch.testing.assert_close(forward, reverse)
    torch.testing.assert_close(torch.linalg.det(forward), points[:, 0])  # the determinant is r

    x = torch.tensor([0.8, 0.7, 0.6], dtype=torch.float64, device=device)
    v = torch.randn(3, dtype=torch.float64, device=device)
    torch.testing.assert_close(hvp(rosenbrock, x, v), hessian(rosenbrock)(x) @ v)

    value, pullback = vjp(rosenbrock, x)
    (g,) = pullback(torch.ones_like(value))
    torch.testing.assert_close(g, grad(rosenbrock)(x))

    solution = newton(rosenbrock, x, steps=12)
    print(f"start {value.item():.3f}, after Newton {rosenbrock(solution).item():.2e} at", [round(s, 4) for s in solution.tolist()])


if __name__ == "__main__":
    main()
