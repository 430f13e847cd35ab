import torch
from torch import nn

BATCH = 16
LATENT = 10


class SignEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 4, stride=2, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 4, stride=2, padding=1)
        self.fc = nn.Linear(16 * 4 * 4, LATENT)

    def forward(self, x):
        x = torch.relu(self.conv1(x))
        x = torch.relu(self.conv2(x))
        return self.fc(x.flatten(1))


class SignDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(LATENT, 16 * 4 * 4)
        self.up1 = nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1)
        self.up2 = nn.ConvTranspose2d(8, 1, 4, stride=2, padding=1)

    def forward(self, z):
        x = torch.relu(self.fc(z)).view(-1, 16, 4, 4)
        x = torch.relu(self.up1(x))
        return torch.sigmoid(self.up2(x))


torch.manual_seed(0)
encoder, decoder = SignEncoder(), SignDecoder()
params = list(encoder.parameters()) + list(decoder.parameters())
optimizer = torch.optim.Adam(params, lr=1e-3)
dataset = torch.rand(64, 1, 16, 16)
loader = torch.utils.data.DataLoader(dataset, batch_size=BATCH, shuffle=True, drop_last=True)
for epoch in range(2):
    for batch in loader:
        recon = decoder(encoder(batch))
        loss = nn.functional.mse_loss(recon, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", loss.item())
