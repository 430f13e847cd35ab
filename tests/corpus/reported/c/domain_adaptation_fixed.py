# source: https://github.com/microsoft/ProDA/issues/20
import copy
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F


class SegNet(nn.Module):
    def __init__(self, n_class, width=8, bn_clr=True):
        super().__init__()
        self.feat = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))
        self.bn_pretrain = nn.BatchNorm2d(width, affine=False) if bn_clr else nn.Identity()
        self.cls = nn.Conv2d(width, n_class, 1)

    def forward(self, x):
        feat = self.bn_pretrain(F.relu(self.feat(x)))
        return {"feat": feat, "out": self.cls(feat)}


def cross_entropy2d(input, target, ignore_index=250):
    loss = F.cross_entropy(input, target, ignore_index=ignore_index, reduction="sum")
    return loss / (target != ignore_index).sum().clamp(min=1)


class AdaptationModel:
    """Student on the target domain with pseudo labels and a frozen teacher of the previous stage."""

    def __init__(self, opt):
        self.opt = opt
        self.student = SegNet(opt.n_class)
        self.teacher = copy.deepcopy(self.student).eval()
        nn.init.xavier_uniform_(self.student.cls.weight)
        for param in self.teacher.parameters():
            param.requires_grad = False
        self.optimizer = torch.optim.SGD(self.student.parameters(), lr=opt.lr, momentum=0.9, weight_decay=2e-4)

    def pseudo_labels(self, images):
        with torch.no_grad():
            prob = F.softmax(self.teacher(images)["out"], dim=1)
        conf, label = prob.max(dim=1)
        return label.masked_fill(conf < self.opt.threshold, 250)

    def kd_loss(self, target_out, teacher_out):
        student = F.log_softmax(target_out["out"], dim=1)
        with torch.no_grad():
            teacher = F.softmax(teacher_out["out"], dim=1)
        loss = F.kl_div(student, teacher, reduction="none")
        mask = (teacher != 250).float()
        return (loss * mask).sum() / mask.sum()

    def step_distillation(self, source_x, source_label, target_x):
        self.student.train()
        source_out = self.student(source_x)
        loss_seg = cross_entropy2d(source_out["out"], source_label)

        target_out = self.student(target_x)
        target_label = self.pseudo_labels(target_x)
        loss_ce = cross_entropy2d(target_out["out"], target_label)

        with torch.no_grad():
            teacher_out = self.teacher(target_x)
        loss_kd = self.kd_loss(target_out, teacher_out)

        loss = loss_seg + self.opt.target_weight * loss_ce + self.opt.distill * loss_kd
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item(), loss_seg.item(), loss_kd.item()


def train(opt):
    torch.manual_seed(opt.seed)
    model = AdaptationModel(opt)
    for i in range(opt.train_iters):
        source = torch.rand(2, 3, 10, 10)
        label = (source.mean(dim=1) * opt.n_class).long().clamp(max=opt.n_class - 1)
        target = torch.rand(2, 3, 10, 10) * 0.8
        loss, seg, kd = model.step_distillation(source, label, target)
        if i % opt.print_interval == 0:
            print(f"iter [{i}/{opt.train_iters}] loss {loss:.4f} seg {seg:.4f} kd {kd:.5f}")


if __name__ == "__main__":
    train(SimpleNamespace(n_class=4, lr=0.02, threshold=0.3, target_weight=0.1, distill=1.0, train_iters=20,
                          print_interval=5, seed=1337))
