"""Average precision of detections at an IoU threshold, by greedy matching of sorted scores."""
import torch


def iou_to_many(box, others):
    lt = torch.maximum(box[:2], others[:, :2])
    rb = torch.minimum(box[2:], others[:, 2:])
    inter = (rb - lt).clamp(min=0).prod(dim=1)
    area = (box[2:] - box[:2]).prod()
    areas = (others[:, 2:] - others[:, :2]).prod(dim=1)
    return inter / (area + areas - inter).clamp(min=1e-9)


def average_precision(boxes, scores, image_ids, gt_by_image, threshold=0.5):
    """All tensors live on the CPU: matching is sequential by nature."""
    total = sum(len(v) for v in gt_by_image.values())
    if total == 0:
        return float("nan")
    used = {k: torch.zeros(len(v), dtype=torch.bool) for k, v in gt_by_image.items()}
    tp = torch.zeros(len(boxes))
    order = scores.argsort(descending=True)
    for rank, d in enumerate(order.tolist()):
        image = int(image_ids[d])
        gt = gt_by_image.get(image)
        if gt is None or len(gt) == 0:
            continue
        overlap = iou_to_many(boxes[d], gt).masked_fill(used[image], -1.0)
        best = int(overlap.argmax())
        if overlap[best] >= threshold:
            used[image][best] = True
            tp[rank] = 1.0
    cum = tp.cumsum(0)
    recall = cum / total
    precision = cum / torch.arange(1, len(tp) + 1)
    # the envelope from the right, then the area under the steps
    envelope = precision.flip(0).cummax(0).values.flip(0)
    step = torch.diff(recall, prepend=recall.new_zeros(1))
    return (envelope * step).sum().item()


def simulate(jitter, generator):
    gt, boxes, scores, ids = {}, [], [], []
    for image in range(10):
        xy = torch.rand(3, 2, generator=generator) * 60 + torch.arange(3).unsqueeze(1) * 80
        truth = torch.cat([xy, xy + 20 + 10 * torch.rand(3, 2, generator=generator)], dim=1)
        gt[image] = truth
        noisy = truth + jitter * torch.randn(truth.shape, generator=generator)
        false = torch.tensor([[300.0, 300.0, 320.0, 330.0]])
        boxes += [noisy, false]
        scores += [0.5 + 0.5 * torch.rand(3, generator=generator), 0.6 * torch.rand(1, generator=generator)]
        ids += [torch.full((4,), image)]
    return torch.cat(boxes), torch.cat(scores), torch.cat(ids), gt


if __name__ == "__main__":
    for jitter in (0.0, 2.0, 6.0):
        g = torch.Generator().manual_seed(1)
        args = simulate(jitter, g)
        row = [f"{average_precision(*args, threshold=t):.3f}" for t in (0.5, 0.75)]
        print(f"jitter {jitter}: AP50 {row[0]}, AP75 {row[1]}")
