# target: script
# source: https://github.com/fartashf/vsepp/issues/4
# truth: none, the repaired twin of caption_retrieval_mode.py
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class EncoderImage(nn.Module):
    def __init__(self, img_dim, embed_size):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(img_dim, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, embed_size))

    def forward(self, images):
        return F.normalize(self.fc(images), dim=-1)


class EncoderText(nn.Module):
    def __init__(self, vocab, word_dim, embed_size):
        super().__init__()
        self.embed = nn.Embedding(vocab, word_dim)
        self.drop = nn.Dropout(0.3)
        self.rnn = nn.GRU(word_dim, embed_size, batch_first=True)

    def forward(self, captions):
        _, h = self.rnn(self.drop(self.embed(captions)))
        return F.normalize(h[0], dim=-1)


class VSE(object):
    def __init__(self, opt):
        self.img_enc = EncoderImage(opt.img_dim, opt.embed_size)
        self.txt_enc = EncoderText(opt.vocab, opt.word_dim, opt.embed_size)
        self.margin = opt.margin
        params = list(self.img_enc.parameters()) + list(self.txt_enc.parameters())
        self.optimizer = torch.optim.Adam(params, lr=opt.lr)
        self.Eiters = 0

    def train_start(self):
        self.img_enc.train()
        self.txt_enc.train()

    def val_start(self):
        self.img_enc.eval()
        self.txt_enc.eval()

    def forward_emb(self, images, captions):
        return self.img_enc(images), self.txt_enc(captions)

    def train_emb(self, images, captions):
        self.Eiters += 1
        im, s = self.forward_emb(images, captions)
        scores = im @ s.t()
        diag = scores.diag().view(-1, 1)
        eye = torch.eye(len(scores), dtype=torch.bool)
        cost_s = (self.margin + scores - diag).clamp(min=0).masked_fill(eye, 0)
        cost_im = (self.margin + scores - diag.t()).clamp(min=0).masked_fill(eye, 0)
        loss = cost_s.max(1)[0].mean() + cost_im.max(0)[0].mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def pairs(opt, n, table):
    captions = torch.randint(0, opt.vocab, (n, 6))
    images = table[captions].mean(1) + 0.1 * torch.randn(n, opt.img_dim)
    return images, captions


def validate(opt, data, model):
    model.val_start()
    with torch.no_grad():
        im, s = model.forward_emb(*data)
    ranks = (im @ s.t()).argsort(1, descending=True)
    return (ranks[:, :1] == torch.arange(len(im)).view(-1, 1)).any(1).float().mean().item()


def train(opt, train_data, val_data, model, epoch):
    model.train_start()
    images, captions = train_data
    for idx in torch.randperm(len(images)).split(opt.batch_size):
        loss = model.train_emb(images[idx], captions[idx])
        if model.Eiters % opt.val_step == 0:
            rsum = validate(opt, val_data, model)
            model.train_start()
            print(f"[{epoch}][{model.Eiters:4d}] loss {loss:.3f} r@1 {rsum:.3f}")


def main():
    parser = argparse.ArgumentParser()
    for name, default in dict(img_dim=32, embed_size=48, vocab=60, word_dim=24, batch_size=16, val_step=10, epochs=3).items():
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--margin", type=float, default=0.2)
    opt = parser.parse_args()
    torch.manual_seed(0)
    table = torch.randn(opt.vocab, opt.img_dim)
    train_data, val_data = pairs(opt, 512, table), pairs(opt, 100, table)
    model = VSE(opt)
    for epoch in range(opt.epochs):
        train(opt, train_data, val_data, model, epoch)


if __name__ == "__main__":
    main()
