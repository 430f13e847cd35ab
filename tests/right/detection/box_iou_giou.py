"""Pairwise IoU and generalized IoU of boxes, and boxes fitted by a GIoU loss."""
import torch


def box_area(boxes):
    return (boxes[..., 2] - boxes[..., 0]).clamp(min=0) * (boxes[..., 3] - boxes[..., 1]).clamp(min=0)


def pairwise_iou(a, b, eps=1e-7):
    lt = torch.max(a[:, None, :2], b[None, :, :2])
    rb = torch.min(a[:, None, 2:], b[None, :, 2:])
    inter = (rb - lt).clamp(min=0).prod(dim=-1)
    union = box_area(a)[:, None] + box_area(b)[None, :] - inter
    return inter / union.clamp(min=eps), union


def aligned_giou(a, b, eps=1e-7):
    lt, rb = torch.max(a[:, :2], b[:, :2]), torch.min(a[:, 2:], b[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[:, 0] * wh[:, 1]
    union = (box_area(a) + box_area(b) - inter).clamp(min=eps)
    hull_lt, hull_rb = torch.min(a[:, :2], b[:, :2]), torch.max(a[:, 2:], b[:, 2:])
    hull_wh = hull_rb - hull_lt
    hull = (hull_wh[:, 0] * hull_wh[:, 1]).clamp(min=eps)
    return inter / union - (hull - union) / hull


def cxcywh_to_xyxy(boxes):
    c, wh = boxes[..., :2], boxes[..., 2:]
    return torch.cat([c - wh / 2, c + wh / 2], dim=-1)


def random_boxes(n, generator):
    c = torch.rand(n, 2, generator=generator)
    wh = 0.1 + 0.3 * torch.rand(n, 2, generator=generator)
    return torch.cat([c, wh], dim=1)


def main():
    g = torch.Generator().manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    target = cxcywh_to_xyxy(random_boxes(8, g).to(device))
    iou, _ = pairwise_iou(target, target)
    torch.testing.assert_close(iou.diagonal(), torch.ones(8, device=device))

    guess = random_boxes(8, g).to(device)
    center = guess[:, :2].clone().requires_grad_()
    log_size = guess[:, 2:].log().requires_grad_()  # sizes are at least 0.1
    opt = torch.optim.Adam([center, log_size], lr=2e-2)
    for step in range(150):
        boxes = cxcywh_to_xyxy(torch.cat([center, log_size.exp()], dim=1))
        loss = (1 - aligned_giou(boxes, target)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    with torch.no_grad():
        boxes = cxcywh_to_xyxy(torch.cat([center, log_size.exp()], dim=1))
        print(f"mean IoU {pairwise_iou(boxes, target)[0].diagonal().mean().item():.3f}")


if __name__ == "__main__":
    main()
