# source: https://github.com/pytorch/pytorch/issues/140469
# target: script
# truth: the synthetic images are scaled after they were created with requires_grad=True and so are the result of an
#   operation; the optimizer refuses them with "can't optimize a non-leaf Tensor"
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class ConvNet(nn.Module):
    def __init__(self, channel, num_classes, width=8, im_size=(8, 8)):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(channel, width, 3, padding=1), nn.GroupNorm(width, width), nn.ReLU(), nn.AvgPool2d(2))
        self.classifier = nn.Linear(width * (im_size[0] // 2) * (im_size[1] // 2), num_classes)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def get_dataset(num_classes, per_class, channel, im_size):
    gen = torch.Generator().manual_seed(0)
    centers = torch.randn(num_classes, channel, *im_size, generator=gen)
    labels = torch.arange(num_classes).repeat_interleave(per_class)
    images = centers[labels] + 0.3 * torch.randn(len(labels), channel, *im_size, generator=gen)
    return images, labels


def distance_wb(gwr, gws):
    gwr, gws = gwr.flatten(1) if gwr.dim() > 1 else gwr[None], gws.flatten(1) if gws.dim() > 1 else gws[None]
    return (1 - F.cosine_similarity(gwr, gws, dim=-1, eps=1e-6)).sum()


def match_loss(gw_syn, gw_real, dis_metric):
    if dis_metric == "ours":
        return sum(distance_wb(r, s) for r, s in zip(gw_real, gw_syn) if r.dim() > 1)
    if dis_metric == "mse":
        return sum((r - s).pow(2).sum() for r, s in zip(gw_real, gw_syn))
    raise ValueError(f"unknown distance function: {dis_metric}")


def epoch(net, images, labels, optimizer):
    logits = net(images)
    loss = F.cross_entropy(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item(), (logits.argmax(1) == labels).float().mean().item()


def main(args):
    torch.manual_seed(args.seed)
    device = torch.device(args.dldevice)
    im_size, channel, num_classes = (8, 8), 1, 3
    images_all, labels_all = get_dataset(num_classes, 12, channel, im_size)
    images_all, labels_all = images_all.to(device), labels_all.to(device)

    def get_images(c, n):
        idx = (labels_all == c).nonzero().flatten()
        return images_all[idx[torch.randperm(len(idx))[:n]]]

    image_syn = torch.randn(size=(num_classes * args.dlipc, channel, im_size[0], im_size[1]), dtype=torch.float, requires_grad=True, device=device) * args.init_scale  # culprit
    label_syn = torch.arange(num_classes, device=device).repeat_interleave(args.dlipc)
    optimizer_img = torch.optim.SGD([image_syn], lr=args.dllr_img, momentum=0.5)

    for it in range(args.iterations):
        net = ConvNet(channel, num_classes, im_size=im_size).to(device)
        net_parameters = list(net.parameters())
        loss = torch.tensor(0.0, device=device)
        for c in range(num_classes):
            img_real = get_images(c, 6)
            lab_real = torch.full((len(img_real),), c, device=device)
            gw_real = torch.autograd.grad(F.cross_entropy(net(img_real), lab_real), net_parameters)
            mine = label_syn == c
            loss_syn = F.cross_entropy(net(image_syn[mine]), label_syn[mine])
            gw_syn = torch.autograd.grad(loss_syn, net_parameters, create_graph=True)
            loss = loss + match_loss(gw_syn, [g.detach() for g in gw_real], args.dis_metric)
        optimizer_img.zero_grad()
        loss.backward()
        optimizer_img.step()
        if it % 5 == 0:
            print(f"iter {it:04d} matching loss {loss.item() / num_classes:.4f}")

    net_eval = ConvNet(channel, num_classes, im_size=im_size).to(device)
    optimizer_net = torch.optim.SGD(net_eval.parameters(), lr=0.1)
    for _ in range(args.epoch_eval):
        train_loss, _ = epoch(net_eval, image_syn.detach(), label_syn, optimizer_net)
    with torch.no_grad():
        acc = (net_eval(images_all).argmax(1) == labels_all).float().mean().item()
    print(f"train loss {train_loss:.4f} accuracy on real images {acc:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Condense a data set into a few images per class")
    parser.add_argument("--dlipc", type=int, default=2)
    parser.add_argument("--dllr_img", type=float, default=1.0)
    parser.add_argument("--init_scale", type=float, default=0.01)
    parser.add_argument("--iterations", type=int, default=11)
    parser.add_argument("--epoch_eval", type=int, default=20)
    parser.add_argument("--dis_metric", default="ours", choices=["ours", "mse"])
    parser.add_argument("--dldevice", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args([]))
